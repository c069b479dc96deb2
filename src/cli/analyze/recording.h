/*
 * Output of `lull analyze` for a recording made by `lull run` (trace/recording.h).
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_ANALYZE_RECORDING_H
#define LULL_CLI_ANALYZE_RECORDING_H

#include "trace/recording.h"

/* Print the whole analysis on standard output. JSON: -ENOMEM, reported. */
void lull_analyze_recording_print_text(const struct lull_run_recording *recording);
int lull_analyze_recording_print_json(const struct lull_run_recording *recording);

#endif
