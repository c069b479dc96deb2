/*
 * Pipelines under the plan controller in virtual time: its commands and verdicts are what they
 * were. What they should be like is for test_plan controller; this one notices that any has
 * changed. SPDX-License-Identifier: Apache-2.0
 */
#include "../../digest.h"

#include <stdlib.h>

#include "core/pipeline/frontier/envpipe_planner.h"
#include "core/pipeline/follow/plan_controller_state.h"
#include "pipe_sim.h"

struct job {
    const char *name;
    double expected;
    struct pipe_sim_config changes; /* members that are not 0 replace the default's */
};

static const struct job jobs[] = {
    {"plain", -222.47068808369127, {.iterations = 500}},
    {"transfers", 68.932265874671572, {.sees_transfers = true, .iterations = 165}},
    {"copies", 60.087190919108828, {.replicas = 2, .devices = 3, .iterations = 150}},
    {"interleaved", 89.871731664026385, {.schedule = "interleaved:2", .iterations = 150}},
    {"zero bubble", -233.03531609587364, {.schedule = "zb-h1", .iterations = 500}},
    {"short operations",
     44.72334447768128,
     {.forward_ms = 8.0, .backward_ms = 16.0, .iterations = 210}},
    {"slow driver", 93.197175626969539, {.call_ms = 12.0, .call_spread = 0.5, .iterations = 165}},
    {"slow settling",
     57.443529811149268,
     {.settle_ms = 40.0, .slow_settle_ms = 200.0, .iterations = 165}},
    {"stalls", -360.88652927007803, {.stall_share = 0.02, .stall_ms = 40.0, .iterations = 500}},
    {"noisy", 91.832321038779114, {.jitter = 0.02, .iterations = 165}},
    {"joins late", 61.428418326805264, {.joins_ms = 9000.0, .iterations = 165}},
    {"one section too many", 55.41405644194203, {.odd_at = 90, .iterations = 165}},
    {"ignores lowering", 73.935414191454115, {.ignores_lowering = true, .iterations = 150}},
    {"straggles",
     -131.42442124381034,
     {.straggle_from = 90,
      .straggle_to = 180,
      .slow_device = 2,
      .slow_factor = 1.3,
      .iterations = 270}},
};

static void apply(struct pipe_sim_config *config, const struct pipe_sim_config *changes)
{
#define TAKE(member)                                                                               \
    if (changes->member != 0)                                                                      \
    config->member = changes->member
    TAKE(schedule);
    TAKE(devices);
    TAKE(replicas);
    TAKE(forward_ms);
    TAKE(backward_ms);
    TAKE(jitter);
    TAKE(stall_share);
    TAKE(stall_ms);
    TAKE(call_ms);
    TAKE(call_spread);
    TAKE(settle_ms);
    TAKE(slow_settle_ms);
    TAKE(iterations);
    TAKE(sees_transfers);
    TAKE(joins_ms);
    TAKE(odd_at);
    TAKE(ignores_lowering);
    TAKE(straggle_from);
    TAKE(straggle_to);
    TAKE(slow_device);
    TAKE(slow_factor);
#undef TAKE
}

/* Every third job makes detours. */
struct detours {
    struct pipe_sim *sim;
    struct lull_plan_controller *plan_controller;
    uint32_t *highest;
    uint32_t *low;
    uint32_t told;
    struct digest digest;
};

static void detour(void *context, const struct lull_plan_controller_iteration *iteration,
                   const int64_t *begin_ns, const int64_t *end_ns, double energy_j)
{
    struct detours *detours = context;

    (void)begin_ns;
    (void)end_ns;
    digest_add(&detours->digest, iteration->plan);
    digest_add(&detours->digest, energy_j);
    digest_add(&detours->digest, detours->plan_controller->is_detoured);
    switch (detours->told++) {
    case 25:
    case 33:
        digest_add(&detours->digest,
                   pipe_sim_detour(detours->sim, detours->plan_controller, detours->highest));
        break;
    case 26: /* too soon after the one before */
    case 27:
    case 28:
        digest_add(&detours->digest,
                   pipe_sim_detour(detours->sim, detours->plan_controller, detours->low));
        break;
    case 31:
    case 35:
        lull_plan_controller_end_detour(detours->plan_controller);
        break;
    default:
        break;
    }
}

static void digest_job(struct digest *digest, const struct pipe_sim_config *job, size_t number)
{
    static const enum lull_envpipe_method methods[] = {LULL_ENVPIPE_UNIFORM, LULL_ENVPIPE_BALANCED};
    static struct pipe_sim_result result;
    struct lull_plan_controller_config config;
    struct lull_guard_estimate slowdown;
    struct detours detours = {0};
    struct pipe_sim_config with_detours = *job;
    struct pipe_sim *sim;
    struct lull_plan_controller *plan_controller;
    uint32_t withdrawals;
    uint32_t *point;

    if (number % 3 == 0) {
        with_detours.on_iteration = detour;
        with_detours.context = &detours;
    }
    sim = pipe_sim_create(&with_detours);
    assert_non_null(sim);
    lull_plan_controller_config_default(&config);
    plan_controller = pipe_sim_plan_controller(sim, &config);
    assert_non_null(plan_controller);
    point = calloc(pipe_sim_problem(sim)->graph->op_count, sizeof(point[0]));
    assert_non_null(point);
    detours.sim = sim;
    detours.plan_controller = plan_controller;
    detours.low = point;
    detours.highest = calloc(pipe_sim_problem(sim)->graph->op_count, sizeof(point[0]));
    assert_non_null(detours.highest);
    for (size_t i = number % 4 != 0; i < 2; i++) { /* the first one may be too slow */
        struct lull_envpipe_outcome outcome;

        assert_int_equal(
            lull_envpipe_plan(pipe_sim_problem(sim), methods[i], 1000, point, &outcome), 0);
        assert_int_equal(pipe_sim_add_plan(sim, plan_controller, point, 0), 0);
    }
    pipe_sim_run(sim, plan_controller, &result);
    digest_add(digest, (double)result.begins);
    digest_add(digest, (double)result.below);
    digest_add(digest, result.below_ms);
    digest_add(digest, result.plan_ms);
    digest_add(digest, result.highest_ms);
    digest_add(digest, result.longest_plan_ms);
    digest_add(digest, result.plan_j);
    digest_add(digest, (double)result.commands);
    digest_add(digest, (double)result.wrong);
    digest_add(digest, (double)result.edges);
    digest_add(digest, result.worst_edge_ms);
    digest_add(digest, (double)result.first_told);
    digest_add(digest, result.iterations_told);
    for (uint32_t i = 0; i < result.iterations_told; i++)
        digest_add(digest, result.iteration_plan[i]);
    digest_add(digest, lull_plan_controller_phase(plan_controller));
    digest_add(digest, lull_plan_controller_plan(plan_controller));
    digest_add(digest, lull_plan_controller_trouble(plan_controller, &withdrawals));
    digest_add(digest, withdrawals);
    digest_add(digest, lull_plan_controller_call_ms(plan_controller));
    lull_plan_controller_slowdown(plan_controller, &slowdown);
    digest_add(digest, 100.0 * slowdown.slowdown_ratio);
    digest_add(digest, 100.0 * slowdown.upper_ratio);
    digest_add(digest, detours.digest.sum);
    free(detours.highest);
    free(point);
    lull_plan_controller_destroy(plan_controller);
    pipe_sim_destroy(sim);
}

static void commands_are_what_they_were(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        struct pipe_sim_config config;
        struct digest digest = {0};

        pipe_sim_config_default(&config);
        config.seed = 1 + i;
        apply(&config, &jobs[i].changes);
        digest_job(&digest, &config, i);
        digest_check(&digest, jobs[i].name, jobs[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(commands_are_what_they_were)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
