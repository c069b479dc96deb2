/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/state_directory.h"
#include "base/path.h"
#include "store/sql.h"

/* A writer waits this long for another one to finish. */
enum { PATIENCE_MS = 5000 };

struct lull_store {
    struct lull_sql sql; /* first; see below */
    sqlite3 *database;
    char path[PATH_MAX];
};

const char *lull_store_path(const struct lull_store *store)
{
    return store->path;
}

/* ---- errors ------------------------------------------------------------------------------ */

/* Only the primary result code counts; the extended ones distinguish what needs the same answer. */
static int code_of(int status)
{
    switch (status & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_CANTOPEN:
        return -ENOENT;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
        return -EACCES;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return LULL_E_FORMAT;
    default:
        return -EIO;
    }
}

static int store_fail(const struct lull_store *store, int status, struct lull_error *err)
{
    const int code = code_of(status);
    const char *next = "";

    if (code == LULL_E_FORMAT)
        next = "; move it away, and it is created again";
    else if (code == -EBUSY)
        next = "; another process holds it";
    return lull_error_set(err, code, "%.150s: %s%s", store->path, sqlite3_errstr(status), next);
}

static int store_execute(struct lull_store *store, const char *sql, struct lull_error *err)
{
    const int status = sqlite3_exec(store->database, sql, NULL, NULL, NULL);

    return status == SQLITE_OK ? 0 : store_fail(store, status, err);
}

/* ---- statements -------------------------------------------------------------------------- */

sqlite3_stmt *lull_store_prepare(struct lull_store *store, const char *sql, struct lull_error *err)
{
    sqlite3_stmt *statement = NULL;
    const int status = sqlite3_prepare_v2(store->database, sql, -1, &statement, NULL);

    if (status != SQLITE_OK)
        store_fail(store, status, err);
    return statement;
}

int lull_store_step(struct lull_store *store, sqlite3_stmt *statement, struct lull_error *err)
{
    const int status = sqlite3_step(statement);

    if (status == SQLITE_ROW)
        return 1;
    return status == SQLITE_DONE ? 0 : store_fail(store, status, err);
}

int lull_store_begin(struct lull_store *store, struct lull_error *err)
{
    return store_execute(store, "BEGIN IMMEDIATE", err);
}

int lull_store_end(struct lull_store *store, int result, struct lull_error *err)
{
    if (result == 0)
        result = store_execute(store, "COMMIT", err);
    if (result < 0)
        store_execute(store, "ROLLBACK", NULL);
    return result;
}

/* ---- opening ----------------------------------------------------------------------------- */

static int store_read_version(struct lull_store *store, int *version_out, struct lull_error *err)
{
    sqlite3_stmt *statement = lull_store_prepare(store, "PRAGMA user_version", err);
    int result = statement == NULL ? LULL_E_FORMAT : lull_store_step(store, statement, err);

    if (result == 1)
        *version_out = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return result < 0 ? result : 0;
}

static int store_migrate(struct lull_store *store, const struct lull_store_schema *schema,
                         struct lull_error *err)
{
    char mark[64];
    int version = 0;
    int result = lull_store_begin(store, err);

    if (result < 0)
        return result;
    /* The version is read again, now that no other process can be migrating. */
    result = store_read_version(store, &version, err);
    for (int i = version; result == 0 && i < schema->version; i++)
        result = store_execute(store, schema->migrations[i], err);
    snprintf(mark, sizeof(mark), "PRAGMA user_version = %d", schema->version);
    if (result == 0)
        result = store_execute(store, mark, err);
    return lull_store_end(store, result, err);
}

/* Write-ahead logging is requested when the tables are made: the mode stays with the file. */
static int store_prepare(struct lull_store *store, const struct lull_store_schema *schema,
                         struct lull_error *err)
{
    int version = 0;
    int result;

    sqlite3_busy_timeout(store->database, PATIENCE_MS);
    result = store_read_version(store, &version, err);
    if (result < 0)
        return result;
    if (version > schema->version)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%.150s: written by a newer Lull (version %d, this one reads %d)",
                              store->path, version, schema->version);
    result = store_execute(store, "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL", err);
    if (result == 0 && version < schema->version) {
        /* A file system that cannot do WAL leaves the mode as it is. */
        sqlite3_exec(store->database, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        result = store_migrate(store, schema, err);
    }
    return result;
}

static int find_path(struct lull_store *store, const char *directory,
                     const struct lull_store_schema *schema, bool may_create,
                     struct lull_error *err)
{
    char place[PATH_MAX];
    int result = lull_state_directory_find(directory, place, sizeof(place), err);
    int length;

    if (result < 0)
        return result;
    length = snprintf(store->path, sizeof(store->path), "%s/%s.db", place, schema->name);
    if (length < 0 || (size_t)length >= sizeof(store->path))
        return lull_error_set(err, -ENAMETOOLONG, "%.100s...: the path is too long", place);
    result = lull_path_check(store->path, err);
    if (result < 0)
        return result;
    if (may_create)
        return lull_file_make_directory(place, 0755, err);
    if (access(store->path, F_OK) < 0)
        return lull_error_set(err, -errno, "%.150s: %s", store->path, strerror(errno));
    return 0;
}

int lull_store_open(const char *directory, const struct lull_store_schema *schema, bool may_create,
                    struct lull_store **store_out, struct lull_error *err)
{
    struct lull_store *store = calloc(1, sizeof(*store));
    int status;
    int result;

    if (store == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for a database");
    result = find_path(store, directory, schema, may_create, err);
    if (result == 0) {
        status =
            sqlite3_open_v2(store->path, &store->database,
                            SQLITE_OPEN_READWRITE | (may_create ? SQLITE_OPEN_CREATE : 0), NULL);
        result = status == SQLITE_OK ? store_prepare(store, schema, err)
                                     : store_fail(store, status, err);
    }
    if (result < 0) {
        lull_store_close(store);
        return result;
    }
    *store_out = store;
    return 0;
}

void lull_store_close(struct lull_store *store)
{
    if (store == NULL)
        return;
    sqlite3_close(store->database);
    free(store);
}

/* ---- as one of the databases of sql.h ------------------------------------------------------- */

/* A store is a database of sql.h, too, which is its first member. */
static struct lull_store *store_of(struct lull_sql *sql)
{
    return (struct lull_store *)(void *)sql;
}

static void store_bind(sqlite3_stmt *statement, const struct lull_sql_values *values)
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
static void store_take_row(sqlite3_stmt *statement, struct lull_sql_row *row,
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

static int store_run(struct lull_sql *sql, const char *text, const struct lull_sql_values *values,
                     lull_sql_each each, void *context, struct lull_error *err)
{
    struct lull_store *store = store_of(sql);
    sqlite3_stmt *statement = lull_store_prepare(store, text, err);
    char numbers[LULL_SQL_COLUMNS][LULL_SQL_NUMBER_BYTES];
    struct lull_sql_row row;
    int result;

    if (statement == NULL)
        return err != NULL ? err->code : LULL_E_FORMAT;
    store_bind(statement, values);
    while ((result = lull_store_step(store, statement, err)) == 1) {
        store_take_row(statement, &row, numbers);
        result = each == NULL ? 0 : each(context, &row);
        if (result != 0)
            break;
    }
    sqlite3_finalize(statement);
    return result;
}

static int store_begin(struct lull_sql *sql, struct lull_error *err)
{
    return lull_store_begin(store_of(sql), err);
}

static int store_end(struct lull_sql *sql, int result, struct lull_error *err)
{
    return lull_store_end(store_of(sql), result, err);
}

static void close_store(struct lull_sql *sql)
{
    lull_store_close(store_of(sql));
}

static const struct lull_sql_kind kind = {
    .run = store_run,
    .begin = store_begin,
    .end = store_end,
    .close = close_store,
    .now = "CAST(strftime('%s', 'now') AS INTEGER)",
};

static int open_sqlite(const char *directory, const struct lull_store_schema *schema,
                       bool may_create, struct lull_sql **sql_out, struct lull_error *err)
{
    struct lull_store *store;
    const int result = lull_store_open(directory, schema, may_create, &store, err);

    if (result < 0)
        return result;
    store->sql.kind = &kind;
    *sql_out = &store->sql;
    return 0;
}

int lull_sql_open(const char *location, const struct lull_store_schema *schema, bool may_create,
                  struct lull_sql **sql_out, struct lull_error *err)
{
    static const char *const schemes[] = {"postgresql://", "postgres://"};

    for (int i = 0; location != NULL && i < 2; i++)
        if (strncmp(location, schemes[i], strlen(schemes[i])) == 0)
            return lull_sql_open_postgres(location, schema, sql_out, err);
    return open_sqlite(location, schema, may_create, sql_out, err);
}
