/*
 * Determines the purpose of a communicator: data, tensor, pipeline or expert parallelism.
 *
 * The name decides where the framework gives one (Megatron's and PyTorch's group descriptions).
 * Otherwise the traffic decides:
 *   all-to-all, or messages to more than two peers      expert
 *   messages to the neighbours only                     pipeline
 *   reductions of one size, several per iteration,
 *   within one node                                     tensor
 *   other reductions, and parameters gathered and
 *   gradients scattered (FSDP, ZeRO)                    data
 * Reductions under 4 KiB (losses, norms, barriers) do not count.
 *
 * Pure; caller's storage. Sources: nccl.md section 5, Megatron-LM parallel_state.py.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_COMMUNICATOR_H
#define LULL_CORE_SECTION_COMMUNICATOR_H

#include <stdbool.h>
#include <stdint.h>

enum lull_parallelism {
    LULL_PARALLELISM_UNKNOWN = 0,
    LULL_PARALLELISM_DATA,
    LULL_PARALLELISM_TENSOR, /* sequence and context parallelism too: within a layer */
    LULL_PARALLELISM_PIPELINE,
    LULL_PARALLELISM_EXPERT,
};

/* The kinds of operations that a communicator carries. */
enum lull_transfer {
    LULL_TRANSFER_ALLREDUCE = 0,
    LULL_TRANSFER_ALLGATHER,
    LULL_TRANSFER_REDUCE_SCATTER,
    LULL_TRANSFER_ALLTOALL,
    LULL_TRANSFER_SEND,
    LULL_TRANSFER_RECEIVE,
    LULL_TRANSFER_OTHER,
    LULL_TRANSFER_COUNT
};

enum {
    LULL_COMMUNICATOR_MIN_TRANSFERS = 8, /* with fewer the result is "unknown" */
    LULL_COMMUNICATOR_SIZES = 8,         /* different sizes that are counted apart */
    LULL_COMMUNICATOR_PEERS = 3,
};

struct lull_communicator {
    enum lull_parallelism named;
    uint32_t ranks; /* 0: unknown */
    uint32_t nodes; /* 0: unknown */
    int32_t rank;   /* the own one; -1: unknown */
    uint64_t transfers[LULL_TRANSFER_COUNT];
    uint64_t sizes[LULL_COMMUNICATOR_SIZES];       /* of reductions, in order of appearance */
    uint64_t size_counts[LULL_COMMUNICATOR_SIZES]; /* number of calls of each size */
    uint32_t size_count;
    uint64_t other_sizes; /* transfers of further sizes */
    int32_t peers[LULL_COMMUNICATOR_PEERS];
    uint32_t peer_count; /* LULL_COMMUNICATOR_PEERS: that many or more */
};

/* name may be null or "". */
void lull_communicator_init(struct lull_communicator *communicator, const char *name,
                            uint32_t ranks, uint32_t nodes, int32_t rank);

/* Takes one operation. bytes: the payload of this rank; peer: -1 if there is none or it is unknown.
 * O(1). */
void lull_communicator_take(struct lull_communicator *communicator, enum lull_transfer transfer,
                            uint64_t bytes, int32_t peer);

/*
 * The purpose of the communicator, as far as known. iterations: of the job while the operations
 * were taken. 0: unknown; then reductions of one size within a node stay unknown, because they may
 * be one bucket or many layers.
 */
enum lull_parallelism lull_communicator_parallelism(const struct lull_communicator *communicator,
                                                    uint64_t iterations);

/* The purpose according to a name; of "DATA_PARALLEL_GROUP:7" only the part before the colon
 * counts. null: unknown. */
enum lull_parallelism lull_parallelism_of_name(const char *name);

/* "data", "tensor", "pipeline", "expert", "unknown". */
const char *lull_parallelism_name(enum lull_parallelism parallelism);

#endif
