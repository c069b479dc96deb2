/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/torch_schedule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "trace/array.h"
#include "trace/lines.h"

/* ---- actions ---- */

enum torch_type {
    TORCH_F,
    TORCH_B,
    TORCH_I,
    TORCH_W,
    TORCH_OVERLAP,
    TORCH_SEND_F,
    TORCH_RECV_F,
    TORCH_SEND_B,
    TORCH_RECV_B,
    TORCH_WAIT_SEND_F,
    TORCH_WAIT_SEND_B,
    TORCH_UNSHARD,
    TORCH_RESHARD,
    TORCH_REDUCE_GRAD,
    TORCH_WAIT_REDUCE_GRAD,
    TORCH_TYPES
};

struct torch_action {
    enum torch_type type;
    uint32_t stage;
    uint32_t microbatch;
    uint32_t partner_stage; /* an overlap's backward */
    uint32_t partner_microbatch;
};

/* Returns whether an action computes; all others communicate, or wait for that. */
static bool torch_schedule_is_compute(enum torch_type type)
{
    return type <= TORCH_OVERLAP;
}

/* In the order of the types. */
static const char *const names[TORCH_TYPES] = {
    "F",           "B",       "I",       "W",           "OVERLAP_F_B",
    "SEND_F",      "RECV_F",  "SEND_B",  "RECV_B",      "WAIT_SEND_F",
    "WAIT_SEND_B", "UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};

/* Parses the word at *at, which digits or nothing follow, and moves *at behind it. */
static int torch_schedule_parse_type(const char **at, enum torch_type *type_out)
{
    const size_t length = strcspn(*at, "0123456789");

    for (int i = 0; i < TORCH_TYPES; i++) {
        if (strlen(names[i]) == length && strncmp(*at, names[i], length) == 0) {
            *type_out = (enum torch_type)i;
            *at += length;
            return 0;
        }
    }
    return -EINVAL;
}

static bool is_of_stage(enum torch_type type)
{
    return type >= TORCH_UNSHARD;
}

static int parse_single(const char *at, struct torch_action *action_out)
{
    struct torch_action action = {0};
    int rc = lull_text_take_digits(&at, LULL_PIPELINE_MAX_STAGES, &action.stage);

    if (rc < 0)
        return rc;
    rc = torch_schedule_parse_type(&at, &action.type);
    if (rc < 0 || action.type == TORCH_OVERLAP)
        return -EINVAL;
    if (*at != '\0' || !is_of_stage(action.type))
        rc = lull_text_take_digits(&at, LULL_PIPELINE_MAX_MICROBATCHES, &action.microbatch);
    if (rc < 0)
        return rc;
    if (*at != '\0')
        return -EINVAL;
    *action_out = action;
    return 0;
}

/* Parses "0F5;7B2" in either order; end is where the second ends. */
static int parse_overlap(char *text, char *end, struct torch_action *action_out)
{
    char *const middle = strchr(text, ';');
    struct torch_action first, second;
    int rc;

    if (middle == NULL || middle > end)
        return -EINVAL;
    *middle = '\0';
    *end = '\0';
    rc = parse_single(text, &first);
    if (rc >= 0)
        rc = parse_single(middle + 1, &second);
    *middle = ';';
    *end = ')';
    if (rc < 0)
        return rc;
    if (first.type == TORCH_B) {
        const struct torch_action swapped = first;

        first = second;
        second = swapped;
    }
    if (first.type != TORCH_F || second.type != TORCH_B)
        return -EINVAL;
    *action_out = (struct torch_action){TORCH_OVERLAP, first.stage, first.microbatch, second.stage,
                                        second.microbatch};
    return 0;
}

/* Reads "2F0", "3SEND_F1", "1UNSHARD", "(0F5;7B2)OVERLAP_F_B". -EINVAL: it is no action; -ERANGE: a
 * stage or micro-batch beyond the limits of core/pipeline. Writes into text. */
static int parse_action(char *text, struct torch_action *action_out)
{
    char *end;

    if (text[0] != '(')
        return parse_single(text, action_out);
    end = strchr(text, ')');
    if (end == NULL || strcmp(end + 1, names[TORCH_OVERLAP]) != 0)
        return -EINVAL;
    return parse_overlap(text + 1, end, action_out);
}

struct torch_cell {
    struct torch_action action;
    uint32_t row;    /* from 0 */
    uint32_t column; /* from 0 */
};

struct torch_table {
    const char *name; /* the path, for messages */
    struct torch_cell *cells;
    size_t count;
    uint32_t rows;
    uint32_t stages;       /* of the actions that compute */
    uint32_t microbatches; /* of these, too */
};

/* ---- cells ---- */

static void torch_schedule_cover(uint32_t *count, uint32_t index)
{
    if (index >= *count)
        *count = index + 1;
}

/* Compute actions determine the size of the pipeline. Transfers may name stages that no rank
 * computes; this is detected later. */
static int add_cell(struct torch_table *table, char *text, uint32_t column, struct lull_error *err)
{
    enum { MAX = 4 * LULL_PIPELINE_MAX_ACTIONS }; /* with sends and receives */
    struct torch_cell cell = {.row = table->rows, .column = column};
    const int rc = parse_action(text, &cell.action);

    if (rc == -ERANGE)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: row %u, column %u: '%.40s': stages are below %d, micro-batches "
                              "below %d",
                              table->name, cell.row + 1, column + 1, text, LULL_PIPELINE_MAX_STAGES,
                              LULL_PIPELINE_MAX_MICROBATCHES);
    if (rc < 0)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: row %u, column %u: '%.40s' is not an action; known: 2F0, 1B3, "
                              "0I2, 0W2, (0F5;7B2)OVERLAP_F_B, 3SEND_F1, 1UNSHARD and similar",
                              table->name, cell.row + 1, column + 1, text);
    if (torch_schedule_is_compute(cell.action.type)) {
        torch_schedule_cover(&table->stages, cell.action.stage);
        torch_schedule_cover(&table->stages, cell.action.partner_stage);
        torch_schedule_cover(&table->microbatches, cell.action.microbatch);
        torch_schedule_cover(&table->microbatches, cell.action.partner_microbatch);
    }
    if (table->count == MAX)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: row %u, column %u: there are more than %d actions", table->name,
                              cell.row + 1, column + 1, MAX);
    return lull_trace_append(&table->cells, &table->count, &cell, sizeof(cell), table->name, err);
}

static int torch_schedule_add_row(struct torch_table *table, char *rest, struct lull_error *err)
{
    const size_t before = table->count;

    if (table->rows == LULL_PIPELINE_MAX_STAGES)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: there are more than %d rows, one for each rank", table->name,
                              LULL_PIPELINE_MAX_STAGES);
    for (uint32_t column = 0; rest != NULL; column++) {
        char *const text = lull_lines_cell(&rest);
        int rc = 0;

        if (text[0] != '\0')
            rc = add_cell(table, text, column, err);
        if (rc < 0)
            return rc;
    }
    table->rows++;
    if (table->count == before)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: row %u: there are no actions; every rank has some", table->name,
                              table->rows);
    return 0;
}

/* A blank line at the end is harmless, but one between rows would shift the ranks after it. */
static int torch_schedule_read_table(struct lull_lines *lines, struct torch_table *table,
                                     struct lull_error *err)
{
    char *text;
    size_t blank = 0; /* the first blank row, from 1 */
    int rc;

    while ((rc = lull_lines_next(lines, &text, err)) > 0) {
        if (text[0] == '\0') {
            if (blank == 0)
                blank = lull_lines_number(lines);
            continue;
        }
        if (blank != 0)
            return lull_error_set(err, LULL_E_FORMAT, "%s: row %zu is blank, but other rows follow",
                                  table->name, blank);
        rc = torch_schedule_add_row(table, text, err);
        if (rc < 0)
            return rc;
    }
    if (rc == 0 && table->rows == 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: the file is empty", table->name);
    return rc;
}

/* ---- transfers ---- */

enum torch_done {
    DONE_FORWARD = 1 << 0,
    DONE_GRADIENT = 1 << 1,
    SENT_F = 1 << 2,
    RECEIVED_F = 1 << 3,
    SENT_B = 1 << 4,
    RECEIVED_B = 1 << 5,
};

struct torch_check {
    const struct torch_table *table;
    struct lull_error *err;
    uint8_t *done;       /* per stage and micro-batch, so far */
    uint32_t *row_of;    /* per stage */
    uint32_t *backwards; /* per stage: whose weight gradients are done */
    bool has_transfers;
};

static int torch_schedule_refuse(const struct torch_check *check, const struct torch_cell *cell,
                                 const char *why)
{
    const struct torch_action *action = &cell->action;

    return lull_error_set(check->err, LULL_E_FORMAT,
                          "%s: row %u, column %u: %s of stage %u, micro-batch %u: %s",
                          check->table->name, cell->row + 1, cell->column + 1, names[action->type],
                          action->stage, action->microbatch, why);
}

static uint8_t *torch_schedule_done_of(const struct torch_check *check, uint32_t stage,
                                       uint32_t microbatch)
{
    return &check->done[(size_t)stage * check->table->microbatches + microbatch];
}

static void torch_schedule_mark(const struct torch_check *check, uint32_t stage,
                                uint32_t microbatch, enum torch_done what)
{
    uint8_t *done = torch_schedule_done_of(check, stage, microbatch);

    *done = (uint8_t)(*done | what);
}

/* Returns whether the two stages lie on two ranks, in a table that has transfers. */
static bool is_transfer(const struct torch_check *check, uint32_t from, uint32_t to)
{
    return check->has_transfers && check->row_of[from] != check->row_of[to];
}

static int take_forward(struct torch_check *check, const struct torch_cell *cell)
{
    const uint32_t s = cell->action.stage;
    const uint32_t m = cell->action.microbatch;

    if (s > 0 && is_transfer(check, s - 1, s) &&
        (*torch_schedule_done_of(check, s, m) & RECEIVED_F) == 0)
        return torch_schedule_refuse(check, cell, "no RECV_F ahead of it");
    torch_schedule_mark(check, s, m, DONE_FORWARD);
    return 0;
}

static int take_gradient(struct torch_check *check, const struct torch_cell *cell, uint32_t s,
                         uint32_t m)
{
    if (s + 1 < check->table->stages && is_transfer(check, s, s + 1) &&
        (*torch_schedule_done_of(check, s, m) & RECEIVED_B) == 0)
        return torch_schedule_refuse(check, cell, "no RECV_B ahead of its backward");
    torch_schedule_mark(check, s, m, DONE_GRADIENT);
    return 0;
}

static int torch_schedule_take_compute(struct torch_check *check, const struct torch_cell *cell)
{
    const struct torch_action *action = &cell->action;
    int rc;

    switch (action->type) {
    case TORCH_F:
        return take_forward(check, cell);
    case TORCH_OVERLAP:
        rc = take_forward(check, cell);
        check->backwards[action->partner_stage]++;
        return rc < 0
                   ? rc
                   : take_gradient(check, cell, action->partner_stage, action->partner_microbatch);
    case TORCH_B:
        check->backwards[action->stage]++;
        return take_gradient(check, cell, action->stage, action->microbatch);
    case TORCH_I:
        return take_gradient(check, cell, action->stage, action->microbatch);
    default:
        check->backwards[action->stage]++;
        return 0;
    }
}

/* The transfers of a table. */
static const struct transfer {
    enum torch_done done;   /* effect of the action */
    enum torch_done needed; /* the action that must come before it; 0: none */
    enum torch_done other;  /* the action at the other end */
    bool is_to_next;        /* the other end is the next stage; else the one before */
    const char *twice;      /* the error if it is done twice */
    const char *missing;    /* the error if the other end lacks its action */
} transfers[TORCH_TYPES] = {
    [TORCH_SEND_F] = {SENT_F, DONE_FORWARD, RECEIVED_F, true, "sent twice", "no stage receives it"},
    [TORCH_RECV_F] = {RECEIVED_F, 0, SENT_F, false, "received twice", "no stage sends it"},
    [TORCH_SEND_B] = {SENT_B, DONE_GRADIENT, RECEIVED_B, false, "sent twice",
                      "no stage receives it"},
    [TORCH_RECV_B] = {RECEIVED_B, 0, SENT_B, true, "received twice", "no stage sends it"},
};

/* Follows one action that communicates, in the order of its row. */
static int take_comm(struct torch_check *check, const struct torch_cell *cell)
{
    const struct torch_action *action = &cell->action;
    const struct transfer *transfer = &transfers[action->type];
    uint8_t done;

    if (action->stage >= check->table->stages || action->microbatch >= check->table->microbatches)
        return torch_schedule_refuse(check, cell, "nothing computes that");
    if (check->row_of[action->stage] != cell->row)
        return torch_schedule_refuse(check, cell, "its stage is on another rank");
    if (action->type == TORCH_REDUCE_GRAD &&
        check->backwards[action->stage] < check->table->microbatches)
        return torch_schedule_refuse(check, cell, "backwards of the stage come after it");
    if (transfer->done == 0)
        return 0;
    done = *torch_schedule_done_of(check, action->stage, action->microbatch);
    if (transfer->needed != 0 && (done & transfer->needed) == 0)
        return torch_schedule_refuse(check, cell, "it comes before what it sends");
    if ((done & transfer->done) != 0)
        return torch_schedule_refuse(check, cell, transfer->twice);
    torch_schedule_mark(check, action->stage, action->microbatch, transfer->done);
    return 0;
}

/* Checks the other end of a transfer, which may stand in any row. */
static int check_partner(const struct torch_check *check, const struct torch_cell *cell)
{
    const struct transfer *transfer = &transfers[cell->action.type];
    const uint32_t stage = cell->action.stage;
    const uint32_t edge = transfer->is_to_next ? check->table->stages - 1 : 0;
    const uint32_t other = transfer->is_to_next ? stage + 1 : stage - 1;

    if (transfer->done == 0)
        return 0;
    if (stage == edge ||
        (*torch_schedule_done_of(check, other, cell->action.microbatch) & transfer->other) == 0)
        return torch_schedule_refuse(check, cell, transfer->missing);
    return 0;
}

/* The ranks of stages must be known before transfers are judged. */
static void torch_schedule_survey(struct torch_check *check)
{
    for (size_t i = 0; i < check->table->count; i++) {
        const struct torch_cell *cell = &check->table->cells[i];

        if (torch_schedule_is_compute(cell->action.type))
            check->row_of[cell->action.stage] = cell->row;
        check->has_transfers |=
            cell->action.type >= TORCH_SEND_F && cell->action.type <= TORCH_RECV_B;
    }
}

/* Checks the prerequisites of an action while the rows are walked through, but the other ends of
 * transfers only once all rows are known. */
static int check_cells(struct torch_check *check)
{
    torch_schedule_survey(check);
    for (size_t i = 0; i < check->table->count; i++) {
        const struct torch_cell *cell = &check->table->cells[i];
        const int rc = torch_schedule_is_compute(cell->action.type)
                           ? torch_schedule_take_compute(check, cell)
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

/*
 * If the table has sends and receives, every transfer between ranks needs both, a send after what
 * it sends and a receive before what needs it, each on its stage's rank; REDUCE_GRAD comes after
 * the stage's last backward. For a table whose computing actions are complete.
 */
static int check_transfers(const struct torch_table *table, struct lull_error *err)
{
    struct torch_check check = {
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

/* ---- from cells to an order ---- */

static struct lull_pipeline_action action_of(const struct torch_action *from)
{
    static const enum lull_pipeline_kind kinds[] = {
        [TORCH_F] = LULL_PIPELINE_FORWARD,       [TORCH_B] = LULL_PIPELINE_BACKWARD,
        [TORCH_I] = LULL_PIPELINE_INPUT,         [TORCH_W] = LULL_PIPELINE_WEIGHT,
        [TORCH_OVERLAP] = LULL_PIPELINE_OVERLAP,
    };

    return (struct lull_pipeline_action){.kind = kinds[from->type],
                                         .stage = from->stage,
                                         .microbatch = from->microbatch,
                                         .partner_stage = from->partner_stage,
                                         .partner_microbatch = from->partner_microbatch};
}

/* Only what computes is in the order: transfers are latencies of edges in the graph, and
 * collectives are reported by their times at the end of an iteration (--sync-ms). */
static int fill_order(const struct torch_table *table, struct lull_pipeline_order *order,
                      struct lull_error *err)
{
    int rc = lull_pipeline_order_init(order, table->rows, err);

    order->stages = table->stages;
    order->microbatches = table->microbatches;
    for (size_t i = 0; rc >= 0 && i < table->count; i++) {
        const struct torch_cell *cell = &table->cells[i];
        struct lull_pipeline_action action;

        if (!torch_schedule_is_compute(cell->action.type))
            continue;
        action = action_of(&cell->action);
        rc = lull_pipeline_order_add(order, cell->row, &action);
        if (rc < 0)
            (void)lull_error_set(err, rc, "%s: there is no room for its %zu actions", table->name,
                                 table->count);
    }
    return rc;
}

/* Finds the cell that an action of the order came from; null: unknown. */
static const struct torch_cell *cell_at(const struct torch_table *table,
                                        const struct lull_pipeline_place *place)
{
    size_t left = place->index;

    for (size_t i = 0; i < table->count; i++) {
        const struct torch_cell *cell = &table->cells[i];

        if (cell->row == place->device && torch_schedule_is_compute(cell->action.type) &&
            left-- == 0)
            return cell;
    }
    return NULL;
}

static int torch_schedule_prefix_error(const struct torch_table *table,
                                       const struct lull_pipeline_place *place, const char *why,
                                       struct lull_error *err)
{
    const struct torch_cell *cell = cell_at(table, place);

    if (cell != NULL)
        return lull_error_set(err, LULL_E_FORMAT, "%s: row %u, column %u: %.160s", table->name,
                              cell->row + 1, cell->column + 1, why);
    if (place->device < table->rows)
        return lull_error_set(err, LULL_E_FORMAT, "%s: row %u: %.160s", table->name,
                              place->device + 1, why);
    return lull_error_set(err, LULL_E_FORMAT, "%s: %.160s", table->name, why);
}

static int torch_schedule_check_order(const struct torch_table *table,
                                      const struct lull_pipeline_order *order,
                                      struct lull_error *err)
{
    struct lull_pipeline_place place;
    struct lull_error why = {0};
    int rc = lull_pipeline_order_check(order, &place, &why);

    if (rc == -EINVAL)
        return torch_schedule_prefix_error(table, &place, why.text, err);
    if (rc >= 0)
        rc = lull_pipeline_order_stuck(order, &place);
    if (rc > 0)
        return torch_schedule_prefix_error(
            table, &place,
            "it never gets its turn: what it waits for comes later, or waits for it (a "
            "cycle)",
            err);
    if (rc < 0)
        return lull_error_set(err, rc, "%s: not enough memory to check it", table->name);
    return check_transfers(table, err);
}

/* ---- reading ---- */

int lull_torch_schedule_read(const char *path, struct lull_pipeline_order *order_out,
                             struct lull_error *err)
{
    struct torch_table table = {.name = path};
    struct lull_pipeline_order order = {0};
    struct lull_lines *lines;
    int rc = lull_lines_open(path, &lines, err);

    if (rc < 0)
        return rc;
    rc = torch_schedule_read_table(lines, &table, err);
    lull_lines_close(lines);
    if (rc >= 0)
        rc = fill_order(&table, &order, err);
    if (rc >= 0)
        rc = torch_schedule_check_order(&table, &order, err);
    free(table.cells);
    if (rc < 0) {
        lull_pipeline_order_fini(&order);
        return rc;
    }
    *order_out = order;
    return 0;
}
