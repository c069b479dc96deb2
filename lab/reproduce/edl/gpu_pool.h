/*
 * The GPUs that tasks may be given to, in the order in which policies look at them, and the
 * questions that list scheduling asks of them: which is free first, which is the first that can
 * meet a deadline, which of those has the most or the least to do. They are the leaves of a tree:
 * changes, the first free and the first fit are O(log n); the search for the most and the least
 * loaded skips subtrees that cannot be better, and looks at all GPUs at worst.
 *
 * GPUs are numbers; they are looked at in rising order, but for those added since the last
 * lull_gpu_pool_settle(), which come, in rising order too, behind all others.
 *
 * Pure. One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_EDL_GPU_POOL_H
#define LULL_LAB_REPRODUCE_EDL_GPU_POOL_H

#include <stdbool.h>
#include <stdint.h>

enum { LULL_GPU_POOL_MAX = 1 << 20 };

/* The work assigned to a GPU. All 0 at first, and kept while the GPU is not in the pool. */
struct lull_gpu_state {
    double end_s;      /* end of its last task; finite */
    double work_s;     /* of all its tasks, each rounded up to whole slots */
    double load_ratio; /* the most of the time until a deadline that work took */
};

/* The requirements of a task for a GPU, which can start it at its end_s, or now if that is later.
 */
struct lull_gpu_need {
    double now_s;
    bool is_now_ignored; /* a GPU could have started it at end_s in the past, too */
    double time_s;
    double deadline_s;
};

struct lull_gpu_pool; /* opaque */

/* Creates an empty pool, which the caller owns. NULL: out of memory. */
struct lull_gpu_pool *lull_gpu_pool_create(void);
void lull_gpu_pool_destroy(struct lull_gpu_pool *pool);

/* Adds a GPU that is not in the pool. -ENOMEM; -E2BIG not below LULL_GPU_POOL_MAX. */
int lull_gpu_pool_add(struct lull_gpu_pool *pool, uint32_t gpu);
void lull_gpu_pool_remove(struct lull_gpu_pool *pool, uint32_t gpu);

/* Sorts GPUs that were added since the last call into the pool. */
void lull_gpu_pool_settle(struct lull_gpu_pool *pool);

/* Reads or changes the state of a GPU: reads if it is or was in the pool, changes only while it is
 * there. */
struct lull_gpu_state lull_gpu_pool_get(const struct lull_gpu_pool *pool, uint32_t gpu);
void lull_gpu_pool_set(struct lull_gpu_pool *pool, uint32_t gpu, struct lull_gpu_state state);

/* ---- queries, which return a GPU or LULL_GPU_NONE ------------------------------------------ */

enum { LULL_GPU_NONE = -1 };

/* The GPU of the least end_s, the first of equals. */
int64_t lull_gpu_pool_free_first(const struct lull_gpu_pool *pool);

/* Of the GPUs that meet the need: the first; the most loaded, the last of equals; the least loaded,
 * the first of equals. */
int64_t lull_gpu_pool_first_fit(const struct lull_gpu_pool *pool, const struct lull_gpu_need *need);
int64_t lull_gpu_pool_best_fit(const struct lull_gpu_pool *pool, const struct lull_gpu_need *need);
int64_t lull_gpu_pool_worst_fit(const struct lull_gpu_pool *pool, const struct lull_gpu_need *need);

#endif
