/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/serving/metrics_lag.h"

#include <math.h>

#include "base/clock.h"

/* A page that does not change for this long although requests run is old. SGLang publishes the
 * tokens of requests without streaming 50 at a time, which may take 2.5 s. A longer pause of the
 * server costs the energy of the highest clock, and an old page costs misses until it is
 * recognised. */
static const int64_t lag_ns = 3 * LULL_NS_PER_S;

/* A Python server renders its pages itself: at ten pages per second the time of its process rises
 * within this time, unless the page is a copy. */
static const int64_t idle_lag_ns = 5 * LULL_NS_PER_S;

/* After a page that did not change, the following ones count as old for as long again, because a
 * cache that is still in between shows itself in that time; but not for longer than this, because a
 * server may have hung. */
static const int64_t most_doubt_ns = 30 * LULL_NS_PER_S;

double lull_metrics_lag_limit_s(void)
{
    return (double)lag_ns * 1e-9;
}

/* Returns for how long the page has not changed although requests run, or although a Python server
 * itself renders it; 0: it changes. */
static int64_t lag_still_ns(struct lull_metrics_lag *lag, const struct lull_metrics_look *look)
{
    if (!lag->has_page || look->hash != lag->hash)
        lag->changed_ns = look->time_ns;
    if (!lag->has_page || isnan(look->cpu_s) || look->cpu_s != lag->cpu_s)
        lag->cpu_changed_ns = look->time_ns;
    lag->has_page = true;
    lag->hash = look->hash;
    lag->cpu_s = look->cpu_s;
    if (look->running > 0.0 && look->time_ns - lag->changed_ns >= lag_ns)
        return look->time_ns - lag->changed_ns;
    if (look->time_ns - lag->cpu_changed_ns >= idle_lag_ns)
        return look->time_ns - lag->cpu_changed_ns;
    return 0;
}

enum lull_metrics_lag_reason lull_metrics_lag_judge(struct lull_metrics_lag *lag,
                                                    const struct lull_metrics_look *look)
{
    const int64_t still_ns = lag_still_ns(lag, look);

    if (still_ns > 0)
        lag->until_ns = look->time_ns + lull_earlier_ns(still_ns, most_doubt_ns);
    if (look->age_s >= lull_metrics_lag_limit_s())
        return LULL_METRICS_LAG_STAMPS;
    if (look->time_ns >= lag->until_ns)
        return LULL_METRICS_LAG_NONE;
    return look->running > 0.0 ? LULL_METRICS_LAG_WORK : LULL_METRICS_LAG_PROCESS;
}
