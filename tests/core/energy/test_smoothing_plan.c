/*
 * Smoothing plans: the chosen floor against all others, and its prediction against power that is
 * raised reading by reading. SPDX-License-Identifier: Apache-2.0
 */
#include "core/energy/smoothing_plan.h"

#include "core/energy/swing.h"

#include "../property.h"

enum { COUNT = 60, GPUS = 3, CASES = 200 };

struct drawn {
    double powers_w[GPUS * COUNT];
    struct lull_smoothing_series series;
    struct lull_smoothing_limits limits;
};

/* Two levels of power in a period of 0.3 to 2 s, and noise. */
static void draw(uint64_t seed, struct drawn *drawn)
{
    struct lull_random random;
    double low_w;
    double share;
    uint32_t period;

    lull_random_init(&random, seed);
    low_w = 200.0 + 500.0 * lull_random_uniform(&random);
    share = 0.1 + 0.5 * lull_random_uniform(&random);
    period = 3 + (uint32_t)(18.0 * lull_random_uniform(&random));
    for (uint32_t gpu = 0; gpu < GPUS; gpu++)
        for (uint32_t i = 0; i < COUNT; i++)
            drawn->powers_w[gpu * COUNT + i] =
                (i % period < share * period ? low_w : 900.0) + 20.0 * lull_random_uniform(&random);
    drawn->series = (struct lull_smoothing_series){drawn->powers_w, GPUS, COUNT, 0.1};
    drawn->limits =
        (struct lull_smoothing_limits){1000.0, 90, 0.2 * lull_random_uniform(&random), 0.05};
}

/* The definition: every reading below the floor is at the floor, after a first one above. */
static void raise_all(const struct drawn *drawn, double floor_w, double *mean_w, double *band_w)
{
    double sum_w[COUNT] = {0};

    *mean_w = 0.0;
    for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
        bool was_above = false;

        for (uint32_t i = 0; i < COUNT; i++) {
            const double power_w = drawn->powers_w[gpu * COUNT + i];

            was_above = was_above || power_w >= floor_w;
            sum_w[i] += was_above ? fmax(power_w, floor_w) : power_w;
        }
    }
    for (uint32_t i = 0; i < COUNT; i++)
        *mean_w += sum_w[i] / COUNT;
    *band_w = lull_swing_band_w(sum_w, COUNT, 0.1, LULL_SWING_LOWEST_HZ, LULL_SWING_HIGHEST_HZ);
}

static void test_the_cheapest_floor_is_chosen(void **state)
{
    uint32_t seen[LULL_SMOOTHING_VOID + 1] = {0};

    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct lull_smoothing_plan plan;
        struct drawn drawn;
        double before_w;
        double without_w;
        uint32_t cheapest = 0;

        draw(seed, &drawn);
        lull_smoothing_plan_make(&drawn.series, &drawn.limits, &plan);
        seen[plan.result]++;
        raise_all(&drawn, 0.0, &without_w, &before_w);
        if (plan.result == LULL_SMOOTHING_NOT_NEEDED) {
            assert_true(before_w <= drawn.limits.bound_ratio * without_w + 1e-6);
            assert_int_equal(plan.smoothing.floor_percent, 0);
            continue;
        }
        for (uint32_t percent = 1; percent <= 90; percent++) {
            double mean_w;
            double band_w;

            raise_all(&drawn, 10.0 * percent, &mean_w, &band_w);
            if (mean_w / without_w - 1.0 > 0.05)
                break;
            if (band_w <= drawn.limits.bound_ratio * without_w && cheapest == 0)
                cheapest = percent;
            if (plan.result == LULL_SMOOTHING_COSTLY)
                assert_true(plan.after_w <= band_w + 1e-6);
        }
        assert_int_equal(cheapest != 0, plan.result == LULL_SMOOTHING_BOUNDED);
        if (cheapest != 0)
            assert_int_equal(plan.smoothing.floor_percent, cheapest);
        assert_true(plan.added_ratio <= 0.05);
    }
    assert_true(seen[LULL_SMOOTHING_NOT_NEEDED] > 5 && seen[LULL_SMOOTHING_BOUNDED] > 5 &&
                seen[LULL_SMOOTHING_COSTLY] > 5);
}

static void test_ramps_and_hysteresis(void **state)
{
    struct lull_smoothing_plan plan;
    struct drawn drawn;

    (void)state;
    draw(0, &drawn);
    for (uint32_t i = 0; i < GPUS * COUNT; i++) /* 0.3 s of each second are low */
        drawn.powers_w[i] = i % 10 < 3 ? 600.0 : 900.0;
    lull_smoothing_plan_predict(&drawn.series, &drawn.limits, 80, &plan);
    assert_int_equal(plan.smoothing.floor_percent, 80);
    assert_int_equal(plan.smoothing.hysteresis_ms, 500);
    assert_int_equal(plan.smoothing.ramp_up_w, 100000);
    assert_int_equal(plan.smoothing.ramp_down_w, 800);
    /* The first low phase comes before any power above the floor. */
    assert_true(fabs(plan.added_ratio - 5.0 / 6.0 * 0.3 * 200.0 / 810.0) < 1e-9);
}

static void test_pauses_are_not_covered(void **state)
{
    struct lull_smoothing_plan plan;
    struct drawn drawn;

    (void)state;
    draw(0, &drawn);
    for (uint32_t i = 0; i < GPUS * COUNT; i++)
        drawn.powers_w[i] = i % COUNT < 5 ? 900.0 : 100.0; /* 5.5 s without work */
    lull_smoothing_plan_predict(&drawn.series, &drawn.limits, 80, &plan);
    assert_true(plan.smoothing.hysteresis_ms <= 5200);
    assert_true(plan.added_ratio < 50 * 700.0 / (5 * 900.0 + 55 * 100.0) + 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cheapest_floor_is_chosen),
        cmocka_unit_test(test_ramps_and_hysteresis),
        cmocka_unit_test(test_pauses_are_not_covered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
