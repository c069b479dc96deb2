/*
 * What a server's user could find out by trying: the rate of requests that it bears, and the one
 * clock or power limit that saves most, chosen with full knowledge of the run.
 *
 * Deterministic. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_SERVING_HINDSIGHT_H
#define LULL_SIMULATOR_SERVING_HINDSIGHT_H

#include "simulator/serving/serving.h"

/* Where requests come from. */
struct lull_serving_source {
    const struct lull_server_arrivals *trace; /* NULL: a Poisson process with these mean lengths */
    double prompt_tokens;
    double output_tokens;
    int64_t duration_ns;
    uint64_t seed; /* of the process; or where in the trace requests begin: 1 is its begin */
};

/* Fills in an empty list with requests at a rate. -ENOMEM. */
int lull_serving_make_arrivals(const struct lull_serving_source *source, double rate_per_s,
                               struct lull_server_arrivals *arrivals_out);

/*
 * Finds the highest rate, to 2 %, at which full clocks still meet the run's objective. The arrivals
 * and the policy of the run are ignored. Errors: -ERANGE no rate is low enough; those of
 * lull_serving_simulate().
 */
int lull_serving_find_rate(const struct lull_serving_run *run,
                           const struct lull_serving_source *source, double *rate_per_s_out,
                           struct lull_error *err);

/* The number of further misses that Lull promises to stay below: a share of (1 - share) / 2. */
double lull_serving_allowance(const struct lull_serving_run *run,
                              const struct lull_serving_outcome *reference);

/*
 * Finds the setting of least energy that misses at most most_missed requests: of 24 clocks, or
 * power limits, that are equally far apart, from the highest down to the first that misses more;
 * the highest in any case. A lower setting is assumed to miss no fewer requests: a run that uses
 * more energy than the best one ends early. policy: LULL_SERVING_AT_CLOCK or
 * LULL_SERVING_AT_LIMIT. *setting_out is in MHz or W. Errors: those of lull_serving_simulate().
 */
int lull_serving_find_fixed(const struct lull_serving_run *run, enum lull_serving_policy policy,
                            uint64_t most_missed, struct lull_serving_outcome *outcome_out,
                            double *setting_out, struct lull_error *err);

#endif
