/*
 * Plans of seeded pipelines, step by step: frontiers, rounding, beams, switching, EnvPipe, orders
 * of all families are what they were. What they should be like is for the other tests; this one
 * notices that any of it has changed. SPDX-License-Identifier: Apache-2.0
 */
#include "../digest.h"

#include "core/pipeline/frontier/envpipe_planner.h"
#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/rounding/beam.h"
#include "core/pipeline/switching/switching.h"
#include "core/pipeline/rounding/rounding.h"
#include "core/pipeline/schedule/choose.h"
#include "core/pipeline/schedule/schedule.h"
#include "pipeline_case.h"

enum { MOST_OPS = 64 };

static void digest_plan(struct digest *digest, const struct pipeline_case *it,
                        const uint32_t *point, int64_t deadline_ns)
{
    const struct lull_pipeline_cost cost =
        lull_pipeline_plan_cost(&it->problem, point, deadline_ns);

    digest_add(digest, (double)cost.time_ns);
    digest_add(digest, cost.energy_j);
    for (size_t i = 0; i < it->graph.op_count; i++)
        digest_add(digest, point[i]);
}

static void digest_frontier(struct digest *digest, const struct pipeline_case *it,
                            struct lull_frontier *frontier)
{
    int64_t duration_ns[MOST_OPS];
    struct lull_frontier_point point;
    uint32_t passed = 0;

    while (lull_frontier_next(frontier, &point) == 1) {
        digest_add(digest, (double)point.time_ns);
        digest_add(digest, point.energy_j);
        digest_add(digest, point.slope_w);
        if (passed++ % 8 != 0)
            continue;
        lull_frontier_durations(frontier, duration_ns);
        for (size_t i = 0; i < it->graph.op_count; i++)
            digest_add(digest, (double)duration_ns[i]);
    }
    digest_add(digest, passed);
    digest_add(digest, lull_frontier_seek_cheapest(frontier));
    digest_add(digest, lull_frontier_here(frontier).energy_j);
}

static void digest_rounding(struct digest *digest, const struct pipeline_case *it,
                            struct lull_frontier *frontier, struct lull_pipeline_rounding *rounding,
                            bool has_beam)
{
    const struct lull_frontier_point *points;
    int64_t duration_ns[MOST_OPS];
    uint32_t point[MOST_OPS];
    int64_t slowest_ns;
    int64_t fastest_ns;
    size_t count;

    while (lull_frontier_next(frontier, &(struct lull_frontier_point){0}) == 1)
        continue;
    points = lull_frontier_points(frontier, &count);
    slowest_ns = points[0].time_ns;
    fastest_ns = points[count - 1].time_ns;
    for (int i = 0; i <= 3; i++) {
        const int64_t deadline_ns = fastest_ns + (slowest_ns - fastest_ns) * i / 3;

        digest_add(digest, lull_frontier_seek(frontier, deadline_ns));
        lull_frontier_durations(frontier, duration_ns);
        digest_add(digest, lull_pipeline_round_quick(rounding, duration_ns, deadline_ns, point));
        digest_plan(digest, it, point, deadline_ns);
        digest_add(digest, (double)lull_pipeline_round_improve(rounding, deadline_ns, 60, point));
        digest_plan(digest, it, point, deadline_ns);
        digest_add(digest, lull_pipeline_round_thorough(rounding, frontier, deadline_ns, point));
        digest_plan(digest, it, point, deadline_ns);
        if (!has_beam)
            continue;
        digest_add(digest, lull_pipeline_beam(rounding, frontier, deadline_ns, point));
        digest_plan(digest, it, point, deadline_ns);
    }
}

static void digest_switching(struct digest *digest, const struct pipeline_case *it,
                             struct lull_frontier *frontier,
                             struct lull_pipeline_rounding *rounding, struct lull_random *random)
{
    const struct lull_pipeline_switching switching = {
        .down_ns = (int64_t)lull_random_below(random, 20000000),
        .up_ns = (int64_t)lull_random_below(random, 20000000),
        .dwell_ns = (int64_t)lull_random_below(random, 60000000),
        .switch_j = 0.5 * lull_random_uniform(random),
        .is_fed_forward = lull_random_below(random, 3) != 0,
        .early_ns = (int64_t)lull_random_below(random, 1000000),
        .call_ns = (int64_t)lull_random_below(random, 2) * 3000000,
    };
    int64_t begin_ns[MOST_OPS];
    int64_t end_ns[MOST_OPS];
    uint32_t point[MOST_OPS];
    uint32_t highest[MOST_OPS];
    int64_t deadline_ns;

    lull_pipeline_plan_highest(&it->problem, highest);
    deadline_ns = lull_pipeline_plan_cost(&it->problem, highest, 0).time_ns;
    deadline_ns += deadline_ns / (3 + (int64_t)lull_random_below(random, 12));
    if (lull_pipeline_round_thorough(rounding, frontier, deadline_ns, point) < 0)
        return;
    digest_add(digest, (double)lull_pipeline_switching_timeline(&it->problem, &switching, point,
                                                                begin_ns, end_ns));
    for (size_t i = 0; i < it->graph.op_count; i++) {
        digest_add(digest, (double)begin_ns[i]);
        digest_add(digest, (double)end_ns[i]);
    }
    digest_add(digest, lull_pipeline_switching_energy_j(&it->problem, &switching, point));
    for (int way = 0; way < 3; way++) {
        struct lull_pipeline_switching_report report = {0};
        uint32_t changed[MOST_OPS];
        struct lull_error err;
        int rc;

        for (size_t i = 0; i < it->graph.op_count; i++)
            changed[i] = point[i];
        if (way < 2)
            rc = lull_pipeline_switching(&it->problem, &switching, deadline_ns, way == 0, changed,
                                         &report, &err);
        else
            rc = lull_pipeline_switching_replan(&it->problem, rounding, frontier, &switching,
                                                deadline_ns, changed, &report, &err);
        digest_add(digest, rc);
        digest_add(digest, (double)report.switches_before);
        digest_add(digest, (double)report.switches_after);
        digest_add(digest, (double)report.time_ns);
        digest_add(digest, report.lost_j);
        digest_plan(digest, it, changed, deadline_ns);
    }
}

static void digest_envpipe(struct digest *digest, const struct pipeline_case *it)
{
    uint32_t point[MOST_OPS];

    for (int method = 0; method < LULL_ENVPIPE_METHODS; method++) {
        struct lull_envpipe_outcome outcome;

        digest_add(digest, lull_envpipe_plan(&it->problem, (enum lull_envpipe_method)method, 200,
                                             point, &outcome));
        digest_plan(digest, it, point, 0);
    }
}

static void random_graphs_are_planned_as_they_were(void **state)
{
    static const double expected[] = {260247.1963617086, 105123.27169795055, 81860.724625381743,
                                      28788.294019111578};
    struct digest digests[4] = {{0}};

    (void)state;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        const struct pipeline_case_random size = {seed % 3 == 0 ? MOST_OPS : 24, 9, 4};
        struct lull_pipeline_rounding *rounding;
        struct lull_frontier *frontier;
        struct lull_random random;
        struct pipeline_case it;

        lull_random_init(&random, seed);
        pipeline_case_draw(&it, &random, &size);
        frontier = lull_frontier_create(&it.problem, NULL);
        assert_non_null(frontier);
        assert_int_equal(lull_pipeline_rounding_create(&it.problem, &rounding), 0);
        digest_frontier(&digests[0], &it, frontier);
        digest_rounding(&digests[1], &it, frontier, rounding, seed % 12 == 1);
        if (seed % 3 != 0)
            digest_switching(&digests[2], &it, frontier, rounding, &random);
        digest_envpipe(&digests[3], &it);
        lull_pipeline_rounding_destroy(rounding);
        lull_frontier_destroy(frontier);
        pipeline_case_fini(&it);
    }
    digest_check(&digests[0], "frontiers", expected[0]);
    digest_check(&digests[1], "roundings", expected[1]);
    digest_check(&digests[2], "switching", expected[2]);
    digest_check(&digests[3], "envpipe", expected[3]);
}

/* Stages of which each takes this share longer than the one before; forward, backward and its two
 * halves at four clocks. */
static void make_profile(struct lull_pipeline_profile *profile, uint32_t stages, double longer)
{
    static const enum lull_pipeline_kind kinds[] = {LULL_PIPELINE_FORWARD, LULL_PIPELINE_BACKWARD,
                                                    LULL_PIPELINE_INPUT, LULL_PIPELINE_WEIGHT};
    static const double scales[] = {1.0, 2.1, 1.2, 0.9};

    lull_pipeline_profile_init(profile);
    for (uint32_t stage = 0; stage < stages; stage++)
        for (int k = 0; k < 4; k++)
            for (int clock = 0; clock < 4; clock++) {
                const double ratio = 1.0 - 0.12 * clock;
                const double ms = 20.0 * scales[k] * (1.0 + longer * stage) * (0.3 + 0.7 / ratio);
                const struct lull_pipeline_point point = {
                    (int64_t)(ms * 1e6), (int64_t)(ms * 1e6 * (90.0 + 260.0 * pow(ratio, 3.0))),
                    1400 - 170 * (uint32_t)clock};

                assert_int_equal(
                    lull_pipeline_profile_add(profile, 0, stage, kinds[k], 0, &point, NULL), 0);
            }
}

static void orders_are_built_as_they_were(void **state)
{
    static const char *const names[] = {"gpipe", "1f1b",    "interleaved:2", "zb-h1",
                                        "zbv",   "envpipe", "envpipe:3"};
    struct lull_pipeline_profile measured;
    struct digest digest = {0};

    (void)state;
    make_profile(&measured, 4, 0.07);
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
        for (uint32_t microbatches = 4; microbatches <= 8; microbatches += 4) {
            static const int64_t latency_ns[] = {700000};
            const struct lull_pipeline_shape shape = {
                .devices = 4,
                .microbatches = microbatches,
                .links = {latency_ns, n % 2},
                .replicas = {.count = 1 + (uint32_t)(n == 1)},
            };
            struct lull_pipeline_schedule schedule;
            struct lull_pipeline_profile fitted;
            struct lull_pipeline_graph graph;
            struct lull_error err = {0};
            int rc = lull_pipeline_schedule_parse(names[n], &schedule, &err);

            if (rc == 0)
                rc = lull_pipeline_schedule_build(&schedule, &shape, &measured, &fitted, &graph,
                                                  &err);
            digest_add(&digest, rc);
            if (rc != 0)
                continue;
            digest_add(&digest, (double)graph.op_count);
            for (size_t i = 0; i < graph.op_count; i++) {
                const struct lull_pipeline_class *class = &fitted.classes[graph.ops[i].class_index];

                digest_add(&digest, graph.ops[i].device);
                digest_add(&digest, (double)class->points[0].time_ns);
                digest_add(&digest, (double)class->point_count);
            }
            for (size_t i = 0; i < graph.edge_count; i++) {
                digest_add(&digest, graph.edges[i].from + 1e-3 * graph.edges[i].to);
                digest_add(&digest, (double)graph.edges[i].latency_ns);
            }
            lull_pipeline_graph_fini(&graph);
            lull_pipeline_profile_fini(&fitted);
        }
    lull_pipeline_profile_fini(&measured);
    digest_check(&digest, "orders", 51713.842093760832);
}

static void orders_are_chosen_as_they_were(void **state)
{
    static const double blocking_w[] = {80.0, 80.0, 90.0, 80.0};
    static const uint32_t in_flights[][4] = {{4, 3, 2, 1}, {8, 8, 8, 8}, {6, 5, 4, 3}};
    struct lull_pipeline_profile measured;
    struct digest digest = {0};

    (void)state;
    make_profile(&measured, 4, 0.07);
    for (uint32_t i = 0; i < 6; i++) {
        const struct lull_pipeline_shape shape = {
            .devices = 4, .microbatches = 6, .replicas = {.count = 1}};
        const struct lull_pipeline_order_options options = {
            .shape = &shape,
            .measured = &measured,
            .blocking_w = blocking_w,
            .in_flight = in_flights[i % 3],
            .deadline_ns = INT64_C(600000000) + (int64_t)i * 60000000,
            .straggler_ns = i == 4 ? INT64_C(1000000000) : 0,
        };
        struct lull_pipeline_choices choices = {.count = 0};
        struct lull_error err = {0};

        digest_add(&digest, lull_pipeline_choose_order(&options, &choices, &err));
        digest_add(&digest, (double)choices.count);
        digest_add(&digest, (double)choices.best);
        for (size_t k = 0; k < choices.count; k++) {
            const struct lull_pipeline_choice *choice = &choices.choices[k];

            digest_add(&digest, choice->schedule.family);
            digest_add(&digest, choice->in_flight + 100.0 * choice->fits);
            digest_add(&digest, choice->is_in_time);
            digest_add(&digest, choice->is_in_time ? choice->energy_j : 0.0);
        }
    }
    lull_pipeline_profile_fini(&measured);
    digest_check(&digest, "choices", 356.29907515471444);
}

/* 1F1B of stages that are alike or nearly so, from deadlines that no plan with changes of clocks
 * keeps to such that leave much time. */
static void pipelines_are_switched_as_they_were(void **state)
{
    struct digest digest = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const struct lull_pipeline_schedule schedule = {.family = LULL_PIPELINE_1F1B, .chunks = 1};
        const struct lull_pipeline_shape shape = {
            .devices = 2 + (uint32_t)(seed % 3),
            .microbatches = 3 + (uint32_t)(seed % 4),
            .replicas = {.count = 1},
        };
        double blocking_w[4] = {80.0, 80.0, 80.0, 80.0};
        struct lull_pipeline_rounding *rounding;
        struct lull_pipeline_profile measured;
        struct lull_frontier *frontier;
        struct lull_random random;
        struct pipeline_case it;

        lull_random_init(&random, seed);
        make_profile(&measured, shape.devices, seed % 2 == 0 ? 0.0 : 0.03);
        assert_int_equal(lull_pipeline_schedule_build(&schedule, &shape, &measured, &it.profile,
                                                      &it.graph, NULL),
                         0);
        it.problem = (struct lull_pipeline_problem){&it.profile, &it.graph, blocking_w};
        frontier = lull_frontier_create(&it.problem, NULL);
        assert_non_null(frontier);
        assert_int_equal(lull_pipeline_rounding_create(&it.problem, &rounding), 0);
        digest_switching(&digest, &it, frontier, rounding, &random);
        lull_pipeline_rounding_destroy(rounding);
        lull_frontier_destroy(frontier);
        lull_pipeline_graph_fini(&it.graph);
        lull_pipeline_profile_fini(&it.profile);
        lull_pipeline_profile_fini(&measured);
    }
    digest_check(&digest, "1f1b switching", 79376.158987378032);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_are_planned_as_they_were),
        cmocka_unit_test(pipelines_are_switched_as_they_were),
        cmocka_unit_test(orders_are_built_as_they_were),
        cmocka_unit_test(orders_are_chosen_as_they_were),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
