/*
 * The played server in real time against the same server in virtual time: the same arrivals at the
 * highest clock give the same times and the same energy. usage: test_model_server [SECONDS [TRACE]]
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "emulator/node.h"
#include "emulator/server/model_server.h"
#include "simulator/serving/arrivals_file.h"
#include "simulator/serving/serving.h"

static double seconds = 15.0;
static const char *trace_path;

struct agreement_case {
    const char *node;
    const char *llm;
    uint32_t gpus;
    double rate_per_s; /* about half of what the server can do */
    double prompt_tokens;
    double output_tokens;
};

/* What clients of the played server get. */
struct played {
    struct lull_serving_request *requests;
    struct lull_model_server_reading reading;
    double energy_j;
};

static void take_tokens(void *context, const struct lull_engine_token *tokens, uint32_t count)
{
    struct played *const played = context;

    for (uint32_t i = 0; i < count; i++) {
        struct lull_serving_request *const request =
            &played->requests[tokens[i].request - LULL_MODEL_SERVER_TRACE];

        if (tokens[i].is_first)
            request->ttft_s = tokens[i].ttft_s;
        if (!tokens[i].is_last)
            continue;
        request->tpot_s = tokens[i].tpot_s;
        request->fate = LULL_SERVING_DONE;
    }
}

static void play_server(const struct agreement_case *at,
                        const struct lull_server_arrivals *arrivals, struct played *played)
{
    const struct lull_model_server_options options = {
        .llm = lull_llm_find(at->llm),
        .gpus = at->gpus,
        .max_sequences = 256,
        .max_batched_tokens = 8192,
        .arrivals = arrivals->items,
        .arrival_count = arrivals->count,
        .deliver = take_tokens,
        .context = played,
    };
    struct lull_node_spec spec = {.seed = 0, .time_scale = 1};
    struct lull_model_server *server;
    struct lull_node *node;

    assert_int_equal(lull_node_spec_parse(at->node, &spec, NULL), 0);
    assert_int_equal(lull_node_create(&spec, &node, NULL), 0);
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
    assert_int_equal(lull_model_server_start(&options, &server, NULL), 0);
    do {
        lull_sleep_until_ns(lull_now_ns() + 10 * LULL_NS_PER_MS);
        lull_model_server_read(server, &played->reading);
    } while (!played->reading.is_done || played->reading.time_ns < arrivals->period_ns);
    played->energy_j = lull_model_server_energy_j(server);
    lull_model_server_stop(server);
    lull_node_remove(node);
}

static void simulate_server(const struct agreement_case *at,
                            const struct lull_server_arrivals *arrivals,
                            struct lull_serving_outcome *outcome_out)
{
    struct lull_node_spec spec = {0};
    struct lull_serving_run run = {
        .pool_count = 1,
        .arrivals = arrivals,
        .objective = {.ttft_s = INFINITY, .tpot_s = INFINITY, .share = 0.99},
        .policy = LULL_SERVING_AT_HIGHEST,
        .park_after_ns = INT64_MAX,
        .wake_s = INFINITY,
    };

    assert_int_equal(lull_node_spec_parse(at->node, &spec, NULL), 0);
    run.pools[0] = (struct lull_serving_pool){
        .setup = {.gpu = spec.models[0], .llm = lull_llm_find(at->llm), .gpus = at->gpus},
        .max_sequences = 256,
        .max_batched_tokens = 8192,
    };
    assert_int_equal(lull_serving_simulate(&run, outcome_out, NULL), 0);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_s(const struct lull_serving_request *requests, size_t count, bool is_tpot)
{
    double *const values = calloc(count + 1, sizeof(values[0]));
    size_t found = 0;
    double median;

    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        const double value = is_tpot ? requests[i].tpot_s : requests[i].ttft_s;

        if (requests[i].fate == LULL_SERVING_DONE && !isnan(value))
            values[found++] = value;
    }
    assert_true(found > 0);
    qsort(values, found, sizeof(values[0]), compare_doubles);
    median = values[found / 2];
    free(values);
    return median;
}

static bool are_near(const char *what, double real, double virtual, double tolerance)
{
    printf("  %s: %.4g in real time, %.4g in virtual time (%+.2f %%)\n", what, real, virtual,
           100 * (real / virtual - 1));
    return fabs(real / virtual - 1) < tolerance;
}

static void compare(const struct agreement_case *at, const struct lull_server_arrivals *arrivals)
{
    struct played played = {.requests = calloc(arrivals->count, sizeof(*played.requests))};
    struct lull_serving_outcome outcome;
    double late_ratio;
    double tolerance;
    bool is_near;

    assert_non_null(played.requests);
    simulate_server(at, arrivals, &outcome);
    play_server(at, arrivals, &played);
    late_ratio = (double)played.reading.late_steps / (double)played.reading.engine.steps;
    tolerance = late_ratio > 0.005 ? 0.05 : 0.02; /* the host was busy */
    printf("%s on %s: %zu requests; host late for %.2f %% of %llu steps, by %.1f ms in all\n",
           at->llm, at->node, arrivals->count, 100 * late_ratio,
           (unsigned long long)played.reading.engine.steps, 1e3 * played.reading.late_s);
    assert_int_equal(played.reading.engine.finished, outcome.done);
    assert_int_equal(played.reading.refused, outcome.refused);
    is_near = are_near("median TTFT, s", median_s(played.requests, arrivals->count, false),
                       median_s(outcome.requests, arrivals->count, false), tolerance);
    is_near &= are_near("median TPOT, s", median_s(played.requests, arrivals->count, true),
                        median_s(outcome.requests, arrivals->count, true), tolerance);
    is_near &= are_near("energy per token, J",
                        played.energy_j / (double)played.reading.engine.output_tokens,
                        outcome.energy_j / (double)outcome.output_tokens, tolerance);
    free(played.requests);
    free(outcome.requests);
    assert_true(is_near);
}

/* ---- cases ------------------------------------------------------------------------------- */

static void agree_on(const struct agreement_case *at)
{
    const struct lull_server_arrivals_poisson poisson = {
        .rate_per_s = at->rate_per_s,
        .duration_ns = (int64_t)(seconds * 1e9),
        .prompt_tokens = at->prompt_tokens,
        .output_tokens = at->output_tokens,
        .seed = 7,
    };
    struct lull_server_arrivals arrivals = {0};

    assert_int_equal(lull_server_arrivals_draw(&poisson, &arrivals), 0);
    compare(at, &arrivals);
    lull_server_arrivals_fini(&arrivals);
}

static void test_one_gpu(void **state)
{
    (void)state;
    agree_on(&(struct agreement_case){"H100", "Llama-3.1-8B-Instruct", 1, 16, 512, 200});
}

static void test_a_group_of_four(void **state)
{
    (void)state;
    agree_on(&(struct agreement_case){"4xA100-SXM4-80GB", "Qwen3-32B", 4, 8, 512, 100});
}

static void test_a_trace(void **state)
{
    const struct agreement_case at = {"H100", "Llama-3.1-8B-Instruct", 1, 8, 0, 0};
    const struct lull_server_arrivals_part part = {
        .rate_per_s = at.rate_per_s, .duration_ns = (int64_t)(seconds * 1e9), .start_ratio = 0.3};
    struct lull_server_arrivals_skipped skipped;
    struct lull_server_arrivals trace = {0};
    struct lull_server_arrivals arrivals = {0};

    (void)state;
    if (trace_path == NULL || lull_server_arrivals_read(trace_path, &trace, &skipped, NULL) < 0) {
        print_message("skipped: there is no trace of requests\n");
        skip();
    }
    assert_int_equal(lull_server_arrivals_scale(&trace, &part, &arrivals), 0);
    compare(&at, &arrivals);
    lull_server_arrivals_fini(&trace);
    lull_server_arrivals_fini(&arrivals);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_gpu),
        cmocka_unit_test(test_a_group_of_four),
        cmocka_unit_test(test_a_trace),
    };

    if (argc > 1)
        seconds = atof(argv[1]);
    if (argc > 2)
        trace_path = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
