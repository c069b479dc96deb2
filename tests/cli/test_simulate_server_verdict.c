/*
 * The first line of `lull simulate --server` for synthetic results: more misses than promised are
 * never recommended. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/simulate_server.h"

static struct lull_simulate_server server;

/* 10,000 requests, of which Lull misses this many and full clocks 40; 50 more are allowed. */
static struct lull_server_results make_results(uint64_t missed, double energy_j)
{
    struct lull_server_results results = {
        .server = &server, .played = UINT32_MAX, .allowance = 50.0};

    server.llm = lull_llm_find("Llama-3.1-70B");
    server.gpus = (struct lull_simulate_gpus){lull_gpu_model_find("H100", 4), 4};
    server.slo.text = "ttft=1s,tpot=100ms";
    results.modes[LULL_SERVER_HIGHEST] = (struct lull_serving_outcome){
        .done = 10000, .missed = 40, .output_tokens = 1000000, .energy_j = 1e6};
    results.modes[LULL_SERVER_LULL] = (struct lull_serving_outcome){
        .done = 10000, .missed = missed, .output_tokens = 1000000, .energy_j = energy_j};
    return results;
}

static void check(uint64_t missed, double energy_j, const char *begin, const char *part)
{
    const struct lull_server_results results = make_results(missed, energy_j);
    char text[512];

    lull_server_verdict(&results, text, sizeof(text));
    assert_memory_equal(text, begin, strlen(begin));
    assert_non_null(strstr(text, part));
    if (strncmp(begin, "saves", 5) != 0)
        assert_null(strstr(text, "run: lull run"));
}

static void test_three_verdicts(void **state)
{
    (void)state;
    check(90, 6e5,
          "saves 40.0 % of the energy per token; 0.90 % of requests miss the objective, 0.40 % at "
          "full clocks, on 4 x H100-SXM5",
          "run: lull run --slo ttft=1s,tpot=100ms -- vllm serve meta-llama/Llama-3.1-70B-Instruct "
          "--tensor-parallel-size 4");
    check(91, 6e5, "misses more than allowed: 0.91 % of requests", "do not run this server");
    check(40, 9.95e5, "nothing to gain: Lull saves 0.5 %", "on 4 x H100-SXM5");
    check(40, 1.1e6, "nothing to gain: Lull saves 0.0 %", "on 4 x H100-SXM5");
}

/* Two pools: an attach for each. */
static void test_pools(void **state)
{
    struct lull_server_results results = make_results(40, 6e5);
    char text[512];

    (void)state;
    server.prefill = (struct lull_simulate_gpus){lull_gpu_model_find("H100", 4), 2};
    assert_int_equal(lull_objective_parse("ttft=1s,tpot=100ms@p99.5", &server.slo.objective, NULL),
                     0);
    lull_server_verdict(&results, text, sizeof(text));
    assert_non_null(strstr(text, "on 2 x H100-SXM5 (prefill) and 4 x H100-SXM5 (decode); run: "));
    assert_non_null(strstr(text, "lull attach --slo ttft=1000ms@p99.5 --metrics PREFILL-URL"));
    assert_non_null(strstr(text, "lull attach --slo tpot=100ms@p99.5 --metrics DECODE-URL"));
    assert_true(lull_server_is_played(&results, LULL_SERVER_LULL));
    assert_false(lull_server_is_played(&results, LULL_SERVER_ORACLE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_verdicts),
        cmocka_unit_test(test_pools),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
