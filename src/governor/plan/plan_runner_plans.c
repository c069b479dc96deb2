/*
 * Passes plans and detours to the plan controller, and returns what is known of iterations, for
 * profiling and to see stragglers. SPDX-License-Identifier: Apache-2.0
 */
#include "governor/plan/plan_runner_state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* ---- plans ------------------------------------------------------------------------------- */

/* Memory for the operations of all GPUs, as a plan has them, or a plan for each copy. */
struct lull_runner_parts {
    int64_t *begin_ns;
    int64_t *duration_ns;
    struct lull_plan_controller_op *room;
    const struct lull_plan_controller_op *ops[LULL_PLAN_CONTROLLER_MAX_GPUS];
};

/* Errors: -ENOMEM; parts_fini() is called all the same. */
static int parts_init(struct lull_runner_parts *parts, const struct lull_plan_runner *runner,
                      size_t op_count)
{
    *parts = (struct lull_runner_parts){
        .begin_ns = calloc(op_count, sizeof(int64_t)),
        .duration_ns = calloc(op_count, sizeof(int64_t)),
        .room = calloc(op_count * (runner->gpu_count + 1), sizeof(struct lull_plan_controller_op)),
    };
    return parts->begin_ns == NULL || parts->duration_ns == NULL || parts->room == NULL ? -ENOMEM
                                                                                        : 0;
}

static void parts_fini(struct lull_runner_parts *parts)
{
    free(parts->begin_ns);
    free(parts->duration_ns);
    free(parts->room);
}

static void fill_part(const struct lull_plan_runner *runner, const struct lull_plan_file *plan,
                      const uint32_t *option, uint32_t gpu, struct lull_runner_parts *parts,
                      struct lull_plan_controller_op *room)
{
    const struct lull_pipeline_problem problem = lull_plan_runner_problem(plan);
    const struct lull_device_info *info = runner->gpus[gpu].info;

    lull_device_plan_control(&problem, option, parts->begin_ns, (uint32_t)runner->gpus[gpu].device,
                             info->sm_clocks_mhz, info->sm_clock_count, room);
    parts->ops[gpu] = room;
}

/* Fills in the operations of every GPU, from the plan's graph and these options. */
static void fill_parts(const struct lull_plan_runner *runner, const struct lull_plan_file *plan,
                       const uint32_t *const *option_of_gpu, struct lull_runner_parts *parts)
{
    const struct lull_pipeline_problem problem = lull_plan_runner_problem(plan);
    struct lull_plan_controller_op *next = parts->room;
    const uint32_t *timed = NULL;

    for (uint32_t i = 0; i < runner->gpu_count; i++) {
        const uint32_t *option = option_of_gpu[i];

        for (size_t op = 0; op < plan->graph.op_count && option != timed; op++)
            parts->duration_ns[op] =
                lull_pipeline_class_of(&problem, op)->points[option[op]].time_ns;
        if (option != timed)
            lull_pipeline_earliest(&plan->graph, parts->duration_ns, parts->begin_ns);
        timed = option;
        fill_part(runner, plan, option, i, parts, next);
        next += lull_device_plan_count(&problem, (uint32_t)runner->gpus[i].device);
    }
}

static double runner_plan_slowdown_of(const struct lull_plan_file *plan,
                                      struct lull_runner_parts *parts)
{
    int64_t highest_ns;

    for (size_t i = 0; i < plan->graph.op_count; i++) {
        const struct lull_pipeline_class *class =
            &plan->profile.classes[plan->graph.ops[i].class_index];

        parts->duration_ns[i] = class->points[LULL_PIPELINE_HIGHEST].time_ns;
    }
    highest_ns = lull_pipeline_earliest(&plan->graph, parts->duration_ns, parts->begin_ns);
    return plan->time_ns > highest_ns ? (double)plan->time_ns / (double)highest_ns - 1.0 : 0.0;
}

int lull_plan_runner_add_plan(struct lull_plan_runner *runner, const struct lull_plan_file *plan)
{
    const uint32_t *option_of_gpu[LULL_PLAN_CONTROLLER_MAX_GPUS];
    struct lull_runner_parts parts;
    int result = parts_init(&parts, runner, plan->graph.op_count);

    if (result < 0)
        goto fini;
    for (uint32_t i = 0; i < runner->gpu_count; i++)
        option_of_gpu[i] = plan->option;
    fill_parts(runner, plan, option_of_gpu, &parts);
    result = lull_plan_controller_add_plan(runner->plan_controller, parts.ops,
                                           runner_plan_slowdown_of(plan, &parts));
    if (result < 0)
        goto fini;
    runner->conducted[runner->conducted_count++] =
        (struct lull_runner_conducted){(int32_t)(plan - runner->plans), NOBODYS};
fini:
    parts_fini(&parts);
    return result;
}

const struct lull_plan_file *lull_plan_runner_plan(const struct lull_plan_runner *runner,
                                                   uint32_t plan)
{
    return plan < runner->conducted_count && runner->conducted[plan].file >= 0
               ? &runner->plans[runner->conducted[plan].file]
               : NULL;
}

/* ---- profiling --------------------------------------------------------------------------- */

static int add_uniform(struct lull_plan_runner *runner, uint32_t point)
{
    const struct lull_plan_controller_op *ops[LULL_PLAN_CONTROLLER_MAX_GPUS];
    struct lull_plan_controller_op *room;
    uint32_t most = 0;
    int result;

    for (uint32_t i = 0; i < runner->gpu_count; i++) {
        const struct lull_pipeline_problem problem = lull_plan_runner_problem(&runner->plans[0]);
        const uint32_t count = lull_device_plan_count(&problem, (uint32_t)runner->gpus[i].device);

        if (count > most)
            most = count;
    }
    room = calloc((size_t)most + 1, sizeof(room[0]));
    if (room == NULL || runner->conducted_count == LULL_PLAN_RUNNER_MAX_CONDUCTED) {
        free(room);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < most; i++)
        room[i] = (struct lull_plan_controller_op){.point = point, .begin_ns = i, .end_ns = i + 1};
    for (uint32_t i = 0; i < runner->gpu_count; i++)
        ops[i] = room;
    result = lull_plan_controller_add_plan(runner->plan_controller, ops, 0);
    free(room);
    if (result < 0)
        return result;
    runner->conducted[runner->conducted_count++] =
        (struct lull_runner_conducted){NOBODYS, (int32_t)point};
    return 0;
}

int lull_plan_runner_hold_point(struct lull_plan_runner *runner, uint32_t point)
{
    uint32_t plan = 0;

    if (runner->plan_controller == NULL)
        return -EAGAIN;
    while (plan < runner->conducted_count && runner->conducted[plan].point != (int32_t)point)
        plan++;
    if (plan == runner->conducted_count) {
        const int result = add_uniform(runner, point);

        if (result < 0)
            return result;
    }
    lull_plan_controller_hold_plan(runner->plan_controller, (int32_t)plan);
    return 0;
}

int lull_plan_runner_try_next(struct lull_plan_runner *runner)
{
    int result;

    if (runner->plan_controller == NULL)
        return -EAGAIN;
    if (runner->conducted_count == LULL_PLAN_RUNNER_MAX_CONDUCTED)
        return -ENOMEM;
    result = lull_plan_runner_add_plan(runner, &runner->plans[runner->plan_count]);
    if (result < 0)
        return result;
    runner->plan_count++;
    lull_plan_controller_use_plan(runner->plan_controller, (int32_t)runner->conducted_count - 1);
    return 0;
}

int32_t lull_plan_runner_held_point(const struct lull_plan_runner *runner,
                                    const struct lull_plan_controller_iteration *iteration)
{
    return iteration->plan >= 0 && (uint32_t)iteration->plan < runner->conducted_count
               ? runner->conducted[iteration->plan].point
               : NOBODYS;
}

/* Raisings may be late by this much on average, since an iteration has dozens of them. */
static const double typical_late_ms = 0.1;

bool lull_plan_runner_switching(const struct lull_plan_runner *runner,
                                struct lull_pipeline_switching *switching_out)
{
    double down_ms = 0.0;
    double lead_ms = 0.0;
    double early_ms = 0.0;

    if (runner->plan_controller == NULL)
        return false;
    for (uint32_t i = 0; i < runner->gpu_count; i++) {
        const struct lull_switch_cost *cost =
            lull_plan_controller_switch_cost(runner->plan_controller, i);
        const double lead = lull_switch_cost_lead_ms(cost, typical_late_ms);

        lead_ms += lead;
        down_ms += lull_switch_cost_total_ms(cost, LULL_DIRECTION_DOWN, 0.5);
        early_ms += fmax(lead - lull_switch_cost_total_ms(cost, LULL_DIRECTION_UP, 0.5), 0.0);
    }
    *switching_out = (struct lull_pipeline_switching){
        .down_ns = llround(down_ms / runner->gpu_count * 1e6),
        .up_ns = llround(lead_ms / runner->gpu_count * 1e6),
        .is_fed_forward = true,
        .early_ns = llround(early_ms / runner->gpu_count * 1e6),
        .call_ns = llround(lull_plan_controller_call_ms(runner->plan_controller) * 1e6) *
                   (int64_t)(runner->world / runner->plans[0].graph.device_count),
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a runner has at least one GPU. */
        .drivers = (runner->world + runner->gpu_count - 1) / runner->gpu_count,
    };
    return true;
}

bool lull_plan_runner_lengths(const struct lull_plan_runner *runner, uint32_t gpu,
                              uint64_t iteration, double *forward_out, double *backward_out)
{
    const struct lull_runner_lengths *lengths = &runner->gpus[gpu].lengths[iteration % LENGTHS];

    if (!runner->gpus[gpu].has_sections || lengths->iteration != iteration ||
        lengths->count[0] == 0 || lengths->count[1] == 0)
        return false;
    *forward_out = lengths->sum_ms[0] / lengths->count[0];
    *backward_out = lengths->sum_ms[1] / lengths->count[1];
    return true;
}

/* ---- stragglers -------------------------------------------------------------------------- */

uint32_t lull_plan_runner_copy(const struct lull_plan_runner *runner, uint32_t gpu)
{
    return runner->gpus[gpu].copy;
}

/* Adds the times of an iteration on this GPU. False: they are not known. */
static bool runner_plan_add_gpu(const struct lull_runner_gpu *gpu, uint64_t iteration,
                                struct lull_plan_runner_times *times)
{
    const uint32_t slot = (uint32_t)(iteration % ENDS);
    const struct lull_runner_lengths *lengths = &gpu->lengths[iteration % LENGTHS];
    int64_t end_ns;

    if (!gpu->has_sections || gpu->begins_of[slot] != iteration ||
        gpu->ends_of[slot] != iteration || gpu->ends_counted[slot] != gpu->op_count ||
        lengths->iteration != iteration)
        return false;
    end_ns = gpu->ends_ns[(size_t)slot * gpu->op_count + gpu->op_count - 1];
    if (gpu->begins_ns[slot] < times->begin_ns)
        times->begin_ns = gpu->begins_ns[slot];
    if (end_ns > times->end_ns)
        times->end_ns = end_ns;
    times->computed_ms[gpu->device] = lengths->sum_ms[0] + lengths->sum_ms[1];
    return true;
}

static void runner_plan_find_next(const struct lull_runner_gpu *gpu, uint64_t iteration,
                                  struct lull_plan_runner_times *times)
{
    const uint32_t slot = (uint32_t)((iteration + 1) % ENDS);

    if (gpu->begins_of[slot] == iteration + 1 && gpu->begins_ns[slot] < times->next_ns)
        times->next_ns = gpu->begins_ns[slot];
}

bool lull_plan_runner_times(const struct lull_plan_runner *runner, uint32_t copy,
                            uint64_t iteration, struct lull_plan_runner_times *times_out)
{
    uint32_t devices = 0;

    times_out->begin_ns = times_out->next_ns = INT64_MAX;
    times_out->end_ns = INT64_MIN;
    for (uint32_t i = 0; i < runner->gpu_count; i++) {
        if (runner->gpus[i].copy != copy)
            continue;
        if (!runner_plan_add_gpu(&runner->gpus[i], iteration, times_out))
            return false;
        runner_plan_find_next(&runner->gpus[i], iteration, times_out);
        devices++;
    }
    return devices == runner->plans[0].graph.device_count && times_out->next_ns != INT64_MAX &&
           times_out->next_ns >= times_out->end_ns;
}

int lull_plan_runner_detour(struct lull_plan_runner *runner, const uint32_t *const *option_of_gpu)
{
    const struct lull_plan_file *plan = NULL;
    struct lull_runner_parts parts;
    int result;

    if (runner->plan_controller != NULL && lull_plan_controller_plan(runner->plan_controller) >= 0)
        plan = lull_plan_runner_plan(runner,
                                     (uint32_t)lull_plan_controller_plan(runner->plan_controller));
    if (plan == NULL)
        return -EAGAIN;
    result = parts_init(&parts, runner, plan->graph.op_count);
    if (result == 0) {
        fill_parts(runner, plan, option_of_gpu, &parts);
        result = lull_plan_controller_detour(runner->plan_controller, parts.ops);
    }
    parts_fini(&parts);
    return result;
}

void lull_plan_runner_end_detour(struct lull_plan_runner *runner)
{
    if (runner->plan_controller != NULL)
        lull_plan_controller_end_detour(runner->plan_controller);
}
