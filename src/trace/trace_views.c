/* Views of a trace that was read. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "trace/string_set.h"
#include "trace/trace.h"

uint64_t lull_trace_unusable_kernels(const struct lull_trace_loss *loss)
{
    return loss->no_times + loss->before_launch + loss->other_clock + loss->unpaired;
}

struct lull_trace lull_trace_of_gpu(const struct lull_trace *trace, size_t gpu)
{
    struct lull_trace one = *trace;
    struct lull_trace_gpu *const of = &trace->gpus[gpu];

    one.gpus = of;
    one.gpu_count = 1;
    one.kernel_count = of->kernel_count;
    one.launch_count = of->launch_count;
    one.step_count = of->step_count;
    one.mark_count = of->mark_count;
    /* An empty array may be NULL, and arithmetic on NULL is undefined. */
    if (of->kernel_count > 0)
        one.kernels = trace->kernels + of->first_kernel;
    if (of->launch_count > 0)
        one.launches = trace->launches + of->first_launch;
    if (of->step_count > 0)
        one.steps = trace->steps + of->first_step;
    if (of->mark_count > 0)
        one.marks = trace->marks + of->first_mark;
    memcpy(one.gpu, of->name, sizeof(one.gpu));
    return one;
}

const char *lull_trace_string(const struct lull_trace *trace, uint32_t index)
{
    return lull_string_set_get(trace->strings, index);
}

const struct lull_trace_launch *lull_trace_find_launch(const struct lull_trace *trace,
                                                       int64_t correlation)
{
    size_t low = 0;
    size_t high = trace->launch_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (trace->launches[middle].correlation < correlation)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == trace->launch_count || trace->launches[low].correlation != correlation)
        return NULL;
    return &trace->launches[low];
}
