/*
 * Cheapest starts, against a search over every start in whole
 * seconds, with costs summed second by second. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "cluster/core/power/power_shift.h"
#include "core/stats/random.h"

enum { SECOND_NS = 1000000000, MAX = 12, CASES = 3000 };

static double value_at(const struct lull_tariff *tariff, int64_t second)
{
    double value = tariff->value[0];

    for (size_t i = 0; i < tariff->count; i++)
        if (tariff->time_ns[i] <= second * SECOND_NS)
            value = tariff->value[i];
    return value;
}

static double cost(const struct lull_tariff *tariff, int64_t begin_s, int64_t length_s)
{
    double sum = 0.0;

    for (int64_t s = begin_s; s < begin_s + length_s; s++)
        sum += value_at(tariff, s);
    return sum / (double)length_s;
}

/* Times are whole seconds, so that the cheapest start of all is one, too. */
static void the_cheapest_of_all_starts_is_found(void **state)
{
    struct lull_random random;
    uint32_t later = 0;

    (void)state;
    lull_random_init(&random, 25);
    for (int k = 0; k < CASES; k++) {
        int64_t time_ns[MAX], time_s = (int64_t)lull_random_below(&random, 20);
        double value[MAX];
        const size_t count = 1 + lull_random_below(&random, MAX);
        const struct lull_tariff tariff = {time_ns, value, count};
        const int64_t length_s = 1 + (int64_t)lull_random_below(&random, 30);
        const int64_t now_s = (int64_t)lull_random_below(&random, 60);
        const int64_t latest_s = now_s - 3 + (int64_t)lull_random_below(&random, 120);
        const double least = k % 3 == 0 ? 0.0 : 0.1 * lull_random_uniform(&random);
        struct lull_power_shift shift;
        int64_t best_s = now_s;
        double size = 0.0;

        for (size_t i = 0; i < count; i++) {
            time_ns[i] = time_s * SECOND_NS;
            time_s += 1 + (int64_t)lull_random_below(&random, 20);
            value[i] = (double)lull_random_below(&random, 9) - (k % 2 == 0 ? 0.0 : 4.0);
        }
        for (int64_t s = now_s + 1; s <= latest_s; s++)
            if ((s + length_s) * SECOND_NS <= time_ns[count - 1] &&
                cost(&tariff, s, length_s) < cost(&tariff, best_s, length_s) - 1e-9)
                best_s = s;
        for (int64_t s = now_s; s < now_s + length_s; s++)
            size += fabs(value_at(&tariff, s)) / (double)length_s;
        shift = lull_power_shift_find(&tariff, length_s * SECOND_NS, now_s * SECOND_NS,
                                      latest_s * SECOND_NS, least);
        if (cost(&tariff, now_s, length_s) - cost(&tariff, best_s, length_s) <=
            least * size + (least > 0.0 ? 1e-9 : 0.0))
            best_s = now_s;
        assert_int_equal(shift.begin_ns, best_s * SECOND_NS);
        assert_true(fabs(shift.now_per_kwh - cost(&tariff, now_s, length_s)) < 1e-9);
        assert_true(fabs(shift.begin_per_kwh - cost(&tariff, best_s, length_s)) < 1e-9);
        later += best_s > now_s;
    }
    assert_true(later > CASES / 5);
}

/* As time continues the start stays where it was, until the job begins. */
static void a_start_stays_where_it_was(void **state)
{
    static const int64_t time_ns[] = {0, 3600LL * SECOND_NS, 7200LL * SECOND_NS,
                                      90000LL * SECOND_NS, 93600LL * SECOND_NS};
    static const double value[] = {0.30, 0.10, 0.30, 0.10, 0.30};
    const struct lull_tariff tariff = {time_ns, value, 5};

    (void)state;
    for (int64_t s = 0; s < 3500; s += 7)
        assert_int_equal(lull_power_shift_find(&tariff, 1800LL * SECOND_NS, s * SECOND_NS,
                                               95000LL * SECOND_NS, 0.02)
                             .begin_ns,
                         3600LL * SECOND_NS);
    /* Looked at a little late it begins at once, and does not wait for the next cheap hour. */
    assert_int_equal(lull_power_shift_find(&tariff, 3600LL * SECOND_NS, 3620LL * SECOND_NS,
                                           95000LL * SECOND_NS, 0.02)
                         .begin_ns,
                     3620LL * SECOND_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheapest_of_all_starts_is_found),
        cmocka_unit_test(a_start_stays_where_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
