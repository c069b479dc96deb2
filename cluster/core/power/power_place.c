/* Placement of a job under power caps: its GPUs, operating point and clock.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/power/power_budget.h"

#include <math.h>
#include <string.h>

#include "cluster/core/model/placement.h"

/* ---- at which clock ------------------------------------------------------------------------- */

/* While more than this share of the watts is free, jobs do not wait for watts: watts lose this
 * part of their price for each part of the watts that is free beyond it. Chosen with the runs of
 * test_power_cap and Philly and Chronus under caps, not measured individually. */
#define SPARE_RATIO 0.2
#define SPARE_LOSS 4.0

/* Returns whether two operating points of a job differ in nothing but their clock. */
static bool is_clock_of(const struct lull_power_budget *budget, uint32_t job, uint32_t point,
                        uint32_t of)
{
    const struct lull_cluster_point *points = budget->jobs->all[job].points;

    return points[point].type == points[of].type && points[point].gpus == points[of].gpus;
}

/* Returns whether there is a cap of the cluster that leaves watts for jobs. */
static bool has_price(const struct lull_power_budget *budget)
{
    return budget->cap.cluster_w > budget->idle_w;
}

static struct lull_power_use use_of(const struct lull_power_budget *budget, uint32_t job,
                                    uint32_t point)
{
    const struct lull_cluster_point *asked = &budget->jobs->all[job].points[point];
    const double time_s = (double)asked->time_ns * 1e-9;

    return (struct lull_power_use){time_s * asked->gpus / (double)budget->gpus,
                                   time_s * lull_power_budget_total_w(budget, job, point) /
                                       (budget->cap.cluster_w - budget->idle_w)};
}

/* Lists the resources that a waiting job takes at each clock: of the first operating point that
 * the caps allow, all clocks that they allow. Returns how many. */
static uint32_t power_place_clocks_of(const struct lull_power_budget *budget, uint32_t job,
                                      struct lull_power_use *uses_out)
{
    uint32_t first = LULL_POWER_NONE;
    uint32_t count = 0;

    for (uint32_t point = 0; point < budget->jobs->all[job].point_count; point++) {
        if (!lull_power_budget_could(budget, job, point) ||
            (count > 0 && !is_clock_of(budget, job, point, first)))
            continue;
        if (count == 0)
            first = point;
        uses_out[count++] = use_of(budget, job, point);
    }
    return count;
}

void lull_power_budget_wait(struct lull_power_budget *budget, uint32_t job, bool waits)
{
    struct lull_power_use uses[LULL_CLUSTER_MAX_POINTS];

    if (!has_price(budget))
        return;
    if (waits)
        lull_power_price_add(&budget->price, uses, power_place_clocks_of(budget, job, uses));
    else
        lull_power_price_remove(&budget->price, uses, power_place_clocks_of(budget, job, uses));
}

/* The price of watts relative to that of GPUs, reduced for unused watts. */
static double watts_ratio(const struct lull_power_budget *budget)
{
    const double free_ratio =
        (budget->cap.cluster_w - budget->sum_w) / (budget->cap.cluster_w - budget->nodes_w);

    return lull_power_price_ratio(&budget->price) -
           SPARE_LOSS * fmax(free_ratio - SPARE_RATIO, 0.0);
}

/* The operating point of the decision's job that costs least at the price of watts that the
 * waiting jobs set (power_price.h). It is never late where the decided one is not. If no other job
 * waits, the decision is unchanged, since its clock delays no job. */
static uint32_t cheapest_point(const struct lull_power_budget *budget,
                               const struct lull_cluster_decision *decision, int64_t now_ns)
{
    const struct lull_cluster_job *job = &budget->jobs->all[decision->job];
    const int64_t left_ns = job->deadline_ns - now_ns;
    const bool is_late = left_ns < job->points[decision->point].time_ns;
    double min_s = INFINITY;
    uint32_t best = decision->point;
    double ratio;

    if (!has_price(budget) || budget->price.count < 2 || job->point_count == 1)
        return best;
    ratio = watts_ratio(budget);
    for (uint32_t point = 0; point < job->point_count && ratio > 0.0; point++) {
        const struct lull_power_use use = use_of(budget, decision->job, point);
        const double cost_s = ratio * use.watts_s + (1.0 - ratio) * use.gpus_s;

        if (!is_clock_of(budget, decision->job, point, decision->point) || cost_s >= min_s ||
            (!is_late && left_ns < job->points[point].time_ns))
            continue;
        min_s = cost_s;
        best = point;
    }
    return best;
}

/* ---- the job that waits for watts --------------------------------------------------------- */

bool lull_power_budget_fits_reservation(const struct lull_power_budget *budget, uint32_t job,
                                        double more_w, int64_t until_ns)
{
    return budget->head == LULL_POWER_NONE || budget->head == job || budget->running == 0 ||
           until_ns <= budget->head_ns || more_w <= budget->spare_w;
}

void lull_power_budget_pass(struct lull_power_budget *budget, uint32_t job, double more_w,
                            int64_t until_ns)
{
    if (budget->head == job)
        budget->head = LULL_POWER_NONE;
    if (budget->head != LULL_POWER_NONE && until_ns > budget->head_ns)
        budget->spare_w = fmax(budget->spare_w - more_w, 0.0);
}

void lull_power_budget_reserve(struct lull_power_budget *budget, uint32_t job, int64_t now_ns)
{
    if (budget->head != LULL_POWER_NONE)
        return;
    budget->head = job;
    budget->head_ns = lull_power_budget_when(budget, budget->min_w[job], now_ns, &budget->spare_w);
}

/* ---- placement and operating point ------------------------------------------------------- */

/* The first node from a number on that has exactly free_gpus free GPUs and may draw more_w more;
 * UINT32_MAX: there is none. */
static uint32_t power_place_find(const struct lull_power_budget *budget,
                                 const struct lull_cluster_state *state,
                                 const struct lull_cluster_node *group, uint32_t free_gpus,
                                 double more_w, uint32_t from)
{
    for (;;) {
        const uint32_t node =
            lull_cluster_state_find(state, group->pool, group->type, free_gpus, from);

        if (node == UINT32_MAX || lull_power_budget_has_on(budget, node, more_w))
            return node;
        from = node + 1;
    }
}

/* Consolidated (placement.h), but only on nodes with room under the node's cap. */
static size_t power_place_node(const struct lull_power_budget *budget,
                               const struct lull_cluster_state *state, uint32_t job, uint32_t point,
                               struct lull_cluster_share *shares)
{
    const struct lull_cluster_point *asked = &budget->jobs->all[job].points[point];
    const struct lull_cluster_node group = {.pool = budget->jobs->all[job].pool,
                                            .type = asked->type};
    const uint32_t most = lull_cluster_state_node_gpus(state, group.pool, group.type);
    const double gpu_w = lull_power_budget_extra_w(budget, job, point);
    uint32_t left = asked->gpus;
    uint32_t from = 0;
    size_t count = 0;

    if (!(budget->cap.node_w > 0.0))
        return lull_cluster_place_consolidated(state, group.pool, group.type, left, shares);
    for (; left > most; left -= most) {
        const uint32_t node = power_place_find(budget, state, &group, most, gpu_w * most, from);

        if (node == UINT32_MAX || most == 0)
            return 0;
        shares[count++] = (struct lull_cluster_share){node, most};
        from = node + 1;
    }
    for (uint32_t i = left; i <= most; i++) {
        const uint32_t free_gpus = count > 0 ? most + left - i : i;
        const uint32_t node = power_place_find(budget, state, &group, free_gpus, gpu_w * left,
                                               free_gpus == most ? from : 0);

        if (node == UINT32_MAX)
            continue;
        shares[count++] = (struct lull_cluster_share){node, left};
        return count;
    }
    return 0;
}

/* Returns whether the caps, and the job that waits for watts, allow a start on these shares. */
static bool power_place_fits(const struct lull_power_budget *budget, uint32_t job, uint32_t point,
                             const struct lull_cluster_share *shares, size_t count, int64_t now_ns)
{
    const double gpu_w = lull_power_budget_extra_w(budget, job, point);
    const double more_w = lull_power_budget_total_w(budget, job, point);

    for (size_t i = 0; i < count; i++)
        if (!lull_power_budget_has_on(budget, shares[i].node, gpu_w * shares[i].gpus))
            return false;
    return lull_power_budget_has(budget, more_w) &&
           lull_power_budget_fits_reservation(
               budget, job, more_w, now_ns + budget->jobs->all[job].points[point].time_ns);
}

/* The untried operating point that draws most; LULL_POWER_NONE: all have been tried. */
static uint32_t power_place_next_point(const struct lull_power_budget *budget, uint32_t job,
                                       uint32_t tried)
{
    uint32_t best = LULL_POWER_NONE;

    for (uint32_t point = 0; point < budget->jobs->all[job].point_count; point++)
        if ((tried >> point & 1) == 0 &&
            (best == LULL_POWER_NONE || lull_power_budget_total_w(budget, job, point) >
                                            lull_power_budget_total_w(budget, job, best)))
            best = point;
    return best;
}

/* Puts a start into an operating point, on its own nodes or on others; false: it does not fit. */
static bool try_point(const struct lull_power_budget *budget,
                      const struct lull_cluster_state *state, int64_t now_ns, uint32_t point,
                      struct lull_cluster_decision *decision)
{
    const uint32_t job = decision->job;
    size_t count;

    if (!lull_power_budget_has(budget, lull_power_budget_total_w(budget, job, point)) ||
        !lull_power_budget_could(budget, job, point))
        return false;
    if (is_clock_of(budget, job, point, decision->point) &&
        power_place_fits(budget, job, point, decision->shares, decision->share_count, now_ns)) {
        decision->point = point;
        return true;
    }
    count = power_place_node(budget, state, job, point, budget->trial);
    if (count == 0 || !power_place_fits(budget, job, point, budget->trial, count, now_ns))
        return false;
    memcpy(decision->shares, budget->trial, count * sizeof(*budget->trial));
    decision->share_count = count;
    decision->point = point;
    return true;
}

bool lull_power_budget_replace(const struct lull_power_budget *budget,
                               const struct lull_cluster_state *state, int64_t now_ns,
                               struct lull_cluster_decision *decision)
{
    uint32_t tried = 0;
    uint32_t point;

    if (!lull_power_budget_has(budget, budget->min_w[decision->job]))
        return false;
    point = cheapest_point(budget, decision, now_ns);
    if (try_point(budget, state, now_ns, point, decision))
        return true;
    tried |= UINT32_C(1) << point;
    if (point != decision->point && try_point(budget, state, now_ns, decision->point, decision))
        return true;
    tried |= UINT32_C(1) << decision->point;
    while ((point = power_place_next_point(budget, decision->job, tried)) != LULL_POWER_NONE) {
        if (try_point(budget, state, now_ns, point, decision))
            return true;
        tried |= UINT32_C(1) << point;
    }
    return false;
}
