/*
 * The journal: what has to be restored, written before a GPU is changed for the first time, and
 * what was written to the GPU last, noted before each change. A setting that equals neither was
 * made by another program and is not Lull's to undo.
 *
 * Each GPU has one file, <runtime dir>/saved/gpu-<uuid>, 0600 in a 0700 directory, which is written
 * whole or not at all; only the note of the last writing is renewed in place, for it comes before
 * every change of a clock. On an idle GPU the effect of a reset cannot be verified. The record of
 * such a GPU waits in unconfirmed/ until the GPU is seen busy. The directory vanishes at a reboot
 * exactly as the clocks do. If a record cannot be written, its GPU must not be written either.
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

enum { LULL_JOURNAL_VERSION = 2 };

/* What Lull has written to a GPU: [0] last, [1] before that. The note precedes the driver's call,
 * and a process may die between the two, so either of them may hold. */
struct lull_journal_written {
    int64_t sm_at_ns;   /* CLOCK_MONOTONIC, when the clock was noted last; 0: never */
    uint32_t sm_mhz[2]; /* the clock that was locked; 0: none. A reset does not change them, because
                           it may have no effect */
    uint32_t limit_mw[2]; /* the power limit; 0: none */
};

/* The settings that one GPU had before Lull changed them, and what Lull has made of them. */
struct lull_journal_record {
    char uuid[96];
    char driver_version[96];
    uint32_t controls;       /* bits of enum lull_capability: what Lull may change; restore touches
                                nothing else */
    uint32_t power_limit_mw; /* the limit that was requested before Lull; 0 unknown */
    uint32_t power_limit_default_mw; /* 0 unknown */
    uint32_t is_blind; /* what was written is not known, so every lock may be Lull's; 0 or 1 */
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

/* The same without the lock, instead of the process that holds it and hangs: a keeper's
 * right (device/keeper.h). */
int lull_journal_open_unlocked(const char *runtime_dir, struct lull_journal **journal_out,
                               struct lull_error *err);

/* Gives up the lock; the records stay. NULL is allowed. */
void lull_journal_close(struct lull_journal *journal);

/* Saves a record; an older one of the GPU is replaced. Errors: -EINVAL bad UUID; -errno. */
int lull_journal_save(struct lull_journal *journal, const struct lull_journal_record *record,
                      struct lull_error *err);

/* Renews what was written last in the record of a GPU. It stands before every driver call, so the
 * record's file stays open from note to note: *file is -1 at first and whenever the record was
 * moved. Errors: -ENOENT it has none; -errno. */
int lull_journal_note(struct lull_journal *journal, const char *uuid, int *file,
                      const struct lull_journal_written *written, struct lull_error *err);

/* Closes that file, if it is open, and puts -1 there: the next note finds the record by its name.
 */
void lull_journal_forget_file(int *file);

/*
 * Reads the record of a GPU. Errors: -ENOENT none; LULL_E_STALE of an earlier boot; LULL_E_FORMAT
 * damaged or of another version; -ELOOP a symbolic link; -errno.
 */
int lull_journal_load(struct lull_journal *journal, const char *uuid,
                      struct lull_journal_record *record_out, struct lull_error *err);

/* Removes the record of a GPU; it is no error if there is none. */
int lull_journal_remove(struct lull_journal *journal, const char *uuid, struct lull_error *err);

/* Keeps a record that cannot be read as <name>.aside, out of the way of the next one; what was set
 * aside earlier stays (<name>.aside2 and so on). Errors: -EEXIST 99 of them are there; -errno. */
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
 * runtime directory; again it does nothing. A process that was forked after the journal was opened
 * is covered by the claim of the one that opened it, and a keeper without the lock by its
 * supervised process's. Errors: -EBUSY, with the GPU in the text.
 */
int lull_journal_claim(struct lull_journal *journal, const struct lull_devices *devices,
                       struct lull_error *err);

#endif
