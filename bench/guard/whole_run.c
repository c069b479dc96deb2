/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "audit.h"

/* Times at which a run is looked at. */
static const uint32_t looks[] = {100, 500, 1000, 3000, 10000, 30000};

enum { MAX_LOOKS = sizeof(looks) / sizeof(looks[0]) };

/* Harm of the tolerance itself counts as too much; this is for rounding. */
static const double rounding_ratio = 1e-9;
/* By how much the job's clock may be off for what ranks compute with jitter. */
static const double clock_ratio = 2e-5;

struct look {
    uint32_t exceeding;
    uint32_t lowered;
    uint32_t harmful;
    double clocked;    /* sum over the runs */
    double *slowdowns; /* of all runs */
    uint32_t bounded;  /* runs whose bound is printed... */
    uint32_t below;    /* ...of these, those in which it is below the truth */
    double *bounds;    /* of these */
};

struct tally {
    struct look looks[MAX_LOOKS];
    uint32_t look_count;
    uint32_t staying; /* runs with a lowering that stays */
    double *first;    /* iteration with which it begins, of these */
    uint32_t reporting;
    double *reported;     /* upper bounds, of runs in which the guard gives one at the end */
    uint32_t below_kept;  /* of these, lower than what the kept points cost */
    uint32_t below_whole; /* and than what the whole run has lost */
    double waiting;       /* share of iterations in which a rank was lower because it waits, sum */
};

/* The bound of the whole run so far, as the report prints it. */
static void look_at_bound(const struct audit_job *job, struct look *look)
{
    const struct lull_whole_slowdown whole = lull_controller_look(audit_job_controller(job)).whole;

    if (!isfinite(whole.upper_ratio))
        return;
    look->bounds[look->bounded++] = whole.upper_ratio;
    look->below += whole.upper_ratio < audit_job_clocked_slowdown(job) - clock_ratio;
}

static void look_at(const struct audit_job *job, double tolerance, uint32_t run, struct look *look)
{
    const double slowdown = audit_job_slowdown(job);

    look->slowdowns[run] = slowdown;
    look->clocked += audit_job_clocked_slowdown(job);
    look->exceeding += slowdown > tolerance + rounding_ratio;
    look->lowered += audit_job_keeps_any(job);
    look->harmful += audit_job_kept_slowdown(job) >= tolerance - rounding_ratio;
    look_at_bound(job, look);
}

static void look_at_report(const struct audit_job *job, struct tally *tally)
{
    const struct lull_guard_estimate estimate =
        lull_controller_look(audit_job_controller(job)).slowdown;

    if (!audit_job_keeps_any(job) || estimate.pairs == 0 || !isfinite(estimate.upper_ratio))
        return;
    tally->reported[tally->reporting++] = estimate.upper_ratio;
    tally->below_kept += estimate.upper_ratio < audit_job_kept_slowdown(job);
    tally->below_whole += estimate.upper_ratio < audit_job_slowdown(job);
}

/* The share of all ranks' iterations that ran lower because the rank waits. */
static double waiting_share(const struct audit_job *job, uint32_t ranks)
{
    double share = 0.0;

    for (uint32_t i = 0; i < ranks; i++) {
        const struct lull_slack_record *record =
            lull_controller_look_gpu(audit_job_controller(job), i).slack;

        if (record->iterations > 0)
            share += (double)record->lowered / (double)record->iterations / ranks;
    }
    return share;
}

static int run_once(const struct audit_job_config *config, uint32_t iterations, uint32_t run,
                    struct tally *tally)
{
    struct audit_job *job = audit_job_create(config);
    uint32_t first = 0;
    uint32_t look = 0;

    if (job == NULL)
        return -1;
    for (uint32_t i = 1; i <= iterations; i++) {
        audit_job_step(job);
        if (!audit_job_holds_any(job))
            first = 0;
        else if (first == 0)
            first = i;
        if (look < tally->look_count && i == looks[look])
            look_at(job, config->tolerance_ratio, run, &tally->looks[look++]);
    }
    if (first != 0)
        tally->first[tally->staying++] = first;
    look_at_report(job, tally);
    tally->waiting += waiting_share(job, config->ranks);
    audit_job_destroy(job);
    return 0;
}

static int prepare(struct tally *tally, uint32_t runs, uint32_t iterations)
{
    tally->first = calloc(runs, sizeof(double));
    tally->reported = calloc(runs, sizeof(double));
    if (tally->first == NULL || tally->reported == NULL)
        return -1;
    while (tally->look_count < MAX_LOOKS && looks[tally->look_count] <= iterations) {
        struct look *look = &tally->looks[tally->look_count++];

        look->slowdowns = calloc(runs, sizeof(double));
        look->bounds = calloc(runs, sizeof(double));
        if (look->slowdowns == NULL || look->bounds == NULL)
            return -1;
    }
    return 0;
}

static void clear(struct tally *tally)
{
    for (uint32_t i = 0; i < tally->look_count; i++) {
        free(tally->looks[i].slowdowns);
        free(tally->looks[i].bounds);
    }
    free(tally->first);
    free(tally->reported);
}

static void print(struct tally *tally, uint32_t runs)
{
    printf("\"looks\": {");
    for (uint32_t i = 0; i < tally->look_count; i++) {
        struct look *look = &tally->looks[i];

        printf("%s\"%u\": {\"exceeding\": %.5f, \"lowered\": %.5f, \"harmful\": %.5f, "
               "\"mean\": %.6f, \"q95\": %.6f, \"clocked\": %.6f, \"bounded\": %.5f, "
               "\"uncovered\": %.5f, \"bound\": %.6f}",
               i == 0 ? "" : ", ", looks[i], look->exceeding / (double)runs,
               look->lowered / (double)runs, look->harmful / (double)runs,
               audit_mean(look->slowdowns, runs), audit_quantile(look->slowdowns, runs, 0.95),
               look->clocked / (double)runs, look->bounded / (double)runs,
               look->below / (double)runs, audit_quantile(look->bounds, look->bounded, 0.5));
    }
    printf("}, \"staying\": %.5f, \"first\": %.0f, \"first_p90\": %.0f, \"reporting\": %.5f, "
           "\"reported_upper\": %.6f, \"reported_below_kept\": %.5f, "
           "\"reported_below_whole\": %.5f, \"waiting\": %.5f",
           tally->staying / (double)runs, audit_quantile(tally->first, tally->staying, 0.5),
           audit_quantile(tally->first, tally->staying, 0.9), tally->reporting / (double)runs,
           audit_mean(tally->reported, tally->reporting), tally->below_kept / (double)runs,
           tally->below_whole / (double)runs, tally->waiting / (double)runs);
}

int audit_whole_run(const struct audit_job_config *config, uint64_t seed, uint32_t runs,
                    uint32_t iterations)
{
    struct tally tally = {0};
    int result = prepare(&tally, runs, iterations);

    for (uint32_t i = 0; i < runs && result == 0; i++) {
        struct audit_job_config one = *config;

        one.seed = audit_run_seed(seed, i);
        result = run_once(&one, iterations, i, &tally);
    }
    if (result == 0)
        print(&tally, runs);
    clear(&tally);
    return result;
}
