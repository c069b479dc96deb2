/*
 * Runs a managed job and writes its report: shared by `lull run` and `lull attach`.
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_MANAGED_RUN_H
#define LULL_CLI_MANAGED_RUN_H

#include <stdbool.h>

#include "governor/run/run.h"

struct lull_managed_run_terms {
    struct lull_energy_price price; /* as options give it; the rest is taken from lull.conf */
    char *report; /* gets the path of a new folder for the report; NULL: the options name one */
    bool is_json; /* report.json is printed on standard output */
};

/* Completes the options, runs the job, and writes the page beside its report. With an invalid
 * lull.conf only the cost is missing. Errors: those of lull_run_make_report, lull_run_check_paths
 * and lull_run. */
int lull_managed_run(struct lull_run_options *options, const struct lull_managed_run_terms *terms,
                     int *status_out, struct lull_error *err);

#endif
