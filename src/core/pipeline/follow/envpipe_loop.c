/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/follow/envpipe_loop.h"

#include <assert.h>
#include <stdlib.h>

/* Iterations in a row with the critical path in the envelope after which nothing is raised any
 * more: the number of the publication. */
enum { SETTLED_FROM = 10 };

struct lull_envpipe_loop {
    struct lull_envpipe *envpipe;
    int64_t tie_ns;
    uint32_t inside; /* iterations in a row with the critical path in the envelope */
    uint32_t count;
    bool is_exhausted;
};

struct lull_envpipe_loop *lull_envpipe_loop_create(const struct lull_pipeline_problem *problem,
                                                   int64_t tie_ns)
{
    struct lull_envpipe_loop *loop = calloc(1, sizeof(*loop));

    if (loop == NULL)
        return NULL;
    loop->tie_ns = tie_ns;
    loop->envpipe = lull_envpipe_create(problem, LULL_ENVPIPE_BALANCED);
    if (loop->envpipe == NULL) {
        lull_envpipe_loop_destroy(loop);
        return NULL;
    }
    return loop;
}

void lull_envpipe_loop_destroy(struct lull_envpipe_loop *loop)
{
    if (loop == NULL)
        return;
    lull_envpipe_destroy(loop->envpipe);
    free(loop);
}

const uint32_t *lull_envpipe_loop_points(const struct lull_envpipe_loop *loop)
{
    return lull_envpipe_points(loop->envpipe);
}

bool lull_envpipe_loop_take(struct lull_envpipe_loop *loop, const int64_t *end_ns)
{
    if (lull_envpipe_loop_is_done(loop))
        return false;
    switch (lull_envpipe_step(loop->envpipe, end_ns, loop->tie_ns)) {
    case LULL_ENVPIPE_RAISED:
        loop->inside = 0;
        loop->count++;
        return true;
    case LULL_ENVPIPE_INSIDE:
        assert(loop->inside < SETTLED_FROM);
        loop->inside++;
        return false;
    default:
        loop->is_exhausted = true;
        return false;
    }
}

bool lull_envpipe_loop_is_done(const struct lull_envpipe_loop *loop)
{
    return loop->is_exhausted || loop->inside >= SETTLED_FROM;
}

uint32_t lull_envpipe_loop_count(const struct lull_envpipe_loop *loop)
{
    return loop->count;
}
