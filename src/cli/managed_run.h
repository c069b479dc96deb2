/*
 * Runs a managed job and writes its report: shared by `lull run` and `lull attach`.
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_MANAGED_RUN_H
#define LULL_CLI_MANAGED_RUN_H

#include <stdbool.h>

#include "governor/run/run.h"

/* Finds the price of energy: options take precedence over lull.conf. With an invalid file only the
 * cost is missing; the job still runs. */
void lull_managed_run_price(const struct lull_energy_price *given, struct lull_energy_price *price);

/* Runs the job, writes the page beside its report, and with is_json prints report.json on standard
 * output. Errors: those of lull_run. */
int lull_managed_run(const struct lull_run_options *options, bool is_json, int *status_out,
                     struct lull_error *err);

#endif
