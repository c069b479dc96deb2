/*
 * Private to trace: which kernels communicate, by their names. The table is
 * data/communication_kernels.json: NCCL and what communicates without it.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_COMMUNICATION_H
#define LULL_TRACE_COMMUNICATION_H

#include <regex.h>
#include <stdint.h>

/* A kernel whose name contains the text, in any case, communicates. */
struct lull_communication_name {
    const char *text;
    const char *operation; /* null: the kernel's name says it */
};

extern const struct lull_communication_name lull_communication_names[];
extern const uint32_t lull_communication_name_count;

/*
 * Returns the operation in Lull's words ("allreduce", "sendrecv", ...; wire/event.h has the same)
 * of a kernel and of the collective that it belongs to ("" unknown): "_allgather_base" and
 * ncclDevKernel_AllGather are both "allgather". others: an expression of further names, or null.
 * "communication" where nothing tells; null: the kernel computes.
 */
const char *lull_communication_of(const char *kernel, const char *collective,
                                  const regex_t *others);

#endif
