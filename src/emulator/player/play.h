/*
 * A play describes the work of the ranks of a distributed job on their GPUs, as one repeating
 * period of operations per rank. run.h plays it on the emulated node in real time and sim.h in
 * virtual time; trace.h makes plays of recorded jobs and presets.h of well-known kinds of jobs.
 *
 * An operation begins when the one before it on its stream has ended, and delay_ms after the last
 * of its dependencies has. A delay is the host's: no clock stretches it. A communication kernel of
 * several ranks spins on each GPU until all have started theirs; from then on it takes duration_ms.
 *
 * Threads: one builds; after lull_play_finish() nothing changes and any may read.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PLAYER_PLAY_H
#define LULL_EMULATOR_PLAYER_PLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
    LULL_PLAY_RANKS = 16,
    LULL_PLAY_STREAMS = 8,
    LULL_PLAY_COMMUNICATORS = 32,
    LULL_PLAY_DEPENDENCIES = 2,
    LULL_PLAY_FURTHER = LULL_PLAY_STREAMS, /* dependencies beyond these */
    LULL_PLAY_OPS = 1 << 20,               /* the most operations of one rank */
    LULL_PLAY_COLLECTIVES = LULL_PLAY_COMMUNICATORS + LULL_PLAY_RANKS * LULL_PLAY_RANKS,
};

#define LULL_PLAY_NONE (-1)
#define LULL_PLAY_NO_COLLECTIVE UINT32_MAX

enum lull_play_kind { LULL_PLAY_COMPUTE, LULL_PLAY_COMMUNICATION };

enum lull_play_function {
    LULL_PLAY_ALL_REDUCE,
    LULL_PLAY_ALL_GATHER,
    LULL_PLAY_REDUCE_SCATTER,
    LULL_PLAY_ALL_TO_ALL,
    LULL_PLAY_BROADCAST, /* its root is the communicator's first member */
    LULL_PLAY_SEND_RECV, /* a recorded group of sends and receives */
    LULL_PLAY_SEND,
    LULL_PLAY_RECV,
    LULL_PLAY_FUNCTIONS,
};

struct lull_play_op {
    enum lull_play_kind kind;
    uint32_t stream; /* < LULL_PLAY_STREAMS */
    /*
     * Indices of operations of the same rank, or LULL_PLAY_NONE. One that is not smaller than the
     * operation's own means that of the period before; in the first period, the play's beginning.
     * With none at all, delay_ms counts from the end of the one before on the stream. An index plus
     * the rank's number of operations always means that of the period before.
     */
    int32_t depends[LULL_PLAY_DEPENDENCIES];
    uint32_t further_count;
    int32_t further[LULL_PLAY_FURTHER]; /* more indices like these, none of them LULL_PLAY_NONE */
    double delay_ms;                    /* time from the last dependency to its begin, >= 0 */
    double
        duration_ms; /* at the highest clock, > 0; of communication: after all ranks have started */
    double lead_ms;  /* about how far ahead the host enqueues it; 0: the default of the play */
    bool begins_step; /* a new iteration of the job begins with it */

    /* Compute. */
    const char
        *profile; /* profile of the GPU model, as lull_gpu_model_profile(); borrowed permanently */
    uint32_t kernels;    /* number of kernels for which it stands, >= 1 */
    const char *section; /* reported to liblull on the GPU's time line, as by a program that
                          * synchronises there; NULL: none; borrowed permanently */

    /* Communication. */
    enum lull_play_function function;
    uint32_t communicator; /* as lull_play_add_communicator() gave it */
    uint32_t peer;         /* of a send or receive: a rank of the play in the communicator */
    uint64_t bytes;        /* as the program passes them to NCCL */
    double link_gbs;       /* bandwidth of the slowest link of the path, > 0 */
    uint32_t channels;     /* number of SMs that drive it, >= 1 */

    /* Set by lull_play_finish(). */
    uint32_t collective; /* collective in which the ranks meet; LULL_PLAY_NO_COLLECTIVE: it waits
                          * for no rank */
    uint32_t ordinal;    /* its place among the rank's operations at that meeting in a period */
    uint32_t visits;     /* number of those operations */
};

struct lull_play_communicator {
    char name[32];
    uint32_t members;     /* one bit per rank of the play */
    uint32_t world_ranks; /* its ranks in the job, as passed to NCCL; at least those of the play */
};

struct lull_play_rank {
    struct lull_play_op *ops;
    uint32_t count;
    uint32_t capacity;
    uint32_t steps; /* number of iterations in a period */
};

/* A rank whose computation takes `factor` times as long in the periods from..to - 1. */
struct lull_play_straggler {
    uint32_t rank;
    double factor; /* above 0; 0: there is no straggler */
    uint64_t from;
    uint64_t to;
};

struct lull_play {
    uint32_t rank_count;
    struct lull_play_rank ranks[LULL_PLAY_RANKS];
    uint32_t communicator_count;
    struct lull_play_communicator communicators[LULL_PLAY_COMMUNICATORS];
    /* Set before lull_play_finish(). */
    double lead_ms;      /* time by which the host runs ahead of its GPU, > 0; by default 3 */
    double jitter_ratio; /* spread of each rank's computation over the periods; by default 0 */
    uint64_t seed;       /* seed of that spread */
    bool is_recorded;    /* durations already include the cost of overlap, so it must not be added
                          * again */
    char product[64];    /* name of the GPU that was recorded; "" unknown */
    struct lull_play_straggler straggler;
    /* Set by lull_play_finish(). */
    uint32_t collective_count;
    uint32_t collective_members[LULL_PLAY_COLLECTIVES]; /* one bit per rank */
};

/* Creates an empty play. Errors: -EINVAL: not 1..LULL_PLAY_RANKS ranks; -ENOMEM. */
int lull_play_create(uint32_t rank_count, struct lull_play **play_out, struct lull_error *err);

/* Frees the play; NULL is allowed. */
void lull_play_destroy(struct lull_play *play);

/* Adds a communicator and returns its index. Errors: -ENOSPC; -EINVAL: it has no member, or an
 * unknown one. */
int lull_play_add_communicator(struct lull_play *play, const char *name, uint32_t members,
                               struct lull_error *err);

/* Adds a copy of op to a rank's period; its index. Errors: -EINVAL no such rank; -ENOSPC; -ENOMEM.
 * lull_play_finish() checks the contents of op. */
int lull_play_add(struct lull_play *play, uint32_t rank, const struct lull_play_op *op,
                  struct lull_error *err);

/*
 * Checks the play and derives its meetings. Afterwards it can be played but not changed. Errors:
 * -EINVAL, the text names rank and operation.
 */
int lull_play_finish(struct lull_play *play, struct lull_error *err);

/* NCCL's name of a function, e.g. "AllReduce". */
const char *lull_play_function_name(enum lull_play_function function);

#endif
