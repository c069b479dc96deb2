/*
 * The jobs that run on this node under `lull run`, as their governors tell of them. Threads: one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_JOBS_H
#define LULL_CLI_SERVE_JOBS_H

#include <jansson.h>

struct lull_serve_jobs;

/* Begins without jobs; NULL: no memory. */
struct lull_serve_jobs *lull_serve_jobs_create(void);
void lull_serve_jobs_destroy(struct lull_serve_jobs *jobs);

/* Looks which jobs run, and what they tell. */
void lull_serve_jobs_look(struct lull_serve_jobs *jobs);

/* Returns a new array of what was seen; NULL: no memory. */
json_t *lull_serve_jobs_json(const struct lull_serve_jobs *jobs);

#endif
