/*
 * Operating points of a job, against a plain search over all candidates; and properties of a
 * surface. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/core/model/operating_points.h"
#include "core/stats/random.h"

enum { CLOCKS = 9, MAX = LULL_CLUSTER_MAX_POINTS };

/* A GPU whose voltage rises above 1.1 GHz and whose memory slows down below 0.9 GHz. */
static struct lull_device_clock clocks[CLOCKS];
static struct lull_job_transfer transfers[CLOCKS];
static struct lull_job_gpu gpu = {clocks, transfers, CLOCKS, INFINITY};

static void assert_near(double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%.17g is not %.17g", got, wanted);
}

static int set_up(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CLOCKS; i++) {
        const double ghz = 1.4 - 0.1 * i;
        const double volts = ghz > 1.1 ? 1.0 + (ghz - 1.1) : 1.0;

        clocks[i] = (struct lull_device_clock){
            .mhz = round(1000.0 * ghz),
            .core_ratio = ghz / 1.4,
            .bandwidth_ratio = ghz < 0.9 ? ghz / 0.9 : 1.0,
            .dynamic_ratio = ghz / 1.4 * volts * volts,
            .waiting_w = 50.0 + 20.0 * ghz,
        };
        transfers[i] = (struct lull_job_transfer){
            .rate_ratio = ghz < 0.7 ? ghz / 0.7 : 1.0,
            .watts = 10.0,
        };
    }
    return 0;
}

/* ---- the surface -------------------------------------------------------------------------- */

static void test_compute_follows_the_clock(void **state)
{
    const struct lull_job_work work = {.parts = {{{40.0, 200.0, 0.0}, 1.0}}, .part_count = 1};
    struct lull_job_tempo tempo[CLOCKS];

    (void)state;
    lull_job_tempo(&gpu, &work, tempo);
    for (uint32_t i = 0; i < CLOCKS; i++) {
        assert_near(tempo[i].compute_ratio, 1.4 / (1.4 - 0.1 * i), 1e-12);
        assert_near(tempo[i].compute_w,
                    fmax(40.0 + 200.0 * clocks[i].dynamic_ratio, clocks[i].waiting_w), 1e-9);
    }
}

static void test_memory_does_not_until_it_starves(void **state)
{
    const struct lull_job_work work = {.parts = {{{60.0, 100.0, 1.0}, 1.0}}, .part_count = 1};
    struct lull_job_tempo tempo[CLOCKS];

    (void)state;
    lull_job_tempo(&gpu, &work, tempo);
    for (uint32_t i = 0; i < CLOCKS; i++)
        assert_near(tempo[i].compute_ratio, fmax(0.9 / (1.4 - 0.1 * i), 1.0), 1e-12);
}

static void test_host_time_waits(void **state)
{
    const struct lull_job_work work = {.host_ratio = 1.0};
    struct lull_job_tempo tempo[CLOCKS];

    (void)state;
    lull_job_tempo(&gpu, &work, tempo);
    for (uint32_t i = 0; i < CLOCKS; i++) {
        assert_near(tempo[i].compute_ratio, 1.0, 0.0);
        assert_near(tempo[i].compute_w, clocks[i].waiting_w, 1e-12);
    }
}

/* A clock that draws more than the limit is replaced by the highest one that does not. */
static void test_limit(void **state)
{
    const struct lull_job_work work = {.parts = {{{40.0, 200.0, 0.0}, 1.0}}, .part_count = 1};
    const struct lull_job_gpu limited = {clocks, transfers, CLOCKS,
                                         40.0 + 200.0 * clocks[3].dynamic_ratio};
    struct lull_job_tempo tempo[CLOCKS];

    (void)state;
    lull_job_tempo(&limited, &work, tempo);
    for (uint32_t i = 0; i < CLOCKS; i++) {
        const double mhz = i < 3 ? clocks[3].mhz : clocks[i].mhz;

        assert_near(tempo[i].compute_ratio, clocks[3].mhz / mhz, 1e-9);
        assert_true(tempo[i].compute_w <= limited.limit_w);
    }
}

/* The time is exactly the given one; one GPU does not communicate. */
static void test_own_point(void **state)
{
    const struct lull_job_work work = {.parts = {{{40.0, 200.0, 0.1}, 0.8}},
                                       .part_count = 1,
                                       .host_ratio = 0.2,
                                       .sync_ratio = 0.3};
    struct lull_job_tempo tempo[CLOCKS];
    struct lull_job_surface surface = {
        .tempo = tempo, .clock_count = CLOCKS, .sync_ratio = 0.3, .time_ns = 987654321987654321};
    struct lull_job_surface_point point;

    (void)state;
    lull_job_tempo(&gpu, &work, tempo);
    for (surface.gpus = 1; surface.gpus <= 64; surface.gpus *= 2) {
        assert_true(lull_job_surface_at(&surface, surface.gpus, 0, &point));
        assert_int_equal(point.time_ns, surface.time_ns);
    }
    surface.gpus = 1;
    surface.time_ns = 1000000000;
    assert_true(lull_job_surface_at(&surface, 1, 0, &point));
    assert_near(point.energy_j, tempo[0].compute_w, 1e-9);
    assert_true(lull_job_surface_at(&surface, 1, 4, &point));
    assert_near(point.energy_j, tempo[4].compute_w * tempo[4].compute_ratio, 1e-9);
}

/* As the share was measured: with eight GPUs that each have what one of the job has. */
static void test_sync_share(void **state)
{
    const struct lull_job_work work = {.host_ratio = 1.0, .sync_ratio = 0.25};
    struct lull_job_tempo tempo[CLOCKS];
    const struct lull_job_surface surface = {.tempo = tempo,
                                             .clock_count = CLOCKS,
                                             .sync_ratio = 0.25,
                                             .gpus = 8,
                                             .time_ns = 4000000000};
    struct lull_job_surface_point point;

    (void)state;
    lull_job_tempo(&gpu, &work, tempo);
    assert_true(lull_job_surface_at(&surface, 8, 0, &point));
    assert_near(point.energy_j, 8.0 * (3.0 * 78.0 + 1.0 * 88.0), 1e-6);
    /* 4 GPUs: twice the computation, 6/7 of the communication. */
    assert_true(lull_job_surface_at(&surface, 4, 0, &point));
    assert_int_equal(point.time_ns, llround(1e9 * (6.0 + 6.0 / 7.0)));
    assert_near(point.energy_j, 4.0 * (6.0 * 78.0 + 6.0 / 7.0 * 88.0), 1e-5);
}

static void test_measured_rates(void **state)
{
    const struct lull_job_work work = {.host_ratio = 1.0, .sync_ratio = 0.9};
    const struct lull_job_rates rates = {3, {{1, 10.0}, {2, 16.0}, {4, 40.0}}};
    struct lull_job_tempo tempo[CLOCKS];
    const struct lull_job_surface surface = {
        .tempo = tempo, .clock_count = CLOCKS, .rates = &rates, .gpus = 2, .time_ns = 1000000000};
    struct lull_job_surface_point point;

    (void)state;
    lull_job_tempo(&gpu, &work, tempo);
    assert_true(lull_job_surface_at(&surface, 1, 0, &point));
    assert_int_equal(point.time_ns, 1600000000);
    assert_near(point.energy_j, 1.6 * 78.0, 1e-6); /* nothing to communicate */
    assert_true(lull_job_surface_at(&surface, 2, 0, &point));
    assert_int_equal(point.time_ns, 1000000000);
    assert_near(point.energy_j, 2.0 * (0.8 * 78.0 + 0.2 * 88.0), 1e-6);
    assert_true(lull_job_surface_at(&surface, 4, 0, &point));
    assert_int_equal(point.time_ns, 400000000);
    assert_false(lull_job_surface_at(&surface, 3, 0, &point));
}

/* ---- the choice --------------------------------------------------------------------------- */

static bool beats(const struct lull_cluster_point *a, const struct lull_cluster_point *b)
{
    return a->type == b->type && a->gpus <= b->gpus && a->time_ns <= b->time_ns &&
           a->energy_j <= b->energy_j &&
           (a->gpus < b->gpus || a->time_ns < b->time_ns || a->energy_j < b->energy_j);
}

/* Returns whether a mix of two others of its type and GPUs is as fast and needs no more. */
static bool is_below_hull(const struct lull_cluster_point *point,
                          const struct lull_cluster_point *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++) {
            const struct lull_cluster_point *a = &all[i];
            const struct lull_cluster_point *b = &all[k];

            if (a->type != point->type || b->type != point->type || a->gpus != point->gpus ||
                b->gpus != point->gpus ||
                !(a->time_ns < point->time_ns && point->time_ns < b->time_ns))
                continue;

            const double share =
                (double)(point->time_ns - a->time_ns) / (double)(b->time_ns - a->time_ns);

            if (a->energy_j + share * (b->energy_j - a->energy_j) < point->energy_j - 1e-9)
                return false;
        }
    return true;
}

static size_t draw(struct lull_random *random, struct lull_cluster_point *all)
{
    const size_t count = 1 + lull_random_below(random, 60);

    for (size_t i = 0; i < count; i++)
        all[i] = (struct lull_cluster_point){
            .type = (uint32_t)lull_random_below(random, 2),
            .gpus = 1 + (uint32_t)lull_random_below(random, 3),
            .time_ns = 1 + (int64_t)lull_random_below(random, 40),
            .energy_j = (double)lull_random_below(random, 40),
        };
    return count;
}

static bool contains(const struct lull_cluster_point *all, size_t count,
                     const struct lull_cluster_point *point)
{
    for (size_t i = 0; i < count; i++)
        if (all[i].type == point->type && all[i].gpus == point->gpus &&
            all[i].time_ns == point->time_ns && all[i].energy_j == point->energy_j)
            return true;
    return false;
}

static void check_choice(const struct lull_cluster_point *all, size_t count,
                         const struct lull_cluster_point *points, size_t chosen)
{
    size_t wanted = 0;

    for (size_t i = 0; i < count; i++) {
        bool is_best = is_below_hull(&all[i], all, count) && !contains(all, i, &all[i]);

        for (size_t k = 0; k < count; k++)
            is_best = is_best && !(beats(&all[k], &all[i]) && is_below_hull(&all[k], all, count));
        /* Points on a line of the hull may be left out. */
        if (contains(points, chosen, &all[i]))
            assert_true(is_best || contains(all, i, &all[i]));
        wanted += is_best;
    }
    assert_true(chosen <= wanted && chosen >= 1);
    for (size_t i = 0; i < chosen; i++) {
        assert_true(contains(all, count, &points[i]));
        assert_true(i == 0 || points[i - 1].time_ns <= points[i].time_ns);
    }
}

static void test_choice(void **state)
{
    struct lull_cluster_point all[64];
    struct lull_cluster_point copy[64];
    struct lull_cluster_point points[64];
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 7);
    for (int round = 0; round < 3000; round++) {
        const size_t count = draw(&random, all);
        struct lull_cluster_point fewer[MAX];

        memcpy(copy, all, sizeof(all));
        const size_t chosen = lull_operating_points_choose(copy, count, 64, points);

        check_choice(all, count, points, chosen);
        memcpy(copy, all, sizeof(all));
        const size_t left = lull_operating_points_choose(copy, count, 4, fewer);

        assert_int_equal(left, chosen < 4 ? chosen : 4);
        for (size_t i = 0; i < left; i++)
            assert_true(contains(points, chosen, &fewer[i]));
    }
}

/* Returns whether a candidate lies on or above a segment between two points of its hull, or on a
 * point. */
static bool is_covered(const struct lull_cluster_point *point, const struct lull_cluster_point *all,
                       size_t count)
{
    const double slip_j = 1e-9 * (1.0 + fabs(point->energy_j));

    for (size_t i = 0; i < count; i++) {
        const struct lull_cluster_point *a = &all[i];

        if (a->type != point->type || a->gpus != point->gpus || a->time_ns > point->time_ns)
            continue;
        if (a->time_ns == point->time_ns && a->energy_j <= point->energy_j + slip_j)
            return true;
        for (size_t k = 0; k < count; k++) {
            const struct lull_cluster_point *b = &all[k];
            double part;

            if (b->type != point->type || b->gpus != point->gpus || b->time_ns <= a->time_ns ||
                b->time_ns < point->time_ns)
                continue;
            part = (double)(point->time_ns - a->time_ns) / (double)(b->time_ns - a->time_ns);
            if (a->energy_j + part * (b->energy_j - a->energy_j) <= point->energy_j + slip_j)
                return true;
        }
    }
    return false;
}

static double min_w(const struct lull_cluster_point *all, size_t count,
                    const struct lull_cluster_point *like)
{
    double least = INFINITY;

    for (size_t i = 0; i < count; i++)
        if (all[i].type == like->type && all[i].gpus == like->gpus)
            least = fmin(least, all[i].energy_j / (double)all[i].time_ns);
    return least;
}

/* No candidate lies below what is relaxed, which keeps to a hull's fastest and least power. */
static void check_relaxed(struct lull_cluster_point *all, size_t count, size_t most_of_hull)
{
    static struct lull_cluster_point points[LULL_CLUSTER_RELAXED_POINTS];
    const size_t made = lull_operating_points_relax(all, count, points);

    assert_in_range(made, 1, LULL_CLUSTER_RELAXED_POINTS);
    for (size_t i = 0; i < count; i++) {
        assert_true(is_covered(&all[i], points, made));
        assert_true(min_w(points, made, &all[i]) <= min_w(all, count, &all[i]) + 1e-9);
    }
    for (size_t i = 0; i < made; i++) {
        size_t of_hull = 0, faster = 0;

        for (size_t k = 0; k < made; k++)
            of_hull += points[k].type == points[i].type && points[k].gpus == points[i].gpus;
        for (size_t k = 0; k < count; k++)
            faster += all[k].type == points[i].type && all[k].gpus == points[i].gpus &&
                      all[k].time_ns <= points[i].time_ns;
        assert_in_range(of_hull, 1, most_of_hull);
        assert_true(faster > 0);
    }
}

static void test_relaxed(void **state)
{
    static struct lull_cluster_point all[LULL_JOB_MAX_CANDIDATES];
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 11);
    for (int round = 0; round < 3000; round++)
        check_relaxed(all, draw(&random, all), MAX);
    for (int round = 0; round < 100; round++) { /* more corners than there is room for */
        const uint32_t hulls = 1 + (uint32_t)lull_random_below(&random, 36);
        size_t count = 0;

        for (uint32_t i = 0; i < hulls; i++)
            for (uint32_t k = 0; k < 100; k++) {
                const double x = ((double)k + lull_random_uniform(&random)) / 100.0;

                all[count++] = (struct lull_cluster_point){
                    .type = i / 9,
                    .gpus = 1 + i % 9,
                    .time_ns = 1000000 + (int64_t)(1e6 * x),
                    .energy_j = 50.0 + 100.0 * (x - 0.6) * (x - 0.6),
                };
            }
        check_relaxed(all, count, MAX);
    }
}

/* A merged corner lies little below the hull: a hundred corners of a parabola, left with 16. */
static void test_relaxed_is_near(void **state)
{
    struct lull_cluster_point all[100];
    struct lull_cluster_point points[LULL_CLUSTER_RELAXED_POINTS];
    size_t made;

    (void)state;
    for (int i = 0; i < 100; i++)
        all[i] = (struct lull_cluster_point){
            .gpus = 1, .time_ns = 1000 + 10 * i, .energy_j = 50.0 + 0.01 * (i - 60.0) * (i - 60.0)};
    made = lull_operating_points_relax(all, 100, points);
    assert_int_equal(made, MAX);
    for (size_t i = 0; i < made; i++) {
        const double k = (double)(points[i].time_ns - 1000) / 10.0;

        assert_true(points[i].energy_j > 50.0 + 0.01 * (k - 60.0) * (k - 60.0) - 0.5);
    }
}

/* The dropped point is the one with the least loss of area, against all ways to leave out one
 * point. */
static void test_least_area_goes(void **state)
{
    struct lull_cluster_point all[] = {
        {.gpus = 1, .time_ns = 10, .energy_j = 100.0}, {.gpus = 1, .time_ns = 20, .energy_j = 60.0},
        {.gpus = 1, .time_ns = 30, .energy_j = 41.0}, /* hardly below the line */
        {.gpus = 1, .time_ns = 40, .energy_j = 25.0},  {.gpus = 1, .time_ns = 80, .energy_j = 5.0},
    };
    struct lull_cluster_point points[4];

    (void)state;
    assert_int_equal(lull_operating_points_choose(all, 5, 4, points), 4);
    assert_int_equal(points[0].time_ns, 10);
    assert_int_equal(points[1].time_ns, 20);
    assert_int_equal(points[2].time_ns, 40);
    assert_int_equal(points[3].time_ns, 80);
}

static void test_of_surface(void **state)
{
    const struct lull_job_work work = {
        .parts = {{{40.0, 200.0, 0.1}, 1.0}}, .part_count = 1, .sync_ratio = 0.1};
    static struct lull_cluster_point candidates[LULL_JOB_MAX_CANDIDATES];
    static const uint32_t gpus[] = {2, 4, 8};
    struct lull_cluster_point points[MAX];
    struct lull_job_tempo tempo[CLOCKS];
    const struct lull_job_offer offer = {{.tempo = tempo,
                                          .clock_count = CLOCKS,
                                          .sync_ratio = 0.1,
                                          .gpus = 4,
                                          .time_ns = 1000000000},
                                         3};

    (void)state;
    lull_job_tempo(&gpu, &work, tempo);
    size_t listed = lull_operating_points_list(&offer, 1, &gpus[1], 1, 1, candidates);
    const size_t count = lull_operating_points_choose(candidates, listed, MAX, points);

    assert_in_range(count, 2, CLOCKS);
    assert_int_equal(points[0].time_ns, 1000000000);
    assert_int_equal(points[0].sm_mhz, 1400);
    for (size_t i = 1; i < count; i++) {
        assert_true(points[i].energy_j < points[i - 1].energy_j);
        assert_true(points[i].sm_mhz < points[i - 1].sm_mhz);
    }
    assert_true(points[count - 1].sm_mhz >= 900); /* below the knee energy rises again */
    listed = lull_operating_points_list(&offer, 1, gpus, 3, 1, candidates);
    const size_t elastic = lull_operating_points_choose(candidates, listed, MAX, points);

    assert_in_range(elastic, count, MAX);
    assert_int_equal(points[0].gpus, 8);
    assert_int_equal(points[0].type, 3);
    assert_int_equal(lull_operating_points_list(&offer, 1, &gpus[1], 1, CLOCKS, candidates), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compute_follows_the_clock),
        cmocka_unit_test(test_memory_does_not_until_it_starves),
        cmocka_unit_test(test_host_time_waits),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_own_point),
        cmocka_unit_test(test_sync_share),
        cmocka_unit_test(test_measured_rates),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_relaxed),
        cmocka_unit_test(test_relaxed_is_near),
        cmocka_unit_test(test_least_area_goes),
        cmocka_unit_test(test_of_surface),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
