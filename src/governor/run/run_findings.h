/*
 * Run findings: the reasons why a managed run saved nothing, or less than possible. Each is one
 * sentence with the next step for the user. They are in the notes of report.json and in the table.
 *
 * Threads: the main thread; the control is stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_FINDINGS_H
#define LULL_GOVERNOR_RUN_RUN_FINDINGS_H

#include "governor/run/run_pass.h"

/* Adds the findings of a pass that has ended to the notes of
 * its run; one sentence for all GPUs that share a finding. Nothing is found in a pass without a
 * control, whose notes say why. */
void lull_run_findings_add(struct lull_run_pass *pass);

#endif
