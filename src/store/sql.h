/*
 * One small table of functions over the databases that several processes or nodes share: sqlite
 * (store.c) and PostgreSQL (sql_postgres.c). Statements are SQL that both understand, with
 * parameters $1, $2 ...; values go in and come out as text, and numbers so that none of their
 * digits is lost.
 *
 * Threads: a database belongs to one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_STORE_SQL_H
#define LULL_STORE_SQL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

enum { LULL_SQL_PARAMETERS = 16, LULL_SQL_COLUMNS = 24, LULL_SQL_NUMBER_BYTES = 32 };

/* The parameters of a statement; begin with {0}. Text must live until the statement has run. */
struct lull_sql_values {
    size_t count;
    const char *texts[LULL_SQL_PARAMETERS]; /* NULL: SQL's NULL */
    char numbers[LULL_SQL_PARAMETERS][LULL_SQL_NUMBER_BYTES];
};

void lull_sql_add_text(struct lull_sql_values *values, const char *text);
void lull_sql_add_integer(struct lull_sql_values *values, int64_t value);
/* A number that is not finite is stored as NULL. */
void lull_sql_add_number(struct lull_sql_values *values, double value);

/* A row of a result; borrowed within the call. */
struct lull_sql_row {
    size_t count;
    const char *texts[LULL_SQL_COLUMNS]; /* NULL: SQL's NULL */
};

/* Return a cell's value. A text that is NULL is ""; other values have a stand-in for it. */
const char *lull_sql_text(const struct lull_sql_row *row, size_t column);
int64_t lull_sql_integer(const struct lull_sql_row *row, size_t column, int64_t null_value);
double lull_sql_number(const struct lull_sql_row *row, size_t column, double null_value);

/* Called for each row. A nonzero value ends the statement, which then returns it. */
typedef int (*lull_sql_each)(void *context, const struct lull_sql_row *row);

struct lull_sql; /* an open database */

/* Operations of a kind of database. The texts of all errors name the database. */
struct lull_sql_kind {
    /* Runs one statement; each may be null. */
    int (*run)(struct lull_sql *sql, const char *statement, const struct lull_sql_values *values,
               lull_sql_each each, void *context, struct lull_error *err);
    /* Begins a transaction that is alone with the database until its end. */
    int (*begin)(struct lull_sql *sql, struct lull_error *err);
    /* Commits if result is 0, else rolls back. Returns result, or what kept it from committing. */
    int (*end)(struct lull_sql *sql, int result, struct lull_error *err);
    void (*close)(struct lull_sql *sql);
    const char *now; /* expression: seconds since 1970 by the clock that all users share */
};

/* The beginning of each kind's own structure. */
struct lull_sql {
    const struct lull_sql_kind *kind;
};

/*
 * Opens a database, and brings its tables up to date. location: "postgresql://..." or
 * "postgres://...", as libpq reads it (on an emulated node the schema `emulated` of the database);
 * else what lull_store_open takes. Errors: those of lull_store_open; LULL_E_UNSUPPORTED libpq is
 * not there; -ECONNREFUSED there is no such server.
 */
int lull_sql_open(const char *location, const struct lull_store_schema *schema, bool may_create,
                  struct lull_sql **sql_out, struct lull_error *err);

/* Null is allowed. */
void lull_sql_close(struct lull_sql *sql);

/* Runs one statement; values may be NULL. */
int lull_sql_run(struct lull_sql *sql, const char *statement, const struct lull_sql_values *values,
                 lull_sql_each each, void *context, struct lull_error *err);

/* Reads the seconds since 1970 by the database's clock. */
int lull_sql_now(struct lull_sql *sql, int64_t *now_s_out, struct lull_error *err);

/* Reads one integer of one row. Returns 1; 0: there is no row, and *value_out is untouched. */
int lull_sql_get_integer(struct lull_sql *sql, const char *statement,
                         const struct lull_sql_values *values, int64_t *value_out,
                         struct lull_error *err);

/* Opens a PostgreSQL database, for lull_sql_open. */
int lull_sql_open_postgres(const char *location, const struct lull_store_schema *schema,
                           struct lull_sql **sql_out, struct lull_error *err);

#endif
