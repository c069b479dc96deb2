/*
 * Statistics, energy accounts and job decisions on seeded inputs: their numbers are what they were.
 * What the numbers should be like is for the tests of each; this one notices that any has changed.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "digest.h"

#include "tuning/batch_case.h"
#include "core/energy/account.h"
#include "core/tuning/curve.h"
#include "core/tuning/limit_search.h"
#include "core/tuning/limit_visits.h"
#include "core/tuning/thermal.h"
#include "core/stats/joint_guard.h"
#include "core/stats/quantile.h"
#include "core/stats/student.h"

/* ---- statistics -------------------------------------------------------------------------- */

static const struct lull_guard_config guards[] = {
    {0.01, 0.0, 0.05, 0.05, 20}, {0.02, 0.005, 0.1, 0.02, 40},     {0.01, 0.01, 0.01, 0.05, 12},
    {0.05, 0.02, 0.2, 0.1, 3},   {0.01, 0.002, 0.0005, 0.05, 100},
};

enum { GUARDS = sizeof(guards) / sizeof(guards[0]) };

static void guards_decide_as_they_did(void **state)
{
    static const double slowdowns[] = {-0.02, 0.0, 0.004, 0.009, 0.015, 0.03, 0.08};
    static const double expected[GUARDS] = {4390.8339147448241, 4804.2898866816095,
                                            4665.2467361736999, 3359.0851317314409,
                                            9645.6448074407181};

    (void)state;
    for (uint32_t g = 0; g < GUARDS; g++) {
        struct digest digest = {0};
        struct lull_random random;
        char name[16];

        lull_random_init(&random, g);
        for (uint32_t run = 0; run < 70; run++) {
            const double noise = run % 3 == 0 ? 0.0 : 0.004 * (run % 5);
            struct lull_guard_estimate estimate;
            struct lull_guard guard;

            lull_guard_init(&guard, &guards[g]);
            for (uint32_t i = 0; i < guards[g].max_pairs + 1; i++) {
                lull_guard_estimate(&guard, &estimate);
                digest_add(&digest, lull_guard_screen(&guard));
                digest_add(&digest, lull_guard_verdict(&guard));
                digest_add(&digest, 1e3 * lull_guard_deviation(&guard));
                digest_add(&digest, 1e3 * estimate.slowdown_ratio);
                digest_add(&digest, 1e3 * estimate.lower_ratio);
                digest_add(&digest, 1e3 * estimate.upper_ratio);
                if (lull_guard_verdict(&guard) != LULL_VERDICT_UNDECIDED)
                    break;
                lull_guard_add(&guard, lull_random_normal(&random, 100.0, 100.0 * noise),
                               100.0 * (1.0 + slowdowns[run % 7]));
            }
            digest_add(&digest, estimate.pairs);
        }
        snprintf(name, sizeof(name), "guard %u", g);
        digest_check(&digest, name, expected[g]);
    }
}

static void ranks_decide_together_as_they_did(void **state)
{
    static const double expected[3] = {30810.826129490357, 30774.655219130938, 32934.286852346479};

    (void)state;
    for (uint32_t kind = 0; kind < 3; kind++) { /* alike, apart, screened */
        struct digest digest = {0};
        struct lull_random random;
        char name[16];

        lull_random_init(&random, 50 + kind);
        for (uint32_t run = 0; run < 60; run++) {
            struct lull_joint_guard joint;

            lull_joint_guard_init(&joint, &guards[run % GUARDS], 4, kind == 2);
            for (uint32_t pair = 0; pair < 25; pair++) {
                for (uint32_t rank = 0; rank < 4; rank++) {
                    const double reference =
                        lull_random_normal(&random, 100.0 + (kind == 1 ? 2.0 * rank : 0.0), 0.3);
                    const double candidate =
                        reference * (1.0 + 0.001 * (run % 12) + (rank == run % 5 ? 0.003 : 0.0));

                    lull_joint_guard_add(&joint, rank, reference, candidate, pair > run % 9);
                }
                if (pair == 10 && run % 4 == 0)
                    lull_joint_guard_leave(&joint, run % 3);
                digest_add(&digest, lull_joint_guard_verdict(&joint));
                digest_add(&digest, lull_joint_guard_worst(&joint));
                for (uint32_t rank = 0; rank < 4; rank++) {
                    digest_add(&digest, joint.ranks[rank].verdict);
                    digest_add(&digest, 1e3 * joint.ranks[rank].guard.differences.mean);
                }
            }
        }
        snprintf(name, sizeof(name), "joint %u", kind);
        digest_check(&digest, name, expected[kind]);
    }
}

static void distributions_are_what_they_were(void **state)
{
    struct digest quantiles = {0};
    struct digest tails = {0};
    struct digest student = {0};
    struct lull_quantile quantile = {0};
    struct lull_recent_tail recent = {0};
    struct lull_upper_tail merged = {0};
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 99);
    for (uint32_t i = 0; i < 4000; i++) {
        const double value = i % 50 == 7 ? NAN : exp(lull_random_normal(&random, 0.0, 1.0));

        lull_quantile_add(&quantile, value);
        lull_recent_tail_add(&recent, value);
        if (i < 150 || i % 97 == 0) {
            for (int k = 0; k <= 4; k++) {
                digest_add(&quantiles, lull_quantile_get(&quantile, 0.25 * k));
                digest_add(&quantiles, lull_quantile_threshold(&quantile, 0.2 * k - 0.1));
                digest_add(&quantiles, lull_quantile_excess(&quantile, 0.5 * k));
                digest_add(&tails, lull_recent_tail_exceeded(&recent, 0.4 / pow(8.0, k)));
                digest_add(&tails, lull_upper_tail_exceeded(&recent.newer, 0.4 / pow(8.0, k)));
            }
            digest_add(&quantiles, lull_quantile_lower_mean(&quantile));
            digest_add(&quantiles, lull_quantile_soft_most(&quantile, 0.3));
            digest_add(&quantiles, lull_quantile_soft_least(&quantile, 0.3));
            digest_add(&quantiles, lull_quantile_soft_most(&quantile, 0.0));
            digest_add(&tails, lull_upper_tail_p99(&recent.newer));
        }
        if (i % 500 == 0) {
            lull_upper_tail_merge(&merged, &recent.newer);
            digest_add(&tails, merged.count);
            digest_add(&tails, lull_upper_tail_p99(&merged));
            digest_add(&tails, lull_upper_tail_exceeded(&merged, 1e-4));
        }
    }
    for (double degrees = 0.5; degrees < 3e6; degrees *= 3.7)
        for (int k = -6; k <= 6; k++) {
            digest_add(&student, lull_student_cdf(0.45 * k, degrees));
            digest_add(&student, lull_student_quantile(0.5 + 0.0799 * k, degrees));
        }
    digest_check(&quantiles, "quantiles", 6950.7286468891898);
    digest_check(&tails, "tails", 8352.5499098924083);
    digest_check(&student, "student", 108.20025074443586);
}

/* ---- energy ------------------------------------------------------------------------------ */

static const struct lull_energy_source sources[] = {
    {0.02, 0.02, 0.01, 400.0},
    {0.1, 0.1, 0.1, 400.0},
    {0.1, 0.1, 0.025, 700.0},
    {0.1, 0.1, 1.0, 400.0},
};

enum { SOURCES = sizeof(sources) / sizeof(sources[0]), WAYS = 4 };

/* Reads power at 10 Hz and the counter each second, the counter alone, power alone, or all with a
 * counter that is reset; steps and gaps are uneven. */
static void read_energy(struct lull_energy_account *account, struct lull_random *random,
                        uint32_t way, struct digest *digest)
{
    struct lull_energy_edge marks[2] = {{0}};
    struct lull_energy_sum sum = {0};
    double counter_j = 1000.0;
    int64_t now_ns = 5 * INT64_C(1000000000);

    for (uint32_t i = 0; i < 150; i++) {
        const double power_w = i / 13 % 2 == 0 ? 90.0 + i : 380.0 - lull_random_uniform(random);
        const int64_t gap_ns =
            (int64_t)(1e8 * (0.8 + 0.4 * lull_random_uniform(random))) * (i % 40 == 39 ? 12 : 1);
        const struct lull_energy_reading reading = {
            .time_ns = now_ns,
            .has_counter = way != 2 && (way == 1 || i % 10 == 0),
            .has_power = way != 1 && i % 29 != 3,
            .counter_j = counter_j,
            .power_w = power_w,
        };
        double ratio;

        lull_energy_account_take(account, &reading);
        counter_j += power_w * (double)gap_ns * 1e-9;
        if (way == 3 && i == 70)
            counter_j = 3.0;
        if (way == 3 && i == 110)
            counter_j += 50000.0;
        now_ns += gap_ns;
        digest_add(digest, 1e-9 * (double)(lull_energy_account_settled_ns(account) / 1000));
        for (int k = 0; k < 3; k++) {
            const int64_t edge_ns = now_ns - (int64_t)(1e9 * (0.03 + 0.7 * k * k));

            if (!lull_energy_account_at(account, edge_ns, &marks[i % 2])) {
                digest_add(digest, -1.0);
                continue;
            }
            digest_add(digest, marks[i % 2].energy_j);
            digest_add(digest, marks[i % 2].edge_j2);
            digest_add(digest, marks[i % 2].path_j2);
            digest_add(digest, marks[i % 2].bias_j);
        }
        if (i % 2 == 1 && marks[0].time_ns != 0) {
            const struct lull_energy_figure figure =
                lull_energy_between(account, &marks[0], &marks[1]);

            lull_energy_sum_add(&sum, &figure);
            digest_add(digest, figure.joules);
            digest_add(digest, figure.uncertainty_j);
            digest_add(digest, figure.bias_j);
            digest_add(digest, lull_energy_sum_uncertainty_j(&sum));
        }
        digest_add(digest, lull_energy_account_check(account, &ratio) ? 100.0 * ratio : -7.0);
    }
    digest_add(digest, sum.joules + sum.seconds + (double)sum.count + account->resets);
}

static void energy_is_what_it_was(void **state)
{
    static const double expected[WAYS] = {48738.47520692792, 43447.849616369051, 64059.600997728106,
                                          64241.813256574991};

    (void)state;
    for (uint32_t way = 0; way < WAYS; way++) {
        struct digest digest = {0};
        struct lull_random random;
        char name[16];

        lull_random_init(&random, 7 + way);
        for (uint32_t s = 0; s < SOURCES; s++) {
            struct lull_energy_account account;

            lull_energy_account_init(&account, &sources[s]);
            read_energy(&account, &random, way, &digest);
        }
        snprintf(name, sizeof(name), "energy %u", way);
        digest_check(&digest, name, expected[way]);
    }
}

/* ---- jobs -------------------------------------------------------------------------------- */

static void batch_sizes_are_chosen_as_they_were(void **state)
{
    static const double *const jobs[] = {valley, edges, nothing};
    static const double expected[3] = {10909.62093188656, 10858.968060449964, 11880.193658726999};

    (void)state;
    for (uint32_t j = 0; j < 3; j++) {
        struct digest digest = {0};
        char name[16];

        for (uint64_t seed = 1; seed <= 6; seed++) {
            struct lull_batch_config config = config_of(seed);
            struct lull_batch_arm arms[SIZES];
            struct job job;

            config.window = seed == 3 ? 5 : config.window;
            config.beta_ratio = seed == 4 ? INFINITY : 1.0 + 0.3 * (double)seed;
            begin(&job, &config, jobs[j]);
            job.noise_ratio = 0.05 * (double)seed;
            for (uint32_t run = 0; run < 50; run++) {
                struct lull_batch_choice choice;
                const uint64_t retry_of = run % 3 == 2 ? job.run : 0;

                if (run == 30 && j == 0)
                    job.costs = edges; /* other data */
                choice = submit(&job, retry_of);
                digest_add(&digest, choice.size);
                digest_add(&digest, choice.bound);
                digest_add(&digest, choice.is_exploring);
                if (run % 11 == 5)
                    continue; /* it is never heard of again */
                finish(&job, job.run, &choice);
                digest_add(&digest, lull_batch_least_cost(job.batch));
                digest_add(&digest, lull_batch_best_size(job.batch));
                digest_add(&digest, lull_batch_is_exploring(job.batch));
                digest_add(&digest, lull_batch_change_count(job.batch));
            }
            for (size_t i = 0; i < lull_batch_arms(job.batch, arms, SIZES); i++) {
                digest_add(&digest, arms[i].size + arms[i].run_count);
                digest_add(&digest, arms[i].missed_count + 3.0 * arms[i].is_candidate);
                digest_add(&digest, arms[i].mean_cost);
                digest_add(&digest, arms[i].deviation_cost);
            }
            lull_batch_destroy(job.batch);
        }
        snprintf(name, sizeof(name), "batch %u", j);
        digest_check(&digest, name, expected[j]);
    }
}

/* A made-up GPU: its draw, its clock below the limit, its warmth. */
static void iterate(struct lull_random *random, const struct lull_limit_point *setting,
                    double noise_ratio, double *temperature_c, double *seconds, double *joules)
{
    const double free_w = 300.0;
    const double locked_w =
        setting->sm_mhz == 0 ? free_w : 60.0 + 240.0 * pow(setting->sm_mhz / 1400.0, 3.0);
    const double watts = fmin(fmin(setting->limit_w, free_w), locked_w);
    const double speed = cbrt((watts - 60.0) / (free_w - 60.0));

    *seconds = 0.2 * (0.4 + 0.6 / speed) * lull_random_normal(random, 1.0, noise_ratio);
    *joules = *seconds * watts * (1.0 + 0.003 * (*temperature_c - 40.0));
    *temperature_c += (25.0 + 0.15 * watts - *temperature_c) * 0.05;
}

static void digest_measures(struct digest *digest, const struct lull_limit_search *search)
{
    uint32_t measured;
    uint32_t count;
    const struct lull_limit_measure *measures =
        lull_limit_search_measures(search, &measured, &count);

    digest_add(digest, measured);
    digest_add(digest, lull_limit_search_spent_s(search));
    for (uint32_t i = 0; i < measured; i++) {
        digest_add(digest, (double)measures[i].iterations);
        digest_add(digest, measures[i].seconds);
        digest_add(digest, 0.01 * measures[i].joules);
        digest_add(digest, 100.0 * lull_limit_half_width(&measures[i].iteration_s));
    }
}

static void search_limits(const struct lull_job_selector *selector, uint64_t seed,
                          struct digest *digest)
{
    static const uint32_t clocks_mhz[] = {1300, 1100, 900, 700};
    struct lull_limit_search_config config = lull_limit_search_defaults;
    struct lull_limit_point settings[LULL_LIMIT_SEARCH_POINTS];
    struct lull_limit_search *search;
    struct lull_random random;
    double temperature_c = 30.0;
    uint32_t count;

    lull_random_init(&random, seed);
    config.selector = *selector;
    config.slice_s = 2.0 + (double)(seed % 3);
    config.settle_s = seed % 4 == 0 ? 0.0 : 0.7;
    config.budget_s = 20.0 + 30.0 * (double)(seed % 5);
    count = lull_limit_search_ladder(400.0, 100.0, 20.0 + (double)seed, settings);
    digest_add(digest, count);
    assert_int_equal(lull_limit_search_create(&config, settings, count, &search, NULL), 0);
    for (int round = 0; round < 2; round++) {
        uint32_t pieces = 0;

        while (lull_limit_search_now(search) != NULL && pieces++ < 5000) {
            double seconds;
            double joules;

            iterate(&random, lull_limit_search_now(search), 0.002 * (double)(seed % 6),
                    &temperature_c, &seconds, &joules);
            digest_add(digest, lull_limit_search_now(search)->limit_w);
            lull_limit_search_take(search, 2, 2.0 * seconds, 2.0 * joules,
                                   seed % 2 == 0 ? NAN : floor(temperature_c));
        }
        digest_measures(digest, search);
        if (round == 0)
            assert_int_equal(lull_limit_search_refine(search, clocks_mhz, 4, NULL), 0);
    }
    lull_limit_search_destroy(search);
}

static void limits_are_searched_as_they_were(void **state)
{
    static const struct lull_job_selector selectors[] = {
        {.aim = LULL_JOB_ENERGY},
        {.aim = LULL_JOB_TIME},
        {.aim = LULL_JOB_DELAY},
        {.aim = LULL_JOB_COST, .price = {0.5, 400.0, 2}},
        {.aim = LULL_JOB_SLOWDOWN, .slowdown_ratio = 0.05},
        {.aim = LULL_JOB_SLOWDOWN, .slowdown_ratio = 0.15},
    };
    static const double expected[6] = {15269.997113671909, 26419.670163714505, 24051.24303237833,
                                       29530.450999427783, 15497.374882376827, 18937.957966334263};

    (void)state;
    for (uint32_t s = 0; s < 6; s++) {
        struct digest digest = {0};
        char name[16];

        for (uint64_t seed = 1; seed <= 12; seed++)
            search_limits(&selectors[s], seed, &digest);
        snprintf(name, sizeof(name), "limits %u", s);
        digest_check(&digest, name, expected[s]);
    }
}

static void warmth_and_curves_are_what_they_were(void **state)
{
    static const struct lull_curve_prior prior = {3.0, 0.7, 1.0, 0.08};
    struct digest thermals = {0};
    struct digest curves = {0};
    struct lull_thermal thermal = {0};
    struct lull_curve_point points[9];
    struct lull_curve curve;
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 31);
    for (uint32_t i = 0; i < 60; i++) {
        const double watts = 150.0 + 50.0 * (i / 12 % 3);
        struct lull_thermal_fit fit;

        lull_thermal_take(&thermal, 2.0 + i % 3, watts,
                          40.0 + 0.08 * watts + lull_random_normal(&random, 0.0, 0.3) -
                              10.0 * exp(-0.1 * i));
        if (!lull_thermal_fit(&thermal, &fit)) {
            digest_add(&thermals, -1.0);
            continue;
        }
        digest_add(&thermals, fit.base_c);
        digest_add(&thermals, fit.rise_c);
        digest_add(&thermals, fit.tau_s);
        digest_add(&thermals, lull_thermal_settled_c(&fit, 233.0));
    }
    for (uint32_t seed = 0; seed < 20; seed++) {
        for (uint32_t i = 0; i < 9; i++)
            points[i] =
                (struct lull_curve_point){.x = 1.3 * i,
                                          .count = i == 4 ? 2 : (seed >> (i % 4) & 1) * (1 + i % 3),
                                          .value = 5.0 + lull_random_normal(&random, 0.1 * i, 0.3)};
        lull_curve_fit(&prior, points, 9, 0.01 * (1 + seed), &curve);
        for (uint32_t i = 0; i < 9; i++) {
            digest_add(&curves, curve.mean[i]);
            digest_add(&curves, curve.deviation[i]);
            digest_add(&curves, curve.factor[i][i / 2]);
        }
    }
    digest_check(&thermals, "thermal", 1241.9465084083495);
    digest_check(&curves, "curves", 732.8265796653443);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guards_decide_as_they_did),
        cmocka_unit_test(ranks_decide_together_as_they_did),
        cmocka_unit_test(distributions_are_what_they_were),
        cmocka_unit_test(energy_is_what_it_was),
        cmocka_unit_test(batch_sizes_are_chosen_as_they_were),
        cmocka_unit_test(limits_are_searched_as_they_were),
        cmocka_unit_test(warmth_and_curves_are_what_they_were),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
