/* What a straggler is seen by, and what is done meanwhile. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "governor/plan/plan_runner_state.h"

uint32_t lull_pilot_copy_count(const struct lull_pilot *pilot)
{
    return pilot->copies;
}

uint32_t lull_pilot_copy(const struct lull_pilot *pilot, uint32_t gpu)
{
    return pilot->gpus[gpu].copy;
}

/* False: the iteration is not known of this GPU. */
static bool add_gpu(const struct pilot_gpu *gpu, uint64_t iteration, struct lull_pilot_times *times)
{
    const uint32_t slot = (uint32_t)(iteration % ENDS);
    const struct pilot_lengths *lengths = &gpu->lengths[iteration % LENGTHS];
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

static void find_next(const struct pilot_gpu *gpu, uint64_t iteration,
                      struct lull_pilot_times *times)
{
    const uint32_t slot = (uint32_t)((iteration + 1) % ENDS);

    if (gpu->begins_of[slot] == iteration + 1 && gpu->begins_ns[slot] < times->next_ns)
        times->next_ns = gpu->begins_ns[slot];
}

bool lull_pilot_times(const struct lull_pilot *pilot, uint32_t copy, uint64_t iteration,
                      struct lull_pilot_times *times_out)
{
    uint32_t devices = 0;

    times_out->begin_ns = times_out->next_ns = INT64_MAX;
    times_out->end_ns = INT64_MIN;
    for (uint32_t i = 0; i < pilot->gpu_count; i++) {
        if (pilot->gpus[i].copy != copy)
            continue;
        if (!add_gpu(&pilot->gpus[i], iteration, times_out))
            return false;
        find_next(&pilot->gpus[i], iteration, times_out);
        devices++;
    }
    return devices == pilot->setup.plans[0].graph.device_count && times_out->next_ns != INT64_MAX &&
           times_out->next_ns >= times_out->end_ns;
}

int lull_pilot_detour(struct lull_pilot *pilot, const uint32_t *const *option_of_gpu)
{
    const struct lull_plan_file *plan = NULL;
    struct pilot_parts parts;
    int result;

    if (pilot->conductor != NULL && lull_conductor_plan(pilot->conductor) >= 0)
        plan = lull_pilot_plan(pilot, (uint32_t)lull_conductor_plan(pilot->conductor));
    if (plan == NULL)
        return -EAGAIN;
    result = pilot_parts_init(&parts, pilot, plan->graph.op_count);
    if (result == 0) {
        pilot_fill_parts(pilot, plan, option_of_gpu, &parts);
        result = lull_conductor_detour(pilot->conductor, parts.ops);
    }
    pilot_parts_fini(&parts);
    return result;
}

void lull_pilot_end_detour(struct lull_pilot *pilot)
{
    if (pilot->conductor != NULL)
        lull_conductor_end_detour(pilot->conductor);
}
