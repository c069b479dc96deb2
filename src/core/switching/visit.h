/*
 * Visit: the points at which one iteration of a job runs, as its controller reports when the
 * iteration begins.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_VISIT_H
#define LULL_CORE_SWITCHING_VISIT_H

#include <stdbool.h>
#include <stdint.h>

struct lull_visit {
    bool is_measured;  /* it belongs to a pair of a trial, and does not follow a change */
    bool is_candidate; /* else nothing is lowered in it */
    uint32_t point;    /* the steady point, of the first GPU's clock list; 0: the highest clock */
    uint64_t others;   /* identifies the points of all sections, gaps and waiting ranks; 0: none is
                          lowered */
    uint64_t pair;     /* the pair of blocks it belongs to, over all trials */
};

#endif
