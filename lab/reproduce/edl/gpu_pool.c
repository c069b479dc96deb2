/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/edl/gpu_pool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The bounds over a subtree; a leaf is one place. Those of an empty place make it neither free nor
 * the best. */
struct gpu_pool_span {
    double min_end_s;
    double min_load;
    double max_load;
};

static const struct gpu_pool_span empty = {INFINITY, INFINITY, -INFINITY};

/*
 * A complete tree in an array: node i has the children 2i and 2i+1, leaves begin at `places`.
 * GPU g has the place g, or capacity + g while it is new.
 */
struct lull_gpu_pool {
    uint32_t capacity; /* a power of two */
    struct gpu_pool_span *spans;
    struct lull_gpu_state *states;
    bool *is_new;
    uint32_t *fresh; /* the new GPUs, and perhaps some that were removed again */
    uint32_t fresh_count;
};

static uint32_t gpu_pool_place_count(const struct lull_gpu_pool *pool)
{
    return 2 * pool->capacity;
}

static uint32_t gpu_pool_place_of(const struct lull_gpu_pool *pool, uint32_t gpu)
{
    return pool->is_new[gpu] ? pool->capacity + gpu : gpu;
}

static struct gpu_pool_span *gpu_pool_leaf(const struct lull_gpu_pool *pool, uint32_t place)
{
    return &pool->spans[gpu_pool_place_count(pool) + place];
}

static void gpu_pool_join(struct gpu_pool_span *spans, size_t node)
{
    const struct gpu_pool_span *left = &spans[2 * node];
    const struct gpu_pool_span *right = &spans[2 * node + 1];

    spans[node] = (struct gpu_pool_span){
        fmin(left->min_end_s, right->min_end_s),
        fmin(left->min_load, right->min_load),
        fmax(left->max_load, right->max_load),
    };
}

static void gpu_pool_put(struct lull_gpu_pool *pool, uint32_t place, struct gpu_pool_span span)
{
    uint32_t node = gpu_pool_place_count(pool) + place;

    pool->spans[node] = span;
    while (node > 1) {
        node /= 2;
        gpu_pool_join(pool->spans, node);
    }
}

/* ---- room --------------------------------------------------------------------------------- */

static int gpu_pool_allocate(struct lull_gpu_pool *pool, uint32_t capacity)
{
    pool->capacity = capacity;
    pool->spans = malloc(4 * (size_t)capacity * sizeof(*pool->spans));
    pool->states = calloc(capacity, sizeof(*pool->states));
    pool->is_new = calloc(capacity, sizeof(*pool->is_new));
    pool->fresh = malloc(capacity * sizeof(*pool->fresh));
    if (pool->spans == NULL || pool->states == NULL || pool->is_new == NULL || pool->fresh == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < 4 * (size_t)capacity; i++)
        pool->spans[i] = empty;
    return 0;
}

static void gpu_pool_release(struct lull_gpu_pool *pool)
{
    free(pool->spans);
    free(pool->states);
    free(pool->is_new);
    free(pool->fresh);
}

struct lull_gpu_pool *lull_gpu_pool_create(void)
{
    const uint32_t first_capacity = 64;
    struct lull_gpu_pool *pool = calloc(1, sizeof(*pool));

    if (pool != NULL && gpu_pool_allocate(pool, first_capacity) < 0) {
        lull_gpu_pool_destroy(pool);
        return NULL;
    }
    return pool;
}

void lull_gpu_pool_destroy(struct lull_gpu_pool *pool)
{
    if (pool == NULL)
        return;
    gpu_pool_release(pool);
    free(pool);
}

/* Makes room for this GPU; without memory nothing changes. */
static int gpu_pool_reserve(struct lull_gpu_pool *pool, uint32_t gpu)
{
    struct lull_gpu_pool larger = {0};
    uint32_t capacity = pool->capacity;

    if (gpu >= LULL_GPU_POOL_MAX)
        return -E2BIG;
    while (capacity <= gpu)
        capacity *= 2;
    if (capacity == pool->capacity)
        return 0;
    if (gpu_pool_allocate(&larger, capacity) < 0) {
        gpu_pool_release(&larger);
        return -ENOMEM;
    }
    memcpy(gpu_pool_leaf(&larger, 0), gpu_pool_leaf(pool, 0),
           pool->capacity * sizeof(*pool->spans));
    memcpy(gpu_pool_leaf(&larger, capacity), gpu_pool_leaf(pool, pool->capacity),
           pool->capacity * sizeof(*pool->spans));
    memcpy(larger.states, pool->states, pool->capacity * sizeof(*pool->states));
    memcpy(larger.is_new, pool->is_new, pool->capacity * sizeof(*pool->is_new));
    memcpy(larger.fresh, pool->fresh, pool->fresh_count * sizeof(*pool->fresh));
    larger.fresh_count = pool->fresh_count;
    for (uint32_t node = gpu_pool_place_count(&larger) - 1; node > 0; node--)
        gpu_pool_join(larger.spans, node);
    gpu_pool_release(pool);
    *pool = larger;
    return 0;
}

/* ---- changes ------------------------------------------------------------------------------ */

static void gpu_pool_list(struct lull_gpu_pool *pool, uint32_t gpu)
{
    const struct lull_gpu_state *state = &pool->states[gpu];

    gpu_pool_put(pool, gpu_pool_place_of(pool, gpu),
                 (struct gpu_pool_span){state->end_s, state->load_ratio, state->load_ratio});
}

int lull_gpu_pool_add(struct lull_gpu_pool *pool, uint32_t gpu)
{
    const int result = gpu_pool_reserve(pool, gpu);

    if (result < 0)
        return result;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): gpu_pool_reserve() puts new arrays in place. */
    if (!pool->is_new[gpu])
        pool->fresh[pool->fresh_count++] = gpu;
    pool->is_new[gpu] = true;
    gpu_pool_list(pool, gpu);
    return 0;
}

void lull_gpu_pool_remove(struct lull_gpu_pool *pool, uint32_t gpu)
{
    gpu_pool_put(pool, gpu_pool_place_of(pool, gpu), empty);
}

void lull_gpu_pool_settle(struct lull_gpu_pool *pool)
{
    for (uint32_t i = 0; i < pool->fresh_count; i++) {
        const uint32_t gpu = pool->fresh[i];
        const struct gpu_pool_span span = *gpu_pool_leaf(pool, pool->capacity + gpu);

        gpu_pool_put(pool, pool->capacity + gpu, empty);
        pool->is_new[gpu] = false;
        gpu_pool_put(pool, gpu, span);
    }
    pool->fresh_count = 0;
}

struct lull_gpu_state lull_gpu_pool_get(const struct lull_gpu_pool *pool, uint32_t gpu)
{
    return pool->states[gpu];
}

void lull_gpu_pool_set(struct lull_gpu_pool *pool, uint32_t gpu, struct lull_gpu_state state)
{
    pool->states[gpu] = state;
    gpu_pool_list(pool, gpu);
}

/* ---- questions ---------------------------------------------------------------------------- */

/* Returns whether a GPU that is free from end_s on meets the need. */
static bool is_met(const struct lull_gpu_need *need, double end_s)
{
    const double start_s = need->is_now_ignored ? end_s : fmax(need->now_s, end_s);

    return need->deadline_s - start_s >= need->time_s;
}

static int64_t gpu_at(const struct lull_gpu_pool *pool, size_t node)
{
    return (int64_t)((node - gpu_pool_place_count(pool)) & (pool->capacity - 1));
}

int64_t lull_gpu_pool_free_first(const struct lull_gpu_pool *pool)
{
    const struct gpu_pool_span *spans = pool->spans;
    size_t node = 1;

    if (spans[1].min_end_s == INFINITY)
        return LULL_GPU_NONE;
    while (node < gpu_pool_place_count(pool))
        node = 2 * node + (spans[2 * node].min_end_s > spans[2 * node + 1].min_end_s);
    return gpu_at(pool, node);
}

int64_t lull_gpu_pool_first_fit(const struct lull_gpu_pool *pool, const struct lull_gpu_need *need)
{
    size_t node = 1;

    if (!is_met(need, pool->spans[1].min_end_s))
        return LULL_GPU_NONE;
    while (node < gpu_pool_place_count(pool))
        node = 2 * node + !is_met(need, pool->spans[2 * node].min_end_s);
    return gpu_at(pool, node);
}

/* The best leaf below node that beats `best`; sign is 1 for the most loaded, -1 for the least. */
struct gpu_pool_search {
    const struct lull_gpu_pool *pool;
    const struct lull_gpu_need *need;
    int sign;
    double best;
    int64_t gpu;
};

static double best_below(const struct gpu_pool_search *search, uint32_t node)
{
    const struct gpu_pool_span *span = &search->pool->spans[node];

    return search->sign > 0 ? span->max_load : -span->min_load;
}

static void gpu_pool_visit(struct gpu_pool_search *search, uint32_t node)
{
    if (!(best_below(search, node) > search->best) ||
        !is_met(search->need, search->pool->spans[node].min_end_s))
        return;
    if (node >= gpu_pool_place_count(search->pool)) {
        search->best = best_below(search, node);
        search->gpu = gpu_at(search->pool, node);
        return;
    }
    /* Only a better GPU replaces the best one, so of equals the one to keep is visited first. */
    gpu_pool_visit(search, 2 * node + (search->sign > 0));
    gpu_pool_visit(search, 2 * node + (search->sign < 0));
}

int64_t lull_gpu_pool_best_fit(const struct lull_gpu_pool *pool, const struct lull_gpu_need *need)
{
    struct gpu_pool_search search = {pool, need, 1, -INFINITY, LULL_GPU_NONE};

    gpu_pool_visit(&search, 1);
    return search.gpu;
}

int64_t lull_gpu_pool_worst_fit(const struct lull_gpu_pool *pool, const struct lull_gpu_need *need)
{
    struct gpu_pool_search search = {pool, need, -1, -INFINITY, LULL_GPU_NONE};

    gpu_pool_visit(&search, 1);
    return search.gpu;
}
