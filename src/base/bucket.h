/*
 * Token buckets, which limit the rate of an action. Pure; the caller passes times, in nanoseconds
 * of one monotonic clock. Threads: each bucket belongs to one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_BUCKET_H
#define LULL_BASE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* Permits an action once per interval on average, and `burst` times in a row after a pause. With
 * all other fields zero it starts full. */
struct lull_bucket {
    int64_t interval_ns; /* > 0 */
    int64_t burst;       /* >= 1 */
    int64_t empty_ns;    /* when it will be full again if nothing more is taken */
};

/* Takes one token. Returns false if the bucket is empty. */
static inline bool lull_bucket_take(struct lull_bucket *bucket, int64_t now_ns)
{
    const int64_t from_ns = lull_later_ns(bucket->empty_ns, now_ns);

    if (from_ns + bucket->interval_ns > now_ns + bucket->burst * bucket->interval_ns)
        return false;
    bucket->empty_ns = from_ns + bucket->interval_ns;
    return true;
}

#endif
