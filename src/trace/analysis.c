/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/analysis.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/text.h"
#include "core/section/call.h"
#include "core/section/iteration.h"
#include "core/stats/quantile.h"

/* A communication kernel with its section's key. */
struct communication {
    uint64_t signature;
    const struct lull_trace_kernel *kernel;
};

/* Working storage; count says how many kernels communicate. */
struct analysis_work {
    const struct lull_trace *trace;
    struct lull_interval *all;
    struct lull_interval *compute;
    struct lull_interval *busy;           /* communication */
    struct communication *communications; /* in the order of time, later of sections */
    double *lengths_ms;
    size_t count;
    struct lull_union works; /* either */
    struct lull_union computes;
    struct lull_union communicates;
    struct lull_interval span;
    struct lull_memory memory; /* of the arrays */
};

/* Kernels of one section have the same name, bytes, group and ranks, in the trace as in the running
 * job. */
static uint64_t signature_of(const struct lull_trace_kernel *kernel)
{
    const struct lull_call call = {
        .bytes = kernel->bytes > 0 ? (uint64_t)kernel->bytes : 0,
        .communicator = kernel->group,
        .ranks = kernel->ranks > 0 ? (uint32_t)kernel->ranks : 0,
        .peer = -1,
        .name = kernel->name,
    };

    return lull_signature_join(lull_call_signature(&call), lull_text_hash(kernel->operation));
}

/* Widens the span of kernels to the length of the marked iterations, first towards their
 * begin. The GPU runs later than the CPU's marks, so the times of the marks alone do not
 * suffice. */
static void widen_span(const struct lull_trace *trace, struct lull_interval *span)
{
    int64_t begin_ns = INT64_MAX;
    int64_t end_ns = INT64_MIN;
    int64_t more_ns;
    int64_t early_ns;

    for (size_t i = 0; i < trace->step_count; i++) {
        begin_ns = lull_earlier_ns(begin_ns, trace->steps[i].begin_ns);
        end_ns = lull_later_ns(end_ns, trace->steps[i].end_ns);
    }
    if (trace->step_count == 0 || end_ns - begin_ns <= span->end_ns - span->begin_ns)
        return;
    more_ns = end_ns - begin_ns - (span->end_ns - span->begin_ns);
    early_ns = lull_later_ns(0, lull_earlier_ns(more_ns, span->begin_ns - begin_ns));
    span->begin_ns -= early_ns;
    span->end_ns += more_ns - early_ns;
}

/* Sorts kernels into what computes and what communicates, and finds the span of all. */
static void analysis_split(struct analysis_work *work)
{
    size_t computing = 0;

    work->span.begin_ns = work->trace->kernels[0].begin_ns;
    work->span.end_ns = work->span.begin_ns;
    for (size_t i = 0; i < work->trace->kernel_count; i++) {
        const struct lull_trace_kernel *const kernel = &work->trace->kernels[i];
        const struct lull_interval interval = {kernel->begin_ns, kernel->end_ns};

        if (kernel->end_ns > work->span.end_ns)
            work->span.end_ns = kernel->end_ns;
        work->all[i] = interval;
        if (kernel->operation == NULL) {
            work->compute[computing++] = interval;
            continue;
        }
        work->busy[work->count] = interval;
        work->communications[work->count++] = (struct communication){signature_of(kernel), kernel};
    }
    widen_span(work->trace, &work->span);
    work->works =
        (struct lull_union){work->all, lull_intervals_unite(work->all, work->trace->kernel_count)};
    work->computes =
        (struct lull_union){work->compute, lull_intervals_unite(work->compute, computing)};
    work->communicates =
        (struct lull_union){work->busy, lull_intervals_unite(work->busy, work->count)};
}

static int analysis_prepare(const struct lull_trace *trace, struct analysis_work *work)
{
    const size_t count = trace->kernel_count;

    *work = (struct analysis_work){.trace = trace};
    work->all = lull_memory_take(&work->memory, count, sizeof(*work->all));
    work->compute = lull_memory_take(&work->memory, count, sizeof(*work->compute));
    work->busy = lull_memory_take(&work->memory, count, sizeof(*work->busy));
    work->communications = lull_memory_take(&work->memory, count, sizeof(*work->communications));
    work->lengths_ms = lull_memory_take(&work->memory, count, sizeof(*work->lengths_ms));
    if (work->memory.has_failed)
        return -ENOMEM;
    analysis_split(work);
    return 0;
}

/* ---- iterations ---- */

static void count_marks(const struct lull_trace *trace, struct lull_analysis *analysis)
{
    double total_ms = 0.0;

    for (size_t i = 0; i < trace->step_count; i++)
        total_ms += lull_ms_from_ns(trace->steps[i].end_ns - trace->steps[i].begin_ns);
    analysis->has_marks = true;
    analysis->iterations = trace->step_count;
    analysis->iteration_ms = total_ms / (double)trace->step_count;
}

/* True if period symbols from each place on are the same. */
static bool analysis_repeats(const struct communication *symbols, size_t a, size_t b, size_t period)
{
    for (size_t i = 0; i < period; i++)
        if (symbols[a + i].signature != symbols[b + i].signature)
            return false;
    return true;
}

/*
 * Counts the whole periods around the one that ends before the given symbol, backwards too: the
 * finder passed some of them before it detected the period.
 */
static void count_periods(const struct analysis_work *work, size_t end, size_t period,
                          struct lull_analysis *analysis)
{
    const struct communication *const symbols = work->communications;
    size_t first = end - period;
    size_t last = first; /* begin of the last whole period */

    assert(period > 0);
    while (first >= period && analysis_repeats(symbols, first - period, first, period))
        first -= period;
    while (last + 2 * period <= work->count &&
           analysis_repeats(symbols, last, last + period, period))
        last += period;
    analysis->iterations = (last - first) / period + 1;
    if (analysis->iterations > 1)
        analysis->iteration_ms =
            lull_ms_from_ns(symbols[last].kernel->begin_ns - symbols[first].kernel->begin_ns) /
            (double)(analysis->iterations - 1);
}

/* A layer of a model communicates as an iteration does, but takes less time. */
#define MIN_ITERATION_MS 5.0

/* Returns whether a period that ends before the given symbol may be a model's layer: sizes, which
 * would distinguish its operations, are unknown or all equal. */
static bool may_be_layer(const struct analysis_work *work, size_t end, size_t period,
                         double length_ms)
{
    bool has_sizes = true;

    for (size_t i = end - period; i < end; i++)
        has_sizes &= work->communications[i].kernel->bytes > 0;
    if (period == 1 && !has_sizes)
        return true;
    return (period == 1 || !has_sizes) && length_ms < MIN_ITERATION_MS;
}

/* Of several periods the one that fills most time counts. */
static int find_periods(const struct analysis_work *work, struct lull_analysis *analysis)
{
    struct lull_iteration_finder *const finder = lull_iteration_finder_create();

    if (finder == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < work->count; i++) {
        const struct lull_iteration_state state =
            lull_iteration_push(finder, work->communications[i].signature);
        struct lull_analysis found = {0};

        if (state.event != LULL_ITERATION_FOUND || i + 1 < state.period)
            continue;
        count_periods(work, i + 1, state.period, &found);
        if (may_be_layer(work, i + 1, state.period, found.iteration_ms))
            continue;
        if (found.iteration_ms * (double)found.iterations >
            analysis->iteration_ms * (double)analysis->iterations) {
            analysis->iterations = found.iterations;
            analysis->iteration_ms = found.iteration_ms;
        }
    }
    lull_iteration_finder_destroy(finder);
    return 0;
}

/* ---- sections ---- */

static int compare_communications(const void *left, const void *right)
{
    const struct communication *const a = left;
    const struct communication *const b = right;

    if (a->signature != b->signature)
        return a->signature < b->signature ? -1 : 1;
    return (a->kernel > b->kernel) - (a->kernel < b->kernel);
}

static int analysis_compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;

    return (a > b) - (a < b);
}

static void analysis_describe(const struct lull_trace *trace,
                              const struct lull_trace_kernel *kernel,
                              struct lull_analysis_section *section)
{
    const char *const name = lull_trace_string(trace, kernel->name);

    section->operation = kernel->operation;
    section->ranks = kernel->ranks;
    snprintf(section->kernel, sizeof(section->kernel), "%.*s", (int)strcspn(name, "("), name);
    snprintf(section->group, sizeof(section->group), "%s", lull_trace_string(trace, kernel->group));
}

/* A section as one run of the sorted communications, while they are compared. */
struct section_run {
    size_t first;
    size_t end;
    int64_t exposed_ns;
    int64_t total_ns;
};

static int compare_runs(const void *left, const void *right)
{
    const struct section_run *const a = left;
    const struct section_run *const b = right;

    if (a->exposed_ns != b->exposed_ns)
        return a->exposed_ns > b->exposed_ns ? -1 : 1;
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

static void measure_run(const struct analysis_work *work, struct section_run *run)
{
    for (size_t i = run->first; i < run->end; i++) {
        const struct lull_trace_kernel *const kernel = work->communications[i].kernel;
        const struct lull_interval interval = {kernel->begin_ns, kernel->end_ns};
        const int64_t length_ns = kernel->end_ns - kernel->begin_ns;

        run->total_ns += length_ns;
        run->exposed_ns += length_ns - lull_union_covered(work->computes, interval);
    }
}

/* Returns how many runs there are; runs has room for as many as there are communications. */
static size_t find_runs(const struct analysis_work *work, struct section_run *runs)
{
    size_t count = 0;

    for (size_t i = 0; i < work->count; i++) {
        if (i == 0 || work->communications[i].signature != work->communications[i - 1].signature)
            runs[count++] = (struct section_run){.first = i};
        runs[count - 1].end = i + 1;
    }
    for (size_t i = 0; i < count; i++)
        measure_run(work, &runs[i]);
    qsort(runs, count, sizeof(*runs), compare_runs);
    return count;
}

/* Sums up the communications of one run, which all have one signature. */
static void sum_section(const struct analysis_work *work, const struct section_run *run,
                        struct lull_analysis_section *section)
{
    double *const lengths_ms = work->lengths_ms;
    const size_t count = run->end - run->first;

    analysis_describe(work->trace, work->communications[run->first].kernel, section);
    section->count = count;
    section->total_ms = lull_ms_from_ns(run->total_ns);
    section->exposed_ms = lull_ms_from_ns(run->exposed_ns);
    for (size_t i = 0; i < count; i++) {
        const struct lull_trace_kernel *const kernel = work->communications[run->first + i].kernel;

        lengths_ms[i] = lull_ms_from_ns(kernel->end_ns - kernel->begin_ns);
        section->bytes += (double)kernel->bytes / (double)count;
    }
    qsort(lengths_ms, count, sizeof(*lengths_ms), analysis_compare_doubles);
    section->mean_ms = section->total_ms / (double)count;
    section->p50_ms = lull_quantile_of_sorted(lengths_ms, count, 0.50);
    section->p90_ms = lull_quantile_of_sorted(lengths_ms, count, 0.90);
    section->p99_ms = lull_quantile_of_sorted(lengths_ms, count, 0.99);
}

/* Reorders the communications. */
static int find_sections(struct analysis_work *work, struct lull_analysis *analysis)
{
    struct section_run *runs;
    size_t count;

    if (work->count == 0)
        return 0;
    runs = malloc(work->count * sizeof(*runs));
    if (runs == NULL)
        return -ENOMEM;
    qsort(work->communications, work->count, sizeof(*work->communications), compare_communications);
    count = find_runs(work, runs);
    analysis->section_count = count < LULL_ANALYSIS_SECTIONS ? count : LULL_ANALYSIS_SECTIONS;
    analysis->other_sections = count - analysis->section_count;
    analysis->sections = calloc(analysis->section_count, sizeof(*analysis->sections));
    for (size_t i = 0; i < analysis->section_count && analysis->sections != NULL; i++)
        sum_section(work, &runs[i], &analysis->sections[i]);
    free(runs);
    return analysis->sections != NULL ? 0 : -ENOMEM;
}

/* ---- the whole ---- */

static int analysis_find_gaps(const struct analysis_work *work, struct lull_analysis *analysis)
{
    analysis->gaps = malloc((work->computes.count + 1) * sizeof(*analysis->gaps));
    if (analysis->gaps == NULL)
        return -ENOMEM;
    analysis->gap_count =
        lull_exposure_gaps(work->computes, work->communicates, work->span, analysis->gaps);
    return 0;
}

static int64_t column_ns(const struct analysis_work *work, int column)
{
    const int64_t length_ns = work->span.end_ns - work->span.begin_ns;
    const int64_t whole_ns = length_ns / LULL_ANALYSIS_COLUMNS * column;
    const int64_t rest_ns = length_ns % LULL_ANALYSIS_COLUMNS * column / LULL_ANALYSIS_COLUMNS;

    return work->span.begin_ns + whole_ns + rest_ns;
}

/* A column shows the state that fills most of it. Of equal ones
 * computing comes first, then communication. */
static void draw_timeline(const struct analysis_work *work, struct lull_analysis *analysis)
{
    for (int i = 0; i < LULL_ANALYSIS_COLUMNS; i++) {
        const struct lull_interval column = {column_ns(work, i), column_ns(work, i + 1)};
        const int64_t compute_ns = lull_union_covered(work->computes, column);
        const int64_t exposed_ns = lull_union_covered(work->works, column) - compute_ns;
        const int64_t idle_ns = column.end_ns - column.begin_ns - compute_ns - exposed_ns;

        if (compute_ns >= exposed_ns && compute_ns >= idle_ns)
            analysis->timeline[i] = LULL_ACTIVITY_COMPUTE;
        else
            analysis->timeline[i] =
                exposed_ns >= idle_ns ? LULL_ACTIVITY_COMMUNICATION : LULL_ACTIVITY_IDLE;
    }
}

/* Sections come last, because finding them reorders the communications. */
static int analysis_run(struct analysis_work *work, struct lull_analysis *analysis)
{
    int result = 0;

    analysis->kernel_count = work->trace->kernel_count;
    analysis->communication_kernel_count = work->count;
    lull_exposure_measure(work->computes, work->communicates, work->span, &analysis->exposure);
    draw_timeline(work, analysis);
    if (work->trace->step_count > 0)
        count_marks(work->trace, analysis);
    else
        result = find_periods(work, analysis);
    if (result == 0)
        result = analysis_find_gaps(work, analysis);
    if (result == 0)
        result = find_sections(work, analysis); /* reorders the communications */
    return result;
}

int lull_analysis_init(const struct lull_trace *trace, struct lull_analysis *analysis_out,
                       struct lull_error *err)
{
    struct lull_analysis analysis = {0};
    struct analysis_work work;
    int result;

    result = lull_trace_require_kernels(trace, err);
    if (result < 0)
        return result;
    result = analysis_prepare(trace, &work);
    if (result == 0)
        result = analysis_run(&work, &analysis);
    lull_memory_free(&work.memory);
    if (result < 0) {
        lull_analysis_fini(&analysis);
        return lull_error_set(err, result, "no memory to analyse %zu kernels", trace->kernel_count);
    }
    *analysis_out = analysis;
    return 0;
}

void lull_analysis_fini(struct lull_analysis *analysis)
{
    if (analysis == NULL)
        return;
    lull_analysis_drop_gaps(analysis);
    free(analysis->sections);
}

void lull_analysis_drop_gaps(struct lull_analysis *analysis)
{
    free(analysis->gaps);
    analysis->gaps = NULL;
    analysis->gap_count = 0;
}
