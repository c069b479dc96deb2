/*
 * The order of a sweep: all points are measured often enough, with the base at the right
 * places, even if the sweep is interrupted anywhere; repeats that
 * disagree; added clocks. The test computes the counts from the rows
 * alone. SPDX-License-Identifier: Apache-2.0
 */
#include "lab/core/sweep_order.h"

#include <stdlib.h>
#include <string.h>

#include "tests/core/property.h"

enum { MAX_ROWS = 20000, MAX_POINTS = 64, MOST_KERNELS = 8 };

struct rows {
    struct lull_sweep_visit visits[MAX_ROWS];
    struct lull_sweep_found found[MAX_ROWS];
    uint32_t count;
};

struct world {
    struct lull_sweep_grid grid;
    double sm_mhz[MAX_POINTS];
    double tables[2][MAX_POINTS]; /* times and powers of any shape */
    double valid_to_mhz;          /* rows at higher clocks are not valid; 0: all are */
    double (*time_ms)(const struct world *world, const struct lull_sweep_visit *visit);
    double (*power_w)(const struct world *world, const struct lull_sweep_visit *visit);
};

static double flat_time(const struct world *world, const struct lull_sweep_visit *visit)
{
    (void)world;
    (void)visit;
    return 10.0;
}

static double flat_power(const struct world *world, const struct lull_sweep_visit *visit)
{
    (void)world;
    (void)visit;
    return 100.0;
}

static struct world make_world(uint32_t kernels, uint32_t line, uint32_t others, uint32_t repeats,
                               uint64_t seed)
{
    struct world world = {
        .grid = {.kernels = kernels,
                 .points = line + others,
                 .line_points = line,
                 .base = line - 1,
                 .repeats = repeats,
                 .disagreement_ratio = 0.03,
                 .seed = seed},
        .time_ms = flat_time,
        .power_w = flat_power,
    };

    for (uint32_t i = 0; i < line; i++)
        world.sm_mhz[i] = 300.0 + 1100.0 * (i + 1) / line;
    return world;
}

/* Sweeps until all is measured or `most` rows are there, and adds them to the rows. */
static void sweep(const struct world *world, struct rows *rows, uint32_t most)
{
    struct lull_sweep_order *const order = lull_sweep_order_create(&world->grid, world->sm_mhz);
    struct lull_sweep_visit visit;

    assert_non_null(order);
    for (uint32_t i = 0; i < rows->count; i++)
        assert_true(lull_sweep_order_found(order, &rows->visits[i], &rows->found[i]));
    lull_sweep_order_interrupt(order);
    while (most-- > 0 && lull_sweep_order_next(order, &visit)) {
        const bool is_valid =
            world->valid_to_mhz <= 0.0 || world->sm_mhz[visit.point] <= world->valid_to_mhz;
        const struct lull_sweep_found found = {world->time_ms(world, &visit),
                                               world->power_w(world, &visit), is_valid};

        assert_true(rows->count < MAX_ROWS);
        rows->visits[rows->count] = visit;
        rows->found[rows->count++] = found;
        assert_true(lull_sweep_order_found(order, &visit, &found));
    }
    lull_sweep_order_destroy(order);
}

static uint32_t count(const struct rows *rows, uint32_t kernel, uint32_t point, uint32_t repeat)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < rows->count; i++)
        found += rows->visits[i].kernel == kernel && rows->visits[i].point == point &&
                 rows->visits[i].repeat == repeat;
    return found;
}

static bool is_whole(const struct world *world, const struct rows *rows, bool is_exact)
{
    for (uint32_t k = 0; k < world->grid.kernels; k++)
        for (uint32_t p = 0; p < world->grid.points; p++)
            for (uint32_t r = 0; r < world->grid.repeats; r++) {
                const uint32_t times = count(rows, k, p, r);

                if (times == 0 || (is_exact && p != world->grid.base && times != 1))
                    return false;
            }
    return true;
}

/* Blocks begin and end with the base, and no more than LULL_SWEEP_GROUP rows lie in between. */
static bool has_bases(const struct world *world, const struct rows *rows)
{
    uint32_t since = 0;

    for (uint32_t i = 0; i < rows->count; i++) {
        const struct lull_sweep_visit *const visit = &rows->visits[i];
        const bool is_base = visit->point == world->grid.base;
        const bool is_new = i == 0 || rows->visits[i - 1].kernel != visit->kernel ||
                            rows->visits[i - 1].repeat != visit->repeat;
        const bool is_last = i + 1 == rows->count || rows->visits[i + 1].kernel != visit->kernel ||
                             rows->visits[i + 1].repeat != visit->repeat;

        if ((is_new || is_last) && !is_base)
            return false;
        since = is_base ? 0 : since + 1;
        if (since > LULL_SWEEP_GROUP)
            return false;
    }
    return true;
}

static void test_everything_once(void **state)
{
    static struct rows rows;

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct lull_random random;
        struct world world;

        lull_random_init(&random, seed);
        world = make_world(1 + (uint32_t)lull_random_below(&random, 6),
                           1 + (uint32_t)lull_random_below(&random, 20),
                           (uint32_t)lull_random_below(&random, 12),
                           1 + (uint32_t)lull_random_below(&random, 4), seed);
        rows.count = 0;
        sweep(&world, &rows, UINT32_MAX);
        holds(is_whole(&world, &rows, true), seed);
        holds(has_bases(&world, &rows), seed);
        for (uint32_t i = 0; i < rows.count; i++)
            holds(rows.visits[i].repeat < world.grid.repeats, seed);
    }
}

/* Of the kernels and points of a repeat each place in the order has each about as often. */
static void test_order_is_random(void **state)
{
    enum { SEEDS = 600, KERNELS = 3, POINTS = 4 };
    static struct rows rows;
    uint32_t first_kernel[KERNELS] = {0}, first_point[POINTS] = {0}, same = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct world world = make_world(KERNELS, POINTS, 0, 1, seed);

        rows.count = 0;
        sweep(&world, &rows, 2 + POINTS + 1);
        same += rows.visits[1].point == rows.visits[POINTS + 2].point;
        first_kernel[rows.visits[0].kernel]++;
        first_point[rows.visits[1].point]++;
    }
    for (uint32_t k = 0; k < KERNELS; k++)
        assert_true(abs((int)first_kernel[k] - SEEDS / KERNELS) < 60);
    for (uint32_t p = 0; p + 1 < POINTS; p++)
        assert_true(abs((int)first_point[p] - SEEDS / (POINTS - 1)) < 60);
    assert_int_equal(first_point[POINTS - 1], 0);
    /* The blocks of two kernels have orders of their own. */
    assert_true(abs((int)same - SEEDS / (POINTS - 1)) < 60);
}

/* A sweep that is ended after any number of rows measures what the others did not, begins with a
 * base, and returns the rest. */
static void test_resumed_anywhere(void **state)
{
    static struct rows whole, rows;

    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        const struct world world = make_world(3, 12, 4, 2, seed);

        whole.count = 0;
        sweep(&world, &whole, UINT32_MAX);
        for (uint32_t end = 0; end <= whole.count; end++) {
            rows.count = 0;
            sweep(&world, &rows, end);
            sweep(&world, &rows, UINT32_MAX);
            holds(is_whole(&world, &rows, true), seed);
            holds(rows.count == end || rows.visits[end].point == world.grid.base, seed);
            holds(rows.count <= whole.count + 1, seed);
        }
    }
}

/* The number of remaining visits is correct, if no clocks are added. */
static void test_left(void **state)
{
    const struct world world = make_world(4, 21, 3, 3, 7);
    struct lull_sweep_order *const order = lull_sweep_order_create(&world.grid, world.sm_mhz);
    const struct lull_sweep_found found = {10.0, 100.0, true};
    static uint64_t left[MAX_ROWS];
    struct lull_sweep_visit visit;
    uint32_t count = 0;

    (void)state;
    left[0] = lull_sweep_order_left(order);
    while (lull_sweep_order_next(order, &visit)) {
        assert_int_equal(lull_sweep_order_left(order), left[count]);
        lull_sweep_order_found(order, &visit, &found);
        left[++count] = lull_sweep_order_left(order);
    }
    for (uint32_t i = 0; i <= count; i++)
        assert_int_equal(left[i], count - i);
    lull_sweep_order_destroy(order);
}

/* ---- repeats that disagree ----------------------------------------------------------------- */

/* Kernel 1 is 4 % slower in repeat 1 at point 2; kernel 0 draws 4 % more in repeat 0 at point 0. */
static double uneven_time(const struct world *world, const struct lull_sweep_visit *visit)
{
    (void)world;
    return visit->kernel == 1 && visit->point == 2 && visit->repeat == 1 ? 10.4 : 10.0;
}

static double uneven_power(const struct world *world, const struct lull_sweep_visit *visit)
{
    (void)world;
    return visit->kernel == 0 && visit->point == 0 && visit->repeat == 0 ? 104.0 : 102.0;
}

static void test_disagreement(void **state)
{
    static struct rows rows;
    struct world world = make_world(3, 5, 0, 3, 1);

    (void)state;
    world.time_ms = uneven_time;
    world.power_w = uneven_power;
    rows.count = 0;
    sweep(&world, &rows, UINT32_MAX);
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t p = 0; p < 4; p++)
            assert_int_equal(count(&rows, k, p, 3), k == 1 && p == 2);
    world.grid.disagreement_ratio = 0.015;
    rows.count = 0;
    sweep(&world, &rows, UINT32_MAX);
    assert_int_equal(count(&rows, 0, 0, 3), 1);
}

/* ---- finer clocks -------------------------------------------------------------------------- */

static double cubic_time(const struct world *world, const struct lull_sweep_visit *visit)
{
    return 10.0 * (0.4 + 0.6 * 1400.0 / world->sm_mhz[visit->point]);
}

static double cubic_power(const struct world *world, const struct lull_sweep_visit *visit)
{
    const double ratio = world->sm_mhz[visit->point] / 1400.0;

    return 90.0 + 210.0 * ratio * ratio * ratio;
}

static double energy(const struct world *world, uint32_t point)
{
    const struct lull_sweep_visit visit = {0, point, 0};

    return world->time_ms(world, &visit) * world->power_w(world, &visit);
}

/* A coarse sweep ends with the cheapest clock of all measured, or with what costs within 0.5 % of
 * it, at far fewer clocks. */
static void test_refined(void **state)
{
    static struct rows rows;
    struct world world = make_world(2, 61, 0, 2, 3);
    double best = INFINITY, found = INFINITY;
    uint32_t measured = 0;

    (void)state;
    world.grid.is_coarse = true;
    world.grid.coarse = 5;
    world.time_ms = cubic_time;
    world.power_w = cubic_power;
    rows.count = 0;
    sweep(&world, &rows, UINT32_MAX);
    for (uint32_t p = 0; p < 61; p++) {
        best = fmin(best, energy(&world, p));
        if (count(&rows, 0, p, 0) == 0)
            continue;
        found = fmin(found, energy(&world, p));
        measured++;
        assert_true(count(&rows, 0, p, 1) > 0);
    }
    assert_true(found <= best * 1.0005);
    assert_true(measured > 5 && measured <= 5 + LULL_SWEEP_MAX_REFINED);
    assert_true(has_bases(&world, &rows));
}

static double any_time(const struct world *world, const struct lull_sweep_visit *visit)
{
    return world->tables[0][visit->point];
}

static double any_power(const struct world *world, const struct lull_sweep_visit *visit)
{
    return world->tables[1][visit->point];
}

/* The same clocks are added, and no more than there may be, where the sweep is ended and continues:
 * for times that fall and powers that rise with the clock, in uneven steps. */
static void test_refined_when_resumed(void **state)
{
    static struct rows whole, rows;

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct world world = make_world(1, 61, 0, 1, seed);
        struct lull_random random;
        uint32_t measured = 0;

        lull_random_init(&random, seed);
        world.grid.is_coarse = true;
        world.grid.coarse = 5;
        world.time_ms = any_time;
        world.power_w = any_power;
        world.tables[0][60] = 10.0;
        world.tables[1][0] = 100.0;
        for (uint32_t p = 60; p-- > 0;)
            world.tables[0][p] =
                world.tables[0][p + 1] * (1.0 + 0.02 * lull_random_uniform(&random));
        for (uint32_t p = 1; p < 61; p++)
            world.tables[1][p] =
                world.tables[1][p - 1] * (1.0 + 0.04 * pow(lull_random_uniform(&random), 4.0));
        whole.count = 0;
        sweep(&world, &whole, UINT32_MAX);
        for (uint32_t p = 0; p < 61; p++)
            measured += count(&whole, 0, p, 0) > 0;
        holds(measured <= 5 + LULL_SWEEP_MAX_REFINED, seed);
        for (uint32_t end = 0; end <= whole.count; end++) {
            rows.count = 0;
            sweep(&world, &rows, end);
            sweep(&world, &rows, UINT32_MAX);
            for (uint32_t p = 0; p < 61; p++)
                holds((count(&rows, 0, p, 0) > 0) == (count(&whole, 0, p, 0) > 0), seed);
        }
    }
}

/* A valley without a knee: power is (f / top)^0.5, so that energy is least at two thirds of the
 * top, and within 5 % of that from a third to the top. */
static double valley_time(const struct world *world, const struct lull_sweep_visit *visit)
{
    return 10.0 * (0.6 + 0.4 * 1400.0 / world->sm_mhz[visit->point]);
}

static double valley_power(const struct world *world, const struct lull_sweep_visit *visit)
{
    return 300.0 * sqrt(world->sm_mhz[visit->point] / 1400.0);
}

static void test_valley(void **state)
{
    static struct rows rows;
    struct world world = make_world(1, 61, 0, 1, 5);
    double best = INFINITY, found = INFINITY;
    uint32_t measured = 0;

    (void)state;
    world.grid.is_coarse = true;
    world.grid.coarse = 5;
    world.time_ms = valley_time;
    world.power_w = valley_power;
    rows.count = 0;
    sweep(&world, &rows, UINT32_MAX);
    for (uint32_t p = 0; p < 61; p++) {
        best = fmin(best, energy(&world, p));
        if (count(&rows, 0, p, 0) == 0)
            continue;
        found = fmin(found, energy(&world, p));
        measured++;
    }
    assert_true(measured > 7 && found <= best * 1.0005);
}

/* A power limit keeps a kernel from the clocks above 1250 MHz, and it is the cheaper the higher its
 * clock is: the highest clock that can be had is found to a step or two of 18 MHz. */
static double rising_time(const struct world *world, const struct lull_sweep_visit *visit)
{
    return 1e4 / world->sm_mhz[visit->point];
}

static void test_limited_at_the_top(void **state)
{
    static struct rows rows;
    struct world world = make_world(1, 61, 0, 1, 5);
    double highest_mhz = 0.0;

    (void)state;
    world.grid.is_coarse = true;
    world.grid.coarse = 5;
    world.time_ms = rising_time;
    world.valid_to_mhz = 1250.0;
    rows.count = 0;
    sweep(&world, &rows, UINT32_MAX);
    for (uint32_t i = 0; i < rows.count; i++)
        if (world.sm_mhz[rows.visits[i].point] <= 1250.0)
            highest_mhz = fmax(highest_mhz, world.sm_mhz[rows.visits[i].point]);
    assert_true(highest_mhz > 1250.0 - 40.0);
}

/* The result of one more repeat decides nothing: even with a very different time the clocks are the
 * same.
 */
static double odd_time(const struct world *world, const struct lull_sweep_visit *visit)
{
    return valley_time(world, visit) * (visit->repeat == 1 && visit->point == 60 ? 1.04 : 1.0);
}

static double odder_time(const struct world *world, const struct lull_sweep_visit *visit)
{
    return odd_time(world, visit) * (visit->repeat == 2 ? 0.825 : 1.0);
}

static void test_further_repeats_decide_nothing(void **state)
{
    static struct rows rows, same;
    struct world world = make_world(1, 61, 0, 2, 9);

    (void)state;
    world.grid.is_coarse = true;
    world.grid.coarse = 5;
    world.power_w = valley_power;
    world.time_ms = odd_time;
    rows.count = 0;
    sweep(&world, &rows, UINT32_MAX);
    world.time_ms = odder_time;
    same.count = 0;
    sweep(&world, &same, UINT32_MAX);
    assert_true(rows.visits[rows.count - 1].repeat == 2);
    assert_int_equal(rows.count, same.count);
    for (uint32_t i = 0; i < rows.count; i++)
        assert_int_equal(rows.visits[i].point, same.visits[i].point);
}

/* Around a knee of the power there are clocks between all of its neighbours. */
static double knee_power(const struct world *world, const struct lull_sweep_visit *visit)
{
    const double mhz = world->sm_mhz[visit->point];

    return mhz < 900.0 ? 100.0 : 100.0 * pow(mhz / 900.0, 2.0);
}

static void test_knee(void **state)
{
    static struct rows rows;
    struct world world = make_world(1, 41, 0, 1, 2);
    uint32_t near = 0;

    (void)state;
    world.grid.is_coarse = true;
    world.grid.coarse = 5;
    world.power_w = knee_power;
    rows.count = 0;
    sweep(&world, &rows, UINT32_MAX);
    for (uint32_t p = 0; p < 41; p++)
        if (fabs(world.sm_mhz[p] - 900.0) < 150.0 && count(&rows, 0, p, 0) > 0)
            near++;
    assert_true(near >= 3);
}

/* ---- missing points and kernels ------------------------------------------------------------- */

static void test_dropped(void **state)
{
    const struct world world = make_world(3, 4, 0, 2, 1);
    struct lull_sweep_order *const order = lull_sweep_order_create(&world.grid, world.sm_mhz);
    const struct lull_sweep_found found = {10.0, NAN, true};
    struct lull_sweep_visit visit;
    uint32_t seen[3] = {0};

    (void)state;
    assert_true(lull_sweep_order_next(order, &visit));
    lull_sweep_order_drop(order, visit.kernel);
    const uint32_t dropped = visit.kernel;
    while (lull_sweep_order_next(order, &visit)) {
        seen[visit.kernel]++;
        lull_sweep_order_found(order, &visit, &found);
    }
    for (uint32_t k = 0; k < 3; k++)
        assert_int_equal(seen[k] > 0, k != dropped);
    lull_sweep_order_destroy(order);
}

static void test_foreign_rows(void **state)
{
    const struct world world = make_world(2, 4, 0, 2, 1);
    struct lull_sweep_order *const order = lull_sweep_order_create(&world.grid, world.sm_mhz);
    const struct lull_sweep_found found = {10.0, 100.0, true};
    const struct lull_sweep_visit foreign[] = {{2, 0, 0}, {0, 4, 0}, {0, 0, 3}};

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        assert_false(lull_sweep_order_found(order, &foreign[i], &found));
    lull_sweep_order_destroy(order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_once),
        cmocka_unit_test(test_order_is_random),
        cmocka_unit_test(test_resumed_anywhere),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_disagreement),
        cmocka_unit_test(test_refined),
        cmocka_unit_test(test_refined_when_resumed),
        cmocka_unit_test(test_knee),
        cmocka_unit_test(test_valley),
        cmocka_unit_test(test_limited_at_the_top),
        cmocka_unit_test(test_further_repeats_decide_nothing),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_foreign_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
