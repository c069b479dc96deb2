/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/frontier/periodic.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "core/pipeline/frontier/periodic_expand.h"
#include "core/pipeline/frontier/state.h"

struct lull_periodic {
    struct lull_periodic_problem problem;
    struct lull_periodic_expansion expansion;
    struct lull_frontier *small;
    struct lull_frontier_curves curves; /* of the full graph */
    struct lull_frontier_point *points;
    int64_t *small_ns; /* the time of the small frontier at every point */
    size_t point_count;
    double blocking_w;  /* of all devices */
    int64_t *slower_ns; /* durations at the point before */
    int64_t *tried_ns;  /* durations from the column at hand */
};

/* ---- growth ------------------------------------------------------------------------------- */

/*
 * What one more period adds to a frontier is read off the column in the middle of the small
 * pipeline. Where a flow repeats itself, an operation that it goes through and the same one a
 * period later are joined by paths without slack: their distance is the period's time, and the
 * column's operations cost what a period costs. The watts that flow there are those of the slope,
 * so that no second frontier is needed for the difference.
 */

/* An operation of the column and the same one a period later, by place. */
struct column_op {
    uint32_t here;
    uint32_t later;
};

struct growth {
    struct column_op *ops;
    size_t op_count;
    double blocking_w; /* of all devices */
};

enum { BEGIN, END };

/* Lists the column's operations. place: that of every operation of the small graph. */
static int list_column(struct growth *growth, const struct lull_periodic_expansion *expansion,
                       const uint32_t *place, struct lull_error *err)
{
    const size_t count = expansion->problem->small.graph->op_count;

    for (size_t i = 0; i < count; i++) {
        struct lull_periodic_op_key key = expansion->small[i];
        const struct lull_periodic_op_key *later;

        if (key.op.microbatch < expansion->column ||
            key.op.microbatch >= expansion->column + expansion->period)
            continue;
        key.op.microbatch += expansion->period;
        later = lull_periodic_expansion_find(expansion, &key);
        if (later == NULL)
            return lull_error_set(err, -EINVAL,
                                  "the pipeline does not repeat itself in the middle");
        growth->ops[growth->op_count++] = (struct column_op){place[key.index], place[later->index]};
    }
    return 0;
}

/* Finds the column. The caller calls growth_fini also after an error: -EINVAL the column does not
 * repeat itself, -ENOMEM. */
static int growth_init(struct growth *growth, const struct lull_periodic_expansion *expansion,
                       struct lull_error *err)
{
    const struct lull_pipeline_problem *small = &expansion->problem->small;
    const size_t count = small->graph->op_count;
    uint32_t *place = malloc(count * sizeof(*place));
    int status;

    *growth = (struct growth){.ops = malloc(count * sizeof(*growth->ops)),
                              .blocking_w = lull_pipeline_blocking_sum_w(small)};
    if (place == NULL || growth->ops == NULL) {
        free(place);
        return lull_error_set(err, -ENOMEM, "no memory for the frontier");
    }
    for (uint32_t i = 0; i < count; i++)
        place[small->graph->topological[i]] = i;
    status = list_column(growth, expansion, place, err);
    free(place);
    return status;
}

static void growth_fini(struct growth *growth)
{
    free(growth->ops);
    *growth = (struct growth){.ops = NULL};
}

/* How much flows at least through both an operation and the same one a period later. */
static int64_t flow_through(const struct lull_frontier_network *network, const struct column_op *op)
{
    const int64_t here = network->ops[op->here].flow;
    const int64_t later = network->ops[op->later].flow;

    return lull_earlier_ns(here, later);
}

/* A period's time: the distance of an operation from the same one a period later. It takes the
 * operation through which most flows, since there is no slack there. */
static int64_t period_ns(const struct growth *growth, const struct lull_frontier_network *network)
{
    const struct column_op *best = &growth->ops[0];

    assert(growth->op_count > 0);
    for (size_t i = 1; i < growth->op_count; i++) {
        if (flow_through(network, &growth->ops[i]) > flow_through(network, best))
            best = &growth->ops[i];
    }
    return network->potential[2 * best->later + BEGIN] - network->potential[2 * best->here + BEGIN];
}

/* Adds up what the operations of the column cost in the windows that the potentials leave them. */
static double column_nj(const struct growth *growth, const struct lull_frontier_network *network)
{
    double energy_nj = 0.0;

    for (size_t i = 0; i < growth->op_count; i++) {
        const uint32_t here = growth->ops[i].here;
        const struct lull_frontier_flow_op *op = &network->ops[here];

        /* A window longer than the slowest corner's length costs what that does. */
        energy_nj += lull_curve_energy_nj(&network->curves.all[op->curve], network->curves.unit_w,
                                          network->potential[2 * here + END] -
                                              network->potential[2 * here + BEGIN]);
    }
    return energy_nj;
}

/* The point of a pipeline that is `periods` periods longer, at the slope where the small frontier
 * stands. */
static struct lull_frontier_point growth_extend(const struct growth *growth,
                                                const struct lull_frontier *small, int64_t periods)
{
    const struct lull_frontier_network *network = lull_frontier_network(small);
    const int64_t more_ns = period_ns(growth, network);
    struct lull_frontier_point point = lull_frontier_here(small);

    point.time_ns += periods * more_ns;
    point.energy_j += (double)periods *
                      (column_nj(growth, network) + growth->blocking_w * (double)more_ns) * 1e-9;
    return point;
}

/* ---- the full frontier ---------------------------------------------------------------------- */

/* Adds the point that extends the one where the small frontier stands. Where stages differ much,
 * times may not fall; such points are left out. */
static int extend_point(struct lull_periodic *periodic, const struct growth *growth)
{
    const size_t count = periodic->point_count;
    const struct lull_frontier_point point =
        growth_extend(growth, periodic->small, periodic->expansion.periods);

    if (count > 0 && point.time_ns >= periodic->points[count - 1].time_ns)
        return 0;
    if (lull_array_grow(&periodic->points, count, sizeof(*periodic->points)) < 0 ||
        lull_array_grow(&periodic->small_ns, count, sizeof(*periodic->small_ns)) < 0)
        return -ENOMEM;
    periodic->points[count] = point;
    periodic->small_ns[count] = lull_frontier_here(periodic->small).time_ns;
    periodic->point_count++;
    return 0;
}

/* Solves the small frontier; at equal slope, time and energy are affine in the number of periods.
 */
static int solve(struct lull_periodic *periodic, struct lull_error *err)
{
    struct lull_frontier_point point;
    struct growth growth;
    int status = growth_init(&growth, &periodic->expansion, err);
    int moved;

    if (status != 0)
        goto done;
    periodic->small = lull_frontier_create(&periodic->problem.small, err);
    if (periodic->small == NULL) {
        status = -EINVAL;
        goto done;
    }
    moved = lull_frontier_next(periodic->small, &point);
    while (status == 0 && moved == 1) {
        status = extend_point(periodic, &growth);
        moved = lull_frontier_next(periodic->small, &point);
    }
    if (moved < 0 || status < 0)
        status = lull_error_set(err, -ENOMEM, "no memory for the frontier");
done:
    growth_fini(&growth);
    return status;
}

/* Solves the small frontier and prepares what every plan of the full pipeline needs. */
static int init(struct lull_periodic *periodic, struct lull_error *err)
{
    const size_t op_count = periodic->problem.full.graph->op_count;
    int status = lull_periodic_expansion_init(&periodic->expansion, &periodic->problem, err);

    if (status != 0)
        return status;
    status = lull_curves_init(&periodic->curves, &periodic->problem.full, err);
    if (status != 0)
        return status;
    status = solve(periodic, err);
    if (status != 0)
        return status;
    periodic->slower_ns = malloc(op_count * sizeof(*periodic->slower_ns));
    periodic->tried_ns = malloc(op_count * sizeof(*periodic->tried_ns));
    periodic->blocking_w = lull_pipeline_blocking_sum_w(&periodic->problem.full);
    if (periodic->slower_ns == NULL || periodic->tried_ns == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the frontier");
    return 0;
}

struct lull_periodic *lull_periodic_create(const struct lull_periodic_problem *problem,
                                           struct lull_error *err)
{
    struct lull_periodic *periodic = calloc(1, sizeof(*periodic));

    if (periodic == NULL) {
        lull_error_set(err, -ENOMEM, "no memory for the frontier");
        return NULL;
    }
    periodic->problem = *problem;
    if (init(periodic, err) != 0) {
        lull_periodic_destroy(periodic);
        return NULL;
    }
    return periodic;
}

void lull_periodic_destroy(struct lull_periodic *periodic)
{
    if (periodic == NULL)
        return;
    lull_frontier_destroy(periodic->small);
    lull_periodic_expansion_fini(&periodic->expansion);
    lull_curves_fini(&periodic->curves);
    free(periodic->points);
    free(periodic->small_ns);
    free(periodic->slower_ns);
    free(periodic->tried_ns);
    free(periodic);
}

const struct lull_frontier_point *lull_periodic_points(const struct lull_periodic *periodic,
                                                       size_t *count_out)
{
    *count_out = periodic->point_count;
    return periodic->points;
}

/* Finds durations of the full graph at a point. Returns their makespan, or -ENOMEM. */
static int64_t durations_at(struct lull_periodic *periodic, size_t point, int64_t *duration_out)
{
    if (lull_frontier_seek(periodic->small, periodic->small_ns[point]) != 0)
        return -ENOMEM;
    lull_periodic_expansion_durations(&periodic->expansion, periodic->small, duration_out);
    return lull_pipeline_earliest(periodic->problem.full.graph, duration_out, NULL);
}

/* Mixes the durations of two points, so that their makespan comes as near to time_ns as they allow.
 */
static void mix(int64_t *duration_ns, int64_t faster_ns, const int64_t *slower, int64_t slower_ns,
                size_t count, int64_t time_ns)
{
    double share = 1.0;

    assert(faster_ns <= time_ns);
    if (slower_ns > time_ns)
        share = (double)(time_ns - faster_ns) / (double)(slower_ns - faster_ns);
    for (size_t op = 0; op < count; op++)
        duration_ns[op] += (int64_t)floor(share * (double)(slower[op] - duration_ns[op]));
}

/* What durations cost when operations may mix their operating points, in an iteration of time_ns.
 * */
static double relaxed_j(const struct lull_periodic *periodic, const int64_t *duration_ns,
                        int64_t time_ns)
{
    const struct lull_pipeline_problem *full = &periodic->problem.full;
    double energy_nj = 0.0;

    for (size_t place = 0; place < full->graph->op_count; place++) {
        const struct lull_frontier_curve *curve =
            &periodic->curves.all[periodic->curves.of_op[place]];

        energy_nj += lull_curve_energy_nj(curve, periodic->curves.unit_w,
                                          duration_ns[full->graph->topological[place]]);
    }
    for (uint32_t device = 0; device < full->graph->device_count; device++)
        energy_nj += full->blocking_w[device] * (double)time_ns;
    return energy_nj * 1e-9;
}

/*
 * Shortens operations, late ones rather than early ones, until time_ns is kept. The durations are
 * those of the expansion, whose repeated column may be a little longer than the period that the
 * small frontier tells. Returns 0, -ERANGE if even the fastest take longer, -ENOMEM.
 */
static int clip(struct lull_periodic *periodic, int64_t time_ns, int64_t *duration_ns)
{
    const struct lull_pipeline_graph *full = periodic->problem.full.graph;
    int64_t *fastest_ns = periodic->slower_ns;
    int64_t *begin_ns = malloc(2 * full->op_count * sizeof(*begin_ns));
    int64_t *latest_ns = begin_ns + full->op_count;
    int64_t least_ns;

    if (begin_ns == NULL)
        return -ENOMEM;
    for (size_t place = 0; place < full->op_count; place++) {
        const struct lull_frontier_curve *curve =
            &periodic->curves.all[periodic->curves.of_op[place]];

        fastest_ns[full->topological[place]] = curve->length_ns[curve->steps];
    }
    least_ns = lull_pipeline_earliest(full, fastest_ns, begin_ns);
    lull_pipeline_latest(full, fastest_ns, time_ns, latest_ns);
    for (size_t place = 0; place < full->op_count; place++) {
        const uint32_t op = full->topological[place];
        int64_t window_ns;

        begin_ns[op] = 0;
        for (uint32_t i = full->first_in[op]; i < full->first_in[op + 1]; i++) {
            const struct lull_pipeline_edge *edge = &full->edges[full->in_edges[i]];
            const int64_t ready_ns =
                begin_ns[edge->from] + duration_ns[edge->from] + edge->latency_ns;

            if (ready_ns > begin_ns[op])
                begin_ns[op] = ready_ns;
        }
        window_ns = latest_ns[op] + fastest_ns[op] - begin_ns[op];
        if (duration_ns[op] > window_ns)
            duration_ns[op] = window_ns;
    }
    free(begin_ns);
    if (least_ns > time_ns)
        return -ERANGE;
    return 0;
}

/*
 * Finds durations that keep time_ns, from the column chosen and from `point` or one soon after it,
 * mixed with those of the point before. Where none of these points keeps it, it clips the first
 * one's. Returns 0, -ERANGE, -ENOMEM.
 */
static int fit_column(struct lull_periodic *periodic, size_t point, int64_t time_ns,
                      int64_t *duration_out)
{
    enum { POINTS_TRIED = 4 }; /* chosen with c1ec515 */
    const size_t op_count = periodic->problem.full.graph->op_count;
    int64_t slower_ns = 0;
    int64_t faster_ns;

    if (point > 0)
        slower_ns = durations_at(periodic, point - 1, periodic->slower_ns);
    for (size_t i = point; i < point + POINTS_TRIED && i < periodic->point_count; i++) {
        faster_ns = durations_at(periodic, i, duration_out);
        if (slower_ns < 0 || faster_ns < 0)
            return -ENOMEM;
        if (faster_ns <= time_ns) {
            if (i > 0)
                mix(duration_out, faster_ns, periodic->slower_ns, slower_ns, op_count, time_ns);
            return 0;
        }
        slower_ns = faster_ns;
        memcpy(periodic->slower_ns, duration_out, op_count * sizeof(*duration_out));
    }
    if (durations_at(periodic, point, duration_out) < 0)
        return -ENOMEM;
    return clip(periodic, time_ns, duration_out);
}

static size_t point_at(const struct lull_periodic *periodic, int64_t time_ns)
{
    size_t point = 0;

    while (point + 1 < periodic->point_count && periodic->points[point].time_ns > time_ns)
        point++;
    return point;
}

/* Estimates the bound: between two points it is a line, beyond the slow end it rises by the
 * blocking power. */
static double estimate_j(const struct lull_periodic *periodic, size_t point, int64_t time_ns)
{
    const struct lull_frontier_point *here = &periodic->points[point];
    const double blocking_w = periodic->blocking_w - (point > 0 ? here->slope_w : 0.0);

    return here->energy_j + blocking_w * (double)(time_ns - here->time_ns) * 1e-9;
}

/* Finds the best durations of a few columns: in most cases the middle one's, near the fastest point
 * another's. */
static int fit(struct lull_periodic *periodic, size_t point, int64_t time_ns, int64_t *duration_out)
{
    enum { COLUMNS_TRIED = 8 }; /* measured by commit c1ec515 */
    const size_t op_count = periodic->problem.full.graph->op_count;
    const double enough_j = estimate_j(periodic, point, time_ns) * (1.0 + 1e-6);
    double least_j = INFINITY;
    int status = 0;

    for (uint32_t i = 0; i < COLUMNS_TRIED && least_j > enough_j; i++) {
        double energy_j;

        if (!lull_periodic_expansion_choose(&periodic->expansion, i))
            break;
        status = fit_column(periodic, point, time_ns, periodic->tried_ns);
        if (status != 0)
            break;
        energy_j = relaxed_j(periodic, periodic->tried_ns, time_ns);
        if (energy_j < least_j) {
            least_j = energy_j;
            memcpy(duration_out, periodic->tried_ns, op_count * sizeof(*duration_out));
        }
    }
    /* The flow is that of the point, and repeats itself best in the middle. */
    lull_periodic_expansion_choose(&periodic->expansion, 0);
    if (status == 0 && durations_at(periodic, point, periodic->tried_ns) < 0)
        status = -ENOMEM;
    return status;
}

/* Durations and flow come from the small pipeline, but what is returned is measured on the full
 * graph. */
int lull_periodic_plan(struct lull_periodic *periodic, int64_t time_ns, int64_t *duration_out,
                       struct lull_certificate *certificate, struct lull_periodic_plan *plan_out)
{
    const struct lull_pipeline_problem *full = &periodic->problem.full;
    const size_t point = point_at(periodic, time_ns);
    int status = fit(periodic, point, time_ns, duration_out);

    if (status != 0)
        return status;
    status = lull_periodic_expansion_certify(&periodic->expansion, periodic->small, duration_out,
                                             certificate);
    if (status != 0)
        return status;
    plan_out->time_ns = lull_pipeline_earliest(full->graph, duration_out, NULL);
    plan_out->relaxed_j = relaxed_j(periodic, duration_out, time_ns);
    plan_out->bound_j = lull_certificate_bound(certificate, full, time_ns);
    return plan_out->time_ns < 0 ? -ENOMEM : 0;
}
