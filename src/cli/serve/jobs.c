/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/jobs.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/live_json.h"
#include "wire/job_file.h"

/* The directory is searched once a second, a little early so that a look that comes early is not a
 * second late: it may hold thousands of files of others. */
static const int64_t list_ns = LULL_NS_PER_S - 150 * LULL_NS_PER_MS;

json_t *lull_serve_jobs_look(struct lull_serve_jobs *jobs)
{
    struct lull_live_run *const run = malloc(sizeof(*run)); /* 0.1 MiB: too large for a stack */
    json_t *const found = json_array();
    const int64_t now_ns = lull_now_ns();

    if (run == NULL)
        return found;
    if (jobs->listed_ns == 0 || now_ns - jobs->listed_ns >= list_ns) {
        jobs->listed_ns = now_ns;
        jobs->count = lull_live_list(LULL_JOB_DIRECTORY, jobs->entries, LULL_SERVE_MAX_JOBS);
    }
    for (uint32_t i = 0; i < jobs->count; i++)
        if ((jobs->is_for_all || jobs->entries[i].user == geteuid()) &&
            lull_live_read(LULL_JOB_DIRECTORY, jobs->entries[i].file, run, NULL) == 0)
            json_array_append_new(found, lull_live_run_json(&jobs->entries[i], run, lull_now_ns()));
    free(run);
    return found;
}
