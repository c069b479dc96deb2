/*
 * Grids of measured kernels: their points and kernels, clocks that were not honoured, the base, and
 * the probes. SPDX-License-Identifier: Apache-2.0
 */
#include "lab/core/grid.h"

#include <stdlib.h>

#include "tests/core/property.h"

enum { MAX = 512 };

struct case_rows {
    struct lull_grid_row rows[MAX];
    size_t count;
};

static void add(struct case_rows *all, uint32_t kernel, double sm_mhz, double mem_mhz,
                double time_ms, double power_w)
{
    all->rows[all->count++] =
        (struct lull_grid_row){kernel, sm_mhz, mem_mhz, time_ms, power_w, true, NULL};
}

/* Kernels with all points of a grid, times of compute: fixed number of cycles. */
static struct case_rows full(uint32_t kernels, uint32_t sm_count, uint32_t mem_count)
{
    struct case_rows all = {.count = 0};

    for (uint32_t k = 0; k < kernels; k++)
        for (uint32_t s = 0; s < sm_count; s++)
            for (uint32_t m = 0; m < mem_count; m++)
                add(&all, k, 500.0 + 100.0 * s, 2000.0 + 500.0 * m, 1e3 / (500.0 + 100.0 * s),
                    100.0 + k);
    return all;
}

static enum lull_grid_result make(const struct case_rows *all, struct lull_grid *grid)
{
    return lull_grid_make(all->rows, all->count, 0.0, 0.0, grid);
}

/* Rows in any order, each twice: the first of them counts. */
static void test_order_and_duplicates(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct case_rows all = full(4, 3, 2);
        struct lull_random random;
        struct lull_grid grid;

        lull_random_init(&random, seed);
        for (size_t i = all.count; i-- > 1;) {
            const size_t other = lull_random_below(&random, i + 1);
            const struct lull_grid_row kept = all.rows[i];

            all.rows[i] = all.rows[other];
            all.rows[other] = kept;
        }
        for (size_t i = 0, count = all.count; i < count; i++) {
            all.rows[all.count] = all.rows[i];
            all.rows[all.count++].power_w = 7.0;
        }
        holds(make(&all, &grid) == LULL_GRID_MADE, seed);
        holds(grid.point_count == 6 && grid.kernel_count == 4 && grid.powered_count == 4, seed);
        holds(grid.left_out == 0 && grid.unhonoured_count == 0 && grid.base == 5, seed);
        for (uint32_t k = 0; k < 4; k++)
            for (uint32_t i = 0; i < 6; i++) {
                holds(fabs(lull_grid_powers(&grid, k)[i] - (100.0 + grid.kernels[k])) < 1e-12,
                      seed);
                holds(fabs(lull_grid_times(&grid, k)[i] * grid.points[i].sm_mhz - 1e3) < 1e-9,
                      seed);
                holds(i == 0 || grid.points[i].sm_mhz > grid.points[i - 1].sm_mhz ||
                          grid.points[i].mem_mhz > grid.points[i - 1].mem_mhz,
                      seed);
            }
        lull_grid_fini(&grid);
    }
}

static void test_points_of_most_kernels(void **state)
{
    struct case_rows all = full(4, 3, 1);
    struct lull_grid grid;

    (void)state;
    add(&all, 0, 900.0, 2000.0, 1e3 / 900.0, 100.0); /* of one kernel: no point of the grid */
    add(&all, 1, 950.0, 2000.0, 1e3 / 950.0, 100.0); /* of three of six: neither */
    add(&all, 2, 950.0, 2000.0, 1e3 / 950.0, 100.0);
    add(&all, 3, 950.0, 2000.0, 1e3 / 950.0, 100.0);
    add(&all, 8, 600.0, 2000.0, 1.5, 100.0);
    add(&all, 9, 500.0, 2000.0, 2.0, 100.0); /* kernels that lack points are left out */
    assert_int_equal(make(&all, &grid), LULL_GRID_MADE);
    assert_int_equal(grid.point_count, 3);
    assert_int_equal(grid.kernel_count, 4);
    assert_int_equal(grid.left_out, 2);
    lull_grid_fini(&grid);
}

/* Kernels with power at all points come first; one that lacks some has time alone. */
static void test_power(void **state)
{
    struct case_rows all = full(3, 3, 1);
    struct lull_grid grid;

    (void)state;
    all.rows[1].power_w = NAN; /* of kernel 0 */
    assert_int_equal(make(&all, &grid), LULL_GRID_MADE);
    assert_int_equal(grid.kernel_count, 3);
    assert_int_equal(grid.powered_count, 2);
    assert_int_equal(grid.kernels[0], 1);
    assert_int_equal(grid.kernels[2], 0);
    lull_grid_fini(&grid);
}

/* At 3 % more than the clock explains a time is scatter, beyond it the clock was another one. */
static void test_unhonoured(void **state)
{
    struct case_rows all = full(3, 3, 2); /* points 500, 600, 700 MHz x 2 */
    struct lull_grid grid;

    (void)state;
    all.rows[0].time_ms *= 1.029; /* kernel 0, 500 MHz */
    assert_int_equal(make(&all, &grid), LULL_GRID_MADE);
    assert_int_equal(grid.unhonoured_count, 0);
    assert_int_equal(grid.point_count, 6);
    lull_grid_fini(&grid);

    all.rows[2].time_ms *= 1.031; /* kernel 0, 600 MHz, both memory clocks: one kernel */
    all.rows[3].time_ms *= 1.031;
    all.rows[8].time_ms *= 1.5;  /* kernel 1, 600 MHz */
    all.rows[13].time_ms *= 2.0; /* kernel 2, 500 MHz; marked already by who measured it */
    all.rows[13].is_valid = false;
    all.rows[6].time_ms *= 1.04; /* kernel 1, 500 MHz, both memory clocks */
    all.rows[7].time_ms *= 1.04;
    assert_int_equal(make(&all, &grid), LULL_GRID_MADE);
    assert_int_equal(grid.unhonoured_count, 2);
    assert_near(grid.unhonoured[0].sm_mhz, 500.0, 0.0);
    assert_int_equal(grid.unhonoured[0].kernels, 2);
    assert_int_equal(grid.disturbed, 0);
    assert_near(grid.unhonoured[1].sm_mhz, 600.0, 0.0);
    assert_int_equal(grid.unhonoured[1].kernels, 2);
    assert_int_equal(grid.point_count, 2); /* 700 MHz */
    lull_grid_fini(&grid);
}

/* Kernels that prove a clock outvote disturbed ones, of which only the rows are left out. */
static void test_disturbed(void **state)
{
    (void)state;
    for (uint32_t disturbed = 1; disturbed < 8; disturbed++) {
        const bool is_proven = 2 * disturbed <= 8;
        struct case_rows all = full(8, 5, 1);
        struct lull_grid grid;

        for (uint32_t k = 0; k < disturbed; k++)
            all.rows[5 * k + 2].time_ms *= 1.25; /* at 700 MHz */
        assert_int_equal(make(&all, &grid), LULL_GRID_MADE);
        assert_int_equal(grid.unhonoured_count, is_proven ? 0 : 1);
        assert_int_equal(grid.disturbed, is_proven ? disturbed : 0);
        /* Half of the kernels are too few for a point of the grid. */
        assert_int_equal(grid.point_count, disturbed < 4 ? 5 : 4);
        assert_int_equal(grid.kernel_count, disturbed < 4 ? 8 - disturbed : 8);
        lull_grid_fini(&grid);
    }
}

/* Kernels that wait for memory prove nothing, though one row of them is as 1 / clock by chance. */
static void test_memory_bound_proves_nothing(void **state)
{
    struct case_rows all = full(3, 5, 1);
    struct lull_grid grid;

    (void)state;
    for (uint32_t s = 1; s < 5; s++)
        all.rows[s].time_ms = all.rows[5 + s].time_ms = 1.5;
    all.rows[0].time_ms = all.rows[5].time_ms = 1.5 * 900.0 / 500.0;
    all.rows[10].time_ms *= 1.2; /* the third shows 500 MHz */
    assert_int_equal(make(&all, &grid), LULL_GRID_MADE);
    assert_int_equal(grid.unhonoured_count, 1);
    assert_near(grid.unhonoured[0].sm_mhz, 500.0, 0.0);
    lull_grid_fini(&grid);
}

/* Clocks of 1000 to 2400 MHz of a GPU whose boost ends somewhere. */
static struct case_rows boost(uint32_t kernels, double end_mhz, struct lull_random *random)
{
    struct case_rows all = {.count = 0};

    for (uint32_t k = 0; k < kernels; k++) {
        const double share = 0.6 * lull_random_uniform(random);

        for (uint32_t s = 0; s < 8; s++) {
            const double mhz = 1000.0 + 200.0 * s;
            const double time_ms =
                100.0 * share + (1.0 - share) * 100.0 * 2400.0 / fmin(mhz, end_mhz);

            add(&all, k, mhz, 1200.0, time_ms * (1.0 + 0.002 * (lull_random_uniform(random) - 0.5)),
                100.0);
        }
    }
    return all;
}

static void check_short(const struct case_rows *all, double short_mhz, uint32_t points)
{
    struct lull_grid grid;

    assert_int_equal(make(all, &grid), LULL_GRID_MADE);
    assert_near(grid.short_mhz, short_mhz, 0.0);
    assert_int_equal(grid.point_count, points);
    assert_int_equal(grid.base, points - 1);
    lull_grid_fini(&grid);
}

static void test_clocks_that_are_not_reached(void **state)
{
    struct lull_random random;
    struct case_rows all;

    (void)state;
    lull_random_init(&random, 3);
    for (uint32_t kernels = 4; kernels <= 16; kernels *= 2) {
        all = boost(kernels, 2300.0, &random);
        check_short(&all, 2400.0, 7);
        all = boost(kernels, 2050.0, &random);
        check_short(&all, 2200.0, 6);
        all = boost(kernels, 9999.0, &random);
        check_short(&all, 0.0, 8);
    }
    all.rows[7].time_ms *=
        1.05; /* if only one kernel gains less, its curve bends for another reason */
    check_short(&all, 0.0, 8);
}

/* A kernel that waits for memory takes as long at all clocks, and shows nothing. */
static void test_memory_bound_shows_nothing(void **state)
{
    struct case_rows all = full(1, 3, 1);
    struct lull_grid grid;

    (void)state;
    for (size_t i = 0; i < all.count; i++)
        all.rows[i].time_ms = 5.0;
    assert_int_equal(make(&all, &grid), LULL_GRID_MADE);
    assert_int_equal(grid.unhonoured_count, 0);
    lull_grid_fini(&grid);
}

static void test_base(void **state)
{
    const struct case_rows all = full(2, 3, 2);
    struct lull_grid grid;

    (void)state;
    assert_int_equal(lull_grid_make(all.rows, all.count, 590.0, 2100.0, &grid), LULL_GRID_MADE);
    assert_int_equal(grid.base, 2);
    assert_near(grid.points[grid.base].sm_ratio, 1.0, 0.0);
    assert_near(grid.points[0].sm_ratio, 500.0 / 600.0, 1e-12);
    assert_near(grid.points[5].mem_ratio, 2500.0 / 2000.0, 1e-12);
    lull_grid_fini(&grid);
}

static void check_probes(uint32_t sm_count, uint32_t mem_count, const uint32_t *ends,
                         uint32_t end_count, const uint32_t *middle, uint32_t middle_count)
{
    const struct case_rows all = full(2, sm_count, mem_count);
    uint32_t probes[LULL_GRID_PROBES];
    struct lull_grid grid;

    assert_int_equal(make(&all, &grid), LULL_GRID_MADE);
    assert_int_equal(lull_grid_has_mem_axis(&grid), mem_count > 1);
    assert_int_equal(lull_grid_probe_ends(&grid, probes), end_count);
    assert_memory_equal(probes, ends, end_count * sizeof(*probes));
    assert_int_equal(lull_grid_probe_middle(&grid, probes), middle_count);
    assert_memory_equal(probes, middle, middle_count * sizeof(*probes));
    lull_grid_fini(&grid);
}

static void test_probes(void **state)
{
    (void)state;
    check_probes(5, 1, (uint32_t[]){0, 4}, 2, (uint32_t[]){0, 2, 4}, 3);
    check_probes(4, 1, (uint32_t[]){0, 3}, 2, (uint32_t[]){0, 2, 3}, 3);
    check_probes(2, 1, (uint32_t[]){0, 1}, 2, (uint32_t[]){0, 1}, 2);
    check_probes(3, 4, (uint32_t[]){0, 3, 8, 11}, 4, (uint32_t[]){0, 3, 6, 8, 11}, 5);
}

static void test_nothing_in_common(void **state)
{
    struct case_rows all = {.count = 0};
    struct lull_grid grid;

    (void)state;
    assert_int_equal(make(&all, &grid), LULL_GRID_NO_POINTS);
    add(&all, 0, 500.0, 2000.0, 1.0, NAN);
    add(&all, 1, 600.0, 2000.0, 1.0, NAN);
    assert_int_equal(make(&all, &grid), LULL_GRID_NO_POINTS);
    assert_null(grid.points);
    lull_grid_fini(&grid);
}

static void test_limits(void **state)
{
    struct case_rows all = {.count = 0};
    struct lull_grid grid;

    (void)state;
    for (uint32_t i = 0; i <= LULL_GRID_POINTS; i++)
        add(&all, 0, 1000.0 + i, 2000.0, 1e3 / (1000.0 + i), NAN);
    assert_int_equal(make(&all, &grid), LULL_GRID_TOO_MANY_POINTS);
    all.count--;
    assert_int_equal(make(&all, &grid), LULL_GRID_MADE);
    lull_grid_fini(&grid);
    all.count = 0;
    for (uint32_t i = 0; i <= LULL_GRID_KERNELS; i++)
        add(&all, i, 1000.0, 2000.0, 1.0, NAN);
    assert_int_equal(make(&all, &grid), LULL_GRID_TOO_MANY_KERNELS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_duplicates),
        cmocka_unit_test(test_points_of_most_kernels),
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_unhonoured),
        cmocka_unit_test(test_disturbed),
        cmocka_unit_test(test_memory_bound_proves_nothing),
        cmocka_unit_test(test_clocks_that_are_not_reached),
        cmocka_unit_test(test_memory_bound_shows_nothing),
        cmocka_unit_test(test_base),
        cmocka_unit_test(test_probes),
        cmocka_unit_test(test_nothing_in_common),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
