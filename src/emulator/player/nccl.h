/*
 * The player's calls into the emulated vendor libraries, through their public C API as a program
 * makes them. Only Lull's own emulated libraries are ever loaded, never a real NCCL.
 *
 * Threads: a handle belongs to one thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PLAYER_NCCL_H
#define LULL_EMULATOR_PLAYER_NCCL_H

#include "emulator/player/play.h"
#include "emulator/stream.h"

struct lull_play_nccl; /* opaque */

/* The layout of ncclUniqueId. */
struct lull_play_nccl_id {
    char bytes[128];
};

/*
 * Loads libnccl.so.2 and, where it is there, libcuda.so.1, which it initialises as a first CUDA
 * call does. Success with *nccl_out NULL: Lull has no emulated NCCL here. Errors: LULL_E_FORMAT a
 * function is missing; -ENOMEM.
 */
int lull_play_nccl_open(struct lull_play_nccl **nccl_out, struct lull_error *err);

/* Destroys the communicators. The library stays loaded. NULL is allowed. */
void lull_play_nccl_close(struct lull_play_nccl *nccl);

/* Calls ncclGetUniqueId. Errors: LULL_E_FORMAT with NCCL's code in the text. */
int lull_play_nccl_id(struct lull_play_nccl *nccl, struct lull_play_nccl_id *id_out,
                      struct lull_error *err);

/* Calls ncclCommInitRankConfig for the communicator of that index in the play. Errors: as above. */
int lull_play_nccl_join(struct lull_play_nccl *nccl, const struct lull_play *play, uint32_t index,
                        uint32_t rank, const struct lull_play_nccl_id *id, struct lull_error *err);

/* Makes the NCCL call of a communication operation on a stream. Errors: as above. */
int lull_play_nccl_call(struct lull_play_nccl *nccl, const struct lull_play *play,
                        const struct lull_play_op *op, struct lull_stream *stream,
                        struct lull_error *err);

/* The rank's number in the communicator: how many of its members come before it. */
uint32_t lull_play_rank_in(const struct lull_play_communicator *communicator, uint32_t rank);

#endif
