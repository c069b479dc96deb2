/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/phases.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "trace/serving_mark.h"

enum { NO_STEP = UINT32_MAX, MAX_STEPS = UINT32_MAX - 1 };

/* Consecutive steps of one phase are one where they are not marked. */
struct phases_step {
    enum lull_trace_phase phase;
    const struct lull_trace_mark *mark; /* null: it is not marked */
    int64_t begin_ns;                   /* of its kernels; begin > end: it has none */
    int64_t end_ns;
};

struct phases_work {
    const struct lull_trace *trace;
    uint32_t *step_of; /* of each kernel */
    struct phases_step *steps;
    size_t step_count;
    uint8_t *attention; /* of each kernel: enum lull_attention */
    uint8_t *attention_of_name;
    size_t name_count;
    struct lull_interval *compute;
    struct lull_interval *busy; /* communication; later: steps */
    struct lull_memory memory;
};

const char *lull_phase_name(enum lull_trace_phase phase)
{
    static const char *const names[LULL_TRACE_PHASES] = {
        [LULL_TRACE_PREFILL] = "prefill",
        [LULL_TRACE_MIXED] = "mixed",
        [LULL_TRACE_DECODE] = "decode",
    };

    return names[phase];
}

/* ---- steps -------------------------------------------------------------------------------- */

static void begin_step(struct phases_work *work, enum lull_trace_phase phase,
                       const struct lull_trace_mark *mark)
{
    work->steps[work->step_count++] = (struct phases_step){phase, mark, INT64_MAX, INT64_MIN};
}

static void put_kernel(struct phases_work *work, size_t kernel, uint32_t step)
{
    const struct lull_trace_kernel *const of = &work->trace->kernels[kernel];

    work->step_of[kernel] = step;
    if (step == NO_STEP)
        return;
    work->steps[step].begin_ns = lull_earlier_ns(work->steps[step].begin_ns, of->begin_ns);
    work->steps[step].end_ns = lull_later_ns(work->steps[step].end_ns, of->end_ns);
}

/* ---- by marks ----------------------------------------------------------------------------- */

static const struct lull_trace_launch *launch_of(const struct lull_trace *trace, size_t kernel)
{
    const int64_t correlation = trace->kernels[kernel].correlation;

    return correlation > 0 ? lull_trace_find_launch(trace, correlation) : NULL;
}

static bool has_launches(const struct lull_trace *trace)
{
    for (size_t i = 0; i < trace->kernel_count; i++)
        if (launch_of(trace, i) != NULL)
            return true;
    return false;
}

/* Begins a step for each mark. Marks within another one are of an inner function, or of another
 * stream. */
static void begin_marked(struct phases_work *work, bool is_on_gpu)
{
    const struct lull_trace_mark *outer = NULL;

    for (size_t i = 0; i < work->trace->mark_count; i++) {
        const struct lull_trace_mark *const mark = &work->trace->marks[i];

        if (mark->is_on_gpu != is_on_gpu)
            continue;
        if (outer != NULL && mark->begin_ns < outer->end_ns &&
            (is_on_gpu || mark->end_ns <= outer->end_ns))
            continue;
        outer = mark;
        begin_step(work, mark->phase, mark);
    }
}

/* Returns the last step whose mark began at this time or before it. */
static uint32_t step_at(const struct phases_work *work, int64_t time_ns)
{
    size_t low = 0;
    size_t high = work->step_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (work->steps[middle].mark->begin_ns <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? (uint32_t)(low - 1) : NO_STEP;
}

/* A kernel whose launch was not recorded belongs to the step of the kernel before it. */
static bool find_by_marks(struct phases_work *work)
{
    const struct lull_trace *const trace = work->trace;
    const bool is_launched = has_launches(trace);
    uint32_t step = NO_STEP;

    if (is_launched)
        begin_marked(work, false);
    if (work->step_count == 0)
        begin_marked(work, true);
    if (work->step_count == 0)
        return false;

    const bool is_on_gpu = work->steps[0].mark->is_on_gpu;

    for (size_t i = 0; i < trace->kernel_count; i++) {
        const struct lull_trace_launch *const launch = is_on_gpu ? NULL : launch_of(trace, i);

        if (is_on_gpu)
            step = step_at(work, trace->kernels[i].begin_ns);
        else if (launch != NULL)
            step = step_at(work, launch->begin_ns);
        put_kernel(work, i, step);
    }
    return true;
}

/* ---- by kernels --------------------------------------------------------------------------- */

/* Looks each name up once. Returns whether a kernel is of a backward pass. */
static bool classify_kernels(struct phases_work *work)
{
    enum { UNLOOKED = UINT8_MAX };
    const struct lull_trace *const trace = work->trace;
    bool has_backward = false;

    memset(work->attention_of_name, UNLOOKED, work->name_count);
    for (size_t i = 0; i < trace->kernel_count; i++) {
        const uint32_t name = trace->kernels[i].name;
        uint8_t *const known = &work->attention_of_name[name];

        if (*known == UNLOOKED)
            *known = (uint8_t)lull_attention_of(lull_trace_string(trace, name));
        work->attention[i] = trace->kernels[i].operation == NULL ? *known : LULL_ATTENTION_NONE;
        has_backward |= work->attention[i] == LULL_ATTENTION_BACKWARD;
    }
    return has_backward;
}

/* A library's only kernel decodes within a graph. Outside of it, it works on prompts, provided that
 * the trace has another kernel that decodes. False: that is not known. */
static bool resolve_kernels(struct phases_work *work)
{
    bool has_decode = false;
    bool has_either = false;
    bool has_prefill = false;

    for (size_t i = 0; i < work->trace->kernel_count; i++) {
        const bool is_either = work->attention[i] == LULL_ATTENTION_EITHER;
        const struct lull_trace_launch *const launch = is_either ? launch_of(work->trace, i) : NULL;

        if (launch != NULL && launch->is_graph)
            work->attention[i] = LULL_ATTENTION_DECODE;
        has_decode |= work->attention[i] == LULL_ATTENTION_DECODE;
        has_prefill |= work->attention[i] == LULL_ATTENTION_PREFILL;
        has_either |= work->attention[i] == LULL_ATTENTION_EITHER;
    }
    if (has_either && !has_decode)
        return false;
    for (size_t i = 0; i < work->trace->kernel_count; i++)
        if (work->attention[i] == LULL_ATTENTION_EITHER)
            work->attention[i] = LULL_ATTENTION_PREFILL;
    return has_decode || has_prefill;
}

/* Returns the first kernel of the later phase: the one behind the longest idle time between two
 * attention kernels. */
static size_t find_boundary(const struct lull_trace *trace, size_t from, size_t to)
{
    int64_t end_ns = trace->kernels[from].end_ns;
    int64_t longest_ns = INT64_MIN;
    size_t boundary = to;

    for (size_t i = from + 1; i <= to; i++) {
        const int64_t idle_ns = trace->kernels[i].begin_ns - end_ns;

        if (idle_ns > longest_ns) {
            longest_ns = idle_ns;
            boundary = i;
        }
        end_ns = lull_later_ns(end_ns, trace->kernels[i].end_ns);
    }
    return boundary;
}

static enum lull_trace_phase phase_of(uint8_t attention)
{
    return attention == LULL_ATTENTION_DECODE ? LULL_TRACE_DECODE : LULL_TRACE_PREFILL;
}

static void put_kernels(struct phases_work *work, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        put_kernel(work, i, (uint32_t)(work->step_count - 1));
}

static bool find_by_kernels(struct phases_work *work)
{
    const struct lull_trace *const trace = work->trace;
    size_t first = 0; /* kernel of the present stretch */
    size_t last = 0;  /* attention kernel of it */

    if (!resolve_kernels(work))
        return false;
    while (work->attention[last] == LULL_ATTENTION_NONE)
        last++;
    begin_step(work, phase_of(work->attention[last]), NULL);
    for (size_t i = last + 1; i < trace->kernel_count; i++) {
        size_t boundary;

        if (work->attention[i] == LULL_ATTENTION_NONE)
            continue;
        if (phase_of(work->attention[i]) != work->steps[work->step_count - 1].phase) {
            boundary = find_boundary(trace, last, i);
            put_kernels(work, first, boundary);
            begin_step(work, phase_of(work->attention[i]), NULL);
            first = boundary;
        }
        last = i;
    }
    put_kernels(work, first, trace->kernel_count);
    return true;
}

/* ---- figures of a phase ------------------------------------------------------------------- */

static double add_known(double sum, int64_t more)
{
    return more >= 0 ? sum + (double)more : (double)NAN;
}

static void count_step(const struct phases_step *step, struct lull_phase *phase)
{
    const struct lull_trace_mark *const mark = step->mark;

    if (mark == NULL) {
        phase->requests = phase->prompt_tokens = phase->output_tokens = (double)NAN;
        return;
    }
    phase->steps++;
    phase->requests =
        add_known(add_known(phase->requests, mark->prompt_requests), mark->output_requests);
    phase->prompt_tokens = add_known(phase->prompt_tokens, mark->prompt_tokens);
    phase->output_tokens = add_known(phase->output_tokens, mark->output_tokens);
}

/* Puts the steps of a phase one after another, so that its exposure can be measured as if nothing
 * were between them. Returns their length; writes to each step's end where it then begins. */
static int64_t join_steps(struct phases_work *work, enum lull_trace_phase phase,
                          struct lull_phase *found)
{
    int64_t length_ns = 0;

    for (size_t i = 0; i < work->step_count; i++) {
        struct phases_step *const step = &work->steps[i];
        int64_t step_ns;

        if (step->phase != phase || step->begin_ns > step->end_ns)
            continue;
        step_ns = step->end_ns - step->begin_ns;
        step->end_ns = length_ns;
        if (step_ns > INT64_MAX / 4 - length_ns) {
            step->begin_ns = INT64_MAX; /* no trace is that long */
            continue;
        }
        count_step(step, found);
        length_ns += step_ns;
    }
    return length_ns;
}

static void measure_phase(struct phases_work *work, enum lull_trace_phase phase,
                          struct lull_phase *found)
{
    const struct lull_interval span = {0, join_steps(work, phase, found)};
    size_t computing = 0;
    size_t communicating = 0;

    for (size_t i = 0; i < work->trace->kernel_count; i++) {
        const struct lull_trace_kernel *const kernel = &work->trace->kernels[i];
        const struct phases_step *const step =
            work->step_of[i] != NO_STEP ? &work->steps[work->step_of[i]] : NULL;
        struct lull_interval interval;

        if (step == NULL || step->phase != phase || step->begin_ns == INT64_MAX)
            continue;
        interval.begin_ns = kernel->begin_ns - step->begin_ns + step->end_ns;
        interval.end_ns = kernel->end_ns - step->begin_ns + step->end_ns;
        found->kernels++;
        if (kernel->operation == NULL)
            work->compute[computing++] = interval;
        else
            work->busy[communicating++] = interval;
    }

    const struct lull_union computes = {work->compute,
                                        lull_intervals_unite(work->compute, computing)};
    const struct lull_union communicates = {work->busy,
                                            lull_intervals_unite(work->busy, communicating)};

    lull_exposure_measure(computes, communicates, span, &found->exposure);
}

/* Must precede the measurement, which moves the steps. */
static int64_t measure_outside(struct phases_work *work)
{
    const struct lull_trace *const trace = work->trace;
    struct lull_interval span = {trace->kernels[0].begin_ns, trace->kernels[0].end_ns};
    int64_t outside_ns;
    size_t count = 0;

    for (size_t i = 0; i < trace->kernel_count; i++)
        span.end_ns = lull_later_ns(span.end_ns, trace->kernels[i].end_ns);
    for (size_t i = 0; i < work->step_count; i++)
        if (work->steps[i].begin_ns <= work->steps[i].end_ns)
            work->busy[count++] =
                (struct lull_interval){work->steps[i].begin_ns, work->steps[i].end_ns};
    count = lull_intervals_unite(work->busy, count);
    outside_ns = span.end_ns - span.begin_ns;
    return outside_ns - lull_union_covered((struct lull_union){work->busy, count}, span);
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int prepare_work(const struct lull_trace *trace, struct phases_work *work)
{
    const size_t count = trace->kernel_count;
    const size_t steps = count + trace->mark_count;

    *work = (struct phases_work){.trace = trace};
    if (steps > MAX_STEPS)
        return -ENOMEM;
    work->step_of = lull_memory_take(&work->memory, count, sizeof(*work->step_of));
    work->steps = lull_memory_take(&work->memory, steps, sizeof(*work->steps));
    for (size_t i = 0; i < count; i++)
        if (trace->kernels[i].name >= work->name_count)
            work->name_count = (size_t)trace->kernels[i].name + 1;
    work->attention = lull_memory_take(&work->memory, count, sizeof(*work->attention));
    work->attention_of_name = lull_memory_take(&work->memory, work->name_count, 1);
    work->compute = lull_memory_take(&work->memory, count, sizeof(*work->compute));
    work->busy = lull_memory_take(&work->memory, steps, sizeof(*work->busy));
    return work->memory.has_failed ? -ENOMEM : 0;
}

int lull_phases_find(const struct lull_trace *trace, struct lull_phases *phases_out)
{
    struct lull_phases phases = {0};
    struct phases_work work;
    const int result = prepare_work(trace, &work);

    if (result < 0) {
        lull_memory_free(&work.memory);
        return result;
    }
    if (find_by_marks(&work)) {
        phases.source = LULL_PHASES_MARKS;
    } else if (!classify_kernels(&work)) {
        for (size_t i = 0; i < trace->kernel_count; i++)
            phases.has_attention |= work.attention[i] != LULL_ATTENTION_NONE;
        if (find_by_kernels(&work))
            phases.source = LULL_PHASES_KERNELS;
    }
    if (phases.source != LULL_PHASES_UNKNOWN) {
        phases.outside_ns = measure_outside(&work);
        for (int i = 0; i < LULL_TRACE_PHASES; i++)
            measure_phase(&work, (enum lull_trace_phase)i, &phases.phases[i]);
    }
    lull_memory_free(&work.memory);
    *phases_out = phases;
    return 0;
}
