/*
 * Schedules of torch.distributed.pipelining as CSV (torch/distributed/pipelining/schedules.py; its
 * classes write them with _dump_csv): a row per rank, in it an action per cell, no header.
 *
 *   compute_only   F, B, I, W and overlaps (0F5;7B2)OVERLAP_F_B; blank cells are idle time steps
 *   compute_comms  also SEND_F, RECV_F, SEND_B, RECV_B, WAIT_SEND_F, WAIT_SEND_B (torch 2.15),
 *                  UNSHARD, RESHARD, REDUCE_GRAD, WAIT_REDUCE_GRAD
 * Which of them a file is follows from what is in it.
 *
 * An action is <stage><TYPE><micro-batch>, the last without micro-batch where it is of a stage.
 * Transfers become latencies of edges, so sends and receives are checked and dropped; collectives
 * and blanks are dropped as well.
 *
 * One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_TORCH_SCHEDULE_H
#define LULL_TRACE_TORCH_SCHEDULE_H

#include "base/error.h"
#include "core/pipeline/schedule/order.h"

/*
 * Reads a file, plain or gzip ("-" is standard input) into an order that has been checked and
 * cannot deadlock; its devices are the ranks. order_out: not initialised before; written on
 * success, then the caller calls lull_pipeline_order_fini. Errors, with row and column (from 1):
 * LULL_E_FORMAT an unknown action, a micro-batch or stage that is missing, comes twice or on two
 * ranks, an action that waits for what comes later (a cycle), a send without a receive, too large a
 * number, nothing at all; -ENOMEM; those of lull_lines_open and lull_lines_next.
 */
int lull_torch_schedule_read(const char *path, struct lull_pipeline_order *order_out,
                             struct lull_error *err);

#endif
