/*
 * The runs that go on on this node, as their governors tell of them. Those of other users are seen
 * where their umask lets them be. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_JOBS_H
#define LULL_CLI_SERVE_JOBS_H

#include <jansson.h>

/* More runs than this are not shown; a node with 64 GPUs has fewer. */
enum { LULL_SERVE_MOST_JOBS = 64 };

/* Looks which runs go on, and returns a new array of what they tell; NULL: no memory. A run that
 * has ended is not in it. */
json_t *lull_serve_jobs_look(void);

#endif
