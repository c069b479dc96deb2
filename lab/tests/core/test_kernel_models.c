/*
 * Models of time and power: random parameters are recovered from a few probes; a device's
 * curve is found with any kernels; likeness learns the common
 * part of kernels, and nothing from the predicted kernel itself. SPDX-License-Identifier:
 * Apache-2.0
 */
#include "lab/core/similarity.h"
#include "lab/core/pick.h"
#include "lab/core/power_model.h"
#include "lab/core/spread.h"
#include "lab/core/time_model.h"

#include <stdlib.h>
#include <string.h>

#include "tests/core/property.h"

enum { SM = 5, MEM = 4, POINTS = SM * MEM, KERNELS = 8 };

struct drawn_kernel {
    double fixed_w, memory_w, dynamic_w;
};

/* A device with a voltage knee, and kernels of it. */
struct world {
    struct lull_random random;
    double rise[SM];
    struct drawn_kernel kernels[KERNELS];
    struct lull_grid grid;
};

/* mem_count is MEM, or 1 for a device with one memory clock. */
static void draw_world(struct world *world, uint64_t seed, uint32_t mem_count)
{
    struct lull_grid_row rows[KERNELS * POINTS];
    double height = 0.0;
    size_t count = 0;

    lull_random_init(&world->random, seed);
    for (uint32_t s = 0; s < SM; s++)
        world->rise[s] = height += 0.1 + lull_random_uniform(&world->random);
    for (uint32_t k = 0; k < KERNELS; k++) {
        struct drawn_kernel *const kernel = &world->kernels[k];

        *kernel = (struct drawn_kernel){20.0 + 30.0 * lull_random_uniform(&world->random),
                                        50.0 * lull_random_uniform(&world->random),
                                        20.0 + 100.0 * lull_random_uniform(&world->random)};
        for (uint32_t s = 0; s < SM; s++)
            for (uint32_t m = 0; m < mem_count; m++)
                rows[count++] = (struct lull_grid_row){
                    .kernel = k,
                    .sm_mhz = 800.0 + 150.0 * s,
                    .mem_mhz = 2000.0 + 500.0 * m,
                    .time_ms = 1.0,
                    .power_w = kernel->fixed_w +
                               kernel->memory_w * (2000.0 + 500.0 * m) /
                                   (2000.0 + 500.0 * (mem_count - 1)) +
                               kernel->dynamic_w * world->rise[s] / world->rise[SM - 1],
                    .is_valid = true};
    }
    assert_int_equal(lull_grid_make(rows, count, 0.0, 0.0, &world->grid), LULL_GRID_MADE);
}

/* ---- time --------------------------------------------------------------------------------- */

/* The sum, as it is written: t0 + a / f_sm + b / f_mem. */
static void test_sum_of_shapes(void **state)
{
    (void)state;
    for (uint32_t share = 0; share < LULL_TIME_SHARES; share++) {
        const double r = share / (LULL_TIME_SHARES - 1.0);

        assert_near(lull_time_shape(share, 0.7, 0.4), (1.0 - r) / 0.7 + r / 0.4, 1e-12);
    }
}

/* The last exponent is nearly the larger of both, and no shape is below that or above the sum. */
static void test_roofline(void **state)
{
    (void)state;
    for (uint32_t shape = 0; shape < LULL_TIME_SHAPES; shape++) {
        const double r = (shape % LULL_TIME_SHARES) / (LULL_TIME_SHARES - 1.0);
        const double larger = fmax((1.0 - r) / 0.5, r / 0.8),
                     value = lull_time_shape(shape, 0.5, 0.8);

        assert_true(value >= larger * (1.0 - 1e-12));
        assert_true(value <= (1.0 - r) / 0.5 + r / 0.8 + 1e-12);
        if (shape / LULL_TIME_SHARES == LULL_TIME_EXPONENTS - 1)
            assert_near(value, larger, 0.03 * larger);
    }
}

/* Kernels of any shape: at the probes nearly exact, elsewhere to 6 %, on average to 1 %. */
static void test_drawn_times(void **state)
{
    static double shapes[POINTS * LULL_TIME_SHAPES];
    struct world world;
    double sum = 0.0;
    const uint64_t seeds = 150;

    (void)state;
    draw_world(&world, 1, MEM);
    lull_time_shapes(&world.grid, shapes);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct lull_time_model model;
        uint32_t probes[LULL_GRID_PROBES];
        const uint32_t count = lull_grid_probe_middle(&world.grid, probes);
        const uint32_t shape = (uint32_t)lull_random_below(&world.random, LULL_TIME_SHAPES);
        const double scale = exp(8.0 * lull_random_uniform(&world.random) - 4.0);
        const double fixed = scale * lull_random_uniform(&world.random);
        double times[POINTS];

        for (uint32_t i = 0; i < POINTS; i++)
            times[i] = fixed + scale * shapes[i * LULL_TIME_SHAPES + shape];
        lull_time_fit(shapes, times, probes, count, &model);
        for (uint32_t i = 0; i < POINTS; i++) {
            const double error =
                fabs(lull_time_at(&model, &shapes[i * LULL_TIME_SHAPES]) / times[i] - 1.0);

            sum += error / POINTS;
            holds(error < 0.06, seed);
        }
        for (uint32_t i = 0; i < count; i++)
            holds(fabs(lull_time_at(&model, &shapes[probes[i] * LULL_TIME_SHAPES]) /
                           times[probes[i]] -
                       1.0) < 0.015,
                  seed);
    }
    assert_true(sum / (double)seeds < 0.01);
    lull_grid_fini(&world.grid);
}

/* A kernel that takes as long everywhere, and one that is all compute, from two probes. */
static void test_two_probes(void **state)
{
    static double shapes[SM * LULL_TIME_SHAPES];
    struct lull_time_model model;
    uint32_t probes[LULL_GRID_PROBES];
    double flat[SM], compute[SM];
    struct world world;

    (void)state;
    draw_world(&world, 2, 1);
    lull_time_shapes(&world.grid, shapes);
    for (uint32_t i = 0; i < SM; i++) {
        flat[i] = 3.0;
        compute[i] = 3.0 / world.grid.points[i].sm_ratio;
    }
    assert_int_equal(lull_grid_probe_ends(&world.grid, probes), 2);
    lull_time_fit(shapes, flat, probes, 2, &model);
    for (uint32_t i = 0; i < SM; i++)
        assert_near(lull_time_at(&model, &shapes[i * LULL_TIME_SHAPES]), 3.0, 1e-3);
    lull_time_fit(shapes, compute, probes, 2, &model);
    for (uint32_t i = 0; i < SM; i++)
        assert_near(lull_time_at(&model, &shapes[i * LULL_TIME_SHAPES]) / compute[i], 1.0, 0.01);
    lull_grid_fini(&world.grid);
}

/* ---- power -------------------------------------------------------------------------------- */

/* A kernel's power at all clocks from its ends, by a curve that only the others have shown. */
static void check_power(uint64_t seed, uint32_t mem_count)
{
    uint32_t probes[LULL_GRID_PROBES];
    struct world world;

    draw_world(&world, seed, mem_count);
    for (uint32_t k = 0; k < KERNELS; k++) {
        const uint32_t count = lull_grid_probe_ends(&world.grid, probes);
        double *const powers = &world.grid.power_w[k * world.grid.point_count];
        double kept[POINTS];
        struct lull_power_curve curve, same;
        struct lull_power_model model;

        lull_power_curve_fit(&world.grid, k, &curve);
        lull_power_fit(&world.grid, &curve, powers, probes, count, &model);
        holds(model.fixed_w >= 0.0 && model.memory_w >= 0.0 && model.dynamic_w >= 0.0, seed);
        for (uint32_t i = 0; i < world.grid.point_count; i++) {
            holds(fabs(lull_power_at(&world.grid, &curve, &model, i) / powers[i] - 1.0) < 1e-6,
                  seed);
            holds(i < mem_count || curve.rise[i] >= curve.rise[i - mem_count], seed);
            kept[i] = powers[i];
            powers[i] = 1.0 + i;
        }
        holds(fabs(curve.rise[world.grid.point_count - 1] - 1.0) < 1e-12, seed);
        /* The kernel's own power is not used for the curve that predicts it. */
        lull_power_curve_fit(&world.grid, k, &same);
        holds(memcmp(curve.rise, same.rise, world.grid.point_count * sizeof(curve.rise[0])) == 0,
              seed);
        memcpy(powers, kept, world.grid.point_count * sizeof(*powers));
    }
    lull_grid_fini(&world.grid);
}

static void test_drawn_powers(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        check_power(seed, MEM);
        check_power(seed, 1);
    }
}

/* Without other kernels the curve rises with the square of the clock. */
static void test_no_other_kernel(void **state)
{
    struct lull_power_curve curve;
    struct world world;

    (void)state;
    draw_world(&world, 3, 1);
    world.grid.powered_count = 1;
    lull_power_curve_fit(&world.grid, 0, &curve);
    for (uint32_t i = 0; i < SM; i++)
        assert_near(curve.rise[i],
                    (pow(800.0 + 150.0 * i, 3.0) - pow(800.0, 3.0)) /
                        (pow(1400.0, 3.0) - pow(800.0, 3.0)),
                    1e-12);
    lull_grid_fini(&world.grid);
}

/* If the power falls at one of the clocks, the curve stays level at a mean of both powers. */
static void test_falling_powers(void **state)
{
    static const double level[SM] = {0.0, 0.5, 0.4, 0.8, 1.0};
    struct lull_power_curve curve;
    struct world world;

    (void)state;
    draw_world(&world, 5, 1);
    for (uint32_t k = 0; k < KERNELS; k++)
        for (uint32_t i = 0; i < SM; i++)
            world.grid.power_w[k * SM + i] = 50.0 + k + 100.0 * level[i];
    lull_power_curve_fit(&world.grid, KERNELS, &curve);
    assert_near(curve.rise[1], 0.45, 0.03);
    assert_near(curve.rise[2], curve.rise[1], 1e-12);
    assert_near(curve.rise[3], 0.8, 0.03);
    lull_grid_fini(&world.grid);
}

/* ---- likeness ----------------------------------------------------------------------------- */

/* Residuals that follow from the feature are learnt from kernels with the same; noise is not. */
static void test_likeness(void **state)
{
    enum { COUNT = 24 };

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        double feature[COUNT], residual[COUNT][POINTS], found[POINTS], again[POINTS];
        const struct lull_similarity similarity = {COUNT, 1, POINTS, feature, &residual[0][0]};
        struct lull_random random;
        double mean = 0.0;

        lull_random_init(&random, seed);
        for (uint32_t k = 0; k < COUNT; k++) {
            feature[k] = k % 2; /* two kinds of kernels */
            for (uint32_t i = 0; i < POINTS; i++)
                residual[k][i] = 0.05 * (2.0 * feature[k] - 1.0);
        }
        lull_similarity_residual(&similarity, 4, found);
        holds(fabs(found[3] + 0.05) < 0.01, seed);
        lull_similarity_residual(&similarity, 5, found);
        holds(fabs(found[3] - 0.05) < 0.01, seed);
        /* Its own residual is not looked at. */
        for (uint32_t i = 0; i < POINTS; i++)
            residual[5][i] = 9.0;
        lull_similarity_residual(&similarity, 5, again);
        holds(memcmp(found, again, sizeof(found)) == 0, seed);
        for (uint32_t k = 0; k < COUNT; k++)
            for (uint32_t i = 0; i < POINTS; i++)
                residual[k][i] = lull_random_normal(&random, 0.0, 0.05);
        lull_similarity_residual(&similarity, 5, found);
        for (uint32_t i = 0; i < POINTS; i++)
            mean += fabs(found[i]) / POINTS;
        holds(mean < 0.02, seed);
    }
}

/* The residual at a probe is spread over its neighbours, less with distance. */
static void test_spread(void **state)
{
    struct lull_grid_point probes[2];
    struct lull_spread spread;
    struct world world;
    double before = 0.1;

    (void)state;
    draw_world(&world, 4, 1);
    probes[0] = world.grid.points[0];
    probes[1] = world.grid.points[SM - 1];
    lull_spread_fit(world.grid.points, SM, probes, (double[]){0.1, 0.0}, 2, &spread);
    assert_true(lull_spread_at(&spread, &probes[0]) > 0.03);
    for (uint32_t i = 0; i < SM; i++) {
        assert_true(lull_spread_at(&spread, &world.grid.points[i]) < before);
        before = lull_spread_at(&spread, &world.grid.points[i]);
    }
    lull_spread_fit(world.grid.points, SM, probes, (double[]){0.0, 0.0}, 2, &spread);
    for (uint32_t i = 0; i < SM; i++)
        assert_near(lull_spread_at(&spread, &world.grid.points[i]), 0.0, 0.0);
    lull_grid_fini(&world.grid);
}

/* ---- picks -------------------------------------------------------------------------------- */

static void test_pick(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        double times[POINTS], powers[POINTS];
        struct lull_random random;
        uint32_t base, free_pick, limited;
        double limit;

        lull_random_init(&random, seed);
        for (uint32_t i = 0; i < POINTS; i++) {
            times[i] = 1.0 + lull_random_uniform(&random);
            powers[i] = 1.0 + lull_random_uniform(&random);
        }
        base = (uint32_t)lull_random_below(&random, POINTS);
        limit = 0.3 * lull_random_uniform(&random);
        free_pick = lull_pick_point(times, powers, POINTS, base, INFINITY);
        limited = lull_pick_point(times, powers, POINTS, base, limit);
        holds(times[limited] <= times[base] * (1.0 + limit), seed);
        for (uint32_t i = 0; i < POINTS; i++) {
            holds(times[free_pick] * powers[free_pick] <= times[i] * powers[i], seed);
            holds(times[i] > times[base] * (1.0 + limit) ||
                      times[limited] * powers[limited] <= times[i] * powers[i],
                  seed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_of_shapes),  cmocka_unit_test(test_roofline),
        cmocka_unit_test(test_drawn_times),    cmocka_unit_test(test_two_probes),
        cmocka_unit_test(test_drawn_powers),   cmocka_unit_test(test_no_other_kernel),
        cmocka_unit_test(test_falling_powers), cmocka_unit_test(test_likeness),
        cmocka_unit_test(test_spread),         cmocka_unit_test(test_pick),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
