/*
 * Metrics from the node's document, as defined by data/metrics.json: each row names a family, its
 * type and unit, and the place of its values in the document. So /metrics and the JSON agree.
 *
 * The output is the text form of Prometheus (0.0.4) or OpenMetrics 1.0. A null in the document has
 * no sample. Threads: any, on a table of one's own. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_METRICS_H
#define LULL_CLI_SERVE_METRICS_H

#include <stdio.h>

#include <jansson.h>

#include "base/error.h"
#include "cli/serve/request.h"

/* Returns the table that was built in, which the caller frees; NULL: out of memory. */
json_t *lull_serve_metrics_open(void);

/* Writes all families of the table that have a value in the document. */
void lull_serve_metrics_write(const json_t *table, const json_t *document,
                              enum lull_serve_format format, FILE *out);

#endif
