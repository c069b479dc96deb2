/*
 * The choice among orders: no single step of EnvPipe's r_s makes the chosen one cheaper, and the
 * best of all is the cheapest in time. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/schedule/choose.h"
#include "../../property.h"

enum { DEVICES = 4, MICROBATCHES = 8 };

static const double blocking_w[DEVICES] = {80.0, 90.0, 70.0, 80.0};

/* Stages that differ, at three clocks. */
static void draw_profile(struct lull_pipeline_profile *profile, struct lull_random *random)
{
    lull_pipeline_profile_init(profile);
    for (uint32_t stage = 0; stage < DEVICES; stage++)
        for (int backward = 0; backward < 2; backward++) {
            const double base_ms = (10.0 + 30.0 * lull_random_uniform(random)) * (1 + backward);

            for (int clock = 0; clock < 3; clock++) {
                const double ratio = 1.0 - 0.15 * clock;
                const double ms = base_ms * (0.3 + 0.7 / ratio);
                const struct lull_pipeline_point point = {
                    (int64_t)(ms * 1e6), (int64_t)(ms * 1e6 * (90.0 + 260.0 * pow(ratio, 3.0))),
                    1400 - 200 * (uint32_t)clock};

                assert_int_equal(lull_pipeline_profile_add(profile, 0, stage,
                                                           backward ? LULL_PIPELINE_BACKWARD
                                                                    : LULL_PIPELINE_FORWARD,
                                                           0, &point, NULL),
                                 0);
            }
        }
}

/* Returns the time of 1F1B at the highest clocks. */
static int64_t fastest_1f1b(const struct lull_pipeline_shape *shape,
                            const struct lull_pipeline_profile *measured)
{
    const struct lull_pipeline_schedule schedule = {.family = LULL_PIPELINE_1F1B, .chunks = 1};
    int64_t duration_ns[2 * DEVICES * MICROBATCHES];
    struct lull_pipeline_profile fitted;
    struct lull_pipeline_graph graph;
    int64_t time_ns;

    assert_int_equal(
        lull_pipeline_schedule_build(&schedule, shape, measured, &fitted, &graph, NULL), 0);
    for (size_t i = 0; i < graph.op_count; i++)
        duration_ns[i] = fitted.classes[graph.ops[i].class_index].points[0].time_ns;
    time_ns = lull_pipeline_earliest(&graph, duration_ns, NULL);
    lull_pipeline_graph_fini(&graph);
    lull_pipeline_profile_fini(&fitted);
    return time_ns;
}

/* The least energy at the deadline, or at an earlier time where that is cheaper; infinite if no
 * plan is in time. */
static double energy_of(const struct lull_pipeline_order_options *options,
                        const struct lull_pipeline_schedule *schedule)
{
    struct lull_pipeline_profile fitted;
    struct lull_pipeline_graph graph;
    struct lull_frontier *frontier;
    double energy_j = (double)INFINITY;

    assert_int_equal(lull_pipeline_schedule_build(schedule, options->shape, options->measured,
                                                  &fitted, &graph, NULL),
                     0);
    const struct lull_pipeline_problem problem = {&fitted, &graph, options->blocking_w};

    frontier = lull_frontier_create(&problem, NULL);
    assert_non_null(frontier);
    assert_int_equal(lull_frontier_seek_cheapest(frontier), 0);
    if (lull_frontier_here(frontier).time_ns <= options->deadline_ns ||
        lull_frontier_seek(frontier, options->deadline_ns) == 0)
        energy_j = lull_frontier_here(frontier).energy_j;
    lull_frontier_destroy(frontier);
    lull_pipeline_graph_fini(&graph);
    lull_pipeline_profile_fini(&fitted);
    return energy_j;
}

/* One more or one less on a device, and on its neighbours so that r_s never rises. */
static struct lull_pipeline_schedule changed(const struct lull_pipeline_schedule *schedule,
                                             uint32_t device, uint32_t limit)
{
    struct lull_pipeline_schedule next = *schedule;

    next.limit[device] = limit;
    for (uint32_t d = 0; d < DEVICES; d++)
        if ((d < device && next.limit[d] < limit) || (d > device && next.limit[d] > limit))
            next.limit[d] = limit;
    return next;
}

static void check_envpipe(const struct lull_pipeline_order_options *options,
                          const struct lull_pipeline_choice *choice, uint64_t seed)
{
    struct lull_pipeline_schedule most = choice->schedule;
    uint32_t hoist[DEVICES];

    for (uint32_t d = 0; d < DEVICES; d++)
        most.limit[d] = options->in_flight[d] - (DEVICES - d);
    assert_int_equal(
        lull_pipeline_envpipe_hoist(&most, options->shape, options->measured, hoist, NULL), 0);
    assert_near(choice->energy_j, energy_of(options, &choice->schedule), 1e-9 * choice->energy_j);
    for (uint32_t d = 0; d < DEVICES; d++) {
        const uint32_t limit = choice->schedule.limit[d];

        holds(limit <= hoist[d], seed);
        for (uint32_t to = limit - (limit > 0); to <= limit + 1 && to <= hoist[d]; to++) {
            const struct lull_pipeline_schedule next = changed(&choice->schedule, d, to);

            holds(energy_of(options, &next) >= choice->energy_j * (1.0 - 1e-12), seed);
        }
    }
}

static void test_no_single_step_is_better(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const struct lull_pipeline_shape shape = {
            .devices = DEVICES, .microbatches = MICROBATCHES, .replicas = {.count = 1}};
        struct lull_pipeline_choices choices = {.count = 0};
        struct lull_pipeline_profile profile;
        struct lull_random random;
        uint32_t in_flight[DEVICES];

        lull_random_init(&random, seed);
        draw_profile(&profile, &random);
        for (uint32_t d = 0; d < DEVICES; d++)
            in_flight[d] = DEVICES - d + (uint32_t)lull_random_below(&random, 4);
        const int64_t fastest_ns = fastest_1f1b(&shape, &profile);
        const struct lull_pipeline_order_options options = {
            .shape = &shape,
            .measured = &profile,
            .blocking_w = blocking_w,
            .in_flight = in_flight,
            .deadline_ns =
                (int64_t)((1.0 + 0.1 * lull_random_uniform(&random)) * (double)fastest_ns),
        };

        if (lull_pipeline_choose_order(&options, &choices, NULL) == 0) {
            for (size_t i = 0; i < choices.count; i++) {
                const struct lull_pipeline_choice *choice = &choices.choices[i];

                holds(!choice->is_in_time ||
                          choice->energy_j >= choices.choices[choices.best].energy_j,
                      seed);
                if (choice->is_in_time && choice->schedule.family == LULL_PIPELINE_ENVPIPE)
                    check_envpipe(&options, choice, seed);
            }
        }
        lull_pipeline_profile_fini(&profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_single_step_is_better),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
