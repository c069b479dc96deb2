/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/counter.h"

#include <string.h>

void lull_counter_take(struct lull_counter *counter, int64_t time_ns, double value)
{
    if (counter->is_begun && value < counter->polled)
        memset(counter, 0, sizeof(*counter));
    if (counter->is_begun && value > counter->polled) {
        counter->refreshes[counter->count % LULL_COUNTER_KEPT] = (struct lull_counter_refresh){
            .time_ns = counter->polled_ns + (time_ns - counter->polled_ns) / 2, .value = value};
        counter->count++;
    }
    counter->is_begun = true;
    counter->polled_ns = time_ns;
    counter->polled = value;
}

bool lull_counter_at(const struct lull_counter *counter, int64_t time_ns, double *value_out)
{
    uint64_t oldest = 0;

    if (counter->count > LULL_COUNTER_KEPT)
        oldest = counter->count - LULL_COUNTER_KEPT;
    for (uint64_t i = counter->count; i-- > oldest + 1;) {
        const struct lull_counter_refresh *after = &counter->refreshes[i % LULL_COUNTER_KEPT];
        const struct lull_counter_refresh *before =
            &counter->refreshes[(i - 1) % LULL_COUNTER_KEPT];

        if (after->time_ns < time_ns)
            return false;
        if (before->time_ns > time_ns)
            continue;
        *value_out = before->value +
                     (after->value - before->value) * ((double)(time_ns - before->time_ns) /
                                                       (double)(after->time_ns - before->time_ns));
        return true;
    }
    return false;
}
