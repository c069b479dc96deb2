/*
 * Private to trace: which kernels communicate, and which are copies, by their names. The tables are
 * data/communication_kernels.json: NCCL and what communicates without it.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_COMMUNICATION_H
#define LULL_TRACE_COMMUNICATION_H

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>

/* A kernel fits if an identifier of its name begins with the text, in any case. */
struct lull_communication_name {
    const char *text;
    const char *operation; /* null: taken from the kernel's name */
    bool is_whole;         /* the identifier must end with the text, too */
};

extern const struct lull_communication_name lull_communication_names[];
extern const uint32_t lull_communication_name_count;
extern const char *const lull_communication_computes[]; /* words; null behind the last */
extern const char *const lull_communication_likely[];

/* The operation of copies, which neither compute nor communicate. */
#define LULL_COMMUNICATION_COPY "copy"

/*
 * Returns the operation in Lull's words ("allreduce", "sendrecv", ...; wire/event.h has the same)
 * of a kernel. others: an expression of further names, or null. "communication" if the name does
 * not determine it; "copy": the kernel is a copy within a GPU or with the host; null: the kernel
 * computes.
 */
const char *lull_communication_of(const char *kernel, const regex_t *others);

/* Returns the operation of a collective's name, which is more specific than its kernel's:
 * "_allgather_base" is "allgather". Null: unknown. */
const char *lull_communication_of_collective(const char *collective);

/* Returns whether a kernel that lull_communication_of() takes for computation has the name of a
 * collective in it, so that the user should decide. */
bool lull_communication_is_likely(const char *kernel);

#endif
