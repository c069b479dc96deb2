/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/slack_state.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"

/* Points to which a GPU may be lowered: this share of its clocks. Below about half of the highest
 * clock computation costs no less energy on any curve of gpu-model.md, because it takes so long. */
static const double max_share = 0.5;
/* The highest clock is about this many times the difference between it and the lowest. Default: on
 * the measured GPUs it is 1.1 to 1.2 times. */
static const double clock_span = 1.1;
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

        gpu->most = point_counts[i] < 2 ? 0 : (uint32_t)(max_share * steps);
        gpu->tried_most = gpu->most;
        gpu->point_ratio = 1.0 / (clock_span * steps);
        gpu->next_hold = LULL_SLACK_FIRST_HOLD;
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
static struct lull_slack_kind *slack_kind_of(struct lull_slack *slack, const struct lull_call *edge)
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

/* True where collective `number` was over by this time; one that no rank has left is not. */
static bool was_over(const struct lull_slack_kind *kind, uint32_t number, int64_t time_ns)
{
    const struct lull_slack_collective *collective = &kind->open[number % LULL_SLACK_OPEN];

    return collective->number == number && collective->ended_ns <= time_ns;
}

/* Returns the number of the first collective that a GPU enters. The reports of other GPUs may be
 * ahead or behind, and they may have entered many before. */
static uint32_t first_number(const struct lull_slack_kind *kind, int64_t time_ns)
{
    uint32_t newest = 0;
    uint32_t number;

    for (uint32_t i = 0; i < LULL_SLACK_MAX_GPUS; i++)
        if ((kind->members & lull_slack_bit(i)) != 0)
            newest = lull_max_u32(newest, kind->numbers[i]);
    if (newest == 0 || was_over(kind, newest, time_ns))
        return newest + 1;
    for (number = newest; number > 1 && newest - number + 1 < LULL_SLACK_OPEN; number--)
        if (was_over(kind, number - 1, time_ns))
            break;
    return number;
}

static void slack_begin(struct lull_slack_kind *kind, uint32_t gpu, int64_t time_ns)
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
static struct lull_slack_collective *slack_collective_of(struct lull_slack_kind *kind, uint32_t gpu,
                                                         int64_t time_ns)
{
    struct lull_slack_collective *collective = &kind->open[kind->numbers[gpu] % LULL_SLACK_OPEN];

    if (collective->number != kind->numbers[gpu])
        *collective =
            (struct lull_slack_collective){.number = kind->numbers[gpu], .ended_ns = time_ns};
    return collective;
}

/* Returns how long less lowered GPUs wait for this one, ms. */
static double waited_for_ms(const struct lull_slack *slack,
                            const struct lull_slack_collective *collective, uint32_t index)
{
    const struct lull_slack_gpu *gpu = &slack->gpus[index];
    double longest_ms = 0.0;

    if (!gpu->is_in_force || gpu->points == 0)
        return 0.0;
    for (uint32_t i = 0; i < slack->gpu_count; i++)
        if ((collective->seen & lull_slack_bit(i)) != 0 && slack->gpus[i].is_in_force &&
            slack->gpus[i].points < gpu->points)
            longest_ms = fmax(longest_ms, collective->length_ms[i] - collective->length_ms[index]);
    return longest_ms;
}

/* Less lowered GPUs have waited for this one. Returns whether for longer than jitter explains. */
static bool note_waiting(struct lull_slack_gpu *gpu, double now_ms, bool is_one_group)
{
    gpu->waited_for_ms += now_ms;
    if (is_one_group)
        gpu->late_ms += now_ms;
    return !gpu->rests_on_nodes && lull_slack_is_waited_for(gpu, now_ms, gpu->waited_for_ms);
}

/* The GPU that is the last to come. */
static uint32_t slack_last_of(const struct lull_slack *slack,
                              const struct lull_slack_collective *collective)
{
    uint32_t last = 0;
    double shortest_ms = INFINITY;

    for (uint32_t i = 0; i < slack->gpu_count; i++)
        if ((collective->seen & lull_slack_bit(i)) != 0 && collective->length_ms[i] < shortest_ms) {
            shortest_ms = collective->length_ms[i];
            last = i;
        }
    return last;
}

/* If a lowered GPU arrives last, the wait that the GPUs were lowered for is gone. */
static uint64_t slack_raise_waited_for(struct lull_slack *slack,
                                       const struct lull_slack_collective *collective,
                                       uint32_t last, bool is_one_group)
{
    uint64_t raised = 0;

    if (slack->gpus[last].points == 0)
        return 0;
    for (uint32_t i = 0; i < slack->gpu_count; i++)
        if ((collective->seen & lull_slack_bit(i)) != 0 &&
            note_waiting(&slack->gpus[i], waited_for_ms(slack, collective, i), is_one_group))
            raised |= lull_slack_bit(i);
    for (uint32_t i = 0; i < slack->gpu_count; i++)
        if ((raised & lull_slack_bit(i)) != 0)
            lull_slack_raise_at_once(&slack->gpus[i]);
    return raised;
}

/* All have left: how long each rank has waited, and which rank the others wait for. */
static uint64_t slack_conclude(struct lull_slack *slack, const struct lull_slack_kind *kind,
                               const struct lull_slack_collective *collective)
{
    const bool is_one_group = (uint32_t)__builtin_popcountll(kind->members) <= kind->ranks;
    const uint32_t last = slack_last_of(slack, collective);

    lull_slack_note_last(slack, last, kind, collective);
    for (uint32_t i = 0; i < slack->gpu_count; i++) {
        struct lull_slack_gpu *gpu = &slack->gpus[i];

        if ((collective->seen & lull_slack_bit(i)) == 0)
            continue;
        gpu->joined++;
        gpu->wait_ms = fmax(gpu->wait_ms, collective->length_ms[i] - collective->length_ms[last]);
        gpu->all_ms += collective->length_ms[i] - collective->length_ms[last];
    }
    return slack_raise_waited_for(slack, collective, last, is_one_group);
}

uint64_t lull_slack_take(struct lull_slack *slack, uint32_t gpu, const struct lull_call *edge)
{
    struct lull_slack_kind *kind;
    struct lull_slack_collective *collective;
    double length_ms;

    assert(gpu < slack->gpu_count);
    if (edge->peer >= 0 || edge->place != 0 || edge->is_late)
        return 0;
    kind = slack_kind_of(slack, edge);
    if (kind == NULL)
        return 0;
    if (edge->begin) {
        slack_begin(kind, gpu, edge->time_ns);
        return 0;
    }
    if (kind->depths[gpu] == 0 || --kind->depths[gpu] > 0)
        return 0;
    collective = slack_collective_of(kind, gpu, edge->time_ns);
    collective->seen |= lull_slack_bit(gpu);
    length_ms = lull_ms_from_ns(edge->time_ns - kind->begins_ns[gpu]);
    collective->length_ms[gpu] = (float)length_ms;
    lull_slack_collective_time(slack, gpu, kind, length_ms);
    if (collective->seen != kind->members)
        return 0;
    return slack_conclude(slack, kind, collective);
}

void lull_slack_end_iteration(struct lull_slack *slack, uint32_t index, uint64_t iteration,
                              double iteration_ms)
{
    struct lull_slack_gpu *gpu = &slack->gpus[index];
    const bool is_seen = gpu->joined > 0;
    const double wait_ms = gpu->wait_ms;
    const double all_ms = gpu->all_ms;
    const double late_ms = gpu->late_ms;

    assert(index < slack->gpu_count && iteration_ms > 0.0);
    gpu->record.iterations++;
    gpu->record.lowered += gpu->is_in_force && gpu->points > 0;
    gpu->record.by_nodes += gpu->is_in_force && gpu->rests_on_nodes;
    gpu->typical_ms = iteration_ms;
    gpu->joined = 0;
    gpu->wait_ms = 0.0;
    gpu->all_ms = 0.0;
    gpu->waited_for_ms = 0.0;
    gpu->late_ms = 0.0;
    gpu->hold -= gpu->hold > 0;
    lull_slack_end_collective(slack, index, iteration);
    if (!gpu->is_in_force || (!is_seen && gpu->points == 0))
        return;
    gpu->overdue = late_ms > all_ms ? gpu->overdue + 1 : 0;
    /* If it cannot be seen whether the GPU still waits, it is raised as if it did not. */
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
        .next_hold = LULL_SLACK_FIRST_HOLD,
        .point = gpu->point,
        .set = gpu->set,
        .is_reached = gpu->is_reached,
        .era = gpu->era + 1,
    };
    memset(slack->lasts, 0, sizeof(slack->lasts));
    slack->has_reported = false;
    for (uint32_t i = 0; i < LULL_SLACK_KINDS; i++) {
        slack->kinds[i].members &= ~lull_slack_bit(index);
        slack->kinds[i].depths[index] = 0;
    }
}
