/*
 * One communication call, one section that the program names, or one gap in a GPU's computation,
 * as the decisions see it.
 *
 * Its signature contains the operation, size class, communicator and peer, but no time. Iterations
 * are found in the sequence of signatures. Pure.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_CALL_H
#define LULL_CORE_SECTION_CALL_H

#include <stdbool.h>
#include <stdint.h>

/* A place of no gap: the iteration has been left. */
#define LULL_CALL_BREAK UINT32_MAX

struct lull_call {
    int64_t time_ns;       /* of this edge, one monotonic clock for all calls */
    uint64_t bytes;        /* payload of this rank; 0: unknown */
    uint32_t communicator; /* small number */
    uint32_t ranks;        /* size of the communicator; 0: unknown */
    int32_t peer;          /* root or peer; -1: none */
    uint32_t name;         /* of a section that the program names */
    uint32_t order;        /* of a kernel: its number in the order in which the host enqueued them,
                            * which is not that of their times where they run beside each other */
    uint32_t place; /* number of the gap in the iteration, from 1; never merged with its neighbours,
                       and judged together with all equal gaps; 0: no gap */
    uint16_t operation; /* any numbering; equal numbers are equal operations */
    bool begin;         /* true: entered; false: left */
    bool is_cautious;   /* may hide computation: its clock is searched in small steps from the top
                         */
    bool is_late;       /* reported only after its end (polling): it counts as communication, but is
                           neither a symbol of the iteration nor a section */
};

/* Equal for the same call at the same place; never 0. */
uint64_t lull_call_signature(const struct lull_call *call);

/* The signature without the place, so that equal gaps at different places have equal signatures.
 * For a call that is not a gap both signatures are equal. */
uint64_t lull_call_class(const struct lull_call *call);

/* The signature of a sequence of calls, from that of the calls before (0 at the start) and that of
 * the next one. */
uint64_t lull_signature_join(uint64_t before, uint64_t next);

#endif
