/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/torch_table.h"

#include <errno.h>
#include <stdlib.h>

enum done {
    DONE_FORWARD = 1 << 0,
    DONE_GRADIENT = 1 << 1,
    SENT_F = 1 << 2,
    RECEIVED_F = 1 << 3,
    SENT_B = 1 << 4,
    RECEIVED_B = 1 << 5,
};

struct torch_table_check {
    const struct lull_torch_table *table;
    struct lull_error *err;
    uint8_t *done;       /* per stage and micro-batch, so far */
    uint32_t *row_of;    /* per stage */
    uint32_t *backwards; /* per stage: whose weight gradients are done */
    bool has_transfers;
};

static int refuse(const struct torch_table_check *check, const struct lull_torch_cell *cell,
                  const char *why)
{
    const struct lull_torch_action *action = &cell->action;

    return lull_error_set(
        check->err, LULL_E_FORMAT, "%s: row %u, column %u: %s of stage %u, micro-batch %u: %s",
        check->table->name, cell->row + 1, cell->column + 1, lull_torch_type_name(action->type),
        action->stage, action->microbatch, why);
}

static uint8_t *done_of(const struct torch_table_check *check, uint32_t stage, uint32_t microbatch)
{
    return &check->done[(size_t)stage * check->table->microbatches + microbatch];
}

static void mark(const struct torch_table_check *check, uint32_t stage, uint32_t microbatch,
                 enum done what)
{
    uint8_t *done = done_of(check, stage, microbatch);

    *done = (uint8_t)(*done | what);
}

/* Do the two stages lie on two ranks, with transfers in the table? */
static bool is_transfer(const struct torch_table_check *check, uint32_t from, uint32_t to)
{
    return check->has_transfers && check->row_of[from] != check->row_of[to];
}

/* ---- what computes ---- */

static int take_forward(struct torch_table_check *check, const struct lull_torch_cell *cell)
{
    const uint32_t s = cell->action.stage;
    const uint32_t m = cell->action.microbatch;

    if (s > 0 && is_transfer(check, s - 1, s) && (*done_of(check, s, m) & RECEIVED_F) == 0)
        return refuse(check, cell, "no RECV_F ahead of it");
    mark(check, s, m, DONE_FORWARD);
    return 0;
}

static int take_gradient(struct torch_table_check *check, const struct lull_torch_cell *cell,
                         uint32_t s, uint32_t m)
{
    if (s + 1 < check->table->stages && is_transfer(check, s, s + 1) &&
        (*done_of(check, s, m) & RECEIVED_B) == 0)
        return refuse(check, cell, "no RECV_B ahead of its backward");
    mark(check, s, m, DONE_GRADIENT);
    return 0;
}

static int take_compute(struct torch_table_check *check, const struct lull_torch_cell *cell)
{
    const struct lull_torch_action *action = &cell->action;
    int rc;

    switch (action->type) {
    case LULL_TORCH_F:
        return take_forward(check, cell);
    case LULL_TORCH_OVERLAP:
        rc = take_forward(check, cell);
        check->backwards[action->partner_stage]++;
        return rc < 0
                   ? rc
                   : take_gradient(check, cell, action->partner_stage, action->partner_microbatch);
    case LULL_TORCH_B:
        check->backwards[action->stage]++;
        return take_gradient(check, cell, action->stage, action->microbatch);
    case LULL_TORCH_I:
        return take_gradient(check, cell, action->stage, action->microbatch);
    default:
        check->backwards[action->stage]++;
        return 0;
    }
}

/* ---- what communicates ---- */

static int take_send(struct torch_table_check *check, const struct lull_torch_cell *cell,
                     enum done needed, enum done sent)
{
    const struct lull_torch_action *action = &cell->action;
    const uint8_t done = *done_of(check, action->stage, action->microbatch);

    if ((done & needed) == 0)
        return refuse(check, cell, "it comes ahead of what it sends");
    if ((done & sent) != 0)
        return refuse(check, cell, "sent twice");
    mark(check, action->stage, action->microbatch, sent);
    return 0;
}

static int take_receive(struct torch_table_check *check, const struct lull_torch_cell *cell,
                        enum done received)
{
    const struct lull_torch_action *action = &cell->action;

    if ((*done_of(check, action->stage, action->microbatch) & received) != 0)
        return refuse(check, cell, "received twice");
    mark(check, action->stage, action->microbatch, received);
    return 0;
}

static int take_comm(struct torch_table_check *check, const struct lull_torch_cell *cell)
{
    const struct lull_torch_action *action = &cell->action;

    if (action->stage >= check->table->stages || action->microbatch >= check->table->microbatches)
        return refuse(check, cell, "nothing computes that");
    if (check->row_of[action->stage] != cell->row)
        return refuse(check, cell, "its stage is on another rank");
    switch (action->type) {
    case LULL_TORCH_SEND_F:
        return take_send(check, cell, DONE_FORWARD, SENT_F);
    case LULL_TORCH_SEND_B:
        return take_send(check, cell, DONE_GRADIENT, SENT_B);
    case LULL_TORCH_RECV_F:
        return take_receive(check, cell, RECEIVED_F);
    case LULL_TORCH_RECV_B:
        return take_receive(check, cell, RECEIVED_B);
    case LULL_TORCH_REDUCE_GRAD:
        if (check->backwards[action->stage] < check->table->microbatches)
            return refuse(check, cell, "backwards of the stage come behind it");
        return 0;
    default:
        return 0;
    }
}

/* The other end of a transfer, which may stand in any row. */
static int check_partner(const struct torch_table_check *check, const struct lull_torch_cell *cell)
{
    const uint32_t s = cell->action.stage;
    const uint32_t m = cell->action.microbatch;
    const bool has_next = s + 1 < check->table->stages;

    switch (cell->action.type) {
    case LULL_TORCH_SEND_F:
        if (!has_next || (*done_of(check, s + 1, m) & RECEIVED_F) == 0)
            return refuse(check, cell, "nobody receives it");
        return 0;
    case LULL_TORCH_SEND_B:
        if (s == 0 || (*done_of(check, s - 1, m) & RECEIVED_B) == 0)
            return refuse(check, cell, "nobody receives it");
        return 0;
    case LULL_TORCH_RECV_F:
        if (s == 0 || (*done_of(check, s - 1, m) & SENT_F) == 0)
            return refuse(check, cell, "nobody sends it");
        return 0;
    case LULL_TORCH_RECV_B:
        if (!has_next || (*done_of(check, s + 1, m) & SENT_B) == 0)
            return refuse(check, cell, "nobody sends it");
        return 0;
    default:
        return 0;
    }
}

/* ---- the whole ---- */

static void survey(struct torch_table_check *check)
{
    for (size_t i = 0; i < check->table->count; i++) {
        const struct lull_torch_cell *cell = &check->table->cells[i];

        if (lull_torch_computes(cell->action.type))
            check->row_of[cell->action.stage] = cell->row;
        check->has_transfers |=
            cell->action.type >= LULL_TORCH_SEND_F && cell->action.type <= LULL_TORCH_RECV_B;
    }
}

static int check_cells(struct torch_table_check *check)
{
    survey(check);
    for (size_t i = 0; i < check->table->count; i++) {
        const struct lull_torch_cell *cell = &check->table->cells[i];
        const int rc = lull_torch_computes(cell->action.type) ? take_compute(check, cell)
                                                              : take_comm(check, cell);

        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < check->table->count; i++) {
        const int rc = check_partner(check, &check->table->cells[i]);

        if (rc < 0)
            return rc;
    }
    return 0;
}

int lull_torch_table_check(const struct lull_torch_table *table, struct lull_error *err)
{
    struct torch_table_check check = {
        .table = table,
        .err = err,
        .done = calloc((size_t)table->stages * table->microbatches, sizeof(*check.done)),
        .row_of = calloc(table->stages, sizeof(*check.row_of)),
        .backwards = calloc(table->stages, sizeof(*check.backwards)),
    };
    int rc;

    if (check.done == NULL || check.row_of == NULL || check.backwards == NULL)
        rc = lull_error_set(err, -ENOMEM, "%s: no memory", table->name);
    else
        rc = check_cells(&check);
    free(check.backwards);
    free(check.row_of);
    free(check.done);
    return rc;
}
