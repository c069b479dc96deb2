/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "audit.h"
#include "core/section/controller/state.h"

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

/* Prints a number, or null where there is none yet. */
static void print_ratio(const char *name, double ratio)
{
    if (isfinite(ratio))
        printf("\"%s\": %.6f, ", name, ratio);
    else
        printf("\"%s\": null, ", name);
}

/* Prints the members of an estimate. */
static void print_estimate(const struct lull_guard_estimate *estimate)
{
    print_ratio("slowdown_ratio", estimate->slowdown_ratio);
    print_ratio("lower_ratio", estimate->lower_ratio);
    print_ratio("upper_ratio", estimate->upper_ratio);
    printf("\"pairs\": %u", estimate->pairs);
}

int audit_looks(const struct audit_job_config *config, uint64_t seed, uint32_t iterations)
{
    struct audit_job_config one = *config;
    struct audit_job *job;
    struct lull_guard_estimate kept;
    uint32_t pairs = 0;
    const char *separator = "";

    one.seed = audit_run_seed(seed, 0);
    job = audit_job_create(&one);
    if (job == NULL)
        return -1;
    printf("\"looks\": [");
    for (uint32_t i = 0; i < iterations && !is_decided(job); i++) {
        const struct lull_controller *controller = audit_job_controller(job);
        struct lull_guard_estimate estimate;

        audit_job_step(job);
        lull_trial_estimate_test(&controller->trial, &estimate);
        if (estimate.pairs > 0 && estimate.pairs != pairs) {
            printf("%s{", separator);
            print_estimate(&estimate);
            printf(", \"is_proof\": %s, \"iteration\": %u}",
                   controller->trial.kind == LULL_TRIAL_PROOF ? "true" : "false", i + 1);
            separator = ", ";
        }
        pairs = estimate.pairs;
    }
    kept = lull_controller_look(audit_job_controller(job)).slowdown;
    printf("], \"kept\": {");
    print_estimate(&kept);
    printf("}, \"decided\": %s, \"accepted\": %s", is_decided(job) ? "true" : "false",
           audit_job_keeps_any(job) ? "true" : "false");
    audit_job_destroy(job);
    return 0;
}
