/*
 * The queue plans raisings again whenever something is planned or due, instead of keeping a list:
 * there are few ranks, and a lowering is worth its call only in view of all raisings that it would
 * move.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/oracle_queue.h"

#include "base/clock.h"

static const int64_t never_ns = LULL_PHYSICS_NEVER;

void lull_oracle_queue_reset(struct lull_oracle_queue *queue)
{
    for (uint32_t i = 0; i < LULL_PLAY_RANKS; i++)
        queue->calls[i] = (struct lull_oracle_calls){
            .lower_ns = never_ns, .raise_ns = never_ns, .ends_ns = never_ns};
    queue->random = 1;
    queue->idle_until_ns = INT64_MIN;
}

void lull_oracle_queue_lower(struct lull_oracle_queue *queue, uint32_t rank, int64_t at_ns,
                             uint32_t step, int64_t raise_ns)
{
    struct lull_oracle_calls *calls = &queue->calls[rank];

    queue->idle_until_ns = INT64_MIN;
    calls->lower_ns = at_ns;
    calls->step = step;
    calls->raise_after_ns = raise_ns;
}

void lull_oracle_queue_raise(struct lull_oracle_queue *queue, uint32_t rank, int64_t raise_ns)
{
    struct lull_oracle_calls *calls = &queue->calls[rank];

    queue->idle_until_ns = INT64_MIN;
    if (calls->is_low)
        calls->raise_ns = raise_ns;
    else
        calls->raise_after_ns = raise_ns;
}

/* ---- the plan ---- */

static bool share_driver(const struct lull_oracle_queue *queue, uint32_t a, uint32_t b)
{
    return queue->is_shared || a == b;
}

static bool oracle_queue_is_busy(const struct lull_oracle_queue *queue, uint32_t rank)
{
    for (uint32_t i = 0; i < queue->ranks; i++)
        if (share_driver(queue, rank, i) && queue->calls[i].ends_ns != never_ns)
            return true;
    return false;
}

/*
 * Computes when each raising has to begin, with the raising of one more rank (`more`) among them:
 * no later than its own latest time, and early enough for every later raising to follow, call by
 * call. It goes from the latest raising to the earliest, since each one limits only those before
 * it.
 */
static void plan_raisings(const struct lull_oracle_queue *queue, uint32_t more, int64_t more_ns,
                          int64_t begins_out[LULL_PLAY_RANKS])
{
    int64_t follows_ns[LULL_PLAY_RANKS];
    bool is_left[LULL_PLAY_RANKS];

    for (uint32_t i = 0; i < queue->ranks; i++) {
        begins_out[i] = i == more ? more_ns : queue->calls[i].raise_ns;
        is_left[i] = begins_out[i] != never_ns;
        follows_ns[i] = never_ns;
    }
    for (;;) {
        uint32_t latest = queue->ranks;

        for (uint32_t i = 0; i < queue->ranks; i++)
            if (is_left[i] && (latest == queue->ranks || begins_out[i] > begins_out[latest]))
                latest = i;
        if (latest == queue->ranks)
            return;
        is_left[latest] = false;
        if (follows_ns[latest] != never_ns &&
            follows_ns[latest] - queue->call_ns < begins_out[latest])
            begins_out[latest] = follows_ns[latest] - queue->call_ns;
        for (uint32_t i = 0; i < queue->ranks; i++)
            if (is_left[i] && share_driver(queue, latest, i))
                follows_ns[i] = begins_out[latest];
    }
}

/* Additional time that the node as a whole stays low if this rank is lowered now: its own time on
 * the low clock less what others lose by being raised earlier. 0: the call would delay a raising.
 */
static int64_t gain_ns(const struct lull_oracle_queue *queue, uint32_t rank, int64_t now_ns)
{
    int64_t without_ns[LULL_PLAY_RANKS];
    int64_t with_ns[LULL_PLAY_RANKS];
    int64_t gain;

    plan_raisings(queue, queue->ranks, never_ns, without_ns);
    plan_raisings(queue, rank, queue->calls[rank].raise_after_ns, with_ns);
    gain = with_ns[rank] - now_ns;
    for (uint32_t i = 0; i < queue->ranks; i++) {
        if (!share_driver(queue, rank, i) || with_ns[i] == never_ns)
            continue;
        if (with_ns[i] < now_ns + queue->call_ns)
            return 0;
        if (i != rank)
            gain -= without_ns[i] - with_ns[i];
    }
    return gain;
}

/* ---- calls ---- */

uint32_t lull_oracle_queue_step(const struct lull_oracle_queue *queue, uint32_t rank, uint32_t step)
{
    return step > queue->below[rank] ? step - queue->below[rank] : 0;
}

static void oracle_queue_begin_call(struct lull_oracle_queue *queue, uint32_t rank, uint32_t step,
                                    int64_t now_ns)
{
    queue->calls[rank].ends_ns =
        now_ns + lull_ns_from_ms(lull_physics_draw_api_ms(queue->model, &queue->random));
    queue->calls[rank].made_step = step;
}

static void end_calls(struct lull_oracle_queue *queue, int64_t now_ns)
{
    for (uint32_t i = 0; i < queue->ranks; i++) {
        struct lull_oracle_calls *calls = &queue->calls[i];

        if (calls->ends_ns > now_ns)
            continue;
        lull_physics_lock(lull_play_sim_gpu(queue->sim, i),
                          lull_oracle_queue_step(queue, i, calls->made_step), 1.0);
        calls->ends_ns = never_ns;
    }
}

static void begin_raisings(struct lull_oracle_queue *queue, int64_t now_ns)
{
    int64_t begins_ns[LULL_PLAY_RANKS] = {0};

    plan_raisings(queue, queue->ranks, never_ns, begins_ns);
    for (;;) {
        uint32_t first = queue->ranks;

        for (uint32_t i = 0; i < queue->ranks; i++)
            if (begins_ns[i] <= now_ns && queue->calls[i].is_low &&
                !oracle_queue_is_busy(queue, i) &&
                (first == queue->ranks || begins_ns[i] < begins_ns[first]))
                first = i;
        if (first == queue->ranks)
            return;
        queue->calls[first].is_low = false;
        queue->calls[first].raise_ns = never_ns;
        oracle_queue_begin_call(queue, first, queue->top_step, now_ns);
    }
}

static void begin_lowerings(struct lull_oracle_queue *queue, int64_t now_ns)
{
    for (;;) {
        int64_t best_ns = queue->min_gain_ns;
        uint32_t best = queue->ranks;

        for (uint32_t i = 0; i < queue->ranks; i++) {
            const struct lull_oracle_calls *calls = &queue->calls[i];
            int64_t gain;

            if (calls->lower_ns > now_ns || calls->is_low || oracle_queue_is_busy(queue, i))
                continue;
            gain = gain_ns(queue, i, now_ns);
            if (gain > best_ns) {
                best_ns = gain;
                best = i;
            }
        }
        if (best == queue->ranks)
            return;
        queue->calls[best].is_low = true;
        queue->calls[best].raise_ns = queue->calls[best].raise_after_ns;
        queue->calls[best].lower_ns = never_ns;
        oracle_queue_begin_call(queue, best, queue->calls[best].step, now_ns);
    }
}

int64_t lull_oracle_queue_serve(struct lull_oracle_queue *queue, int64_t now_ns)
{
    int64_t begins_ns[LULL_PLAY_RANKS];
    int64_t next_ns = never_ns;

    /* A waiting lowering gains less as time passes, so a lowering that was not worth beginning
     * before is not worth it now. */
    if (now_ns < queue->idle_until_ns)
        return queue->idle_until_ns;
    end_calls(queue, now_ns);
    begin_raisings(queue, now_ns);
    begin_lowerings(queue, now_ns);
    plan_raisings(queue, queue->ranks, never_ns, begins_ns);
    for (uint32_t i = 0; i < queue->ranks; i++) {
        const int64_t times_ns[] = {queue->calls[i].ends_ns, queue->calls[i].lower_ns,
                                    begins_ns[i]};

        for (uint32_t k = 0; k < sizeof(times_ns) / sizeof(times_ns[0]); k++)
            if (times_ns[k] > now_ns && times_ns[k] < next_ns)
                next_ns = times_ns[k];
    }
    queue->idle_until_ns = next_ns;
    return next_ns;
}
