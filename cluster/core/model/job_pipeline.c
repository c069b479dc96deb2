/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/job_pipeline.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/rounding/rounding.h"

enum {
    MAX_MOVES = 2000
}; /* per plan: candidates need less precision than a plan that a job runs with for weeks */

/* ---- the problem -------------------------------------------------------------------------- */

static struct lull_pipeline_point make_option(const struct lull_job_parallel *parallel,
                                              const struct lull_job_tempo *tempo,
                                              enum lull_pipeline_kind kind, bool is_last)
{
    const double gpus = (double)parallel->data * parallel->tensor;
    const double compute_ns =
        tempo->compute_ratio * (double)lull_job_parallel_compute_ns(parallel, kind, is_last);
    const double tensor_ns =
        tempo->transfer_ratio * (double)lull_job_parallel_tensor_ns(parallel, kind);

    return (struct lull_pipeline_point){
        .time_ns = llround(fmin(compute_ns + tensor_ns, 2.0 * (double)LULL_PIPELINE_MAX_TIME_NS)),
        .energy_nj =
            llround(fmin(gpus * (compute_ns * tempo->compute_w + tensor_ns * tempo->transfer_w),
                         2.0 * (double)LULL_PIPELINE_MAX_ENERGY_NJ)),
        .sm_mhz = tempo->sm_mhz,
    };
}

/* Forward and backward of a chunk; what else a schedule needs is derived from them. */
static int add_chunk(struct lull_pipeline_profile *measured,
                     const struct lull_job_parallel *parallel, const struct lull_job_tempo *tempo,
                     uint32_t clock_count, uint32_t chunk, bool is_last, struct lull_error *err)
{
    static const enum lull_pipeline_kind kinds[] = {LULL_PIPELINE_FORWARD, LULL_PIPELINE_BACKWARD};
    int rc = 0;

    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; rc >= 0 && i < clock_count; i++) {
            const struct lull_pipeline_point option =
                make_option(parallel, &tempo[i], kinds[k], is_last);

            rc = lull_pipeline_profile_add(measured, 0, chunk, kinds[k], 0, &option, err);
        }
    return rc < 0 ? rc : 0;
}

/* The clock at which the work of a second at the highest clock costs least energy. */
static const struct lull_job_tempo *find_thriftiest(const struct lull_job_tempo *tempo,
                                                    uint32_t clock_count)
{
    const struct lull_job_tempo *best = tempo;

    for (uint32_t i = 1; i < clock_count; i++)
        if (tempo[i].compute_ratio * tempo[i].compute_w < best->compute_ratio * best->compute_w)
            best = &tempo[i];
    return best;
}

static int job_pipeline_build(struct lull_job_pipeline *pipeline,
                              const struct lull_job_parallel *parallel,
                              const struct lull_job_tempo *thrifty,
                              const struct lull_pipeline_profile *measured, struct lull_error *err)
{
    const double gpus = (double)parallel->data * parallel->tensor;
    const int64_t latency_ns = lull_job_transfer_ns(&parallel->stage_link, parallel->stage_bytes);
    const int64_t sync_ns = lull_job_parallel_bucket_ns(parallel) + parallel->optimizer_ns;
    const int64_t sync_nj = llround((double)sync_ns * gpus * thrifty->transfer_w);
    const struct lull_pipeline_shape shape = {
        .devices = parallel->pipeline,
        .microbatches = parallel->microbatches,
        .links = {&latency_ns, 1},
        .replicas = {.count = 1,
                     .sync_ns = &sync_ns,
                     .sync_energy_nj = &sync_nj,
                     .sync_count = sync_ns > 0 ? 1 : 0},
        .by_chunk = true,
    };

    return lull_pipeline_schedule_build(&parallel->schedule, &shape, measured, &pipeline->fitted,
                                        &pipeline->graph, err);
}

static int fill_waiting(struct lull_job_pipeline *pipeline,
                        const struct lull_job_parallel *parallel,
                        const struct lull_job_tempo *tempo, uint32_t clock_count,
                        const struct lull_job_tempo *thrifty)
{
    const double gpus = (double)parallel->data * parallel->tensor;

    pipeline->blocking_w = malloc(parallel->pipeline * sizeof(*pipeline->blocking_w));
    pipeline->waiting_w = malloc(clock_count * sizeof(*pipeline->waiting_w));
    if (pipeline->blocking_w == NULL || pipeline->waiting_w == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < parallel->pipeline; i++)
        pipeline->blocking_w[i] = gpus * thrifty->waiting_w;
    for (uint32_t i = 0; i < clock_count; i++)
        pipeline->waiting_w[i] = gpus * tempo[i].waiting_w;
    return 0;
}

int lull_job_pipeline_init(struct lull_job_pipeline *pipeline,
                           const struct lull_job_parallel *parallel,
                           const struct lull_job_tempo *tempo, uint32_t clock_count,
                           struct lull_error *err)
{
    const uint32_t chunks = parallel->pipeline * parallel->schedule.chunks;
    const struct lull_job_tempo *thrifty = find_thriftiest(tempo, clock_count);
    struct lull_pipeline_profile measured;
    int rc = 0;

    lull_pipeline_profile_init(&measured);
    for (uint32_t chunk = 0; rc == 0 && chunk < chunks; chunk++)
        rc = add_chunk(&measured, parallel, tempo, clock_count, chunk, chunk + 1 == chunks, err);
    if (rc == 0)
        rc = job_pipeline_build(pipeline, parallel, thrifty, &measured, err);
    lull_pipeline_profile_fini(&measured);
    if (rc < 0)
        return rc;
    pipeline->gpus = lull_job_parallel_gpus(parallel);
    rc = fill_waiting(pipeline, parallel, tempo, clock_count, thrifty);
    pipeline->problem =
        (struct lull_pipeline_problem){&pipeline->fitted, &pipeline->graph, pipeline->blocking_w};
    if (rc < 0) {
        lull_job_pipeline_fini(pipeline);
        return lull_error_set(err, -ENOMEM, "no memory for %u devices", parallel->pipeline);
    }
    return 0;
}

void lull_job_pipeline_fini(struct lull_job_pipeline *pipeline)
{
    lull_pipeline_graph_fini(&pipeline->graph);
    lull_pipeline_profile_fini(&pipeline->fitted);
    free(pipeline->blocking_w);
    free(pipeline->waiting_w);
    *pipeline = (struct lull_job_pipeline){0};
}

/* ---- its plans ---------------------------------------------------------------------------- */

struct planner {
    struct lull_frontier *frontier;
    struct lull_pipeline_rounding *rounding;
    int64_t *duration_ns;
    int64_t *begin_ns;
    uint32_t *option;
};

static void planner_fini(struct planner *planner)
{
    lull_frontier_destroy(planner->frontier);
    if (planner->rounding != NULL)
        lull_pipeline_rounding_destroy(planner->rounding);
    free(planner->duration_ns);
    free(planner->begin_ns);
    free(planner->option);
}

static int planner_init(struct planner *planner, const struct lull_job_pipeline *pipeline,
                        struct lull_error *err)
{
    const size_t count = pipeline->graph.op_count;

    planner->frontier = lull_frontier_create(&pipeline->problem, err);
    planner->duration_ns = malloc(count * sizeof(*planner->duration_ns));
    planner->begin_ns = malloc(count * sizeof(*planner->begin_ns));
    planner->option = malloc(count * sizeof(*planner->option));
    if (planner->frontier == NULL || planner->duration_ns == NULL || planner->begin_ns == NULL ||
        planner->option == NULL ||
        lull_pipeline_rounding_create(&pipeline->problem, &planner->rounding) < 0) {
        planner_fini(planner);
        return lull_error_set(err, -ENOMEM, "no memory to plan %zu operations", count);
    }
    return 0;
}

/* The energy of a device over an iteration: that of its operations, and that of its waits, each at
 * the clock of the operation before. What precedes the first operation is the last one of the
 * iteration before. An operation that has only one option leaves the clock as it is. */
static double job_pipeline_device_nj(const struct planner *planner,
                                     const struct lull_job_pipeline *pipeline, uint32_t device,
                                     int64_t makespan_ns)
{
    const struct lull_pipeline_graph *graph = &pipeline->graph;
    double waiting_w = pipeline->blocking_w[device];
    double first_waits_ns = 0.0;
    bool has_clock = false;
    int64_t end_ns = 0;
    double sum_nj = 0.0;

    for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++) {
        const uint32_t op = graph->on_device[i];
        const struct lull_pipeline_class *class = lull_pipeline_class_of(&pipeline->problem, op);
        const double waited_ns = (double)(planner->begin_ns[op] - end_ns);

        if (has_clock)
            sum_nj += waited_ns * waiting_w;
        else
            first_waits_ns += waited_ns;
        sum_nj += (double)class->points[planner->option[op]].energy_nj;
        end_ns = planner->begin_ns[op] + planner->duration_ns[op];
        if (class->point_count > 1) {
            waiting_w = pipeline->waiting_w[planner->option[op]];
            has_clock = true;
        }
    }
    return sum_nj + (first_waits_ns + (double)(makespan_ns - end_ns)) * waiting_w;
}

static void job_pipeline_evaluate(struct planner *planner, const struct lull_job_pipeline *pipeline,
                                  struct lull_pipeline_cost *cost_out)
{
    const struct lull_pipeline_graph *graph = &pipeline->graph;

    for (size_t i = 0; i < graph->op_count; i++)
        planner->duration_ns[i] =
            lull_pipeline_class_of(&pipeline->problem, i)->points[planner->option[i]].time_ns;
    cost_out->time_ns = lull_pipeline_earliest(graph, planner->duration_ns, planner->begin_ns);
    cost_out->energy_j = 0.0;
    for (uint32_t device = 0; device < graph->device_count; device++)
        cost_out->energy_j +=
            job_pipeline_device_nj(planner, pipeline, device, cost_out->time_ns) * 1e-9;
}

/* Finds a plan of real clocks that takes at most time_ns. Returns 1 and the cost of the plan, 0 if
 * there is none, or an error. */
static int job_pipeline_plan(struct planner *planner, const struct lull_job_pipeline *pipeline,
                             int64_t time_ns, struct lull_pipeline_cost *cost_out)
{
    int64_t moves;
    int rc = lull_frontier_seek(planner->frontier, time_ns);

    if (rc == -ERANGE)
        return 0;
    if (rc < 0)
        return rc;
    lull_frontier_durations(planner->frontier, planner->duration_ns);
    rc = lull_pipeline_round_quick(planner->rounding, planner->duration_ns, time_ns,
                                   planner->option);
    if (rc < 0)
        return rc == -ERANGE ? 0 : rc;
    moves = lull_pipeline_round_improve(planner->rounding, time_ns, MAX_MOVES, planner->option);
    if (moves < 0)
        return (int)moves;
    job_pipeline_evaluate(planner, pipeline, cost_out);
    return 1;
}

/* Finds the shortest time that is possible, and the time beyond which no energy is saved. */
static int find_ends(struct planner *planner, int64_t *fastest_out, int64_t *cheapest_out)
{
    int rc = lull_frontier_seek_cheapest(planner->frontier);

    if (rc < 0)
        return rc;
    *cheapest_out = lull_frontier_here(planner->frontier).time_ns;
    rc = lull_frontier_seek(planner->frontier, 0);
    if (rc < 0 && rc != -ERANGE)
        return rc;
    *fastest_out = lull_frontier_here(planner->frontier).time_ns;
    return 0;
}

static int64_t job_pipeline_plan_all(struct planner *planner,
                                     const struct lull_job_pipeline *pipeline, uint32_t points,
                                     uint64_t iterations, uint32_t type,
                                     struct lull_cluster_point *points_out)
{
    int64_t fastest_ns;
    int64_t cheapest_ns;
    int64_t count = 0;
    int rc = find_ends(planner, &fastest_ns, &cheapest_ns);

    for (uint32_t i = 0; rc >= 0 && i < points; i++) {
        const double share = (double)i / (points - 1.0);
        const int64_t time_ns = fastest_ns + llround(share * (double)(cheapest_ns - fastest_ns));
        struct lull_pipeline_cost cost = {0};

        rc = job_pipeline_plan(planner, pipeline, time_ns, &cost);
        if (rc < 1 || cost.time_ns > (int64_t)((uint64_t)LULL_CLUSTER_MAX_NS / iterations))
            continue;
        points_out[count++] = (struct lull_cluster_point){
            .type = type,
            .gpus = (uint32_t)pipeline->gpus,
            .time_ns = cost.time_ns * (int64_t)iterations,
            .energy_j = cost.energy_j * (double)iterations,
        };
    }
    return rc < 0 ? rc : count;
}

int64_t lull_job_pipeline_points(const struct lull_job_pipeline *pipeline, uint32_t points,
                                 uint64_t iterations, uint32_t type,
                                 struct lull_cluster_point *points_out, struct lull_error *err)
{
    struct planner planner = {0};
    int64_t result = planner_init(&planner, pipeline, err);

    if (result < 0)
        return result;
    result = job_pipeline_plan_all(&planner, pipeline, points, iterations, type, points_out);
    planner_fini(&planner);
    return result < 0 ? lull_error_set(err, (int)result, "no memory to plan") : result;
}
