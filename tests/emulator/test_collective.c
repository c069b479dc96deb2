/*
 * Times of collectives: properties over sizes, operations and numbers of GPUs. tools/fit-nccl
 * compares them with measured ones. SPDX-License-Identifier: Apache-2.0
 */
#include "check.h"

#include <string.h>

#include "emulator/collective.h"

static double time_s(const struct lull_collective_gpu *gpu, enum lull_collective operation,
                     uint32_t ranks, double bytes)
{
    const struct lull_collective_time time = lull_collective_in_node(gpu, operation, ranks, bytes);

    assert_true(time.start_s > 1e-6 && time.start_s < 1e-3);
    assert_true(time.transfer_s >= 0 && time.transfer_s < 60);
    return time.start_s + time.transfer_s;
}

static void test_more_bytes_take_longer(void **state)
{
    (void)state;
    for (uint32_t g = 0; g < lull_collective_gpu_count; g++)
        for (int operation = 0; operation < LULL_COLLECTIVES; operation++)
            for (uint32_t ranks = 2; ranks <= 16; ranks++) {
                double last_s = 0;

                for (double bytes = 1024; bytes < 2e9; bytes *= 1.5) {
                    const double seconds = time_s(&lull_collective_gpus[g],
                                                  (enum lull_collective)operation, ranks, bytes);

                    assert_true(seconds > last_s);
                    last_s = seconds;
                }
            }
}

/* Small sums wait for each further rank; 6 ranks lie between 4 and 8. */
static void test_more_ranks_take_longer(void **state)
{
    (void)state;
    for (uint32_t g = 0; g < lull_collective_gpu_count; g++) {
        double last_s = 0;

        for (uint32_t ranks = 2; ranks <= 16; ranks++) {
            const double seconds =
                time_s(&lull_collective_gpus[g], LULL_COLLECTIVE_ALL_REDUCE, ranks, 4096);

            assert_true(seconds > last_s);
            last_s = seconds;
        }
    }
}

static void test_moved_bytes(void **state)
{
    (void)state;
    assert_true(lull_collective_moved(LULL_COLLECTIVE_ALL_REDUCE, 4, 8.0) == 12.0);
    assert_true(lull_collective_moved(LULL_COLLECTIVE_ALL_GATHER, 4, 8.0) == 6.0);
    assert_true(lull_collective_moved(LULL_COLLECTIVE_ALL_TO_ALL, 2, 8.0) == 4.0);
}

static void test_a_network_is_one_line(void **state)
{
    const struct lull_collective_line line = {30.0, 10.0};
    const struct lull_collective_time time =
        lull_collective_over(&line, LULL_COLLECTIVE_ALL_REDUCE, 2, 1e9);

    (void)state;
    check_within("start, us", time.start_s * 1e6, 29.999, 30.001);
    check_within("transfer, ms", time.transfer_s * 1e3, 99.999, 100.001);
}

static void test_a_model_without_times_has_the_a100s(void **state)
{
    (void)state;
    assert_string_equal(lull_collective_find("H100-SXM5")->name, "H100-SXM5");
    assert_string_equal(lull_collective_find("A40")->name, "A100-SXM4-80GB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_bytes_take_longer),
        cmocka_unit_test(test_more_ranks_take_longer),
        cmocka_unit_test(test_moved_bytes),
        cmocka_unit_test(test_a_network_is_one_line),
        cmocka_unit_test(test_a_model_without_times_has_the_a100s),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
