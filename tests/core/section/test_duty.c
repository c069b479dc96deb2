/*
 * Every duty, iteration by iteration, against what its definition requests.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/duty.h"

#include <math.h>

#include "../property.h"

enum { MAX_ITERATIONS = 400 };

/* Counts the low iterations among the first `end`. */
static uint32_t count_low(const struct lull_duty *duty, uint64_t end)
{
    uint32_t low = 0;

    for (uint64_t i = 0; i < end; i++)
        low += lull_duty_is_low(duty, i);
    return low;
}

static void test_so_many_beats_are_low_and_evenly_spread(void **state)
{
    (void)state;
    for (uint32_t low = 0; low < LULL_DUTY_SLOTS; low++)
        for (uint32_t beat = 1; beat <= 9; beat++) {
            const struct lull_duty duty = {
                .point = 3, .low = low, .slot_iterations = low > 0 ? beat : 0};
            const uint64_t seed = low * 100 + beat;

            holds(count_low(&duty, (uint64_t)LULL_DUTY_SLOTS * beat) == low * beat, seed);
            for (uint64_t i = 0; i < MAX_ITERATIONS; i++) {
                const double share = (double)low / LULL_DUTY_SLOTS;
                const double off = count_low(&duty, i) - share * (double)i;

                /* Never off by more than one beat, and by half of one where a beat ends. */
                holds(fabs(off) <= beat, seed);
                holds(i % beat != 0 || fabs(off) <= beat / 2.0, seed);
                holds(lull_duty_is_low(&duty, i) == lull_duty_is_low(&duty, i - i % beat), seed);
            }
        }
}

/* The round is the shortest one after which all comes again. */
static void test_a_round_is_the_shortest_period(void **state)
{
    (void)state;
    for (uint32_t low = 1; low < LULL_DUTY_SLOTS; low++)
        for (uint32_t beat = 1; beat <= 5; beat++) {
            const struct lull_duty duty = {.low = low, .slot_iterations = beat};
            uint32_t period = 1;

            for (uint64_t i = 0; i < MAX_ITERATIONS; i++)
                if (lull_duty_is_low(&duty, i) != lull_duty_is_low(&duty, i + period)) {
                    period++;
                    i = UINT64_MAX;
                }
            holds(lull_duty_round(&duty) == period, low * 100 + beat);
        }
    assert_int_equal(lull_duty_round(&(struct lull_duty){0}), 1);
}

static void test_a_beat_is_long_beside_a_change(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct lull_random random;
        double iteration_ms;
        double change_ms;
        uint32_t beat;

        lull_random_init(&random, seed);
        iteration_ms = 1.0 + 1000.0 * lull_random_uniform(&random);
        change_ms = 0.1 + 300.0 * lull_random_uniform(&random);
        beat = lull_duty_slot_iterations(iteration_ms, change_ms);
        if (beat == 0) {
            holds(8.0 * iteration_ms < fmax(5.0 * change_ms, 200.0), seed);
            continue;
        }
        holds(beat * iteration_ms >= 5.0 * change_ms && beat * iteration_ms >= 200.0, seed);
        holds(beat == 1 || (beat - 1) * iteration_ms < fmax(5.0 * change_ms, 200.0), seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_so_many_beats_are_low_and_evenly_spread),
        cmocka_unit_test(test_a_round_is_the_shortest_period),
        cmocka_unit_test(test_a_beat_is_long_beside_a_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
