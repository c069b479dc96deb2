/* What a straggler is seen by, and what is done meanwhile. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "governor/plan/plan_runner_state.h"

uint32_t lull_plan_runner_copy_count(const struct lull_plan_runner *runner)
{
    return runner->copies;
}

uint32_t lull_plan_runner_copy(const struct lull_plan_runner *runner, uint32_t gpu)
{
    return runner->gpus[gpu].copy;
}

/* False: the iteration is not known of this GPU. */
static bool add_gpu(const struct runner_gpu *gpu, uint64_t iteration,
                    struct lull_plan_runner_times *times)
{
    const uint32_t slot = (uint32_t)(iteration % ENDS);
    const struct runner_lengths *lengths = &gpu->lengths[iteration % LENGTHS];
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

static void find_next(const struct runner_gpu *gpu, uint64_t iteration,
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
        if (!add_gpu(&runner->gpus[i], iteration, times_out))
            return false;
        find_next(&runner->gpus[i], iteration, times_out);
        devices++;
    }
    return devices == runner->setup.plans[0].graph.device_count &&
           times_out->next_ns != INT64_MAX && times_out->next_ns >= times_out->end_ns;
}

int lull_plan_runner_detour(struct lull_plan_runner *runner, const uint32_t *const *option_of_gpu)
{
    const struct lull_plan_file *plan = NULL;
    struct runner_parts parts;
    int result;

    if (runner->conductor != NULL && lull_conductor_plan(runner->conductor) >= 0)
        plan = lull_plan_runner_plan(runner, (uint32_t)lull_conductor_plan(runner->conductor));
    if (plan == NULL)
        return -EAGAIN;
    result = runner_parts_init(&parts, runner, plan->graph.op_count);
    if (result == 0) {
        runner_fill_parts(runner, plan, option_of_gpu, &parts);
        result = lull_conductor_detour(runner->conductor, parts.ops);
    }
    runner_parts_fini(&parts);
    return result;
}

void lull_plan_runner_end_detour(struct lull_plan_runner *runner)
{
    if (runner->conductor != NULL)
        lull_conductor_end_detour(runner->conductor);
}
