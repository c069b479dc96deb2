/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "audit.h"

struct tally {
    uint32_t accepted;
    uint32_t refused;
    uint32_t undecided;
    uint32_t decided;
    double *iterations; /* of the job until the verdict, of those that were decided */
    double *accepted_after;
};

/* The only candidate is proven harmless, or given up. */
static bool is_decided(const struct audit_job *job)
{
    return lull_controller_look(audit_job_controller(job)).has_settled;
}

static int run_once(const struct audit_job_config *config, uint32_t iterations, struct tally *tally)
{
    struct audit_job *job = audit_job_create(config);
    uint32_t iteration = 0;

    if (job == NULL)
        return -1;
    while (!is_decided(job) && iteration < iterations) {
        audit_job_step(job);
        iteration++;
    }
    if (!is_decided(job)) {
        tally->undecided++;
    } else {
        tally->iterations[tally->decided++] = iteration;
        if (audit_job_keeps_any(job))
            tally->accepted_after[tally->accepted++] = iteration;
        else
            tally->refused++;
    }
    audit_job_destroy(job);
    return 0;
}

int audit_one_verdict(const struct audit_job_config *config, uint64_t seed, uint32_t runs,
                      uint32_t iterations)
{
    struct tally tally = {
        .iterations = calloc(runs, sizeof(double)),
        .accepted_after = calloc(runs, sizeof(double)),
    };
    int result = tally.iterations == NULL || tally.accepted_after == NULL ? -1 : 0;

    for (uint32_t i = 0; i < runs && result == 0; i++) {
        struct audit_job_config one = *config;

        one.seed = audit_run_seed(seed, i);
        result = run_once(&one, iterations, &tally);
    }
    if (result == 0)
        printf("\"accepted\": %.5f, \"refused\": %.5f, \"undecided\": %.5f, "
               "\"verdict_after\": %.0f, \"accepted_after\": %.0f, \"accepted_after_p95\": %.0f",
               tally.accepted / (double)runs, tally.refused / (double)runs,
               tally.undecided / (double)runs, audit_quantile(tally.iterations, tally.decided, 0.5),
               audit_quantile(tally.accepted_after, tally.accepted, 0.5),
               audit_quantile(tally.accepted_after, tally.accepted, 0.95));
    free(tally.iterations);
    free(tally.accepted_after);
    return result;
}
