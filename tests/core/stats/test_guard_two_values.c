/*
 * The guard where the differences of pairs take two values: the tolerance plus or minus a spread,
 * with equal chances. The candidate is as slow as the tolerance, so "not degraded" is wrong. The
 * chance of it is exact: a recursion over the number of differences above the mean, without random
 * numbers. With --verbose it prints the table of docs/research/measurements/guard.md.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "core/stats/guard.h"
#include "../property.h"

enum { MOST_PAIRS = 60, PROOFS = 24, FEW = 5, MANY = 20 };

static const double tolerance_ratio = 0.01;

/* The share of the 5 % that the k-th proof of a run may spend (core/switching/trial.h). */
static double share_of(int k)
{
    return 0.05 * 2.0 / ((k + 1.0) * (k + 2.0));
}

static enum lull_verdict judge(double share, double spread_ratio, uint32_t pairs, uint32_t above)
{
    const struct lull_guard_config config = {.tolerance_ratio = tolerance_ratio,
                                             .error = share,
                                             .refusal_error = 0.05,
                                             .max_pairs = MOST_PAIRS};
    const double n = pairs;
    struct lull_guard guard;

    lull_guard_init(&guard, &config);
    guard.differences.count = pairs;
    guard.differences.mean = tolerance_ratio + spread_ratio * (2.0 * above - n) / n;
    guard.differences.squares = 4.0 * spread_ratio * spread_ratio * above * (n - above) / n;
    guard.level.count = pairs;
    guard.level.mean = 1.0;
    return lull_guard_verdict(&guard);
}

/* Returns the chance that a proof ever says "not degraded". */
static double find_chance(double share, double spread_ratio)
{
    double now[MOST_PAIRS + 2] = {1.0}; /* by the number of differences above the mean */
    double passed = 0.0;

    for (uint32_t pairs = 1; pairs <= MOST_PAIRS; pairs++) {
        for (uint32_t above = pairs; above > 0; above--)
            now[above] = (now[above] + now[above - 1]) / 2.0;
        now[0] /= 2.0;
        for (uint32_t above = 0; above <= pairs; above++) {
            const enum lull_verdict verdict = judge(share, spread_ratio, pairs, above);

            if (verdict == LULL_VERDICT_UNDECIDED)
                continue;
            if (verdict == LULL_VERDICT_NOT_DEGRADED)
                passed += now[above];
            now[above] = 0.0;
        }
    }
    return passed;
}

/* The rows of the table: chance over share in the 1st, 2nd, 6th and 24th proof, and sums in %. */
static void test_the_table_of_the_page(void **state)
{
    static const struct {
        double spread_ratio;
        double over_share[4];
        double few_percent;
        double many_percent;
    } rows[] = {
        {0.001, {1.37, 1.45, 1.70, 3.07}, 5.2, 7.4},  {0.005, {1.37, 1.45, 1.70, 3.07}, 5.2, 7.4},
        {0.0099, {1.39, 1.46, 1.71, 3.07}, 5.2, 7.4}, {0.0199, {1.39, 1.46, 1.71, 3.07}, 5.2, 7.4},
        {0.03, {0.23, 0.25, 0.30, 0.37}, 0.9, 1.2},   {0.1, {0.0, 0.0, 0.0, 0.0}, 0.0, 0.0},
    };
    static const int shown[] = {1, 2, 6, 24};

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        double few = 0.0;
        double many = 0.0;
        int column = 0;

        printf("%5.2f %%:", 100.0 * rows[r].spread_ratio);
        for (int k = 1; k <= PROOFS; k++) {
            const double chance = find_chance(share_of(k), rows[r].spread_ratio);

            few += k <= FEW ? chance : 0.0;
            many += k <= MANY ? chance : 0.0;
            if (k != shown[column])
                continue;
            printf(" %5.2f", chance / share_of(k));
            assert_near(chance / share_of(k), rows[r].over_share[column], 0.011);
            column++;
        }
        printf(" %5.1f %% %5.1f %%\n", 100.0 * few, 100.0 * many);
        assert_near(100.0 * few, rows[r].few_percent, 0.06);
        assert_near(100.0 * many, rows[r].many_percent, 0.06);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table_of_the_page),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
