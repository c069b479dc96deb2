/*
 * Run findings: why a managed run came to nothing, or to less than it might have, in one sentence
 * each with what to do next. They end up in report.json among the notes, and in the table.
 *
 * Threads: the main thread; the control is stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_FINDINGS_H
#define LULL_GOVERNOR_RUN_RUN_FINDINGS_H

#include "governor/run/run_pass.h"

/* Adds what is found in a pass that has ended to the notes of its run; one sentence for all GPUs of
 * which the same is true. Nothing is found in a pass without a control, whose notes say why. */
void lull_run_findings_add(struct lull_run_pass *pass);

#endif
