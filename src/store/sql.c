/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sql.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lull_sql_add_text(struct lull_sql_values *values, const char *text)
{
    values->texts[values->count++] = text;
}

void lull_sql_add_integer(struct lull_sql_values *values, int64_t value)
{
    char *text = values->numbers[values->count];

    snprintf(text, LULL_SQL_NUMBER_BYTES, "%" PRId64, value);
    lull_sql_add_text(values, text);
}

void lull_sql_add_number(struct lull_sql_values *values, double value)
{
    char *text = values->numbers[values->count];

    snprintf(text, LULL_SQL_NUMBER_BYTES, "%.17g", value);
    lull_sql_add_text(values, isfinite(value) ? text : NULL);
}

static const char *sql_cell(const struct lull_sql_row *row, size_t column)
{
    return column < row->count ? row->texts[column] : NULL;
}

const char *lull_sql_text(const struct lull_sql_row *row, size_t column)
{
    const char *text = sql_cell(row, column);

    return text == NULL ? "" : text;
}

int64_t lull_sql_integer(const struct lull_sql_row *row, size_t column, int64_t null_value)
{
    const char *text = sql_cell(row, column);

    return text == NULL ? null_value : strtoll(text, NULL, 10);
}

double lull_sql_number(const struct lull_sql_row *row, size_t column, double null_value)
{
    const char *text = sql_cell(row, column);

    return text == NULL ? null_value : strtod(text, NULL);
}

void lull_sql_close(struct lull_sql *sql)
{
    if (sql != NULL)
        sql->kind->close(sql);
}

int lull_sql_run(struct lull_sql *sql, const char *statement, const struct lull_sql_values *values,
                 lull_sql_each each, void *context, struct lull_error *err)
{
    static const struct lull_sql_values none;

    return sql->kind->run(sql, statement, values != NULL ? values : &none, each, context, err);
}

struct integer {
    int64_t value;
    bool is_there;
};

static int take_integer(void *context, const struct lull_sql_row *row)
{
    struct integer *integer = context;

    integer->is_there = sql_cell(row, 0) != NULL;
    integer->value = lull_sql_integer(row, 0, 0);
    return 0;
}

int lull_sql_get_integer(struct lull_sql *sql, const char *statement,
                         const struct lull_sql_values *values, int64_t *value_out,
                         struct lull_error *err)
{
    struct integer integer = {0};
    const int result = lull_sql_run(sql, statement, values, take_integer, &integer, err);

    if (result != 0 || !integer.is_there)
        return result;
    *value_out = integer.value;
    return 1;
}

int lull_sql_now(struct lull_sql *sql, int64_t *now_s_out, struct lull_error *err)
{
    char statement[128];
    int result;

    snprintf(statement, sizeof(statement), "SELECT %s", sql->kind->now);
    result = lull_sql_get_integer(sql, statement, NULL, now_s_out, err);
    return result < 0 ? result : 0;
}
