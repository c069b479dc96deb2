/*
 * A journal of decisions, for users and for policies that learn from the past: a file with a JSON
 * document per line. The state of jobs always comes from Slurm, also after a restart of the client.
 *
 * One thread and, by a lock on the file, one process that writes.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SLURM_SCHEDULE_JOURNAL_H
#define LULL_CLUSTER_SLURM_SCHEDULE_JOURNAL_H

#include <stdint.h>

#include <jansson.h>

#include "base/error.h"

struct lull_schedule_journal {
    int fd;
    char path[512];
};

/* Opens the journal of a partition in a directory, which is created. Errors: -EBUSY another process
 * writes it; -ENAMETOOLONG; -errno. */
int lull_schedule_journal_open(const char *directory, const char *partition,
                               struct lull_schedule_journal *journal_out, struct lull_error *err);
void lull_schedule_journal_close(struct lull_schedule_journal *journal);

/* Adds a document. When the file reaches 8 MiB, it is renamed to NAME.1, which replaces the
 * previous one. Errors: -errno, with the path. */
int lull_schedule_journal_add(struct lull_schedule_journal *journal, const json_t *document,
                              struct lull_error *err);

/* The last document with "job": id, which the caller owns; NULL: there is none. An incomplete line
 * is ignored. Errors: -errno other than -ENOENT; LULL_E_FORMAT. */
int lull_schedule_journal_find(const char *directory, const char *partition, uint32_t id,
                               json_t **document_out, struct lull_error *err);

/*
 * Passes the last documents to a function, the oldest first: at least `most`, if there are so many,
 * and at most twice as many. Lines that are not JSON documents are skipped. A value below 0 that it
 * returns ends this and is returned. Errors: -errno other than -ENOENT; LULL_E_FORMAT; -ENOMEM.
 */
int lull_schedule_journal_recent(const char *directory, const char *partition, size_t most,
                                 int (*take)(void *user, const json_t *document), void *user,
                                 struct lull_error *err);

#endif
