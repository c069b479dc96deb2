/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/player/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* The kernels of one operation: several compute kernels in a row, or one communication kernel. */
struct trace_run {
    struct lull_play_kernel first; /* its end_ns is that of the run, its stream that of the play */
    uint32_t kernels;
};

static int play_trace_compare_begins(const void *a, const void *b)
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

/* ---- computation between communication ---- */

/* Times at which computation is cut, so that computation before the begin of
 * a communication and computation after its end are separate operations. */
struct cuts {
    int64_t *times_ns; /* ascending */
    size_t count;
    size_t next; /* the first one after the time of the last query */
};

static int play_trace_compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The latest time up to this one; INT64_MIN: there is none. */
static int64_t latest_up_to(const int64_t *times_ns, size_t count, int64_t time_ns)
{
    size_t low = 0;

    for (size_t high = count; low < high;) {
        const size_t middle = low + (high - low) / 2;

        if (times_ns[middle] <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? INT64_MIN : times_ns[low - 1];
}

/* The earliest time from this one on; INT64_MAX: there is none. */
static int64_t earliest_from(const int64_t *times_ns, size_t count, int64_t time_ns)
{
    size_t low = 0;

    for (size_t high = count; low < high;) {
        const size_t middle = low + (high - low) / 2;

        if (times_ns[middle] < time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low == count ? INT64_MAX : times_ns[low];
}

/* Finds the cuts of kernels in the order of their begins. begins_ns and ends_ns are as long as the
 * kernels, cuts->times_ns is twice as long. */
static void find_cuts(const struct lull_play_kernel *kernels, size_t count, int64_t *begins_ns,
                      int64_t *ends_ns, struct cuts *cuts)
{
    size_t computes = 0;

    for (size_t i = 0; i < count; i++) {
        if (kernels[i].is_communication || kernels[i].end_ns == kernels[i].begin_ns)
            continue;
        begins_ns[computes] = kernels[i].begin_ns;
        ends_ns[computes++] = kernels[i].end_ns;
    }
    qsort(ends_ns, computes, sizeof(ends_ns[0]), play_trace_compare_times);
    cuts->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!kernels[i].is_communication || kernels[i].end_ns == kernels[i].begin_ns)
            continue;
        cuts->times_ns[cuts->count++] = latest_up_to(ends_ns, computes, kernels[i].begin_ns);
        cuts->times_ns[cuts->count++] = earliest_from(begins_ns, computes, kernels[i].end_ns);
    }
    qsort(cuts->times_ns, cuts->count, sizeof(cuts->times_ns[0]), play_trace_compare_times);
}

/* The first cut after a time; INT64_MAX: there is none. Times must not go back. */
static int64_t cut_after(struct cuts *cuts, int64_t time_ns)
{
    while (cuts->next < cuts->count && cuts->times_ns[cuts->next] <= time_ns)
        cuts->next++;
    return cuts->next < cuts->count ? cuts->times_ns[cuts->next] : INT64_MAX;
}

/* The runs of computation that kernels have been merged into so far. */
struct merger {
    struct trace_run *runs;
    size_t count;
    struct cuts *cuts;
    struct trace_run *compute; /* the last run of computation; NULL: there is none */
    int64_t cut_ns;            /* the first cut after its start: it ends there at the latest */
};

static void play_trace_begin_compute(struct merger *merger, const struct lull_play_kernel *kernel)
{
    merger->compute = &merger->runs[merger->count++];
    *merger->compute = (struct trace_run){*kernel, 1};
    merger->compute->first.stream = 0;
    merger->cut_ns = cut_after(merger->cuts, kernel->begin_ns);
}

/* Adds a compute kernel to the last run up to the next cut, and
 * the rest of it to further runs. */
static void play_trace_add_compute(struct merger *merger, const struct lull_play_kernel *kernel)
{
    struct lull_play_kernel rest = *kernel;

    if (merger->compute != NULL && rest.begin_ns < merger->compute->first.end_ns)
        rest.begin_ns = merger->compute->first.end_ns; /* until then computation runs already */
    if (merger->compute != NULL)
        merger->compute->kernels += rest.begin_ns > kernel->begin_ns;
    if (merger->compute == NULL || rest.begin_ns >= merger->cut_ns ||
        rest.begin_ns - merger->compute->first.end_ns >= LULL_PLAY_MERGE_NS) {
        if (rest.begin_ns >= rest.end_ns)
            return;
        play_trace_begin_compute(merger, &rest);
    } else {
        merger->compute->kernels += rest.begin_ns == kernel->begin_ns;
    }
    while (rest.end_ns > merger->cut_ns) {
        merger->compute->first.end_ns = merger->cut_ns;
        rest.begin_ns = merger->cut_ns;
        play_trace_begin_compute(merger, &rest);
    }
    if (rest.end_ns > merger->compute->first.end_ns)
        merger->compute->first.end_ns = rest.end_ns;
}

/* Makes runs of kernels that are in the order of their begins. Returns how many. */
static size_t play_trace_merge(const struct lull_play_kernel *kernels, size_t count,
                               struct cuts *cuts, struct trace_run *runs)
{
    struct merger merger = {.runs = runs, .cuts = cuts};

    for (size_t i = 0; i < count; i++) {
        if (kernels[i].end_ns == kernels[i].begin_ns)
            continue;
        if (kernels[i].is_communication)
            runs[merger.count++] = (struct trace_run){kernels[i], 1};
        else
            play_trace_add_compute(&merger, &kernels[i]);
    }
    /* The part of a kernel after a cut may begin after communication that was found earlier. */
    qsort(runs, merger.count, sizeof(runs[0]), play_trace_compare_begins);
    return merger.count;
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

static double play_trace_ms_between(int64_t begin_ns, int64_t end_ns)
{
    return lull_ms_from_ns(end_ns - begin_ns);
}

static struct lull_play_op play_trace_op_of(const struct trace_run *run,
                                            const struct lull_play_trace_options *options)
{
    const struct lull_play_kernel *first = &run->first;
    struct lull_play_op op = {
        .kind = first->is_communication ? LULL_PLAY_COMMUNICATION : LULL_PLAY_COMPUTE,
        .stream = first->stream,
        .depends = {LULL_PLAY_NONE, LULL_PLAY_NONE},
        .duration_ms = play_trace_ms_between(first->begin_ns, first->end_ns),
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

    if (first->bytes > 0 && mean_gbs < op.link_gbs) /* the link cannot have moved more; the kernel
                                                       waited for the rest of the time */
        op.link_gbs = mean_gbs;
    if (first->launch_ns >= 0 && first->launch_ns < first->begin_ns)
        op.lead_ms = play_trace_ms_between(first->launch_ns, first->begin_ns);
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

/* Adds to an operation the index of one that it depends on. */
static int play_trace_add_dependency(struct lull_play_op *op, size_t index)
{
    for (uint32_t i = 0; i < LULL_PLAY_DEPENDENCIES; i++)
        if (op->depends[i] == LULL_PLAY_NONE) {
            op->depends[i] = (int32_t)index;
            return 0;
        }
    if (op->further_count == LULL_PLAY_FURTHER)
        return -ENOSPC;
    op->further[op->further_count++] = (int32_t)index;
    return 0;
}

/*
 * Makes an operation depend on all operations that had ended before it began,
 * whatever their stream. Only those are listed after whose end none of the others
 * began. latest_ns is the latest begin of those that
 * had ended; shift is added to the indices. The listed ones run concurrently, so there are no more
 * of them than streams.
 */
static int depend_on_ended(struct lull_play_op *op, const struct end *ends, size_t ended,
                           int64_t latest_ns, size_t shift)
{
    for (size_t i = ended; i-- > 0 && ends[i].end_ns > latest_ns;)
        if (play_trace_add_dependency(op, ends[i].run + shift) < 0)
            return -ENOSPC;
    return 0;
}

/* Adds the operations. An operation that had ended before another began precedes it at every clock.
 */
static int add_runs(struct lull_play *play, uint32_t rank, const struct trace_run *runs,
                    size_t count, struct end *ends, const struct lull_play_trace_options *options,
                    struct lull_error *err)
{
    int64_t latest_ns = INT64_MIN; /* begin of those that have ended */
    size_t ended = 0;
    size_t step = 0;

    for (size_t i = 0; i < count; i++)
        ends[i] = (struct end){runs[i].first.end_ns, i};
    qsort(ends, count, sizeof(ends[0]), compare_ends);
    for (size_t i = 0; i < count; i++) {
        const int64_t begin_ns = runs[i].first.begin_ns;
        struct lull_play_op op = play_trace_op_of(&runs[i], options);
        int result;

        for (; ended < count && ends[ended].end_ns <= begin_ns; ended++)
            latest_ns = lull_later_ns(latest_ns, runs[ends[ended].run].first.begin_ns);
        if (ended > 0) {
            op.delay_ms = play_trace_ms_between(ends[ended - 1].end_ns, begin_ns);
            result = depend_on_ended(&op, ends, ended, latest_ns, 0);
        } else { /* nothing had ended: it depends on the whole period before */
            op.delay_ms =
                play_trace_ms_between(runs[0].first.begin_ns - options->pause_ns, begin_ns);
            result = depend_on_ended(&op, ends, count, runs[count - 1].first.begin_ns, count);
        }
        if (result < 0)
            return lull_error_set(err, result, "rank %u: too many kernels run at once", rank);
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

/* State while a trace is added. */
struct workspace {
    struct lull_play_kernel *sorted;
    struct trace_run *runs;
    struct end *ends;
    int64_t *begins_ns;
    int64_t *ends_ns;
    struct cuts cuts;
};

/* False: no memory. Each communication kernel cuts computation twice at most. */
static bool workspace_init(struct workspace *space, size_t count)
{
    *space = (struct workspace){
        .sorted = calloc(count + 1, sizeof(space->sorted[0])),
        .runs = calloc(3 * count + 1, sizeof(space->runs[0])),
        .ends = calloc(3 * count + 1, sizeof(space->ends[0])),
        .begins_ns = calloc(count + 1, sizeof(space->begins_ns[0])),
        .ends_ns = calloc(count + 1, sizeof(space->ends_ns[0])),
        .cuts = {.times_ns = calloc(2 * count + 1, sizeof(space->cuts.times_ns[0]))},
    };
    return space->sorted != NULL && space->runs != NULL && space->ends != NULL &&
           space->begins_ns != NULL && space->ends_ns != NULL && space->cuts.times_ns != NULL;
}

static void workspace_fini(struct workspace *space)
{
    free(space->sorted);
    free(space->runs);
    free(space->ends);
    free(space->begins_ns);
    free(space->ends_ns);
    free(space->cuts.times_ns);
}

int lull_play_add_trace(struct lull_play *play, uint32_t rank,
                        const struct lull_play_kernel *kernels, size_t count,
                        const struct lull_play_trace_options *options, struct lull_error *err)
{
    struct workspace space;
    size_t run_count;
    int result = check_kernels(play, rank, kernels, count, err);

    if (result < 0)
        return result;
    if (!workspace_init(&space, count)) {
        result = lull_error_set(err, -ENOMEM, "rank %u: no memory", rank);
        goto fini;
    }
    if (count > 0)
        memcpy(space.sorted, kernels, count * sizeof(space.sorted[0]));
    qsort(space.sorted, count, sizeof(space.sorted[0]), play_trace_compare_begins);
    find_cuts(space.sorted, count, space.begins_ns, space.ends_ns, &space.cuts);
    run_count = play_trace_merge(space.sorted, count, &space.cuts, space.runs);
    if (run_count == 0) {
        result =
            lull_error_set(err, -EINVAL, "rank %u: the record has no kernels with a length", rank);
        goto fini;
    }
    result = assign_streams(space.runs, run_count, rank, err);
    if (result < 0)
        goto fini;
    result = add_runs(play, rank, space.runs, run_count, space.ends, options, err);
    play->is_recorded = true;

fini:
    workspace_fini(&space);
    return result;
}
