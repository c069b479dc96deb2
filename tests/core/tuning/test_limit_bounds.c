/*
 * Power limits that can no longer be the best: synthetic jobs off the
 * grid, simulated by formulas of this file, against trying all limits.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/stats/random.h"
#include "core/tuning/limit_bounds.h"

enum { LIMITS = 13, JOBS = 120 };

static const double tolerance = 0.03;

/* A GPU of 100 to 1400 MHz, whose voltage rises from 1000 MHz on, and whose memory slows down below
 * 600. */
static const struct lull_device_curve curve = {
    .name = "made up",
    .sm_min_mhz = 100.0,
    .sm_max_mhz = 1400.0,
    .sm_step_mhz = 10.0,
    .limit_max_w = 400.0,
    .limit_settle_ratio = 1.0,
    .limit_work_ratio = 1.0,
    .waiting_w = {2, {{100.0, 50.0}, {1400.0, 80.0}}},
    .voltage = {3, {{100.0, 1.0}, {1000.0, 1.0}, {1400.0, 1.3}}},
    .bandwidth = {3, {{100.0, 1.0 / 6.0}, {600.0, 1.0}, {1400.0, 1.0}}},
};

struct made_up_job {
    double busy_s;
    double wait_s;
    double memory_ratio;
    double base_w;
    double slope_w;
    bool is_mean_held;
};

/* ---- the job, by formulas of its own ------------------------------------------------------ */

static void play(const struct made_up_job *job, double mhz, double *time_s, double *compute_w,
                 double *energy_j)
{
    const double volts = mhz > 1000.0 ? 1.0 + 0.3 * (mhz - 1000.0) / 400.0 : 1.0;
    const double waiting_w = 50.0 + 30.0 * (mhz - 100.0) / 1300.0;
    const double core = (1.0 - job->memory_ratio) * 1400.0 / mhz;
    const double ratio = core + job->memory_ratio * fmax(600.0 / mhz, 1.0);
    const double fed = (core + job->memory_ratio) / ratio;

    *compute_w = fmax(job->base_w + job->slope_w * mhz / 1400.0 * volts * volts * fed, waiting_w);
    *time_s = job->busy_s * ratio + job->wait_s;
    *energy_j = job->busy_s * ratio * *compute_w + job->wait_s * waiting_w;
}

static struct lull_limit_known play_under(const struct made_up_job *job, double limit_w)
{
    struct lull_limit_known known = {.limit_w = limit_w, .tolerance_ratio = tolerance};

    for (double mhz = 1400.0; mhz >= 100.0; mhz -= 10.0) {
        double compute_w;

        play(job, mhz, &known.time_s, &compute_w, &known.energy_j);
        if ((job->is_mean_held ? known.energy_j / known.time_s : compute_w) <= limit_w)
            break;
    }
    return known;
}

static struct made_up_job make_up(struct lull_random *random)
{
    const double busy = 0.2 + 0.8 * lull_random_uniform(random);
    const double watts = 100.0 + 300.0 * lull_random_uniform(random);
    const double dynamic = 0.15 + 0.8 * lull_random_uniform(random);

    return (struct made_up_job){
        .busy_s = busy,
        .wait_s = 1.0 - busy,
        .memory_ratio = lull_random_uniform(random),
        .base_w = watts * (1.0 - dynamic),
        .slope_w = watts * dynamic / 1.69,
        .is_mean_held = lull_random_below(random, 2) == 0,
    };
}

static struct lull_job_selector draw_selector(struct lull_random *random)
{
    struct lull_job_selector selector = {
        .aim = (enum lull_job_aim)lull_random_below(random, LULL_JOB_DELAY + 1),
        .price = {.eta_ratio = lull_random_uniform(random), .max_power_w = 400.0, .gpu_count = 2},
        .slowdown_ratio = 0.2 * lull_random_uniform(random),
    };

    return selector;
}

/* Returns the value of a limit for the aim; INFINITY: too slow. */
static double value_of(const struct lull_job_selector *selector,
                       const struct lull_limit_known *highest, const struct lull_limit_known *limit)
{
    if (selector->aim == LULL_JOB_SLOWDOWN &&
        limit->time_s > highest->time_s * (1.0 + selector->slowdown_ratio))
        return INFINITY;
    return lull_job_value(selector, 2.0 * limit->energy_j, limit->time_s);
}

/* ---- properties --------------------------------------------------------------------------- */

struct tally {
    uint32_t asked;
    uint32_t excluded;
    uint32_t worse; /* than the best of those known, in truth, by 2 % */
    double worst_ratio;
};

/* With the first `known` limits measured, no limit below may be excluded that is the best one. */
static void check_job(const struct lull_limit_known *all, const struct lull_job_selector *selector,
                      struct tally *tally)
{
    const struct lull_limit_aim aim = {selector, 2, 0.0};
    struct lull_limit_bounds *const bounds = lull_limit_bounds_create(&curve);
    double best = INFINITY;

    assert_non_null(bounds);
    for (uint32_t known = 1; known < LIMITS; known++) {
        best = fmin(best, value_of(selector, all, &all[known - 1]));
        lull_limit_bounds_learn(bounds, all, known);
        for (uint32_t i = known; i < LIMITS; i++) {
            const double excess =
                lull_limit_bounds_excess(bounds, &aim, all, known, all[i].limit_w);
            const double truth = value_of(selector, all, &all[i]) / best - 1.0;

            tally->asked++;
            tally->worse += truth > 0.02;
            if (!(excess > 0.005))
                continue;
            tally->excluded++;
            tally->worst_ratio = fmin(tally->worst_ratio, truth);
        }
    }
    lull_limit_bounds_destroy(bounds);
}

static void test_what_is_excluded_is_not_better(void **state)
{
    struct tally tally = {0};
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 24);
    for (int job = 0; job < JOBS; job++) {
        const struct made_up_job made_up = make_up(&random);
        const struct lull_job_selector selector = draw_selector(&random);
        struct lull_limit_known all[LIMITS];

        for (uint32_t i = 0; i < LIMITS; i++)
            all[i] = play_under(&made_up, 400.0 - 25.0 * i);
        check_job(all, &selector, &tally);
    }
    print_message("%u of %u limits excluded, %u are worse by 2 %%; the best of those excluded is "
                  "%.2f %% better\n",
                  tally.excluded, tally.asked, tally.worse, -100.0 * tally.worst_ratio);
    assert_true(tally.worst_ratio > -0.005);
    assert_true(tally.excluded > 0.08 * tally.worse);
}

/* A job that no curve explains: it becomes faster with less power. */
static void test_what_does_not_fit_excludes_nothing(void **state)
{
    const struct lull_job_selector selector = {.aim = LULL_JOB_ENERGY};
    const struct lull_limit_aim aim = {&selector, 1, 0.0};
    const struct lull_limit_known known[] = {{400.0, 1.0, 380.0, tolerance},
                                             {300.0, 0.8, 240.0, tolerance}};
    struct lull_limit_bounds *const bounds = lull_limit_bounds_create(&curve);

    (void)state;
    assert_true(lull_limit_bounds_learn(bounds, known, 1) > 0);
    assert_int_equal(lull_limit_bounds_learn(bounds, known, 2), 0);
    for (double limit_w = 275.0; limit_w >= 100.0; limit_w -= 25.0)
        assert_true(lull_limit_bounds_excess(bounds, &aim, known, 2, limit_w) < 0.0);
    lull_limit_bounds_destroy(bounds);
    lull_limit_bounds_destroy(NULL);
}

/* Only time counts: every limit that binds is worse, and one above the draw as good. */
static void test_time_alone(void **state)
{
    const struct made_up_job job = {1.0, 0.0, 0.0, 60.0, 140.0, false};
    const struct lull_job_selector selector = {.aim = LULL_JOB_TIME};
    const struct lull_limit_aim aim = {&selector, 1, 0.0};
    const struct lull_limit_known known = play_under(&job, 400.0);
    struct lull_limit_bounds *const bounds = lull_limit_bounds_create(&curve);

    (void)state;
    assert_true(lull_limit_bounds_learn(bounds, &known, 1) > 0);
    assert_true(fabs(lull_limit_bounds_excess(bounds, &aim, &known, 1, 350.0)) < 1e-9);
    assert_true(lull_limit_bounds_excess(bounds, &aim, &known, 1, 100.0) >= 0.0);
    lull_limit_bounds_destroy(bounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_excluded_is_not_better),
        cmocka_unit_test(test_what_does_not_fit_excludes_nothing),
        cmocka_unit_test(test_time_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
