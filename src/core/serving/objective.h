/*
 * A latency objective of a server: time to first token (TTFT) and time per output token (TPOT).
 *
 * TTFT runs from the arrival of a request to its first token. TPOT is the mean time of the tokens
 * after the first one, of one request. A request misses the objective if it exceeds either bound.
 * The objective holds if at least `share` of all requests meet it.
 *
 * Pure; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SERVING_OBJECTIVE_H
#define LULL_CORE_SERVING_OBJECTIVE_H

#include "base/error.h"

#define LULL_OBJECTIVE_SHARE 0.99 /* the default */

struct lull_objective {
    double ttft_s; /* > 0; INFINITY: no bound */
    double tpot_s; /* > 0; INFINITY: no bound */
    double share;  /* in (0.5, 1) */
};

/*
 * Reads the textual form: bounds with units (ms or s), separated by commas, in any order, each at
 * most once, and optionally the share as a percentile: "ttft=500ms,tpot=50ms@p99", "tpot=0.05s",
 * "ttft=1s@p99.9". Errors: -EINVAL, the text names the part that is wrong and shows the form.
 */
int lull_objective_parse(const char *text, struct lull_objective *objective_out,
                         struct lull_error *err);

#endif
