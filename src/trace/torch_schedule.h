/*
 * Schedules of torch.distributed.pipelining as CSV (torch/distributed/pipelining/schedules.py; its
 * classes write them with _dump_csv): a row per rank, in it an action per cell, no header.
 *
 *   compute_only   F, B, I, W and overlaps (0F5;7B2)OVERLAP_F_B; blank cells are idle time steps
 *   compute_comms  also SEND_F, RECV_F, SEND_B, RECV_B, WAIT_SEND_F, WAIT_SEND_B (torch 2.15),
 *                  UNSHARD, RESHARD, REDUCE_GRAD, WAIT_REDUCE_GRAD
 * Which of them a file is follows from what is in it; only messages and has_comms tell.
 *
 * An action is <stage><TYPE><micro-batch>, the last without micro-batch where it is of a stage.
 * Transfers become latencies of edges, so sends and receives are checked and dropped; an UNSHARD
 * and a REDUCE_GRAD become fixed operations where they are given a time; blanks are dropped.
 *
 * One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_TORCH_SCHEDULE_H
#define LULL_TRACE_TORCH_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/schedule/order.h"

/* How long the collectives take, on every stage; 0: they are left out. */
struct lull_torch_times {
    int64_t unshard_ns;
    int64_t unshard_energy_nj;
    int64_t reduce_ns;
    int64_t reduce_energy_nj;
};

struct lull_torch_schedule {
    struct lull_pipeline_order order; /* devices are ranks; checked, and never stuck */
    bool has_comms;                   /* compute_comms */
    size_t columns;                   /* of the longest row, trailing blanks left out */
};

/*
 * Reads a file, plain or gzip ("-" is standard input). times may be NULL. schedule_out: not
 * initialised before; written on success, then the caller fini's its order. Errors, with row and
 * column (from 1): LULL_E_FORMAT an unknown action, a micro-batch or stage that is missing, comes
 * twice or on two ranks, an action that waits for what comes later (a cycle), a send that nobody
 * receives, too large a number, nothing at all; -ENOMEM; those of lull_lines_open and
 * lull_lines_next.
 */
int lull_torch_schedule_read(const char *path, const struct lull_torch_times *times,
                             struct lull_torch_schedule *schedule_out, struct lull_error *err);

#endif
