/*
 * Hangs: finds that a job advances no more while ranks are inside a communication call, and which
 * rank the others wait for.
 *
 * A rank is inside while a call of its host, or a communication kernel on its GPU, has begun and
 * not ended. A rank whose kernels are not timed is inside while it has enqueued more collectives on
 * a communicator than another member. The job hangs once a rank has been inside for the bound, and
 * for as long no rank has completed any communication. Enqueueing counts as progress only of ranks
 * whose kernels are not timed: hosts run ahead of a GPU that waits.
 *
 * Who is missing, in this order:
 *   - members that are inside nothing: of these, the ones that have entered fewer collectives of
 *     the communicator than others, if that is known;
 *   - members whose process has stopped or ended, whatever they are inside;
 *   - a rank on another node, if the communicator has more members than there are here;
 *   - no rank: ranks wait for each other in different communicators, or the transport has failed.
 *
 * Members are matched by the id that NCCL gives a communicator, or by its size if it has no id.
 * Without an id, counts are compared only if each rank has one communicator of that size.
 *
 * Limits: captured graphs and calls that poll report nothing before they end. If no rank's kernels
 * are timed and all members have entered a collective that does not end, nothing shows that. The
 * progress of one part of a job counts for all parts, although they may be independent.
 *
 * Pure; create/destroy; one thread. Source: the comparison of collective counts per communicator is
 * that of PyTorch's flight recorder.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_HANG_H
#define LULL_CORE_SECTION_HANG_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LULL_HANG_RANKS = 256,
    LULL_HANG_COMMUNICATORS = 33, /* per rank; the last one is that of all further numbers */
};

/* One edge of a call or kernel, or an enqueued operation. */
struct lull_hang_edge {
    int64_t time_ns;
    uint32_t communicator; /* its number in the process; any */
    uint32_t ranks;        /* its size; 0: unknown */
    uint32_t number;       /* of the thread for a call, of the kernel for a kernel */
    uint16_t operation;    /* any numbering */
    bool is_kernel;
    bool is_collective; /* all members of the communicator take part */
};

/* The last communication of a rank, or the oldest one that it is inside. */
struct lull_hang_call {
    int64_t time_ns; /* of its begin if the rank is inside, else of its last edge; 0: none */
    uint32_t communicator;
    uint16_t operation;
    bool is_inside;
    bool is_kernel; /* that is a kernel on the GPU, not a call of the host */
};

enum lull_hang_process { LULL_HANG_RUNS, LULL_HANG_STOPPED, LULL_HANG_ENDED };

enum lull_hang_kind {
    LULL_HANG_NONE,
    LULL_HANG_MISSING,   /* ranks of this node are missing */
    LULL_HANG_ELSEWHERE, /* all ranks here are inside, and members are on other nodes */
    LULL_HANG_DEADLOCK,  /* all are inside, in different communicators */
    LULL_HANG_INSIDE,    /* all are inside the same communicator */
};

struct lull_hang_finding {
    enum lull_hang_kind kind;
    int64_t since_ns; /* the last progress, or the begin of the oldest call if that is later */
    uint32_t oldest;  /* the rank that has been inside for the longest time */
    uint32_t waiting_count; /* ranks that are inside, and not missing */
    uint32_t missing_count;
    bool is_missing[LULL_HANG_RANKS];
};

struct lull_hang;

/* bound_ns > 0. Returns NULL if memory runs out. */
struct lull_hang *lull_hang_create(int64_t bound_ns);
void lull_hang_destroy(struct lull_hang *hang);

/* A process, without a past, has this rank's number from now on. Ranks are < LULL_HANG_RANKS. */
void lull_hang_join(struct lull_hang *hang, uint32_t rank);

/* Sets the state of a rank's process. A rank that has ended takes part until another one joins in
 * its place. */
void lull_hang_set_process(struct lull_hang *hang, uint32_t rank, enum lull_hang_process process);

/* The rank has a communicator of that number. id: equal in all of its members; 0: unknown. */
void lull_hang_announce(struct lull_hang *hang, uint32_t rank, uint32_t communicator, uint32_t id,
                        uint32_t ranks);

/* Edges of one rank come in any order; each is taken once. O(1). */
void lull_hang_enqueue(struct lull_hang *hang, uint32_t rank, const struct lull_hang_edge *edge);
void lull_hang_begin(struct lull_hang *hang, uint32_t rank, const struct lull_hang_edge *edge);
void lull_hang_end(struct lull_hang *hang, uint32_t rank, const struct lull_hang_edge *edge);

/* Edges of the rank were lost: it is inside nothing that is known, and its counts are void. */
void lull_hang_lose(struct lull_hang *hang, uint32_t rank);

/* Returns whether the job hangs. O(ranks), and O(ranks^2) if kernels of a rank are not timed. */
bool lull_hang_is_due(const struct lull_hang *hang, int64_t now_ns);

/* Finds who is missing. kind NONE, and all else 0: the job does not hang. O(ranks^2). */
void lull_hang_find(const struct lull_hang *hang, int64_t now_ns,
                    struct lull_hang_finding *finding_out);

/* Returns the call that the rank is inside, or its last one. Of a rank whose kernels are not timed,
 * the operation is the last that it has enqueued. O(ranks) then. */
struct lull_hang_call lull_hang_look(const struct lull_hang *hang, uint32_t rank);

#endif
