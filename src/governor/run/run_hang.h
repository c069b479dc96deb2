/*
 * Reports that the job hangs, and which rank is missing (core/section/hang.h): once as a note,
 * which a second one withdraws when communication ends again, and as records for live views and
 * the report. The clocks of GPUs that only wait are lowered meanwhile; else nothing is done to the
 * job.
 *
 * Threads: the main thread of `lull run`. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_HANG_H
#define LULL_GOVERNOR_RUN_RUN_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/section/hang.h"
#include "governor/control/control.h"

enum {
    LULL_RUN_HANGS_KEPT = 16,
    LULL_RUN_HANG_MISSING = 4, /* missing ranks that are described; more are only counted */
    LULL_RUN_HANG_TEXT = 640,
    LULL_RUN_HANG_CALL = 96,
};

/* A rank that others wait for. */
struct lull_run_hang_rank {
    int32_t rank; /* in the job; -1: unknown */
    int32_t pid;
    int32_t gpu; /* on the node; -1: unknown */
    enum lull_hang_process process;
    char call[LULL_RUN_HANG_CALL]; /* its last one, such as "allreduce of DATA_PARALLEL_GROUP" */
    double call_s;                 /* how long before the report that was; NAN: there was none */
    char section[LULL_JOB_NAME_BYTES]; /* that the program announced last; "": none */
    bool is_in_section;
};

struct lull_run_hang_record {
    enum lull_hang_kind kind;
    int64_t since_ns; /* of the last progress */
    int64_t reported_ns;
    int64_t end_ns; /* 0: it lasts */
    uint32_t waiting_count;
    char call[LULL_RUN_HANG_CALL]; /* that a rank has been inside for the longest time */
    uint32_t missing_count;
    struct lull_run_hang_rank missing[LULL_RUN_HANG_MISSING];
    char text[LULL_RUN_HANG_TEXT];
};

/* The hangs of one pass. All zero is empty. */
struct lull_run_hangs {
    bool is_hung;
    int64_t begin_ns; /* of the run */
    int64_t due_ns;   /* since when it seems to hang; 0: it does not */
    uint64_t count;
    struct lull_run_hang_record records[LULL_RUN_HANGS_KEPT]; /* the first ones, and the last */
};

struct lull_run_pass;

/* Looks whether the job hangs, or no longer does. Call it twice a second. */
void lull_run_hangs_tick(struct lull_run_pass *pass, int64_t now_ns);

/* Returns the present hang; NULL: the job does not hang, as far as known. */
const struct lull_run_hang_record *lull_run_hangs_now(const struct lull_run_hangs *hangs);

/* "missing rank", "rank on another node", "ranks wait for each other", "no rank is missing". */
const char *lull_run_hang_kind_text(enum lull_hang_kind kind);

/* "running", "stopped", "ended". */
const char *lull_run_hang_process_text(enum lull_hang_process process);

#endif
