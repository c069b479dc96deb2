/*
 * The journal: what has to be put back, written before a GPU is changed for the first time.
 *
 * Each GPU has one file, <runtime dir>/saved/gpu-<uuid>, 0600 in a 0700 directory, which is written
 * whole or not at all.
 * The directory vanishes at a reboot exactly as the clocks do. If a record cannot be written, its
 * GPU must not be written either.
 *
 * An open journal is also the right to drive the GPUs of this node: it holds a lock that lulld and
 * `lull run --no-daemon` take from each other.
 *
 * Threads: one at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_JOURNAL_H
#define LULL_DEVICE_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { LULL_JOURNAL_VERSION = 1 };

/* The settings that one GPU had before Lull changed them. */
struct lull_journal_record {
    char uuid[96];
    char driver_version[96];
    uint32_t controls; /* bits of enum lull_capability: what Lull may change; restore touches
                          nothing else */
    uint32_t reference_sm_mhz;       /* 0: the driver's own choice, restored by a reset */
    uint32_t power_limit_mw;         /* the limit that was requested before Lull; 0 unknown */
    uint32_t power_limit_default_mw; /* 0 unknown */
};

struct lull_journal; /* the opened directory and its lock */

/*
 * Creates runtime_dir (0755) and its saved/ (0700) where missing, and takes the lock, for which it
 * waits up to 1 s, because a keeper may be restoring.
 * Errors: -EBUSY another process drives the GPUs; -EPERM the directory belongs to somebody else or
 * others may write it; -errno.
 */
int lull_journal_open(const char *runtime_dir, struct lull_journal **journal_out,
                      struct lull_error *err);

/* The same without the lock, in the place of the process that holds it and stands still: a keeper's
 * right (device/keeper.h). */
int lull_journal_open_unlocked(const char *runtime_dir, struct lull_journal **journal_out,
                               struct lull_error *err);

/* Gives up the lock; the records stay. NULL is allowed. */
void lull_journal_close(struct lull_journal *journal);

/* Saves a record; an older one of the GPU is replaced. Errors: -EINVAL bad UUID; -errno. */
int lull_journal_save(struct lull_journal *journal, const struct lull_journal_record *record,
                      struct lull_error *err);

/*
 * Reads the record of a GPU. Errors: -ENOENT none; LULL_E_STALE of an earlier boot; LULL_E_FORMAT
 * damaged or of another version; -ELOOP a symbolic link; -errno.
 */
int lull_journal_load(struct lull_journal *journal, const char *uuid,
                      struct lull_journal_record *record_out, struct lull_error *err);

/* Removes the record of a GPU; it is no error if there is none. */
int lull_journal_remove(struct lull_journal *journal, const char *uuid, struct lull_error *err);

/* Keeps a record that cannot be read as <name>.aside, out of the way of the next one. */
int lull_journal_set_aside(struct lull_journal *journal, const char *uuid, struct lull_error *err);

/* Writes up to limit UUIDs of GPUs with a record; returns how many there are, or -errno. */
int lull_journal_list(struct lull_journal *journal, char (*uuids_out)[96], int limit,
                      struct lull_error *err);

#endif
