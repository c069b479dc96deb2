/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/schedule/order.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/minmax.h"
#include "core/pipeline/schedule/order_action.h"

int lull_pipeline_order_init(struct lull_pipeline_order *order, uint32_t devices,
                             struct lull_error *err)
{
    if (devices == 0 || devices > LULL_PIPELINE_MAX_STAGES)
        return lull_error_set(err, -EINVAL, "%u devices: 1 to %d are possible", devices,
                              LULL_PIPELINE_MAX_STAGES);
    *order = (struct lull_pipeline_order){.devices = devices};
    order->rows = calloc(devices, sizeof(*order->rows));
    if (order->rows == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for a schedule");
    return 0;
}

void lull_pipeline_order_fini(struct lull_pipeline_order *order)
{
    if (order == NULL)
        return;
    for (uint32_t d = 0; order->rows != NULL && d < order->devices; d++)
        free(order->rows[d].actions);
    free(order->rows);
    *order = (struct lull_pipeline_order){.devices = 0};
}

int lull_pipeline_order_add(struct lull_pipeline_order *order, uint32_t device,
                            const struct lull_pipeline_action *action)
{
    struct lull_pipeline_row *row = &order->rows[device];

    assert(device < order->devices);
    if (row->count == LULL_PIPELINE_MAX_ACTIONS)
        return -E2BIG;
    if (lull_array_grow(&row->actions, row->count, sizeof(*row->actions)) < 0)
        return -ENOMEM;
    row->actions[row->count++] = *action;
    return 0;
}

bool lull_pipeline_action_is_forward(const struct lull_pipeline_action *action)
{
    return action->kind == LULL_PIPELINE_FORWARD || action->kind == LULL_PIPELINE_OVERLAP;
}

bool lull_pipeline_action_backward(const struct lull_pipeline_action *action, uint32_t *stage_out,
                                   uint32_t *microbatch_out)
{
    const bool is_overlap = action->kind == LULL_PIPELINE_OVERLAP;

    if (!is_overlap && action->kind != LULL_PIPELINE_BACKWARD &&
        action->kind != LULL_PIPELINE_INPUT)
        return false;
    *stage_out = is_overlap ? action->partner_stage : action->stage;
    *microbatch_out = is_overlap ? action->partner_microbatch : action->microbatch;
    return true;
}

/* ---- every micro-batch passes every stage once ---- */

enum seen {
    SEEN_FORWARD = 1,
    SEEN_GRADIENT = 2, /* the gradient of the input */
    SEEN_WEIGHT = 4,
    SEEN_RECOMPUTE = 8,
    SEEN_ALL = SEEN_FORWARD | SEEN_GRADIENT | SEEN_WEIGHT,
};

struct order_check {
    const struct lull_pipeline_order *order;
    uint8_t *seen;                    /* per stage and micro-batch */
    uint32_t *device_of;              /* per stage; the number of devices: none yet */
    struct lull_pipeline_place place; /* the place at hand */
    struct lull_error *err;
};

static const char *const seen_names[] = {[SEEN_FORWARD] = "the forward",
                                         [SEEN_GRADIENT] = "the backward",
                                         [SEEN_WEIGHT] = "the weight gradient",
                                         [SEEN_RECOMPUTE] = "the recomputation"};

/* Notes one part of an action. */
static int order_note(struct order_check *check, uint32_t device, uint32_t stage,
                      uint32_t microbatch, enum seen what)
{
    const struct lull_pipeline_order *order = check->order;
    uint8_t *seen;

    if (stage >= order->stages || microbatch >= order->microbatches)
        return lull_error_set(check->err, -EINVAL,
                              "device %u: stage %u, micro-batch %u: there are %u stages and %u "
                              "micro-batches",
                              device, stage, microbatch, order->stages, order->microbatches);
    if (check->device_of[stage] == order->devices)
        check->device_of[stage] = device;
    if (check->device_of[stage] != device)
        return lull_error_set(check->err, -EINVAL, "stage %u is on device %u and on device %u",
                              stage, check->device_of[stage], device);
    seen = &check->seen[(size_t)stage * order->microbatches + microbatch];
    if ((*seen & what) != 0)
        return lull_error_set(check->err, -EINVAL,
                              "device %u: %s of stage %u, micro-batch %u comes twice", device,
                              seen_names[what], stage, microbatch);
    *seen = (uint8_t)(*seen | what);
    return 0;
}

/* A backward computes both gradients, so it counts as two parts; an overlap is a forward and such a
 * backward. */
static int note_action(struct order_check *check, uint32_t device,
                       const struct lull_pipeline_action *action)
{
    const uint32_t s = action->stage;
    const uint32_t m = action->microbatch;
    int rc;

    switch (action->kind) {
    case LULL_PIPELINE_FORWARD:
        return order_note(check, device, s, m, SEEN_FORWARD);
    case LULL_PIPELINE_INPUT:
        return order_note(check, device, s, m, SEEN_GRADIENT);
    case LULL_PIPELINE_WEIGHT:
        return order_note(check, device, s, m, SEEN_WEIGHT);
    case LULL_PIPELINE_RECOMPUTE:
        return order_note(check, device, s, m, SEEN_RECOMPUTE);
    case LULL_PIPELINE_BACKWARD:
        rc = order_note(check, device, s, m, SEEN_GRADIENT);
        if (rc < 0)
            return rc;
        return order_note(check, device, s, m, SEEN_WEIGHT);
    case LULL_PIPELINE_OVERLAP:
        rc = order_note(check, device, s, m, SEEN_FORWARD);
        if (rc < 0)
            return rc;
        rc = order_note(check, device, action->partner_stage, action->partner_microbatch,
                        SEEN_GRADIENT);
        if (rc < 0)
            return rc;
        return order_note(check, device, action->partner_stage, action->partner_microbatch,
                          SEEN_WEIGHT);
    default:
        return lull_error_set(check->err, -EINVAL, "device %u: an order has no fixed actions",
                              device);
    }
}

/* Every stage must do every micro-batch's forward and both gradients; a recomputation is optional.
 * */
static int find_missing(struct order_check *check)
{
    const struct lull_pipeline_order *order = check->order;
    const size_t cells = (size_t)order->stages * order->microbatches;

    for (size_t i = 0; i < cells; i++) {
        const unsigned missing = SEEN_ALL & ~(unsigned)check->seen[i];
        const enum seen first = (enum seen)(missing & -missing);
        const size_t stage = i / order->microbatches;
        const uint32_t device = check->device_of[stage];

        if (missing == 0)
            continue;
        check->place.device = device;
        check->place.index = device < order->devices ? order->rows[device].count : 0;
        return lull_error_set(check->err, -EINVAL, "%s of stage %zu, micro-batch %zu is missing",
                              seen_names[first], stage, i % order->microbatches);
    }
    return 0;
}

/* The current place is kept up to date, so that every error is reported with its place. */
static int check_all(struct order_check *check)
{
    const struct lull_pipeline_order *order = check->order;

    for (uint32_t s = 0; s < order->stages; s++)
        check->device_of[s] = order->devices;
    for (uint32_t d = 0; d < order->devices; d++) {
        for (size_t i = 0; i < order->rows[d].count; i++) {
            check->place = (struct lull_pipeline_place){d, i};
            const int rc = note_action(check, d, &order->rows[d].actions[i]);

            if (rc < 0)
                return rc;
        }
    }
    return find_missing(check);
}

size_t lull_pipeline_order_actions(const struct lull_pipeline_order *order)
{
    size_t actions = 0;

    for (uint32_t d = 0; d < order->devices; d++)
        actions += order->rows[d].count;
    return actions;
}

/* Checks sizes before the table is allocated, since a few large numbers in a file decide its size.
 */
static int check_size(const struct lull_pipeline_order *order, struct lull_error *err)
{
    const size_t actions = lull_pipeline_order_actions(order);

    if (order->stages == 0 || order->microbatches == 0)
        return lull_error_set(err, -EINVAL, "no stages or no micro-batches");
    if (order->stages > LULL_PIPELINE_MAX_STAGES ||
        order->microbatches > LULL_PIPELINE_MAX_MICROBATCHES || actions > LULL_PIPELINE_MAX_ACTIONS)
        return lull_error_set(err, -EINVAL,
                              "%u stages, %u micro-batches, %zu actions: at most %d, %d, %d",
                              order->stages, order->microbatches, actions, LULL_PIPELINE_MAX_STAGES,
                              LULL_PIPELINE_MAX_MICROBATCHES, LULL_PIPELINE_MAX_ACTIONS);
    if ((size_t)order->stages * order->microbatches > actions)
        return lull_error_set(err, -EINVAL,
                              "%zu actions cannot be a forward and a backward of each of %u stages "
                              "and %u micro-batches; some are missing",
                              actions, order->stages, order->microbatches);
    return 0;
}

int lull_pipeline_order_check(const struct lull_pipeline_order *order,
                              struct lull_pipeline_place *place_out, struct lull_error *err)
{
    struct order_check check = {.order = order, .place = {order->devices, 0}, .err = err};
    int rc = check_size(order, err);

    if (rc < 0)
        goto done;
    /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): check_size() refuses 0. */
    check.seen = calloc((size_t)order->stages * order->microbatches, sizeof(*check.seen));
    check.device_of = calloc(order->stages, sizeof(*check.device_of));
    if (check.seen == NULL || check.device_of == NULL)
        rc = lull_error_set(err, -ENOMEM, "no memory for a schedule");
    else
        rc = check_all(&check);
done:
    free(check.device_of);
    free(check.seen);
    if (rc < 0 && place_out != NULL)
        *place_out = check.place;
    return rc;
}

/* A micro-batch is counted from its forward to its weight gradient, which needs the activations
 * last. */
uint32_t lull_pipeline_order_in_flight(const struct lull_pipeline_order *order, uint32_t device)
{
    const struct lull_pipeline_row *row = &order->rows[device];
    uint32_t held = 0;
    uint32_t most = 0;

    for (size_t i = 0; i < row->count; i++) {
        const enum lull_pipeline_kind kind = row->actions[i].kind;

        held += lull_pipeline_action_is_forward(&row->actions[i]);
        most = lull_max_u32(held, most);
        held -= held > 0 && (kind == LULL_PIPELINE_BACKWARD || kind == LULL_PIPELINE_WEIGHT ||
                             kind == LULL_PIPELINE_OVERLAP);
    }
    return most;
}
