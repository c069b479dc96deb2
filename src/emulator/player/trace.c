/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/player/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* What becomes one operation: several compute kernels in a row, or one communication kernel. */
struct trace_run {
    struct lull_play_kernel first; /* its end_ns is that of the run, its stream that of the play */
    uint32_t kernels;
};

static int compare_begins(const void *a, const void *b)
{
    const struct lull_play_kernel *x = a; /* or a struct trace_run, whose first member it is */
    const struct lull_play_kernel *y = b;

    if (x->begin_ns != y->begin_ns)
        return x->begin_ns < y->begin_ns ? -1 : 1;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* Chooses a stream of the play for a communication run. Runs of one recorded stream stay on one
 * stream while it is free, which keeps their order; stream 0 is for compute. */
static int choose_stream(struct trace_run *run, uint32_t *recorded, int64_t *free_ns,
                         uint32_t *used)
{
    for (uint32_t i = 1; i <= *used; i++)
        if (recorded[i] == run->first.stream && free_ns[i] <= run->first.begin_ns) {
            run->first.stream = i;
            free_ns[i] = run->first.end_ns;
            return 0;
        }
    for (uint32_t i = 1; i < LULL_PLAY_STREAMS; i++)
        if (i > *used || free_ns[i] <= run->first.begin_ns) {
            if (i > *used)
                *used = i;
            recorded[i] = run->first.stream;
            run->first.stream = i;
            free_ns[i] = run->first.end_ns;
            return 0;
        }
    return -EINVAL;
}

/* Makes runs of kernels; both are in the order of their begins. */
static size_t merge(const struct lull_play_kernel *kernels, size_t count, struct trace_run *runs)
{
    struct trace_run *compute = NULL;
    size_t run_count = 0;

    for (size_t i = 0; i < count; i++) {
        const struct lull_play_kernel *kernel = &kernels[i];

        if (kernel->end_ns == kernel->begin_ns)
            continue;
        if (!kernel->is_communication && compute != NULL &&
            kernel->begin_ns - compute->first.end_ns < LULL_PLAY_MERGE_NS) {
            if (kernel->end_ns > compute->first.end_ns)
                compute->first.end_ns = kernel->end_ns;
            compute->kernels++;
            continue;
        }
        runs[run_count] = (struct trace_run){*kernel, 1};
        if (!kernel->is_communication) {
            compute = &runs[run_count];
            compute->first.stream = 0;
        }
        run_count++;
    }
    return run_count;
}

static int assign_streams(struct trace_run *runs, size_t count, uint32_t rank,
                          struct lull_error *err)
{
    uint32_t recorded[LULL_PLAY_STREAMS] = {0};
    int64_t free_ns[LULL_PLAY_STREAMS] = {0};
    uint32_t used = 0;

    for (size_t i = 0; i < count; i++)
        if (runs[i].first.is_communication && choose_stream(&runs[i], recorded, free_ns, &used) < 0)
            return lull_error_set(err, -EINVAL,
                                  "rank %u: more than %d communication kernels run at once", rank,
                                  LULL_PLAY_STREAMS - 1);
    return 0;
}

static double ms_between(int64_t begin_ns, int64_t end_ns)
{
    return lull_ms_from_ns(end_ns - begin_ns);
}

static struct lull_play_op op_of(const struct trace_run *run,
                                 const struct lull_play_trace_options *options)
{
    const struct lull_play_kernel *first = &run->first;
    struct lull_play_op op = {
        .kind = first->is_communication ? LULL_PLAY_COMMUNICATION : LULL_PLAY_COMPUTE,
        .stream = first->stream,
        .depends = {LULL_PLAY_NONE, LULL_PLAY_NONE},
        .duration_ms = ms_between(first->begin_ns, first->end_ns),
        .profile = options->profile,
        .kernels = run->kernels,
        .function = first->function,
        .communicator = first->communicator,
        .bytes = first->bytes,
        .link_gbs = options->link_gbs,
        .channels = options->channels,
    };
    const double mean_gbs = (double)first->bytes /
                            (double)(first->end_ns - first->begin_ns); /* bytes per ns are GB/s */

    if (first->bytes > 0 &&
        mean_gbs < op.link_gbs) /* it cannot have moved more; in the rest of the time it waited */
        op.link_gbs = mean_gbs;
    if (first->launch_ns >= 0 && first->launch_ns < first->begin_ns)
        op.lead_ms = ms_between(first->launch_ns, first->begin_ns);
    return op;
}

struct end {
    int64_t end_ns;
    size_t run;
};

static int compare_ends(const void *a, const void *b)
{
    const struct end *x = a;
    const struct end *y = b;

    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* Adds the operations; each one depends on the one that had ended last before it began. */
static int add_runs(struct lull_play *play, uint32_t rank, const struct trace_run *runs,
                    size_t count, struct end *ends, const struct lull_play_trace_options *options,
                    struct lull_error *err)
{
    size_t ended = 0;
    size_t step = 0;

    for (size_t i = 0; i < count; i++)
        ends[i] = (struct end){runs[i].first.end_ns, i};
    qsort(ends, count, sizeof(ends[0]), compare_ends);
    for (size_t i = 0; i < count; i++) {
        const int64_t begin_ns = runs[i].first.begin_ns;
        struct lull_play_op op = op_of(&runs[i], options);
        int result;

        while (ended < count && ends[ended].end_ns <= begin_ns)
            ended++;
        if (ended > 0) {
            op.depends[0] = (int32_t)ends[ended - 1].run;
            op.delay_ms = ms_between(ends[ended - 1].end_ns, begin_ns);
        } else { /* nothing had ended: it depends on the last operation of the period before */
            op.depends[0] = (int32_t)ends[count - 1].run;
            op.delay_ms = ms_between(runs[0].first.begin_ns - options->pause_ns, begin_ns);
        }
        for (; step < options->step_count && options->steps_ns[step] <= begin_ns; step++)
            op.begins_step = true;
        result = lull_play_add(play, rank, &op, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int check_kernels(const struct lull_play *play, uint32_t rank,
                         const struct lull_play_kernel *kernels, size_t count,
                         struct lull_error *err)
{
    if (rank >= play->rank_count || play->ranks[rank].count > 0)
        return lull_error_set(
            err, -EINVAL, "rank %u: the play has no such rank, or it has a period already", rank);
    if (count > LULL_PLAY_OPS)
        return lull_error_set(err, -ENOSPC, "rank %u: the record has more than %d kernels", rank,
                              LULL_PLAY_OPS);
    for (size_t i = 0; i < count; i++)
        if (kernels[i].end_ns < kernels[i].begin_ns)
            return lull_error_set(err, -EINVAL, "rank %u: kernel %zu ends before it begins", rank,
                                  i);
    return 0;
}

int lull_play_add_trace(struct lull_play *play, uint32_t rank,
                        const struct lull_play_kernel *kernels, size_t count,
                        const struct lull_play_trace_options *options, struct lull_error *err)
{
    struct lull_play_kernel *sorted;
    struct trace_run *runs;
    struct end *ends;
    size_t run_count;
    int result = check_kernels(play, rank, kernels, count, err);

    if (result < 0)
        return result;
    sorted = calloc(count + 1, sizeof(sorted[0]));
    runs = calloc(count + 1, sizeof(runs[0]));
    ends = calloc(count + 1, sizeof(ends[0]));
    if (sorted == NULL || runs == NULL || ends == NULL) {
        result = lull_error_set(err, -ENOMEM, "rank %u: no memory", rank);
        goto free_all;
    }
    if (count > 0)
        memcpy(sorted, kernels, count * sizeof(sorted[0]));
    qsort(sorted, count, sizeof(sorted[0]), compare_begins);
    run_count = merge(sorted, count, runs);
    if (run_count == 0) {
        result =
            lull_error_set(err, -EINVAL, "rank %u: the record has no kernels with a length", rank);
        goto free_all;
    }
    result = assign_streams(runs, run_count, rank, err);
    if (result < 0)
        goto free_all;
    result = add_runs(play, rank, runs, run_count, ends, options, err);
    play->is_recorded = true;

free_all:
    free(sorted);
    free(runs);
    free(ends);
    return result;
}
