/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/control/control_state.h"

#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "base/log.h"

/* A clock that has not followed after this long will not follow: it is longer than the slowest
 * settling that was published (48 ms). */
static const int64_t obedience_ns = 60 * LULL_NS_PER_MS;

/* The time from the return of a call until the clock followed, or a lower bound of it; negative:
 * the clock was not read. seen_ns: when the clock was last read before the next call; 0: never. */
static int64_t time_to_settle_ns(const struct lull_switch_result *result, int64_t end_ns,
                                 int64_t seen_ns)
{
    if (result->settle_ns == LULL_SETTLE_NOT_APPLIED)
        return obedience_ns;
    if (result->settle_ns != LULL_SETTLE_UNKNOWN)
        return result->settle_ns;
    return seen_ns > end_ns && result->observed_mhz != 0 ? seen_ns - end_ns : -1;
}

static void control_result_report_switch(struct lull_control *control, uint32_t index,
                                         const struct lull_posted_request *request,
                                         const struct lull_switch_result *result, int64_t seen_ns,
                                         bool failed)
{
    const int64_t end_ns = result->call_begin_ns + result->call_ns;
    const int64_t settle_ns = time_to_settle_ns(result, end_ns, seen_ns);
    struct lull_switch_outcome outcome = {
        .was_point = request->was_point,
        .point = request->point,
        .call_ms = lull_ms_from_ns(end_ns - request->posted_ns),
        .driver_ms = lull_ms_from_ns(result->call_ns),
        .settle_ms = settle_ns < 0 ? NAN : lull_ms_from_ns(settle_ns),
        .unsure_ms = result->settle_ns < 0 ? 0.0 : result->unread_us * 0.5e-3,
        .effect_ns = end_ns + (settle_ns < 0 ? 0 : settle_ns),
        .overtaken = settle_ns >= 0 && result->settle_ns == LULL_SETTLE_UNKNOWN,
        .failed = failed,
    };

    if (result->settle_ns == LULL_SETTLE_NOT_APPLIED)
        outcome.settle_ms = -1.0;
    control->decider->take_switch(control->deciding, index, &outcome);
}

/* Takes the result of a request: it settled, was refused, or was superseded by the next call.
 * seen_ns: when the clock was last read before that call. */
static void take_outcome(struct lull_control *control, uint32_t index,
                         const struct lull_switch_result *result, int64_t seen_ns)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];
    const struct lull_posted_request *request =
        &gpu->requests[result->sequence % LULL_CONTROL_REQUESTS_KEPT];
    const int64_t end_ns = result->call_begin_ns + result->call_ns;
    /* With LULL_E_STALE the call was also made, but was undone because it was too late. */
    const bool is_made =
        (result->status == 0 || result->status == LULL_E_STALE) && result->call_ns > 0;
    bool is_useless;

    gpu->taken = result->sequence;
    gpu->seen.sequence = 0;
    if (result->status != 0)
        gpu->log.refused++;
    lull_driver_watch_take_result(&gpu->state.driver, result);
    is_useless = lull_driver_watch_has_no_effect(&gpu->state.driver) ||
                 lull_driver_watch_denies(&gpu->state.driver);
    /* A request without a write is no measurement of the cost of writing. */
    if (request->sequence == result->sequence && request->is_of_idle) {
        if (request->point == 0)
            lull_idle_phase_take_raised(&gpu->idle, end_ns + lull_later_ns(result->settle_ns, 0));
    } else if (request->sequence == result->sequence && (is_made || is_useless))
        control_result_report_switch(control, index, request, result, seen_ns, is_useless);
    if (result->status == 0 && result->settle_ns >= 0)
        gpu->expected = (struct lull_clock_expectation){.set_mhz = result->sm_mhz,
                                                        .since_ns = end_ns + result->settle_ns};
    if (is_made && request->answers_ns != 0)
        lull_run_log_add_reaction(&gpu->log, result->call_begin_ns - request->answers_ns);
}

/* The next call has ended the read-back of the previous one. Either its clock had followed, or it
 * never would. */
static void take_overtaken(struct lull_control *control, uint32_t index,
                           const struct lull_switch_result *next)
{
    const struct lull_governed_gpu *gpu = &control->gpus[index];
    struct lull_switch_result overtaken = gpu->seen;
    const bool is_below = overtaken.sm_mhz == 0 || overtaken.observed_mhz < overtaken.sm_mhz;

    /* The clock of a GPU without work is below every locked clock, so it is no evidence about the
     * driver. */
    if ((gpu->is_idle && is_below) || lull_driver_watch_follows(&overtaken, &gpu->expected))
        overtaken.observed_mhz = 0;
    /* It was read back at least once; else the writer was busy with another GPU's call. */
    if (overtaken.observed_mhz != 0 &&
        next->call_begin_ns - (overtaken.call_begin_ns + overtaken.call_ns) > obedience_ns)
        overtaken.settle_ns = LULL_SETTLE_NOT_APPLIED;
    take_outcome(control, index, &overtaken,
                 next->call_begin_ns - next->unread_us * LULL_NS_PER_US);
}

/* Takes the driver's calls. Outcomes may omit a call: the next request may have needed none and
 * replaced the result. */
static void take_calls(struct lull_control *control, uint32_t index,
                       const struct lull_switch_result *result)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];
    const double blocked_ms = result->blocked_us * 1e-3;

    if (result->calls == gpu->calls)
        return;
    lull_driver_watch_take_calls(&gpu->state.driver, (uint16_t)(result->calls - gpu->calls),
                                 blocked_ms);
    gpu->calls = result->calls;
    control->decider->take_blocked(control->deciding, index, lull_now_ns(), blocked_ms);
}

/* The time since which the oldest known request of this GPU has had no answer; earliest_ns if that
 * is earlier. */
static int64_t unanswered_since_ns(const struct lull_governed_gpu *gpu,
                                   const struct lull_switch_result *result, int64_t earliest_ns)
{
    for (uint64_t sequence = gpu->posted; sequence > result->sequence; sequence--) {
        const struct lull_posted_request *request =
            &gpu->requests[sequence % LULL_CONTROL_REQUESTS_KEPT];

        if (request->sequence != sequence)
            break;
        if (request->posted_ns < earliest_ns)
            earliest_ns = request->posted_ns;
    }
    return earliest_ns;
}

/* Notes the cap of the GPU. The clock expected before no longer applies. */
static void control_result_take_cap(struct lull_governed_gpu *gpu, uint32_t cap_mhz)
{
    if (gpu->cap_mhz == cap_mhz)
        return;
    if (cap_mhz != 0)
        lull_log(LULL_LOG_INFO, "run", "GPU %u is capped at %u MHz", gpu->state.device, cap_mhz);
    else
        lull_log(LULL_LOG_INFO, "run", "GPU %u is no longer capped", gpu->state.device);
    gpu->cap_mhz = cap_mhz;
    gpu->expected.since_ns = 0;
}

void lull_control_take_results(struct lull_control *control)
{
    const int64_t now_ns = lull_now_ns();
    int64_t since_ns = now_ns;
    bool is_capped = false;

    for (uint32_t i = 0; i < control->gpu_count; i++) {
        struct lull_governed_gpu *gpu = &control->gpus[i];
        struct lull_switch_result result;

        if (!gpu->armed)
            continue;
        lull_actuator_result(control->actuator, gpu->actuator_slot, &result);
        since_ns = unanswered_since_ns(gpu, &result, since_ns);
        take_calls(control, i, &result);
        lull_control_profile_take_result(control, gpu);
        control_result_take_cap(gpu, result.reference_mhz);
        is_capped = is_capped || gpu->cap_mhz != 0;
        if (result.sequence == 0 || result.sequence == gpu->taken)
            continue;
        if (gpu->seen.sequence != 0 && gpu->seen.sequence != result.sequence)
            take_overtaken(control, i, &result);
        if (result.status != 0 || result.settle_ns != LULL_SETTLE_UNKNOWN)
            take_outcome(control, i, &result, 0);
        else
            gpu->seen = result;
    }
    lull_control_hold(control, LULL_HOLD_CAP, is_capped);
    control->decider->take_waiting(control->deciding, now_ns, lull_ms_from_ns(now_ns - since_ns));
}

void lull_control_hold(struct lull_control *control, enum lull_hold reason, bool held)
{
    const uint32_t before = control->holds;

    control->holds = held ? before | reason : before & ~(uint32_t)reason;
    if (control->holds != before)
        control->decider->hold(control->deciding, control->holds);
}
