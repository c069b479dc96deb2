/*
 * The runs in progress on this node, as their governors publish them: those of this user, or all
 * that this user may read (wire/viewers.h). Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_JOBS_H
#define LULL_CLI_SERVE_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "wire/live.h"

/* More runs than this are not shown; a node with 64 GPUs has fewer. */
enum { LULL_SERVE_MAX_JOBS = 64 };

/* Which runs continue: zeros to begin with, but for is_for_all. */
struct lull_serve_jobs {
    bool is_for_all; /* those of other users as well */
    int64_t listed_ns;
    uint32_t count;
    struct lull_live_entry entries[LULL_SERVE_MAX_JOBS];
};

/* Returns a new array with the published state of the active runs. NULL: out of memory. A run that
 * has ended is not in it. A run that has started is in it within a second. */
json_t *lull_serve_jobs_look(struct lull_serve_jobs *jobs);

#endif
