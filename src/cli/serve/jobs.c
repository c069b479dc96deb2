/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/jobs.h"

#include <stdlib.h>

struct lull_serve_jobs {
    int none;
};

struct lull_serve_jobs *lull_serve_jobs_create(void)
{
    return calloc(1, sizeof(struct lull_serve_jobs));
}

void lull_serve_jobs_destroy(struct lull_serve_jobs *jobs)
{
    free(jobs);
}

void lull_serve_jobs_look(struct lull_serve_jobs *jobs)
{
    (void)jobs;
}

json_t *lull_serve_jobs_json(const struct lull_serve_jobs *jobs)
{
    (void)jobs;
    return json_array();
}
