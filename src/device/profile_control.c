/* SPDX-License-Identifier: Apache-2.0 */
#include "device/profile_control.h"

#include <errno.h>

#include "base/clock.h"

/* Default pauses after failures. */
static const int64_t profile_retry_ns = 20 * LULL_NS_PER_MS;
static const int64_t profile_retry_most_ns = LULL_NS_PER_S;

enum { MOST_DOUBLINGS_OF_PROFILES = 6 };

void lull_profile_control_begin(struct lull_profile_control *control, uint32_t allowed)
{
    const uint32_t own = control->own;

    *control = (struct lull_profile_control){
        .allowed = allowed, .own = own, .has_pending = own != 0, .next_ns = control->next_ns};
}

void lull_profile_control_undo(struct lull_profile_control *control, int64_t now_ns)
{
    if (control->wanted != 0)
        control->status = LULL_E_STALE;
    control->wanted = 0;
    control->has_pending = control->own != 0;
    control->failures = 0; /* those of the lease do not count towards the report of its end */
    control->next_ns = now_ns;
}

void lull_profile_control_inherit(struct lull_profile_control *control, uint32_t own)
{
    control->own |= own;
    control->has_pending = control->has_pending || own != 0;
}

int lull_profile_control_take(struct lull_profile_control *control,
                              const struct lull_limit_request *request)
{
    control->sequence = request->sequence;
    if ((request->profiles & ~control->allowed) != 0) {
        control->done_sequence = request->sequence;
        control->status = -EACCES;
        return -EACCES;
    }
    if (request->profiles == control->wanted && !control->has_pending) {
        control->done_sequence = request->sequence;
        return 0;
    }
    control->wanted = request->profiles;
    control->has_pending = true;
    return 0;
}

int64_t lull_profile_control_due_ns(const struct lull_profile_control *control)
{
    return control->has_pending ? control->next_ns : INT64_MAX;
}

bool lull_profile_control_is_restored(const struct lull_profile_control *control)
{
    return (control->own & ~control->wanted) == 0;
}

static int read_profiles(struct lull_profile_control *control, struct lull_devices *devices,
                         uint32_t gpu, uint32_t *requested_out, struct lull_error *err)
{
    struct lull_device_reading reading;

    lull_device_read(devices, gpu, LULL_READING_PROFILES, &reading);
    if ((reading.valid & LULL_READING_PROFILES) == 0)
        return lull_error_set(err, -EAGAIN, "GPU %u: its power profiles cannot be read", gpu);
    control->enforced = reading.enforced_profiles;
    *requested_out = reading.requested_profiles;
    return 0;
}

int lull_profile_control_look(struct lull_profile_control *control, struct lull_devices *devices,
                              uint32_t gpu, struct lull_error *err)
{
    uint32_t requested = 0;
    const int result = read_profiles(control, devices, gpu, &requested, err);

    if (result < 0)
        return result;
    control->own &= requested; /* what another program has removed is not Lull's any more */
    control->to_remove = control->own & ~control->wanted;
    control->to_add = control->to_remove == 0 ? control->wanted & ~requested : 0;
    control->own |= control->to_add;
    return 0;
}

/* Returns whether a failed call may have had an effect nevertheless. */
static bool may_have_acted(int status)
{
    return status != -EPERM && status != -EINVAL && status != LULL_E_UNSUPPORTED;
}

static int change_profiles(struct lull_profile_control *control, struct lull_devices *devices,
                           uint32_t gpu, struct lull_error *err)
{
    uint32_t requested = 0;
    int result;

    if (control->to_remove != 0)
        result = lull_device_remove_profiles(devices, gpu, control->to_remove, err);
    else
        result = lull_device_add_profiles(devices, gpu, control->to_add, err);
    if (result < 0) {
        if (!may_have_acted(result))
            control->own &= ~control->to_add;
        return result;
    }
    result = read_profiles(control, devices, gpu, &requested, err);
    if (result < 0)
        return result;
    if ((requested & control->to_remove) != 0 || (control->to_add & ~requested) != 0)
        return lull_error_set(err, LULL_E_NOT_APPLIED,
                              "GPU %u: its power profiles were changed, but it reports those from "
                              "before",
                              gpu);
    control->own &= requested;
    return 0;
}

void lull_profile_control_fail(struct lull_profile_control *control, int status)
{
    const uint32_t shift = control->failures < MOST_DOUBLINGS_OF_PROFILES
                               ? control->failures
                               : MOST_DOUBLINGS_OF_PROFILES;

    control->status = status;
    control->done_sequence = control->sequence;
    control->failures++;
    control->next_ns =
        lull_now_ns() + lull_earlier_ns(profile_retry_ns << shift, profile_retry_most_ns);
    /* A client learns of the failure and may request its profiles again, but removing must
     * succeed. */
    control->has_pending = !lull_profile_control_is_restored(control);
}

void lull_profile_control_act(struct lull_profile_control *control, struct lull_devices *devices,
                              uint32_t gpu, struct lull_error *err)
{
    int status = 0;

    if (control->to_remove != 0 || control->to_add != 0)
        status = change_profiles(control, devices, gpu, err);
    if (status < 0) {
        lull_profile_control_fail(control, status);
        return;
    }
    control->status = 0;
    control->failures = 0;
    control->next_ns = lull_now_ns();
    /* Adding follows a removal, after clocks that wait. */
    control->has_pending = control->to_remove != 0 && (control->wanted & ~control->own) != 0;
    if (!control->has_pending)
        control->done_sequence = control->sequence;
}
