/*
 * The journal records what has to be restored, before a GPU is changed for the first time, and the
 * last values written to the GPU, before each change. A setting that equals none of them was made
 * by another program, and Lull does not undo it.
 *
 * Each GPU has one file, <runtime dir>/saved/gpu-<uuid>, 0600 in a 0700 directory, which is written
 * atomically. Only the note of the last write is updated in place, since it precedes every change
 * of a clock. On an idle GPU the effect of a reset cannot be verified. The record of such a GPU
 * waits in unconfirmed/ until the GPU is seen busy. A reboot removes the directory, and also resets
 * the clocks. If a record cannot be written, its GPU must not be changed.
 *
 * An open journal is also the right to drive the GPUs of this node: it holds a lock that lulld and
 * `lull run --no-daemon` take from each other, and, once it has claimed them, the GPUs themselves
 * (claim.h), whatever the directory.
 *
 * Threads: one at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_JOURNAL_H
#define LULL_DEVICE_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"

enum { LULL_JOURNAL_VERSION = 3 };

/* The values that Lull has written to a GPU: [0] the last ones, [1] the ones before. The note
 * precedes the driver call, and the process may die between the two, so either may be in force. */
struct lull_journal_written {
    int64_t sm_at_ns;     /* CLOCK_MONOTONIC, when the clock was noted last; 0: never */
    uint32_t sm_mhz[2];   /* the locked clock; 0: none. A reset does not change this, because it may
                             have no effect */
    uint32_t limit_mw[2]; /* the power limit; 0: none */
    uint32_t profiles;    /* enum lull_power_profile; those that Lull may have added */
    uint32_t has_smoothing; /* Lull may have changed power smoothing; 0 or 1. Its items: */
    uint32_t smoothing_before[LULL_SMOOTHING_ITEMS];
    uint32_t smoothing[LULL_SMOOTHING_ITEMS];
};

/* The settings of one GPU before Lull changed them, and the values that Lull has written. */
struct lull_journal_record {
    char uuid[96];
    char driver_version[96];
    uint32_t controls;       /* bits of enum lull_capability: what Lull may change; restore changes
                                nothing else */
    uint32_t power_limit_mw; /* the limit that was requested before Lull; 0 unknown */
    uint32_t power_limit_default_mw; /* 0 unknown */
    uint32_t is_blind; /* the written values are unknown, so every lock may be Lull's; 0 or 1 */
    struct lull_journal_written written;
};

struct lull_journal; /* the opened directory and its lock */

/*
 * Creates runtime_dir (0755) and its saved/ (0700) where missing, and takes the lock, for which it
 * waits up to 1 s, because a keeper may be restoring.
 * Errors: -EBUSY another process drives the GPUs; -EPERM the directory belongs to another program
 * or others may write it; -errno.
 */
int lull_journal_open(const char *runtime_dir, struct lull_journal **journal_out,
                      struct lull_error *err);

/* The same without the lock, for a keeper that acts in place of the hung process that holds it
 * (device/keeper.h). */
int lull_journal_open_unlocked(const char *runtime_dir, struct lull_journal **journal_out,
                               struct lull_error *err);

/* Releases the lock. The records stay. NULL is allowed. */
void lull_journal_close(struct lull_journal *journal);

/* Saves a record; an older one of the GPU is replaced. Errors: -EINVAL bad UUID; -errno. */
int lull_journal_save(struct lull_journal *journal, const struct lull_journal_record *record,
                      struct lull_error *err);

/* Updates the last written values in the record of a GPU. Since this precedes every driver call,
 * the record's file stays open between notes: *file is -1 at first and whenever the record was
 * moved. Errors: -ENOENT the GPU has no record; -errno. */
int lull_journal_note(struct lull_journal *journal, const char *uuid, int *file,
                      const struct lull_journal_written *written, struct lull_error *err);

/* Closes that file, if it is open, and sets *file to -1: the next note finds the record by its
 * name.
 */
void lull_journal_forget_file(int *file);

/*
 * Reads the record of a GPU. Errors: -ENOENT none; LULL_E_STALE of an earlier boot; LULL_E_FORMAT
 * damaged or of another version; -ELOOP a symbolic link; -errno.
 */
int lull_journal_load(struct lull_journal *journal, const char *uuid,
                      struct lull_journal_record *record_out, struct lull_error *err);

/* Removes the record of a GPU. A missing record is not an error. */
int lull_journal_remove(struct lull_journal *journal, const char *uuid, struct lull_error *err);

/* Renames an unreadable record to <name>.aside, so that a new one can be written; earlier ones stay
 * (<name>.aside2 and so on). Errors: -EEXIST 99 of them are there; -errno. */
int lull_journal_set_aside(struct lull_journal *journal, const char *uuid, struct lull_error *err);

/* Writes up to limit UUIDs of GPUs with a record; returns how many there are, or -errno. Files that
 * are no records are named in the log and left unchanged. */
int lull_journal_list(struct lull_journal *journal, char (*uuids_out)[96], int limit,
                      struct lull_error *err);

/*
 * For GPUs that were reset while they were idle: defer() moves a record to unconfirmed/, resume()
 * back, and the others do there what the functions above do. Errors: theirs; resume() of a GPU that
 * has another record since: -EEXIST.
 */
int lull_journal_defer(struct lull_journal *journal, const char *uuid, struct lull_error *err);
int lull_journal_resume(struct lull_journal *journal, const char *uuid, struct lull_error *err);
int lull_journal_load_deferred(struct lull_journal *journal, const char *uuid,
                               struct lull_journal_record *record_out, struct lull_error *err);
int lull_journal_remove_deferred(struct lull_journal *journal, const char *uuid,
                                 struct lull_error *err);

/*
 * Makes this process the only one that writes these GPUs until the journal is closed, whatever the
 * runtime directory; repeated calls do nothing. The claim of the process that opened the journal
 * covers processes forked after that. A keeper without the lock is covered by its supervised
 * process's claim. Errors: -EBUSY, with the GPU in the text.
 */
int lull_journal_claim(struct lull_journal *journal, const struct lull_devices *devices,
                       struct lull_error *err);

#endif
