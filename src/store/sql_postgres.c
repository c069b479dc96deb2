/*
 * PostgreSQL through libpq, which is opened when it is requested: the build needs nothing of it,
 * and users without such a server need not install it. Declared from its documentation (libpq,
 * "Database Connection Control Functions", "Command Execution Functions"); its ABI is that of
 * libpq.so.5.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "store/sql.h"

struct pg_connection;
struct pg_result;
enum { CONNECTION_OK = 0, COMMAND_OK = 1, TUPLES_OK = 2 };

/* One pointer for each function that is used, in the order of names. */
struct library {
    void *handle;
    struct pg_connection *(*connect)(const char *const *keywords, const char *const *values,
                                     int expand_dbname);
    int (*status)(const struct pg_connection *connection);
    char *(*error_message)(const struct pg_connection *connection);
    void (*finish)(struct pg_connection *connection);
    struct pg_result *(*exec)(struct pg_connection *connection, const char *statements);
    struct pg_result *(*exec_params)(struct pg_connection *connection, const char *statement,
                                     int count, const unsigned *types, const char *const *values,
                                     const int *lengths, const int *formats, int result_format);
    int (*result_status)(const struct pg_result *result);
    int (*tuple_count)(const struct pg_result *result);
    int (*field_count)(const struct pg_result *result);
    int (*is_null)(const struct pg_result *result, int row, int column);
    char *(*value)(const struct pg_result *result, int row, int column);
    void (*clear)(struct pg_result *result);
};

struct postgres {
    struct lull_sql sql; /* first */
    struct library library;
    struct pg_connection *connection;
};

static struct postgres *postgres_of(struct lull_sql *sql)
{
    return (struct postgres *)(void *)sql;
}

/* ---- the library --------------------------------------------------------------------------- */

static int sql_postgres_load(struct library *library, struct lull_error *err)
{
    const struct {
        const char *name;
        void *place;
    } functions[] = {
        {"PQconnectdbParams", &library->connect},
        {"PQstatus", &library->status},
        {"PQerrorMessage", &library->error_message},
        {"PQfinish", &library->finish},
        {"PQexec", &library->exec},
        {"PQexecParams", &library->exec_params},
        {"PQresultStatus", &library->result_status},
        {"PQntuples", &library->tuple_count},
        {"PQnfields", &library->field_count},
        {"PQgetisnull", &library->is_null},
        {"PQgetvalue", &library->value},
        {"PQclear", &library->clear},
    };

    library->handle = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (library->handle == NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "PostgreSQL: libpq.so.5 is not here; install it (Debian: libpq5)");
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *symbol = dlsym(library->handle, functions[i].name);

        if (symbol == NULL) {
            dlclose(library->handle);
            return lull_error_set(err, LULL_E_UNSUPPORTED, "PostgreSQL: libpq.so.5 lacks %s",
                                  functions[i].name);
        }
        memcpy(functions[i].place, &symbol, sizeof(symbol));
    }
    return 0;
}

/* Only the first line of a message is kept: the address may hold a password and is not repeated. */
static int sql_postgres_fail(const struct postgres *postgres, int code, struct lull_error *err)
{
    const char *text = postgres->library.error_message(postgres->connection);

    return lull_error_set(err, code, "PostgreSQL: %.*s", (int)strcspn(text, "\n"), text);
}

/* ---- statements ---------------------------------------------------------------------------- */

/* Reads a result and frees it. */
static int sql_postgres_finish(struct postgres *postgres, struct pg_result *result,
                               lull_sql_each each, void *context, struct lull_error *err)
{
    const struct library *library = &postgres->library;
    const int status = library->result_status(result);
    int code = 0;

    if (status != COMMAND_OK && status != TUPLES_OK)
        code = sql_postgres_fail(postgres, -EIO, err);
    for (int i = 0; code == 0 && each != NULL && i < library->tuple_count(result); i++) {
        struct lull_sql_row row = {.count = (size_t)library->field_count(result)};

        if (row.count > LULL_SQL_COLUMNS)
            row.count = LULL_SQL_COLUMNS;
        for (size_t k = 0; k < row.count; k++)
            row.texts[k] =
                library->is_null(result, i, (int)k) != 0 ? NULL : library->value(result, i, (int)k);
        code = each(context, &row);
    }
    library->clear(result);
    return code;
}

static int sql_postgres_run(struct lull_sql *sql, const char *statement,
                            const struct lull_sql_values *values, lull_sql_each each, void *context,
                            struct lull_error *err)
{
    struct postgres *postgres = postgres_of(sql);

    return sql_postgres_finish(postgres,
                               postgres->library.exec_params(postgres->connection, statement,
                                                             (int)values->count, NULL,
                                                             values->texts, NULL, NULL, 0),
                               each, context, err);
}

/* Runs several statements, without parameters. */
static int sql_postgres_execute(struct postgres *postgres, const char *statements,
                                struct lull_error *err)
{
    return sql_postgres_finish(postgres, postgres->library.exec(postgres->connection, statements),
                               NULL, NULL, err);
}

/* The lock is the database's own. It is released with the transaction, and does not hold up
 * readers. */
static int sql_postgres_begin(struct lull_sql *sql, struct lull_error *err)
{
    struct postgres *postgres = postgres_of(sql);
    const int result = sql_postgres_execute(
        postgres, "BEGIN; SELECT pg_advisory_xact_lock(hashtext('lull'))", err);

    if (result < 0)
        sql_postgres_execute(postgres, "ROLLBACK", NULL);
    return result;
}

static int sql_postgres_end(struct lull_sql *sql, int result, struct lull_error *err)
{
    struct postgres *postgres = postgres_of(sql);

    if (result == 0)
        result = sql_postgres_execute(postgres, "COMMIT", err);
    if (result != 0)
        sql_postgres_execute(postgres, "ROLLBACK", NULL);
    return result;
}

static void close_postgres(struct lull_sql *sql)
{
    struct postgres *postgres = postgres_of(sql);

    if (postgres->connection != NULL)
        postgres->library.finish(postgres->connection);
    /* libpq stays loaded: what it has registered with others may outlive it. */
    free(postgres);
}

/* ---- opening ------------------------------------------------------------------------------- */

static int sql_postgres_read_version(struct lull_sql *sql, const char *name, int64_t *version_out,
                                     struct lull_error *err)
{
    struct lull_sql_values values = {0};

    lull_sql_add_text(&values, name);
    return lull_sql_get_integer(sql, "SELECT version FROM lull_schema WHERE name = $1", &values,
                                version_out, err);
}

/* Brings the tables up to date, within the caller's transaction. */
static int sql_postgres_migrate(struct lull_sql *sql, const struct lull_store_schema *schema,
                                struct lull_error *err)
{
    struct postgres *postgres = postgres_of(sql);
    struct lull_sql_values values = {0};
    int64_t version = 0;
    int result = sql_postgres_execute(postgres,
                                      "CREATE TABLE IF NOT EXISTS lull_schema"
                                      " (name TEXT PRIMARY KEY, version BIGINT NOT NULL)",
                                      err);

    if (result == 0)
        result = sql_postgres_read_version(sql, schema->name, &version, err);
    if (result < 0 || version == schema->version)
        return result < 0 ? result : 0;
    if (version > schema->version)
        return lull_error_set(
            err, LULL_E_FORMAT,
            "PostgreSQL: tables written by a newer Lull (version %d, this one reads %d)",
            (int)version, schema->version);
    result = 0;
    for (int64_t i = version; result == 0 && i < schema->version; i++)
        result = sql_postgres_execute(postgres, schema->migrations[i], err);
    lull_sql_add_text(&values, schema->name);
    lull_sql_add_integer(&values, schema->version);
    if (result == 0)
        result = lull_sql_run(sql,
                              "INSERT INTO lull_schema VALUES ($1, $2)"
                              " ON CONFLICT (name) DO UPDATE SET version = EXCLUDED.version",
                              &values, NULL, NULL, err);
    return result;
}

static const struct lull_sql_kind kind = {
    .run = sql_postgres_run,
    .begin = sql_postgres_begin,
    .end = sql_postgres_end,
    .close = close_postgres,
    .now = "CAST(floor(extract(epoch FROM clock_timestamp())) AS BIGINT)",
};

/* A network that swallows what is sent must not hold up a job's end for hours. */
static struct pg_connection *sql_postgres_connect_to(const struct library *library,
                                                     const char *location)
{
    static const char *const keywords[] = {
        "dbname", "application_name", "tcp_user_timeout", "connect_timeout", "options", NULL};
    const char *const values[] = {
        location, "lull", "10000", "10", "-c client_min_messages=warning -c lock_timeout=10000",
        NULL};

    return library->connect(keywords, values, 1);
}

/* Data learnt on an emulated node is kept apart here as well, in a schema of its own. */
static int choose_schema(struct postgres *postgres, struct lull_error *err)
{
    if (!lull_file_is_node_emulated())
        return 0;
    return sql_postgres_execute(
        postgres, "CREATE SCHEMA IF NOT EXISTS emulated; SET search_path TO emulated", err);
}

int lull_sql_open_postgres(const char *location, const struct lull_store_schema *schema,
                           struct lull_sql **sql_out, struct lull_error *err)
{
    struct postgres *postgres = calloc(1, sizeof(*postgres));
    int result;

    if (postgres == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for a database");
    postgres->sql.kind = &kind;
    result = sql_postgres_load(&postgres->library, err);
    if (result < 0) {
        free(postgres);
        return result;
    }
    postgres->connection = sql_postgres_connect_to(&postgres->library, location);
    if (postgres->library.status(postgres->connection) != CONNECTION_OK)
        result = sql_postgres_fail(postgres, -ECONNREFUSED, err);
    if (result == 0)
        result = choose_schema(postgres, err);
    if (result == 0)
        result = sql_postgres_begin(&postgres->sql, err);
    if (result == 0)
        result = sql_postgres_end(&postgres->sql, sql_postgres_migrate(&postgres->sql, schema, err),
                                  err);
    if (result < 0) {
        close_postgres(&postgres->sql);
        return result;
    }
    *sql_out = &postgres->sql;
    return 0;
}
