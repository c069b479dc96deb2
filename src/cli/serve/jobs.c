/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/jobs.h"

#include <stdlib.h>

#include "base/clock.h"
#include "cli/live_json.h"
#include "wire/job_file.h"

json_t *lull_serve_jobs_look(void)
{
    struct lull_live_entry entries[LULL_SERVE_MOST_JOBS];
    struct lull_live_run *const run = malloc(sizeof(*run)); /* 0.1 MiB: too large for a stack */
    json_t *const jobs = json_array();
    uint32_t count;

    if (run == NULL)
        return jobs;
    count = lull_live_list(LULL_JOB_DIRECTORY, entries, LULL_SERVE_MOST_JOBS);
    for (uint32_t i = 0; i < count; i++)
        if (lull_live_read(LULL_JOB_DIRECTORY, entries[i].file, run, NULL) == 0)
            json_array_append_new(jobs, lull_live_run_json(&entries[i], run, lull_now_ns()));
    free(run);
    return jobs;
}
