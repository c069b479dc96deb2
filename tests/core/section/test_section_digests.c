/*
 * Whole jobs under the controller of sections: their switches are what they were. What they should
 * be like is for test_controller; this one notices that any has changed.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../digest.h"

#include "job_sim.h"

static void digest_targets(struct digest *digest, const struct lull_controller *controller)
{
    uint32_t count;
    const struct lull_target *targets = lull_controller_targets(controller, &count);

    digest_add(digest, count);
    for (uint32_t t = 0; t < count; t++) {
        const struct lull_target *target = &targets[t];

        digest_add(digest, target->of_gaps + 2 * target->settled + 4 * target->is_refined);
        digest_add(digest, target->reason + 10 * target->proven.duty.low);
        digest_add(digest, lull_controller_candidate(target));
        digest_add(digest, (double)target->held_up);
        digest_add(digest, target->has_own ? target->own_point[1] : 0);
        digest_add(digest, target->power_reference_w.mean);
        for (uint32_t i = 0; i < target->record_count; i++) {
            digest_add(digest, target->records[i].point + 100.0 * target->records[i].gpu);
            digest_add(digest, 100.0 * target->records[i].slowdown_ratio);
            digest_add(digest, 100.0 * target->records[i].upper_ratio);
            digest_add(digest, target->records[i].pairs);
            digest_add(digest, target->records[i].iterations);
            digest_add(digest, target->records[i].verdict);
        }
    }
}

static void digest_job(struct digest *digest, const struct job_sim_config *config,
                       struct lull_controller *controller)
{
    struct lull_guard_estimate slowdown;
    struct job_sim_result result;

    job_sim_run(config, controller, &result);
    digest_add(digest, (double)lull_controller_settled_after(controller));
    digest_add(digest, (double)result.settled_iterations);
    digest_add(digest, (double)result.computed);
    digest_add(digest, (double)result.computed_low);
    digest_add(digest, (double)result.commands);
    digest_add(digest, (double)result.calls);
    digest_add(digest, (double)result.slow_calls);
    digest_add(digest, result.total_ms);
    digest_add(digest, result.settled_energy_j);
    digest_add(digest, result.longest_low_ms);
    digest_add(digest, result.last_ran_at);
    for (uint32_t i = 0; i < config->points; i++)
        digest_add(digest, result.ran_at[i]);
    digest_targets(digest, controller);
    lull_controller_slowdown(controller, &slowdown);
    digest_add(digest, 100.0 * slowdown.slowdown_ratio);
    digest_add(digest, 100.0 * slowdown.upper_ratio);
}

struct job {
    const char *name;
    double expected;
    struct lull_controller_config control; /* likewise */
    struct job_sim_config changes;         /* members that are not 0 replace the default's */
};

static const struct job jobs[] = {
    {"plain", 648.49923717086313, {0}, {.iterations = 800}},
    {"one GPU", 257.70421337472897, {0}, {.gpus = 1, .iterations = 1000, .seed = 2}},
    {"short gaps",
     128.33105874027282,
     {0},
     {.compute_ms = 40.0, .exposed_ms = 30.0, .iterations = 1200}},
    {"overlapped",
     649.24022218725008,
     {0},
     {.overlapped_ms = 150.0, .exposed_ms = 200.0, .iterations = 1000}},
    {"slow driver",
     323.91511405111936,
     {0},
     {.call_ms = 40.0, .settle_ms = 60.0, .iterations = 1200}},
    {"driver gets slow",
     220.40280610658195,
     {0},
     {.slow_call_ms = 400.0,
      .slow_from_ms = 60000.0,
      .slow_every = 5,
      .slow_gpu = -1,
      .iterations = 1600}},
    {"driver breaks down",
     170.43114651819022,
     {0},
     {.slow_call_ms = 2500.0,
      .slow_from_ms = 40000.0,
      .slow_every = 1,
      .slow_most = 6,
      .slow_gpu = -1,
      .iterations = 1600}},
    {"checkpoints", 136.15522643157209, {0}, {.odd_every = 20, .iterations = 1200}},
    {"disobeys", 396.0807511524572, {0}, {.stop_obeying = 600, .iterations = 1400}},
    {"knee moves",
     756.5651554761007,
     {0},
     {.knee_moves_at = 800, .knee_after = 10, .iterations = 1200}},
    {"often bound", 338.3104096847398, {0}, {.bound_every = 7, .iterations = 1600}},
    {"another shape", 471.70913642882925, {0}, {.change_at = 720, .iterations = 1440}},
    {"unlike ranks", 538.48126147626658, {0}, {.uneven = true, .iterations = 1200}},
    {"uncoupled", 278.86123429629095, {0}, {.uneven = true, .uncoupled = true, .iterations = 1200}},
    {"noisy", 334.2030915431306, {0}, {.jitter = 0.03, .iterations = 1200}},
    {"steady", 181.79600713792496, {.only_steady = true}, {.iterations = 1200}},
    {"steady, for short sections",
     240.01435388027969,
     {.steady_tolerance_ratio = 0.02},
     {.compute_ms = 60.0, .exposed_ms = 2.0, .memory_share = 0.9, .iterations = 3600}},
    {"reactive", 313.67488971698066, {.reactive = true}, {.iterations = 800}},
    {"joint", 533.03451680098635, {.only_joint = true}, {.uneven = true, .iterations = 800}},
    {"tails", 190.80160904631836, {.tail_tolerance_ratio = 0.02}, {.iterations = 1200}},
    {"observed", 36.653148725082289, {.observe_only = true}, {.iterations = 60}},
    {"long windows",
     706.99473692470769,
     {.window_ms = 3000.0, .window_iterations = 9},
     {.iterations = 1600}},
    {"generous",
     257.21647992743158,
     {.tolerance_ratio = 0.05, .confidence = 0.8},
     {.iterations = 800}},
    {"knee far up after settling",
     506.41626542608066,
     {.tolerance_ratio = 0.02},
     {.knee_moves_at = 1000, .knee_after = 23, .iterations = 2400}},
    {"no section",
     178.4855007199057,
     {0},
     {.exposed_ms = 0.5, .memory_share = 0.8, .iterations = 1600}},
    {"eight GPUs with checkpoints",
     134.87993373095642,
     {0},
     {.gpus = 8, .odd_every = 9, .iterations = 800}},
};

static void take_control(struct lull_controller_config *control,
                         const struct lull_controller_config *changes)
{
#define TAKE(member)                                                                               \
    if (changes->member != 0)                                                                      \
    control->member = changes->member
    TAKE(tolerance_ratio);
    TAKE(tail_tolerance_ratio);
    TAKE(confidence);
    TAKE(window_ms);
    TAKE(window_iterations);
    TAKE(steady_tolerance_ratio);
    TAKE(only_steady);
    TAKE(only_sections);
    TAKE(observe_only);
    TAKE(only_joint);
    TAKE(reactive);
#undef TAKE
}

static void apply(struct job_sim_config *config, const struct job_sim_config *changes)
{
#define TAKE(member)                                                                               \
    if (changes->member != 0)                                                                      \
    config->member = changes->member
    TAKE(gpus);
    TAKE(iterations);
    TAKE(compute_ms);
    TAKE(memory_share);
    TAKE(exposed_ms);
    TAKE(overlapped_ms);
    TAKE(jitter);
    TAKE(call_ms);
    TAKE(slow_call_ms);
    TAKE(slow_from_ms);
    TAKE(slow_every);
    TAKE(slow_most);
    TAKE(slow_gpu);
    TAKE(settle_ms);
    TAKE(odd_every);
    TAKE(stop_obeying);
    TAKE(knee_moves_at);
    TAKE(knee_after);
    TAKE(bound_every);
    TAKE(change_at);
    TAKE(uneven);
    TAKE(uncoupled);
    TAKE(seed);
#undef TAKE
    for (uint32_t i = 0; changes->uneven && i < JOB_SIM_MAX_GPUS; i++) {
        config->compute_scale[i] = 1.0 - 0.02 * i;
        config->own_knee[i] = 20 + 3 * i;
    }
}

static void switches_are_what_they_were(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        struct lull_controller_config control;
        struct job_sim_config config;
        struct digest digest = {0};
        struct lull_controller *controller;

        job_sim_config_default(&config);
        config.gpus = 2;
        config.points = 41;
        config.knee_point = 26;
        apply(&config, &jobs[i].changes);
        lull_controller_config_default(&control);
        take_control(&control, &jobs[i].control);
        control.strategy = (enum lull_descent_strategy)(i % 3);
        controller = job_sim_create_controller(&config, &control);
        assert_non_null(controller);
        digest_job(&digest, &config, controller);
        lull_controller_destroy(controller);
        digest_check(&digest, jobs[i].name, jobs[i].expected);
    }
}

/* From the second minute on, holds the controller for half a second of every 71. */
static void hold_now_and_then(void *context, int64_t now_ns)
{
    lull_controller_hold(context,
                         now_ns > INT64_C(60000000000) && now_ns / INT64_C(100000000) % 711 >= 706);
}

static void what_is_held_is_raised_as_it_was(void **state)
{
    struct lull_controller_config control;
    struct job_sim_config config;
    struct job_sim_result result;
    struct digest digest = {0};
    struct job_sim_nodes nodes = {.node_count = 1, .exchange = hold_now_and_then};

    (void)state;
    job_sim_config_default(&config);
    config.gpus = 2;
    config.iterations = 1200;
    lull_controller_config_default(&control);
    nodes.controllers[0] = job_sim_create_controller(&config, &control);
    nodes.context = nodes.controllers[0];
    job_sim_run_nodes(&config, &nodes, &result);
    digest_add(&digest, (double)result.commands);
    digest_add(&digest, (double)result.computed_low);
    digest_add(&digest, result.longest_low_ms);
    digest_add(&digest, result.total_ms);
    for (uint32_t i = 0; i < config.points; i++)
        digest_add(&digest, result.ran_at[i]);
    digest_targets(&digest, nodes.controllers[0]);
    lull_controller_destroy(nodes.controllers[0]);
    digest_check(&digest, "held", 164.78067167664335);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(switches_are_what_they_were),
                                       cmocka_unit_test(what_is_held_is_raised_as_it_was)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
