/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "trace/decimal.h"

static int refuse(const struct lull_columns *columns, size_t line, const char *label,
                  const char *what, struct lull_error *err)
{
    return lull_error_set(err, LULL_E_FORMAT, "%s: line %zu, %.60s: %s", columns->name, line, label,
                          what);
}

/* ---- names -------------------------------------------------------------------------------- */

static const struct lull_column *find(const struct lull_columns *columns, const char *name)
{
    for (const struct lull_column *known = columns->known; known->name != NULL; known++)
        if (strcmp(known->name, name) == 0)
            return known;
    return NULL;
}

/* Notes a column, unless its field was there before. */
static int note_column(struct lull_columns *columns, const struct lull_column *column, size_t line,
                       struct lull_error *err)
{
    const struct lull_column *before = columns->at[column->field];

    if (before == column)
        return refuse(columns, line, column->name, "is named twice", err);
    if (before != NULL)
        return refuse(columns, line, column->name, "another column says the same", err);
    columns->at[column->field] = column;
    return 0;
}

int lull_columns_note(struct lull_columns *columns, const char *name, const char *cell, size_t line,
                      struct lull_error *err)
{
    const struct lull_column *column = find(columns, name);
    int rc;

    if (column == NULL)
        return 0;
    rc = note_column(columns, column, line, err);
    if (rc < 0)
        return rc;
    columns->cells[column->field] = cell;
    columns->line_of[column->field] = line;
    return 0;
}

bool lull_columns_has(const struct lull_columns *columns, uint32_t field)
{
    return columns->at[field] != NULL;
}

/* Lists the names of a field: "submit_s or submit_min or creation_s". */
static void list_names(const struct lull_column *known, uint32_t field, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (; known->name != NULL && used < size; known++)
        if (known->field == field)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? " or " : "",
                                     known->name);
}

int lull_columns_need(const struct lull_columns *columns, uint32_t field, struct lull_error *err)
{
    char names[120];

    if (lull_columns_has(columns, field))
        return 0;
    list_names(columns->known, field, names, sizeof(names));
    if (columns->lines == NULL)
        return lull_error_set(err, LULL_E_FORMAT, "%s: there is no %s in it", columns->name, names);
    return lull_error_set(err, LULL_E_FORMAT, "%s: line 1, header: there is no column %s",
                          columns->name, names);
}

static int add_column(struct lull_columns *columns, const char *name, struct lull_error *err)
{
    const struct lull_column *column = find(columns, name);

    if (columns->width == LULL_COLUMNS_MAX)
        return refuse(columns, 1, "header", "there are more than 64 columns", err);
    columns->field_of[columns->width++] = column != NULL ? column->field : LULL_COLUMNS_FIELDS;
    return column != NULL ? note_column(columns, column, 1, err) : 0;
}

/* All columns are judged before the first record is read, so that a wrong file is refused at its
 * first line. */
static int read_header(struct lull_columns *columns, const struct lull_table *table, void *context,
                       struct lull_error *err)
{
    char *rest = NULL;
    int rc = lull_lines_next(columns->lines, &rest, err);

    if (rc < 0)
        return rc;
    if (rc == 0)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: the file is empty; its first line must name the columns",
                              columns->name);
    while (rest != NULL) {
        rc = add_column(columns, lull_lines_cell(&rest), err);
        if (rc < 0)
            return rc;
    }
    for (uint32_t field = 0; field < LULL_COLUMNS_FIELDS; field++) {
        if ((table->needed >> field & 1) == 0)
            continue;
        rc = lull_columns_need(columns, field, err);
        if (rc < 0)
            return rc;
    }
    return table->check != NULL ? table->check(columns, context, err) : 0;
}

/* ---- cells -------------------------------------------------------------------------------- */

/* A line must have as many cells as the header: a missing comma would otherwise shift every later
 * column. */
static int split_line(struct lull_columns *columns, char *rest, struct lull_error *err)
{
    const size_t number = lull_lines_number(columns->lines);
    uint32_t count = 0;

    for (; rest != NULL && count < columns->width; count++) {
        const char *cell = lull_lines_cell(&rest);
        const uint32_t field = columns->field_of[count];

        if (field == LULL_COLUMNS_FIELDS)
            continue;
        columns->cells[field] = cell;
        columns->line_of[field] = number;
    }
    if (rest != NULL)
        return refuse(columns, number, "cells", "there are more than the header has", err);
    if (count < columns->width)
        return refuse(columns, number, "cells", "there are fewer than the header has", err);
    return 0;
}

int lull_columns_read(const char *path, const struct lull_table *table, void *context,
                      struct lull_error *err)
{
    struct lull_columns columns = {.known = table->known, .name = path};
    char *line = NULL;
    int rc = lull_lines_open(path, &columns.lines, err);

    if (rc < 0)
        return rc;
    rc = read_header(&columns, table, context, err);
    while (rc >= 0 && (rc = lull_lines_next(columns.lines, &line, err)) > 0) {
        if (line[0] == '\0')
            continue;
        rc = split_line(&columns, line, err);
        if (rc >= 0)
            rc = table->read(&columns, context, err);
    }
    lull_lines_close(columns.lines);
    return rc;
}

bool lull_columns_is_filled(const struct lull_columns *columns, uint32_t field)
{
    return lull_columns_has(columns, field) && columns->cells[field][0] != '\0';
}

int lull_columns_refuse(const struct lull_columns *columns, uint32_t field, const char *what,
                        struct lull_error *err)
{
    return lull_error_set(err, LULL_E_FORMAT, "%s: line %zu, %.60s: %s (found '%.40s')",
                          columns->name, columns->line_of[field], columns->at[field]->name, what,
                          columns->cells[field]);
}

int lull_columns_integer(const struct lull_columns *columns, uint32_t field, int64_t min,
                         int64_t max, const char *what, int64_t *value_out, struct lull_error *err)
{
    if (lull_text_parse_int(columns->cells[field], min, max, value_out) < 0)
        return lull_columns_refuse(columns, field, what, err);
    return 0;
}

int lull_columns_real(const struct lull_columns *columns, uint32_t field, double min, double max,
                      const char *what, double *value_out, struct lull_error *err)
{
    double value;

    if (lull_text_parse_number(columns->cells[field], &value) < 0)
        return lull_columns_refuse(columns, field, "not a number", err);
    if (!(value >= min && value <= max))
        return lull_columns_refuse(columns, field, what, err);
    *value_out = value;
    return 0;
}

int lull_columns_time(const struct lull_columns *columns, uint32_t field, int64_t *time_ns_out,
                      struct lull_error *err)
{
    const char *const cell = columns->cells[field];
    const char *const wrong =
        lull_decimal_parse_time(cell, strlen(cell), columns->at[field]->unit, time_ns_out);

    return wrong == NULL ? 0 : lull_columns_refuse(columns, field, wrong, err);
}

int lull_columns_name(const struct lull_columns *columns, uint32_t field, char *name_out,
                      size_t size, struct lull_error *err)
{
    const char *const name = columns->cells[field];
    char what[60];

    if (name[0] != '\0' && strlen(name) < size) {
        memcpy(name_out, name, strlen(name) + 1);
        return 0;
    }
    snprintf(what, sizeof(what), "not a name of 1 to %zu bytes", size - 1);
    return lull_columns_refuse(columns, field, what, err);
}
