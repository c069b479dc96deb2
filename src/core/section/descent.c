/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/descent.h"

#include <assert.h>

#include "base/minmax.h"

/*
 * The next point: stride points below the last good one, but above the highest bad one; without a
 * stride the middle between the two. Too little left between them ends the descent.
 */
static void choose_candidate(struct lull_descent *descent)
{
    assert(descent->good < descent->bad && descent->bad <= descent->count);
    const uint32_t room = descent->bad - descent->good - 1;

    if (room < descent->resolution)
        descent->candidate = descent->good;
    else if (descent->stride == 0)
        descent->candidate = descent->good + (room + 1) / 2;
    else
        descent->candidate = descent->good + lull_min_u32(descent->stride, room);
}

/* Starts below a good point, with bad as the bound that is not reached. */
static void descent_start(struct lull_descent *descent, uint32_t good, uint32_t bad)
{
    descent->good = good;
    descent->bad = bad;
    descent->steps = 0;
    descent->aims = 0;
    descent->stride = 1;
    if (descent->strategy == LULL_DESCENT_BISECT)
        descent->stride = descent->count;
    choose_candidate(descent);
}

void lull_descent_init(struct lull_descent *descent, enum lull_descent_strategy strategy,
                       uint32_t count)
{
    lull_descent_init_below(descent, strategy, count, 0);
}

void lull_descent_init_below(struct lull_descent *descent, enum lull_descent_strategy strategy,
                             uint32_t count, uint32_t good)
{
    assert(count >= 1 && good < count);
    *descent = (struct lull_descent){.strategy = strategy, .count = count, .resolution = 1};
    descent_start(descent, good, count);
}

void lull_descent_coarsen(struct lull_descent *descent, uint32_t resolution)
{
    descent->resolution = lull_max_u32(resolution, 1);
}

bool lull_descent_done(const struct lull_descent *descent)
{
    return descent->candidate == descent->good;
}

void lull_descent_take(struct lull_descent *descent, enum lull_verdict verdict)
{
    if (verdict == LULL_VERDICT_UNDECIDED || lull_descent_done(descent))
        return;
    descent->steps++;
    if (verdict == LULL_VERDICT_DEGRADED) {
        descent->bad = descent->candidate;
        descent->stride = 0;
    } else {
        descent->good = descent->candidate;
        if (descent->strategy == LULL_DESCENT_GALLOP)
            descent->stride *= 2;
    }
    choose_candidate(descent);
}

void lull_descent_aim(struct lull_descent *descent, uint32_t point)
{
    uint32_t lowest = descent->bad - 1;
    uint32_t aimed;

    if (lull_descent_done(descent) || descent->strategy != LULL_DESCENT_GALLOP ||
        descent->aims == LULL_DESCENT_AIMS)
        return;
    if (descent->bad == descent->count)
        lowest = descent->candidate;
    aimed = lull_max_u32(lull_min_u32(point, lowest), descent->good + 1);
    descent->aims += aimed != descent->candidate;
    descent->candidate = aimed;
}

void lull_descent_back_off(struct lull_descent *descent, uint32_t floor, uint32_t points)
{
    uint32_t bad = floor + 1;

    assert(points >= 1 && floor <= descent->good);
    if (descent->good > floor + points)
        bad = descent->good - points + 1;
    descent_start(descent, floor, bad);
    descent->stride = descent->count;
    choose_candidate(descent);
}

void lull_descent_reopen(struct lull_descent *descent)
{
    assert(lull_descent_done(descent));
    if (descent->strategy == LULL_DESCENT_BISECT)
        descent->strategy = LULL_DESCENT_GALLOP;
    descent_start(descent, descent->good, descent->count);
    descent->stride = descent->resolution;
    choose_candidate(descent);
}
