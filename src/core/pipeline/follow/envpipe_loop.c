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
    struct lull_envpipe_loop *raising = calloc(1, sizeof(*raising));

    if (raising == NULL)
        return NULL;
    raising->tie_ns = tie_ns;
    raising->envpipe = lull_envpipe_create(problem, LULL_ENVPIPE_BALANCED);
    if (raising->envpipe == NULL) {
        lull_envpipe_loop_destroy(raising);
        return NULL;
    }
    return raising;
}

void lull_envpipe_loop_destroy(struct lull_envpipe_loop *raising)
{
    if (raising == NULL)
        return;
    lull_envpipe_destroy(raising->envpipe);
    free(raising);
}

const uint32_t *lull_envpipe_loop_points(const struct lull_envpipe_loop *raising)
{
    return lull_envpipe_points(raising->envpipe);
}

bool lull_envpipe_loop_take(struct lull_envpipe_loop *raising, const int64_t *end_ns)
{
    if (lull_envpipe_loop_is_done(raising))
        return false;
    switch (lull_envpipe_step(raising->envpipe, end_ns, raising->tie_ns)) {
    case LULL_ENVPIPE_RAISED:
        raising->inside = 0;
        raising->count++;
        return true;
    case LULL_ENVPIPE_INSIDE:
        assert(raising->inside < SETTLED_FROM);
        raising->inside++;
        return false;
    default:
        raising->is_exhausted = true;
        return false;
    }
}

bool lull_envpipe_loop_is_done(const struct lull_envpipe_loop *raising)
{
    return raising->is_exhausted || raising->inside >= SETTLED_FROM;
}

uint32_t lull_envpipe_loop_count(const struct lull_envpipe_loop *raising)
{
    return raising->count;
}
