/*
 * What a kernel communicates, from the words that profilers use for it.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_COMMUNICATION_H
#define LULL_TRACE_COMMUNICATION_H

#include <stdint.h>

/*
 * The operation in Lull's words ("allreduce", "sendrecv", ...; wire/event.h has the same) of a
 * kernel and the collective it belongs to ("" unknown): "_allgather_base" and
 * ncclDevKernel_AllGather are both "allgather". "communication" where neither tells; NULL: it does
 * not communicate.
 */
const char *lull_communication_operation(const char *kernel, const char *collective);

/* Bytes of that many elements of a PyTorch type ("Float", "BFloat16"); -1 unknown. */
int64_t lull_communication_bytes(int64_t elements, const char *dtype);

#endif
