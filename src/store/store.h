/*
 * Databases of what Lull has learnt: one sqlite file per subject in the state directory. Several
 * processes may use one at a time: writers wait for each other (5 s), readers never do (WAL; where
 * the file system cannot do that, they wait as well).
 *
 * Threads: a store belongs to one thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_STORE_STORE_H
#define LULL_STORE_STORE_H

#include <stdbool.h>

#include <sqlite3.h>

#include "base/error.h"

/* One subject's tables: the same SQL for each kind of database (sql.h). */
struct lull_store_schema {
    const char *name;              /* of the file, without .db; of the row of its version */
    const char *const *migrations; /* SQL that leads from version i to i + 1 */
    int version; /* number of migrations: the version that this program reads and writes */
};

struct lull_store;

/*
 * Opens NAME.db in lull_state_directory_find(directory), which may be null; makes both if
 * may_create, and brings an older schema up to date, in one transaction. Errors: -ENOENT it is not
 * there; -EACCES; LULL_E_FORMAT it is no such database, or one of a newer Lull; -EBUSY another
 * process holds it; -errno. The text names the file.
 */
int lull_store_open(const char *directory, const struct lull_store_schema *schema, bool may_create,
                    struct lull_store **store_out, struct lull_error *err);

/* Null is allowed. */
void lull_store_close(struct lull_store *store);

/* Returns the path of the file, for people; valid until close. */
const char *lull_store_path(const struct lull_store *store);

/* Prepares one statement, which the caller finalizes before close. Null on failure, with *err set.
 */
sqlite3_stmt *lull_store_prepare(struct lull_store *store, const char *sql, struct lull_error *err);

/*
 * Runs a statement to its next row. 1: there is a row; 0: it is done. Errors: -EBUSY, -ENOSPC,
 * LULL_E_FORMAT damaged, -EIO; the text names the file.
 */
int lull_store_step(struct lull_store *store, sqlite3_stmt *statement, struct lull_error *err);

/* Begins a transaction, which takes the right to write at once. Errors: those of a step. */
int lull_store_begin(struct lull_store *store, struct lull_error *err);

/* Ends a transaction: commits if result is 0, else rolls back. Returns result, or what kept it from
 * committing. */
int lull_store_end(struct lull_store *store, int result, struct lull_error *err);

#endif
