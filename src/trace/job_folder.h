/*
 * Sets of jobs kept as a file per job: job_<number>.json in a folder, whatever form they really
 * have (config_map.h). Numbers may have gaps. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_JOB_FOLDER_H
#define LULL_TRACE_JOB_FOLDER_H

#include <stdbool.h>

#include "base/error.h"
#include "trace/columns.h"

enum { LULL_JOB_FOLDER_MAX = 1 << 20 }; /* jobs */

/* Takes a job's record, which holds until it returns. 0 or a negative code, which ends reading. */
typedef int (*lull_job_folder_fn)(void *context, const struct lull_columns *record,
                                  struct lull_error *err);

/* Whether the path is a folder, or one file of a job by its ending: .json, .yaml or .yml. */
bool lull_job_folder_is(const char *path);

/*
 * Reads the jobs of a folder by rising number, or that of one file. Other files of the folder are
 * left alone. Errors: LULL_E_FORMAT a folder without jobs, or with too many, a file that is too
 * long, and those of lull_config_map_parse; -errno; -ENOMEM; those of the callback.
 */
int lull_job_folder_read(const char *path, const struct lull_column *known, lull_job_folder_fn take,
                         void *context, struct lull_error *err);

#endif
