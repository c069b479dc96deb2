/*
 * Output of `lull analyze` about the phases of an inference server. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_ANALYZE_PHASES_H
#define LULL_CLI_ANALYZE_PHASES_H

#include <jansson.h>

#include "cli/analyze/report.h"

/* Returns whether one of the ranks is a server's. */
bool lull_analyze_has_phases(const struct lull_analyzed_rank *ranks, size_t count);

/* Writes what the phases of a server's ranks would save, and the command to run. */
void lull_analyze_write_server(const struct lull_analyzed_rank *ranks, size_t count, char *text,
                               size_t size);

/* Sets the phases of a rank, or why there are none. */
void lull_analyze_set_phases(json_t *object, const struct lull_analyzed_rank *rank);

/* Prints a table of the phases of all ranks, or a sentence if they cannot be distinguished. */
void lull_analyze_print_phases(const struct lull_analyzed_rank *ranks, size_t count);

#endif
