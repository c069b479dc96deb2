/*
 * No mixture of operating points costs less than the hull, and some mixture costs as little.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cluster/core/bound/mode_hull.h"
#include "tests/core/property.h"

enum { SEEDS = 3000, MAX = 6 };

struct mixture_case {
    struct lull_mode_corner corners[MAX];
    size_t count;
    struct lull_mode_hull hull;
};

static void draw(struct lull_random *random, struct mixture_case *it)
{
    it->count = 1 + lull_random_below(random, MAX);
    for (size_t i = 0; i < it->count; i++)
        it->corners[i] = (struct lull_mode_corner){(double)(1 + lull_random_below(random, 8)),
                                                   100.0 * lull_random_uniform(random) - 30.0};
    lull_mode_hull_make(it->corners, it->count, &it->hull);
}

static struct lull_mode_corner mix(struct lull_random *random, const struct mixture_case *it)
{
    struct lull_mode_corner mixed = {0};
    double shares[MAX];
    double sum = 0.0;

    for (size_t i = 0; i < it->count; i++) {
        shares[i] = lull_random_below(random, 3) == 0 ? 0.0 : lull_random_uniform(random);
        sum += shares[i];
    }
    for (size_t i = 0; i < it->count; i++) {
        const double share = sum > 0.0 ? shares[i] / sum : 1.0 / (double)it->count;

        mixed.time_s += share * it->corners[i].time_s;
        mixed.cost_j += share * it->corners[i].cost_j;
    }
    return mixed;
}

static void test_no_mixture_costs_less(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct mixture_case it;
        struct lull_random random;

        lull_random_init(&random, seed);
        draw(&random, &it);
        for (int i = 0; i < 20; i++) {
            const struct lull_mode_corner mixed = mix(&random, &it);
            const double from_s = mixed.time_s - 3.0 * lull_random_uniform(&random);
            const double to_s = mixed.time_s + 3.0 * lull_random_uniform(&random);
            const double window_s = it.hull.corners[0].time_s + 6.0 * lull_random_uniform(&random);
            const double fall_w = lull_mode_hull_fall_w(&it.hull, window_s);

            holds(lull_mode_hull_min_j(&it.hull, from_s, to_s) <= mixed.cost_j + 1e-9, seed);
            /* The multiplier of the window returns the least cost within it. */
            holds(fall_w >= 0.0 && mixed.cost_j + fall_w * (mixed.time_s - window_s) >=
                                       lull_mode_hull_min_j(&it.hull, 0.0, window_s) - 1e-9,
                  seed);
        }
    }
}

/* Between corners of a known hull, and on both sides of it. */
static void test_known_hull(void **state)
{
    static const struct lull_mode_corner corners[] = {
        {4.0, 10.0}, {2.0, 20.0}, {3.0, 17.0}, {8.0, 12.0}, {2.0, 25.0}};
    struct lull_mode_hull hull;

    (void)state;
    lull_mode_hull_make(corners, 5, &hull);
    assert_int_equal(hull.count, 3);
    assert_true(lull_mode_hull_best_s(&hull) == 4.0);
    assert_true(lull_mode_hull_min_j(&hull, 0.0, 100.0) == 10.0);
    assert_true(fabs(lull_mode_hull_min_j(&hull, 0.0, 3.0) - 15.0) < 1e-9);
    assert_true(lull_mode_hull_min_j(&hull, 0.0, 3.0) <= 15.0);
    assert_true(fabs(lull_mode_hull_min_j(&hull, 6.0, 7.0) - 11.0) < 1e-9);
    assert_true(lull_mode_hull_fall_w(&hull, 3.0) == 5.0);
    assert_true(lull_mode_hull_fall_w(&hull, 4.0) == 0.0);
    assert_true(lull_mode_hull_fall_w(&hull, 1.0) == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_mixture_costs_less),
        cmocka_unit_test(test_known_hull),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
