/*
 * Conversion from the GPU's timer to CLOCK_MONOTONIC, against a simulated pair of clocks with a
 * known offset: with delays of any length in between, it is never late, and as accurate as the best
 * recent observation. SPDX-License-Identifier: Apache-2.0
 */
#include "probe/gpu_time.h"

#include <stdbool.h>

#include "../core/property.h"
#include "base/clock.h"

/* Two clocks: the GPU's runs fast by so many millionths and shows `ahead` more. */
struct clocks {
    int64_t ahead_ns;
    int64_t drift_ppm;
};

static uint64_t gpu_at(const struct clocks *clocks, int64_t now_ns)
{
    return (uint64_t)(now_ns + clocks->ahead_ns + now_ns / 1000000 * clocks->drift_ppm);
}

static int64_t error_of(struct lull_gpu_time *time, const struct clocks *clocks, int64_t true_ns,
                        int64_t delay_ns)
{
    const uint64_t gpu_ns = gpu_at(clocks, true_ns);
    const int64_t offset_ns = lull_gpu_time_offset(time, gpu_ns, true_ns + delay_ns);

    return (int64_t)(gpu_ns + (uint64_t)offset_ns) - true_ns;
}

static void the_first_observation_is_taken(void **state)
{
    const struct clocks clocks = {.ahead_ns = INT64_C(1) << 60};
    struct lull_gpu_time time;

    (void)state;
    lull_gpu_time_init(&time);
    assert_int_equal(error_of(&time, &clocks, 1000, 77), 77);
    assert_int_equal(error_of(&time, &clocks, 2000, 5), 5);
    assert_int_equal(error_of(&time, &clocks, 3000, 500), 5);
}

static void a_pause_forgets(void **state)
{
    struct clocks clocks = {.ahead_ns = -5000000};
    struct lull_gpu_time time;

    (void)state;
    lull_gpu_time_init(&time);
    assert_int_equal(error_of(&time, &clocks, LULL_NS_PER_S, 5), 5);
    clocks.ahead_ns += 1000; /* the GPU was reset */
    assert_int_equal(error_of(&time, &clocks, 10 * LULL_NS_PER_S, 5), 5);
}

/* An event every 1 to 20 ms, most of them seen within 30 us, some after 20 ms. */
static void near_the_best_of_two_seconds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct lull_random random;
        struct lull_gpu_time time;
        struct clocks clocks;
        int64_t now_ns = 0;

        lull_random_init(&random, seed);
        clocks.ahead_ns = (int64_t)(lull_random_next(&random) >> 2);
        clocks.drift_ppm = (int64_t)lull_random_below(&random, 101) - 50;
        lull_gpu_time_init(&time);
        for (int i = 0; i < 5000; i++) {
            const bool is_late = lull_random_below(&random, 4) == 0;
            const int64_t delay_ns =
                (int64_t)lull_random_below(&random, is_late ? 20000000 : 30000);
            int64_t error_ns;

            now_ns += 1000000 + (int64_t)lull_random_below(&random, 19000000);
            error_ns = error_of(&time, &clocks, now_ns, delay_ns);
            holds(error_ns <= delay_ns, seed);
            /* The least of 50 delays is small; two seconds of drift are 0.1 ms. */
            holds(i < 50 || (error_ns <= 130000 && error_ns >= -130000), seed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_observation_is_taken),
        cmocka_unit_test(a_pause_forgets),
        cmocka_unit_test(near_the_best_of_two_seconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
