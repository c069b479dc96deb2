/*
 * The frontier: points fall and rise as convex curves do, relaxed durations keep their time, every
 * flow is a proof. Against other solvers: test_pipeline_oracle.c.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>

#include "core/pipeline/frontier/frontier.h"
#include "../pipeline_case.h"
#include "../../property.h"

enum { CASES = 300, LARGE_SEED = 2 };

static const struct pipeline_case_random medium = {.ops = 40, .points = 12, .devices = 5};

/* A frontier, and room for what it says of the operations. */
struct stand {
    const struct pipeline_case *it;
    struct lull_frontier *frontier;
    struct lull_certificate certificate;
    int64_t *duration_ns;
};

static void stand_init(struct stand *stand, const struct pipeline_case *it)
{
    stand->it = it;
    stand->frontier = lull_frontier_create(&it->problem, NULL);
    stand->duration_ns = calloc(it->graph.op_count, sizeof(*stand->duration_ns));
    assert_non_null(stand->frontier);
    assert_non_null(stand->duration_ns);
    assert_int_equal(lull_certificate_init(&stand->certificate, &it->graph), 0);
}

static void stand_fini(struct stand *stand)
{
    lull_frontier_destroy(stand->frontier);
    lull_certificate_fini(&stand->certificate);
    free(stand->duration_ns);
}

/* A random case of this seed, and a frontier at its slow end. */
static void set_up(struct pipeline_case *it, struct stand *stand, struct lull_random *random,
                   const struct pipeline_case_random *size, uint64_t seed)
{
    lull_random_init(random, seed);
    pipeline_case_draw(it, random, size);
    stand_init(stand, it);
}

/* The least energy of an operation that may mix its options and takes so long. */
static double relaxed_nj(const struct pipeline_case *it, uint32_t op, int64_t duration_ns)
{
    const struct lull_pipeline_class *operations =
        &it->profile.classes[it->graph.ops[op].class_index];
    const double blocking_w = it->blocking_w[it->graph.ops[op].device];
    double least = INFINITY;

    for (size_t i = 0; i < operations->point_count; i++) {
        for (size_t j = 0; j < operations->point_count; j++) {
            const struct lull_pipeline_point *a = &operations->points[i];
            const struct lull_pipeline_point *b = &operations->points[j];
            const double of_a = (double)a->energy_nj - blocking_w * (double)a->time_ns;
            const double of_b = (double)b->energy_nj - blocking_w * (double)b->time_ns;

            if (a->time_ns <= duration_ns)
                least = fmin(least, of_a);
            if (a->time_ns <= duration_ns && b->time_ns > duration_ns)
                least = fmin(least, of_a + (of_b - of_a) * (double)(duration_ns - a->time_ns) /
                                               (double)(b->time_ns - a->time_ns));
        }
    }
    return least;
}

/* The present point is valid on its own: its plan keeps the time, and a certificate proves its
 * energy. */
static void check_here(struct stand *stand, uint64_t seed)
{
    const struct pipeline_case *it = stand->it;
    const struct lull_frontier_point here = lull_frontier_here(stand->frontier);
    double energy_nj = 0.0;

    lull_frontier_durations(stand->frontier, stand->duration_ns);
    lull_frontier_certify(stand->frontier, &stand->certificate);
    holds(lull_pipeline_earliest(&it->graph, stand->duration_ns, NULL) <= here.time_ns, seed);
    for (uint32_t op = 0; op < it->graph.op_count; op++)
        energy_nj += relaxed_nj(it, op, stand->duration_ns[op]);
    for (uint32_t device = 0; device < it->graph.device_count; device++)
        energy_nj += it->blocking_w[device] * (double)here.time_ns;
    holds(fabs(energy_nj * 1e-9 - here.energy_j) <= 1e-10 * fabs(here.energy_j) + 1e-12, seed);

    holds(lull_certificate_check(&stand->certificate, &it->graph, NULL) == 0, seed);
    const double bound_j = lull_certificate_bound(&stand->certificate, &it->problem, here.time_ns);
    /* Slopes are rounded to nanowatts. */
    holds(fabs(bound_j - here.energy_j) <= 1e-10 * fabs(here.energy_j) + 1e-11, seed);
}

static void test_points_are_convex_and_proven(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct pipeline_case it;
        struct stand stand;
        struct lull_random random;
        struct lull_frontier_point point;
        struct lull_frontier_point before = {.time_ns = INT64_MAX};
        size_t count = 0;
        size_t listed;

        set_up(&it, &stand, &random, &medium, seed);
        while (lull_frontier_next(stand.frontier, &point) == 1) {
            holds(point.time_ns < before.time_ns, seed);
            holds(count == 0 ? point.slope_w <= 0.0 : point.slope_w > before.slope_w, seed);
            check_here(&stand, seed);
            before = point;
            count++;
        }
        lull_frontier_points(stand.frontier, &listed);
        holds(listed == count, seed);
        stand_fini(&stand);
        pipeline_case_fini(&it);
    }
}

/* Longest path with every operation at its fastest, and with every one at its cheapest. */
static int64_t extreme(const struct pipeline_case *it, bool fastest)
{
    int64_t *duration_ns = calloc(it->graph.op_count, sizeof(*duration_ns));
    int64_t makespan;

    assert_non_null(duration_ns);
    for (size_t op = 0; op < it->graph.op_count; op++) {
        const struct lull_pipeline_class *operations =
            &it->profile.classes[it->graph.ops[op].class_index];
        uint32_t chosen[LULL_PIPELINE_MAX_OPTIONS];
        const size_t count = lull_pipeline_pareto(
            operations, it->blocking_w[it->graph.ops[op].device], true, chosen);

        duration_ns[op] = operations->points[chosen[fastest ? 0 : count - 1]].time_ns;
    }
    makespan = lull_pipeline_earliest(&it->graph, duration_ns, NULL);
    free(duration_ns);
    return makespan;
}

static void test_any_time_can_be_sought(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct pipeline_case it;
        struct stand stand;
        struct lull_random random;

        set_up(&it, &stand, &random, &medium, seed);
        const int64_t fastest = extreme(&it, true);
        const int64_t slowest = extreme(&it, false);

        for (int i = 0; i < 6; i++) {
            const int64_t time_ns =
                fastest + (int64_t)lull_random_below(&random, (uint64_t)(slowest - fastest) + 1);

            holds(lull_frontier_seek(stand.frontier, time_ns) == 0, seed);
            holds(lull_frontier_here(stand.frontier).time_ns == time_ns, seed);
            check_here(&stand, seed);
        }
        holds(lull_frontier_seek(stand.frontier, slowest + 5) == 0, seed);
        holds(lull_frontier_here(stand.frontier).time_ns == slowest, seed);
        holds(lull_frontier_seek(stand.frontier, fastest) == 0, seed);
        check_here(&stand, seed);
        holds(lull_frontier_seek(stand.frontier, fastest - 1) == -ERANGE, seed);
        holds(lull_frontier_here(stand.frontier).time_ns == fastest, seed);
        check_here(&stand, seed);
        stand_fini(&stand);
        pipeline_case_fini(&it);
    }
}

static void test_cheapest_time_is_the_least_of_all_points(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct pipeline_case it;
        struct lull_random random;
        struct lull_frontier_point point;
        double least = INFINITY;

        lull_random_init(&random, seed);
        pipeline_case_draw(&it, &random, &medium);
        struct lull_frontier *frontier = lull_frontier_create(&it.problem, NULL);

        assert_non_null(frontier);
        while (lull_frontier_next(frontier, &point) == 1)
            least = fmin(least, point.energy_j);
        assert_int_equal(lull_frontier_seek_cheapest(frontier), 0);
        point = lull_frontier_here(frontier);
        holds(fabs(point.energy_j - least) <= 1e-12 * fabs(least), seed);
        lull_frontier_destroy(frontier);
        pipeline_case_fini(&it);
    }
}

/* The cheapest of all plans that keep the time, one by one; infinite if none does. */
static double cheapest_plan(const struct pipeline_case *it, int64_t time_ns)
{
    const size_t ops = it->graph.op_count;
    uint32_t point[8] = {0};
    double least = INFINITY;
    size_t at = 0;

    assert_true(ops <= 8);
    while (at < ops) {
        const struct lull_pipeline_cost cost =
            lull_pipeline_plan_cost(&it->problem, point, time_ns);

        if (cost.time_ns <= time_ns)
            least = fmin(least, cost.energy_j);
        for (at = 0; at < ops; at++) {
            if (++point[at] < it->profile.classes[it->graph.ops[at].class_index].point_count)
                break;
            point[at] = 0;
        }
    }
    return least;
}

static void test_bound_is_below_every_plan(void **state)
{
    static const struct pipeline_case_random tiny = {.ops = 6, .points = 4, .devices = 3};
    uint32_t equal = 0;

    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct pipeline_case it;
        struct stand stand;
        struct lull_random random;

        set_up(&it, &stand, &random, &tiny, seed);
        const int64_t fastest = extreme(&it, true);
        const int64_t slowest = extreme(&it, false);

        for (int i = 0; i <= 4; i++) {
            const int64_t time_ns = fastest + (slowest - fastest) * i / 4;
            const double least = cheapest_plan(&it, time_ns);

            holds(lull_frontier_seek(stand.frontier, time_ns) == 0, seed);
            lull_frontier_certify(stand.frontier, &stand.certificate);
            holds(isfinite(least), seed);
            holds(lull_certificate_bound(&stand.certificate, &it.problem, time_ns) <= least, seed);
            equal += lull_frontier_here(stand.frontier).energy_j >= least * (1.0 - 1e-10);
            /* A proof found elsewhere proves less, but is no less true. */
            holds(lull_certificate_bound(&stand.certificate, &it.problem, slowest) <=
                      cheapest_plan(&it, slowest),
                  seed);
        }
        stand_fini(&stand);
        pipeline_case_fini(&it);
    }
    assert_true(equal > CASES); /* both ends at least are plans */
}

/* Places that are remembered, also those that are forgotten to make room, are returned. */
static void test_no_memory_is_lost(void **state)
{
    const struct pipeline_case_random large = {.ops = 300, .points = 12, .devices = 5};
    struct lull_frontier_point point;
    struct lull_random random;
    struct pipeline_case it;
    size_t before = 0;

    (void)state;
    lull_random_init(&random, LARGE_SEED);
    pipeline_case_draw(&it, &random, &large);
    for (int i = 0; i < 60; i++) {
        struct lull_frontier *frontier = lull_frontier_create(&it.problem, NULL);
        size_t points = 0;

        if (i == 10)
            before = heap_bytes();
        assert_non_null(frontier);
        while (lull_frontier_next(frontier, &point) == 1)
            points++;
        assert_true(points > 4 * LULL_FRONTIER_KEPT); /* a place is remembered every four points */
        lull_frontier_destroy(frontier);
    }
    assert_true(heap_bytes() <= before + 100000);
    pipeline_case_fini(&it);
}

static void test_a_broken_proof_is_refused(void **state)
{
    struct pipeline_case it;
    struct stand stand;
    struct lull_random random;
    struct lull_error err;
    uint32_t broken = 0;

    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        set_up(&it, &stand, &random, &medium, seed);
        lull_frontier_seek(stand.frontier, extreme(&it, true));
        lull_frontier_certify(stand.frontier, &stand.certificate);
        stand.certificate.op_flow[lull_random_below(&random, it.graph.op_count)] += 1;
        holds(lull_certificate_check(&stand.certificate, &it.graph, &err) == -EINVAL, seed);
        lull_frontier_certify(stand.frontier, &stand.certificate);
        stand.certificate.value -= 1;
        holds(lull_certificate_check(&stand.certificate, &it.graph, &err) == -EINVAL, seed);
        lull_frontier_certify(stand.frontier, &stand.certificate);
        for (size_t i = 0; i < it.graph.edge_count; i++) {
            stand.certificate.edge_flow[i] ^= INT64_MIN;
            holds(lull_certificate_check(&stand.certificate, &it.graph, &err) == -EINVAL, seed);
            stand.certificate.edge_flow[i] ^= INT64_MIN;
            broken++;
        }
        stand_fini(&stand);
        pipeline_case_fini(&it);
    }
    assert_true(broken > CASES);
}

static void test_impossible_blocking_power_is_refused(void **state)
{
    static const double impossible[] = {-1.0, NAN, INFINITY};
    struct pipeline_case it;
    struct lull_random random;
    struct lull_error err;

    (void)state;
    lull_random_init(&random, 1);
    pipeline_case_draw(&it, &random, &medium);
    for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
        it.blocking_w[0] = impossible[i];
        assert_null(lull_frontier_create(&it.problem, &err));
        assert_int_equal(err.code, -EINVAL);
    }
    pipeline_case_fini(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points_are_convex_and_proven),
        cmocka_unit_test(test_any_time_can_be_sought),
        cmocka_unit_test(test_cheapest_time_is_the_least_of_all_points),
        cmocka_unit_test(test_bound_is_below_every_plan),
        cmocka_unit_test(test_no_memory_is_lost),
        cmocka_unit_test(test_a_broken_proof_is_refused),
        cmocka_unit_test(test_impossible_blocking_power_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
