/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

#include "../property.h"

#include "core/serving/miss_bound.h"

static const double promised = 0.005;

/* How misses are spread; the mean over a long time is the same. */
enum shape { EVEN, BURSTS, WAVES, BURSTS_IN_WAVES, SHAPES };

struct stream {
    enum shape shape;
    uint64_t request;
    double left; /* of a burst */
};

/* Returns whether the next request misses. */
static bool miss_next(struct stream *stream, double rate, struct lull_random *random)
{
    const bool has_bursts = stream->shape == BURSTS || stream->shape == BURSTS_IN_WAVES;
    const bool has_waves = stream->shape == WAVES || stream->shape == BURSTS_IN_WAVES;
    const double wave = has_waves ? 1.0 + 0.9 * sin((double)stream->request / 400.0) : 1.0;
    const double burst = 4.0; /* mean length */

    stream->request++;
    if (!has_bursts)
        return lull_random_uniform(random) < rate * wave;
    if (stream->left <= 0.0 && lull_random_uniform(random) < rate * wave / burst)
        stream->left = 1.0 + (double)lull_random_below(random, (uint64_t)(2.0 * burst - 1.0));
    return stream->left-- > 0.0;
}

/* The share of runs in which the bound is ever below what was promised. */
static double proven_ratio(enum shape shape, double rate, uint64_t runs, uint64_t requests)
{
    double proven = 0.0;

    for (uint64_t run = 1; run <= runs; run++) {
        struct lull_miss_bound bound = {0};
        struct stream stream = {.shape = shape};
        struct lull_random random;

        lull_random_init(&random, run);
        stream.request = lull_random_below(&random, 2500);
        for (uint64_t i = 0; i < requests; i++) {
            lull_miss_bound_add(&bound, 1.0, miss_next(&stream, rate, &random));
            if (i % 64 == 63 && lull_miss_bound_find(&bound, 0.05) < promised) {
                proven++;
                break;
            }
        }
    }
    return proven / (double)runs;
}

/* At a share of misses as large as promised, at most 5 % of runs are ever called proven. */
static void test_false_proofs_are_rare(void **state)
{
    (void)state;
    for (enum shape shape = EVEN; shape < SHAPES; shape++) {
        const double found = proven_ratio(shape, promised, 400, 40000);

        if (found > 0.05)
            fail_msg("shape %d: %.3f of runs are proven", (int)shape, found);
    }
}

static void test_rare_misses_are_proven(void **state)
{
    (void)state;
    for (enum shape shape = EVEN; shape < SHAPES; shape++)
        assert_true(proven_ratio(shape, promised / 10.0, 100, 40000) > 0.9);
}

/* Without a miss the bound is about four blocks over the number of blocks. */
static void test_bound_without_misses(void **state)
{
    struct lull_miss_bound bound = {0};

    (void)state;
    assert_near(lull_miss_bound_find(&bound, 0.05), 1.0, 0.0);
    lull_miss_bound_add(&bound, 1000.0 * LULL_MISS_BLOCK, 0.0);
    assert_true(lull_miss_bound_find(&bound, 0.05) > 0.003);
    assert_true(lull_miss_bound_find(&bound, 0.05) < 0.0045);
    assert_true(lull_miss_bound_find(&bound, 0.01) > lull_miss_bound_find(&bound, 0.05));
}

/* More misses, a larger bound; never below their share. */
static void test_bound_grows_with_misses(void **state)
{
    double before = 0.0;

    (void)state;
    for (double misses = 0.0; misses <= 2000.0; misses += 25.0) {
        struct lull_miss_bound bound = {0};
        double found;

        lull_miss_bound_add(&bound, 20000.0, misses);
        found = lull_miss_bound_find(&bound, 0.05);
        assert_true(found > before);
        assert_true(found > misses / 20000.0);
        before = found;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_false_proofs_are_rare),
        cmocka_unit_test(test_rare_misses_are_proven),
        cmocka_unit_test(test_bound_without_misses),
        cmocka_unit_test(test_bound_grows_with_misses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
