/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/slack_state.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/smaller.h"

/* Waits below this share of the iteration count as none. Chosen, not measured. */
static const double least_wait = 0.002;
/* So many times the spread of the waits is kept between the least of them and none. With half of it
 * one of eight ranks of `lull simulate --preset resnet50-ddp` being slower by a tenth, the others'
 * jitter costs 0.3 % of time, and no steady point is left within a tolerance of 1 %. */
static const double kept_spread = 1.0;
/* A GPU for which a less lowered one waits for this share of what it had waited for itself is
 * raised at once: a rank that has recovered waits for about as long. Chosen, not measured. */
static const double recovered_share = 0.5;
/* Points to which a GPU may be lowered: this share of its clocks. Below about half of the highest
 * clock computation costs no less energy on any curve of gpu-model.md, because it takes so long. */
static const double most_share = 0.5;
/* The highest clock is about this many times the difference between it and the lowest. Chosen, not
 * measured: on the measured GPUs it is 1.1 to 1.2 times. */
static const double clock_span = 1.1;
/* A point is never taken to cost less than this share of what it costs at most. Where a rank cannot
 * run ahead of others by more than a layer (FSDP), its longest wait stays the same until nearly all
 * of its slack is used up, and says nothing of what a point costs. With a 32nd instead, one of
 * eight such ranks being slower by a tenth, the job of `lull simulate --preset gpt-fsdp` became
 * slower by more than a third. */
static const double least_cost_share = 0.5;
/* Where no wait by itself pays for a point, as many are tried as this share of all waits together
 * would pay for: all would be too many where waits are one and the same lag. Fewer than the least
 * cannot be told from jitter. Chosen with `lull simulate --preset moe-alltoall -n 8`, one rank
 * being slower by a tenth: of 10 points that all waits pay for, two are tried. */
static const double tried_share = 0.5;
static const double least_tried = 2.0;
/* Waits have become shorter where their means differ by more than this share of their spread, about
 * two standard deviations of what the means of LULL_SLACK_WINDOW waits differ by. */
static const double told_share = 0.5;
/* A GPU is lowered by at most so many times its points at once where waits are extrapolated.
 * Chosen, not measured. */
static const double most_growth = 2.0;
/* Where no wait by itself paid for a point, a rank that has recovered waits in each collective, and
 * not only in one: for this share of all waits that there were, at least. Without it jitter of a
 * pipeline's stages raised a tensor-parallel partner of the slow rank of `megatron-3d` time and
 * again. */
static const double recovered_all_share = 0.25;
/* Iterations for which a GPU that has come last is not lowered, at first and at most. Chosen, not
 * measured. */
enum { FIRST_HOLD = 8, LONGEST_HOLD = 512 };
/* Iterations in a row in which a GPU is waited for in all for longer than it waits, before it comes
 * last. With half of them jitter raised seven of eight ranks of `resnet50-ddp`, one being slower by
 * a twentieth, which then saved 12.8 % instead of 13.3 %. */
enum { OVERDUE = 12 };

void lull_slack_init(struct lull_slack *slack, uint32_t gpu_count, const uint32_t *point_counts)
{
    assert(gpu_count >= 1 && gpu_count <= LULL_SLACK_MAX_GPUS);
    memset(slack, 0, sizeof(*slack));
    slack->gpu_count = gpu_count;
    slack->stride = 1;
    for (uint32_t i = 0; i < gpu_count; i++) {
        struct lull_slack_gpu *gpu = &slack->gpus[i];
        const uint32_t steps = point_counts[i] < 2 ? 1 : point_counts[i] - 1;

        gpu->most = point_counts[i] < 2 ? 0 : (uint32_t)(most_share * steps);
        gpu->tried_most = gpu->most;
        gpu->point_ratio = 1.0 / (clock_span * steps);
        gpu->next_hold = FIRST_HOLD;
        gpu->is_reached = true;
    }
}

uint32_t lull_slack_points(const struct lull_slack *slack, uint32_t gpu)
{
    return slack->gpus[gpu].points;
}

bool lull_slack_is_used(const struct lull_slack *slack)
{
    for (uint32_t i = 0; i < slack->gpu_count; i++)
        if (slack->gpus[i].points > 0)
            return true;
    return false;
}

const struct lull_slack_record *lull_slack_record(const struct lull_slack *slack, uint32_t gpu)
{
    return &slack->gpus[gpu].record;
}

/* ---- collectives ------------------------------------------------------------------------- */

/* The kind of a collective; NULL: there are too many. */
static struct lull_slack_kind *kind_of(struct lull_slack *slack, const struct lull_call *edge)
{
    struct lull_call kind = *edge;
    uint64_t signature;

    kind.communicator = 0;
    signature = lull_signature_join(lull_call_signature(&kind), edge->ranks);
    for (uint32_t i = 0; i < LULL_SLACK_KINDS; i++) {
        if (slack->kinds[i].signature == 0) {
            slack->kinds[i].signature = signature;
            slack->kinds[i].ranks = edge->ranks;
        }
        if (slack->kinds[i].signature == signature)
            return &slack->kinds[i];
    }
    return NULL;
}

/* True where collective `number` was over by this time; one that nobody has left is not. */
static bool was_over(const struct lull_slack_kind *kind, uint32_t number, int64_t time_ns)
{
    const struct lull_slack_meeting *meeting = &kind->open[number % LULL_SLACK_OPEN];

    return meeting->number == number && meeting->ended_ns <= time_ns;
}

/* The number of the collective that a GPU enters first: the others may be told of earlier or later
 * than it, and have had many before. */
static uint32_t first_number(const struct lull_slack_kind *kind, int64_t time_ns)
{
    uint32_t newest = 0;
    uint32_t number;

    for (uint32_t i = 0; i < LULL_SLACK_MAX_GPUS; i++)
        if ((kind->members & lull_slack_bit(i)) != 0)
            newest = lull_larger_u32(newest, kind->numbers[i]);
    if (newest == 0 || was_over(kind, newest, time_ns))
        return newest + 1;
    for (number = newest; number > 1 && newest - number + 1 < LULL_SLACK_OPEN; number--)
        if (was_over(kind, number - 1, time_ns))
            break;
    return number;
}

static void begin(struct lull_slack_kind *kind, uint32_t gpu, int64_t time_ns)
{
    if (kind->depths[gpu]++ > 0)
        return;
    if ((kind->members & lull_slack_bit(gpu)) == 0)
        kind->numbers[gpu] = first_number(kind, time_ns) - 1;
    kind->members |= lull_slack_bit(gpu);
    kind->begins_ns[gpu] = time_ns;
    kind->numbers[gpu]++;
}

/* The collective that the GPU leaves. */
static struct lull_slack_meeting *meeting_of(struct lull_slack_kind *kind, uint32_t gpu,
                                             int64_t time_ns)
{
    struct lull_slack_meeting *meeting = &kind->open[kind->numbers[gpu] % LULL_SLACK_OPEN];

    if (meeting->number != kind->numbers[gpu])
        *meeting = (struct lull_slack_meeting){.number = kind->numbers[gpu], .ended_ns = time_ns};
    return meeting;
}

/* Returns how long less lowered GPUs wait for this one, ms. */
static double waited_for_ms(const struct lull_slack *slack,
                            const struct lull_slack_meeting *meeting, uint32_t index)
{
    const struct lull_slack_gpu *gpu = &slack->gpus[index];
    double longest_ms = 0.0;

    if (!gpu->is_in_force || gpu->points == 0)
        return 0.0;
    for (uint32_t i = 0; i < slack->gpu_count; i++)
        if ((meeting->seen & lull_slack_bit(i)) != 0 && slack->gpus[i].is_in_force &&
            slack->gpus[i].points < gpu->points)
            longest_ms = fmax(longest_ms, meeting->length_ms[i] - meeting->length_ms[index]);
    return longest_ms;
}

bool lull_slack_is_waited_for(const struct lull_slack_gpu *gpu, double now_ms, double all_ms)
{
    if (now_ms <= recovered_share * gpu->had_waited_ms)
        return false;
    return gpu->had_waited_ms >= gpu->point_ratio * gpu->usual_ms ||
           all_ms > recovered_all_share * gpu->had_all_ms;
}

/* Less lowered GPUs have waited for this one. Tells whether for longer than jitter explains. */
static bool note_waiting(struct lull_slack_gpu *gpu, double now_ms, bool is_one_group)
{
    gpu->waited_for_ms += now_ms;
    if (is_one_group)
        gpu->late_ms += now_ms;
    return !gpu->rests_on_nodes && lull_slack_is_waited_for(gpu, now_ms, gpu->waited_for_ms);
}

/* Its points change, so that what was seen at those before does not count any more. */
static void change_points(struct lull_slack_gpu *gpu, uint32_t points)
{
    gpu->points = points;
    gpu->era++;
    gpu->is_answered = false;
    gpu->own.count = 0;
    gpu->job.count = 0;
    if (points == 0)
        gpu->rests_on_nodes = false;
}

static void hold(struct lull_slack_gpu *gpu)
{
    gpu->hold = lull_larger_u32(gpu->hold, gpu->next_hold);
    gpu->next_hold = lull_smaller_u32(gpu->next_hold * 2, LONGEST_HOLD);
    gpu->own.count = 0;
    gpu->job.count = 0;
}

void lull_slack_raise_at_once(struct lull_slack_gpu *gpu)
{
    change_points(gpu, 0);
    gpu->is_in_force = false;
    gpu->record.recoveries++;
    hold(gpu);
}

/* The GPU that is the last to come. */
static uint32_t last_of(const struct lull_slack *slack, const struct lull_slack_meeting *meeting)
{
    uint32_t last = 0;
    double shortest_ms = INFINITY;

    for (uint32_t i = 0; i < slack->gpu_count; i++)
        if ((meeting->seen & lull_slack_bit(i)) != 0 && meeting->length_ms[i] < shortest_ms) {
            shortest_ms = meeting->length_ms[i];
            last = i;
        }
    return last;
}

/* What the lowered GPUs have waited for is gone where one of them is the last. */
static uint64_t raise_waited_for(struct lull_slack *slack, const struct lull_slack_meeting *meeting,
                                 uint32_t last, bool is_one_group)
{
    uint64_t raised = 0;

    if (slack->gpus[last].points == 0)
        return 0;
    for (uint32_t i = 0; i < slack->gpu_count; i++)
        if ((meeting->seen & lull_slack_bit(i)) != 0 &&
            note_waiting(&slack->gpus[i], waited_for_ms(slack, meeting, i), is_one_group))
            raised |= lull_slack_bit(i);
    for (uint32_t i = 0; i < slack->gpu_count; i++)
        if ((raised & lull_slack_bit(i)) != 0)
            lull_slack_raise_at_once(&slack->gpus[i]);
    return raised;
}

/* All have left: what each has waited for, and who is waited for. */
static uint64_t conclude(struct lull_slack *slack, const struct lull_slack_kind *kind,
                         const struct lull_slack_meeting *meeting)
{
    const bool is_one_group = (uint32_t)__builtin_popcountll(kind->members) <= kind->ranks;
    const uint32_t last = last_of(slack, meeting);

    lull_slack_note_last(slack, last, kind, meeting);
    for (uint32_t i = 0; i < slack->gpu_count; i++) {
        struct lull_slack_gpu *gpu = &slack->gpus[i];

        if ((meeting->seen & lull_slack_bit(i)) == 0)
            continue;
        gpu->met++;
        gpu->wait_ms = fmax(gpu->wait_ms, meeting->length_ms[i] - meeting->length_ms[last]);
        gpu->all_ms += meeting->length_ms[i] - meeting->length_ms[last];
    }
    return raise_waited_for(slack, meeting, last, is_one_group);
}

uint64_t lull_slack_take(struct lull_slack *slack, uint32_t gpu, const struct lull_call *edge)
{
    struct lull_slack_kind *kind;
    struct lull_slack_meeting *meeting;
    double length_ms;

    assert(gpu < slack->gpu_count);
    if (edge->peer >= 0 || edge->place != 0 || edge->is_late)
        return 0;
    kind = kind_of(slack, edge);
    if (kind == NULL)
        return 0;
    if (edge->begin) {
        begin(kind, gpu, edge->time_ns);
        return 0;
    }
    if (kind->depths[gpu] == 0 || --kind->depths[gpu] > 0)
        return 0;
    meeting = meeting_of(kind, gpu, edge->time_ns);
    meeting->seen |= lull_slack_bit(gpu);
    length_ms = lull_ms_from_ns(edge->time_ns - kind->begins_ns[gpu]);
    meeting->length_ms[gpu] = (float)length_ms;
    lull_slack_stay(slack, gpu, kind, length_ms);
    if (meeting->seen != kind->members)
        return 0;
    return conclude(slack, kind, meeting);
}

/* ---- points ------------------------------------------------------------------------------ */

/* One kind of wait, as the last iterations have shown it. */
struct slack_seen {
    double least_ms;
    double mean_ms;
    double spread_ms;
    double kept_ms; /* of the least, because of the spread */
};

static struct slack_seen look_at(const struct lull_slack_gpu *gpu, const double waits_ms[])
{
    double least_ms = waits_ms[0];
    double most_ms = waits_ms[0];
    double sum_ms = waits_ms[0];

    for (uint32_t i = 1; i < LULL_SLACK_WINDOW; i++) {
        least_ms = fmin(least_ms, waits_ms[i]);
        most_ms = fmax(most_ms, waits_ms[i]);
        sum_ms += waits_ms[i];
    }
    return (struct slack_seen){
        .least_ms = least_ms,
        .mean_ms = sum_ms / LULL_SLACK_WINDOW,
        .kept_ms = fmax(least_wait * gpu->usual_ms, kept_spread * (most_ms - least_ms)),
        .spread_ms = most_ms - least_ms,
    };
}

/* Learns from the longest waits what a point has cost since the GPU was lowered last. */
static void learn_point(struct lull_slack_gpu *gpu, double least_ms)
{
    const double most_ms = gpu->point_ratio * gpu->usual_ms;

    if (gpu->point_ms == 0.0 || gpu->before >= gpu->points) {
        gpu->point_ms = most_ms;
        return;
    }
    gpu->point_ms = (gpu->before_ms - least_ms) / (double)(gpu->points - gpu->before);
    gpu->point_ms = fmin(fmax(gpu->point_ms, least_cost_share * most_ms), 2.0 * most_ms);
}

/* Points that fill what is left of waits that the GPU's points have shortened so far; 0: they have
 * not been shortened by more than jitter. */
static double fill_rest(const struct slack_seen *seen, double had_ms, uint32_t points)
{
    const double fallen_ms = had_ms - seen->mean_ms;

    if (fallen_ms <= told_share * seen->spread_ms)
        return 0.0;
    return fmax(seen->least_ms - seen->kept_ms, 0.0) * points / fallen_ms;
}

/* Points that fill all waits of an iteration together. */
static double fill_all(const struct lull_slack_gpu *gpu, const struct slack_seen *longest,
                       const struct slack_seen *all)
{
    const double most_ms = gpu->point_ratio * gpu->usual_ms;

    if (gpu->points == 0) {
        const double tried = tried_share * (all->least_ms - all->kept_ms) / most_ms;

        return tried < 1.0 ? 0.0 : fmax(fmin(tried, gpu->tried_most), least_tried);
    }
    return fmin(fmin(fill_rest(longest, gpu->had_longest_ms, gpu->points),
                     fill_rest(all, gpu->had_all_ms, gpu->points)),
                most_growth * gpu->points);
}

/* The GPU has waited in each of the last iterations: lowers it by what fills that. */
static void lower(struct lull_slack *slack, struct lull_slack_gpu *gpu,
                  const struct lull_slack_waits *waits)
{
    const struct slack_seen longest = look_at(gpu, waits->longest_ms);
    const struct slack_seen all = look_at(gpu, waits->all_ms);
    const bool is_by_job = waits == &gpu->job;
    uint32_t points;

    if (is_by_job != gpu->was_by_job)
        gpu->point_ms = 0.0;
    learn_point(gpu, longest.least_ms);
    points = (uint32_t)fmax(fmax((longest.least_ms - longest.kept_ms) / gpu->point_ms, 0.0),
                            fill_all(gpu, &longest, &all));
    points = lull_smaller_u32(points, gpu->most - gpu->points);
    if (points == 0)
        return;
    gpu->had_waited_ms = fmax(gpu->points == 0 ? 0.0 : gpu->had_waited_ms, longest.least_ms);
    gpu->before_ms = longest.least_ms;
    if (gpu->points == 0) {
        gpu->had_longest_ms = longest.mean_ms;
        gpu->had_all_ms = all.mean_ms;
    }
    gpu->before = gpu->points;
    gpu->was_by_job = is_by_job;
    gpu->rests_on_nodes |= is_by_job;
    change_points(gpu, gpu->points + points);
    gpu->record.most = lull_larger_u32(gpu->record.most, gpu->points);
    slack->descents += points > 1;
}

void lull_slack_note_wait(struct lull_slack *slack, struct lull_slack_gpu *gpu,
                          struct lull_slack_waits *waits, double longest_ms, double all_ms)
{
    if (gpu->hold > 0)
        return;
    waits->longest_ms[waits->count] = longest_ms;
    waits->all_ms[waits->count++] = all_ms;
    if (waits->count < LULL_SLACK_WINDOW)
        return;
    waits->count = 0;
    lower(slack, gpu, waits);
}

void lull_slack_raise(struct lull_slack_gpu *gpu)
{
    const uint32_t points = UINT32_C(1) << lull_smaller_u32(gpu->late, 8);

    change_points(gpu, gpu->points - lull_smaller_u32(points, gpu->points));
    gpu->late++;
    hold(gpu);
}

void lull_slack_end_iteration(struct lull_slack *slack, uint32_t index, uint64_t iteration,
                              double iteration_ms)
{
    struct lull_slack_gpu *gpu = &slack->gpus[index];
    const bool is_seen = gpu->met > 0;
    const double wait_ms = gpu->wait_ms;
    const double all_ms = gpu->all_ms;
    const double late_ms = gpu->late_ms;

    assert(index < slack->gpu_count && iteration_ms > 0.0);
    gpu->record.iterations++;
    gpu->record.lowered += gpu->is_in_force && gpu->points > 0;
    gpu->record.by_nodes += gpu->is_in_force && gpu->rests_on_nodes;
    gpu->usual_ms = iteration_ms;
    gpu->met = 0;
    gpu->wait_ms = 0.0;
    gpu->all_ms = 0.0;
    gpu->waited_for_ms = 0.0;
    gpu->late_ms = 0.0;
    gpu->hold -= gpu->hold > 0;
    lull_slack_end_stay(slack, index, iteration);
    if (!gpu->is_in_force || (!is_seen && gpu->points == 0))
        return;
    gpu->overdue = late_ms > all_ms ? gpu->overdue + 1 : 0;
    /* Where it cannot be seen whether the GPU still waits, it goes back as if it did not. */
    if ((wait_ms <= 0.0 || !is_seen || gpu->overdue >= OVERDUE) && gpu->points > 0 &&
        !gpu->rests_on_nodes) {
        lull_slack_raise(gpu);
        return;
    }
    gpu->late = gpu->rests_on_nodes ? gpu->late : 0;
    lull_slack_note_wait(slack, gpu, &gpu->own, wait_ms, all_ms);
}

void lull_slack_begin_iteration(struct lull_slack *slack, uint32_t index, uint32_t point,
                                bool is_applied)
{
    struct lull_slack_gpu *gpu = &slack->gpus[index];

    if (point != gpu->point)
        gpu->is_reached = point == gpu->set;
    gpu->is_in_force = (is_applied || gpu->points == 0) && point == gpu->point && gpu->is_reached;
    gpu->point = point;
}

void lull_slack_take_switch(struct lull_slack *slack, uint32_t index, uint32_t point)
{
    struct lull_slack_gpu *gpu = &slack->gpus[index];

    gpu->set = point;
    gpu->is_reached |= point == gpu->point;
}

void lull_slack_forget(struct lull_slack *slack, uint32_t index)
{
    struct lull_slack_gpu *gpu = &slack->gpus[index];

    *gpu = (struct lull_slack_gpu){
        .record = gpu->record,
        .most = gpu->most,
        .tried_most = gpu->most,
        .point_ratio = gpu->point_ratio,
        .next_hold = FIRST_HOLD,
        .point = gpu->point,
        .set = gpu->set,
        .is_reached = gpu->is_reached,
        .era = gpu->era + 1,
    };
    memset(slack->lasts, 0, sizeof(slack->lasts));
    slack->has_told = false;
    for (uint32_t i = 0; i < LULL_SLACK_KINDS; i++) {
        slack->kinds[i].members &= ~lull_slack_bit(index);
        slack->kinds[i].depths[index] = 0;
    }
}

void lull_slack_back_off(struct lull_slack *slack, uint32_t points)
{
    for (uint32_t i = 0; i < slack->gpu_count; i++) {
        struct lull_slack_gpu *gpu = &slack->gpus[i];

        if (gpu->points == 0)
            continue;
        change_points(gpu, gpu->points - lull_smaller_u32(points, gpu->points));
        gpu->is_in_force = false;
        hold(gpu);
    }
}
