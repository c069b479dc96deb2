/*
 * Task graphs, profiles and the cost of a plan: longest paths against brute force over all paths,
 * cycles named, edges that repeat, options that dominate, and limits.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>

#include "core/pipeline/model/plan.h"
#include "../../property.h"

enum { CASES = 400, MOST_OPS = 12 };

static void add_point(struct lull_pipeline_profile *profile, uint32_t stage,
                      enum lull_pipeline_kind kind, uint32_t mhz, int64_t time_ns,
                      int64_t energy_nj)
{
    const struct lull_pipeline_point point = {time_ns, energy_nj, mhz};

    assert_int_equal(lull_pipeline_profile_add(profile, 0, stage, kind, 0, &point, NULL), 0);
}

/* One class of three options; the graph's operations are all of it. */
static void init_both(struct lull_pipeline_profile *profile, struct lull_pipeline_graph *graph)
{
    lull_pipeline_profile_init(profile);
    lull_pipeline_graph_init(graph);
    add_point(profile, 0, LULL_PIPELINE_FORWARD, 1000, 20, 300);
    add_point(profile, 0, LULL_PIPELINE_FORWARD, 1400, 10, 500);
    add_point(profile, 0, LULL_PIPELINE_FORWARD, 600, 40, 250);
}

static void fini_both(struct lull_pipeline_profile *profile, struct lull_pipeline_graph *graph)
{
    lull_pipeline_profile_fini(profile);
    lull_pipeline_graph_fini(graph);
}

static uint32_t add_op(struct lull_pipeline_graph *graph, uint32_t device, uint32_t microbatch)
{
    const struct lull_pipeline_op op = {.device = device, .microbatch = microbatch};
    const int64_t index = lull_pipeline_graph_add(graph, &op);

    assert_true(index >= 0);
    return (uint32_t)index;
}

/* A random graph whose edges go from smaller to larger numbers, under shuffled devices. */
static void draw_graph(struct lull_random *random, struct lull_pipeline_graph *graph)
{
    const uint32_t ops = 1 + (uint32_t)lull_random_below(random, MOST_OPS);
    const uint32_t devices = 1 + (uint32_t)lull_random_below(random, 4);
    const uint32_t edges = (uint32_t)lull_random_below(random, 3 * ops);

    for (uint32_t i = 0; i < ops; i++)
        add_op(graph, (uint32_t)lull_random_below(random, devices), i);
    for (uint32_t i = 0; i < edges && ops > 1; i++) {
        const uint32_t to = 1 + (uint32_t)lull_random_below(random, ops - 1);
        const uint32_t from = (uint32_t)lull_random_below(random, to);
        const int64_t latency = (int64_t)lull_random_below(random, 50);

        assert_int_equal(lull_pipeline_graph_connect(graph, from, to, latency), 0);
    }
}

/* Longest path to the start of an operation, over every path one by one. */
static int64_t longest_to(const struct lull_pipeline_graph *graph, const int64_t *duration,
                          uint32_t op)
{
    int64_t longest = 0;

    for (size_t i = 0; i < graph->edge_count; i++) {
        const struct lull_pipeline_edge *edge = &graph->edges[i];
        int64_t length;

        if (edge->to != op)
            continue;
        length = longest_to(graph, duration, edge->from) + duration[edge->from] + edge->latency_ns;
        longest = length > longest ? length : longest;
    }
    return longest;
}

static int64_t longest_from(const struct lull_pipeline_graph *graph, const int64_t *duration,
                            uint32_t op)
{
    int64_t longest = 0;

    for (size_t i = 0; i < graph->edge_count; i++) {
        const struct lull_pipeline_edge *edge = &graph->edges[i];
        int64_t length;

        if (edge->from != op)
            continue;
        length = longest_from(graph, duration, edge->to) + edge->latency_ns;
        longest = length > longest ? length : longest;
    }
    return duration[op] + longest;
}

static void check_order(const struct lull_pipeline_graph *graph, uint64_t seed)
{
    size_t place[MOST_OPS];

    for (size_t i = 0; i < graph->op_count; i++)
        place[graph->topological[i]] = i;
    for (size_t i = 0; i < graph->edge_count; i++) {
        holds(place[graph->edges[i].from] < place[graph->edges[i].to], seed);
        holds(i == 0 || place[graph->edges[i - 1].from] <= place[graph->edges[i].from], seed);
        for (size_t j = 0; j < i; j++)
            holds(graph->edges[i].from != graph->edges[j].from ||
                      graph->edges[i].to != graph->edges[j].to,
                  seed);
    }
    for (uint32_t op = 0; op < graph->op_count; op++) {
        for (uint32_t i = graph->first_in[op]; i < graph->first_in[op + 1]; i++)
            holds(graph->edges[graph->in_edges[i]].to == op, seed);
        for (uint32_t i = graph->first_out[op]; i < graph->first_out[op + 1]; i++)
            holds(graph->edges[graph->out_edges[i]].from == op, seed);
    }
    holds(graph->first_in[graph->op_count] == graph->edge_count, seed);
    holds(graph->first_out[graph->op_count] == graph->edge_count, seed);
    for (uint32_t device = 0; device < graph->device_count; device++) {
        for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++) {
            holds(graph->ops[graph->on_device[i]].device == device, seed);
            holds(i == graph->first_on[device] || graph->on_device[i - 1] < graph->on_device[i],
                  seed);
        }
    }
}

static void test_longest_paths_against_all_paths(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct lull_pipeline_profile profile;
        struct lull_pipeline_graph graph;
        struct lull_random random;
        int64_t duration[MOST_OPS];
        int64_t earliest[MOST_OPS];
        int64_t longest = 0;

        lull_random_init(&random, seed);
        init_both(&profile, &graph);
        draw_graph(&random, &graph);
        assert_int_equal(lull_pipeline_graph_finish(&graph, &profile, NULL), 0);
        check_order(&graph, seed);
        for (size_t i = 0; i < graph.op_count; i++)
            duration[i] = (int64_t)lull_random_below(&random, 100);
        const int64_t makespan = lull_pipeline_earliest(&graph, duration, earliest);

        for (uint32_t op = 0; op < graph.op_count; op++) {
            holds(earliest[op] == longest_to(&graph, duration, op), seed);
            longest = longest > longest_from(&graph, duration, op)
                          ? longest
                          : longest_from(&graph, duration, op);
        }
        holds(makespan == longest, seed);
        holds(makespan == lull_pipeline_earliest(&graph, duration, NULL), seed);
        fini_both(&profile, &graph);
    }
}

static void test_cycles_are_named(void **state)
{
    struct lull_pipeline_profile profile;
    struct lull_pipeline_graph graph;
    struct lull_error err;

    (void)state;
    init_both(&profile, &graph);
    for (uint32_t i = 0; i < 6; i++)
        add_op(&graph, i % 2, i);
    /* Device 0 runs 0, 2, 4 and device 1 runs 1, 3, 5: 2 waits for 3, and 1 for 4, before 3. */
    assert_int_equal(lull_pipeline_graph_connect(&graph, 3, 2, 5), 0);
    assert_int_equal(lull_pipeline_graph_connect(&graph, 4, 1, 0), 0);
    assert_int_equal(lull_pipeline_graph_finish(&graph, &profile, &err), -ELOOP);
    assert_non_null(strstr(err.text, "4 operations"));
    assert_non_null(strstr(err.text, "forward of microbatch 3 on device 1"));
    assert_null(strstr(err.text, "microbatch 0"));
    assert_null(strstr(err.text, "microbatch 5"));
    fini_both(&profile, &graph);

    init_both(&profile, &graph);
    add_op(&graph, 0, 0);
    assert_int_equal(lull_pipeline_graph_connect(&graph, 0, 0, 0), 0);
    assert_int_equal(lull_pipeline_graph_finish(&graph, &profile, &err), -ELOOP);
    assert_non_null(strstr(err.text, "1 operation waits for itself"));
    fini_both(&profile, &graph);
}

static void test_of_repeated_edges_the_longest_is_kept(void **state)
{
    struct lull_pipeline_profile profile;
    struct lull_pipeline_graph graph;

    (void)state;
    init_both(&profile, &graph);
    for (uint32_t i = 0; i < 3; i++)
        add_op(&graph, i / 2, i);
    assert_int_equal(lull_pipeline_graph_connect(&graph, 0, 2, 3), 0);
    assert_int_equal(lull_pipeline_graph_connect(&graph, 0, 2, 9), 0);
    assert_int_equal(lull_pipeline_graph_connect(&graph, 0, 2, 1), 0);
    assert_int_equal(lull_pipeline_graph_connect(&graph, 0, 1, 4), 0); /* with the order edge */
    assert_int_equal(lull_pipeline_graph_finish(&graph, &profile, NULL), 0);
    assert_int_equal(graph.edge_count, 2);
    assert_int_equal(graph.edges[graph.out_edges[0]].latency_ns +
                         graph.edges[graph.out_edges[1]].latency_ns,
                     13);
    fini_both(&profile, &graph);
}

static void test_limits_of_graphs(void **state)
{
    struct lull_pipeline_profile profile;
    struct lull_pipeline_graph graph;
    struct lull_pipeline_op op = {.device = LULL_PIPELINE_MAX_DEVICES};
    struct lull_error err;

    (void)state;
    init_both(&profile, &graph);
    assert_int_equal(lull_pipeline_graph_finish(&graph, &profile, &err), -EINVAL);
    assert_int_equal(lull_pipeline_graph_add(&graph, &op), -E2BIG);
    add_op(&graph, 0, 0);
    add_op(&graph, 0, 1);
    assert_int_equal(lull_pipeline_graph_connect(&graph, 0, 2, 0), -EINVAL);
    assert_int_equal(lull_pipeline_graph_connect(&graph, 2, 0, 0), -EINVAL);
    assert_int_equal(lull_pipeline_graph_connect(&graph, 0, 1, -1), -EINVAL);
    assert_int_equal(lull_pipeline_graph_connect(&graph, 0, 1, LULL_PIPELINE_MAX_TIME_NS + 1),
                     -EINVAL);
    op = (struct lull_pipeline_op){.class_index = 1};
    assert_int_equal(lull_pipeline_graph_add(&graph, &op), 2);
    assert_int_equal(lull_pipeline_graph_finish(&graph, &profile, &err), -EINVAL);
    assert_non_null(strstr(err.text, "operation 2 on device 0"));
    fini_both(&profile, &graph);
}

static void test_profile_keeps_clocks_descending(void **state)
{
    struct lull_pipeline_profile profile;
    struct lull_pipeline_graph graph;
    struct lull_pipeline_point point = {10, 500, 1400};
    struct lull_error err;

    (void)state;
    init_both(&profile, &graph);
    assert_int_equal(profile.class_count, 1);
    assert_int_equal(profile.classes[0].points[0].sm_mhz, 1400);
    assert_int_equal(profile.classes[0].points[1].sm_mhz, 1000);
    assert_int_equal(profile.classes[0].points[2].sm_mhz, 600);
    assert_int_equal(LULL_PIPELINE_HIGHEST, 0);
    assert_int_equal(
        lull_pipeline_profile_add(&profile, 0, 0, LULL_PIPELINE_FORWARD, 0, &point, &err), -EEXIST);
    assert_non_null(strstr(err.text, "1400 MHz"));
    point = (struct lull_pipeline_point){0, 1, 5};
    assert_int_equal(
        lull_pipeline_profile_add(&profile, 0, 1, LULL_PIPELINE_FORWARD, 0, &point, &err), -EINVAL);
    point = (struct lull_pipeline_point){1, -1, 5};
    assert_int_equal(
        lull_pipeline_profile_add(&profile, 0, 1, LULL_PIPELINE_FORWARD, 0, &point, &err), -EINVAL);
    assert_int_equal(lull_pipeline_profile_find(&profile, 0, 1, LULL_PIPELINE_FORWARD, 0), -ENOENT);
    for (uint32_t mhz = 1; mhz <= LULL_PIPELINE_MAX_OPTIONS; mhz++)
        add_point(&profile, 1, LULL_PIPELINE_WEIGHT, mhz, 10, 10);
    point = (struct lull_pipeline_point){1, 1, 9999};
    assert_int_equal(
        lull_pipeline_profile_add(&profile, 0, 1, LULL_PIPELINE_WEIGHT, 0, &point, &err), -EINVAL);
    fini_both(&profile, &graph);
}

static void test_kinds_have_words(void **state)
{
    enum lull_pipeline_kind kind = LULL_PIPELINE_FIXED;

    (void)state;
    for (int i = 0; i < LULL_PIPELINE_KINDS; i++) {
        const char *word = lull_pipeline_kind_name((enum lull_pipeline_kind)i);

        assert_int_equal(lull_pipeline_kind_parse(word, &kind), 0);
        assert_int_equal(kind, i);
    }
    assert_int_equal(lull_pipeline_kind_parse("sideways", &kind), -EINVAL);
}

static double effective(const struct lull_pipeline_point *point, double blocking_w)
{
    return (double)point->energy_nj - blocking_w * (double)point->time_ns;
}

/* Returns whether another option is at least as fast and as cheap, and better in one of the two. */
static bool dominated(const struct lull_pipeline_class *operations, size_t i, double blocking_w)
{
    const struct lull_pipeline_point *it = &operations->points[i];

    for (size_t j = 0; j < operations->point_count; j++) {
        const struct lull_pipeline_point *other = &operations->points[j];
        const double less = effective(it, blocking_w) - effective(other, blocking_w);

        if (other->time_ns <= it->time_ns && less >= 0.0 &&
            (other->time_ns < it->time_ns || less > 0.0 || j < i))
            return true;
    }
    return false;
}

/* Returns whether a mix of two others takes no longer and costs less. */
static bool above_a_mix(const struct lull_pipeline_class *operations, size_t i, double blocking_w)
{
    const struct lull_pipeline_point *it = &operations->points[i];

    for (size_t j = 0; j < operations->point_count; j++) {
        for (size_t k = 0; k < operations->point_count; k++) {
            const struct lull_pipeline_point *a = &operations->points[j];
            const struct lull_pipeline_point *b = &operations->points[k];
            const double share =
                (double)(it->time_ns - a->time_ns) / (double)(b->time_ns - a->time_ns);

            if (a->time_ns < it->time_ns && it->time_ns < b->time_ns &&
                effective(a, blocking_w) +
                        share * (effective(b, blocking_w) - effective(a, blocking_w)) <
                    effective(it, blocking_w) - 1e-9)
                return true;
        }
    }
    return false;
}

static void test_pareto_and_hull_against_all_pairs(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct lull_pipeline_profile profile;
        struct lull_random random;
        uint32_t chosen[LULL_PIPELINE_MAX_OPTIONS];
        uint32_t corner[LULL_PIPELINE_MAX_OPTIONS];

        lull_random_init(&random, seed);
        lull_pipeline_profile_init(&profile);
        const uint32_t points = 1 + (uint32_t)lull_random_below(&random, 20);
        const double blocking_w = 5.0 * (double)lull_random_below(&random, 4);

        for (uint32_t i = 0; i < points; i++)
            add_point(&profile, 0, LULL_PIPELINE_FORWARD, 100 + i,
                      1 + (int64_t)lull_random_below(&random, 30),
                      (int64_t)lull_random_below(&random, 1000));
        const struct lull_pipeline_class *operations = &profile.classes[0];
        const size_t kept = lull_pipeline_pareto(operations, blocking_w, false, chosen);
        const size_t corners = lull_pipeline_pareto(operations, blocking_w, true, corner);
        size_t expected = 0;
        size_t at = 0;

        for (size_t i = 0; i < points; i++)
            expected += !dominated(operations, i, blocking_w);
        holds(kept == expected, seed);
        for (size_t i = 0; i < kept; i++) {
            holds(!dominated(operations, chosen[i], blocking_w), seed);
            holds(i == 0 || operations->points[chosen[i - 1]].time_ns <
                                operations->points[chosen[i]].time_ns,
                  seed);
            if (at < corners && corner[at] == chosen[i]) {
                holds(!above_a_mix(operations, corner[at], blocking_w), seed);
                at++;
            }
        }
        holds(at == corners && corner[0] == chosen[0] && corner[corners - 1] == chosen[kept - 1],
              seed);
        lull_pipeline_profile_fini(&profile);
    }
}

static void test_cost_of_a_plan(void **state)
{
    const double blocking_w[2] = {3.0, 5.0};
    struct lull_pipeline_profile profile;
    struct lull_pipeline_graph graph;
    const struct lull_pipeline_problem problem = {&profile, &graph, blocking_w};
    struct lull_pipeline_cost cost;
    uint32_t point[3];

    (void)state;
    init_both(&profile, &graph);
    for (uint32_t i = 0; i < 3; i++)
        add_op(&graph, i / 2, i);
    assert_int_equal(lull_pipeline_graph_connect(&graph, 0, 2, 7), 0);
    assert_int_equal(lull_pipeline_graph_finish(&graph, &profile, NULL), 0);
    lull_pipeline_plan_highest(&problem, point);
    cost = lull_pipeline_plan_cost(&problem, point, 0);
    assert_int_equal(cost.time_ns, 27);
    assert_near(cost.energy_j * 1e9, 3 * 500 + 3.0 * (27 - 20) + 5.0 * (27 - 10), 1e-9);
    point[2] = 2;
    cost = lull_pipeline_plan_cost(&problem, point, 100);
    assert_int_equal(cost.time_ns, 57);
    assert_near(cost.energy_j * 1e9, 2 * 500 + 250 + 3.0 * (100 - 20) + 5.0 * (100 - 40), 1e-9);
    fini_both(&profile, &graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest_paths_against_all_paths),
        cmocka_unit_test(test_cycles_are_named),
        cmocka_unit_test(test_of_repeated_edges_the_longest_is_kept),
        cmocka_unit_test(test_limits_of_graphs),
        cmocka_unit_test(test_profile_keeps_clocks_descending),
        cmocka_unit_test(test_kinds_have_words),
        cmocka_unit_test(test_pareto_and_hull_against_all_pairs),
        cmocka_unit_test(test_cost_of_a_plan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
