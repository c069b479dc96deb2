/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/sql.h"
#include "store/store.h"

struct sqlite {
    struct lull_sql sql; /* first */
    struct lull_store *store;
};

static struct lull_store *store_of(struct lull_sql *sql)
{
    return ((struct sqlite *)(void *)sql)->store;
}

static void bind(sqlite3_stmt *statement, const struct lull_sql_values *values)
{
    for (size_t i = 0; i < values->count; i++) {
        char name[24];
        int place;

        snprintf(name, sizeof(name), "$%zu", i + 1);
        place = sqlite3_bind_parameter_index(statement, name);
        if (place > 0)
            sqlite3_bind_text(statement, place, values->texts[i], -1, SQLITE_STATIC);
    }
}

/* Numbers are written here with 17 digits, because sqlite's own text of them has 15. */
static void take_row(sqlite3_stmt *statement, struct lull_sql_row *row,
                     char numbers[LULL_SQL_COLUMNS][LULL_SQL_NUMBER_BYTES])
{
    row->count = (size_t)sqlite3_column_count(statement);
    if (row->count > LULL_SQL_COLUMNS)
        row->count = LULL_SQL_COLUMNS;
    for (size_t i = 0; i < row->count; i++) {
        row->texts[i] = (const char *)sqlite3_column_text(statement, (int)i);
        if (sqlite3_column_type(statement, (int)i) != SQLITE_FLOAT)
            continue;
        snprintf(numbers[i], LULL_SQL_NUMBER_BYTES, "%.17g",
                 sqlite3_column_double(statement, (int)i));
        row->texts[i] = numbers[i];
    }
}

static int run(struct lull_sql *sql, const char *text, const struct lull_sql_values *values,
               lull_sql_each each, void *context, struct lull_error *err)
{
    struct lull_store *store = store_of(sql);
    sqlite3_stmt *statement = lull_store_prepare(store, text, err);
    char numbers[LULL_SQL_COLUMNS][LULL_SQL_NUMBER_BYTES];
    struct lull_sql_row row;
    int result;

    if (statement == NULL)
        return err != NULL ? err->code : LULL_E_FORMAT;
    bind(statement, values);
    while ((result = lull_store_step(store, statement, err)) == 1) {
        take_row(statement, &row, numbers);
        result = each == NULL ? 0 : each(context, &row);
        if (result != 0)
            break;
    }
    sqlite3_finalize(statement);
    return result;
}

static int begin(struct lull_sql *sql, struct lull_error *err)
{
    return lull_store_begin(store_of(sql), err);
}

static int end(struct lull_sql *sql, int result, struct lull_error *err)
{
    return lull_store_end(store_of(sql), result, err);
}

static void close_sqlite(struct lull_sql *sql)
{
    lull_store_close(store_of(sql));
    free(sql);
}

static const struct lull_sql_kind kind = {
    .run = run,
    .begin = begin,
    .end = end,
    .close = close_sqlite,
    .now = "CAST(strftime('%s', 'now') AS INTEGER)",
};

int lull_sql_open_sqlite(const char *directory, const struct lull_sql_schema *schema,
                         bool may_create, struct lull_sql **sql_out, struct lull_error *err)
{
    const struct lull_store_schema file = {
        .name = schema->name, .migrations = schema->migrations, .version = schema->version};
    struct sqlite *sqlite = calloc(1, sizeof(*sqlite));
    int result;

    if (sqlite == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for a database");
    sqlite->sql.kind = &kind;
    result = lull_store_open(directory, &file, may_create, &sqlite->store, err);
    if (result < 0) {
        free(sqlite);
        return result;
    }
    *sql_out = &sqlite->sql;
    return 0;
}
