/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "trace/array.h"
#include "trace/decimal.h"
#include "trace/timestamp.h"

static int columns_refuse(const struct lull_columns *columns, size_t line, const char *label,
                          const char *what, struct lull_error *err)
{
    return lull_error_set(err, LULL_E_FORMAT, "%s: line %zu, %.60s: %s", columns->name, line, label,
                          what);
}

/* ---- names -------------------------------------------------------------------------------- */

/* An exact match comes first, because two names may differ by case alone. */
static const struct lull_column *columns_find(const struct lull_columns *columns, const char *name)
{
    for (const struct lull_column *known = columns->known; known->name != NULL; known++)
        if (strcmp(known->name, name) == 0)
            return known;
    for (const struct lull_column *known = columns->known; known->name != NULL; known++)
        if (strcasecmp(known->name, name) == 0)
            return known;
    return NULL;
}

/* Notes a column, unless its field was there before. Returns 1 if it is used, 0 if it yields to
 * another name of its field. */
static int note_column(struct lull_columns *columns, const struct lull_column *column, size_t line,
                       struct lull_error *err)
{
    const struct lull_column *before = columns->at[column->field];

    if (before == column)
        return columns_refuse(columns, line, column->name, "is named twice", err);
    if (before != NULL && column->is_alias && column > before)
        return 0;
    if (before != NULL && !before->is_alias)
        return columns_refuse(columns, line, column->name, "another column has the same meaning",
                              err);
    columns->at[column->field] = column;
    return 1;
}

int lull_columns_note(struct lull_columns *columns, const char *name, const char *cell, size_t line,
                      struct lull_error *err)
{
    const struct lull_column *column = columns_find(columns, name);
    int rc;

    if (column == NULL)
        return 0;
    rc = note_column(columns, column, line, err);
    if (rc <= 0)
        return rc;
    columns->cells[column->field] = cell;
    columns->line_of[column->field] = line;
    return 0;
}

/* Lists the names of a field: "submit_s or submit_min". Names
 * from published tables are listed only if the field has no
 * other. */
static void list_names(const struct lull_column *known, uint32_t field, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (; known->name != NULL && used < size; known++)
        if (known->field == field && (!known->is_alias || used == 0))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? " or " : "",
                                     known->name);
}

/* Lists the names in the header, as far as they fit. */
static void list_header(const struct lull_columns *columns, char *text, size_t size)
{
    static const char more[] = ", ...";
    char *const copy = strdup(columns->header);
    char *rest = copy;
    size_t used = 0;

    text[0] = '\0';
    while (rest != NULL) {
        const char *const name = lull_lines_cell_of(&rest, columns->separator);

        if (used + strlen(name) + 2 + sizeof(more) > size) {
            memcpy(text + used, more, sizeof(more));
            break;
        }
        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", name);
    }
    free(copy);
}

static const char *separator_name(char separator)
{
    switch (separator) {
    case '\t':
        return "tabs";
    case ';':
        return "semicolons";
    case '|':
        return "|";
    default:
        return "commas";
    }
}

int lull_columns_need(const struct lull_columns *columns, uint64_t fields, struct lull_error *err)
{
    enum { HEADER_BYTES = 140, NAMES_BYTES = 80 };
    char missing[2 * NAMES_BYTES] = "";
    char names[NAMES_BYTES];
    char header[HEADER_BYTES];
    size_t used = 0;

    for (uint32_t field = 0; field < LULL_COLUMNS_FIELDS; field++) {
        if ((fields >> field & 1) == 0 || lull_columns_has(columns, field))
            continue;
        list_names(columns->known, field, names, sizeof(names));
        used += (size_t)snprintf(missing + used, sizeof(missing) - used, "%s%s",
                                 used > 0 ? ", and no " : "", names);
        if (used >= sizeof(missing))
            break;
    }
    if (used == 0)
        return 0;
    if (columns->lines == NULL)
        return lull_error_set(err, LULL_E_FORMAT, "%s: there is no %s in it", columns->name,
                              missing);
    list_header(columns, header, sizeof(header));
    return lull_error_set(
        err, LULL_E_FORMAT,
        "%s: line %zu, header: missing column %s; found %s (%u column%s, separated by %s); %s%s",
        columns->name, columns->header_line, missing, header, columns->width,
        columns->width == 1 ? "" : "s", separator_name(columns->separator),
        columns->manual != NULL ? "the columns are listed in " : "rename it",
        columns->manual != NULL ? columns->manual : "");
}

/* ---- the header --------------------------------------------------------------------------- */

/* Counts the cells of a header under a separator, and those that are known. */
static uint32_t count_cells(const struct lull_columns *columns, const char *line, char separator,
                            uint32_t *known_out)
{
    char *const copy = strdup(line);
    char *rest = copy;
    uint32_t count = 0;

    *known_out = 0;
    for (; rest != NULL && count < LULL_COLUMNS_MAX; count++)
        *known_out += columns_find(columns, lull_lines_cell_of(&rest, separator)) != NULL;
    free(copy);
    return count;
}

/* Finds the separator under which most names are known; of equal ones that with most cells. */
static char find_separator(const struct lull_columns *columns, const char *line,
                           uint32_t *known_out)
{
    static const char separators[] = {',', ';', '\t', '|'};
    char best = ',';
    uint32_t max_cells = 0;

    *known_out = 0;
    for (size_t i = 0; i < sizeof(separators); i++) {
        uint32_t known;
        const uint32_t cells = count_cells(columns, line, separators[i], &known);

        if (known > *known_out || (known == *known_out && cells > max_cells)) {
            *known_out = known;
            max_cells = cells;
            best = separators[i];
        }
    }
    return best;
}

/* Returns whether a line ahead of the header is skipped: it is empty, names the separator for a
 * spreadsheet, or is a comment in which nothing is known. */
static bool columns_is_preamble(struct lull_columns *columns, char **line)
{
    uint32_t known;

    if ((*line)[0] == '\0' || strncmp(*line, "sep=", 4) == 0 || strncmp(*line, "==", 2) == 0)
        return true;
    if ((*line)[0] != '#')
        return false;
    find_separator(columns, *line + 1, &known);
    *line += known > 0 ? 1 : 0;
    return known == 0;
}

static int add_column(struct lull_columns *columns, const char *name, struct lull_error *err)
{
    const struct lull_column *column;
    int rc;

    if (columns->width == LULL_COLUMNS_MAX)
        return columns_refuse(columns, columns->header_line, "header",
                              "there are more than 65536 columns", err);
    column = columns_find(columns, name);
    rc = lull_trace_grow(&columns->field_of, columns->width, sizeof(*columns->field_of),
                         columns->name, err);
    if (rc < 0)
        return rc;
    columns->field_of[columns->width++] = LULL_COLUMNS_FIELDS;
    if (column == NULL)
        return 0;
    rc = note_column(columns, column, columns->header_line, err);
    if (rc <= 0)
        return rc;
    for (uint32_t i = 0; i + 1 < columns->width; i++)
        if (columns->field_of[i] == column->field)
            columns->field_of[i] = LULL_COLUMNS_FIELDS; /* an alias that yields */
    columns->field_of[columns->width - 1] = column->field;
    return 0;
}

/* Reads the lines that the quotes of the current one need to close. */
static int close_quotes(struct lull_columns *columns, char **line, struct lull_error *err)
{
    enum { MAX_LINES = 1000 }; /* of a cell; */
    const size_t first = lull_lines_number(columns->lines);

    while (lull_lines_is_open(*line, columns->separator)) {
        const int rc = lull_lines_extend(columns->lines, line, err);

        if (rc < 0)
            return rc;
        if (rc == 0 || lull_lines_number(columns->lines) - first >= MAX_LINES)
            return columns_refuse(columns, first, "cells", "a cell's quotes are not closed", err);
    }
    return 0;
}

/* All columns are judged before the first record is read, so that a wrong file is refused at its
 * header. */
static int columns_read_header(struct lull_columns *columns, const struct lull_table *table,
                               void *context, struct lull_error *err)
{
    char *line = NULL;
    char *rest;
    uint32_t known;
    int rc;

    do {
        rc = lull_lines_next(columns->lines, &line, err);
        if (rc < 0)
            return rc;
        if (rc == 0)
            return lull_error_set(err, LULL_E_FORMAT,
                                  "%s: the file is empty; its first line must name the columns",
                                  columns->name);
    } while (columns_is_preamble(columns, &line));
    columns->header_line = lull_lines_number(columns->lines);
    if (lull_lines_is_open(line, ','))
        return columns_refuse(columns, columns->header_line, "header",
                              "a cell's quotes are not closed", err);
    columns->separator = find_separator(columns, line, &known);
    columns->header = strdup(line);
    if (columns->header == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", columns->name);
    for (rest = line; rest != NULL;) {
        rc = add_column(columns, lull_lines_cell_of(&rest, columns->separator), err);
        if (rc < 0)
            return rc;
    }
    rc = lull_columns_need(columns, table->needed, err);
    if (rc < 0)
        return rc;
    return table->check != NULL ? table->check(columns, context, err) : 0;
}

/* ---- cells -------------------------------------------------------------------------------- */

static enum lull_text_comma comma_of(const struct lull_columns *columns)
{
    if (columns->separator == ';')
        return LULL_TEXT_COMMA_DECIMAL;
    return columns->separator == ',' || columns->lines == NULL ? LULL_TEXT_COMMA_GROUPS
                                                               : LULL_TEXT_COMMA_AMBIGUOUS;
}

/* Returns whether the current record repeats the header: files were concatenated. */
static bool is_header_again(const struct lull_columns *columns)
{
    bool is_any = false;

    for (uint32_t i = 0; i < columns->width; i++) {
        const uint32_t field = columns->field_of[i];

        if (field == LULL_COLUMNS_FIELDS)
            continue;
        if (strcasecmp(columns->cells[field], columns->at[field]->name) != 0)
            return false;
        is_any = true;
    }
    return is_any;
}

/* Splits a line, which must have as many cells as the header: a missing separator would otherwise
 * shift every later column. Spreadsheets append empty ones. Returns 1, or 0 for a line that is no
 * record. */
static int split_line(struct lull_columns *columns, char *rest, struct lull_error *err)
{
    const size_t number = lull_lines_number(columns->lines);
    uint32_t count = 0;
    bool is_empty = true;

    for (; rest != NULL; count++) {
        const char *cell = lull_lines_cell_of(&rest, columns->separator);

        is_empty = is_empty && cell[0] == '\0';
        if (count >= columns->width && cell[0] != '\0')
            return columns_refuse(columns, number, "cells", "there are more than the header has",
                                  err);
        if (count >= columns->width || columns->field_of[count] == LULL_COLUMNS_FIELDS)
            continue;
        columns->cells[columns->field_of[count]] = cell;
        columns->line_of[columns->field_of[count]] = number;
    }
    if (is_empty)
        return 0;
    if (count < columns->width)
        return columns_refuse(columns, number, "cells", "there are fewer than the header has", err);
    return is_header_again(columns) ? 0 : 1;
}

static int columns_read_record(struct lull_columns *columns, const struct lull_table *table,
                               char *line, void *context, struct lull_error *err)
{
    const size_t number = lull_lines_number(columns->lines);
    int rc = close_quotes(columns, &line, err);

    if (rc == 0)
        rc = split_line(columns, line, err);
    if (rc == LULL_E_FORMAT && table->broken != NULL) {
        table->broken(context, number);
        return 0;
    }
    return rc > 0 ? table->read(columns, context, err) : rc;
}

int lull_columns_read(const char *path, const struct lull_table *table, void *context,
                      struct lull_error *err)
{
    struct lull_lines *lines = NULL;
    int rc = lull_lines_open(path, &lines, err);

    if (rc < 0)
        return rc;
    rc = lull_columns_read_lines(lines, table, context, err);
    lull_lines_close(lines);
    return rc;
}

int lull_columns_read_lines(struct lull_lines *lines, const struct lull_table *table, void *context,
                            struct lull_error *err)
{
    struct lull_columns columns = {.known = table->known,
                                   .name = lull_lines_name(lines),
                                   .lines = lines,
                                   .manual = table->manual};
    char *line = NULL;
    int rc = columns_read_header(&columns, table, context, err);

    while (rc >= 0 && (rc = lull_lines_next(lines, &line, err)) > 0)
        rc = columns_read_record(&columns, table, line, context, err);
    free(columns.field_of);
    free(columns.header);
    return rc;
}

bool lull_columns_has(const struct lull_columns *columns, uint32_t field)
{
    return columns->at[field] != NULL;
}

bool lull_columns_is_filled(const struct lull_columns *columns, uint32_t field)
{
    return lull_columns_has(columns, field) && columns->cells[field][0] != '\0';
}

bool lull_columns_has_value(const struct lull_columns *columns, uint32_t field)
{
    return lull_columns_has(columns, field) && !lull_text_is_missing(columns->cells[field]);
}

int lull_columns_refuse(const struct lull_columns *columns, uint32_t field, const char *what,
                        struct lull_error *err)
{
    return lull_error_set(err, LULL_E_FORMAT, "%s: line %zu, %.60s: %s (found '%.40s')",
                          columns->name, columns->line_of[field], columns->at[field]->name, what,
                          columns->cells[field]);
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* Rewrites a number as lull_text_plain_number says. Returns null, or what is wrong with it. */
static const char *columns_plain(const struct lull_columns *columns, uint32_t field,
                                 char number[LULL_TEXT_NUMBER_BYTES])
{
    switch (lull_text_plain_number(columns->cells[field], comma_of(columns), number)) {
    case 0:
        return NULL;
    case -EILSEQ:
        return "the comma may group digits or be the decimal one; write a point, or no comma";
    default:
        return "not a number";
    }
}

/* Whole numbers may be written as 8.0 or 8e0: some programs do that to a column with an empty cell.
 */
int lull_columns_integer(const struct lull_columns *columns, uint32_t field, int64_t min,
                         int64_t max, const char *what, int64_t *value_out, struct lull_error *err)
{
    char number[LULL_TEXT_NUMBER_BYTES];
    const char *const wrong = columns_plain(columns, field, number);
    int64_t value = 0;

    if (wrong != NULL)
        return lull_columns_refuse(columns, field, strchr(wrong, ';') != NULL ? wrong : what, err);
    if (lull_decimal_parse(number, strlen(number), 0, &value) < 0 ||
        !lull_decimal_is_whole(number) || value < min || value > max)
        return lull_columns_refuse(columns, field, what, err);
    *value_out = value;
    return 0;
}

int lull_columns_real(const struct lull_columns *columns, uint32_t field, double min, double max,
                      const char *what, double *value_out, struct lull_error *err)
{
    char number[LULL_TEXT_NUMBER_BYTES];
    const char *const wrong = columns_plain(columns, field, number);
    double value;

    if (wrong != NULL)
        return lull_columns_refuse(columns, field, wrong, err);
    if (lull_text_parse_number(number, &value) < 0)
        return lull_columns_refuse(columns, field, "not a number", err);
    if (!(value >= min && value <= max))
        return lull_columns_refuse(columns, field, what, err);
    *value_out = value;
    return 0;
}

int lull_columns_quantity(const struct lull_columns *columns, uint32_t field, double *value_out,
                          char unit_out[LULL_COLUMNS_UNIT])
{
    char number[LULL_TEXT_NUMBER_BYTES];
    const char *rest;
    const char *unit;
    double value;

    if (columns_plain(columns, field, number) != NULL ||
        lull_text_parse_prefix(number, &value, &rest) < 0)
        return -EINVAL;
    unit = lull_text_trim(number + (rest - number));
    if (strlen(unit) >= LULL_COLUMNS_UNIT)
        return -EINVAL;
    memcpy(unit_out, unit, strlen(unit) + 1);
    *value_out = value;
    return 0;
}

int lull_columns_decimal(const struct lull_columns *columns, uint32_t field,
                         const struct lull_columns_range *range, int64_t *value_out,
                         struct lull_error *err)
{
    char number[LULL_TEXT_NUMBER_BYTES];
    const char *const wrong = columns_plain(columns, field, number);
    int64_t value = 0;
    int rc;

    if (wrong != NULL)
        return lull_columns_refuse(columns, field, wrong, err);
    rc = lull_decimal_parse(number, strlen(number), range->shift, &value);
    if (rc == -EINVAL)
        return lull_columns_refuse(columns, field, "not a number", err);
    if (rc < 0 || value < range->min || value > range->max)
        return lull_columns_refuse(columns, field, range->what, err);
    *value_out = value;
    return 0;
}

/* Parses a number of the column's unit. Returns null, or what is wrong with it. */
static const char *columns_parse_time(const struct lull_columns *columns, uint32_t field,
                                      int64_t *time_ns_out)
{
    char number[LULL_TEXT_NUMBER_BYTES];
    const char *const wrong = columns_plain(columns, field, number);

    if (wrong != NULL)
        return strchr(wrong, ';') != NULL ? wrong : "no such number";
    return lull_decimal_parse_time(number, strlen(number), columns->at[field]->unit, time_ns_out);
}

int lull_columns_time(const struct lull_columns *columns, uint32_t field, int64_t *time_ns_out,
                      struct lull_error *err)
{
    const char *wrong;

    if (lull_timestamp_elapsed(columns->cells[field], time_ns_out) == 0)
        return 0;
    wrong = columns_parse_time(columns, field, time_ns_out);
    return wrong == NULL ? 0 : lull_columns_refuse(columns, field, wrong, err);
}

int lull_columns_instant(const struct lull_columns *columns, uint32_t field, int64_t *time_ns_out,
                         struct lull_error *err)
{
    enum { NANO = 9 };
    const int64_t unit_s = columns->at[field]->unit;
    char number[LULL_TEXT_NUMBER_BYTES];
    const char *wrong;
    int64_t time_ns = 0;
    int rc;

    /* Eight digits alone are taken for a number of seconds, not a date. */
    if (strpbrk(columns->cells[field], ":-/") != NULL &&
        lull_timestamp_parse(columns->cells[field], time_ns_out) == 0)
        return 0;
    wrong = columns_plain(columns, field, number);
    if (wrong != NULL)
        return lull_columns_refuse(
            columns, field, strchr(wrong, ';') != NULL ? wrong : "no such number or date", err);
    rc = lull_decimal_parse(number, strlen(number), NANO, &time_ns);
    if (rc == -EINVAL)
        return lull_columns_refuse(columns, field, "no such number or date", err);
    if (rc < 0 || time_ns > LULL_DECIMAL_MAX / unit_s)
        return lull_columns_refuse(columns, field,
                                   "a time of over 146 years; is it in milliseconds?", err);
    if (time_ns < 0)
        return lull_columns_refuse(columns, field, "a time below 0", err);
    *time_ns_out = time_ns * unit_s;
    return 0;
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
