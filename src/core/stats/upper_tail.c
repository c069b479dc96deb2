/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/upper_tail.h"

#include <math.h>
#include <stdbool.h>

#include "base/smaller.h"

void lull_upper_tail_add(struct lull_upper_tail *tail, double value)
{
    uint32_t place = lull_smaller_u32(tail->count, LULL_UPPER_TAIL_KEPT);

    if (!isfinite(value))
        return;
    for (; place > 0 && tail->largest[place - 1] < value; place--)
        if (place < LULL_UPPER_TAIL_KEPT)
            tail->largest[place] = tail->largest[place - 1];
    if (place < LULL_UPPER_TAIL_KEPT)
        tail->largest[place] = value;
    tail->count++;
}

void lull_upper_tail_merge(struct lull_upper_tail *tail, const struct lull_upper_tail *other)
{
    const uint32_t kept = lull_smaller_u32(other->count, LULL_UPPER_TAIL_KEPT);

    for (uint32_t i = 0; i < kept; i++)
        lull_upper_tail_add(tail, other->largest[i]);
    tail->count += other->count - kept;
}

double lull_upper_tail_p99(const struct lull_upper_tail *tail)
{
    const uint32_t above = tail->count / 100; /* this many may exceed or equal it */
    const uint32_t last = LULL_UPPER_TAIL_KEPT - 1;

    if (tail->count == 0)
        return NAN;
    if (above == 0)
        return tail->largest[0];
    return tail->largest[lull_smaller_u32(above - 1, last)];
}

/* From this many values on one is bound to be a hiccup, which says little of the others. Chosen,
 * not measured. */
enum { CENSORED_FROM = 64 };
/* The tail is a third of few values, but no fewer than eight. Chosen, not measured. */
enum { TAIL_SHARE = 3, TAIL_LEAST = 8 };

/* The mean by which the kept values exceed the smallest of them. */
static double mean_excess(const struct lull_upper_tail *tail, uint32_t kept)
{
    const bool is_censored = tail->count >= CENSORED_FROM;
    double sum = 0.0;

    for (uint32_t i = 0; i < kept; i++)
        sum += tail->largest[is_censored && i == 0 ? 1 : i] - tail->largest[kept - 1];
    return sum / (is_censored ? kept - 2 : kept);
}

/* How many of the kept values are taken for the tail. */
static uint32_t tail_size(const struct lull_upper_tail *tail)
{
    const uint32_t least = lull_smaller_u32(tail->count, TAIL_LEAST);

    return lull_smaller_u32(lull_larger_u32(tail->count / TAIL_SHARE, least), LULL_UPPER_TAIL_KEPT);
}

double lull_upper_tail_exceeded(const struct lull_upper_tail *tail, double share)
{
    const uint32_t kept = tail_size(tail);
    const double smallest = kept == 0 ? NAN : tail->largest[kept - 1];
    const double kept_share = (double)kept / (double)tail->count;

    if (kept == 0 || share >= kept_share)
        return smallest;
    return smallest + mean_excess(tail, kept) * log(kept_share / share);
}

void lull_recent_tail_add(struct lull_recent_tail *tail, double value)
{
    if (tail->newer.count == LULL_RECENT_TAIL_SPAN) {
        tail->older = tail->newer;
        tail->newer = (struct lull_upper_tail){0};
    }
    lull_upper_tail_add(&tail->newer, value);
}

double lull_recent_tail_exceeded(const struct lull_recent_tail *tail, double share)
{
    struct lull_upper_tail both = tail->newer;

    lull_upper_tail_merge(&both, &tail->older);
    return lull_upper_tail_exceeded(&both, share);
}
