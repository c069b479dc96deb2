/*
 * Settled energies from visits that were too short to settle, of a GPU that is integrated here in
 * steps of 10 ms: its leakage depends on its temperature, and its temperature on its power.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../property.h"

#include <math.h>
#include <stdlib.h>

#include "core/tuning/limit_visits.h"

enum { SETTINGS = 13 };

static const double step_s = 0.01;
static const double piece_s = 0.5;

struct gpu {
    double leak_per_c;
    double c_per_w;
    double tau_s;
    double temperature_c;
    double limit_w;
};

/* Draws 380 W at 60 degC if it may, and leaks the less the lower its voltage; its clock is
 * proportional to the square root of the power without leakage. */
static void draw(const struct gpu *gpu, double *watts_out, double *speed_out)
{
    const double voltage_ratio = fmin(gpu->limit_w / 380.0, 1.0);
    const double leaks_w = 380.0 * voltage_ratio * gpu->leak_per_c * (gpu->temperature_c - 60.0);

    *watts_out = fmin(380.0 + leaks_w, gpu->limit_w);
    *speed_out = sqrt((*watts_out - leaks_w) / 380.0);
}

static double settled_c(const struct gpu *gpu, double watts)
{
    return 30.0 + gpu->c_per_w * watts;
}

/* Seconds and joules of an iteration that takes 0.1 s at full speed, over a while. */
static void run(struct gpu *gpu, double length_s, double *iterations_out, double *joules_out)
{
    *iterations_out = 0.0;
    *joules_out = 0.0;
    for (double now_s = 0.0; now_s < length_s - 0.5 * step_s; now_s += step_s) {
        double watts;
        double speed;

        draw(gpu, &watts, &speed);
        *iterations_out += 10.0 * step_s * speed;
        *joules_out += step_s * watts;
        gpu->temperature_c += step_s / gpu->tau_s * (settled_c(gpu, watts) - gpu->temperature_c);
    }
}

static void settle(struct gpu *gpu)
{
    double iterations;
    double joules;

    run(gpu, 12.0 * gpu->tau_s, &iterations, &joules);
}

static double limit_of(uint32_t setting)
{
    return 400.0 - 25.0 * setting;
}

/* A thousand iterations count as one, so that fractions are reported, too. */
static void visit(struct lull_limit_visits *visits, struct gpu *gpu, uint32_t setting,
                  struct lull_random *random, double noise)
{
    gpu->limit_w = limit_of(setting);
    lull_limit_visits_begin(visits, setting);
    for (int piece = 0; piece < 7; piece++) {
        const double ratio = lull_random_normal(random, 1.0, noise);
        double iterations;
        double joules;

        run(gpu, piece_s, &iterations, &joules);
        lull_limit_visits_feel(visits, piece_s, joules / piece_s, floor(gpu->temperature_c));
        if (piece >= 2)
            lull_limit_visits_take(visits, (uint64_t)(1000.0 * iterations / ratio), piece_s, joules,
                                   floor(gpu->temperature_c));
    }
}

/* The largest relative excess of energy and time of an iteration over the settled true values. */
static double worst_error(struct gpu *gpu, const double *iterations, const double *seconds,
                          const double *joules)
{
    double worst = 0.0;

    for (uint32_t i = 0; i < SETTINGS; i++) {
        double true_iterations;
        double true_joules;

        gpu->limit_w = limit_of(i);
        settle(gpu);
        run(gpu, 1.0, &true_iterations, &true_joules);
        worst = fmax(worst, fabs(joules[i] / iterations[i] / (true_joules / true_iterations) - 1));
        worst = fmax(worst, fabs(seconds[i] / iterations[i] * true_iterations - 1));
    }
    return worst;
}

/* Down and up again; what is left of the error of the plain sums, with and without temperatures. */
static void search(uint64_t seed, double noise, double *raw_out, double *settled_out)
{
    struct lull_limit_visits *visits = calloc(1, sizeof(*visits));
    struct gpu gpu = {.limit_w = 400.0, .temperature_c = 60.0};
    enum lull_limit_kind kinds[SETTINGS];
    struct lull_random random;
    double seconds[SETTINGS];
    double joules[SETTINGS];
    double iterations[SETTINGS] = {0};
    double raw_seconds[SETTINGS] = {0};
    double raw_joules[SETTINGS] = {0};

    lull_random_init(&random, seed);
    gpu.leak_per_c = 0.004 * lull_random_uniform(&random);
    gpu.c_per_w = 0.05 + 0.08 * lull_random_uniform(&random);
    gpu.tau_s = 10.0 * pow(6.0, lull_random_uniform(&random));
    settle(&gpu);
    for (uint32_t i = 0; i < SETTINGS; i++) {
        visit(visits, &gpu, i, &random, noise);
        kinds[i] = limit_of(i) < 370.0 ? LULL_LIMIT_BOUND : LULL_LIMIT_FREE;
    }
    /* The upper limits again, at which the GPU begins much too cold. */
    for (uint32_t i = 4; i-- > 0;)
        visit(visits, &gpu, i, &random, noise);
    for (uint32_t i = 0; i < visits->count; i++) {
        iterations[visits->items[i].point] += 1e-3 * (double)visits->items[i].iterations;
        raw_seconds[visits->items[i].point] += visits->items[i].seconds;
        raw_joules[visits->items[i].point] += visits->items[i].joules;
    }
    lull_limit_visits_settle(visits, kinds, SETTINGS, seconds, joules);
    *raw_out = worst_error(&gpu, iterations, raw_seconds, raw_joules);
    *settled_out = worst_error(&gpu, iterations, seconds, joules);
    free(visits);
}

/* The worst of all limits, in per cent, over so many GPUs. */
struct errors {
    double raw_mean;
    double settled_mean;
    double settled_most;
};

enum { GPUS = 50 };

static struct errors search_all(double noise)
{
    struct errors errors = {0};

    for (uint64_t seed = 1; seed <= GPUS; seed++) {
        double raw;
        double settled;

        search(seed, noise, &raw, &settled);
        errors.raw_mean += 100.0 * raw / GPUS;
        errors.settled_mean += 100.0 * settled / GPUS;
        errors.settled_most = fmax(errors.settled_most, 100.0 * settled);
    }
    print_message("worst of %d limits, mean of %d GPUs: %.2f %% as measured, %.2f %% settled (most "
                  "%.2f %%)\n",
                  SETTINGS, GPUS, errors.raw_mean, errors.settled_mean, errors.settled_most);
    return errors;
}

static void test_warm_and_cold_visits_agree_in_the_end(void **state)
{
    const struct errors errors = search_all(0.0);

    (void)state;
    assert_true(errors.settled_mean < 0.35 * errors.raw_mean);
    assert_true(errors.settled_most < 1.5);
}

static void test_noise_is_not_taken_for_warmth(void **state)
{
    const struct errors errors = search_all(0.02);

    (void)state;
    assert_true(errors.settled_mean < errors.raw_mean);
}

static void test_without_temperatures_visits_are_added_up(void **state)
{
    struct lull_limit_visits *visits = calloc(1, sizeof(*visits));
    const enum lull_limit_kind kinds[] = {LULL_LIMIT_FREE, LULL_LIMIT_BOUND, LULL_LIMIT_BOUND};
    double seconds[3];
    double joules[3];

    (void)state;
    for (uint32_t i = 0; i < 2 * LULL_LIMIT_VISITS_MAX; i++) {
        lull_limit_visits_begin(visits, i % 2);
        lull_limit_visits_feel(visits, 2.0, 50.0 + i % 2, NAN);
        lull_limit_visits_take(visits, 1, 2.0, 100.0 + 2 * (i % 2), NAN);
    }
    lull_limit_visits_settle(visits, kinds, 3, seconds, joules);
    assert_true(seconds[0] == 2.0 * LULL_LIMIT_VISITS_MAX / 2);
    assert_true(joules[1] == 102.0 * LULL_LIMIT_VISITS_MAX / 2);
    assert_true(seconds[2] == 0.0 && joules[2] == 0.0);
    free(visits);
}

/* Short cold and long warm visits whose iterations cost the same are what they were; those of
 * another kind, which cost more the warmer they are, change nothing about that. */
static void test_only_what_differs_is_settled(void **state)
{
    static const enum lull_limit_kind kinds[] = {LULL_LIMIT_FREE, LULL_LIMIT_LOCKED};
    struct lull_limit_visits *visits = calloc(1, sizeof(*visits));
    double seconds[2];
    double joules[2];

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t point = i % 2;
        const uint64_t iterations = i < 2 ? 40 : 160;
        const double celsius = i < 2 ? 40.0 : 60.0;
        const double iteration_j = 100.0 * (point == 0 ? 1.0 : exp(0.003 * (celsius - 70.0)));

        lull_limit_visits_begin(visits, point);
        for (int part = 0; part < 10; part++)
            lull_limit_visits_feel(visits, 0.025 * (double)iterations, 200.0, 70.0);
        lull_limit_visits_take(visits, iterations, 0.25 * (double)iterations,
                               iteration_j * (double)iterations, celsius);
    }
    lull_limit_visits_settle(visits, kinds, 2, seconds, joules);
    assert_true(fabs(seconds[0] - 50.0) < 1e-9);
    assert_true(fabs(seconds[1] - 50.0) < 1e-9);
    assert_true(fabs(joules[0] - 20000.0) < 1e-6);
    assert_true(fabs(joules[1] / 20000.0 - 1.0) < 0.01); /* as at 70 degrees */
    free(visits);
}

static void test_time_constants_are_found(void **state)
{
    (void)state;
    for (double tau_s = 8.0; tau_s < 60.0; tau_s *= 1.5) {
        struct lull_thermal thermal = {0};
        struct lull_thermal_fit fit;
        double celsius = 60.0;

        for (int i = 0; i < 300; i++) {
            const double watts =
                i < 150 ? 400.0 - i : 380.0; /* a ramp alone gives no information */

            assert_int_equal(lull_thermal_fit(&thermal, &fit), i >= 8);
            celsius += -expm1(-0.5 / tau_s) * (20.0 + 0.1 * watts - celsius);
            lull_thermal_take(&thermal, 0.5, watts, floor(celsius));
        }
        assert_true(lull_thermal_fit(&thermal, &fit));
        assert_true(fabs(log2(fit.tau_s / tau_s)) < 0.6);
        assert_true(fabs(lull_thermal_settled_c(&fit, 300.0) - 49.5) < 2.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warm_and_cold_visits_agree_in_the_end),
        cmocka_unit_test(test_noise_is_not_taken_for_warmth),
        cmocka_unit_test(test_only_what_differs_is_settled),
        cmocka_unit_test(test_without_temperatures_visits_are_added_up),
        cmocka_unit_test(test_time_constants_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
