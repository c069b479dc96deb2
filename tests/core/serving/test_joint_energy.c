/* SPDX-License-Identifier: Apache-2.0 */
#include "../property.h"

#include "core/serving/joint_energy.h"

enum { GPUS = 4, MS = 1000000 };

/* Of GPUs with constant power the sum is exact, whatever the order and the times of the readings:
 * no sum mixes energies of different times. */
static void test_constant_power_is_exact(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct lull_joint_energy joint = {0};
        struct lull_random random;
        int64_t read_ns[GPUS] = {1, 1, 1, 1};
        double total_w = 0.0;
        double watts[GPUS];

        lull_random_init(&random, seed);
        for (uint32_t i = 0; i < GPUS; i++) {
            watts[i] = 50.0 + 650.0 * lull_random_uniform(&random);
            total_w += watts[i];
            lull_joint_energy_take(&joint, i, read_ns[i], watts[i] * 1e-9);
        }
        for (int round = 0; round < 100; round++) {
            const uint32_t gpu = (uint32_t)lull_random_below(&random, GPUS);
            int64_t time_ns = 0;
            double energy_j;

            read_ns[gpu] += MS + (int64_t)lull_random_below(&random, 150) * MS;
            lull_joint_energy_take(&joint, gpu, read_ns[gpu],
                                   watts[gpu] * (double)read_ns[gpu] * 1e-9);
            energy_j = lull_joint_energy_find(&joint, &time_ns);
            if (isnan(energy_j))
                continue;
            for (uint32_t i = 0; i < GPUS; i++)
                holds(time_ns <= read_ns[i], seed);
            holds(fabs(energy_j - total_w * (double)time_ns * 1e-9) < 1e-6, seed);
        }
        holds(!isnan(lull_joint_energy_find(&joint, &(int64_t){0})), seed);
    }
}

static void test_two_readings_are_needed(void **state)
{
    struct lull_joint_energy joint = {0};
    int64_t time_ns = 0;

    (void)state;
    assert_true(isnan(lull_joint_energy_find(&joint, &time_ns)));
    lull_joint_energy_take(&joint, 0, 100, 1.0);
    lull_joint_energy_take(&joint, 0, 100, 2.0);
    assert_true(isnan(lull_joint_energy_find(&joint, &time_ns)));
    lull_joint_energy_take(&joint, 0, 200, 3.0);
    assert_true(lull_joint_energy_find(&joint, &time_ns) == 3.0 && time_ns == 200);
    lull_joint_energy_take(&joint, 0, 300, (double)NAN);
    lull_joint_energy_take(&joint, 0, 400, 5.0);
    assert_true(isnan(lull_joint_energy_find(&joint, &time_ns)));
    lull_joint_energy_take(&joint, 0, 500, 7.0);
    assert_true(lull_joint_energy_find(&joint, &time_ns) == 7.0 && time_ns == 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant_power_is_exact),
        cmocka_unit_test(test_two_readings_are_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
