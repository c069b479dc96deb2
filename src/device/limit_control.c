/* SPDX-License-Identifier: Apache-2.0 */
#include "device/limit_control.h"

#include <errno.h>

#include "base/clock.h"

/* A limiter needs most of a second to follow, and each call keeps the driver busy for some 10 ms,
 * so a GPU's limit is set at most this often; a failed call is repeated with growing pauses. The
 * driver may refuse a cap as long as it runs. */
static const int64_t gap_ns = 200 * LULL_NS_PER_MS;
static const int64_t retry_first_ns = 20 * LULL_NS_PER_MS;
static const int64_t retry_last_ns = LULL_NS_PER_S;
static const int64_t retry_cap_last_ns = 60 * LULL_NS_PER_S;

enum { MOST_DOUBLINGS_OF_LIMIT = 12 };

static bool may_set(const struct lull_limit_control *control)
{
    return control->is_leased && (control->max_mw > 0 || control->cap_mw > 0);
}

void lull_limit_control_begin(struct lull_limit_control *control, const struct lull_band *band)
{
    control->is_leased = true;
    control->min_mw = band->min_limit_mw;
    control->max_mw = band->max_limit_mw;
    control->has_pending = control->cap_mw > 0;
    control->pending = (struct lull_limit_request){0};
    control->failures = 0;
    control->result = (struct lull_limit_result){0};
    if (lull_limit_control_is_restored(control))
        control->before_mw = 0; /* another program may have changed it since */
}

void lull_limit_control_end(struct lull_limit_control *control, int64_t now_ns)
{
    control->is_leased = false;
    control->has_pending = false;
    control->cap_mw = 0;
    control->failures = 0; /* those of the lease do not count towards the report of its end */
    control->next_ns = now_ns;
}

void lull_limit_control_cap(struct lull_limit_control *control, uint32_t cap_mw)
{
    if (cap_mw == control->cap_mw)
        return;
    control->cap_mw = cap_mw;
    control->has_pending = may_set(control);
    lull_limit_control_retry(control);
}

void lull_limit_control_retry(struct lull_limit_control *control)
{
    if (control->failures > 0)
        control->next_ns = 0;
    control->failures = 0;
}

void lull_limit_control_inherit(struct lull_limit_control *control, uint32_t before_mw,
                                const uint32_t written_mw[2])
{
    if (before_mw == 0 || (written_mw[0] == 0 && written_mw[1] == 0) ||
        !lull_limit_control_is_restored(control))
        return;
    control->before_mw = before_mw;
    control->applied_mw = written_mw[0];
    control->tried_mw = written_mw[1];
    control->is_uncertain = true;
}

int lull_limit_control_take(struct lull_limit_control *control,
                            const struct lull_limit_request *request)
{
    if (control->max_mw > 0) {
        control->has_pending = true;
        control->pending = *request;
        /* It may succeed where the cap does not. */
        control->next_ns = lull_earlier_ns(control->next_ns, lull_now_ns() + retry_last_ns);
        return 0;
    }
    control->result.sequence = request->sequence;
    control->result.status = LULL_E_UNSUPPORTED;
    return LULL_E_UNSUPPORTED;
}

void lull_limit_control_undo(struct lull_limit_control *control)
{
    if (lull_limit_control_is_restored(control))
        return;
    control->pending.limit_mw = 0;
    control->has_pending = may_set(control);
    control->next_ns = 0;
}

bool lull_limit_control_is_restored(const struct lull_limit_control *control)
{
    return control->applied_mw == 0 && !control->is_uncertain;
}

int64_t lull_limit_control_due_ns(const struct lull_limit_control *control)
{
    const bool is_wanted = may_set(control) ? control->has_pending && control->before_mw != 0
                                            : !lull_limit_control_is_restored(control);

    return is_wanted ? control->next_ns : INT64_MAX;
}

/* Clamps a limit to the lease, the device and what the administrator has set. Returns 0 where the
 * limit from before the lease is to hold. */
static uint32_t limit_control_clamp(const struct lull_limit_control *control,
                                    const struct lull_device_info *info)
{
    uint32_t limit_mw = control->pending.limit_mw;

    if (!may_set(control))
        return 0;
    if (limit_mw != 0 && limit_mw < control->min_mw)
        limit_mw = control->min_mw;
    if (limit_mw > control->max_mw)
        limit_mw = control->max_mw;
    if (control->cap_mw != 0 && (limit_mw == 0 || limit_mw > control->cap_mw))
        limit_mw = control->cap_mw;
    if (limit_mw == 0)
        return 0;
    if (limit_mw < info->power_limit_min_mw)
        limit_mw = info->power_limit_min_mw;
    return limit_mw >= control->before_mw ? 0 : limit_mw;
}

static uint32_t limit_control_read_mw(struct lull_devices *devices, uint32_t gpu)
{
    struct lull_device_reading reading;

    lull_device_read(devices, gpu, LULL_READING_POWER_LIMIT, &reading);
    return (reading.valid & LULL_READING_POWER_LIMIT) != 0 ? reading.power_limit_mw : 0;
}

static int write_limit(struct lull_limit_control *control, struct lull_devices *devices,
                       uint32_t gpu, uint32_t limit_mw, struct lull_error *err)
{
    int status = lull_device_set_power_limit(devices, gpu, limit_mw, err);

    control->tried_mw = limit_mw;
    if (status < 0) {
        control->is_uncertain = control->is_uncertain || (status != -EPERM && status != -EINVAL &&
                                                          status != LULL_E_UNSUPPORTED);
        return status;
    }
    control->result.limit_mw = limit_control_read_mw(devices, gpu);
    /* A limit that cannot be read now may be the one that was set: it has to be restored. */
    control->is_uncertain = control->result.limit_mw == 0;
    if (control->result.limit_mw == limit_mw)
        return 0;
    if (control->is_uncertain)
        return lull_error_set(err, LULL_E_NOT_APPLIED,
                              "GPU %u: a power limit of %u W was set, but it cannot be read back",
                              gpu, limit_mw / 1000);
    return lull_error_set(err, LULL_E_NOT_APPLIED,
                          "GPU %u: a power limit of %u W was set, but it stays at %u W", gpu,
                          limit_mw / 1000, control->result.limit_mw / 1000);
}

/* Returns whether another program has set the limit since. False where the limit cannot be read. */
static bool is_taken_over(const struct lull_limit_control *control)
{
    const bool is_tried = control->is_uncertain && control->present_mw == control->tried_mw;

    return control->present_mw != 0 && control->present_mw != control->before_mw &&
           control->present_mw != control->applied_mw && !is_tried;
}

bool lull_limit_control_look(struct lull_limit_control *control, struct lull_devices *devices,
                             uint32_t gpu)
{
    bool is_foreign;

    control->present_mw = limit_control_read_mw(devices, gpu);
    is_foreign = is_taken_over(control);
    if (is_foreign)
        control->before_mw = control->present_mw;
    /* Nothing that this lease has set is left to be undone. */
    if (is_foreign || (control->present_mw != 0 && control->present_mw == control->before_mw)) {
        control->applied_mw = 0;
        control->is_uncertain = control->is_uncertain && !is_foreign;
    } else if (control->present_mw != 0) {
        control->applied_mw = control->present_mw; /* also by a write that was reported as failed */
    }
    control->wanted_mw = limit_control_clamp(control, lull_device_info(devices, gpu));
    control->target_mw = control->wanted_mw != 0 ? control->wanted_mw : control->before_mw;
    /* A limit that already holds is not written again: the call would keep the driver busy for
     * nothing. */
    if (control->present_mw == control->target_mw && !control->is_uncertain)
        control->target_mw = 0;
    return is_foreign;
}

/* Failed calls are repeated after growing pauses. */
static void plan_next(struct lull_limit_control *control, int64_t last_ns)
{
    uint32_t shift = control->failures;

    if (shift > MOST_DOUBLINGS_OF_LIMIT)
        shift = MOST_DOUBLINGS_OF_LIMIT;
    control->next_ns = lull_now_ns() + gap_ns;
    if (control->failures > 0)
        control->next_ns = lull_now_ns() + lull_earlier_ns(retry_first_ns << shift, last_ns);
}

void lull_limit_control_postpone(struct lull_limit_control *control)
{
    control->failures++;
    plan_next(control, retry_last_ns);
}

void lull_limit_control_act(struct lull_limit_control *control, struct lull_devices *devices,
                            uint32_t gpu, int refusal, struct lull_error *err)
{
    control->result.status = refusal;
    control->result.limit_mw = control->present_mw;
    if (refusal == 0 && control->target_mw != 0)
        control->result.status = write_limit(control, devices, gpu, control->target_mw, err);
    if (control->result.status == LULL_E_NOT_APPLIED && control->result.limit_mw != 0)
        control->applied_mw =
            control->result.limit_mw; /* whatever the limit is now, this lease has set it */
    else if (control->result.status == 0 ||
             (control->result.status == LULL_E_NOT_APPLIED && control->wanted_mw != 0))
        control->applied_mw = control->wanted_mw;
    if (may_set(control))
        control->result.sequence = control->pending.sequence;
    /* A client learns of the failure and may request its limit again, but a cap must hold. */
    control->has_pending = control->result.status < 0 && control->cap_mw > 0;
    control->failures = control->result.status < 0 ? control->failures + 1 : 0;
    plan_next(control, control->has_pending ? retry_cap_last_ns : retry_last_ns);
}
