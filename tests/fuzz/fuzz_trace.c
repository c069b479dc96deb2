/*
 * Traces: anyone may hand anyone a file. Whatever comes is either refused with a message, or gives
 * kernels in order whose exposure adds up.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../text_file.h"
#include "fuzz.h"

#include "core/section/savings_estimate.h"
#include "trace/analysis.h"

static void check_kernels(const struct lull_trace *trace)
{
    for (size_t i = 0; i < trace->kernel_count; i++) {
        const struct lull_trace_kernel *kernel = &trace->kernels[i];

        require(kernel->begin_ns >= 0 && kernel->end_ns >= kernel->begin_ns);
        require(i == 0 || kernel->begin_ns >= trace->kernels[i - 1].begin_ns);
        require(lull_trace_string(trace, kernel->name) != NULL);
        require(lull_trace_string(trace, kernel->group) != NULL);
        (void)lull_trace_find_launch(trace, kernel->correlation);
    }
}

static void check_analysis(const struct lull_analysis *analysis)
{
    const struct lull_switch_latency latency = {14000000, 14000000};
    const struct lull_exposure *exposure = &analysis->exposure;
    struct lull_switchable merged;
    struct lull_switchable forward;
    int64_t gaps_ns = 0;

    require(exposure->overlap_ns >= 0 && exposure->exposed_ns >= 0 && exposure->idle_ns >= 0);
    for (size_t i = 0; i < analysis->gap_count; i++)
        gaps_ns += analysis->gaps[i].end_ns - analysis->gaps[i].begin_ns;
    require(gaps_ns == exposure->exposed_ns + exposure->idle_ns);
    lull_switchable_feed_forward(analysis->gaps, analysis->gap_count, &latency, &forward);
    require(lull_switchable_merged(analysis->gaps, analysis->gap_count, &latency, 1.0, &merged) ==
            0);
    require(merged.gap_ms >= 0.0 && forward.gap_ms >= 0.0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_error err = {0};
    struct lull_analysis analysis;
    struct lull_trace trace;

    if (lull_trace_read(text_file(data, size), NULL, &trace, &err) < 0) {
        require(err.text[0] != '\0');
        return 0;
    }
    check_kernels(&trace);
    if (lull_analysis_init(&trace, &analysis, &err) == 0) {
        check_analysis(&analysis);
        lull_analysis_fini(&analysis);
    } else {
        require(trace.kernel_count == 0 && err.text[0] != '\0');
    }
    lull_trace_fini(&trace);
    return 0;
}
