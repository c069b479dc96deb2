/*
 * Interface of a program on the emulated node to its GPU: the kernels that run, and its
 * communication. On a real node the program would simply use the GPU.
 *
 * Times follow the emulated GPU: a kernel stretches when the SM clock is lowered, a transfer when
 * the clock can no longer feed the link. Waiting sleeps; it burns no CPU.
 *
 * Threads: a handle belongs to one thread. Without an emulated node (LULL_EMULATED_NODE unset)
 * open gives NULL, and every function accepts NULL and returns at once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_WORKLOAD_H
#define LULL_EMULATOR_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct lull_node;
struct lull_emulated_gpu; /* one rank's connection to its GPU: a live context */

/* One compute kernel, or a run of them that behaves as one. */
struct lull_kernel {
    double duration_ms;  /* its duration at the highest SM clock, > 0 */
    const char *profile; /* power and time profile of the model, e.g. "llm_bwd", "dgemm", "stream";
                          * NULL: "llm_fwd" or, where the model lacks it, its first profile */
};

/* One collective or transfer of this GPU. */
struct lull_workload_transfer {
    double bytes;      /* moved by this GPU over the link, >= 0 */
    double link_gbs;   /* bandwidth of the slowest link of the path, GB/s, > 0 */
    uint32_t channels; /* SMs that drive it, e.g. 16 in a node, 4 over InfiniBand */
};

/*
 * Connects to GPU index (CUDA order) of the node in LULL_EMULATED_NODE and opens a context on it.
 * Success with *gpu_out NULL: there is no emulated node. Errors: -ENODEV no such GPU; -errno.
 */
int lull_emulated_gpu_open(uint32_t index, struct lull_emulated_gpu **gpu_out,
                           struct lull_error *err);

/* Closes the context; the GPU decays to its idle clocks if it was the last. */
void lull_emulated_gpu_close(struct lull_emulated_gpu *gpu);

/* Sets how much memory the context has allocated, for readers of the GPU's used memory. */
void lull_emulated_gpu_allocate(struct lull_emulated_gpu *gpu, uint32_t memory_mib);

/* Enqueues a kernel after those already enqueued. It returns at once while the queue has room. */
void lull_emulated_gpu_launch(struct lull_emulated_gpu *gpu, const struct lull_kernel *kernel);

/* Sleeps until every enqueued kernel has ended. */
void lull_emulated_gpu_wait(struct lull_emulated_gpu *gpu);

/*
 * Sleeps until a kernel has ended, by its number from 0 in the order of launches, and returns the
 * virtual time of its end. False: it has ended, but its end is no longer known, since a
 * later launch has taken its place. It must have been launched. Not for NULL.
 */
bool lull_emulated_gpu_wait_for(struct lull_emulated_gpu *gpu, uint64_t number,
                                int64_t *end_ns_out);

/* Begins a transfer; it moves in the background at the rate that clock and link allow. */
void lull_emulated_gpu_transfer_begin(struct lull_emulated_gpu *gpu,
                                      const struct lull_workload_transfer *transfer);

/* Sleeps until at least share (0..1) of the current transfer has been moved. */
void lull_emulated_gpu_transfer_wait(struct lull_emulated_gpu *gpu, double share);

/* Ends the transfer, moved or not: the GPU goes back to waiting or to its kernels. */
void lull_emulated_gpu_transfer_end(struct lull_emulated_gpu *gpu);

/*
 * For players, which put work on their GPU's queue themselves (physics.h): the node, which lives as
 * long as the handle, and the number of the context. Not for NULL.
 */
struct lull_node *lull_emulated_gpu_node(const struct lull_emulated_gpu *gpu);
int lull_emulated_gpu_context(const struct lull_emulated_gpu *gpu);

#endif
