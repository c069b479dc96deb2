/*
 * Proofs against all plans there are, on small random task graphs: what is proven impossible is,
 * what is found holds. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/prove/prove.h"
#include "core/pipeline/round/exact.h"
#include "pipeline_case.h"
#include "property.h"

enum { CASES = 400, MOST_PLANS = 60000, LIMIT = 10000, DEADLINES = 3, GRIDS = 40 };

static size_t options_of(const struct pipeline_case *it, size_t op)
{
    return it->profile.classes[it->graph.ops[op].class_index].option_count;
}

/* How many plans there are; 0: too many. */
static size_t count_plans(const struct pipeline_case *it)
{
    size_t plans = 1;

    for (size_t op = 0; op < it->graph.op_count; op++) {
        plans *= options_of(it, op);
        if (plans > MOST_PLANS)
            return 0;
    }
    return plans;
}

/* The least energy of all plans within the deadline; INFINITY: there is none. */
static double try_all(const struct pipeline_case *it, int64_t deadline_ns)
{
    uint32_t *option = calloc(it->graph.op_count, sizeof(*option));
    double least_j = INFINITY;
    size_t op = 0;

    assert_non_null(option);
    while (op < it->graph.op_count) {
        const struct lull_pipeline_cost cost = lull_pipeline_plan_cost(&it->problem, option, 0);

        if (cost.time_ns <= deadline_ns && cost.energy_j < least_j)
            least_j = cost.energy_j;
        for (op = 0; op < it->graph.op_count && ++option[op] == options_of(it, op); op++)
            option[op] = 0;
    }
    free(option);
    return least_j;
}

static struct lull_proof_report prove(const struct pipeline_case *it, int64_t deadline_ns,
                                      double energy_j, uint32_t window_ops, uint64_t seed)
{
    const struct lull_proof_limits limits = {LIMIT, window_ops};
    uint32_t *option = calloc(it->graph.op_count, sizeof(*option));
    struct lull_proof_report report;
    struct lull_error err = {0};

    assert_non_null(option);
    holds(lull_pipeline_prove(&it->problem, deadline_ns, energy_j, &limits, NULL, NULL, option,
                              &report, &err) == 0,
          seed);
    if (report.outcome == LULL_PROOF_FOUND) {
        const struct lull_pipeline_cost cost = lull_pipeline_plan_cost(&it->problem, option, 0);

        holds(cost.time_ns <= deadline_ns && cost.energy_j <= energy_j, seed);
    }
    free(option);
    return report;
}

/* What happened, so that the test shows that it was not all easy. */
struct tally {
    unsigned proven;
    unsigned branched;
    unsigned above_bound; /* proven although the flow's bound was below */
    unsigned found;
    unsigned undecided;
};

static void add(struct tally *tally, const struct lull_proof_report *report, double energy_j)
{
    tally->proven += report->outcome == LULL_PROOF_NONE;
    tally->branched += report->branchings > 0;
    tally->above_bound += report->outcome == LULL_PROOF_NONE && report->bound_j < energy_j;
    tally->found += report->outcome == LULL_PROOF_FOUND;
    tally->undecided += report->outcome == LULL_PROOF_UNDECIDED;
}

static void check_deadline(const struct pipeline_case *it, int64_t deadline_ns, uint64_t seed,
                           struct tally *tally)
{
    static const double ratios[] = {0.9, 0.999, 0.9999999, 1.0000001, 1.001};
    const double least_j = try_all(it, deadline_ns);

    for (size_t i = 0; i < sizeof(ratios) / sizeof(ratios[0]) * 2; i++) {
        const double energy_j = least_j * ratios[i / 2];
        const uint32_t window_ops = i % 2 == 0 ? 0 : 3 + (uint32_t)(seed % 4);
        const struct lull_proof_report report = prove(it, deadline_ns, energy_j, window_ops, seed);

        holds(report.bound_j <= report.proven_j, seed);
        holds(report.proven_j <= least_j, seed);
        holds(report.outcome != LULL_PROOF_NONE || energy_j < least_j, seed);
        holds(report.outcome != LULL_PROOF_FOUND || energy_j >= least_j, seed);
        add(tally, &report, energy_j);
    }
}

static void test_against_all_plans(void **state)
{
    struct tally tally = {0};
    unsigned checked = 0;

    (void)state;
    for (uint64_t seed = 0; checked < CASES; seed++) {
        const struct pipeline_case_random size = {9, 5, 3};
        struct lull_random random;
        struct lull_frontier_point slow;
        struct lull_frontier_point fast;
        struct lull_frontier *frontier;
        struct pipeline_case it;

        lull_random_init(&random, seed);
        pipeline_case_draw(&it, &random, &size);
        if (count_plans(&it) > 1) {
            frontier = lull_frontier_create(&it.problem, NULL);
            assert_non_null(frontier);
            assert_int_equal(lull_frontier_next(frontier, &slow), 1);
            fast = slow;
            while (lull_frontier_next(frontier, &fast) == 1)
                ;
            lull_frontier_destroy(frontier);
            for (unsigned i = 0; i < DEADLINES; i++)
                check_deadline(&it, fast.time_ns + (slow.time_ns - fast.time_ns) * i / DEADLINES,
                               seed, &tally);
            checked++;
        }
        pipeline_case_fini(&it);
    }
    printf("%u proven, %u of them although the flow's bound lies below; %u found; %u undecided; %u "
           "with branchings\n",
           tally.proven, tally.above_bound, tally.found, tally.undecided, tally.branched);
    assert_int_equal(tally.undecided, 0);
    assert_true(tally.above_bound > 100 && tally.branched > 100 && tally.found > 100);
}

/* The makespan of the fastest plan: the first options. */
static int64_t fastest_ns(const struct pipeline_case *it)
{
    uint32_t *option = calloc(it->graph.op_count, sizeof(*option));
    int64_t time_ns;

    assert_non_null(option);
    time_ns = lull_pipeline_plan_cost(&it->problem, option, 0).time_ns;
    free(option);
    return time_ns;
}

/* A grid of forwards and backwards, as pipelines are, where each operation is an own class of two
 * options: the smallest graphs whose windows have something to lose. */
static void draw_grid(struct pipeline_case *it, struct lull_random *random, uint32_t stages,
                      uint32_t batches)
{
    lull_pipeline_profile_init(&it->profile);
    lull_pipeline_graph_init(&it->graph);
    it->blocking_w = calloc(stages, sizeof(*it->blocking_w));
    for (uint32_t op = 0; op < 2 * stages * batches; op++) {
        const uint32_t column = op % (2 * batches);
        const int64_t fast_ns = 1000 + (int64_t)lull_random_below(random, 1000);
        const int64_t slow_ns = fast_ns + 50 + (int64_t)lull_random_below(random, 500);
        const struct lull_pipeline_option fast = {fast_ns, 4 * slow_ns, 2};
        const struct lull_pipeline_option slow = {
            slow_ns, 4 * slow_ns - 50 - (int64_t)lull_random_below(random, 1500), 1};

        assert_int_equal(
            lull_pipeline_profile_add(&it->profile, op, LULL_PIPELINE_FORWARD, 0, &fast, NULL) |
                lull_pipeline_profile_add(&it->profile, op, LULL_PIPELINE_FORWARD, 0, &slow, NULL),
            0);
        assert_int_equal(
            lull_pipeline_graph_add(&it->graph,
                                    &(struct lull_pipeline_op){op / (2 * batches), op, column, 0}),
            op);
    }
    for (uint32_t op = 0; op + 2 * batches < 2 * stages * batches; op++)
        assert_int_equal(lull_pipeline_graph_connect(&it->graph, op, op + 2 * batches, 0), 0);
    assert_int_equal(lull_pipeline_graph_finish(&it->graph, &it->profile, NULL), 0);
    it->problem = (struct lull_pipeline_problem){&it->profile, &it->graph, it->blocking_w};
}

/* What windows prove is true, and at times more than the flow does, where no proof of the whole
 * ends the search. */
static void test_windows(void **state)
{
    unsigned above_bound = 0;

    (void)state;
    for (uint64_t seed = 0; seed < GRIDS; seed++) {
        struct pipeline_case it;
        struct lull_random random;
        int64_t deadline_ns;
        double least_j;

        lull_random_init(&random, seed);
        draw_grid(&it, &random, 2, 4);
        deadline_ns = fastest_ns(&it) * 21 / 20;
        least_j = try_all(&it, deadline_ns);
        for (unsigned i = 0; i < 6; i++) {
            const bool is_above = i >= 2; /* what the best plan needs */
            const double energy_j = least_j * (0.999999 + 1e-6 * (i / 2));
            const uint32_t window_ops = i % 2 == 0 ? 7 + i / 2 : 2 + i / 2; /* few or many */
            const struct lull_proof_report report =
                prove(&it, deadline_ns, energy_j, window_ops, seed);

            holds(report.outcome == (is_above ? LULL_PROOF_FOUND : LULL_PROOF_NONE), seed);
            holds(report.bound_j <= report.proven_j && report.proven_j <= least_j, seed);
            above_bound += is_above && report.proven_j > report.bound_j;
        }
        pipeline_case_fini(&it);
    }
    printf("%u of %u bounds better by windows\n", above_bound, 4 * GRIDS);
    assert_true(above_bound >= GRIDS / 4);
}

/* From the fastest plan on, by windows that are smaller than the graph or not. */
static struct lull_pipeline_cost improve(const struct pipeline_case *it, int64_t deadline_ns,
                                         uint32_t windows, int64_t *cheaper_out)
{
    uint32_t *option = calloc(it->graph.op_count, sizeof(*option));
    struct lull_pipeline_cost cost;

    assert_non_null(option);
    *cheaper_out = lull_pipeline_exact(&it->problem, deadline_ns, windows, option);
    cost = lull_pipeline_plan_cost(&it->problem, option, 0);
    free(option);
    return cost;
}

/* Where the window is everything, the best plan of all; else no dearer one, and the same again. */
static void test_exact_windows(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < GRIDS / 2; seed++) {
        struct lull_pipeline_cost cost = {0};
        struct pipeline_case it;
        struct lull_random random;
        int64_t deadline_ns;
        int64_t cheaper;

        lull_random_init(&random, seed);
        draw_grid(&it, &random, 2, 4);
        deadline_ns = fastest_ns(&it) * 21 / 20;
        cost = improve(&it, deadline_ns, 40, &cheaper);
        holds(cost.time_ns <= deadline_ns && cheaper > 0 &&
                  cost.energy_j <= try_all(&it, deadline_ns) * (1.0 + 2e-9),
              seed);
        pipeline_case_fini(&it);

        draw_grid(&it, &random, 4, 8);
        deadline_ns = fastest_ns(&it) * 21 / 20;
        for (uint32_t windows = 0; windows < 8; windows += 3) {
            const double before_j = cost.energy_j;

            cost = improve(&it, deadline_ns, windows, &cheaper);
            holds(cost.time_ns <= deadline_ns, seed);
            holds(windows == 0 || cost.energy_j <= before_j, seed);
            holds((cheaper == 0) == (windows == 0), seed);
        }
        holds(cost.energy_j == improve(&it, deadline_ns, 6, &cheaper).energy_j, seed);
        pipeline_case_fini(&it);
    }
}

static bool stop_at_once(void *user, const struct lull_proof_report *report)
{
    (void)report;
    ++*(unsigned *)user;
    return false;
}

/* Limits are kept, the caller can stop it, and impossible deadlines are refused. */
static void test_limits(void **state)
{
    const char *path = LULL_SHARED_DATA "/profiles/gpt3-175b_a100_sxm_bf16.csv";
    const int64_t deadline_ns = INT64_C(2904000000);
    const struct lull_proof_limits few = {3, LULL_PROOF_WINDOW_OPS};
    const struct lull_proof_limits many = {LIMIT, LULL_PROOF_WINDOW_OPS};
    struct lull_proof_report report;
    struct lull_error err = {0};
    struct pipeline_case it;
    unsigned asked = 0;
    uint32_t *option;

    (void)state;
    if (!pipeline_case_1f1b(&it, path, 8, 12, PIPELINE_CASE_A100_W)) {
        print_message("skipped: %s: %s\n", path, strerror(errno));
        skip();
    }
    option = calloc(it.graph.op_count, sizeof(*option));
    assert_int_equal(lull_pipeline_prove(&it.problem, deadline_ns, 5913.4, &few, NULL, NULL, option,
                                         &report, &err),
                     0);
    assert_int_equal(report.outcome, LULL_PROOF_UNDECIDED);
    assert_int_equal(report.branchings, 3);
    assert_true(report.bound_j > 5910.9 && report.bound_j < 5911.0 && report.done_ratio < 1.0);
    assert_int_equal(lull_pipeline_prove(&it.problem, deadline_ns, 5913.4, &many, stop_at_once,
                                         &asked, option, &report, &err),
                     0);
    assert_int_equal(report.outcome, LULL_PROOF_UNDECIDED);
    assert_int_equal(asked, 1);
    assert_int_equal(
        lull_pipeline_prove(&it.problem, 1000, 5913.4, &many, NULL, NULL, option, &report, &err),
        -ERANGE);
    free(option);
    pipeline_case_fini(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_all_plans),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_exact_windows),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
