/* SPDX-License-Identifier: Apache-2.0 */
#include "../property.h"

#include "core/switching/window_schedule.h"

/* The definition, written down window by window. */
static void check(const struct lull_window_schedule *schedule, uint64_t seed)
{
    uint64_t iteration = 0;
    bool candidate = schedule->candidate_first;

    for (uint32_t window = 0; window < 40; window++) {
        /* a b b a a b b a ...: the side changes before every odd window. */
        bool changed = window == 0 || window % 2 == 1;
        uint64_t length;

        if (window % 2 == 1)
            candidate = !candidate;
        length = (candidate ? schedule->candidate_iterations : schedule->reference_iterations) +
                 (changed ? 1 : 0);
        for (uint64_t i = 0; i < length; i++, iteration++) {
            struct lull_window_slot slot = lull_window_slot(schedule, iteration);

            holds(slot.window == window, seed);
            holds(slot.candidate == candidate, seed);
            holds(slot.measured == !(changed && i == 0), seed);
            holds(slot.window_ends == (i == length - 1), seed);
        }
    }
}

static void test_the_slots_follow_the_definition(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct lull_random random;
        struct lull_window_schedule schedule;

        lull_random_init(&random, seed);
        schedule.reference_iterations = 1 + (uint32_t)lull_random_below(&random, 20);
        schedule.candidate_iterations = 1 + (uint32_t)lull_random_below(&random, 20);
        schedule.candidate_first = lull_random_below(&random, 2) == 1;
        check(&schedule, seed);
    }
}

static void test_every_pair_has_both_sides_and_drift_cancels(void **state)
{
    const struct lull_window_schedule schedule = {5, 5, false};
    double order = 0.0;

    (void)state;
    /* Over two pairs the mean times of both sides differ by less than an iteration. */
    for (uint64_t i = 0; lull_window_slot(&schedule, i).window < 4; i++) {
        struct lull_window_slot slot = lull_window_slot(&schedule, i);

        if (slot.measured)
            order += slot.candidate ? (double)i : -(double)i;
    }
    assert_near(order / 10.0, 0.0, 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_slots_follow_the_definition),
        cmocka_unit_test(test_every_pair_has_both_sides_and_drift_cancels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
