/* SPDX-License-Identifier: Apache-2.0 */
#include "../property.h"

#include "core/serving/latency_tail.h"

/* Adds a log-normal latency to the bucket that it falls into. */
static void add_bucketed(struct lull_latency_tail *tail, double value, double scale)
{
    static const double bounds[] = {0.0, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 1e3};
    int i = 0;

    while (value * scale > bounds[i + 1])
        i++;
    lull_latency_tail_add(tail, bounds[i] / scale, bounds[i + 1] / scale, 1.0);
}

/* Coarse buckets, seen at several scales, show a tail between their bounds. */
static void test_scales_refine_buckets(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct lull_latency_tail tail;
        struct lull_random random;
        double above = 0.0;

        lull_random_init(&random, seed);
        lull_latency_tail_init(&tail);
        for (int i = 0; i < 8000; i++) {
            const double value = exp(lull_random_normal(&random, 0.0, 0.5));

            above += value > 2.0;
            add_bucketed(&tail, value, 1.0 + 0.25 * (i % 4));
        }
        holds(fabs(lull_latency_tail_above(&tail, 2.0) - above / 8000.0) < 0.03, seed);
        holds(fabs(lull_latency_tail_quantile(&tail, above / 8000.0) - 2.0) < 0.3, seed);
    }
}

/* Exact values: share, excess and quantile agree with the definition. */
static void test_exact_values(void **state)
{
    struct lull_latency_tail tail;

    (void)state;
    lull_latency_tail_init(&tail);
    for (int i = 0; i < 3000; i++)
        lull_latency_tail_add(&tail, 1.0 + i % 3, 1.0 + i % 3, 1.0);
    assert_near(lull_latency_tail_above(&tail, 1.5), 2.0 / 3.0, 0.01);
    assert_near(lull_latency_tail_above(&tail, 2.5), 1.0 / 3.0, 0.01);
    assert_near(lull_latency_tail_excess(&tail, 1.5), 2.0 / 3.0, 0.1);
    assert_near(lull_latency_tail_quantile(&tail, 0.2), 3.0, 0.3);
}

/* Before the first latency a heavy tail is assumed; it gives way to what is seen. */
static void test_the_assumed_tail_gives_way(void **state)
{
    struct lull_latency_tail tail;
    double before;

    (void)state;
    lull_latency_tail_init(&tail);
    before = lull_latency_tail_above(&tail, 2.0);
    assert_near(before, 1.0 / 16.0, 0.01);
    for (int i = 0; i < 1000; i++)
        lull_latency_tail_add(&tail, 0.9, 1.1, 1.0);
    assert_true(lull_latency_tail_above(&tail, 2.0) < before / 100.0);
    assert_true(lull_latency_tail_above(&tail, 2.0) > 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scales_refine_buckets),
        cmocka_unit_test(test_exact_values),
        cmocka_unit_test(test_the_assumed_tail_gives_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
