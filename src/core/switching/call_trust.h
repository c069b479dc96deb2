/*
 * May the driver be trusted to raise a clock in time? A call that blocks for longer than the
 * sections are long leaves computation at a low clock for as long; and calls for the GPUs of a node
 * queue, so that each GPU pays for the calls of all.
 *
 * A call that has blocked for longer than a limit is a breach, and a request that waits for longer
 * is one about to be seen: from then on no GPU of the node is to be lowered. After a breach that
 * lasts for a while, until what the breach has cost is at most half a percent of the time; then
 * calls that can cost nothing (core/switching/switch_calibration.h) prove the driver anew. Another
 * breach soon after that doubles the while.
 *
 * Pure; caller's storage; zero-initialised trusts. Times are ns of one monotonic clock.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_CALL_TRUST_H
#define LULL_CORE_SWITCHING_CALL_TRUST_H

#include <stdbool.h>
#include <stdint.h>

struct lull_call_trust {
    int64_t until_ns; /* no trust before; 0: no breach is being waited out */
    int64_t wait_ns;  /* how long the last stretch without trust was... */
    int64_t since_ns; /* ...and when it ended */
    bool is_overdue;  /* a request waits for longer than the limit */
};

/*
 * The longest time that a call may block, ms. longest_section_ms >= 0; gpu_count >= 1: the GPUs
 * whose calls queue. The calls for all of them must fit into the section; but what a healthy driver
 * may take on a busy machine is always allowed.
 */
double lull_call_trust_limit_ms(double longest_section_ms, uint32_t gpu_count);

/* The longest time that a request may wait for its answer, the calls before it included, ms. */
double lull_call_trust_waiting_limit_ms(double longest_section_ms, uint32_t gpu_count);

/*
 * A driver call has returned at now_ns after blocked_ms >= 0. loss_ratio: how much slower
 * computation runs at the clocks that were being set, in (0, 1].
 */
void lull_call_trust_take_call(struct lull_call_trust *trust, int64_t now_ns, double blocked_ms,
                               double limit_ms, double loss_ratio);

/* The oldest request without an answer has waited for waiting_ms; 0: all have been answered. */
void lull_call_trust_take_waiting(struct lull_call_trust *trust, double waiting_ms,
                                  double limit_ms);

/* Time passes; false: nothing may be lowered. */
bool lull_call_trust_poll(struct lull_call_trust *trust, int64_t now_ns);

/* When poll may answer otherwise; INT64_MAX: only after a call or an answer. */
int64_t lull_call_trust_wake_ns(const struct lull_call_trust *trust);

#endif
