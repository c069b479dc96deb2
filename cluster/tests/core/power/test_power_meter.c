/*
 * The power meter against sums over every second, and invalid tariffs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/core/power/power_meter.h"
#include "tests/core/property.h"

enum { SEEDS = 200, SECONDS = 500, TYPES = 2, STEPS = 6 };

#define S INT64_C(1000000000)

struct second {
    double w[TYPES][LULL_POWER_PARTS];
    double at_once_j;
};

static double value_at(const struct lull_tariff *tariff, int64_t second)
{
    double value = tariff->value[0];

    for (size_t i = 0; i < tariff->count && tariff->time_ns[i] <= second * S; i++)
        value = tariff->value[i];
    return value;
}

static double bill(const struct second *seconds, const struct lull_tariff *tariff)
{
    double sum = 0.0;

    for (int64_t i = 0; i < SECONDS; i++) {
        double j = seconds[i].at_once_j;

        for (int type = 0; type < TYPES; type++)
            for (int part = 0; part < LULL_POWER_PARTS; part++)
                j += seconds[i].w[type][part];
        sum += j * value_at(tariff, i);
    }
    return sum / 3.6e6;
}

/* Power changes at the beginning of some seconds. */
static void play(struct lull_power_meter *meter, struct second *seconds, struct lull_random *random)
{
    struct second now = {0};

    for (int64_t i = 0; i < SECONDS; i++) {
        now.at_once_j = 0.0;
        for (uint64_t changes = lull_random_below(random, 4); changes > 0; changes--) {
            const uint32_t type = (uint32_t)lull_random_below(random, TYPES);
            const int part = (int)lull_random_below(random, LULL_POWER_PARTS);

            now.w[type][part] = (double)lull_random_below(random, 5000);
            assert_int_equal(lull_power_meter_set(meter, type, (enum lull_power_part)part,
                                                  now.w[type][part], i * S),
                             0);
        }
        if (lull_random_below(random, 20) == 0) {
            now.at_once_j = (double)lull_random_below(random, 100000);
            assert_int_equal(lull_power_meter_spend(meter, 0, now.at_once_j, i * S), 0);
        }
        seconds[i] = now;
    }
    lull_power_meter_mark(meter, SECONDS * S);
}

static void check_energy(const struct lull_power_meter *meter, const struct second *seconds,
                         uint64_t seed)
{
    for (uint32_t type = 0; type < TYPES; type++)
        for (int part = 0; part < LULL_POWER_PARTS; part++) {
            double sum_j = 0.0;

            for (int i = 0; i < SECONDS; i++)
                sum_j += seconds[i].w[type][part] +
                         (type == 0 && part == LULL_POWER_TURN_ON ? seconds[i].at_once_j : 0.0);
            holds(fabs(lull_power_meter_j(meter, type, (enum lull_power_part)part) - sum_j) <=
                      1e-9 * (sum_j + 1.0),
                  seed);
        }
}

/* At each point's time the power is that of the second; at most one of a type at a time. */
static void check_points(const struct lull_power_meter *meter, const struct second *seconds,
                         uint64_t seed)
{
    size_t count;
    const struct lull_power_point *points = lull_power_meter_points(meter, &count);

    holds(count > 0, seed);
    for (size_t i = 0; i < count; i++) {
        const struct second *second = &seconds[points[i].time_ns / S];

        for (int part = 0; part < LULL_POWER_PARTS; part++)
            holds(points[i].w[part] == second->w[points[i].type][part], seed);
        holds(i == 0 || points[i].time_ns >= points[i - 1].time_ns, seed);
        holds(i == 0 || points[i].time_ns > points[i - 1].time_ns ||
                  points[i].type != points[i - 1].type,
              seed);
    }
}

static void test_against_seconds(void **state)
{
    static struct second seconds[SECONDS];

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        int64_t times_ns[STEPS];
        double prices[STEPS], grams[STEPS];
        struct lull_power_meter *meter;
        struct lull_random random;
        const struct lull_tariff price = {times_ns, prices, 1 + seed % STEPS};
        const struct lull_tariff carbon = {times_ns, grams, STEPS};

        lull_random_init(&random, seed);
        for (int i = 0; i < STEPS; i++) {
            times_ns[i] =
                (i > 0 ? times_ns[i - 1] : 0) + (int64_t)(1 + lull_random_below(&random, 120)) * S;
            prices[i] = lull_random_uniform(&random) - 0.2;
            grams[i] = 500.0 * lull_random_uniform(&random);
        }
        assert_int_equal(lull_power_meter_create(TYPES, true, &price, &carbon, &meter), 0);
        play(meter, seconds, &random);
        check_energy(meter, seconds, seed);
        check_points(meter, seconds, seed);
        holds(fabs(lull_power_meter_price(meter) - bill(seconds, &price)) < 1e-9, seed);
        holds(fabs(lull_power_meter_carbon(meter) - bill(seconds, &carbon)) < 1e-6, seed);
        lull_power_meter_destroy(meter);
    }
}

/* Years of a cluster and single joules: both count, whichever comes first. */
static void test_small_energies_count_beside_large_ones(void **state)
{
    const double energies_j[] = {1.0, 1e17, 3.0, 5.0, -1e17};
    struct lull_power_meter *meter;

    (void)state;
    assert_int_equal(lull_power_meter_create(1, false, NULL, NULL, &meter), 0);
    for (size_t i = 0; i < sizeof(energies_j) / sizeof(*energies_j); i++)
        assert_int_equal(lull_power_meter_spend(meter, 0, energies_j[i], 0), 0);
    lull_power_meter_mark(meter, 1);
    assert_near(lull_power_meter_j(meter, 0, LULL_POWER_TURN_ON), 9.0, 1e-9);
    lull_power_meter_destroy(meter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_seconds),
        cmocka_unit_test(test_small_energies_count_beside_large_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
