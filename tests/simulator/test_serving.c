/*
 * A server in virtual time. The controller is one of this test's own, which follows its script and
 * records what it gets. SPDX-License-Identifier: Apache-2.0
 */
#include "../emulator/check.h"

#include "base/error.h"
#include "simulator/serving/gpus.h"
#include "simulator/serving/serving.h"

/* ---- the controller ------------------------------------------------------------------------- */

enum { RECORDED = 20000 };

static struct {
    int64_t from_ns; /* the second half of its clocks is requested between these times */
    int64_t until_ns;
    uint32_t readings;
    int64_t time_ns[RECORDED];
    int64_t taken_ns[RECORDED]; /* by the latest poll */
    double output_tokens[RECORDED];
    double finished[RECORDED];
    bool is_restarted[RECORDED];
    uint32_t clocks;
    int64_t clock_ns[RECORDED];
    double clock_mhz[RECORDED];
    double joules; /* of the energy counters, at first and at last */
    double first_j;
    int64_t poll_ns;
} seen;

struct lull_serving_controller {
    struct lull_serving_config config;
};

struct lull_serving_controller *
lull_serving_controller_create(const struct lull_serving_config *config)
{
    struct lull_serving_controller *controller = malloc(sizeof(*controller));

    controller->config = *config;
    return controller;
}

void lull_serving_controller_destroy(struct lull_serving_controller *controller)
{
    free(controller);
}

void lull_serving_controller_take(struct lull_serving_controller *controller,
                                  const struct lull_serving_reading *reading)
{
    const uint32_t at = seen.readings++;

    (void)controller;
    assert_true(at < RECORDED);
    seen.time_ns[at] = reading->time_ns;
    seen.taken_ns[at] = seen.poll_ns;
    seen.output_tokens[at] = reading->output_tokens;
    seen.finished[at] = reading->finished;
    seen.is_restarted[at] = reading->is_restarted;
    assert_true(isinf(reading->tpot.bound_s[reading->tpot.count - 1]));
    assert_true(reading->tpot.total[reading->tpot.count - 1] == reading->finished);
}

void lull_serving_controller_take_energy(struct lull_serving_controller *controller,
                                         int64_t time_ns, double joules)
{
    (void)controller;
    assert_true(joules >= seen.joules);
    if (time_ns == 0)
        seen.first_j = joules;
    seen.joules = joules;
}

void lull_serving_controller_take_clock(struct lull_serving_controller *controller, int64_t time_ns,
                                        double mhz)
{
    (void)controller;
    seen.clock_ns[seen.clocks] = time_ns;
    seen.clock_mhz[seen.clocks++] = mhz;
}

double lull_serving_controller_poll(struct lull_serving_controller *controller, int64_t now_ns)
{
    const struct lull_serving_config *config = &controller->config;

    seen.poll_ns = now_ns;
    if (now_ns >= seen.from_ns && now_ns < seen.until_ns)
        return config->clocks_mhz[config->clock_count / 2];
    return config->clocks_mhz[0];
}

void lull_serving_controller_state(const struct lull_serving_controller *controller,
                                   struct lull_serving_state *state_out)
{
    (void)controller;
    *state_out = (struct lull_serving_state){.clock_mhz = seen.clock_mhz[seen.clocks - 1]};
}

/* ---- runs ----------------------------------------------------------------------------------- */

static struct lull_server_arrivals arrivals;

static struct lull_serving_run make_run(uint32_t gpus)
{
    const struct lull_objective objective = {.ttft_s = 0.5, .tpot_s = 0.05, .share = 0.99};
    struct lull_serving_run run = {
        .pool_count = 1,
        .pools = {{.setup = {.gpu = lull_gpu_model_find("H100", 4),
                             .llm = lull_llm_find("Llama-3.1-8B-Instruct"),
                             .gpus = gpus},
                   .max_sequences = 256,
                   .max_batched_tokens = 512,
                   .objective = objective}},
        .handover_gbs = 50.0,
        .arrivals = &arrivals,
        .objective = objective,
        .park_after_ns = MS(500),
        .wake_s = INFINITY,
        .seed = 1,
    };

    run.pools[1] = run.pools[0];
    return run;
}

static struct lull_serving_outcome simulate(const struct lull_serving_run *run)
{
    struct lull_serving_outcome outcome;
    struct lull_error err = {0};

    memset(&seen, 0, sizeof(seen));
    assert_int_equal(lull_serving_simulate(run, &outcome, &err), 0);
    assert_int_equal(outcome.done + outcome.refused + outcome.lost, arrivals.count);
    return outcome;
}

static struct lull_serving_outcome simulate_lull(struct lull_serving_run *run, int64_t from_ns,
                                                 int64_t until_ns)
{
    struct lull_serving_outcome outcome;
    struct lull_error err = {0};

    memset(&seen, 0, sizeof(seen));
    seen.from_ns = from_ns;
    seen.until_ns = until_ns;
    run->policy = LULL_SERVING_UNDER_LULL;
    assert_int_equal(lull_serving_simulate(run, &outcome, &err), 0);
    assert_int_equal(outcome.done + outcome.refused + outcome.lost, arrivals.count);
    return outcome;
}

static void test_all_requests_are_served(void **state)
{
    const struct lull_serving_run run = make_run(1);
    struct lull_serving_outcome outcome = simulate(&run);
    struct lull_serving_outcome again = simulate(&run);
    uint64_t prompts = 0;
    uint64_t outputs = 0;

    (void)state;
    for (size_t i = 0; i < arrivals.count; i++) {
        prompts += arrivals.items[i].prompt_tokens;
        outputs += arrivals.items[i].output_tokens;
        assert_true(outcome.requests[i].fate == LULL_SERVING_DONE);
        assert_true(outcome.requests[i].ttft_s > 0.0);
        assert_true(isnan(outcome.requests[i].tpot_s) == (arrivals.items[i].output_tokens == 1));
    }
    assert_int_equal(outcome.prompt_tokens, prompts);
    assert_int_equal(outcome.output_tokens, outputs);
    assert_true(outcome.span_s >= 60.0 && outcome.pools[0].busy_s <= outcome.span_s);
    check_within("mean power, W", outcome.energy_j / outcome.span_s, 100.0, 700.0);
    assert_true(outcome.energy_j == again.energy_j && outcome.ttft_p99_s == again.ttft_p99_s);
    free(outcome.requests);
    free(again.requests);
}

static void test_a_lower_clock_is_slower_and_saves(void **state)
{
    struct lull_serving_run run = make_run(1);
    struct lull_serving_outcome highest = simulate(&run);
    struct lull_serving_outcome low;

    (void)state;
    run.policy = LULL_SERVING_AT_CLOCK;
    run.clock_mhz = 1110.0;
    low = simulate(&run);
    assert_true(fabs(low.pools[0].mean_mhz - 1110.0) < 1e-6);
    assert_true(low.tpot_p50_s > highest.tpot_p50_s);
    assert_true(low.energy_j < 0.8 * highest.energy_j);
    free(low.requests);
    run.policy = LULL_SERVING_AT_LIMIT;
    run.limit_w = 250.0;
    low = simulate(&run);
    assert_true(low.tpot_p50_s > highest.tpot_p50_s);
    check_within("mean power under 250 W, W", low.energy_j / low.span_s, 100.0, 251.0);
    free(low.requests);
    free(highest.requests);
}

/* ---- GPUs ----------------------------------------------------------------------------------- */

static const struct lull_step_cost short_step = {
    .host_s = 0.002, .gpu_s = 0.02, .profile = {"step", 180.0, 250.0, 0.5}};

/* Runs steps for a time; asks for a clock at a second, if it is above 0. Returns their number. */
static uint32_t run_steps(struct lull_serving_gpus *gpus, int64_t until_ns, double mhz)
{
    int64_t now_ns = 0;
    uint32_t steps = 0;

    for (lull_serving_gpus_begin(gpus, &short_step, 0); now_ns < until_ns;) {
        int64_t next_ns = lull_serving_gpus_next_ns(gpus);

        if (mhz > 0.0 && now_ns < S(1) && next_ns > S(1))
            next_ns = S(1);
        now_ns = next_ns;
        if (lull_serving_gpus_advance(gpus, now_ns)) {
            lull_serving_gpus_begin(gpus, &short_step, now_ns);
            steps++;
        }
        if (mhz > 0.0 && now_ns == S(1)) {
            lull_serving_gpus_ask(gpus, mhz, now_ns);
            mhz = 0.0;
        }
    }
    return steps;
}

static void test_gpus_that_are_alike_cost_as_much_as_apart(void **state)
{
    const struct lull_gpu_model *model = lull_gpu_model_find("H100", 4);
    struct lull_serving_gpus *one = lull_serving_gpus_create(model, 1, 1);
    struct lull_serving_gpus *eight = lull_serving_gpus_create(model, 8, 1);

    (void)state;
    assert_int_equal(run_steps(one, S(5), 0.0), run_steps(eight, S(5), 0.0));
    assert_true(fabs(lull_serving_gpus_energy_j(eight) / lull_serving_gpus_energy_j(one) - 8.0) <
                1e-9);
    lull_serving_gpus_destroy(one);
    lull_serving_gpus_destroy(eight);
}

static void test_a_step_is_as_slow_as_the_slowest_gpu(void **state)
{
    struct lull_gpu_model model = *lull_gpu_model_find("H100", 4);
    struct lull_serving_gpus *gpus;
    double apart_j;
    int64_t since_ns;

    (void)state;
    lull_gpu_model_fix_latency(&model, 100.0, 1.0); /* 8 calls take 0.8 s */
    gpus = lull_serving_gpus_create(&model, 8, 1);
    (void)run_steps(gpus, S(5), 990.0);
    assert_true(lull_serving_gpus_mhz(gpus, &since_ns) == 990.0);
    check_within("the last clock is in force, s", 1e-9 * (double)since_ns, 1.80, 1.83);
    assert_int_equal(lull_serving_gpus_calls(gpus), 8);
    apart_j = lull_serving_gpus_energy_j(gpus);
    lull_serving_gpus_destroy(gpus);

    lull_gpu_model_fix_latency(&model, 0.0, 0.0); /* all at once */
    gpus = lull_serving_gpus_create(&model, 8, 1);
    (void)run_steps(gpus, S(5), 990.0);
    /* The GPUs that still run at the highest clock wait for the first one that does not. */
    assert_true(apart_j > lull_serving_gpus_energy_j(gpus));
    check_within("energy of one after the other, relative",
                 apart_j / lull_serving_gpus_energy_j(gpus), 1.01, 1.1);
    lull_serving_gpus_destroy(gpus);
}

/* ---- control -------------------------------------------------------------------------------- */

static void test_clocks_take_the_time_of_the_driver(void **state)
{
    struct lull_serving_run run = make_run(4);
    struct lull_serving_outcome outcome = simulate_lull(&run, S(10), S(20));

    (void)state;
    assert_int_equal(outcome.calls, 8);
    assert_int_equal(seen.clocks, 3); /* the highest one, the middle one, the highest one */
    assert_int_equal(seen.clock_ns[0], 0);
    check_within("down, ms", 1e-6 * (double)(seen.clock_ns[1] - S(10)), 5.0, 100.0);
    check_within("up, ms", 1e-6 * (double)(seen.clock_ns[2] - S(20)), 5.0, 100.0);
    assert_true(seen.clock_mhz[1] < seen.clock_mhz[0]);
    assert_true(seen.clock_mhz[2] == seen.clock_mhz[0]);
    check_within("energy counters, relative", (seen.joules - seen.first_j) / outcome.energy_j, 0.99,
                 1.001);
    free(outcome.requests);
}

static void test_readings_come_once_per_period(void **state)
{
    struct lull_serving_run run = make_run(1);
    struct lull_serving_outcome outcome = simulate_lull(&run, 0, 0);

    (void)state;
    for (uint32_t i = 0; i < seen.readings; i++) {
        assert_int_equal(seen.time_ns[i], (int64_t)i * MS(100));
        assert_false(seen.is_restarted[i]);
        assert_true(i == 0 || seen.output_tokens[i] >= seen.output_tokens[i - 1]);
    }
    free(outcome.requests);
}

static void test_answers_come_late_or_not(void **state)
{
    struct lull_serving_run run = make_run(1);
    struct lull_serving_outcome outcome;

    (void)state;
    run.faults =
        (struct lull_serving_faults){.lag_ns = S(3), .lost_from_ns = S(20), .lost_until_ns = S(30)};
    outcome = simulate_lull(&run, 0, 0);
    for (uint32_t i = 0; i < seen.readings; i++) {
        assert_int_equal(seen.taken_ns[i] + MS(100) - seen.time_ns[i], S(3));
        assert_true(seen.time_ns[i] < S(20) || seen.time_ns[i] >= S(30));
    }
    free(outcome.requests);
    run.faults = (struct lull_serving_faults){.lost_ratio = 0.5};
    outcome = simulate_lull(&run, 0, 0);
    check_within("readings", seen.readings, 250.0, 370.0);
    free(outcome.requests);
}

static uint32_t reading_from(int64_t time_ns)
{
    uint32_t at = 0;

    while (seen.time_ns[at] < time_ns)
        at++;
    return at;
}

static void test_counters_begin_again(void **state)
{
    struct lull_serving_run run = make_run(1);
    struct lull_serving_outcome outcome;
    uint32_t at;

    (void)state;
    run.faults = (struct lull_serving_faults){.reset_ns = S(30)};
    outcome = simulate_lull(&run, 0, 0);
    at = reading_from(S(30));
    assert_true(seen.is_restarted[at] && !seen.is_restarted[at + 1]);
    assert_true(seen.output_tokens[at] == 0.0 && seen.output_tokens[at - 1] > 0.0);
    assert_int_equal(outcome.lost, 0);
    free(outcome.requests);
}

static void test_a_restart_loses_requests(void **state)
{
    struct lull_serving_run run = make_run(1);
    struct lull_serving_outcome outcome;
    uint32_t at;

    (void)state;
    run.faults = (struct lull_serving_faults){.restart_ns = S(30), .restarted_ns = S(40)};
    outcome = simulate_lull(&run, 0, 0);
    at = reading_from(S(30));
    assert_int_equal(seen.time_ns[at], S(40));
    assert_true(seen.is_restarted[at] && seen.finished[at] == 0.0);
    check_within("lost", (double)outcome.lost, 20.0, 60.0);
    for (size_t i = 0; i < arrivals.count; i++)
        if (arrivals.items[i].time_ns > S(30) && arrivals.items[i].time_ns < S(40))
            assert_true(outcome.requests[i].fate == LULL_SERVING_LOST);
    free(outcome.requests);
}

static void test_pools_hand_requests_over(void **state)
{
    struct lull_serving_run run = make_run(1);
    struct lull_serving_outcome together = simulate(&run);
    struct lull_serving_outcome apart;

    (void)state;
    run.pool_count = 2;
    apart = simulate(&run);
    assert_int_equal(apart.done, arrivals.count);
    assert_int_equal(apart.output_tokens, together.output_tokens);
    /* Prompts do not hold up tokens. */
    assert_true(apart.tpot_p99_s < together.tpot_p99_s);
    assert_true(apart.energy_j > together.energy_j);
    free(apart.requests);
    run.handover_gbs = 0.1; /* 1.3 s for 1000 tokens */
    apart = simulate(&run);
    check_within("median TTFT over a slow link, s", apart.ttft_p50_s, 0.5, 2.0);
    free(apart.requests);
    free(together.requests);
}

static void test_weights_must_fit(void **state)
{
    struct lull_serving_run run = make_run(1);
    struct lull_serving_outcome outcome;
    struct lull_error err = {0};

    (void)state;
    run.pools[0].setup.llm = lull_llm_find("Llama-3.1-70B-Instruct");
    assert_non_null(run.pools[0].setup.llm);
    assert_true(lull_serving_simulate(&run, &outcome, &err) < 0);
    printf("%s\n", err.text);
    assert_non_null(strstr(err.text, "does not fit"));
}

static int draw_arrivals(void **state)
{
    const struct lull_server_arrivals_poisson poisson = {.rate_per_s = 4.0,
                                                         .duration_ns = S(60),
                                                         .prompt_tokens = 1000.0,
                                                         .output_tokens = 200.0,
                                                         .seed = 1};

    (void)state;
    return lull_server_arrivals_draw(&poisson, &arrivals);
}

static int free_arrivals(void **state)
{
    (void)state;
    lull_server_arrivals_fini(&arrivals);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_requests_are_served),
        cmocka_unit_test(test_a_lower_clock_is_slower_and_saves),
        cmocka_unit_test(test_gpus_that_are_alike_cost_as_much_as_apart),
        cmocka_unit_test(test_a_step_is_as_slow_as_the_slowest_gpu),
        cmocka_unit_test(test_clocks_take_the_time_of_the_driver),
        cmocka_unit_test(test_readings_come_once_per_period),
        cmocka_unit_test(test_answers_come_late_or_not),
        cmocka_unit_test(test_counters_begin_again),
        cmocka_unit_test(test_a_restart_loses_requests),
        cmocka_unit_test(test_pools_hand_requests_over),
        cmocka_unit_test(test_weights_must_fit),
    };

    return cmocka_run_group_tests(tests, draw_arrivals, free_arrivals);
}
