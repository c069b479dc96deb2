/* SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/call_trust.h"

#include <assert.h>
#include <math.h>

/* Calls take 5 ms, and 10 ms now and then (published); the rest of the limit is for busy machines.
 */
static const double queue_ms = 10.0;
static const double least_limit_ms = 200.0;
/* After a breach nothing is lowered for this many times the time that it has cost, between the two
 * limits. What that comes to is measured in test_slow_driver: calls of 500 ms, which had cost 7.6
 * %, cost a hundredth of a per cent. */
static const double spread = 200.0;
static const double least_wait_s = 20.0;
static const double most_wait_s = 3600.0;
/* Trust that has lasted for this many times the last wait is as good as before any breach. Chosen,
 * not measured. */
static const int64_t clean_waits = 4;

double lull_call_trust_limit_ms(double longest_section_ms, uint32_t gpu_count)
{
    return fmax(longest_section_ms / gpu_count, least_limit_ms);
}

double lull_call_trust_waiting_limit_ms(double longest_section_ms, uint32_t gpu_count)
{
    return fmax(longest_section_ms, least_limit_ms + queue_ms * gpu_count);
}

void lull_call_trust_take_call(struct lull_call_trust *trust, int64_t now_ns, double blocked_ms,
                               double limit_ms, double loss_ratio)
{
    double wait_s = fmax(spread * loss_ratio * blocked_ms * 1e-3, least_wait_s);

    /* A call that was under way already when another one breached is the same breach. */
    if (!(blocked_ms > limit_ms) || now_ns < trust->until_ns)
        return;
    if (now_ns - trust->since_ns <= clean_waits * trust->wait_ns)
        wait_s = fmax(wait_s, 2.0 * (double)trust->wait_ns * 1e-9);
    trust->wait_ns = (int64_t)(fmin(wait_s, most_wait_s) * 1e9);
    trust->until_ns = now_ns + trust->wait_ns;
    assert(trust->wait_ns > 0);
}

void lull_call_trust_take_waiting(struct lull_call_trust *trust, double waiting_ms, double limit_ms)
{
    trust->is_overdue = waiting_ms > limit_ms;
}

bool lull_call_trust_poll(struct lull_call_trust *trust, int64_t now_ns)
{
    if (trust->is_overdue || now_ns < trust->until_ns)
        return false;
    if (trust->until_ns != 0) {
        trust->until_ns = 0;
        trust->since_ns = now_ns;
    }
    return true;
}

int64_t lull_call_trust_wake_ns(const struct lull_call_trust *trust)
{
    return trust->until_ns != 0 && !trust->is_overdue ? trust->until_ns : INT64_MAX;
}
