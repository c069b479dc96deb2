/*
 * Makes one rank of a play from the GPU kernels that were recorded on a real job.
 *
 * An operation that had ended in the record before another one began precedes it at any clock, on
 * any stream: the record does not show which of them the later one needed. The gaps stay as they
 * were recorded: every operation begins as long after the last of those as in the record. If one
 * takes longer, everything after it moves, since no gap shrinks to absorb it; replayed at the
 * highest clock, every time is the recorded one. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PLAYER_TRACE_H
#define LULL_EMULATOR_PLAYER_TRACE_H

#include <stddef.h>

#include "emulator/player/play.h"

/* Compute kernels with a shorter gap between them become one operation, unless communication begins
 * or ends between them; */
#define LULL_PLAY_MERGE_NS INT64_C(20000)

/* One kernel on the GPU. */
struct lull_play_kernel {
    int64_t begin_ns;
    int64_t end_ns;
    int64_t launch_ns; /* time of the host's call; -1: unknown */
    uint64_t bytes;    /* 0: unknown */
    uint32_t stream;   /* number of the recorded stream */
    bool is_communication;
    enum lull_play_function function; /* of communication; sends and receives are SEND_RECV */
    uint32_t communicator;            /* of communication; of this rank alone */
};

struct lull_play_trace_options {
    const char *profile; /* profile of compute, as lull_gpu_model_profile(); borrowed permanently */
    double link_gbs;     /* the most that the link of communication moves */
    uint32_t channels;
    int64_t pause_ns;        /* from the end of one replay to the start of the next, >= 0 */
    const int64_t *steps_ns; /* begins of the job's iterations, ascending; may be NULL */
    size_t step_count;
};

/*
 * Adds the kernels, in any order, as the period of a rank that has none yet, and marks the play as
 * recorded. Kernels without length are left out. Errors: -EINVAL no kernels, one that ends before
 * it begins, more communication at once than there are streams; -ENOSPC; -ENOMEM.
 */
int lull_play_add_trace(struct lull_play *play, uint32_t rank,
                        const struct lull_play_kernel *kernels, size_t count,
                        const struct lull_play_trace_options *options, struct lull_error *err);

#endif
