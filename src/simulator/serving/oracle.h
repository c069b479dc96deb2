/*
 * A clairvoyant reference for a server's clocks: how much energy a choice with full knowledge could
 * save without one more missed request.
 *
 * The oracle knows all arrivals, all lengths and the cost of every step. It foresees each change of
 * the clock, so that it is in force in time, but two changes while steps run are as far apart as
 * the driver needs for one; the ideal oracle may change it for each step. While nothing runs, the
 * clock is the lowest. It has two base clocks: one for steps that compute prompts, one for steps
 * that only decode. Requests that are missed, but not in the reference run, are given full clocks
 * over their life, and some time before, in a further run. Full clocks are the highest at which the
 * step keeps the power limit, or the highest of all if requests would be missed then.
 *
 * If requests need that, the oracle also looks ahead: from a step it simulates how the server
 * would continue at full clocks, and finds the time to spare of each bound that the reference run
 * meets. Steps at a base clock may use half of that time before the next look; where too little is
 * left, steps run at full clocks until that bound is over. The better of both ways counts.
 *
 * Base clocks are searched by pattern in steps of a 36th of the range. The pair of least energy
 * without an added miss wins.
 *
 * It is no upper bound: clocks between the base clocks and the full ones, chosen for each step,
 * could save more. One pool only. Deterministic. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_SERVING_ORACLE_H
#define LULL_SIMULATOR_SERVING_ORACLE_H

#include "simulator/serving/serving.h"

struct lull_serving_oracle {
    double prefill_mhz; /* base clock of steps that compute prompts */
    double decode_mhz;  /* and of those that only decode */
    uint64_t added; /* requests that it misses and the reference does not; 0 but for a failure */
};

/* The time that a driver typically needs to change the clocks of a pool's GPUs, one call after the
 * other, until the last one has settled. */
int64_t lull_serving_change_ns(const struct lull_serving_pool *pool);

/* Simulates the oracle. The reference is the outcome of the same run at the highest clock. The
 * policy of the run is ignored. change_ns: least distance of two changes; 0: ideal. near: an oracle
 * of the same run with another distance; the search begins at its base clocks, which saves two
 * thirds of the time; NULL: none. Errors: those of lull_serving_simulate(). */
int lull_serving_ask_oracle(const struct lull_serving_run *run,
                            const struct lull_serving_outcome *reference, int64_t change_ns,
                            const struct lull_serving_oracle *near,
                            struct lull_serving_outcome *outcome_out,
                            struct lull_serving_oracle *oracle_out, struct lull_error *err);

#endif
