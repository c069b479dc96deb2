/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tuning/warmth.h"

#include <math.h>

static const int64_t second_ns = INT64_C(1000000000);
static const double resolution_c = 1.0;

bool lull_warmth_is_due(const struct lull_warmth *warmth, int64_t now_ns)
{
    return warmth->count == 0 || now_ns - warmth->last_ns >= second_ns;
}

bool lull_warmth_take(struct lull_warmth *warmth, int64_t now_ns, double temperature_c)
{
    double lowest = temperature_c;
    double highest = temperature_c;

    if (warmth->count == 0)
        warmth->begun_ns = now_ns;
    warmth->last_ns = now_ns;
    warmth->readings_c[warmth->count++ % (LULL_WARMTH_SPAN_S + 1)] = temperature_c;
    if (now_ns - warmth->begun_ns >= LULL_WARMTH_MOST_S * second_ns)
        return true;
    for (uint32_t i = 0; i <= LULL_WARMTH_SPAN_S && i < warmth->count; i++) {
        lowest = fmin(lowest, warmth->readings_c[i]);
        highest = fmax(highest, warmth->readings_c[i]);
    }
    return warmth->count > LULL_WARMTH_SPAN_S && highest - lowest <= resolution_c;
}
