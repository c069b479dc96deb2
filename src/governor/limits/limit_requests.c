/* Requests limits and clocks from the control, and holds them. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "governor/limits/power_limits_state.h"
#include "governor/limits/stored_limits.h"

/* A locked clock is renewed well within its validity, which the writer caps at 5 s. */
static const int64_t clock_renewal_ns = LULL_NS_PER_S;
static const int64_t clock_validity_ns = 4 * LULL_NS_PER_S;

const struct lull_device_info *lull_limits_info(const struct lull_limits *limits,
                                                const struct lull_control *control, uint32_t gpu)
{
    return lull_device_info(limits->devices,
                            lull_control_gpu(control, limits->gpus[gpu].index)->device);
}

void lull_limits_abandon(struct lull_limits *limits, struct lull_control *control)
{
    for (uint32_t i = 0; i < limits->gpu_count; i++)
        lull_control_set_limit(control, limits->gpus[i].index, 0);
    lull_control_set_phase(control, LULL_PHASE_SETTLED);
    limits->stage = LULL_LIMITS_GIVEN_UP;
}

void lull_limits_request(struct lull_limits *limits, struct lull_control *control,
                         const struct lull_limit_point *point)
{
    limits->asked = *point;
    limits->is_set = false;
    limits->read_w = 0.0;
    limits->clock_ns = 0;
    limits->begin_ns = 0;
    limits->end_ns = 0;
    for (uint32_t i = 0; i < limits->gpu_count; i++)
        limits->gpus[i].sequence = lull_control_set_limit(control, limits->gpus[i].index,
                                                          (uint32_t)(point->limit_w * 1e3 + 0.5));
}

void lull_limits_hold_clock(struct lull_limits *limits, struct lull_control *control,
                            int64_t now_ns)
{
    if (!limits->is_refining ||
        (limits->clock_ns != 0 &&
         (limits->asked.sm_mhz == 0 || now_ns - limits->clock_ns < clock_renewal_ns)))
        return;
    limits->clock_ns = now_ns;
    for (uint32_t i = 0; i < limits->gpu_count; i++)
        lull_control_set_clock(control, limits->gpus[i].index, limits->asked.sm_mhz,
                               now_ns + clock_validity_ns);
}

/* Sets err to the reason why a GPU has not applied the requested power limit. */
static int refuse_limit(const struct lull_limits *limits, uint32_t device,
                        const struct lull_limit_result *result, struct lull_error *err)
{
    char present[32] = "its own limit";

    if (result->limit_mw > 0)
        snprintf(present, sizeof(present), "%u W", result->limit_mw / 1000);
    switch (result->status) {
    case LULL_E_UNSUPPORTED:
        return lull_error_set(
            err, result->status,
            "power limits are not set: GPU %u: its driver does not support setting the power limit",
            device);
    case -EPERM:
        return lull_error_set(err, result->status,
                              "power limits are not set: GPU %u: the driver does not permit its "
                              "power limit to be set; run lulld, or lull run --no-daemon, as root "
                              "on the host (root in a container or virtual machine is not enough)",
                              device);
    case LULL_E_NO_DEVICE:
        return lull_error_set(
            err, result->status,
            "power limits are not set: GPU %u: the driver has lost it; see dmesg for Xid", device);
    case LULL_E_NOT_APPLIED:
        return lull_error_set(
            err, result->status,
            "power limits are not set: GPU %u: the driver took %g W, and the GPU stays at %s",
            device, limits->asked.limit_w, present);
    default:
        return lull_error_set(err, result->status,
                              "power limits are not set: GPU %u stays at %s: the driver refuses %g "
                              "W (busy, or an unknown error); see lull status and dmesg",
                              device, present, limits->asked.limit_w);
    }
}

int lull_limits_poll_requests(struct lull_limits *limits, struct lull_control *control,
                              struct lull_error *err)
{
    for (uint32_t i = 0; i < limits->gpu_count && !limits->is_set; i++) {
        struct lull_limit_result result;

        lull_control_limit_result(control, limits->gpus[i].index, &result);
        if (result.sequence != limits->gpus[i].sequence)
            return 0;
        limits->read_w = fmax(limits->read_w, result.limit_mw * 1e-3);
        if (result.status < 0)
            return refuse_limit(limits, lull_control_gpu(control, limits->gpus[i].index)->device,
                                &result, err);
    }
    limits->is_set = true;
    return 1;
}

void lull_limits_hold_choice(struct lull_limits *limits, struct lull_control *control,
                             struct lull_error *note_out)
{
    struct lull_limit_profile *profile = &limits->profile;
    struct lull_job_selector selector = limits->options->search.selector;

    selector.price.gpu_count = limits->gpu_count;
    selector.price.max_power_w = profile->measures[0].point.limit_w;
    if (lull_limit_choose(&selector, profile->measures, profile->count, &profile->chosen,
                          note_out) < 0) {
        lull_limits_abandon(limits, control);
        return;
    }
    profile->selector = selector;
    lull_stored_limits_sign(profile);
    limits->is_refining =
        limits->is_refining || profile->measures[profile->chosen].point.sm_mhz != 0;
    lull_limits_request(limits, control, &profile->measures[profile->chosen].point);
    limits->stage = LULL_LIMITS_HELD;
    lull_control_set_phase(control, LULL_PHASE_SETTLED);
}
