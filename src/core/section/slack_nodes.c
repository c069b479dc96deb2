/* Slack against the ranks of other nodes. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stddef.h>

#include "base/minmax.h"
#include "core/section/slack_state.h"

/* Words of one node are at least so far apart. A word takes about as long to the other nodes
 * (governor/peers), and more of them would not make them come sooner. They become more frequent
 * only where iterations have become longer by a good part, because nodes that report different
 * iterations cannot compare them. */
static const double word_ms = 100.0;
static const double ample_word_ms = 150.0;
enum { LONGEST_STRIDE = 1 << 16 };

/* Adapts how rarely words are due: a power of two, so that nodes whose iterations are not quite
 * equally long report the same ones, as often as the node that reports more rarely. */
static void adapt_stride(struct lull_slack *slack, double iteration_ms)
{
    if (slack->stride < LONGEST_STRIDE && (double)slack->stride * iteration_ms < word_ms)
        slack->stride *= 2;
    else if (slack->stride > 1 && (double)slack->stride * iteration_ms > 2.0 * ample_word_ms)
        slack->stride /= 2;
}

static bool slack_nodes_is_due(const struct lull_slack *slack, uint64_t iteration)
{
    return iteration % slack->stride == 0;
}

/* The place of an iteration that is due among those that are kept. */
static uint32_t slack_nodes_place_of(const struct lull_slack *slack, uint64_t iteration)
{
    return (uint32_t)(iteration / slack->stride % LULL_SLACK_KEPT);
}

/* ---- what this node's ranks do ----------------------------------------------------------- */

/* Returns whether ranks of other nodes are in these collectives. */
static bool is_wide(const struct lull_slack_kind *kind)
{
    return kind->ranks > (uint32_t)__builtin_popcountll(kind->members);
}

void lull_slack_collective_time(struct lull_slack *slack, uint32_t gpu,
                                const struct lull_slack_kind *kind, double length_ms)
{
    struct lull_slack_collective_time *collective_time = &slack->gpus[gpu].collective_time;
    double *longest_ms = &collective_time->longest_ms[kind - slack->kinds];

    if (!is_wide(kind))
        return;
    collective_time->collectives++;
    collective_time->total_ms += length_ms;
    *longest_ms = fmax(*longest_ms, length_ms);
}

static struct lull_slack_last *last_in(struct lull_slack *slack, uint64_t iteration)
{
    struct lull_slack_last *last = &slack->lasts[slack_nodes_place_of(slack, iteration)];

    if (last->iteration != iteration)
        *last = (struct lull_slack_last){.iteration = iteration};
    return last;
}

/* Returns whether the GPU has been at the common point for the whole iteration so far: one that has
 * just been raised may still be slow. */
static bool is_common(const struct lull_slack_gpu *gpu)
{
    return gpu->is_in_force && gpu->points == 0;
}

/* Returns how long the last of the ranks at the common point was in a collective; INFINITY: no rank
 * is there. */
static double common_ms(const struct lull_slack *slack,
                        const struct lull_slack_collective *collective)
{
    double min_ms = INFINITY;

    for (uint32_t i = 0; i < slack->gpu_count; i++)
        if ((collective->seen & lull_slack_bit(i)) != 0 && is_common(&slack->gpus[i]))
            min_ms = fmin(min_ms, (double)collective->length_ms[i]);
    return min_ms;
}

void lull_slack_note_last(struct lull_slack *slack, uint32_t gpu,
                          const struct lull_slack_kind *kind,
                          const struct lull_slack_collective *collective)
{
    const uint64_t iteration = slack->gpus[gpu].iteration;
    const ptrdiff_t index = kind - slack->kinds;
    struct lull_slack_last *last;

    if (!is_wide(kind) || !slack_nodes_is_due(slack, iteration))
        return;
    last = last_in(slack, iteration);
    last->longest_ms[index] = fmax(last->longest_ms[index], (double)collective->length_ms[gpu]);
    last->common_ms[index] = fmax(last->common_ms[index], common_ms(slack, collective));
}

/* Whatever rests on other nodes' words is taken back where these have not come for too long. */
static bool slack_nodes_is_stale(const struct lull_slack *slack, const struct lull_slack_gpu *gpu)
{
    return gpu->rests_on_nodes && gpu->iteration - gpu->answered > LULL_SLACK_STALE * slack->stride;
}

/* Returns how deep the common point is at which the GPU runs now, lowered further or not, in a
 * thousandth of its clock list. */
static uint32_t slack_nodes_depth_of(const struct lull_slack_gpu *gpu)
{
    const uint32_t own = gpu->is_in_force ? lull_min_u32(gpu->points, gpu->point) : 0;

    return (uint32_t)lround((gpu->point - own) * gpu->point_ratio * 1e3);
}

void lull_slack_end_collective(struct lull_slack *slack, uint32_t index, uint64_t iteration)
{
    struct lull_slack_gpu *gpu = &slack->gpus[index];

    if (slack_nodes_is_due(slack, iteration)) {
        struct lull_slack_collective_time *kept =
            &gpu->collective_times[slack_nodes_place_of(slack, iteration)];

        *kept = gpu->collective_time;
        kept->iteration = iteration;
        kept->counts = gpu->is_in_force;
        kept->era = gpu->era;
        kept->is_common = is_common(gpu);
        kept->depth = slack_nodes_depth_of(gpu);
        last_in(slack, iteration)->ended |= lull_slack_bit(index);
    }
    gpu->collective_time = (struct lull_slack_collective_time){0};
    gpu->iteration = iteration + 1;
    if (slack_nodes_is_stale(slack, gpu))
        lull_slack_raise_at_once(gpu);
    if (index == 0)
        adapt_stride(slack, gpu->typical_ms);
}

/* Returns the times of the GPU's rank in the collectives of an iteration; NULL: they are no longer
 * known. */
static const struct lull_slack_collective_time *
slack_nodes_collective_time(const struct lull_slack_gpu *gpu, uint64_t iteration)
{
    for (uint32_t i = 0; i < LULL_SLACK_KEPT; i++)
        if (gpu->collective_times[i].collectives > 0 &&
            gpu->collective_times[i].iteration == iteration)
            return &gpu->collective_times[i];
    return NULL;
}

/* ---- its reports ------------------------------------------------------------------------- */

/* Bits: GPUs whose ranks are in collectives with other nodes. */
static uint64_t slack_nodes_members_of(const struct lull_slack *slack)
{
    uint64_t members = 0;

    for (uint32_t i = 0; i < LULL_SLACK_KINDS; i++)
        if (slack->kinds[i].signature != 0 && is_wide(&slack->kinds[i]))
            members |= slack->kinds[i].members;
    return members;
}

/* Returns a length in us, rounded up; INFINITY represents LULL_ARRIVAL_NONE. */
static uint32_t us_of(double ms)
{
    return (uint32_t)fmin(ceil(fmax(ms, 0.0) * 1e3), (double)LULL_ARRIVAL_NONE);
}

/* Fills in how long the ranks were in all collectives of an iteration. Returns whether each was in
 * as many of them, so that they can be compared. */
static bool slack_nodes_summarize(const struct lull_slack *slack, uint64_t members,
                                  struct lull_arrival *arrival)
{
    double min_ms = INFINITY;
    double common_ms = INFINITY;

    for (uint32_t i = 0; i < slack->gpu_count; i++) {
        const struct lull_slack_collective_time *collective_time =
            slack_nodes_collective_time(&slack->gpus[i], arrival->iteration);

        if ((members & lull_slack_bit(i)) == 0)
            continue;
        if (collective_time == NULL ||
            (arrival->collectives != 0 && collective_time->collectives != arrival->collectives))
            return false;
        if (arrival->collectives != 0 && collective_time->depth != arrival->depth)
            arrival->depth = LULL_ARRIVAL_NONE;
        else
            arrival->depth = collective_time->depth;
        arrival->collectives = collective_time->collectives;
        min_ms = fmin(min_ms, collective_time->total_ms);
        if (collective_time->is_common)
            common_ms = fmin(common_ms, collective_time->total_ms);
    }
    arrival->total_us = us_of(min_ms);
    arrival->common_us = us_of(common_ms);
    return true;
}

static void name_kinds(const struct lull_slack *slack, const struct lull_slack_last *last,
                       struct lull_arrival *arrival)
{
    for (uint32_t i = 0; i < LULL_SLACK_KINDS && arrival->kind_count < LULL_ARRIVAL_KINDS; i++)
        if (slack->kinds[i].signature != 0 && last->longest_ms[i] > 0.0)
            arrival->kinds[arrival->kind_count++] = (struct lull_arrival_kind){
                .signature = slack->kinds[i].signature,
                .longest_us = us_of(last->longest_ms[i]),
                .common_us = us_of(last->common_ms[i]),
            };
}

/* Returns the newest iteration that all ranks have ended and that has not been reported, where it
 * is due; NULL: there is none. */
static const struct lull_slack_last *find_due(const struct lull_slack *slack, uint64_t members)
{
    const struct lull_slack_last *due = NULL;

    for (uint32_t i = 0; i < LULL_SLACK_KEPT; i++) {
        const struct lull_slack_last *last = &slack->lasts[i];

        if ((last->ended & members) != members ||
            (slack->has_reported && last->iteration <= slack->reported))
            continue;
        if (due == NULL || last->iteration > due->iteration)
            due = last;
    }
    return due;
}

bool lull_slack_report(struct lull_slack *slack, struct lull_arrival *arrival_out)
{
    const uint64_t members = slack_nodes_members_of(slack);
    const struct lull_slack_last *due = members == 0 ? NULL : find_due(slack, members);

    if (due == NULL)
        return false;
    slack->reported = due->iteration;
    slack->has_reported = true;
    *arrival_out = (struct lull_arrival){.iteration = due->iteration};
    if (!slack_nodes_summarize(slack, members, arrival_out))
        return false;
    name_kinds(slack, due, arrival_out);
    return true;
}

/* ---- reports of others ------------------------------------------------------------------- */

/* Waits of a GPU's rank in the collectives of an iteration, relative to the latest rank of the job.
 */
struct slack_answer {
    double longest_ms; /* wait, at least */
    double all_ms;     /* waits together, at least */
    double waited_ms;  /* for which all ranks at the common point have waited for it, at least... */
    double late_ms;    /* ...and in all collectives together */
};

static double ms_of(uint32_t us)
{
    return (double)us * 1e-3;
}

/* Returns for how long ranks at the common point, which were in collectives for this time, have
 * waited for one that was there for own_ms. */
static double waited_ms(uint32_t common_us, double own_ms)
{
    return common_us == LULL_ARRIVAL_NONE ? 0.0 : fmax(ms_of(common_us) - own_ms, 0.0);
}

static struct slack_answer
slack_nodes_compare(const struct lull_slack *slack,
                    const struct lull_slack_collective_time *collective_time,
                    const struct lull_arrival *latest)
{
    struct slack_answer answer = {
        .all_ms = collective_time->total_ms - ms_of(latest->total_us),
        .late_ms = waited_ms(latest->common_us, collective_time->total_ms),
    };

    for (uint32_t i = 0; i < LULL_SLACK_KINDS; i++)
        for (uint32_t k = 0; k < latest->kind_count; k++) {
            const struct lull_arrival_kind *kind = &latest->kinds[k];
            const double longest_ms = collective_time->longest_ms[i];

            if (slack->kinds[i].signature != kind->signature || !(longest_ms > 0.0))
                continue;
            answer.longest_ms = fmax(answer.longest_ms, longest_ms - ms_of(kind->longest_us));
            answer.waited_ms = fmax(answer.waited_ms, waited_ms(kind->common_us, longest_ms));
        }
    answer.longest_ms = fmin(answer.longest_ms, answer.all_ms);
    answer.waited_ms = fmin(answer.waited_ms, answer.late_ms);
    return answer;
}

/* Takes what follows for one GPU; is_even: all ranks were at the same common point. Returns whether
 * it is raised at once. */
static bool slack_nodes_read_answer(struct lull_slack *slack, struct lull_slack_gpu *gpu,
                                    const struct slack_answer *answer, bool is_even)
{
    if (gpu->rests_on_nodes && lull_slack_is_waited_for(gpu, answer->waited_ms, answer->late_ms)) {
        if (!gpu->is_answered) /* It had been lowered too far. */
            gpu->tried_most = gpu->points / 2;
        lull_slack_raise_at_once(gpu);
        return true;
    }
    gpu->is_answered = true;
    if (!is_even)
        return false;
    if (gpu->rests_on_nodes && answer->longest_ms <= 0.0) {
        lull_slack_raise(gpu);
        return false;
    }
    gpu->late = gpu->rests_on_nodes ? 0 : gpu->late;
    lull_slack_note_wait(slack, gpu, &gpu->job, answer->longest_ms, answer->all_ms);
    return false;
}

uint64_t lull_slack_receive(struct lull_slack *slack, const struct lull_arrival *latest)
{
    uint64_t raised = 0;

    for (uint32_t i = 0; i < slack->gpu_count; i++) {
        struct lull_slack_gpu *gpu = &slack->gpus[i];
        const struct lull_slack_collective_time *collective_time =
            slack_nodes_collective_time(gpu, latest->iteration);
        struct slack_answer answer;

        if (collective_time == NULL || collective_time->collectives != latest->collectives)
            continue;
        gpu->answered = latest->iteration;
        if (!collective_time->counts || collective_time->era != gpu->era)
            continue;
        answer = slack_nodes_compare(slack, collective_time, latest);
        if (slack_nodes_read_answer(slack, gpu, &answer, latest->depth != LULL_ARRIVAL_NONE))
            raised |= lull_slack_bit(i);
    }
    return raised;
}
