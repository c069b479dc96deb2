/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/power/power_budget.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Repeatedly updated sums have rounding errors: an excess below this share of a cap is ignored. */
#define ROUNDING 1e-9

double lull_power_budget_idle_w(const struct lull_cluster *cluster, uint32_t node)
{
    return cluster->types[cluster->nodes[node].type].idle_w * cluster->nodes[node].gpus;
}

double lull_power_budget_turning_on_w(const struct lull_cluster *cluster, uint32_t node)
{
    const struct lull_cluster_type *type = &cluster->types[cluster->nodes[node].type];
    const double idle_w = lull_power_budget_idle_w(cluster, node);

    if (type->turn_on_ns == 0)
        return idle_w;
    return fmax(idle_w, type->turn_on_j / ((double)type->turn_on_ns * 1e-9));
}

/* Returns whether every node can be on, and be turned on, while nothing runs: jobs then always get
 * on. */
static int power_budget_check(const struct lull_power_budget *budget, struct lull_error *err)
{
    const struct lull_power_cap *cap = &budget->cap;
    double max_more_w = 0.0;

    if (!(cap->peak_ratio >= 1.0) || isinf(cap->peak_ratio))
        return lull_error_set(err, -EINVAL,
                              "the peak power of a job is at least its mean, not %g times it",
                              cap->peak_ratio);
    for (uint32_t i = 0; i < budget->cluster->node_count; i++) {
        const double turning_on_w = cap->turns_nodes_on
                                        ? lull_power_budget_turning_on_w(budget->cluster, i)
                                        : budget->node_w[i];

        max_more_w = fmax(max_more_w, turning_on_w - budget->node_w[i]);
        if (cap->node_w > 0.0 && turning_on_w > cap->node_w)
            return lull_error_set(err, -EINVAL,
                                  "a cap of %g W per node is below the %g W that node %u draws "
                                  "without a job",
                                  cap->node_w, turning_on_w, i);
    }
    if (cap->cluster_w > 0.0 && budget->sum_w + max_more_w > cap->cluster_w)
        return lull_error_set(err, -EINVAL,
                              "a power cap of %g W is below the %g W that the cluster draws "
                              "without a job",
                              cap->cluster_w, budget->sum_w + max_more_w);
    return 0;
}

static int power_budget_make_room(struct lull_power_budget *budget)
{
    const uint32_t nodes = budget->cluster->node_count;
    const size_t jobs = budget->jobs->count > 0 ? budget->jobs->count : 1;

    budget->node_w = calloc(nodes, sizeof(*budget->node_w));
    budget->empty_w = calloc(nodes, sizeof(*budget->empty_w));
    budget->trial = calloc(nodes, sizeof(*budget->trial));
    budget->loads = calloc(jobs, sizeof(*budget->loads));
    budget->min_w = calloc(jobs, sizeof(*budget->min_w));
    if (budget->node_w == NULL || budget->empty_w == NULL || budget->trial == NULL ||
        budget->loads == NULL || budget->min_w == NULL ||
        lull_node_groups_init(&budget->groups, budget->cluster) < 0)
        return -ENOMEM;
    return 0;
}

int lull_power_budget_init(struct lull_power_budget *budget, const struct lull_cluster *cluster,
                           const struct lull_cluster_jobs *jobs, const struct lull_power_cap *cap,
                           struct lull_error *err)
{
    int rc;

    *budget = (struct lull_power_budget){
        .cluster = cluster, .jobs = jobs, .cap = *cap, .head = LULL_POWER_NONE};
    if (power_budget_make_room(budget) < 0) {
        lull_power_budget_fini(budget);
        return lull_error_set(err, -ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        budget->gpus += cluster->nodes[i].gpus;
        budget->idle_w += lull_power_budget_idle_w(cluster, i);
        lull_power_budget_set_empty(budget, i, lull_power_budget_idle_w(cluster, i));
    }
    rc = power_budget_check(budget, err);
    if (rc < 0)
        lull_power_budget_fini(budget);
    return rc;
}

void lull_power_budget_fini(struct lull_power_budget *budget)
{
    for (size_t i = 0; budget->loads != NULL && i < budget->jobs->count; i++)
        free(budget->loads[i].shares);
    free(budget->loads);
    free(budget->min_w);
    free(budget->node_w);
    free(budget->empty_w);
    free(budget->trial);
    lull_node_groups_fini(&budget->groups);
    lull_heap_fini(&budget->ends);
}

double lull_power_budget_extra_w(const struct lull_power_budget *budget, uint32_t job,
                                 uint32_t point)
{
    const struct lull_cluster_point *asked = &budget->jobs->all[job].points[point];
    const double mean_w = asked->energy_j / ((double)asked->time_ns * 1e-9) / asked->gpus;

    return fmax(mean_w * budget->cap.peak_ratio - budget->cluster->types[asked->type].idle_w, 0.0);
}

double lull_power_budget_total_w(const struct lull_power_budget *budget, uint32_t job,
                                 uint32_t point)
{
    return lull_power_budget_extra_w(budget, job, point) *
           budget->jobs->all[job].points[point].gpus;
}

bool lull_power_budget_has(const struct lull_power_budget *budget, double more_w)
{
    return !(budget->cap.cluster_w > 0.0) ||
           budget->sum_w + more_w <= budget->cap.cluster_w * (1.0 + ROUNDING);
}

bool lull_power_budget_has_on(const struct lull_power_budget *budget, uint32_t node, double more_w)
{
    return !(budget->cap.node_w > 0.0) ||
           budget->node_w[node] + more_w <= budget->cap.node_w * (1.0 + ROUNDING);
}

/* ---- jobs --------------------------------------------------------------------------------- */

/* The number of a job's end in the heap: an end that is reported again, even for the same time,
 * gets another number, so that a job's watts are not released twice. */
static uint64_t power_budget_number_of(uint32_t job, uint32_t ends)
{
    return (uint64_t)ends << 32 | job;
}

/* Adds the end of a job, which replaces the one before. -ENOMEM: nothing has changed. */
static int set_end(struct lull_power_budget *budget, uint32_t job, int64_t end_ns)
{
    struct lull_power_load *const load = &budget->loads[job];

    if (lull_heap_add(&budget->ends, end_ns, power_budget_number_of(job, load->ends + 1)) < 0)
        return -ENOMEM;
    load->ends++;
    return 0;
}

/* The job that ends there. NULL: the end was moved, or the job runs no longer. */
static const struct lull_power_load *load_of(const struct lull_power_budget *budget,
                                             const struct lull_heap_entry *end, uint32_t *job_out)
{
    const uint32_t job = (uint32_t)end->number;
    const struct lull_power_load *const load = &budget->loads[job];

    *job_out = job;
    return load->share_count > 0 && end->number == power_budget_number_of(job, load->ends) ? load
                                                                                           : NULL;
}

static void power_budget_draw(struct lull_power_budget *budget, uint32_t node, double more_w)
{
    budget->node_w[node] += more_w;
    budget->sum_w += more_w;
}

static void draw_all(struct lull_power_budget *budget, const struct lull_power_load *load,
                     double gpu_w)
{
    for (uint32_t i = 0; i < load->share_count; i++)
        power_budget_draw(budget, load->shares[i].node, gpu_w * load->shares[i].gpus);
}

int lull_power_budget_add(struct lull_power_budget *budget, uint32_t job, uint32_t point,
                          const struct lull_cluster_share *shares, size_t count, int64_t now_ns)
{
    struct lull_power_load *const load = &budget->loads[job];
    struct lull_cluster_share *own = malloc(count * sizeof(*own));
    const int64_t end_ns = now_ns + budget->jobs->all[job].points[point].time_ns;

    if (own == NULL || set_end(budget, job, end_ns) < 0) {
        free(own);
        return -ENOMEM;
    }
    memcpy(own, shares, count * sizeof(*own));
    assert(load->share_count == 0 && count > 0);
    *load = (struct lull_power_load){point, (uint32_t)count, own, load->ends};
    draw_all(budget, load, lull_power_budget_extra_w(budget, job, point));
    budget->running++;
    return 0;
}

int lull_power_budget_reclock(struct lull_power_budget *budget, uint32_t job, uint32_t point,
                              int64_t now_ns)
{
    struct lull_power_load *const load = &budget->loads[job];
    const int64_t end_ns = now_ns + budget->jobs->all[job].points[point].time_ns;

    if (set_end(budget, job, end_ns) < 0)
        return -ENOMEM;
    assert(load->share_count > 0);
    draw_all(budget, load,
             lull_power_budget_extra_w(budget, job, point) -
                 lull_power_budget_extra_w(budget, job, load->point));
    load->point = point;
    return 0;
}

/* Removes entries of ends that have been moved, once they are most of the heap. */
static void drop_moved(struct lull_power_budget *budget)
{
    size_t kept = 0;

    if (budget->ends.count < 64 || budget->ends.count < 4 * budget->running)
        return;
    for (size_t i = 0; i < budget->ends.count; i++) {
        const struct lull_heap_entry end = budget->ends.entries[i];
        uint32_t job;

        if (load_of(budget, &end, &job) != NULL)
            budget->ends.entries[kept++] = end;
    }
    /* The entries that are kept go back into the heap, which has room for them. */
    budget->ends.count = 0;
    for (size_t i = 0; i < kept; i++) {
        const struct lull_heap_entry end = budget->ends.entries[i];

        (void)lull_heap_add(&budget->ends, end.key, end.number);
    }
}

void lull_power_budget_expect_end(struct lull_power_budget *budget, uint32_t job, int64_t end_ns)
{
    drop_moved(budget);
    (void)set_end(budget, job, end_ns);
}

void lull_power_budget_remove(struct lull_power_budget *budget, uint32_t job)
{
    struct lull_power_load *const load = &budget->loads[job];
    struct lull_heap_entry first;
    uint32_t ended;

    if (load->share_count == 0)
        return;
    assert(budget->running > 0 && load->shares != NULL);
    draw_all(budget, load, -lull_power_budget_extra_w(budget, job, load->point));
    free(load->shares);
    *load = (struct lull_power_load){.ends = load->ends};
    budget->running--;
    while (budget->ends.count > 0 && load_of(budget, &budget->ends.entries[0], &ended) == NULL)
        lull_heap_take(&budget->ends, INT64_MAX, &first);
}

void lull_power_budget_set_empty(struct lull_power_budget *budget, uint32_t node, double w)
{
    power_budget_draw(budget, node, w - budget->empty_w[node]);
    budget->nodes_w += w - budget->empty_w[node];
    budget->empty_w[node] = w;
}

/* ---- ends --------------------------------------------------------------------------------- */

/* The next end in the order of time: the heap's entries below a frontier of its places. */
static bool next_end(const struct lull_power_budget *budget, struct lull_heap *frontier,
                     struct lull_heap_entry *end_out)
{
    struct lull_heap_entry place;

    if (!lull_heap_take(frontier, INT64_MAX, &place))
        return false;
    for (size_t child = 2 * place.number + 1; child <= 2 * place.number + 2; child++)
        if (child < budget->ends.count &&
            lull_heap_add(frontier, budget->ends.entries[child].key, child) < 0)
            return false;
    *end_out = budget->ends.entries[place.number];
    return true;
}

int64_t lull_power_budget_when(const struct lull_power_budget *budget, double more_w,
                               int64_t now_ns, double *spare_w_out)
{
    struct lull_heap frontier = {0};
    struct lull_heap_entry end;
    double spare_w = budget->cap.cluster_w - budget->sum_w - more_w;
    int64_t when_ns = now_ns;

    if (budget->ends.count > 0 && lull_heap_add(&frontier, budget->ends.entries[0].key, 0) == 0)
        while (spare_w < 0.0 && next_end(budget, &frontier, &end)) {
            uint32_t job;
            const struct lull_power_load *load = load_of(budget, &end, &job);

            if (load == NULL)
                continue;
            spare_w += lull_power_budget_total_w(budget, job, load->point);
            when_ns = end.key;
        }
    lull_heap_fini(&frontier);
    *spare_w_out = fmax(spare_w, 0.0);
    if (spare_w < 0.0)
        return now_ns;
    return when_ns;
}

/* ---- feasible operating points ------------------------------------------------------------- */

/* Returns whether an operating point stays under the caps where nothing else runs. */
static bool could_stay_under(const struct lull_power_budget *budget, uint32_t job, uint32_t point)
{
    const struct lull_cluster_point *asked = &budget->jobs->all[job].points[point];
    const struct lull_power_cap *cap = &budget->cap;
    const uint32_t node_gpus =
        budget->groups
            .most[lull_cluster_group(budget->cluster, budget->jobs->all[job].pool, asked->type)];
    const double extra_w = lull_power_budget_extra_w(budget, job, point);
    const double node_w = budget->cluster->types[asked->type].idle_w * node_gpus +
                          extra_w * fmin(asked->gpus, node_gpus);

    return (!(cap->node_w > 0.0) || node_w <= cap->node_w) &&
           (!(cap->cluster_w > 0.0) || budget->idle_w + extra_w * asked->gpus <= cap->cluster_w);
}

bool lull_power_budget_could(const struct lull_power_budget *budget, uint32_t job, uint32_t point)
{
    return lull_cluster_point_is_possible(&budget->jobs->all[job], point, budget->cluster,
                                          budget->groups.gpus) &&
           could_stay_under(budget, job, point);
}

bool lull_power_budget_expect(struct lull_power_budget *budget, uint32_t job)
{
    bool could = false;

    budget->min_w[job] = INFINITY;
    for (uint32_t point = 0; point < budget->jobs->all[job].point_count; point++)
        if (lull_power_budget_could(budget, job, point)) {
            could = true;
            budget->min_w[job] =
                fmin(budget->min_w[job], lull_power_budget_total_w(budget, job, point));
        }
    return could;
}
