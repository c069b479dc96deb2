/* SPDX-License-Identifier: Apache-2.0 */
#include "core/serving/cadence.h"

#include <assert.h>
#include <math.h>

#include "base/clock.h"
#include "base/minmax.h"

/* Interval of readings. Default: that of a server's metrics. */
static const int64_t period_ns = 100 * LULL_NS_PER_MS;

/* Buckets, the ratio of their bounds, and the bucket of the objective's bound. Default: from a
 * twentieth to four times the bound, in steps that a clock change can pass. */
enum { CADENCE_BUCKETS = 47, CADENCE_BOUND = 30 };
static const double bucket_ratio = 1.1;

_Static_assert((int)CADENCE_BUCKETS <= (int)LULL_SERVING_BUCKETS, "a histogram has room");

void lull_cadence_init(struct lull_cadence *cadence, double bound_s)
{
    *cadence = (struct lull_cadence){.bound_s = bound_s};
    cadence->times.count = CADENCE_BUCKETS;
    for (int i = 0; i < CADENCE_BUCKETS; i++)
        cadence->times.bound_s[i] = bound_s * pow(bucket_ratio, i - CADENCE_BOUND);
    cadence->times.bound_s[CADENCE_BUCKETS - 1] = INFINITY;
}

static void cadence_count(struct lull_cadence *cadence, double step_s)
{
    for (int i = 0; i < CADENCE_BUCKETS; i++)
        if (step_s <= cadence->times.bound_s[i])
            cadence->times.total[i] += 1.0;
    cadence->times.sum_s += step_s;
    cadence->steps += 1.0 / cadence->running;
}

void lull_cadence_take_step(struct lull_cadence *cadence, uint32_t engine, int64_t time_ns)
{
    assert(engine < LULL_CADENCE_ENGINES);
    if (cadence->since_ns[engine] == 0) {
        lull_cadence_take_work(cadence, engine, time_ns);
        return;
    }
    if (time_ns <= cadence->since_ns[engine])
        return;
    cadence_count(cadence, (double)(time_ns - cadence->since_ns[engine]) * 1e-9);
    cadence->since_ns[engine] = time_ns;
    cadence->last_ns = lull_later_ns(cadence->last_ns, time_ns);
}

void lull_cadence_take_idle(struct lull_cadence *cadence, uint32_t engine)
{
    assert(engine < LULL_CADENCE_ENGINES);
    if (cadence->since_ns[engine] == 0)
        return;
    cadence->since_ns[engine] = 0;
    cadence->running--;
}

void lull_cadence_take_work(struct lull_cadence *cadence, uint32_t engine, int64_t time_ns)
{
    assert(engine < LULL_CADENCE_ENGINES);
    if (cadence->since_ns[engine] == 0)
        cadence->running++;
    cadence->since_ns[engine] = lull_later_ns(cadence->since_ns[engine], time_ns);
}

bool lull_cadence_is_overdue(const struct lull_cadence *cadence, uint32_t engine, int64_t now_ns)
{
    const int64_t since_ns = cadence->since_ns[engine];

    return since_ns != 0 && (double)(now_ns - since_ns) * 1e-9 > cadence->bound_s;
}

static bool cadence_has_overdue(const struct lull_cadence *cadence, int64_t now_ns)
{
    for (uint32_t i = 0; i < LULL_CADENCE_ENGINES; i++)
        if (lull_cadence_is_overdue(cadence, i, now_ns))
            return true;
    return false;
}

bool lull_cadence_read(struct lull_cadence *cadence, int64_t now_ns,
                       struct lull_serving_reading *reading_out)
{
    const bool is_running = cadence->running > 0;
    const bool is_overdue = is_running && cadence_has_overdue(cadence, now_ns);

    if (cadence->read_ns == 0 && !is_running)
        return false;
    if (is_running == cadence->was_running && is_overdue <= cadence->was_overdue &&
        now_ns - cadence->read_ns < period_ns)
        return false;
    /* A reading of the end of a step cuts none. */
    if (cadence->last_ns == 0 || !is_running)
        cadence->last_ns = now_ns;
    cadence->read_ns = lull_later_ns(cadence->last_ns, cadence->read_ns + 1);
    cadence->last_ns = 0;
    cadence->was_running = is_running;
    cadence->was_overdue = is_overdue;
    *reading_out = (struct lull_serving_reading){
        .time_ns = cadence->read_ns,
        .is_of_steps = true,
        .is_overdue = is_overdue,
        .running = cadence->running,
        .cache_ratio = (double)NAN,
        .prompt_tokens = (double)NAN,
        .output_tokens = (double)NAN,
        .finished = (double)NAN,
        .steps = cadence->steps,
        .itl = cadence->times,
    };
    return true;
}
