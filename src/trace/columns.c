/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

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

/* That the column's field was not there before. */
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
    const int rc = column != NULL ? note_column(columns, column, line, err) : 0;

    if (column == NULL || rc < 0)
        return rc;
    columns->cells[column->field] = cell;
    columns->line_of[column->field] = line;
    return 0;
}

int lull_columns_open(struct lull_columns *columns, const struct lull_column *known,
                      struct lull_lines *lines, struct lull_error *err)
{
    char *rest = NULL;
    int rc;

    *columns =
        (struct lull_columns){.known = known, .name = lull_lines_name(lines), .lines = lines};
    rc = lull_lines_next(lines, &rest, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: is empty; its first line names columns",
                              columns->name);
    while (rest != NULL) {
        const struct lull_column *column = find(columns, lull_lines_cell(&rest));

        if (columns->width == LULL_COLUMNS_MAX)
            return refuse(columns, 1, "header", "more than 64 columns", err);
        rc = column != NULL ? note_column(columns, column, 1, err) : 0;
        if (rc < 0)
            return rc;
        columns->field_of[columns->width++] = column != NULL ? column->field : LULL_COLUMNS_FIELDS;
    }
    return 0;
}

bool lull_columns_has(const struct lull_columns *columns, uint32_t field)
{
    return columns->at[field] != NULL;
}

/* "submit_s, submit_min or creation_s" */
static void list_names(const struct lull_column *known, uint32_t field, char *text, size_t size)
{
    const struct lull_column *last = NULL;
    size_t used = 0;

    for (const struct lull_column *column = known; column->name != NULL; column++)
        if (column->field == field)
            last = column;
    text[0] = '\0';
    for (; last != NULL && known <= last && used < size; known++)
        if (known->field == field)
            used += (size_t)snprintf(text + used, size - used, "%s%s",
                                     used == 0       ? ""
                                     : known == last ? " or "
                                                     : ", ",
                                     known->name);
}

int lull_columns_need(const struct lull_columns *columns, uint32_t field, struct lull_error *err)
{
    char names[120];

    if (lull_columns_has(columns, field))
        return 0;
    list_names(columns->known, field, names, sizeof(names));
    if (columns->lines == NULL)
        return lull_error_set(err, LULL_E_FORMAT, "%s: tells no %s", columns->name, names);
    return lull_error_set(err, LULL_E_FORMAT, "%s: line 1, header: no column %s", columns->name,
                          names);
}

/* ---- cells -------------------------------------------------------------------------------- */

static int part_line(struct lull_columns *columns, char *line, struct lull_error *err)
{
    const size_t number = lull_lines_number(columns->lines);
    char *rest = line;
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
        return refuse(columns, number, "cells", "more than the header has", err);
    if (count < columns->width)
        return refuse(columns, number, "cells", "fewer than the header has", err);
    return 1;
}

int lull_columns_next(struct lull_columns *columns, struct lull_error *err)
{
    char *line = NULL;
    int rc;

    do
        rc = lull_lines_next(columns->lines, &line, err);
    while (rc > 0 && line[0] == '\0');
    return rc > 0 ? part_line(columns, line, err) : rc;
}

bool lull_columns_is_filled(const struct lull_columns *columns, uint32_t field)
{
    return lull_columns_has(columns, field) && columns->cells[field][0] != '\0';
}

int lull_columns_refuse(const struct lull_columns *columns, uint32_t field, const char *what,
                        struct lull_error *err)
{
    return refuse(columns, columns->line_of[field], columns->at[field]->name, what, err);
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
