/*
 * Time of collective operations: NCCL's within a node, and those over a network.
 *
 * NCCL has protocols of low latency and of high bandwidth, and takes the faster one for a size.
 * Each is a line here: a start and a rate. The table is generated from data/nccl_times.json, which
 * states its source; tools/fit-nccl fits it. Times are those at the highest clock. Threads: any;
 * nothing here changes. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_COLLECTIVE_H
#define LULL_EMULATOR_COLLECTIVE_H

#include <stdint.h>

enum lull_collective {
    LULL_COLLECTIVE_ALL_REDUCE,
    LULL_COLLECTIVE_ALL_GATHER,
    LULL_COLLECTIVE_REDUCE_SCATTER,
    LULL_COLLECTIVE_ALL_TO_ALL,
    LULL_COLLECTIVES,
};

enum {
    LULL_COLLECTIVE_SIZES = 3, /* numbers of GPUs that were measured: 2, 4, 8 */
    LULL_COLLECTIVE_LINES = 2, /* low latency, high bandwidth */
};

/* The rate is the bus bandwidth: of the bytes that lull_collective_moved() gives. */
struct lull_collective_line {
    double start_us;
    double bus_gbs;
};

struct lull_collective_gpu {
    const char *name;
    struct lull_collective_line lines[LULL_COLLECTIVES][LULL_COLLECTIVE_SIZES]
                                     [LULL_COLLECTIVE_LINES];
};

extern const struct lull_collective_gpu lull_collective_gpus[];
extern const uint32_t lull_collective_gpu_count;

struct lull_collective_time {
    double start_s;
    double transfer_s;
};

/* The row of a GPU model; of an A100 where the model has none. */
const struct lull_collective_gpu *lull_collective_find(const char *model);

/* The bytes that pass a rank's link. `bytes` is the size of the whole: of the gathered result, of
 * what is scattered, of all that a rank sends. */
double lull_collective_moved(enum lull_collective operation, uint32_t ranks, double bytes);

/* Between ranks (at least 2) of one node. Other numbers of ranks than 2, 4, 8 are interpolated;
 * above 8 the start grows as from 4 to 8. */
struct lull_collective_time lull_collective_in_node(const struct lull_collective_gpu *gpu,
                                                    enum lull_collective operation, uint32_t ranks,
                                                    double bytes);

/* Over any link of that start and rate. */
struct lull_collective_time lull_collective_over(const struct lull_collective_line *line,
                                                 enum lull_collective operation, uint32_t ranks,
                                                 double bytes);

#endif
