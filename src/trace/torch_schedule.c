/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/torch_schedule.h"

#include <errno.h>
#include <stdlib.h>

#include "trace/lines.h"
#include "trace/torch_table.h"

/* ---- cells ---- */

static int append(struct lull_torch_table *table, const struct lull_torch_cell *cell,
                  struct lull_error *err)
{
    enum { MOST = 4 * LULL_PIPELINE_MAX_ACTIONS }; /* with sends and receives */

    if (table->count == MOST)
        return lull_error_set(err, LULL_E_FORMAT, "%s: row %u, column %u: more than %d actions",
                              table->name, cell->row + 1, cell->column + 1, MOST);
    if (table->count == table->capacity) {
        const size_t capacity = table->capacity == 0 ? 1024 : 2 * table->capacity;
        struct lull_torch_cell *cells = realloc(table->cells, capacity * sizeof(*cells));

        if (cells == NULL)
            return lull_error_set(err, -ENOMEM, "%s: no memory", table->name);
        table->cells = cells;
        table->capacity = capacity;
    }
    table->cells[table->count++] = *cell;
    return 0;
}

static void grow(uint32_t *count, uint32_t index)
{
    *count = index >= *count ? index + 1 : *count;
}

static int add_cell(struct lull_torch_table *table, char *text, uint32_t column,
                    struct lull_error *err)
{
    struct lull_torch_cell cell = {.row = table->rows, .column = column};
    const int rc = lull_torch_action_parse(text, &cell.action);

    if (rc == -ERANGE)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: row %u, column %u: '%.40s': stages are below %d, micro-batches "
                              "below %d",
                              table->name, cell.row + 1, column + 1, text, LULL_PIPELINE_MAX_STAGES,
                              LULL_PIPELINE_MAX_MICROBATCHES);
    if (rc < 0)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: row %u, column %u: '%.40s' is no action; known are 2F0, 1B3, "
                              "0I2, 0W2, (0F5;7B2)OVERLAP_F_B, 3SEND_F1, 1UNSHARD and their like",
                              table->name, cell.row + 1, column + 1, text);
    if (lull_torch_computes(cell.action.type)) {
        grow(&table->stages, cell.action.stage);
        grow(&table->stages, cell.action.partner_stage);
        grow(&table->microbatches, cell.action.microbatch);
        grow(&table->microbatches, cell.action.partner_microbatch);
    }
    if (column >= table->columns)
        table->columns = (size_t)column + 1;
    return append(table, &cell, err);
}

static int add_row(struct lull_torch_table *table, char *rest, struct lull_error *err)
{
    const size_t before = table->count;

    if (table->rows == LULL_PIPELINE_MAX_STAGES)
        return lull_error_set(err, LULL_E_FORMAT, "%s: more than %d rows, one for each rank",
                              table->name, LULL_PIPELINE_MAX_STAGES);
    for (uint32_t column = 0; rest != NULL; column++) {
        char *const text = lull_lines_cell(&rest);
        const int rc = text[0] != '\0' ? add_cell(table, text, column, err) : 0;

        if (rc < 0)
            return rc;
    }
    table->rows++;
    if (table->count == before)
        return lull_error_set(err, LULL_E_FORMAT, "%s: row %u: no actions; every rank has some",
                              table->name, table->rows);
    return 0;
}

static int read_table(struct lull_lines *lines, struct lull_torch_table *table,
                      struct lull_error *err)
{
    char *text;
    size_t blank = 0; /* the first blank row, from 1 */
    int rc;

    while ((rc = lull_lines_next(lines, &text, err)) > 0) {
        if (text[0] == '\0') {
            blank = blank != 0 ? blank : lull_lines_number(lines);
            continue;
        }
        if (blank != 0)
            return lull_error_set(err, LULL_E_FORMAT, "%s: row %zu is blank, but others follow",
                                  table->name, blank);
        rc = add_row(table, text, err);
        if (rc < 0)
            return rc;
    }
    if (rc == 0 && table->rows == 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: the file is empty", table->name);
    return rc;
}

/* ---- from cells to an order ---- */

static enum lull_pipeline_kind kind_of(enum lull_torch_type type)
{
    static const enum lull_pipeline_kind kinds[] = {
        [LULL_TORCH_F] = LULL_PIPELINE_FORWARD,       [LULL_TORCH_B] = LULL_PIPELINE_BACKWARD,
        [LULL_TORCH_I] = LULL_PIPELINE_INPUT,         [LULL_TORCH_W] = LULL_PIPELINE_WEIGHT,
        [LULL_TORCH_OVERLAP] = LULL_PIPELINE_OVERLAP,
    };

    return lull_torch_computes(type) ? kinds[type] : LULL_PIPELINE_FIXED;
}

/* False: the order does not show it. */
static bool convert(const struct lull_torch_action *from, const struct lull_torch_times *times,
                    struct lull_pipeline_action *to)
{
    *to = (struct lull_pipeline_action){.kind = kind_of(from->type),
                                        .stage = from->stage,
                                        .microbatch = from->microbatch,
                                        .partner_stage = from->partner_stage,
                                        .partner_microbatch = from->partner_microbatch};
    if (from->type == LULL_TORCH_UNSHARD) {
        to->time_ns = times->unshard_ns;
        to->energy_nj = times->unshard_energy_nj;
    }
    if (from->type == LULL_TORCH_REDUCE_GRAD) {
        to->time_ns = times->reduce_ns;
        to->energy_nj = times->reduce_energy_nj;
    }
    return lull_torch_computes(from->type) || to->time_ns > 0;
}

static int fill_order(const struct lull_torch_table *table, const struct lull_torch_times *times,
                      struct lull_torch_schedule *schedule, struct lull_error *err)
{
    struct lull_pipeline_order *order = &schedule->order;
    int rc = lull_pipeline_order_init(order, table->rows, err);

    order->stages = table->stages;
    order->microbatches = table->microbatches;
    for (size_t i = 0; rc >= 0 && i < table->count; i++) {
        const struct lull_torch_cell *cell = &table->cells[i];
        struct lull_pipeline_action action;

        schedule->has_comms |= !lull_torch_computes(cell->action.type);
        if (convert(&cell->action, times, &action)) {
            rc = lull_pipeline_order_add(order, cell->row, &action);
            if (rc < 0)
                (void)lull_error_set(err, rc, "%s: no room for %zu actions", table->name,
                                     table->count);
        }
    }
    return rc;
}

/* The cell that an action of the order came from; NULL: no certain one. */
static const struct lull_torch_cell *cell_at(const struct lull_torch_table *table,
                                             const struct lull_torch_times *times,
                                             const struct lull_pipeline_place *place)
{
    struct lull_pipeline_action action;
    size_t left = place->index;

    for (size_t i = 0; i < table->count; i++) {
        const struct lull_torch_cell *cell = &table->cells[i];

        if (cell->row == place->device && convert(&cell->action, times, &action) && left-- == 0)
            return cell;
    }
    return NULL;
}

static int blame(const struct lull_torch_table *table, const struct lull_torch_times *times,
                 const struct lull_pipeline_place *place, const char *why, struct lull_error *err)
{
    const struct lull_torch_cell *cell = cell_at(table, times, place);

    if (cell != NULL)
        return lull_error_set(err, LULL_E_FORMAT, "%s: row %u, column %u: %.160s", table->name,
                              cell->row + 1, cell->column + 1, why);
    if (place->device < table->rows)
        return lull_error_set(err, LULL_E_FORMAT, "%s: row %u: %.160s", table->name,
                              place->device + 1, why);
    return lull_error_set(err, LULL_E_FORMAT, "%s: %.160s", table->name, why);
}

static int check_order(const struct lull_torch_table *table, const struct lull_torch_times *times,
                       const struct lull_pipeline_order *order, struct lull_error *err)
{
    struct lull_pipeline_place place;
    struct lull_error why = {0};
    int rc = lull_pipeline_order_check(order, &place, &why);

    if (rc == -EINVAL)
        return blame(table, times, &place, why.text, err);
    if (rc == 0)
        rc = lull_pipeline_order_stuck(order, &place);
    if (rc > 0)
        return blame(table, times, &place,
                     "it never gets its turn: what it waits for comes later, or waits for it (a "
                     "cycle)",
                     err);
    if (rc < 0)
        return lull_error_set(err, rc, "%s: no memory", table->name);
    return lull_torch_table_check(table, err);
}

/* ---- reading ---- */

static int read_lines(struct lull_lines *lines, const struct lull_torch_times *times,
                      struct lull_torch_schedule *schedule_out, struct lull_error *err)
{
    static const struct lull_torch_times no_times = {0};
    struct lull_torch_table table = {.name = lull_lines_name(lines)};
    struct lull_torch_schedule schedule = {.has_comms = false};
    int rc = read_table(lines, &table, err);

    times = times != NULL ? times : &no_times;
    if (rc >= 0)
        rc = fill_order(&table, times, &schedule, err);
    if (rc >= 0)
        rc = check_order(&table, times, &schedule.order, err);
    if (rc < 0) {
        lull_pipeline_order_fini(&schedule.order);
    } else {
        schedule.columns = table.columns;
        *schedule_out = schedule;
    }
    free(table.cells);
    lull_lines_close(lines);
    return rc;
}

int lull_torch_schedule_read(const char *path, const struct lull_torch_times *times,
                             struct lull_torch_schedule *schedule_out, struct lull_error *err)
{
    struct lull_lines *lines;
    const int rc = lull_lines_open(path, &lines, err);

    return rc < 0 ? rc : read_lines(lines, times, schedule_out, err);
}

int lull_torch_schedule_read_memory(const char *name, const char *text, size_t size,
                                    const struct lull_torch_times *times,
                                    struct lull_torch_schedule *schedule_out,
                                    struct lull_error *err)
{
    struct lull_lines *lines;
    const int rc = lull_lines_open_memory(name, text, size, &lines, err);

    return rc < 0 ? rc : read_lines(lines, times, schedule_out, err);
}
