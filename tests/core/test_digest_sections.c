/*
 * Whole jobs under the controller of sections: their switches are what they were. What they should
 * be like is for test_controller; this one notices that any has changed.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "digest.h"

#include "job_sim.h"

static void digest_job(struct digest *digest, const struct job_sim_config *config,
                       struct lull_controller *controller)
{
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
}

struct job {
    const char *name;
    double expected;
    struct job_sim_config changes; /* members that are not 0 replace the default's */
};

static const struct job jobs[] = {
    {"plain", 65.325795656369991, {.iterations = 200}},
    {"one GPU", 73.449971757558529, {.gpus = 1, .iterations = 250, .seed = 2}},
    {"short gaps", 66.824805585444366, {.compute_ms = 40.0, .exposed_ms = 30.0, .iterations = 300}},
    {"overlapped",
     72.505507457415604,
     {.overlapped_ms = 150.0, .exposed_ms = 200.0, .iterations = 250}},
    {"slow driver", 100.60228485770189, {.call_ms = 40.0, .settle_ms = 60.0, .iterations = 300}},
    {"driver gets slow",
     65.461985004652689,
     {.slow_call_ms = 400.0,
      .slow_from_ms = 60000.0,
      .slow_every = 5,
      .slow_gpu = -1,
      .iterations = 400}},
    {"driver breaks down",
     61.970555409791629,
     {.slow_call_ms = 2500.0,
      .slow_from_ms = 40000.0,
      .slow_every = 1,
      .slow_most = 6,
      .slow_gpu = -1,
      .iterations = 400}},
    {"checkpoints", 45.233990480017702, {.odd_every = 20, .iterations = 300}},
    {"disobeys", 82.498418181900789, {.stop_obeying = 150, .iterations = 350}},
    {"knee moves", 81.934375010040682, {.knee_moves_at = 200, .knee_after = 10, .iterations = 300}},
    {"often bound", 99.223554529172858, {.bound_every = 7, .iterations = 400}},
    {"another shape", 75.252530776435123, {.change_at = 180, .iterations = 360}},
    {"unlike ranks", 81.94345744185982, {.uneven = true, .iterations = 300}},
    {"uncoupled", 61.260078033216288, {.uneven = true, .uncoupled = true, .iterations = 300}},
    {"noisy", 66.1198002815038, {.jitter = 0.03, .iterations = 300}},
};

static void apply(struct job_sim_config *config, const struct job_sim_config *changes)
{
#define TAKE(member)                                                                               \
    if (changes->member != 0)                                                                      \
    config->member = changes->member
    TAKE(gpus);
    TAKE(iterations);
    TAKE(compute_ms);
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
        control.strategy = (enum lull_descent_strategy)(i % 3);
        controller = job_sim_create_controller(&config, &control);
        assert_non_null(controller);
        digest_job(&digest, &config, controller);
        lull_controller_destroy(controller);
        digest_check(&digest, jobs[i].name, jobs[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(switches_are_what_they_were)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
