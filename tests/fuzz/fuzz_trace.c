/*
 * Traces, which may come from untrusted users: refused with a
 * message, or kernels in order whose exposure adds up.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../text_file.h"
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/section/savings_estimate.h"
#include "simulator/timeline/levers.h"
#include "simulator/timeline/what_if.h"
#include "trace/analysis.h"
#include "trace/phase_prediction.h"
#include "trace/recording.h"

static void check_kernels(const struct lull_trace *trace)
{
    for (size_t i = 0; i < trace->kernel_count; i++) {
        const struct lull_trace_kernel *kernel = &trace->kernels[i];

        require(kernel->begin_ns >= 0 && kernel->end_ns >= kernel->begin_ns);
        require(i == 0 || kernel->begin_ns >= kernel[-1].begin_ns);
        require(kernel->operation == NULL || strcmp(kernel->operation, "copy") != 0);
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

/* The times of a phase are those of its steps, and its points are numbers. */
static void check_phases(const struct lull_trace *trace)
{
    static const struct lull_prediction_setup setup = {.tolerance_ratio = 0.01};
    struct lull_prediction prediction = {.link_gbs = 25.0};
    struct lull_phases phases;
    uint64_t kernels = 0;

    require(lull_phases_find(trace, &phases) == 0);
    require(phases.outside_ns >= 0);
    lull_predict_model(&setup, "", &prediction);
    for (int i = 0; i < LULL_TRACE_PHASES; i++) {
        const struct lull_exposure *const exposure = &phases.phases[i].exposure;
        struct lull_phase_prediction predicted;

        require(exposure->overlap_ns >= 0 && exposure->exposed_ns >= 0 && exposure->idle_ns >= 0);
        require(exposure->span_ns ==
                exposure->compute_ns + exposure->exposed_ns + exposure->idle_ns);
        kernels += phases.phases[i].kernels;
        lull_predict_phase(&prediction, &phases.phases[i], (enum lull_trace_phase)i, 0.01,
                           &predicted);
        require(!predicted.is_known || isfinite(predicted.best.energy_j));
    }
    require(kernels <= trace->kernel_count);
}

static void check_operations(const struct lull_operation_timeline *timeline)
{
    for (size_t i = 0; i < timeline->op_count; i++) {
        const struct lull_timeline_op *const op = &timeline->ops[i];

        require(op->begin_ns >= 0 && op->duration_ns >= 0);
        require(op->step < timeline->step_count && op->rank < timeline->rank_count);
        require(i == 0 || op[-1].step < op->step ||
                (op[-1].step == op->step && op[-1].begin_ns <= op->begin_ns));
    }
}

/* Whatever the timeline, a lever is a number and keeps to its tolerance, and no plan is below its
 * bound by more than the planner's nanoseconds. */
static void check_levers(const struct lull_timeline_job *job)
{
    static const struct lull_timeline_point points[] = {
        {1400.0, 1.0, 300.0, 111.0}, {1200.0, 0.9, 240.0, 100.0}, {1000.0, 0.75, 180.0, 90.0}};
    const struct lull_timeline_question question = {
        .job = job, .power = {points, 3, 80.0}, .driver_ms = 10.0, .tolerance_ratio = 0.01};
    struct lull_timeline_answer answer;
    struct lull_error err = {0};

    if (lull_timeline_ask(&question, &answer, &err) < 0) {
        require(err.text[0] != '\0');
        return;
    }
    require(isnan(answer.frontier_gap_ratio) || answer.frontier_gap_ratio >= 0.0);
    for (uint32_t i = 0; i < answer.lever_count; i++) {
        const struct lull_timeline_lever *const lever = &answer.levers[i];

        require(lever->saving_ratio <= 1.0 && lever->slowdown_ratio > -1e-6);
        require(lever->slowdown_ratio <= lever->tolerance_ratio + 1e-3);
    }
}

static void check_timeline(const struct lull_operation_timeline *timeline)
{
    struct lull_timeline_job job;
    struct lull_what_if what_if;
    struct lull_error err = {0};

    check_operations(timeline);
    if (lull_timeline_job_init(&job, timeline, &err) < 0) {
        require(err.text[0] != '\0');
        return;
    }
    if (lull_what_if_ask(&job, &what_if, &err) == 0) {
        require(what_if.slowdown_ratio >= 0.0);
        free(what_if.stage_ratios);
        check_levers(&job);
    }
    lull_timeline_job_fini(&job);
}

/* Each kind is of one GPU and there once, and what is reported of a GPU lies within its time. */
static void check_recording(const struct lull_run_recording *recording)
{
    for (size_t i = 0; i < recording->gpu_count; i++) {
        const struct lull_recorded_gpu *const gpu = &recording->gpus[i];

        require(i == 0 || recording->gpus[i - 1].index < gpu->index);
        require(gpu->begin_ns >= 0 && gpu->end_ns >= gpu->begin_ns);
        require(gpu->watts.known_ns >= 0 && gpu->watts.known_ns <= gpu->end_ns - gpu->begin_ns);
        require(gpu->mhz.known_ns >= 0 && gpu->mhz.known_ns <= gpu->end_ns - gpu->begin_ns);
    }
    for (size_t i = 0; i < recording->kind_count; i++) {
        const struct lull_recorded_kind *const kind = &recording->kinds[i];

        require(kind->count > 0 && kind->total_ns >= 0);
        require(i == 0 || kind[-1].gpu <= kind->gpu);
        for (size_t k = 0; k < i && i < 64; k++)
            require(recording->kinds[k].gpu != kind->gpu ||
                    recording->kinds[k].is_lowered != kind->is_lowered ||
                    strcmp(recording->kinds[k].name, kind->name) != 0);
    }
}

/* Each GPU has kernels, and all kernels are of one. */
static void check_gpus(const struct lull_trace *trace)
{
    size_t kernels = 0;

    for (size_t i = 0; i < trace->gpu_count; i++) {
        const struct lull_trace one = lull_trace_of_gpu(trace, i);
        struct lull_error err = {0};
        struct lull_analysis analysis;

        require(one.kernel_count > 0);
        require(one.kernels == trace->kernels + kernels);
        kernels += one.kernel_count;
        check_kernels(&one);
        require(lull_analysis_init(&one, &analysis, &err) == 0);
        check_analysis(&analysis);
        lull_analysis_fini(&analysis);
        check_phases(&one);
    }
    require(kernels == trace->kernel_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_error err = {0};
    struct lull_trace trace;

    if (lull_trace_read(text_file(data, size), NULL, &trace, &err) < 0) {
        require(err.text[0] != '\0');
        return 0;
    }
    check_gpus(&trace);
    if (trace.timeline != NULL)
        check_timeline(trace.timeline);
    if (trace.recording != NULL)
        check_recording(trace.recording);
    if (trace.kernel_count == 0 && trace.timeline == NULL && trace.recording == NULL)
        require(lull_trace_require_kernels(&trace, &err) < 0 && trace.contents[0] != '\0');
    lull_trace_fini(&trace);
    return 0;
}
