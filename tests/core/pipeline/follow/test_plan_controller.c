/*
 * The plan controller in virtual time, on jobs whose operations stretch with the clock of every
 * moment and whose driver is slow. SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>
#include <stdlib.h>

#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/rounding/rounding.h"
#include "core/pipeline/follow/plan_controller_state.h"
#include "core/stats/random.h"
#include "pipe_sim.h"
#include "../../property.h"

struct scene {
    struct pipe_sim *sim;
    struct lull_plan_controller *plan_controller;
    uint32_t *point;
    struct pipe_sim_result result;
};

/* The plan of the least energy that takes no longer than the highest clocks. */
static void make_plan(const struct lull_pipeline_problem *problem, uint32_t *point)
{
    struct lull_frontier *frontier = lull_frontier_create(problem, NULL);
    struct lull_pipeline_rounding *rounding;
    int64_t deadline_ns;

    assert_non_null(frontier);
    assert_int_equal(lull_pipeline_rounding_create(problem, &rounding), 0);
    lull_pipeline_plan_highest(problem, point);
    deadline_ns = lull_pipeline_plan_cost(problem, point, 0).time_ns;
    assert_int_equal(lull_pipeline_round_thorough(rounding, frontier, deadline_ns, point), 0);
    lull_pipeline_rounding_destroy(rounding);
    lull_frontier_destroy(frontier);
}

static void set_up(struct scene *scene, const struct pipe_sim_config *job)
{
    struct lull_plan_controller_config config;

    lull_plan_controller_config_default(&config);
    scene->sim = pipe_sim_create(job);
    assert_non_null(scene->sim);
    scene->plan_controller = pipe_sim_plan_controller(scene->sim, &config);
    assert_non_null(scene->plan_controller);
    scene->point = calloc(pipe_sim_problem(scene->sim)->graph->op_count, sizeof(scene->point[0]));
    make_plan(pipe_sim_problem(scene->sim), scene->point);
}

static void run(struct scene *scene)
{
    pipe_sim_run(scene->sim, scene->plan_controller, &scene->result);
}

static void tear_down(struct scene *scene)
{
    lull_plan_controller_destroy(scene->plan_controller);
    pipe_sim_destroy(scene->sim);
    free(scene->point);
}

static double saving(const struct pipe_sim_result *result)
{
    return 1.0 - result->plan_j / result->highest_j;
}

static void test_a_plan_saves_and_is_kept(void **state)
{
    (void)state;
    for (int transfers = 0; transfers < 2; transfers++) {
        struct pipe_sim_config job;
        struct scene scene;

        pipe_sim_config_default(&job);
        job.sees_transfers = transfers != 0;
        set_up(&scene, &job);
        assert_int_equal(pipe_sim_add_plan(scene.sim, scene.plan_controller, scene.point, 0), 0);
        run(&scene);
        assert_int_equal(lull_plan_controller_phase(scene.plan_controller),
                         LULL_PLAN_CONTROLLER_KEPT);
        assert_true(saving(&scene.result) > 0.10);
        assert_true(scene.result.plan_ms < 1.005 * scene.result.highest_ms);
        /* Raisings are late a little, by a tenth of the tolerance of the time at most. */
        assert_true(scene.result.below_ms <
                    0.001 * 4 * scene.result.plan_ms * scene.result.iterations_told);
        tear_down(&scene);
    }
}

/* Random pipelines and drivers: nothing runs long below the plan, no kept plan is too slow. */
static void test_nothing_runs_below_the_plan(void **state)
{
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 11);
    for (int i = 0; i < 12; i++) {
        struct pipe_sim_config job;
        struct scene scene;

        pipe_sim_config_default(&job);
        job.devices = 2 + (uint32_t)lull_random_below(&random, 5);
        job.microbatches = job.devices + (uint32_t)lull_random_below(&random, 6);
        job.forward_ms = 30 + 50 * lull_random_uniform(&random);
        job.backward_ms = 2 * job.forward_ms;
        job.call_ms = 1 + 4 * lull_random_uniform(&random);
        job.settle_spread_ms = 20 * lull_random_uniform(&random);
        job.jitter = 0.003 * lull_random_uniform(&random);
        job.sees_transfers = lull_random_below(&random, 2) != 0;
        job.iterations = 60;
        job.seed = lull_random_next(&random);
        set_up(&scene, &job);
        assert_int_equal(pipe_sim_add_plan(scene.sim, scene.plan_controller, scene.point, 0), 0);
        run(&scene);
        holds(scene.result.below_ms <
                  0.003 * job.devices * scene.result.highest_ms * scene.result.iterations_told,
              job.seed);
        holds(lull_plan_controller_phase(scene.plan_controller) != LULL_PLAN_CONTROLLER_KEPT ||
                  scene.result.plan_ms < 1.01 * scene.result.highest_ms,
              job.seed);
        holds(scene.result.commands <
                  4ul * job.devices * job.microbatches * scene.result.iterations_told,
              job.seed);
        tear_down(&scene);
    }
}

static uint32_t last_plan(const struct pipe_sim_result *result)
{
    return (uint32_t)result->iteration_plan[result->iterations_told - 1];
}

/* A plan that is slower than it says gives way to the next one, and that to the highest clocks. */
static void test_a_plan_that_degrades_gives_way(void **state)
{
    struct pipe_sim_config job;
    struct scene scene;
    uint32_t *slow;

    (void)state;
    pipe_sim_config_default(&job);
    job.iterations = 400; /* the cost of the first plan is earned before the next one is tried */
    set_up(&scene, &job);
    slow = calloc(pipe_sim_problem(scene.sim)->graph->op_count, sizeof(slow[0]));
    for (size_t i = 0; i < pipe_sim_problem(scene.sim)->graph->op_count; i++)
        slow[i] = 4;
    assert_int_equal(pipe_sim_add_plan(scene.sim, scene.plan_controller, slow, 0), 0);
    assert_int_equal(pipe_sim_add_plan(scene.sim, scene.plan_controller, scene.point, 0), 0);
    run(&scene);
    assert_int_equal(lull_plan_controller_plan(scene.plan_controller), 1);
    assert_int_equal(lull_plan_controller_phase(scene.plan_controller), LULL_PLAN_CONTROLLER_KEPT);
    tear_down(&scene);

    set_up(&scene, &job);
    assert_int_equal(pipe_sim_add_plan(scene.sim, scene.plan_controller, slow, 0), 0);
    run(&scene);
    assert_int_equal(lull_plan_controller_phase(scene.plan_controller),
                     LULL_PLAN_CONTROLLER_GIVEN_UP);
    assert_int_equal((int32_t)last_plan(&scene.result), -1);
    tear_down(&scene);

    /* The slowdown that the plan predicts is not a degradation. */
    set_up(&scene, &job);
    assert_int_equal(pipe_sim_add_plan(scene.sim, scene.plan_controller, slow, 0.24), 0);
    run(&scene);
    assert_int_equal(lull_plan_controller_phase(scene.plan_controller), LULL_PLAN_CONTROLLER_KEPT);
    assert_true(scene.result.plan_ms > 1.1 * scene.result.highest_ms);
    tear_down(&scene);
    free(slow);
}

/* Iterations at a plan among the first ones told, from `since` on. */
static uint32_t iterations_at(const struct pipe_sim_result *result, int32_t plan, uint32_t since)
{
    uint32_t count = 0;

    for (uint32_t i = since; i < result->iterations_told; i++)
        count += result->iteration_plan[i] == plan;
    return count;
}

/* A plan that has given way is tried again, once, and gives way again while the job is the same. */
static void test_a_plan_that_gave_way_is_tried_again(void **state)
{
    struct pipe_sim_config job;
    struct scene scene;
    uint32_t *slow;

    (void)state;
    pipe_sim_config_default(&job);
    job.iterations = 1000;
    set_up(&scene, &job);
    slow = calloc(pipe_sim_problem(scene.sim)->graph->op_count, sizeof(slow[0]));
    for (size_t i = 0; i < pipe_sim_problem(scene.sim)->graph->op_count; i++)
        slow[i] = 4;
    assert_int_equal(pipe_sim_add_plan(scene.sim, scene.plan_controller, slow, 0), 0);
    assert_int_equal(pipe_sim_add_plan(scene.sim, scene.plan_controller, scene.point, 0), 0);
    run(&scene);
    assert_int_equal(iterations_at(&scene.result, 0, 100) - iterations_at(&scene.result, 0, 500),
                     0);
    assert_in_range(iterations_at(&scene.result, 0, 500), 1, 12);
    assert_int_equal(lull_plan_controller_plan(scene.plan_controller), 1);
    assert_int_equal(lull_plan_controller_phase(scene.plan_controller), LULL_PLAN_CONTROLLER_KEPT);
    tear_down(&scene);
    free(slow);
}

/* One section too many, in an iteration at the plan: raised at once, and soon back. */
static void test_a_deviation_raises_at_once(void **state)
{
    struct pipe_sim_config job;
    struct scene scene;
    uint32_t at_plan = 0;

    (void)state;
    pipe_sim_config_default(&job);
    job.odd_at = 60;
    job.iterations = 90;
    set_up(&scene, &job);
    assert_int_equal(pipe_sim_add_plan(scene.sim, scene.plan_controller, scene.point, 0), 0);
    run(&scene);
    assert_true(scene.result.low_while_lost_ms <
                job.call_ms * job.devices + job.settle_ms + job.settle_spread_ms + 2);
    assert_int_equal(lull_plan_controller_phase(scene.plan_controller), LULL_PLAN_CONTROLLER_KEPT);
    for (uint32_t i = scene.result.iterations_told - 20; i < scene.result.iterations_told; i++)
        at_plan += scene.result.iteration_plan[i] == 0;
    assert_true(at_plan >= 15);
    tear_down(&scene);
}

static void test_a_driver_that_does_nothing_does_no_harm(void **state)
{
    struct pipe_sim_config job;
    struct scene scene;

    (void)state;
    pipe_sim_config_default(&job);
    job.ignores_lowering = true;
    set_up(&scene, &job);
    assert_int_equal(pipe_sim_add_plan(scene.sim, scene.plan_controller, scene.point, 0), 0);
    run(&scene);
    assert_near(scene.result.plan_ms / scene.result.highest_ms, 1.0, 0.002);
    tear_down(&scene);
}

static void test_observing_commands_nothing(void **state)
{
    struct pipe_sim_config job;
    struct lull_plan_controller_config config;
    struct scene scene;

    (void)state;
    pipe_sim_config_default(&job);
    job.iterations = 20;
    set_up(&scene, &job);
    lull_plan_controller_destroy(scene.plan_controller);
    lull_plan_controller_config_default(&config);
    config.observe_only = true;
    scene.plan_controller = pipe_sim_plan_controller(scene.sim, &config);
    assert_int_equal(pipe_sim_add_plan(scene.sim, scene.plan_controller, scene.point, 0), 0);
    run(&scene);
    assert_int_equal(scene.result.commands, 0);
    assert_true(scene.result.iterations_told > 15);
    tear_down(&scene);
}

/* The disturbed iterations, and the result. */
struct disturbance {
    struct lull_plan_controller *plan_controller;
    uint64_t from;
    uint64_t to;
    uint32_t reported; /* iterations, as disturbed */
    bool was_kept;
};

static void disturb(void *context, const struct lull_plan_controller_iteration *iteration,
                    const int64_t *begin_ns, const int64_t *end_ns, double energy_j)
{
    struct disturbance *disturbance = context;
    const uint64_t present = iteration->number + 1;

    (void)begin_ns;
    (void)end_ns;
    (void)energy_j;
    disturbance->reported += iteration->is_disturbed;
    disturbance->was_kept |=
        lull_plan_controller_phase(disturbance->plan_controller) == LULL_PLAN_CONTROLLER_KEPT;
    if (present >= disturbance->from && present < disturbance->to)
        lull_plan_controller_take_disturbance(disturbance->plan_controller);
}

/* Returns the phase in which a job ends that is disturbed as described; slow_factor: by how much
 * one of its stages is slower in iterations 6 to 8, which are in the first pairs. */
static enum lull_plan_controller_phase end_disturbed(struct disturbance *disturbance,
                                                     double slow_factor, uint32_t iterations)
{
    struct pipe_sim_config job;
    struct scene scene;
    enum lull_plan_controller_phase phase;

    pipe_sim_config_default(&job);
    job.iterations = iterations;
    job.straggle_from = 6;
    job.straggle_to = 9;
    job.slow_factor = slow_factor;
    job.on_iteration = disturb;
    job.context = disturbance;
    set_up(&scene, &job);
    disturbance->plan_controller = scene.plan_controller;
    assert_int_equal(pipe_sim_add_plan(scene.sim, scene.plan_controller, scene.point, 0), 0);
    run(&scene);
    phase = lull_plan_controller_phase(scene.plan_controller);
    tear_down(&scene);
    return phase;
}

/* The disturbance of the first pair would prevent the proof of the plan. */
static void test_f08_disturbed_iterations_are_no_evidence(void **state)
{
    struct disturbance untold = {.from = 0};
    struct disturbance reported = {.from = 6, .to = 9};

    (void)state;
    assert_int_equal(end_disturbed(&untold, 1.5, 60), LULL_PLAN_CONTROLLER_TRYING);
    assert_int_equal(untold.reported, 0);
    assert_int_equal(end_disturbed(&reported, 1.5, 60), LULL_PLAN_CONTROLLER_KEPT);
    assert_int_equal(reported.reported, 3);
}

/* No plan is accepted from measurements during a permanent
 * disturbance, and an accepted plan stays. */
static void test_f17_a_disturbance_without_end(void **state)
{
    struct disturbance always = {.from = 0, .to = UINT64_MAX};
    struct disturbance later = {.from = 70, .to = UINT64_MAX};

    (void)state;
    assert_int_equal(end_disturbed(&always, 1.0, 60), LULL_PLAN_CONTROLLER_GIVEN_UP);
    assert_false(always.was_kept);
    assert_int_equal(end_disturbed(&later, 1.0, 700), LULL_PLAN_CONTROLLER_KEPT);
    assert_true(later.was_kept && later.reported > 600);
}

/* A rank that was killed leaves its GPU lowered for no longer than a command is valid. */
static void test_lowered_clocks_are_renewed(void **state)
{
    const struct lull_plan_controller_op op = {
        .point = 3, .begin_ns = 0, .end_ns = INT64_C(20000000000)};
    const struct lull_plan_controller_op *ops[1] = {&op};
    const uint32_t counts[1] = {1};
    struct lull_plan_controller_config config;
    struct lull_plan_controller *plan_controller;
    struct lull_plan_controller_command command;
    uint32_t renewals = 0;
    int64_t now_ns = 1;

    (void)state;
    lull_plan_controller_config_default(&config);
    config.is_trusted = true;
    plan_controller = lull_plan_controller_create(&config, 1, counts);
    assert_int_equal(lull_plan_controller_add_plan(plan_controller, ops, 0), 0);
    for (int i = 0; i < 3; i++, now_ns += 1000000) {
        lull_plan_controller_take_edge(plan_controller, 0, 0, false, now_ns);
        if (i < 2)
            lull_plan_controller_take_edge(plan_controller, 0, 0, true, now_ns + 500000);
    }
    for (; now_ns < INT64_C(20000000000); now_ns += 10000000)
        if (lull_plan_controller_poll(plan_controller, now_ns, &command, 1) == 1) {
            assert_int_equal(command.point, 3);
            assert_true(command.valid_until_ns > now_ns + INT64_C(1000000000));
            assert_true(command.valid_until_ns < now_ns + INT64_C(5000000000));
            renewals++;
        }
    assert_true(renewals >= 10 && renewals <= 15);
    lull_plan_controller_take_lost(plan_controller, 0);
    assert_int_equal(lull_plan_controller_poll(plan_controller, now_ns, &command, 1), 1);
    assert_int_equal(command.point, 0);
    lull_plan_controller_destroy(plan_controller);
}

/* One GPU at a plan of one operation, lowered; time in ms. */
static struct lull_plan_controller *lowered(struct lull_plan_controller_command *command)
{
    const struct lull_plan_controller_op op = {
        .point = 3, .begin_ns = 0, .end_ns = INT64_C(20000000000)};
    const struct lull_plan_controller_op *ops[1] = {&op};
    const uint32_t counts[1] = {1};
    struct lull_plan_controller_config config;
    struct lull_plan_controller *plan_controller;

    lull_plan_controller_config_default(&config);
    plan_controller = lull_plan_controller_create(&config, 1, counts);
    assert_int_equal(lull_plan_controller_add_plan(plan_controller, ops, 0), 0);
    for (int i = 0; i < 3; i++) {
        lull_plan_controller_take_edge(plan_controller, 0, 0, false, 1 + i * 1000000);
        if (i < 2)
            lull_plan_controller_take_edge(plan_controller, 0, 0, true, 1 + i * 1000000 + 500000);
    }
    assert_int_equal(lull_plan_controller_poll(plan_controller, 3000000, command, 1), 1);
    assert_int_equal(command->point, 3);
    return plan_controller;
}

/* Half a second for a call: raised at once, lowered again only after a while. */
static void test_a_driver_that_blocks_is_not_trusted(void **state)
{
    struct lull_plan_controller_command command;
    struct lull_plan_controller *plan_controller = lowered(&command);
    uint32_t withdrawals;

    (void)state;
    lull_plan_controller_take_blocked(plan_controller, 503000000, 500.0);
    assert_int_equal(lull_plan_controller_phase(plan_controller), LULL_PLAN_CONTROLLER_WITHDRAWN);
    assert_int_equal(lull_plan_controller_trouble(plan_controller, &withdrawals),
                     LULL_PLAN_CONTROLLER_BLOCKS);
    assert_int_equal(withdrawals, 1);
    assert_int_equal(lull_plan_controller_poll(plan_controller, 503000000, &command, 1), 1);
    assert_int_equal(command.point, 0);
    for (int64_t ms = 600; ms < 20000; ms += 100)
        assert_int_equal(lull_plan_controller_poll(plan_controller, ms * 1000000, &command, 1), 0);
    lull_plan_controller_poll(plan_controller, INT64_C(60000000000), &command, 1);
    assert_int_equal(lull_plan_controller_phase(plan_controller), LULL_PLAN_CONTROLLER_WARMING);
    lull_plan_controller_destroy(plan_controller);
}

/* A GPU that does not follow: the plan goes permanently, and no other one comes. */
static void test_a_gpu_that_does_not_follow_ends_the_plan(void **state)
{
    struct lull_plan_controller_command command;
    struct lull_plan_controller *plan_controller = lowered(&command);
    uint32_t withdrawals;

    (void)state;
    lull_plan_controller_take_switch(
        plan_controller, 0,
        &(struct lull_switch_outcome){.point = 3, .call_ms = 5, .driver_ms = 5, .failed = true});
    assert_int_equal(lull_plan_controller_phase(plan_controller), LULL_PLAN_CONTROLLER_WITHDRAWN);
    assert_int_equal(lull_plan_controller_trouble(plan_controller, &withdrawals),
                     LULL_PLAN_CONTROLLER_DISOBEYS);
    assert_int_equal(lull_plan_controller_poll(plan_controller, 4000000, &command, 1), 1);
    assert_int_equal(command.point, 0);
    lull_plan_controller_use_plan(plan_controller, 0);
    assert_int_equal(lull_plan_controller_plan(plan_controller), -1);
    lull_plan_controller_destroy(plan_controller);
}

/* A raising is late if it has effect over 2 ms after the first operation that follows it began. */
static void test_what_a_late_raising_is(void **state)
{
    static const struct {
        int64_t after_ms; /* the first operation after the raising */
        int64_t effect_ns;
        uint64_t late;
    } cases[] = {{5, 7000000, 0}, {5, 7000001, 1}, {5, 10000001, 1}, {0, 10000001, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t raised_ns = 4000000;
        struct lull_plan_controller_command command;
        struct lull_plan_controller *plan_controller = lowered(&command);
        const struct lull_switch_outcome outcome = {.was_point = 3,
                                                    .call_ms = 5,
                                                    .driver_ms = 5,
                                                    .effect_ns = raised_ns + cases[i].effect_ns};

        lull_plan_controller_take_lost(plan_controller, 0);
        assert_int_equal(lull_plan_controller_poll(plan_controller, raised_ns, &command, 1), 1);
        assert_int_equal(command.point, 0);
        for (int64_t ms = cases[i].after_ms; ms != 0 && ms < 9; ms += 3)
            lull_plan_controller_take_edge(plan_controller, 0, 0, false, raised_ns + ms * 1000000);
        lull_plan_controller_take_switch(plan_controller, 0, &outcome);
        assert_int_equal(lull_plan_controller_late(plan_controller), cases[i].late);
        lull_plan_controller_take_switch(plan_controller, 0, &outcome); /* none is open any more */
        assert_int_equal(lull_plan_controller_late(plan_controller), cases[i].late);
        lull_plan_controller_destroy(plan_controller);
    }
}

/* A GPU runs its two operations once more. */
static void run_both(struct lull_plan_controller *plan_controller, uint32_t gpu, int64_t *now_ns)
{
    for (uint32_t op = 0; op < 2; op++)
        for (int is_end = 0; is_end < 2; is_end++)
            lull_plan_controller_take_edge(plan_controller, gpu, op, is_end != 0,
                                           *now_ns += 1000000);
}

static void test_no_gpu_is_two_iterations_ahead_of_the_leader(void **state)
{
    static const uint32_t counts[] = {2, 2};
    static const uint64_t ahead[] = {0, 1, 0, 1};
    struct lull_plan_controller_config config;
    struct lull_plan_controller *plan_controller;
    int64_t now_ns = 1000000;

    (void)state;
    lull_plan_controller_config_default(&config);
    plan_controller = lull_plan_controller_create(&config, 2, counts);
    assert_non_null(plan_controller);
    run_both(plan_controller, 0, &now_ns);
    for (int i = 0; i < 4; i++) {
        run_both(plan_controller, 1, &now_ns);
        assert_int_equal(lull_plan_controller_iteration_of(plan_controller, 1),
                         lull_plan_controller_iteration_of(plan_controller, 0) + ahead[i]);
    }
    lull_plan_controller_destroy(plan_controller);
}

/* Marks which of the first iterations run at a harmless plan, in a run with this seed. */
static void mark_planned(uint64_t seed, bool planned[100])
{
    static const struct lull_plan_controller_op op = {3, 0, 1};
    static const uint32_t counts[] = {1};
    const struct lull_plan_controller_op *ops[] = {&op};
    struct lull_plan_controller_config config;
    struct lull_plan_controller *plan_controller;

    lull_plan_controller_config_default(&config);
    config.seed = seed;
    plan_controller = lull_plan_controller_create(&config, 1, counts);
    assert_int_equal(lull_plan_controller_seed(plan_controller), seed);
    assert_int_equal(lull_plan_controller_add_plan(plan_controller, ops, 0.0), 0);
    for (int64_t i = 0; i < 100; i++) {
        lull_plan_controller_take_edge(plan_controller, 0, 0, false, (i + 1) * 1000000);
        planned[i] =
            lull_plan_controller_slot_of(plan_controller, plan_controller->iteration)->plan >= 0;
        lull_plan_controller_take_edge(plan_controller, 0, 0, true, (i + 1) * 1000000 + 500000);
    }
    lull_plan_controller_destroy(plan_controller);
}

static void test_coins_follow_the_seed(void **state)
{
    bool planned[3][100];

    (void)state;
    mark_planned(1, planned[0]);
    mark_planned(1, planned[1]);
    mark_planned(2, planned[2]);
    assert_memory_equal(planned[0], planned[1], sizeof(planned[0]));
    assert_memory_not_equal(planned[0], planned[2], sizeof(planned[0]));
}

/* One GPU of three operations at a plan that makes every other iteration slower, by 3 %. Those lose
 * an operation. Returns whether the plan is kept. */
static bool is_kept_where_slow_iterations_lose(uint64_t seed)
{
    static const struct lull_plan_controller_op room[] = {{3, 0, 1}, {3, 1, 2}, {3, 2, 3}};
    static const uint32_t counts[] = {3};
    const struct lull_plan_controller_op *ops[] = {room};
    struct lull_plan_controller_config config;
    struct lull_plan_controller_command command;
    struct lull_plan_controller *plan_controller;
    struct lull_random random;
    enum lull_plan_controller_phase phase;
    int64_t now_ns = 1000000;

    lull_random_init(&random, seed);
    lull_plan_controller_config_default(&config);
    plan_controller = lull_plan_controller_create(&config, 1, counts);
    assert_int_equal(lull_plan_controller_add_plan(plan_controller, ops, 0.0), 0);
    for (uint32_t i = 0; i < 400; i++) {
        bool loses = false;
        double length_ms = 100.0 + lull_random_normal(&random, 0.0, 0.2);

        for (uint32_t op = 0; op < 3; op++) {
            lull_plan_controller_take_edge(plan_controller, 0, op + loses, false, now_ns);
            if (op == 0 &&
                lull_plan_controller_slot_of(plan_controller, plan_controller->iteration)->plan >=
                    0) {
                loses = lull_random_below(&random, 2) == 0;
                length_ms *= loses ? 1.03 : 1.0;
            }
            now_ns += (int64_t)(length_ms * 1e6 / 3.0);
            lull_plan_controller_take_edge(plan_controller, 0, op + loses, true, now_ns);
            lull_plan_controller_poll(plan_controller, now_ns, &command, 1);
        }
    }
    phase = lull_plan_controller_phase(plan_controller);
    lull_plan_controller_destroy(plan_controller);
    return phase == LULL_PLAN_CONTROLLER_KEPT;
}

/* Before, their pairs were set aside, and the plan was kept. */
static void test_lost_operations_do_not_hide_harm(void **state)
{
    uint32_t kept = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++)
        kept += is_kept_where_slow_iterations_lose(seed);
    print_message("slow iterations lose operations: %u of 100 plans are kept\n", kept);
    assert_true(kept <= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_saves_and_is_kept),
        cmocka_unit_test(test_nothing_runs_below_the_plan),
        cmocka_unit_test(test_a_plan_that_degrades_gives_way),
        cmocka_unit_test(test_a_plan_that_gave_way_is_tried_again),
        cmocka_unit_test(test_a_deviation_raises_at_once),
        cmocka_unit_test(test_a_driver_that_does_nothing_does_no_harm),
        cmocka_unit_test(test_observing_commands_nothing),
        cmocka_unit_test(test_f08_disturbed_iterations_are_no_evidence),
        cmocka_unit_test(test_f17_a_disturbance_without_end),
        cmocka_unit_test(test_lowered_clocks_are_renewed),
        cmocka_unit_test(test_a_driver_that_blocks_is_not_trusted),
        cmocka_unit_test(test_what_a_late_raising_is),
        cmocka_unit_test(test_no_gpu_is_two_iterations_ahead_of_the_leader),
        cmocka_unit_test(test_a_gpu_that_does_not_follow_ends_the_plan),
        cmocka_unit_test(test_lost_operations_do_not_hide_harm),
        cmocka_unit_test(test_coins_follow_the_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
