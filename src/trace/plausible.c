/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/plausible.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* All */
static const int64_t skew_ns = INT64_C(1000000);             /* of the clocks of CPU and GPU */
static const int64_t overlap_ns = INT64_C(1000000);          /* of two kernels of one stream */
static const int64_t hole_ns = INT64_C(60000000000);         /* that no profiler records */
static const int64_t epoch_ns = INT64_C(100000000000000000); /* later times count from 1970 */
enum { HOLE_RATIO = 100, MAX_HOLES = 16 };

/* ---- order -------------------------------------------------------------------------------- */

static int plausible_trace_compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int plausible_trace_compare_times(const struct lull_trace_kernel *a,
                                         const struct lull_trace_kernel *b)
{
    int order = plausible_trace_compare(a->begin_ns, b->begin_ns);

    if (order == 0)
        order = plausible_trace_compare(a->end_ns, b->end_ns);
    if (order == 0)
        order = plausible_trace_compare(a->stream, b->stream);
    if (order == 0)
        order = plausible_trace_compare(a->name, b->name);
    return order != 0 ? order : plausible_trace_compare(a->correlation, b->correlation);
}

static int plausible_trace_compare_kernels(const void *left, const void *right)
{
    const struct lull_trace_kernel *const a = left;
    const struct lull_trace_kernel *const b = right;
    const int order = plausible_trace_compare(a->gpu, b->gpu);

    return order != 0 ? order : plausible_trace_compare_times(a, b);
}

static int compare_streams(const void *left, const void *right)
{
    const struct lull_trace_kernel *const a = left;
    const struct lull_trace_kernel *const b = right;
    int order = plausible_trace_compare(a->gpu, b->gpu);

    if (order == 0)
        order = plausible_trace_compare(a->stream, b->stream);
    return order != 0 ? order : plausible_trace_compare_times(a, b);
}

static int compare_launches(const void *left, const void *right)
{
    const struct lull_trace_launch *const a = left;
    const struct lull_trace_launch *const b = right;
    int order = plausible_trace_compare(a->label, b->label);

    if (order == 0)
        order = plausible_trace_compare(a->correlation, b->correlation);
    return order != 0 ? order : plausible_trace_compare(a->begin_ns, b->begin_ns);
}

static int compare_step_numbers(const void *left, const void *right)
{
    const struct lull_trace_step *const a = left;
    const struct lull_trace_step *const b = right;
    int order = plausible_trace_compare(a->label, b->label);

    if (order == 0)
        order = plausible_trace_compare(a->number, b->number);
    return order != 0 ? order : plausible_trace_compare(a->begin_ns, b->begin_ns);
}

static int compare_step_begins(const void *left, const void *right)
{
    const struct lull_trace_step *const a = left;
    const struct lull_trace_step *const b = right;
    const int order = plausible_trace_compare(a->label, b->label);

    return order != 0 ? order : plausible_trace_compare(a->begin_ns, b->begin_ns);
}

/* Of two that begin together, the outer one comes first. */
static int compare_marks(const void *left, const void *right)
{
    const struct lull_trace_mark *const a = left;
    const struct lull_trace_mark *const b = right;
    int order = plausible_trace_compare(a->label, b->label);

    if (order == 0)
        order = plausible_trace_compare(a->begin_ns, b->begin_ns);
    return order != 0 ? order : plausible_trace_compare(b->end_ns, a->end_ns);
}

/* qsort must not be given a null array. */
static void plausible_trace_sort(void *array, size_t count, size_t size,
                                 int (*order)(const void *, const void *))
{
    if (count > 1)
        qsort(array, count, size, order);
}

/* A step may be marked by several threads; the earliest mark of each number is kept. */
static void sort_steps(struct lull_trace *trace)
{
    size_t kept = 0;

    plausible_trace_sort(trace->steps, trace->step_count, sizeof(*trace->steps),
                         compare_step_numbers);
    for (size_t i = 0; i < trace->step_count; i++) {
        const struct lull_trace_step *const last = kept > 0 ? &trace->steps[kept - 1] : NULL;

        if (last == NULL || trace->steps[i].number != last->number ||
            trace->steps[i].label != last->label)
            trace->steps[kept++] = trace->steps[i];
    }
    trace->step_count = kept;
    plausible_trace_sort(trace->steps, trace->step_count, sizeof(*trace->steps),
                         compare_step_begins);
}

/* ---- GPUs --------------------------------------------------------------------------------- */

/* Returns the first place from `at` on whose label differs. */
static size_t end_of_label(const void *array, size_t count, size_t size, size_t offset, size_t at)
{
    uint32_t label;
    uint32_t other;

    memcpy(&label, (const char *)array + at * size + offset, sizeof(label));
    for (at++; at < count; at++) {
        memcpy(&other, (const char *)array + at * size + offset, sizeof(other));
        if (other != label)
            break;
    }
    return at;
}

/* Finds the run of elements that have a label, else those without one (label 0). */
static void plausible_trace_find_label(const void *array, size_t count, size_t size, size_t offset,
                                       uint32_t wanted, size_t *first_out, size_t *count_out)
{
    *first_out = 0;
    *count_out = 0;
    for (size_t at = 0; at < count;) {
        const size_t end = end_of_label(array, count, size, offset, at);
        uint32_t label;

        memcpy(&label, (const char *)array + at * size + offset, sizeof(label));
        if (label == wanted || (label == 0 && *count_out == 0)) {
            *first_out = at;
            *count_out = end - at;
        }
        at = end;
    }
}

/* The kernels must be in order. */
static void find_ranges(struct lull_trace *trace)
{
    for (size_t i = 0; i < trace->gpu_count; i++)
        trace->gpus[i].kernel_count = 0;
    for (size_t i = 0; i < trace->kernel_count; i++) {
        struct lull_trace_gpu *const gpu = &trace->gpus[trace->kernels[i].gpu];

        if (gpu->kernel_count++ == 0)
            gpu->first_kernel = i;
    }
    for (size_t i = 0; i < trace->gpu_count; i++) {
        struct lull_trace_gpu *const gpu = &trace->gpus[i];

        plausible_trace_find_label(trace->launches, trace->launch_count, sizeof(*trace->launches),
                                   offsetof(struct lull_trace_launch, label), gpu->label,
                                   &gpu->first_launch, &gpu->launch_count);
        plausible_trace_find_label(trace->steps, trace->step_count, sizeof(*trace->steps),
                                   offsetof(struct lull_trace_step, label), gpu->label,
                                   &gpu->first_step, &gpu->step_count);
        plausible_trace_find_label(trace->marks, trace->mark_count, sizeof(*trace->marks),
                                   offsetof(struct lull_trace_mark, label), gpu->label,
                                   &gpu->first_mark, &gpu->mark_count);
    }
}

/* Returns the GPU of kernels that lack a device or a process: another GPU of the same
 * process, else the GPU with the most kernels. A GPU that is known, or the only one, stays
 * itself. */
static uint32_t home_of(const struct lull_trace *trace, uint32_t gpu)
{
    const struct lull_trace_gpu *const own = &trace->gpus[gpu];
    uint32_t home = gpu;
    bool is_same = false;

    if (own->device != LULL_TRACE_UNKNOWN)
        return gpu;
    for (uint32_t i = 0; i < trace->gpu_count; i++) {
        const struct lull_trace_gpu *const other = &trace->gpus[i];
        const bool is_process = other->process == own->process;

        if (i == gpu || other->kernel_count == 0 || (own->process != 0 && !is_process) ||
            (is_process && other->device == LULL_TRACE_UNKNOWN) || (is_same && !is_process))
            continue;
        if (home == gpu || (is_process && !is_same) ||
            other->kernel_count > trace->gpus[home].kernel_count)
            home = i;
        is_same = is_process;
    }
    return home;
}

static void join_gpus(struct lull_trace *trace)
{
    uint32_t homes[LULL_TRACE_GPUS];

    for (uint32_t i = 0; i < trace->gpu_count; i++)
        homes[i] = home_of(trace, i);
    for (size_t i = 0; i < trace->kernel_count; i++)
        trace->kernels[i].gpu = homes[trace->kernels[i].gpu];
}

static void drop_idle_gpus(struct lull_trace *trace)
{
    uint32_t places[LULL_TRACE_GPUS];
    uint32_t kept = 0;

    for (uint32_t i = 0; i < trace->gpu_count; i++) {
        places[i] = kept;
        if (trace->gpus[i].kernel_count > 0)
            trace->gpus[kept++] = trace->gpus[i];
    }
    trace->gpu_count = kept;
    for (size_t i = 0; i < trace->kernel_count; i++)
        trace->kernels[i].gpu = places[trace->kernels[i].gpu];
}

/* ---- impossible kernels ------------------------------------------------------------------- */

static void plausible_trace_drop_doubled(struct lull_trace *trace)
{
    size_t kept = 0;

    for (size_t i = 0; i < trace->kernel_count; i++)
        if (kept == 0 ||
            plausible_trace_compare_kernels(&trace->kernels[kept - 1], &trace->kernels[i]) != 0)
            trace->kernels[kept++] = trace->kernels[i];
    trace->loss.doubled += trace->kernel_count - kept;
    trace->kernel_count = kept;
}

/* Profilers write 0 for a missing time; in a trace that counts from 1970 no kernel ran at 0. */
static void drop_timeless(struct lull_trace *trace)
{
    bool counts_from_1970 = false;
    size_t kept = 0;

    for (size_t i = 0; i < trace->kernel_count; i++)
        counts_from_1970 |= trace->kernels[i].begin_ns > epoch_ns;
    if (!counts_from_1970)
        return;
    for (size_t i = 0; i < trace->kernel_count; i++)
        if (trace->kernels[i].begin_ns != 0)
            trace->kernels[kept++] = trace->kernels[i];
    trace->loss.no_times += trace->kernel_count - kept;
    trace->kernel_count = kept;
}

static bool is_early(const struct lull_trace *trace, const struct lull_trace_kernel *kernel)
{
    const struct lull_trace one = lull_trace_of_gpu(trace, kernel->gpu);
    const struct lull_trace_launch *const launch =
        kernel->correlation > 0 ? lull_trace_find_launch(&one, kernel->correlation) : NULL;

    return launch != NULL && kernel->begin_ns < launch->begin_ns - skew_ns;
}

/* If most kernels begin before their launch, it is the clocks of CPU and GPU that differ. */
static void drop_early(struct lull_trace *trace)
{
    size_t early = 0;
    size_t kept = 0;

    for (size_t i = 0; i < trace->kernel_count; i++)
        early += is_early(trace, &trace->kernels[i]);
    if (early == 0 || 2 * early > trace->kernel_count)
        return;
    for (size_t i = 0; i < trace->kernel_count; i++)
        if (!is_early(trace, &trace->kernels[i]))
            trace->kernels[kept++] = trace->kernels[i];
    trace->loss.before_launch += early;
    trace->kernel_count = kept;
}

/* A place among the sorted kernels that a long time without kernels precedes. */
struct hole {
    size_t at; /* the first kernel behind it */
    int64_t length_ns;
    int64_t before_ns; /* from the first begin to the last end before it */
    int64_t behind_ns;
};

static struct hole find_hole(const struct lull_trace_kernel *kernels, size_t count)
{
    struct hole hole = {0};
    int64_t end_ns = kernels[0].end_ns;
    int64_t last_ns = end_ns;

    for (size_t i = 1; i < count; i++) {
        if (kernels[i].begin_ns - end_ns > hole.length_ns)
            hole = (struct hole){i, kernels[i].begin_ns - end_ns, end_ns - kernels[0].begin_ns, 0};
        end_ns = lull_later_ns(end_ns, kernels[i].end_ns);
    }
    for (size_t i = hole.at; i < count; i++)
        last_ns = lull_later_ns(last_ns, kernels[i].end_ns);
    hole.behind_ns = last_ns - kernels[hole.at].begin_ns;
    return hole;
}

/* Splits the kernels of a GPU at a hole too long for a recording, and drops the smaller side.
 * Returns how many are kept, at the array's begin. */
static size_t drop_far(struct lull_trace_kernel *kernels, size_t count)
{
    for (int i = 0; i < MAX_HOLES && count > 2; i++) {
        const struct hole hole = find_hole(kernels, count);
        const int64_t longest_ns = lull_later_ns(hole.before_ns, hole.behind_ns);

        if (hole.length_ns < hole_ns || hole.length_ns / HOLE_RATIO < longest_ns ||
            2 * hole.at == count)
            break;
        if (2 * hole.at > count) {
            count = hole.at;
        } else {
            count -= hole.at;
            memmove(kernels, kernels + hole.at, count * sizeof(*kernels));
        }
    }
    return count;
}

static void drop_other_clocks(struct lull_trace *trace)
{
    size_t kept = 0;

    for (size_t first = 0, end; first < trace->kernel_count; first = end) {
        size_t count;

        end = first + 1;
        while (end < trace->kernel_count && trace->kernels[end].gpu == trace->kernels[first].gpu)
            end++;
        count = drop_far(trace->kernels + first, end - first);
        memmove(trace->kernels + kept, trace->kernels + first, count * sizeof(*trace->kernels));
        kept += count;
    }
    trace->loss.other_clock += trace->kernel_count - kept;
    trace->kernel_count = kept;
}

/* Kernels of one launch, a graph's, may run beside each other though they name one stream. */
static bool plausible_trace_overruns(const struct lull_trace_kernel *kernel,
                                     const struct lull_trace_kernel *next)
{
    return kernel->end_ns - next->begin_ns > overlap_ns &&
           (kernel->correlation == LULL_TRACE_UNKNOWN || kernel->correlation != next->correlation);
}

/* Takes the kernels of one stream in order. If most of them overlap, the stream is not serial. */
static uint64_t cut_stream(struct lull_trace_kernel *kernels, size_t count)
{
    uint64_t cut = 0;

    for (size_t i = 0; i + 1 < count; i++)
        cut += plausible_trace_overruns(&kernels[i], &kernels[i + 1]);
    if (cut == 0 || (count > 2 && 2 * cut > count) || kernels[0].stream == LULL_TRACE_UNKNOWN)
        return 0;
    for (size_t i = 0; i + 1 < count; i++)
        if (plausible_trace_overruns(&kernels[i], &kernels[i + 1]))
            kernels[i].end_ns = kernels[i + 1].begin_ns;
    return cut;
}

static void cut_overruns(struct lull_trace *trace)
{
    plausible_trace_sort(trace->kernels, trace->kernel_count, sizeof(*trace->kernels),
                         compare_streams);
    for (size_t first = 0, end; first < trace->kernel_count; first = end) {
        const struct lull_trace_kernel *const kernel = &trace->kernels[first];

        end = first + 1;
        while (end < trace->kernel_count && trace->kernels[end].gpu == kernel->gpu &&
               trace->kernels[end].stream == kernel->stream)
            end++;
        trace->loss.cut += cut_stream(trace->kernels + first, end - first);
    }
}

/* ---- steps, and the origin ---------------------------------------------------------------- */

/* Marks far from all kernels were taken with another clock. */
static void drop_far_steps(struct lull_trace *trace)
{
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = INT64_MIN;
    int64_t reach_ns;
    size_t kept = 0;

    if (trace->kernel_count == 0)
        return;
    for (size_t i = 0; i < trace->kernel_count; i++) {
        first_ns = lull_earlier_ns(first_ns, trace->kernels[i].begin_ns);
        last_ns = lull_later_ns(last_ns, trace->kernels[i].end_ns);
    }
    reach_ns = lull_later_ns(hole_ns, last_ns - first_ns);
    for (size_t i = 0; i < trace->step_count; i++)
        if (trace->steps[i].begin_ns / 2 <= last_ns / 2 + reach_ns / 2 &&
            trace->steps[i].end_ns / 2 >= first_ns / 2 - reach_ns / 2)
            trace->steps[kept++] = trace->steps[i];
    trace->step_count = kept;
}

static void plausible_trace_shift(struct lull_trace *trace)
{
    int64_t origin_ns = 0;

    for (size_t i = 0; i < trace->kernel_count; i++)
        origin_ns = lull_earlier_ns(origin_ns, trace->kernels[i].begin_ns);
    for (size_t i = 0; i < trace->launch_count; i++)
        origin_ns = lull_earlier_ns(origin_ns, trace->launches[i].begin_ns);
    for (size_t i = 0; i < trace->step_count; i++)
        origin_ns = lull_earlier_ns(origin_ns, trace->steps[i].begin_ns);
    for (size_t i = 0; i < trace->kernel_count; i++) {
        trace->kernels[i].begin_ns -= origin_ns;
        trace->kernels[i].end_ns -= origin_ns;
    }
    for (size_t i = 0; i < trace->launch_count; i++) {
        trace->launches[i].begin_ns -= origin_ns;
        trace->launches[i].end_ns -= origin_ns;
    }
    for (size_t i = 0; i < trace->step_count; i++) {
        trace->steps[i].begin_ns -= origin_ns;
        trace->steps[i].end_ns -= origin_ns;
    }
    for (size_t i = 0; i < trace->mark_count; i++) {
        trace->marks[i].begin_ns -= origin_ns;
        trace->marks[i].end_ns -= origin_ns;
    }
}

/* ---- the whole ---------------------------------------------------------------------------- */

void lull_plausible_sift(struct lull_trace *trace)
{
    plausible_trace_sort(trace->kernels, trace->kernel_count, sizeof(*trace->kernels),
                         plausible_trace_compare_kernels);
    plausible_trace_sort(trace->launches, trace->launch_count, sizeof(*trace->launches),
                         compare_launches);
    plausible_trace_sort(trace->marks, trace->mark_count, sizeof(*trace->marks), compare_marks);
    find_ranges(trace);
    join_gpus(trace);
    plausible_trace_sort(trace->kernels, trace->kernel_count, sizeof(*trace->kernels),
                         plausible_trace_compare_kernels);
    find_ranges(trace);
    drop_idle_gpus(trace);
    plausible_trace_drop_doubled(trace);
    drop_timeless(trace);
    find_ranges(trace);
    drop_early(trace);
    drop_other_clocks(trace);
    cut_overruns(trace);
    plausible_trace_sort(trace->kernels, trace->kernel_count, sizeof(*trace->kernels),
                         plausible_trace_compare_kernels);
    drop_far_steps(trace);
    sort_steps(trace);
    plausible_trace_shift(trace);
    find_ranges(trace);
    drop_idle_gpus(trace);
}
