/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/rounding/rounding.h"
#include "simulator/timeline/levers.h"

/* One part as a problem of the planner. Meetings of others than chosen operations are operations of
 * one nanosecond that draw nothing; their lengths are latencies of the edges behind them. */
struct plan_part {
    const struct lull_timeline_parts *parts;
    const struct lull_timeline_power *power;
    uint32_t part;
    uint32_t *op_of;     /* the job's meetings as the graph's operations; scratch of all parts */
    uint32_t *device_of; /* of each rank: its device here; LULL_TIMELINE_NONE */
    struct lull_pipeline_profile profile;
    struct lull_pipeline_graph graph;
    double *blocking_w; /* of each device */
    uint32_t first_op;  /* every operation waits for it: the start of the step */
    uint32_t last_op;   /* it waits for every operation: the end of the step */
    uint32_t devices;
    uint32_t chosen_ranks;
};

enum { FIXED_CLASS, FIXED_NS = 1 };

static uint32_t chosen_op(const struct plan_part *part, uint32_t collective)
{
    const struct lull_timeline_job *const job = part->parts->job;
    const uint32_t op = job->members[job->first_member[collective]];

    return lull_timeline_is_chosen(job, op) ? op : LULL_TIMELINE_NONE;
}

/* ---- the problem ---- */

/* Adds a class for one operation: its length and energy at each clock. */
static int timeline_plan_add_class(struct plan_part *part, uint32_t number, uint32_t op,
                                   struct lull_error *err)
{
    const double length_ns = (double)part->parts->job->length_ns[op];
    int rc = 0;

    for (uint32_t k = 0; k < part->power->point_count && rc == 0; k++) {
        const struct lull_timeline_point *const at = &part->power->points[k];
        const double time_ns = fmax(length_ns / at->speed_ratio, 1.0);
        const struct lull_pipeline_point point = {
            (int64_t)time_ns, (int64_t)(time_ns * at->compute_w), (uint32_t)at->mhz};

        rc = lull_pipeline_profile_add(&part->profile, 0, number, LULL_PIPELINE_FORWARD, 0, &point,
                                       err);
    }
    return rc;
}

static int timeline_plan_add_op(struct plan_part *part, uint32_t device, uint32_t class_index)
{
    const struct lull_pipeline_op op = {.device = device, .class_index = class_index};

    return (int)lull_pipeline_graph_add(&part->graph, &op);
}

static uint32_t timeline_plan_device_of(struct plan_part *part, uint32_t rank)
{
    if (part->device_of[rank] == LULL_TIMELINE_NONE) {
        part->blocking_w[part->devices] = part->power->points[0].wait_w;
        part->device_of[rank] = part->devices++;
        part->chosen_ranks++;
    }
    return part->device_of[rank];
}

static int add_collectives(struct plan_part *part, struct lull_error *err)
{
    const struct lull_timeline_parts *const parts = part->parts;
    static const struct lull_pipeline_point fixed = {FIXED_NS, 0, 0};
    int rc = lull_pipeline_profile_add(&part->profile, 0, 0, LULL_PIPELINE_FIXED, 0, &fixed, err);

    if (rc == 0)
        rc = timeline_plan_add_op(part, part->devices++, FIXED_CLASS);
    part->first_op = (uint32_t)rc;
    for (uint32_t i = parts->first_of[part->part]; i < parts->first_of[part->part + 1] && rc >= 0;
         i++) {
        const uint32_t collective = parts->collectives[i];
        const uint32_t op = chosen_op(part, collective);
        const uint32_t number = (uint32_t)part->profile.class_count;

        if (op == LULL_TIMELINE_NONE) {
            rc = timeline_plan_add_op(part, part->devices++, FIXED_CLASS);
        } else {
            rc = timeline_plan_add_class(part, number, op, err);
            if (rc == 0)
                rc = timeline_plan_add_op(
                    part, timeline_plan_device_of(part, parts->job->timeline->ops[op].rank),
                    number);
        }
        part->op_of[collective] = (uint32_t)rc;
    }
    if (rc >= 0)
        rc = timeline_plan_add_op(part, part->devices++, FIXED_CLASS);
    part->last_op = (uint32_t)rc;
    return rc < 0 ? rc : 0;
}

/* The latency behind an operation: its length, where that is not the planner's to choose. */
static int64_t latency_ns(const struct plan_part *part, uint32_t op)
{
    return lull_timeline_is_chosen(part->parts->job, op) ? 0 : part->parts->job->length_ns[op];
}

/* Connects one operation with what it waits for, in its part or in the head, and with the end. */
static int connect_op(struct plan_part *part, uint32_t collective, uint32_t op)
{
    const struct lull_timeline_parts *const parts = part->parts;
    const struct lull_timeline_job *const job = parts->job;
    const uint32_t to = part->op_of[collective];
    int rc = 0;

    for (int w = 0; w < LULL_TIMELINE_WAITS && rc == 0; w++) {
        const uint32_t before = job->waits[op][w];

        if (before == LULL_TIMELINE_NONE)
            continue;
        if (parts->part_of[job->collective[before]] == part->part)
            rc = lull_pipeline_graph_connect(&part->graph, part->op_of[job->collective[before]], to,
                                             latency_ns(part, before));
        else
            rc = lull_pipeline_graph_connect(&part->graph, part->first_op, to,
                                             parts->end_ns[before]);
    }
    if (rc == 0)
        rc = lull_pipeline_graph_connect(&part->graph, to, part->last_op,
                                         latency_ns(part, op) + parts->after_ns[op]);
    return rc;
}

static int connect_all(struct plan_part *part)
{
    const struct lull_timeline_parts *const parts = part->parts;
    const struct lull_timeline_job *const job = parts->job;
    int rc = 0;

    for (uint32_t i = parts->first_of[part->part]; i < parts->first_of[part->part + 1]; i++)
        for (uint32_t m = job->first_member[parts->collectives[i]];
             m < job->first_member[parts->collectives[i] + 1] && rc == 0; m++)
            rc = connect_op(part, parts->collectives[i], job->members[m]);
    return rc;
}

/* ---- the plan ---- */

struct plan_tools {
    const struct lull_pipeline_problem *problem;
    struct lull_frontier *frontier;
    struct lull_pipeline_rounding *rounding;
    struct lull_certificate certificate;
    int64_t *duration_ns;
    uint32_t *point;
};

/* Plans a part for a time of its step; no plan is faster than that at the highest clocks. */
static int plan_for(struct plan_tools *tools, int64_t step_ns, struct lull_timeline_plan_sum *sum,
                    struct lull_error *err)
{
    const struct lull_pipeline_problem *const problem = tools->problem;
    struct lull_pipeline_cost cost;
    int64_t deadline_ns;
    int rc;

    lull_pipeline_plan_highest(problem, tools->point);
    deadline_ns = lull_pipeline_plan_cost(problem, tools->point, 0).time_ns;
    if (deadline_ns < step_ns)
        deadline_ns = step_ns;
    rc = lull_frontier_seek(tools->frontier, deadline_ns);
    if (rc < 0)
        return rc;
    lull_frontier_durations(tools->frontier, tools->duration_ns);
    lull_frontier_certify(tools->frontier, &tools->certificate);
    rc = lull_certificate_check(&tools->certificate, problem->graph, err);
    if (rc == 0)
        rc = lull_pipeline_round_quick(tools->rounding, tools->duration_ns, deadline_ns,
                                       tools->point);
    if (rc < 0)
        return rc;
    cost = lull_pipeline_plan_cost(problem, tools->point, deadline_ns);
    if (cost.time_ns < 0)
        return (int)cost.time_ns;
    sum->energy_j += cost.energy_j;
    sum->bound_j += lull_certificate_bound(&tools->certificate, problem, deadline_ns);
    return 0;
}

static int plan_part(const struct plan_part *part, double tolerance_ratio,
                     struct lull_timeline_plan_sum *exact, struct lull_timeline_plan_sum *slower,
                     struct lull_error *err)
{
    const struct lull_pipeline_problem problem = {&part->profile, &part->graph, part->blocking_w};
    const int64_t step_ns = part->parts->step_ns[part->parts->step_of[part->part]];
    const double slower_ns = (double)step_ns * (1.0 + tolerance_ratio);
    struct plan_tools tools = {.problem = &problem,
                               .frontier = lull_frontier_create(&problem, err),
                               .duration_ns = calloc(part->graph.op_count, sizeof(int64_t)),
                               .point = calloc(part->graph.op_count, sizeof(uint32_t))};
    int rc = lull_certificate_init(&tools.certificate, &part->graph);

    if (tools.frontier == NULL || tools.duration_ns == NULL || tools.point == NULL)
        rc = -ENOMEM;
    if (rc == 0)
        rc = lull_pipeline_rounding_create(&problem, &tools.rounding);
    /* The frontier goes from longer to shorter times. */
    if (rc == 0)
        rc = plan_for(&tools, (int64_t)slower_ns, slower, err);
    if (rc == 0)
        rc = plan_for(&tools, step_ns, exact, err);
    lull_pipeline_rounding_destroy(tools.rounding);
    lull_frontier_destroy(tools.frontier);
    lull_certificate_fini(&tools.certificate);
    free(tools.duration_ns);
    free(tools.point);
    return rc;
}

/* Adds what the plans of parts lack: ranks that are in no part of a step wait. */
static void add_waiting(const struct plan_part *part, double tolerance_ratio,
                        struct lull_timeline_plan_sum *exact, struct lull_timeline_plan_sum *slower)
{
    const double wait_w = part->power->points[0].wait_w;
    const int64_t step_ns = part->parts->step_ns[part->parts->step_of[part->part]];
    const double exact_j = wait_w * (double)step_ns * 1e-9 * part->chosen_ranks;
    const double slower_j = exact_j * (1.0 + tolerance_ratio);

    exact->energy_j -= exact_j;
    exact->bound_j -= exact_j;
    slower->energy_j -= slower_j;
    slower->bound_j -= slower_j;
}

static int timeline_plan_add_part(struct plan_part *part, double tolerance_ratio,
                                  struct lull_timeline_plan_sum *exact,
                                  struct lull_timeline_plan_sum *slower, struct lull_error *err)
{
    const size_t count = part->parts->first_of[part->part + 1] - part->parts->first_of[part->part];
    int rc = -ENOMEM;

    lull_pipeline_profile_init(&part->profile);
    lull_pipeline_graph_init(&part->graph);
    part->devices = part->chosen_ranks = 0;
    memset(part->device_of, 0xff,
           part->parts->job->timeline->rank_count * sizeof(*part->device_of));
    part->blocking_w = calloc(count + 2, sizeof(*part->blocking_w));
    if (part->blocking_w != NULL)
        rc = add_collectives(part, err);
    if (rc == 0)
        rc = connect_all(part);
    if (rc == 0)
        rc = lull_pipeline_graph_finish(&part->graph, &part->profile, err);
    if (rc == 0)
        rc = plan_part(part, tolerance_ratio, exact, slower, err);
    if (rc == 0)
        add_waiting(part, tolerance_ratio, exact, slower);
    lull_pipeline_profile_fini(&part->profile);
    lull_pipeline_graph_fini(&part->graph);
    free(part->blocking_w);
    return rc;
}

/* The energy common to all plans: the blocking power of all ranks over
 * the whole time, plus the computation other than forwards and backwards. */
static void begin_sums(const struct lull_timeline_parts *parts,
                       const struct lull_timeline_power *power, double tolerance_ratio,
                       struct lull_timeline_plan_sum *exact, struct lull_timeline_plan_sum *slower)
{
    const struct lull_operation_timeline *const timeline = parts->job->timeline;
    const struct lull_timeline_point *const highest = &power->points[0];
    double others_j = 0.0;
    double time_ns = 0.0;

    for (uint32_t i = 0; i < timeline->op_count; i++)
        if (lull_timeline_computes(&timeline->ops[i]) && !lull_timeline_is_chosen(parts->job, i))
            others_j +=
                (double)parts->job->length_ns[i] * 1e-9 * (highest->compute_w - highest->wait_w);
    for (size_t s = 0; s < timeline->step_count; s++)
        time_ns += (double)parts->step_ns[s];
    exact->time_ns = time_ns;
    exact->energy_j = others_j + time_ns * 1e-9 * highest->wait_w * (double)timeline->rank_count;
    exact->bound_j = exact->energy_j;
    slower->time_ns = time_ns * (1.0 + tolerance_ratio);
    slower->energy_j =
        others_j + slower->time_ns * 1e-9 * highest->wait_w * (double)timeline->rank_count;
    slower->bound_j = slower->energy_j;
}

int lull_timeline_plan(const struct lull_timeline_parts *parts,
                       const struct lull_timeline_power *power, double tolerance_ratio,
                       struct lull_timeline_plan_sum *exact_out,
                       struct lull_timeline_plan_sum *slower_out, struct lull_error *err)
{
    struct plan_part part = {.parts = parts, .power = power};
    struct lull_memory memory = {0};
    int rc = 0;

    part.op_of = lull_memory_take(&memory, parts->job->collective_count, sizeof(*part.op_of));
    part.device_of =
        lull_memory_take(&memory, parts->job->timeline->rank_count, sizeof(*part.device_of));
    if (memory.has_failed)
        rc = -ENOMEM;
    begin_sums(parts, power, tolerance_ratio, exact_out, slower_out);
    for (part.part = 0; part.part < parts->part_count && rc == 0; part.part++)
        rc = timeline_plan_add_part(&part, tolerance_ratio, exact_out, slower_out, err);
    lull_memory_free(&memory);
    if (rc == -ENOMEM)
        lull_error_set(err, rc, "not enough memory to plan %u parts", parts->part_count);
    return rc;
}
