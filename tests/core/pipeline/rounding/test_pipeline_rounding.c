/*
 * Rounding on random task graphs: deadlines hold, no plan is below the bound, moves never make a
 * plan more expensive; on tiny ones against all plans. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/rounding/beam.h"
#include "core/pipeline/rounding/rounding.h"
#include "../pipeline_case.h"
#include "../../property.h"

enum { MOST_OPS = 64, MOST_CHOICES = 16, BEAM_EVERY = 10 };

/* The slow and the fast end of the frontier. */
static void find_ends(struct lull_frontier *frontier, int64_t *slowest_ns, int64_t *fastest_ns)
{
    struct lull_frontier_point point;

    assert_int_equal(lull_frontier_next(frontier, &point), 1);
    *slowest_ns = point.time_ns;
    while (lull_frontier_next(frontier, &point) == 1)
        ;
    *fastest_ns = point.time_ns;
}

static void check_plan(const struct pipeline_case *it, struct lull_frontier *frontier,
                       const uint32_t *point, int64_t deadline_ns, uint64_t seed)
{
    struct lull_pipeline_cost cost = lull_pipeline_plan_cost(&it->problem, point, deadline_ns);
    double bound_j;

    assert_int_equal(lull_frontier_seek(frontier, deadline_ns), 0);
    bound_j = lull_frontier_here(frontier).energy_j;
    holds(cost.time_ns <= deadline_ns, seed);
    if (lull_frontier_here(frontier).time_ns == deadline_ns)
        holds(cost.energy_j >= bound_j - 1e-6 * (1.0 + fabs(bound_j)), seed);
}

/* A beam never makes the plan more expensive. */
static void check_beam(const struct pipeline_case *it, struct lull_pipeline_rounding *rounding,
                       struct lull_frontier *frontier, int64_t deadline_ns, uint32_t *point,
                       uint64_t seed)
{
    const double before_j = lull_pipeline_plan_cost(&it->problem, point, deadline_ns).energy_j;

    assert_int_equal(lull_pipeline_beam(rounding, frontier, deadline_ns, point), 0);
    check_plan(it, frontier, point, deadline_ns, seed);
    holds(lull_pipeline_plan_cost(&it->problem, point, deadline_ns).energy_j <=
              before_j + 1e-9 * (1.0 + fabs(before_j)),
          seed);
}

static void check_random(uint64_t seed)
{
    const struct pipeline_case_random size = {MOST_OPS, 12, 4};
    struct lull_pipeline_rounding *rounding;
    struct lull_frontier *frontier;
    uint32_t point[MOST_OPS];
    int64_t duration_ns[MOST_OPS];
    struct lull_random random;
    struct pipeline_case it;
    int64_t slowest_ns;
    int64_t fastest_ns;

    lull_random_init(&random, seed);
    pipeline_case_draw(&it, &random, &size);
    frontier = lull_frontier_create(&it.problem, NULL);
    assert_non_null(frontier);
    assert_int_equal(lull_pipeline_rounding_create(&it.problem, &rounding), 0);
    find_ends(frontier, &slowest_ns, &fastest_ns);
    for (int i = 0; i <= 4; i++) {
        int64_t deadline_ns = fastest_ns + (slowest_ns - fastest_ns) * i / 3;
        int64_t other_ns = deadline_ns + (slowest_ns - fastest_ns) / 7;
        double quick_j;

        assert_int_equal(lull_frontier_seek(frontier, i % 2 == 0 ? deadline_ns : other_ns), 0);
        lull_frontier_durations(frontier, duration_ns);
        assert_int_equal(lull_pipeline_round_quick(rounding, duration_ns, deadline_ns, point), 0);
        check_plan(&it, frontier, point, deadline_ns, seed);
        quick_j = lull_pipeline_plan_cost(&it.problem, point, deadline_ns).energy_j;
        holds(lull_pipeline_round_improve(rounding, deadline_ns, 100, point) >= 0, seed);
        check_plan(&it, frontier, point, deadline_ns, seed);
        holds(lull_pipeline_plan_cost(&it.problem, point, deadline_ns).energy_j <=
                  quick_j + 1e-9 * (1.0 + fabs(quick_j)),
              seed);
        assert_int_equal(lull_pipeline_round_thorough(rounding, frontier, deadline_ns, point), 0);
        check_plan(&it, frontier, point, deadline_ns, seed);
        if (seed % BEAM_EVERY == 0)
            check_beam(&it, rounding, frontier, deadline_ns, point, seed);
    }
    assert_int_equal(lull_pipeline_beam(rounding, frontier, fastest_ns - 1, point), -ERANGE);
    memset(point, 0xff, sizeof(point));
    assert_int_equal(lull_pipeline_round_quick(rounding, duration_ns, fastest_ns - 1, point),
                     -ERANGE);
    assert_int_equal(lull_pipeline_round_thorough(rounding, frontier, fastest_ns - 1, point),
                     -ERANGE);
    assert_int_equal(point[0], UINT32_MAX);
    lull_pipeline_rounding_destroy(rounding);
    lull_frontier_destroy(frontier);
    pipeline_case_fini(&it);
}

static void test_random_graphs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        check_random(seed);
}

/* All plans, by depth first; what cannot keep the deadline or be the best is left out. */
struct exhaustion {
    const struct pipeline_case *it;
    int64_t deadline_ns;
    double least_after[MOST_OPS + 1]; /* effective nJ of the operations from a place on */
    int64_t tail_ns[MOST_OPS];        /* the fastest way from an operation's end to the last */
    int64_t end_ns[MOST_OPS];
    double best_nj;
};

static const struct lull_pipeline_class *class_of(const struct exhaustion *all, uint32_t op)
{
    return &all->it->profile.classes[all->it->graph.ops[op].class_index];
}

static double effective_nj(const struct exhaustion *all, uint32_t op, size_t point)
{
    const struct lull_pipeline_point *it = &class_of(all, op)->points[point];

    return (double)it->energy_nj -
           all->it->blocking_w[all->it->graph.ops[op].device] * (double)it->time_ns;
}

static void descend(struct exhaustion *all, size_t place, double sum_nj)
{
    const struct lull_pipeline_graph *graph = &all->it->graph;
    uint32_t op;
    int64_t begin_ns = 0;

    if (sum_nj + all->least_after[place] >= all->best_nj)
        return;
    if (place == graph->op_count) {
        all->best_nj = sum_nj;
        return;
    }
    op = graph->topological[place];
    for (size_t k = 0; k < graph->edge_count; k++)
        if (graph->edges[k].to == op &&
            all->end_ns[graph->edges[k].from] + graph->edges[k].latency_ns > begin_ns)
            begin_ns = all->end_ns[graph->edges[k].from] + graph->edges[k].latency_ns;
    for (size_t i = 0; i < class_of(all, op)->point_count; i++) {
        all->end_ns[op] = begin_ns + class_of(all, op)->points[i].time_ns;
        if (all->end_ns[op] + all->tail_ns[op] <= all->deadline_ns)
            descend(all, place + 1, sum_nj + effective_nj(all, op, i));
    }
}

/* The least energy of any plan within the deadline, J. */
static double exhaust(const struct pipeline_case *it, int64_t deadline_ns)
{
    const struct lull_pipeline_graph *graph = &it->graph;
    struct exhaustion all = {.it = it, .deadline_ns = deadline_ns, .best_nj = INFINITY};
    double blocking_w = 0.0;

    for (size_t place = graph->op_count; place-- > 0;) {
        uint32_t op = graph->topological[place];
        double least = INFINITY;

        for (size_t i = 0; i < class_of(&all, op)->point_count; i++)
            least = fmin(least, effective_nj(&all, op, i));
        all.least_after[place] = all.least_after[place + 1] + least;
        for (size_t k = 0; k < graph->edge_count; k++) {
            const struct lull_pipeline_edge *edge = &graph->edges[k];
            int64_t fastest_ns = INT64_MAX;

            if (edge->from != op)
                continue;
            for (size_t i = 0; i < class_of(&all, edge->to)->point_count; i++)
                if (class_of(&all, edge->to)->points[i].time_ns < fastest_ns)
                    fastest_ns = class_of(&all, edge->to)->points[i].time_ns;
            if (edge->latency_ns + fastest_ns + all.tail_ns[edge->to] > all.tail_ns[op])
                all.tail_ns[op] = edge->latency_ns + fastest_ns + all.tail_ns[edge->to];
        }
    }
    descend(&all, 0, 0.0);
    for (uint32_t device = 0; device < graph->device_count; device++)
        blocking_w += it->blocking_w[device];
    return (all.best_nj + blocking_w * (double)deadline_ns) * 1e-9;
}

struct tally {
    unsigned plans;
    unsigned optimal;
    double worst;
    double sum;
};

static void compare(const struct pipeline_case *it, bool beamed, int deadlines, uint64_t seed,
                    struct tally *tally)
{
    struct lull_frontier *frontier = lull_frontier_create(&it->problem, NULL);
    struct lull_pipeline_rounding *rounding;
    uint32_t point[MOST_OPS];
    int64_t slowest_ns;
    int64_t fastest_ns;

    assert_non_null(frontier);
    assert_int_equal(lull_pipeline_rounding_create(&it->problem, &rounding), 0);
    find_ends(frontier, &slowest_ns, &fastest_ns);
    for (int i = 0; i < deadlines; i++) {
        int64_t deadline_ns = fastest_ns + (slowest_ns - fastest_ns) * i / deadlines;
        double best_j = exhaust(it, deadline_ns);
        double ours_j;

        assert_int_equal(lull_pipeline_round_thorough(rounding, frontier, deadline_ns, point), 0);
        if (beamed)
            assert_int_equal(lull_pipeline_beam(rounding, frontier, deadline_ns, point), 0);
        ours_j = lull_pipeline_plan_cost(&it->problem, point, deadline_ns).energy_j;
        holds(ours_j >= best_j - 1e-9 * (1.0 + fabs(best_j)), seed);
        tally->plans++;
        tally->optimal += ours_j <= best_j * (1.0 + 1e-9);
        tally->sum += 100.0 * (ours_j / best_j - 1.0);
        tally->worst = fmax(tally->worst, 100.0 * (ours_j / best_j - 1.0));
    }
    lull_pipeline_rounding_destroy(rounding);
    lull_frontier_destroy(frontier);
}

static void report(const char *what, const struct tally *tally)
{
    printf("%s: %u of %u plans optimal, above the optimum by mean %.3f %%, worst %.3f %%\n", what,
           tally->optimal, tally->plans, tally->sum / tally->plans, tally->worst);
}

static void test_tiny_graphs(void **state)
{
    const struct pipeline_case_random size = {9, 5, 3};
    struct tally thorough = {0};
    struct tally beam = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct lull_random random;
        struct pipeline_case it;

        lull_random_init(&random, seed);
        pipeline_case_draw(&it, &random, &size);
        compare(&it, false, 4, seed, &thorough);
        compare(&it, true, 4, seed, &beam);
        pipeline_case_fini(&it);
    }
    report("random graphs of up to 9 operations", &thorough);
    report("the same with a beam", &beam);
    assert_true(thorough.optimal * 100 >= thorough.plans * 90);
    assert_true(beam.optimal * 100 >= beam.plans * 98);
}

/* Keeps about `kept` of each class's options, from one end to the other. */
static void thin_out(struct pipeline_case *it, size_t kept)
{
    for (size_t i = 0; i < it->profile.class_count; i++) {
        struct lull_pipeline_class *class = &it->profile.classes[i];
        size_t count = class->point_count;

        for (size_t k = 0; k < kept; k++)
            class->points[k] = class->points[k * (count - 1) / (kept - 1)];
        class->point_count = kept;
    }
}

static void test_tiny_pipelines(void **state)
{
    static const char *const profiles[] = {"gpt3-175b_a100_sxm_bf16.csv", "gpt3-175b_a40_bf16.csv"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct tally thorough = {0};
        struct tally beam = {0};
        struct pipeline_case it;
        char path[1024];

        snprintf(path, sizeof(path), "%s/profiles/%s", LULL_SHARED_DATA, profiles[i]);
        for (uint32_t microbatches = 2; microbatches <= 3; microbatches++) {
            if (!pipeline_case_1f1b(&it, path, 2, microbatches, i == 0 ? 83.64 : 70.38)) {
                fprintf(stderr, "skipped: no profile %s\n", path);
                skip();
            }
            thin_out(&it, 6);
            compare(&it, false, 12, microbatches, &thorough);
            compare(&it, true, 12, microbatches, &beam);
            pipeline_case_fini(&it);
        }
        report(profiles[i], &thorough);
        report("the same with a beam", &beam);
        assert_true(thorough.sum / thorough.plans <= 0.3);
        assert_true(beam.sum / beam.plans <= 0.05);
    }
}

/* The moves come in pairs, one each way; an odd one that is allowed is not tried. */
static void test_no_more_moves_are_made_than_allowed(void **state)
{
    static const uint64_t limits[] = {0, 1, 2, 3, 4};
    int64_t made[5] = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const struct pipeline_case_random size = {MOST_OPS, 12, 4};
        struct lull_pipeline_rounding *rounding;
        struct lull_frontier *frontier;
        int64_t duration_ns[MOST_OPS];
        struct lull_random random;
        struct pipeline_case it;
        int64_t slowest_ns;
        int64_t fastest_ns;

        lull_random_init(&random, seed);
        pipeline_case_draw(&it, &random, &size);
        frontier = lull_frontier_create(&it.problem, NULL);
        assert_non_null(frontier);
        assert_int_equal(lull_pipeline_rounding_create(&it.problem, &rounding), 0);
        find_ends(frontier, &slowest_ns, &fastest_ns);
        assert_int_equal(lull_frontier_seek(frontier, (fastest_ns + slowest_ns) / 2), 0);
        lull_frontier_durations(frontier, duration_ns);
        for (int i = 0; i < 5; i++) {
            uint32_t point[MOST_OPS];
            int64_t moves;

            assert_int_equal(lull_pipeline_round_quick(rounding, duration_ns,
                                                       (fastest_ns + slowest_ns) / 2, point),
                             0);
            moves = lull_pipeline_round_improve(rounding, (fastest_ns + slowest_ns) / 2, limits[i],
                                                point);
            holds(moves >= 0 && (uint64_t)moves <= limits[i], seed);
            made[i] += moves;
        }
        lull_pipeline_rounding_destroy(rounding);
        lull_frontier_destroy(frontier);
        pipeline_case_fini(&it);
    }
    assert_int_equal(made[1], 0);
    assert_true(made[2] > 0);
    assert_int_equal(made[3], made[2]);
    assert_true(made[4] >= made[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_tiny_graphs),
        cmocka_unit_test(test_tiny_pipelines),
        cmocka_unit_test(test_no_more_moves_are_made_than_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
