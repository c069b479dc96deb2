/* Replays orders without times, and finds deadlocks. SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "core/pipeline/schedule/order.h"
#include "core/pipeline/schedule/order_action.h"

enum { DONE_FORWARD = 1, DONE_GRADIENT = 2, DONE_RECOMPUTE = 4, HAS_RECOMPUTE = 8 };

struct order_replay {
    const struct lull_pipeline_order *order;
    uint8_t *cells; /* per stage and micro-batch */
    size_t *next;   /* per device: its first action that has not run yet */
};

static uint8_t *order_replay_cell_of(const struct order_replay *replay, uint32_t stage,
                                     uint32_t microbatch)
{
    assert(stage < replay->order->stages && microbatch < replay->order->microbatches);
    return &replay->cells[(size_t)stage * replay->order->microbatches + microbatch];
}

static bool can_forward(const struct order_replay *replay, uint32_t stage, uint32_t microbatch)
{
    return stage == 0 || (*order_replay_cell_of(replay, stage - 1, microbatch) & DONE_FORWARD) != 0;
}

static bool can_backward(const struct order_replay *replay, uint32_t stage, uint32_t microbatch)
{
    const uint8_t here = *order_replay_cell_of(replay, stage, microbatch);

    return (here & DONE_FORWARD) != 0 &&
           ((here & HAS_RECOMPUTE) == 0 || (here & DONE_RECOMPUTE) != 0) &&
           (stage + 1 == replay->order->stages ||
            (*order_replay_cell_of(replay, stage + 1, microbatch) & DONE_GRADIENT) != 0);
}

/* Says whether all data that an action waits for is there. */
static bool order_replay_is_ready(const struct order_replay *replay,
                                  const struct lull_pipeline_action *action)
{
    uint32_t stage;
    uint32_t microbatch;

    if (lull_pipeline_action_is_forward(action) &&
        !can_forward(replay, action->stage, action->microbatch))
        return false;
    if (lull_pipeline_action_backward(action, &stage, &microbatch) &&
        !can_backward(replay, stage, microbatch))
        return false;
    if (action->kind == LULL_PIPELINE_WEIGHT)
        return (*order_replay_cell_of(replay, action->stage, action->microbatch) & DONE_GRADIENT) !=
               0;
    if (action->kind == LULL_PIPELINE_RECOMPUTE)
        return (*order_replay_cell_of(replay, action->stage, action->microbatch) & DONE_FORWARD) !=
               0;
    return true;
}

static void order_replay_mark(const struct order_replay *replay, uint32_t stage,
                              uint32_t microbatch, uint8_t what)
{
    uint8_t *cell = order_replay_cell_of(replay, stage, microbatch);

    *cell = (uint8_t)(*cell | what);
}

/* Notes the data that an action produces. */
static void order_replay_take(const struct order_replay *replay,
                              const struct lull_pipeline_action *action)
{
    uint32_t stage;
    uint32_t microbatch;

    if (lull_pipeline_action_is_forward(action))
        order_replay_mark(replay, action->stage, action->microbatch, DONE_FORWARD);
    if (lull_pipeline_action_backward(action, &stage, &microbatch))
        order_replay_mark(replay, stage, microbatch, DONE_GRADIENT);
    if (action->kind == LULL_PIPELINE_RECOMPUTE)
        order_replay_mark(replay, action->stage, action->microbatch, DONE_RECOMPUTE);
}

/* Lets every device continue as far as it can. Returns false if none could. */
static bool order_replay_advance(struct order_replay *replay)
{
    bool has_moved = false;

    for (uint32_t d = 0; d < replay->order->devices; d++) {
        const struct lull_pipeline_row *row = &replay->order->rows[d];

        for (; replay->next[d] < row->count &&
               order_replay_is_ready(replay, &row->actions[replay->next[d]]);
             replay->next[d]++) {
            order_replay_take(replay, &row->actions[replay->next[d]]);
            has_moved = true;
        }
    }
    return has_moved;
}

/* A backward waits for a recomputation only where the order has one. */
static void note_recomputations(const struct order_replay *replay)
{
    const struct lull_pipeline_order *order = replay->order;

    for (uint32_t d = 0; d < order->devices; d++) {
        for (size_t i = 0; i < order->rows[d].count; i++) {
            const struct lull_pipeline_action *action = &order->rows[d].actions[i];

            if (action->kind == LULL_PIPELINE_RECOMPUTE)
                order_replay_mark(replay, action->stage, action->microbatch, HAS_RECOMPUTE);
        }
    }
}

static int find_stuck(const struct order_replay *replay, struct lull_pipeline_place *place_out)
{
    for (uint32_t d = 0; d < replay->order->devices; d++) {
        if (replay->next[d] == replay->order->rows[d].count)
            continue;
        *place_out = (struct lull_pipeline_place){d, replay->next[d]};
        return 1;
    }
    return 0;
}

int lull_pipeline_order_stuck(const struct lull_pipeline_order *order,
                              struct lull_pipeline_place *place_out)
{
    struct order_replay replay = {
        .order = order,
        .cells = calloc((size_t)order->stages * order->microbatches, sizeof(*replay.cells)),
        .next = calloc(order->devices, sizeof(*replay.next)),
    };
    int rc = -ENOMEM;

    if (replay.cells == NULL || replay.next == NULL)
        goto done;
    note_recomputations(&replay);
    while (order_replay_advance(&replay))
        ;
    rc = find_stuck(&replay, place_out);
done:
    free(replay.next);
    free(replay.cells);
    return rc;
}
