/*
 * Bounds over runs against their definition by brute force, and their coverage in simulated
 * comparisons with known true values. The test prints the coverage table of
 * docs/research/measurements/comparisons.md. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>

#include "core/stats/paired_runs.h"
#include "../property.h"

static const double pi = 3.14159265358979323846;

/* ---- the definition ------------------------------------------------------------------------ */

/* P(T > t) by Simpson's rule on u with t = tan(u): nothing of it is the library's. */
static double tail_by_integration(double t, double degrees)
{
    enum { STEPS = 20000 };
    const double log_factor =
        lgamma((degrees + 1.0) / 2.0) - lgamma(degrees / 2.0) - 0.5 * log(degrees * pi);
    const double begin = atan(t);
    const double step = (pi / 2.0 - begin) / STEPS;
    double sum = 0.0;

    for (int i = 0; i < STEPS; i++) {
        const double x = tan(begin + i * step);
        const double density =
            exp(log_factor - (degrees + 1.0) / 2.0 * log1p(x * x / degrees)) * (1.0 + x * x);

        sum += density * (i == 0 ? 1.0 : 2.0 + 2.0 * (i % 2));
    }
    if (degrees < 1.5) /* the only density whose last term does not vanish: 1 / pi */
        sum += 1.0 / pi;
    return sum * step / 3.0;
}

enum { MOST_PAIRS = 12 };

struct pairs {
    uint32_t count;
    double reference[MOST_PAIRS];
    double other[MOST_PAIRS];
};

static void make_pairs(uint64_t seed, struct lull_random *random, struct pairs *pairs)
{
    lull_random_init(random, seed);
    pairs->count = 2 + (uint32_t)lull_random_below(random, MOST_PAIRS - 1);
    for (uint32_t i = 0; i < pairs->count; i++) {
        pairs->reference[i] = 50.0 * (1.0 + 0.1 * lull_random_uniform(random));
        pairs->other[i] = 51.0 * (1.0 + 0.1 * lull_random_uniform(random));
    }
}

static struct lull_paired_change change_of(const struct pairs *pairs, double confidence,
                                           double shared_log)
{
    struct lull_paired_runs runs = {0};
    struct lull_paired_change change;

    for (uint32_t i = 0; i < pairs->count; i++)
        lull_paired_runs_add(&runs, pairs->reference[i], pairs->other[i], shared_log);
    lull_paired_runs_change(&runs, confidence, &change);
    return change;
}

static void test_the_bounds_are_where_students_test_rejects(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        double mean = 0.0, squares = 0.0, error;
        struct lull_paired_change change;
        struct lull_random random;
        struct pairs pairs;

        make_pairs(seed, &random, &pairs);
        const double n = pairs.count;
        const double confidence = 0.55 + 0.44 * lull_random_uniform(&random);

        for (uint32_t i = 0; i < pairs.count; i++)
            mean += (log(pairs.other[i]) - log(pairs.reference[i])) / n;
        for (uint32_t i = 0; i < pairs.count; i++)
            squares += pow(log(pairs.other[i]) - log(pairs.reference[i]) - mean, 2.0);
        error = sqrt(squares / (n - 1.0) / n);
        change = change_of(&pairs, confidence, 0.0);
        holds(change.pairs == pairs.count, seed);
        holds(fabs(change.ratio - (exp(mean) - 1.0)) < 1e-12, seed);
        holds(fabs(tail_by_integration((log1p(change.upper_ratio) - mean) / error, n - 1.0) -
                   (1.0 - confidence)) < 1e-6,
              seed);
        holds(fabs(tail_by_integration((mean - log1p(change.lower_ratio)) / error, n - 1.0) -
                   (1.0 - confidence)) < 1e-6,
              seed);
    }
}

static void test_two_pairs_have_the_bounds_of_cauchy(void **state)
{
    const struct pairs pairs = {2, {100.0, 100.0}, {101.0, 103.0}};
    const double mean = 0.5 * (log(1.01) + log(1.03));
    const double half = tan(pi * 0.45) * 0.5 * (log(1.03) - log(1.01));
    const struct lull_paired_change change = change_of(&pairs, 0.95, 0.0);

    (void)state;
    assert_near(change.ratio, exp(mean) - 1.0, 1e-12);
    assert_near(change.upper_ratio, exp(mean + half) - 1.0, 1e-9);
    assert_near(change.lower_ratio, exp(mean - half) - 1.0, 1e-9);
}

static void test_units_and_sides_do_not_matter(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct lull_paired_change change, scaled, mirrored, surer;
        struct lull_random random;
        struct pairs pairs, other;

        make_pairs(seed, &random, &pairs);
        other = pairs;
        for (uint32_t i = 0; i < pairs.count; i++) {
            const double unit = exp(lull_random_normal(&random, 0.0, 3.0));

            /* Each pair in a unit of its own, and the pairs in the reverse order. */
            other.reference[i] = unit * pairs.reference[pairs.count - 1 - i];
            other.other[i] = unit * pairs.other[pairs.count - 1 - i];
        }
        change = change_of(&pairs, 0.9, 0.0);
        scaled = change_of(&other, 0.9, 0.0);
        holds(fabs(scaled.ratio - change.ratio) < 1e-12, seed);
        holds(fabs(scaled.upper_ratio - change.upper_ratio) < 1e-10, seed);
        for (uint32_t i = 0; i < pairs.count; i++) {
            other.reference[i] = pairs.other[i];
            other.other[i] = pairs.reference[i];
        }
        mirrored = change_of(&other, 0.9, 0.0);
        holds(fabs((1.0 + mirrored.lower_ratio) * (1.0 + change.upper_ratio) - 1.0) < 1e-10, seed);
        surer = change_of(&pairs, 0.95, 0.0);
        holds(surer.upper_ratio > change.upper_ratio && surer.lower_ratio < change.lower_ratio,
              seed);
        holds(change.lower_ratio < change.ratio && change.ratio < change.upper_ratio, seed);
    }
}

static void test_an_error_that_pairs_share_moves_both_bounds(void **state)
{
    const struct pairs pairs = {3, {100.0, 99.0, 102.0}, {101.0, 101.0, 102.0}};
    const struct lull_paired_change without = change_of(&pairs, 0.95, 0.0);
    const struct lull_paired_change with = change_of(&pairs, 0.95, 0.002);

    (void)state;
    assert_near(with.ratio, without.ratio, 0.0);
    assert_near(log1p(with.upper_ratio), log1p(without.upper_ratio) + 0.002, 1e-12);
    assert_near(log1p(with.lower_ratio), log1p(without.lower_ratio) - 0.002, 1e-12);
}

static void test_one_pair_has_no_bounds_and_nonsense_is_no_pair(void **state)
{
    struct lull_paired_runs runs = {0};
    struct lull_paired_change change;

    (void)state;
    lull_paired_runs_add(&runs, 0.0, 1.0, 0.0);
    lull_paired_runs_add(&runs, 1.0, -1.0, 0.0);
    lull_paired_runs_add(&runs, NAN, 1.0, 0.0);
    lull_paired_runs_add(&runs, 1.0, INFINITY, 0.0);
    lull_paired_runs_change(&runs, 0.95, &change);
    assert_int_equal(change.pairs, 0);
    assert_true(isnan(change.ratio) && isnan(change.lower_ratio) && isnan(change.upper_ratio));
    lull_paired_runs_add(&runs, 100.0, 103.0, 0.0);
    lull_paired_runs_change(&runs, 0.95, &change);
    assert_int_equal(change.pairs, 1);
    assert_near(change.ratio, 0.03, 1e-12);
    assert_true(isnan(change.lower_ratio) && isnan(change.upper_ratio));
}

static void test_the_order_cancels_drift(void **state)
{
    static const char order[] = "ABBAABBAABBA";
    struct lull_paired_runs runs = {0};
    struct lull_paired_change change;
    double amounts[2];

    (void)state;
    for (uint32_t run = 0; run + 1 < sizeof(order); run++) {
        const bool is_other = lull_paired_runs_is_other(run);

        assert_int_equal(is_other, order[run] == 'B');
        amounts[is_other] = (is_other ? 1.02 : 1.0) * exp(0.005 * run);
        if (run % 2 == 1)
            lull_paired_runs_add(&runs, amounts[0], amounts[1], 0.0);
    }
    lull_paired_runs_change(&runs, 0.95, &change);
    assert_int_equal(change.pairs, 6);
    assert_near(change.ratio, 0.02, 1e-12);
    assert_true(change.upper_ratio > 0.02 + 0.003);
}

/* ---- coverage ------------------------------------------------------------------------------ */

enum { REPETITIONS = 2000, ITERATIONS = 40, SIZES = 3, COUNTS = 3 };

static const double sizes[SIZES] = {0.001, 0.003, 0.01}; /* relative differences of runs */
static const uint32_t counts[COUNTS] = {3, 5, 10};

enum difference {
    NORMAL,
    STUDENT_3,
    UNIFORM,
    TWO_LEVELS, /* each run is fast or slow, as where its processes were placed */
    DRIFT,      /* each run is slower than the one before, beside normal differences */
    FOLLOWS,    /* a run resembles the one before it: AR(1) of 0.8 */
    OTHER_MORE, /* the other side's runs differ three times as much */
    SKEWED,     /* the other side alone is late by exponential times: outside the assumptions */
    DIFFERENCES,
};

static const char *const difference_names[DIFFERENCES] = {"normal",
                                                          "Student's t, 3 degrees",
                                                          "uniform",
                                                          "two levels",
                                                          "drift per run",
                                                          "AR(1) 0.8 from run to run",
                                                          "3 times as much if managed",
                                                          "exponential, managed only"};

/* Model of the differences between runs of one comparison. */
struct world {
    enum difference difference;
    double size;
    double before; /* of the run before, for FOLLOWS */
    struct lull_random random;
};

static double student_3(struct lull_random *random)
{
    double squares = 0.0;
    const double normal = lull_random_normal(random, 0.0, 1.0);

    for (int i = 0; i < 3; i++)
        squares += pow(lull_random_normal(random, 0.0, 1.0), 2.0);
    return normal / sqrt(squares / 3.0);
}

/* Draws the relative difference of a run, whose standard deviation is about the size. */
static double draw(struct world *world, uint32_t run, bool is_other)
{
    struct lull_random *const random = &world->random;
    const double normal = lull_random_normal(random, 0.0, 1.0);

    switch (world->difference) {
    case STUDENT_3:
        return world->size * student_3(random) / sqrt(3.0);
    case UNIFORM:
        return world->size * sqrt(12.0) * (lull_random_uniform(random) - 0.5);
    case TWO_LEVELS:
        return world->size * (lull_random_below(random, 2) == 0 ? -1.0 : 1.0);
    case DRIFT:
        return world->size * (normal + run);
    case FOLLOWS:
        world->before = run == 0 ? normal : 0.8 * world->before + 0.6 * normal;
        return world->size * world->before;
    case OTHER_MORE:
        return world->size * normal * (is_other ? 3.0 : 1.0);
    case SKEWED:
        return is_other ? world->size * (-log1p(-lull_random_uniform(random)) - 1.0) : 0.0;
    default:
        return world->size * normal;
    }
}

/* The mean iteration time of a run whose iterations follow each other, AR(1) of 0.5 at 1 %. */
static double run_ms(struct world *world, uint32_t run, bool is_other, double slowdown)
{
    const double level = 60.0 * (is_other ? 1.0 + slowdown : 1.0) * exp(draw(world, run, is_other));
    double noise = lull_random_normal(&world->random, 0.0, 1.0);
    double sum = 0.0;

    for (int i = 0; i < ITERATIONS; i++) {
        noise = 0.5 * noise + sqrt(0.75) * lull_random_normal(&world->random, 0.0, 1.0);
        sum += level * (1.0 + 0.01 * noise);
    }
    return sum / ITERATIONS;
}

static struct lull_paired_change compare_times(struct world *world, uint32_t pairs, double slowdown)
{
    struct lull_paired_runs runs = {0};
    struct lull_paired_change change;
    double amounts[2];

    for (uint32_t run = 0; run < 2 * pairs; run++) {
        const bool is_other = lull_paired_runs_is_other(run);

        amounts[is_other] = run_ms(world, run, is_other, slowdown);
        if (run % 2 == 1)
            lull_paired_runs_add(&runs, amounts[0], amounts[1], 0.0);
    }
    lull_paired_runs_change(&runs, 0.95, &change);
    return change;
}

/* The share of comparisons whose bound is not below the truth, and how far above it lies. */
static double coverage_of_times(enum difference difference, double size, uint32_t pairs,
                                double *room_out)
{
    const double slowdown = 0.01;
    uint32_t covered = 0;
    double room = 0.0;

    for (uint64_t seed = 1; seed <= REPETITIONS; seed++) {
        struct world world = {.difference = difference, .size = size};
        struct lull_paired_change change;

        lull_random_init(&world.random, 1000 * seed + pairs);
        change = compare_times(&world, pairs, slowdown);
        covered += change.upper_ratio >= slowdown;
        room += (change.upper_ratio - slowdown) / REPETITIONS;
    }
    *room_out = room;
    return (double)covered / REPETITIONS;
}

static void test_the_bound_of_the_slowdown_covers(void **state)
{
    (void)state;
    printf("slowdown of 1 %%, one-sided at 95 %%: share of bounds that hold; mean bound - truth\n");
    for (int difference = 0; difference < DIFFERENCES; difference++)
        for (int size = 0; size < SIZES; size++) {
            printf("| %-26s | %.1f %% |", difference_names[difference], sizes[size] * 100.0);
            for (int count = 0; count < COUNTS; count++) {
                double room;
                const double covered = coverage_of_times((enum difference)difference, sizes[size],
                                                         counts[count], &room);

                printf(" %.1f %% (+%.2f) |", covered * 100.0, room * 100.0);
                holds(covered >= (difference == SKEWED ? 0.82 : 0.93), counts[count]);
                holds(room < 12.0 * (sizes[size] + 0.003), counts[count]);
            }
            printf("\n");
        }
}

/* ---- the saving ---------------------------------------------------------------------------- */

enum condition { BETWEEN, REFRESH, GAIN, OFFSET, ALIASING, ALL, CONDITIONS };

static const char *const condition_names[CONDITIONS] = {
    "between runs alone", "refresh of the counter", "gain of the boards",
    "offset of 5 W",      "aliasing of 2 %",        "all of them"};

/* One comparison's sensor. */
struct sensor {
    double gain;
    double offset_w;
    double refresh_s;
    double aliasing;
};

/* Returns the energy that the sensor reports for a run of 200 iterations of 0.6 s at this power. */
static double measured_j(const struct sensor *sensor, struct world *world, double power_w)
{
    const double seconds = 120.0;
    struct lull_random *const random = &world->random;
    const double phase = 2.0 * pi * lull_random_uniform(random);
    const double drawn_w = power_w * exp(lull_random_normal(random, 0.0, world->size));
    double joules = drawn_w * seconds * (1.0 + sensor->aliasing * sin(phase));

    joules +=
        drawn_w * sensor->refresh_s * (lull_random_uniform(random) - lull_random_uniform(random));
    return sensor->gain * joules + sensor->offset_w * seconds;
}

static double coverage_of_saving(enum condition condition, double size, uint32_t pairs)
{
    const double power_w[2] = {300.0, 260.0};
    const double seconds = 120.0;
    uint32_t covered = 0;

    for (uint64_t seed = 1; seed <= REPETITIONS; seed++) {
        struct world world = {.size = size};
        struct lull_paired_runs runs = {0};
        struct lull_paired_change change;
        double amounts[2];

        lull_random_init(&world.random, 77000 * seed + pairs);
        const double gain = 0.95 + 0.1 * lull_random_uniform(&world.random);
        const double offset_w = lull_random_below(&world.random, 2) == 0 ? -5.0 : 5.0;
        const struct sensor sensor = {
            .gain = condition == GAIN || condition == ALL ? gain : 1.0,
            .offset_w = condition == OFFSET || condition == ALL ? offset_w : 0.0,
            .refresh_s = condition == REFRESH || condition == ALL ? 0.1 : 0.0,
            .aliasing = condition == ALIASING || condition == ALL ? 0.02 : 0.0,
        };

        for (uint32_t run = 0; run < 2 * pairs; run++) {
            const bool is_other = lull_paired_runs_is_other(run);

            amounts[is_other] = measured_j(&sensor, &world, power_w[is_other]);
            if (run % 2 == 1)
                lull_paired_runs_add(&runs, amounts[0], amounts[1],
                                     5.0 * seconds * (1.0 / amounts[1] - 1.0 / amounts[0]));
        }
        lull_paired_runs_change(&runs, 0.975, &change);
        covered += change.lower_ratio <= power_w[1] / power_w[0] - 1.0 &&
                   power_w[1] / power_w[0] - 1.0 <= change.upper_ratio;
    }
    return (double)covered / REPETITIONS;
}

static void test_the_interval_of_the_saving_covers(void **state)
{
    (void)state;
    printf("saving of 13.3 %%, interval at 95 %%: share of intervals that hold the truth\n");
    for (enum condition condition = 0; condition < CONDITIONS; condition++)
        for (int size = 0; size < SIZES; size++) {
            printf("| %-22s | %.1f %% |", condition_names[condition], sizes[size] * 100.0);
            for (int count = 0; count < COUNTS; count++) {
                const double covered = coverage_of_saving(condition, sizes[size], counts[count]);

                printf(" %.1f %% |", covered * 100.0);
                holds(covered >= 0.93, counts[count]);
            }
            printf("\n");
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bounds_are_where_students_test_rejects),
        cmocka_unit_test(test_two_pairs_have_the_bounds_of_cauchy),
        cmocka_unit_test(test_units_and_sides_do_not_matter),
        cmocka_unit_test(test_an_error_that_pairs_share_moves_both_bounds),
        cmocka_unit_test(test_one_pair_has_no_bounds_and_nonsense_is_no_pair),
        cmocka_unit_test(test_the_order_cancels_drift),
        cmocka_unit_test(test_the_bound_of_the_slowdown_covers),
        cmocka_unit_test(test_the_interval_of_the_saving_covers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
