/*
 * Least energy of a task against a fine search of the same range by its own formula.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/reproduce/edl/dvfs_task.h"
#include "tests/core/property.h"

enum { ROUNDS = 300, MEMORY_STEPS = 2000 };

static double between(struct lull_random *random, double low, double high)
{
    return low + (high - low) * lull_random_uniform(random);
}

static struct lull_dvfs_task draw(uint64_t seed)
{
    struct lull_random random;
    struct lull_dvfs_task task = {.id = seed};

    lull_random_init(&random, seed);
    task.scaled_s = between(&random, 10.0, 400.0);
    task.constant_s = lull_random_below(&random, 4) == 0 ? 0.0 : between(&random, 1.0, 50.0);
    task.core_share = (double)lull_random_below(&random, 11) / 10.0;
    task.constant_w = between(&random, 20.0, 80.0);
    task.memory_w = lull_random_below(&random, 5) == 0 ? 0.0 : between(&random, 10.0, 90.0);
    task.core_w = between(&random, 5.0, 120.0);
    task.deadline_s = 1000.0;
    return task;
}

static double time_at(const struct lull_dvfs_task *task, double core, double memory)
{
    return task->constant_s + task->scaled_s * task->core_share / core +
           task->scaled_s * (1.0 - task->core_share) / memory;
}

static double energy_at(const struct lull_dvfs_task *task, double core, double memory)
{
    const double voltage = 2.0 * (core - 0.5) * (core - 0.5) + 0.5;

    return time_at(task, core, memory) *
           (task->constant_w + task->memory_w * memory + task->core_w * voltage * voltage * core);
}

/* Every voltage, many memory clocks, and the base point; INFINITY: none is in time. */
static double search(const struct lull_dvfs_task *task, const struct lull_dvfs_range *range,
                     double limit_s)
{
    double min_j = time_at(task, 1.0, 1.0) <= limit_s ? energy_at(task, 1.0, 1.0) : INFINITY;

    for (uint32_t i = 0; i < range->voltages; i++)
        for (int k = 0; k <= MEMORY_STEPS; k++) {
            const double core = 0.5 + sqrt((range->voltage_min - 0.5 + 0.05 * i) / 2.0 + 1e-18);
            const double memory =
                range->memory_min + (range->memory_max - range->memory_min) * k / MEMORY_STEPS;

            if (time_at(task, core, memory) <= limit_s)
                min_j = fmin(min_j, energy_at(task, core, memory));
        }
    return min_j;
}

static const struct lull_dvfs_range *range_of(uint64_t seed)
{
    return seed % 2 == 0 ? &lull_dvfs_assumed : &lull_dvfs_measured;
}

static void check_point(const struct lull_dvfs_task *task, const struct lull_dvfs_range *range,
                        const struct lull_dvfs_point *point)
{
    holds(fabs(point->time_s - time_at(task, point->core_ratio, point->memory_ratio)) < 2e-9,
          task->id);
    holds(fabs(lull_dvfs_energy_j(point) / energy_at(task, point->core_ratio, point->memory_ratio) -
               1.0) < 1e-9,
          task->id);
    holds(point->memory_ratio <= range->memory_max, task->id);
    holds(point->memory_ratio >= range->memory_min, task->id);
}

static void test_least_energy(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        const struct lull_dvfs_task task = draw(seed);
        const struct lull_dvfs_range *range = range_of(seed);
        const struct lull_dvfs_point point = lull_dvfs_solve(&task, range);
        const double min_j = search(&task, range, INFINITY);

        check_point(&task, range, &point);
        /* If the memory clock has no effect, the published search does not consider voltages. */
        if (task.core_share < 1.0 || task.memory_w > 0.0)
            holds(lull_dvfs_energy_j(&point) <= min_j * (1.0 + 1e-9), seed);
        holds(lull_dvfs_energy_j(&point) >= min_j * (1.0 - 1e-3), seed);
    }
}

static void test_least_energy_in_time(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        const struct lull_dvfs_task task = draw(seed);
        const struct lull_dvfs_range *range = range_of(seed);
        const double fastest_s = lull_dvfs_fastest(&task, range).time_s;
        const double limit_s = fastest_s * (0.9 + 0.01 * (double)(seed % 60));
        const double min_j = search(&task, range, limit_s);
        struct lull_dvfs_point point;
        const bool is_found = lull_dvfs_solve_within(&task, range, limit_s, &point);

        holds(is_found == (limit_s >= fastest_s) || fabs(limit_s / fastest_s - 1.0) < 1e-9, seed);
        if (!is_found)
            continue;
        check_point(&task, range, &point);
        holds(point.time_s <= limit_s, seed);
        holds(lull_dvfs_energy_j(&point) <= min_j * (1.0 + 1e-9), seed);
    }
}

/* As released: never a faster memory than is best without a limit, and no point above the base. */
static void test_published_search(void **state)
{
    uint32_t none = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        const struct lull_dvfs_task task = draw(seed);
        const double limit_s = lull_dvfs_fastest(&task, &lull_dvfs_assumed).time_s *
                               (1.0 + 0.01 * (double)(seed % 30));
        struct lull_dvfs_point point = {.time_s = -1.0};
        struct lull_dvfs_point repaired;

        if (!lull_dvfs_solve_published(&task, &lull_dvfs_assumed, limit_s, &point)) {
            holds(point.time_s == -1.0, seed);
            none++;
            continue;
        }
        holds(point.time_s <= limit_s, seed);
        holds(lull_dvfs_energy_j(&point) < energy_at(&task, 1.0, 1.0), seed);
        holds(lull_dvfs_solve_within(&task, &lull_dvfs_assumed, limit_s, &repaired), seed);
        holds(lull_dvfs_energy_j(&repaired) <= lull_dvfs_energy_j(&point), seed);
    }
    assert_true(none > 0 && none < ROUNDS);
}

static void test_base_point(void **state)
{
    const struct lull_dvfs_task task = {1, 0.0, 300.0, 100.0, 20.0, 0.4, 50.0, 30.0, 100.0};
    const struct lull_dvfs_point base = lull_dvfs_base(&task);

    (void)state;
    assert_near(base.time_s, 120.0, 0.0);
    assert_near(base.power_w, 180.0, 0.0);
    assert_near(lull_dvfs_fastest(&task, &lull_dvfs_assumed).time_s,
                20.0 + 40.0 / (0.5 + sqrt(0.375)) + 50.0, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_energy),
        cmocka_unit_test(test_least_energy_in_time),
        cmocka_unit_test(test_published_search),
        cmocka_unit_test(test_base_point),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
