/* SPDX-License-Identifier: Apache-2.0 */
#include "device/smoothing_control.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

/* Default pauses after failures. */
static const int64_t smoothing_retry_ns = 20 * LULL_NS_PER_MS;
static const int64_t smoothing_retry_most_ns = LULL_NS_PER_S;

enum { MOST_DOUBLINGS_OF_SMOOTHING = 6, NO_ITEM = -1 };

void lull_smoothing_control_begin(struct lull_smoothing_control *control, bool is_allowed)
{
    struct lull_smoothing_control fresh = {.is_allowed = is_allowed,
                                           .is_own = control->is_own,
                                           .has_pending = control->is_own,
                                           .item = NO_ITEM,
                                           .next_ns = control->next_ns};

    memcpy(fresh.before, control->before, sizeof(fresh.before));
    memcpy(fresh.written, control->written, sizeof(fresh.written));
    *control = fresh;
}

void lull_smoothing_control_undo(struct lull_smoothing_control *control, int64_t now_ns)
{
    if (control->wanted.floor_percent != 0)
        control->status = LULL_E_STALE;
    control->wanted = (struct lull_smoothing){0};
    control->has_pending = control->is_own;
    control->item = NO_ITEM;
    control->failures = 0; /* those of the lease do not count towards the report of its end */
    control->next_ns = now_ns;
}

void lull_smoothing_control_inherit(struct lull_smoothing_control *control,
                                    const uint32_t before[LULL_SMOOTHING_ITEMS],
                                    const uint32_t written[LULL_SMOOTHING_ITEMS])
{
    if (control->is_own)
        return;
    control->is_own = control->has_pending = true;
    control->item = NO_ITEM;
    memcpy(control->before, before, sizeof(control->before));
    memcpy(control->written, written, sizeof(control->written));
}

static void finish_request(struct lull_smoothing_control *control, int status)
{
    control->done_sequence = control->sequence;
    control->status = status;
}

int lull_smoothing_control_take(struct lull_smoothing_control *control,
                                const struct lull_limit_request *request)
{
    const struct lull_smoothing *wanted = &request->smoothing;

    control->sequence = request->sequence;
    if (wanted->floor_percent != 0 && !control->is_allowed) {
        finish_request(control, -EACCES);
        return -EACCES;
    }
    if (memcmp(wanted, &control->wanted, sizeof(*wanted)) == 0 && !control->has_pending) {
        control->done_sequence = request->sequence;
        return 0;
    }
    control->wanted = *wanted;
    control->has_pending = true;
    return 0;
}

int64_t lull_smoothing_control_due_ns(const struct lull_smoothing_control *control)
{
    return control->has_pending ? control->next_ns : INT64_MAX;
}

/* The settings that a request leads to. */
static void set_goal(const struct lull_smoothing *wanted, uint32_t preset,
                     uint32_t goal_out[LULL_SMOOTHING_ITEMS])
{
    goal_out[LULL_SMOOTHING_FLOOR] = wanted->floor_percent;
    goal_out[LULL_SMOOTHING_RAMP_UP] = wanted->ramp_up_w * 1000;
    goal_out[LULL_SMOOTHING_RAMP_DOWN] = wanted->ramp_down_w * 1000;
    goal_out[LULL_SMOOTHING_HYSTERESIS] = wanted->hysteresis_ms;
    goal_out[LULL_SMOOTHING_ACTIVE] = preset;
    goal_out[LULL_SMOOTHING_STATE] = 1;
}

/* Returns whether every setting is the one before or Lull's. */
static bool is_of_lull(const struct lull_smoothing_control *control, const uint32_t *items)
{
    for (int i = 0; i < LULL_SMOOTHING_ITEMS; i++)
        if (items[i] != control->before[i] && items[i] != control->written[i])
            return false;
    return true;
}

/* Returns the first setting that differs from the goal, from this one on; NO_ITEM: none does. */
static int find_difference(const uint32_t *items, const uint32_t *goal, int first)
{
    for (int i = 0; i < LULL_SMOOTHING_ITEMS; i++) {
        const int item = (first + i) % LULL_SMOOTHING_ITEMS;

        if (items[item] != goal[item])
            return item;
    }
    return NO_ITEM;
}

/* Chooses the next change towards the goal. The same change again means that it had no effect. */
static int choose_change(struct lull_smoothing_control *control, const uint32_t *items,
                         const uint32_t *goal, int first, uint32_t gpu, struct lull_error *err)
{
    const int item = find_difference(items, goal, first);
    const bool is_repeated =
        item != NO_ITEM && item == control->item && goal[item] == control->value;

    control->item = item;
    control->value = item == NO_ITEM ? 0 : goal[item];
    if (!is_repeated)
        return 0;
    control->item = NO_ITEM;
    return lull_error_set(err, LULL_E_NOT_APPLIED,
                          "GPU %u: power smoothing was set, but it reports the setting from before",
                          gpu);
}

/* Takes possession of the settings of a GPU on which smoothing is off. */
static int take_settings(struct lull_smoothing_control *control,
                         const struct lull_smoothing_settings *now, const uint32_t *goal,
                         uint32_t gpu, struct lull_error *err)
{
    if (now->items[LULL_SMOOTHING_STATE] != 0 || now->is_overridden)
        return lull_error_set(err, -EBUSY,
                              "GPU %u: another program or an administrator uses power smoothing; "
                              "see nvidia-smi power-smoothing",
                              gpu);
    memcpy(control->before, now->items, sizeof(control->before));
    memcpy(control->written, goal, sizeof(control->written));
    control->is_own = true;
    return 0;
}

int lull_smoothing_control_look(struct lull_smoothing_control *control,
                                struct lull_devices *devices, uint32_t gpu, struct lull_error *err)
{
    struct lull_smoothing_settings now = {0};
    uint32_t goal[LULL_SMOOTHING_ITEMS];
    int result = lull_device_read_smoothing(devices, gpu, &now, err);

    if (result < 0)
        return result;
    control->floor_w = now.floor_w;
    if (control->is_own && !is_of_lull(control, now.items))
        control->is_own = false; /* another program has changed them, so they are its own */
    set_goal(&control->wanted, lull_device_info(devices, gpu)->smoothing_preset, goal);
    if (control->wanted.floor_percent != 0 && !control->is_own)
        result = take_settings(control, &now, goal, gpu, err);
    if (result < 0)
        return result;
    if (!control->is_own) {
        control->item = NO_ITEM;
        return 0;
    }
    if (control->wanted.floor_percent != 0 && memcmp(goal, control->written, sizeof(goal)) == 0)
        return choose_change(control, now.items, goal, LULL_SMOOTHING_FLOOR, gpu, err);
    result = choose_change(control, now.items, control->before, LULL_SMOOTHING_STATE, gpu, err);
    control->is_own = result < 0 || control->item != NO_ITEM;
    return result;
}

int lull_smoothing_control_act(struct lull_smoothing_control *control, struct lull_devices *devices,
                               uint32_t gpu, struct lull_error *err)
{
    const bool is_wanted = control->wanted.floor_percent != 0;

    control->next_ns = lull_now_ns();
    if (control->item != NO_ITEM)
        return lull_device_set_smoothing(devices, gpu, (enum lull_smoothing_item)control->item,
                                         control->value, err);
    control->failures = 0;
    /* Another floor follows after the old one was undone. */
    control->has_pending = is_wanted && !control->is_own;
    if (!control->has_pending && control->done_sequence != control->sequence)
        finish_request(control, 0);
    return 0;
}

void lull_smoothing_control_fail(struct lull_smoothing_control *control, int status)
{
    const uint32_t shift = control->failures < MOST_DOUBLINGS_OF_SMOOTHING
                               ? control->failures
                               : MOST_DOUBLINGS_OF_SMOOTHING;

    if (control->wanted.floor_percent != 0 || control->done_sequence != control->sequence)
        finish_request(control, status);
    control->wanted = (struct lull_smoothing){0};
    control->item = NO_ITEM;
    control->failures++;
    control->next_ns =
        lull_now_ns() + lull_earlier_ns(smoothing_retry_ns << shift, smoothing_retry_most_ns);
    control->has_pending = control->is_own;
}
