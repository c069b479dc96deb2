/*
 * The GPUs that tasks may be given to, in the order in which policies look at them, and the
 * questions that list scheduling asks of them: which is free first, which is the first that can
 * meet a deadline, which of those has the most or the least to do. A tree over the places: changes,
 * the first free and the first fit are O(log n); the most and the least loaded skip what cannot be
 * better, and look at all GPUs at worst.
 *
 * GPUs are numbers; they are looked at in rising order, but for those added since the last
 * lull_gpu_pool_settle(), which come, in rising order too, behind all others.
 *
 * Pure. One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_GPU_POOL_H
#define LULL_CORE_CLUSTER_GPU_POOL_H

#include <stdbool.h>
#include <stdint.h>

enum { LULL_GPU_POOL_MOST = 1 << 20 };

/* What a GPU has been given; kept while it is not in the pool, and 0 at first. */
struct lull_gpu_state {
    double end_s;      /* when its last task ends; finite */
    double work_s;     /* of all its tasks, each rounded up to whole slots */
    double load_ratio; /* the most of the time until a deadline that work took */
};

/* A task that wants to be done in time on a GPU that starts it at end_s, or now if that is later.
 */
struct lull_gpu_need {
    double now_s;
    bool is_now_ignored; /* as if a GPU could have started it at end_s in the past */
    double time_s;
    double deadline_s;
};

struct lull_gpu_pool; /* opaque */

/* NULL: no memory. */
struct lull_gpu_pool *lull_gpu_pool_create(void);
void lull_gpu_pool_destroy(struct lull_gpu_pool *pool);

/* Adds a GPU that is not in the pool. -ENOMEM; -E2BIG not below LULL_GPU_POOL_MOST. */
int lull_gpu_pool_add(struct lull_gpu_pool *pool, uint32_t gpu);
void lull_gpu_pool_remove(struct lull_gpu_pool *pool, uint32_t gpu);

/* Those added since the last time take their places among the others. */
void lull_gpu_pool_settle(struct lull_gpu_pool *pool);

/* Of a GPU that is or was in the pool; to be changed only while it is. */
struct lull_gpu_state lull_gpu_pool_get(const struct lull_gpu_pool *pool, uint32_t gpu);
void lull_gpu_pool_set(struct lull_gpu_pool *pool, uint32_t gpu, struct lull_gpu_state state);

/* ---- which GPU? LULL_GPU_NONE: none ------------------------------------------------------- */

enum { LULL_GPU_NONE = -1 };

/* The least end_s, the first of equals. */
int64_t lull_gpu_pool_free_first(const struct lull_gpu_pool *pool);

/* Of those that meet the need: the first; the most loaded, the last of equals; the least loaded,
   the first of equals. */
int64_t lull_gpu_pool_first_fit(const struct lull_gpu_pool *pool, const struct lull_gpu_need *need);
int64_t lull_gpu_pool_best_fit(const struct lull_gpu_pool *pool, const struct lull_gpu_need *need);
int64_t lull_gpu_pool_worst_fit(const struct lull_gpu_pool *pool, const struct lull_gpu_need *need);

#endif
