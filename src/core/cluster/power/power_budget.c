/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/power/power_budget.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sums that come and go are rounded: what is over a cap by less than this share of it is not. */
#define ROUNDING 1e-9

double lull_power_budget_idle_w(const struct lull_cluster *cluster, uint32_t node)
{
    return cluster->types[cluster->nodes[node].type].idle_w * cluster->nodes[node].gpus;
}

double lull_power_budget_turning_on_w(const struct lull_cluster *cluster, uint32_t node)
{
    const struct lull_cluster_type *type = &cluster->types[cluster->nodes[node].type];
    const double idle_w = lull_power_budget_idle_w(cluster, node);

    return type->turn_on_ns == 0
               ? idle_w
               : fmax(idle_w, type->turn_on_j / ((double)type->turn_on_ns * 1e-9));
}

/* Whether every node can be on, and be turned on, while nothing runs: jobs then always get on. */
static int check(const struct lull_power_budget *room, struct lull_error *err)
{
    const struct lull_power_cap *cap = &room->cap;
    double most_more_w = 0.0;

    if (!(cap->peak_ratio >= 1.0) || isinf(cap->peak_ratio))
        return lull_error_set(err, -EINVAL, "a peak is at least the mean, not %g times it",
                              cap->peak_ratio);
    for (uint32_t i = 0; i < room->cluster->node_count; i++) {
        const double turning_on_w = cap->turns_nodes_on
                                        ? lull_power_budget_turning_on_w(room->cluster, i)
                                        : room->node_w[i];

        most_more_w = fmax(most_more_w, turning_on_w - room->node_w[i]);
        if (cap->node_w > 0.0 && turning_on_w > cap->node_w)
            return lull_error_set(err, -EINVAL,
                                  "a cap of %g W per node is below the %g W that node %u draws "
                                  "without a job",
                                  cap->node_w, turning_on_w, i);
    }
    if (cap->cluster_w > 0.0 && room->sum_w + most_more_w > cap->cluster_w)
        return lull_error_set(err, -EINVAL,
                              "a power cap of %g W is below the %g W that the cluster draws "
                              "without a job",
                              cap->cluster_w, room->sum_w + most_more_w);
    return 0;
}

static int make_room(struct lull_power_budget *room)
{
    const uint32_t nodes = room->cluster->node_count;
    const size_t groups = (size_t)room->cluster->pool_count * room->cluster->type_count;
    const size_t jobs = room->jobs->count > 0 ? room->jobs->count : 1;

    room->node_w = calloc(nodes, sizeof(*room->node_w));
    room->empty_w = calloc(nodes, sizeof(*room->empty_w));
    room->scratch = calloc(nodes, sizeof(*room->scratch));
    room->gpus_of = calloc(groups, sizeof(*room->gpus_of));
    room->node_gpus = calloc(groups, sizeof(*room->node_gpus));
    room->loads = calloc(jobs, sizeof(*room->loads));
    room->least_w = calloc(jobs, sizeof(*room->least_w));
    if (room->node_w == NULL || room->empty_w == NULL || room->scratch == NULL ||
        room->gpus_of == NULL || room->node_gpus == NULL || room->loads == NULL ||
        room->least_w == NULL)
        return -ENOMEM;
    return 0;
}

static void count_node(struct lull_power_budget *room, uint32_t number)
{
    const struct lull_cluster_node *node = &room->cluster->nodes[number];
    const size_t group = (size_t)node->pool * room->cluster->type_count + node->type;

    room->gpus += node->gpus;
    room->gpus_of[group] += node->gpus;
    if (node->gpus > room->node_gpus[group])
        room->node_gpus[group] = node->gpus;
    room->idle_w += lull_power_budget_idle_w(room->cluster, number);
    lull_power_budget_set_empty(room, number, lull_power_budget_idle_w(room->cluster, number));
}

int lull_power_budget_init(struct lull_power_budget *room, const struct lull_cluster *cluster,
                           const struct lull_cluster_jobs *jobs, const struct lull_power_cap *cap,
                           struct lull_error *err)
{
    int rc;

    *room = (struct lull_power_budget){
        .cluster = cluster, .jobs = jobs, .cap = *cap, .head = LULL_POWER_NONE};
    if (make_room(room) < 0) {
        lull_power_budget_fini(room);
        return lull_error_set(err, -ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < cluster->node_count; i++)
        count_node(room, i);
    rc = check(room, err);
    if (rc < 0)
        lull_power_budget_fini(room);
    return rc;
}

void lull_power_budget_fini(struct lull_power_budget *room)
{
    for (size_t i = 0; room->loads != NULL && i < room->jobs->count; i++)
        free(room->loads[i].shares);
    free(room->loads);
    free(room->least_w);
    free(room->node_w);
    free(room->empty_w);
    free(room->scratch);
    free(room->gpus_of);
    free(room->node_gpus);
    lull_heap_fini(&room->ends);
}

double lull_power_budget_extra_w(const struct lull_power_budget *room, uint32_t job, uint32_t point)
{
    const struct lull_cluster_point *asked = &room->jobs->all[job].points[point];
    const double mean_w = asked->energy_j / ((double)asked->time_ns * 1e-9) / asked->gpus;

    return fmax(mean_w * room->cap.peak_ratio - room->cluster->types[asked->type].idle_w, 0.0);
}

double lull_power_budget_total_w(const struct lull_power_budget *room, uint32_t job, uint32_t point)
{
    return lull_power_budget_extra_w(room, job, point) * room->jobs->all[job].points[point].gpus;
}

bool lull_power_budget_has(const struct lull_power_budget *room, double more_w)
{
    return !(room->cap.cluster_w > 0.0) ||
           room->sum_w + more_w <= room->cap.cluster_w * (1.0 + ROUNDING);
}

bool lull_power_budget_has_on(const struct lull_power_budget *room, uint32_t node, double more_w)
{
    return !(room->cap.node_w > 0.0) ||
           room->node_w[node] + more_w <= room->cap.node_w * (1.0 + ROUNDING);
}

/* ---- jobs --------------------------------------------------------------------------------- */

static void draw(struct lull_power_budget *room, uint32_t node, double more_w)
{
    room->node_w[node] += more_w;
    room->sum_w += more_w;
}

static void draw_all(struct lull_power_budget *room, const struct lull_power_load *load,
                     double gpu_w)
{
    for (uint32_t i = 0; i < load->share_count; i++)
        draw(room, load->shares[i].node, gpu_w * load->shares[i].gpus);
}

int lull_power_budget_add(struct lull_power_budget *room, uint32_t job, uint32_t point,
                          const struct lull_cluster_share *shares, size_t count, int64_t now_ns)
{
    struct lull_power_load *const load = &room->loads[job];
    struct lull_cluster_share *own = malloc(count * sizeof(*own));
    const int64_t end_ns = now_ns + room->jobs->all[job].points[point].time_ns;

    if (own == NULL || lull_heap_add(&room->ends, end_ns, job) < 0) {
        free(own);
        return -ENOMEM;
    }
    memcpy(own, shares, count * sizeof(*own));
    assert(load->share_count == 0 && count > 0);
    *load = (struct lull_power_load){point, (uint32_t)count, own, end_ns};
    draw_all(room, load, lull_power_budget_extra_w(room, job, point));
    room->running++;
    return 0;
}

int lull_power_budget_reclock(struct lull_power_budget *room, uint32_t job, uint32_t point,
                              int64_t now_ns)
{
    struct lull_power_load *const load = &room->loads[job];
    const int64_t end_ns = now_ns + room->jobs->all[job].points[point].time_ns;

    if (lull_heap_add(&room->ends, end_ns, job) < 0)
        return -ENOMEM;
    assert(load->share_count > 0);
    draw_all(room, load,
             lull_power_budget_extra_w(room, job, point) -
                 lull_power_budget_extra_w(room, job, load->point));
    load->point = point;
    load->end_ns = end_ns;
    return 0;
}

/* Of ends that have been moved, when they are most of all. */
static void drop_moved(struct lull_power_budget *room)
{
    size_t kept = 0;

    if (room->ends.count < 64 || room->ends.count < 4 * room->running)
        return;
    for (size_t i = 0; i < room->ends.count; i++) {
        const struct lull_heap_entry end = room->ends.entries[i];

        if (room->loads[end.number].end_ns == end.key)
            room->ends.entries[kept++] = end;
    }
    /* Entries go back to where there is room for them. */
    room->ends.count = 0;
    for (size_t i = 0; i < kept; i++) {
        const struct lull_heap_entry end = room->ends.entries[i];

        (void)lull_heap_add(&room->ends, end.key, end.number);
    }
}

void lull_power_budget_expect_end(struct lull_power_budget *room, uint32_t job, int64_t end_ns)
{
    drop_moved(room);
    if (lull_heap_add(&room->ends, end_ns, job) == 0)
        room->loads[job].end_ns = end_ns;
}

void lull_power_budget_remove(struct lull_power_budget *room, uint32_t job)
{
    struct lull_power_load *const load = &room->loads[job];
    struct lull_heap_entry first;

    if (load->share_count == 0)
        return;
    assert(room->running > 0 && load->shares != NULL);
    draw_all(room, load, -lull_power_budget_extra_w(room, job, load->point));
    free(load->shares);
    *load = (struct lull_power_load){0};
    room->running--;
    while (room->ends.count > 0 &&
           room->loads[room->ends.entries[0].number].end_ns != room->ends.entries[0].key)
        lull_heap_take(&room->ends, INT64_MAX, &first);
}

void lull_power_budget_set_empty(struct lull_power_budget *room, uint32_t node, double w)
{
    draw(room, node, w - room->empty_w[node]);
    room->nodes_w += w - room->empty_w[node];
    room->empty_w[node] = w;
}

/* ---- ends --------------------------------------------------------------------------------- */

/* The next end in the order of time: the heap's entries below a frontier of its places. */
static bool next_end(const struct lull_power_budget *room, struct lull_heap *frontier,
                     struct lull_heap_entry *end_out)
{
    struct lull_heap_entry place;

    if (!lull_heap_take(frontier, INT64_MAX, &place))
        return false;
    for (size_t child = 2 * place.number + 1; child <= 2 * place.number + 2; child++)
        if (child < room->ends.count &&
            lull_heap_add(frontier, room->ends.entries[child].key, child) < 0)
            return false;
    *end_out = room->ends.entries[place.number];
    return true;
}

int64_t lull_power_budget_when(const struct lull_power_budget *room, double more_w, int64_t now_ns,
                               double *spare_w_out)
{
    struct lull_heap frontier = {0};
    struct lull_heap_entry end;
    double spare_w = room->cap.cluster_w - room->sum_w - more_w;
    int64_t when_ns = now_ns;

    if (room->ends.count > 0 && lull_heap_add(&frontier, room->ends.entries[0].key, 0) == 0)
        while (spare_w < 0.0 && next_end(room, &frontier, &end)) {
            const struct lull_power_load *load = &room->loads[end.number];

            if (load->share_count == 0 || load->end_ns != end.key)
                continue;
            spare_w += lull_power_budget_extra_w(room, (uint32_t)end.number, load->point) *
                       room->jobs->all[end.number].points[load->point].gpus;
            when_ns = end.key;
        }
    lull_heap_fini(&frontier);
    *spare_w_out = fmax(spare_w, 0.0);
    return spare_w < 0.0 ? now_ns : when_ns;
}

/* ---- what could ever run ------------------------------------------------------------------- */

/* Whether an operating point stays under the caps where nothing else runs. */
static bool could_stay_under(const struct lull_power_budget *room, uint32_t job, uint32_t point)
{
    const struct lull_cluster_point *asked = &room->jobs->all[job].points[point];
    const struct lull_power_cap *cap = &room->cap;
    const uint32_t node_gpus =
        room->node_gpus[room->jobs->all[job].pool * room->cluster->type_count + asked->type];
    const double extra_w = lull_power_budget_extra_w(room, job, point);
    const double node_w = room->cluster->types[asked->type].idle_w * node_gpus +
                          extra_w * fmin(asked->gpus, node_gpus);

    return (!(cap->node_w > 0.0) || node_w <= cap->node_w) &&
           (!(cap->cluster_w > 0.0) || room->idle_w + extra_w * asked->gpus <= cap->cluster_w);
}

bool lull_power_budget_could(const struct lull_power_budget *room, uint32_t job, uint32_t point)
{
    return lull_cluster_point_is_possible(&room->jobs->all[job], point, room->cluster,
                                          room->gpus_of) &&
           could_stay_under(room, job, point);
}

bool lull_power_budget_expect(struct lull_power_budget *room, uint32_t job)
{
    bool could = false;

    room->least_w[job] = INFINITY;
    for (uint32_t point = 0; point < room->jobs->all[job].point_count; point++)
        if (lull_power_budget_could(room, job, point)) {
            could = true;
            room->least_w[job] =
                fmin(room->least_w[job], lull_power_budget_total_w(room, job, point));
        }
    return could;
}
