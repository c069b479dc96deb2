/*
 * What pages of metrics show: the quantities of each kind of server, sums over labels, and each
 * sentence about what is missing or has changed. The pages are written for this test, from the
 * names in the servers' documentation. SPDX-License-Identifier: Apache-2.0
 */
#include "governor/serving/metrics_reading.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../../text_file.h"

static const int64_t ms = 1000000;

static struct lull_metrics_names names;
static struct lull_metrics_reader *reader;
static struct lull_metrics_result result;
static struct lull_error err;
static int64_t now_ns;
static const double wall_s = 1700000100.0;

static int set_up(void **state)
{
    (void)state;
    now_ns = 1000 * ms;
    if (lull_metrics_names_open(NULL, &names, &err) < 0)
        return -1;
    reader = lull_metrics_reader_create(&names);
    return reader != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    lull_metrics_reader_destroy(reader);
    lull_metrics_names_close(&names);
    return 0;
}

/* Reads a page 100 ms after the one before. */
static int read_page(const char *page)
{
    now_ns += 100 * ms;
    err = (struct lull_error){0};
    return lull_metrics_reader_read(reader, page, strlen(page), now_ns, wall_s, &result, &err);
}

static void read_good(const char *page)
{
    if (read_page(page) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(result.reading.time_ns, now_ns);
}

/* Returns the sentence of this kind and quantity, or NULL. */
static const char *find_note(enum lull_metrics_note_kind kind, enum lull_metrics_quantity quantity)
{
    for (uint32_t i = 0; i < result.note_count; i++)
        if (result.notes[i].kind == kind && result.notes[i].quantity == quantity)
            return result.notes[i].text;
    return NULL;
}

static void expect_note(enum lull_metrics_note_kind kind, enum lull_metrics_quantity quantity,
                        const char *text)
{
    const char *const note = find_note(kind, quantity);

    if (note == NULL)
        fail_msg("no note: %s", text);
    assert_string_equal(note, text);
}

static void expect_no_notes(void)
{
    if (result.note_count > 0)
        fail_msg("%s", result.notes[0].text);
}

static void expect_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9))
        fail_msg("%.9g instead of %.9g", value, expected);
}

/* ---- kinds of servers ---------------------------------------------------------------------- */

#define VLLM_COUNTS                                                                                \
    "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 4.0\n"                               \
    "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 2.0\n"                               \
    "vllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 1000.0\n"                             \
    "vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 500.0\n"                          \
    "vllm:request_success_total{engine=\"0\",finished_reason=\"stop\",model_name=\"m\"} 20.0\n"    \
    "vllm:request_success_total{engine=\"0\",finished_reason=\"length\",model_name=\"m\"} 5.0\n"   \
    "vllm:iteration_tokens_total_bucket{engine=\"0\",le=\"+Inf\",model_name=\"m\"} 300.0\n"        \
    "vllm:iteration_tokens_total_count{engine=\"0\",model_name=\"m\"} 300.0\n"                     \
    "vllm:iteration_tokens_total_sum{engine=\"0\",model_name=\"m\"} 1500.0\n"                      \
    "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.1\",model_name=\"m\"} 10.0\n"     \
    "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.5\",model_name=\"m\"} 24.0\n"     \
    "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\",model_name=\"m\"} 25.0\n"    \
    "vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"m\"} 25.0\n"                 \
    "vllm:time_to_first_token_seconds_sum{engine=\"0\",model_name=\"m\"} 6.5\n"                    \
    "vllm:time_to_first_token_seconds_created{engine=\"0\",model_name=\"m\"} 1.7e9\n"

#define VLLM_TPOT                                                                                  \
    "vllm:request_time_per_output_token_seconds_bucket{le=\"0.05\"} 20\n"                          \
    "vllm:request_time_per_output_token_seconds_bucket{le=\"+Inf\"} 25\n"                          \
    "vllm:request_time_per_output_token_seconds_sum 1\n"

#define VLLM_V1                                                                                    \
    VLLM_COUNTS VLLM_TPOT "vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n"                          \
                          "vllm:inter_token_latency_seconds_bucket{le=\"0.025\"} 400\n"            \
                          "vllm:inter_token_latency_seconds_bucket{le=\"+Inf\"} 475\n"             \
                          "vllm:inter_token_latency_seconds_sum 12.5\n"

#define VLLM_V0                                                                                    \
    VLLM_COUNTS "vllm:gpu_cache_usage_perc 0.25\n"                                                 \
                "vllm:time_per_output_token_seconds_bucket{le=\"0.025\"} 400\n"                    \
                "vllm:time_per_output_token_seconds_bucket{le=\"+Inf\"} 475\n"                     \
                "vllm:time_per_output_token_seconds_sum 12.5\n"

static void expect_vllm(void)
{
    const struct lull_serving_reading *const r = &result.reading;

    assert_string_equal(result.engine, "vLLM");
    assert_false(r->is_restarted);
    assert_false(result.is_lagging);
    expect_near(r->running, 4.0);
    expect_near(r->waiting, 2.0);
    expect_near(r->cache_ratio, 0.25);
    expect_near(r->prompt_tokens, 1000.0);
    expect_near(r->output_tokens, 500.0);
    expect_near(r->finished, 25.0);
    expect_near(r->steps, 300.0);
    assert_int_equal(r->ttft.count, 3);
    expect_near(r->ttft.bound_s[0], 0.1);
    assert_true(isinf(r->ttft.bound_s[2]));
    expect_near(r->ttft.total[1], 24.0);
    expect_near(r->ttft.total[2], 25.0);
    expect_near(r->ttft.sum_s, 6.5);
    assert_int_equal(r->itl.count, 2);
    expect_near(r->itl.total[0], 400.0);
}

static void test_vllm(void **state)
{
    (void)state;
    read_good(VLLM_V1);
    expect_vllm();
    expect_near(result.reading.tpot.total[0], 20.0);
    expect_no_notes();
}

static void test_vllm_v0(void **state)
{
    (void)state;
    read_good(VLLM_V0);
    expect_vllm();
    assert_true(result.reading.tpot.is_upper);
    for (int i = 0; i < 51; i++)
        read_good(VLLM_V0);
    expect_note(LULL_METRICS_NOTE_MISSING, LULL_METRICS_TPOT,
                "vllm:request_time_per_output_token_seconds is not on the page of vLLM: TPOT is "
                "judged by the time between tokens: a request with one late token counts as "
                "missed, so more count than miss");
}

/* Requests that a page shows above a time. */
static double count_above(const struct lull_serving_histogram *histogram, double time_s)
{
    const int within = lull_serving_bucket_within(histogram, time_s);

    assert_true(within >= 0);
    expect_near(histogram->bound_s[within], time_s);
    return histogram->total[histogram->count - 1] - histogram->total[within];
}

/* A page of vLLM 0.8 after one request of 41 tokens in 2 s, and another one of 81 tokens in 8 s. */
static void write_ends(char *page, size_t size, int ended)
{
    const int slow = ended > 1;

    snprintf(page, size,
             "vllm:num_requests_running 2\n"
             "vllm:num_requests_waiting 0\n"
             "vllm:generation_tokens_total %d\n"
             "vllm:request_success_total{finished_reason=\"stop\"} %d\n"
             "vllm:request_decode_time_seconds_bucket{le=\"5.0\"} %d\n"
             "vllm:request_decode_time_seconds_bucket{le=\"+Inf\"} %d\n"
             "vllm:request_decode_time_seconds_sum %d\n"
             "vllm:e2e_request_latency_seconds_bucket{le=\"+Inf\"} %d\n"
             "vllm:request_generation_tokens_bucket{le=\"50.0\"} %d\n"
             "vllm:request_generation_tokens_bucket{le=\"+Inf\"} %d\n"
             "vllm:request_generation_tokens_sum %d\n"
             "vllm:request_queue_time_seconds_bucket{le=\"0.3\"} %d\n"
             "vllm:request_queue_time_seconds_bucket{le=\"+Inf\"} %d\n"
             "vllm:request_queue_time_seconds_sum %g\n"
             "vllm:request_prefill_time_seconds_bucket{le=\"0.3\"} %d\n"
             "vllm:request_prefill_time_seconds_bucket{le=\"+Inf\"} %d\n"
             "vllm:request_prefill_time_seconds_sum %g\n",
             41 * ended + 40 * slow, ended, ended - slow, ended, 2 * ended + 6 * slow, ended,
             ended - slow, ended, 41 * ended + 40 * slow, ended - slow, ended,
             0.1 * ended + 0.8 * slow, ended, ended, 0.2 * ended);
}

/* Times and lengths of requests that ended stand in for TPOT, those before the first token for
 * TTFT. */
static void test_stand_ins(void **state)
{
    char page[4096];

    (void)state;
    for (int ended = 0; ended < 3; ended++) {
        write_ends(page, sizeof(page), ended);
        read_good(page);
        assert_false(result.reading.is_restarted);
    }
    expect_near(count_above(&result.reading.tpot, 0.04), 2.0);
    expect_near(count_above(&result.reading.tpot, 0.06), 1.0);
    expect_near(count_above(&result.reading.tpot, 0.125), 0.0);
    expect_near(count_above(&result.reading.ttft, 0.25), 2.0);
    expect_near(count_above(&result.reading.ttft, 0.5), 1.0);
    expect_near(count_above(&result.reading.ttft, 1.5), 0.0);
    for (int i = 0; i < 60; i++)
        read_good(page);
    expect_note(LULL_METRICS_NOTE_MISSING, LULL_METRICS_TPOT,
                "vllm:request_time_per_output_token_seconds is not on the page of vLLM: TPOT is "
                "judged by the times and lengths of requests that ended, which do not pair up, so "
                "more requests count as missed than miss");
    expect_note(LULL_METRICS_NOTE_MISSING, LULL_METRICS_TTFT,
                "vllm:time_to_first_token_seconds is not on the page of vLLM: TTFT is judged by "
                "the times in the queue and in prefill, which do not pair up, so more requests "
                "count as missed than miss; the time before the queue is not in them; start vLLM "
                "without --disable-log-stats");
    /* The histogram itself is another count. */
    strncat(page, VLLM_TPOT, sizeof(page) - strlen(page) - 1);
    read_good(page);
    assert_true(result.reading.is_restarted);
    assert_false(result.reading.tpot.is_upper);
    /* And so is the stand-in once it has vanished. */
    write_ends(page, sizeof(page), 2);
    read_good(page);
    assert_true(result.reading.is_restarted);
    assert_true(result.reading.tpot.is_upper);
}

static void test_sglang(void **state)
{
    static const char page[] =
        "sglang:num_running_reqs{model_name=\"m\",tp_rank=\"0\"} 3\n"
        "sglang:num_running_reqs{model_name=\"m\",tp_rank=\"1\"} 3\n"
        "sglang:num_running_reqs{model_name=\"m\",dp_rank=\"1\",tp_rank=\"2\"} 5\n"
        "sglang:num_queue_reqs{model_name=\"m\"} 1\n"
        "sglang:token_usage{model_name=\"m\",dp_rank=\"0\"} 0.1\n"
        "sglang:token_usage{model_name=\"m\",dp_rank=\"1\"} 0.3\n"
        "sglang:realtime_tokens_total{mode=\"prefill_compute\"} 700\n"
        "sglang:realtime_tokens_total{mode=\"prefill_cache\"} 90\n"
        "sglang:realtime_tokens_total{mode=\"decode\"} 80\n"
        "sglang:prompt_tokens_total 600\n"
        "sglang:generation_tokens_total 70\n"
        "sglang:num_requests_total 9\n"
        "sglang:time_to_first_token_seconds_bucket{le=\"0.4\"} 8\n"
        "sglang:time_to_first_token_seconds_bucket{le=\"+Inf\"} 10\n"
        "sglang:time_to_first_token_seconds_count 10\n"
        "sglang:time_to_first_token_seconds_sum 2\n"
        "sglang:inter_token_latency_seconds_bucket{le=\"0.02\"} 60\n"
        "sglang:inter_token_latency_seconds_bucket{le=\"+Inf\"} 65\n"
        "sglang:inter_token_latency_seconds_count 65\n"
        "sglang:inter_token_latency_seconds_sum 1.5\n";
    char underscores[sizeof(page)];

    (void)state;
    memcpy(underscores, page, sizeof(page));
    for (char *c = underscores; *c != '\0'; c++)
        *c = *c == ':' ? '_' : *c;
    for (int i = 0; i < 2; i++) {
        read_good(i == 0 ? page : underscores);
        assert_string_equal(result.engine, "SGLang");
        expect_near(result.reading.running, 8.0);
        expect_near(result.reading.waiting, 1.0);
        expect_near(result.reading.cache_ratio, 0.3);
        expect_near(result.reading.prompt_tokens, 700.0);
        expect_near(result.reading.output_tokens, 75.0);
        expect_near(result.reading.finished, 9.0);
        assert_int_equal(result.reading.ttft.count, 2);
        assert_int_equal(result.reading.itl.count, 2);
        assert_true(isnan(result.reading.steps));
        expect_note(LULL_METRICS_NOTE_MISSING, LULL_METRICS_STEPS,
                    "SGLang has no metric of steps of the engine: the time of a step is estimated "
                    "from tokens");
    }
}

static void test_tensorrt_llm(void **state)
{
    (void)state;
    read_good("trtllm_num_requests_running{model_name=\"m\"} 7\n"
              "trtllm_num_requests_waiting 3\n"
              "trtllm_kv_cache_utilization 0.5\n"
              "trtllm_prompt_tokens_total 100\n"
              "trtllm_generation_tokens_total 50\n"
              "trtllm_request_success_total{finished_reason=\"stop\"} 2\n"
              "trtllm_time_to_first_token_seconds_bucket{le=\"+Inf\"} 2\n"
              "trtllm_time_to_first_token_seconds_sum 0.5\n"
              "trtllm_time_per_output_token_seconds_bucket{le=\"+Inf\"} 2\n"
              "trtllm_time_per_output_token_seconds_sum 0.05\n");
    assert_string_equal(result.engine, "TensorRT-LLM");
    expect_near(result.reading.running, 7.0);
    expect_near(result.reading.tpot.total[0], 2.0);
}

static void test_triton(void **state)
{
    (void)state;
    read_good(
        "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"scheduled\"} 9\n"
        "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"active\"} 6\n"
        "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"waiting\"} 1\n"
        "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\"} 0.75\n"
        "nv_trt_llm_general_metrics{general_type=\"iteration_counter\"} 55\n"
        "nv_inference_request_success{model=\"ensemble\"} 12\n"
        "nv_inference_request_success{model=\"tensorrt_llm\"} 11\n"
        "nv_inference_first_response_histogram_ms_bucket{model=\"tensorrt_llm\",le=\"100\"} 8\n"
        "nv_inference_first_response_histogram_ms_bucket{model=\"tensorrt_llm\",le=\"+Inf\"} 11\n"
        "nv_inference_first_response_histogram_ms_sum{model=\"tensorrt_llm\"} 900\n");
    assert_string_equal(result.engine, "Triton with TensorRT-LLM");
    expect_near(result.reading.running, 6.0);
    expect_near(result.reading.waiting, 1.0);
    expect_near(result.reading.cache_ratio, 0.75);
    expect_near(result.reading.steps, 55.0);
    expect_near(result.reading.finished, 11.0);
    expect_near(result.reading.ttft.bound_s[0], 0.1);
    expect_near(result.reading.ttft.sum_s, 0.9);
}

static void test_tgi(void **state)
{
    (void)state;
    read_good("tgi_batch_current_size 4\n"
              "tgi_queue_size 7\n"
              "tgi_request_input_length_sum 800\n"
              "tgi_request_generated_tokens_sum 400\n"
              "tgi_request_success 10\n"
              "tgi_batch_inference_count{method=\"prefill\"} 10\n"
              "tgi_batch_inference_count{method=\"decode\"} 90\n"
              "tgi_request_mean_time_per_token_duration_bucket{le=\"0.1\"} 9\n"
              "tgi_request_mean_time_per_token_duration_bucket{le=\"+Inf\"} 10\n"
              "tgi_request_mean_time_per_token_duration_sum 0.5\n");
    assert_string_equal(result.engine, "TGI");
    expect_near(result.reading.steps, 100.0);
    expect_near(result.reading.output_tokens, 400.0);
    expect_near(result.reading.tpot.total[0], 9.0);
    expect_note(LULL_METRICS_NOTE_MISSING, LULL_METRICS_TTFT,
                "TGI has no metric of the time to first token: misses of a TTFT bound cannot be "
                "counted, so an objective with ttft keeps the highest clock while requests run");
}

static void test_llama_cpp(void **state)
{
    (void)state;
    read_good("llamacpp:requests_processing 1\n"
              "llamacpp:requests_deferred 3\n"
              "llamacpp:prompt_tokens_total 16185\n"
              "llamacpp:tokens_predicted_total 394\n"
              "llamacpp:n_decode_total 125\n");
    assert_string_equal(result.engine, "llama.cpp");
    expect_near(result.reading.waiting, 3.0);
    expect_near(result.reading.steps, 125.0);
    assert_true(isnan(result.reading.finished));
    expect_note(LULL_METRICS_NOTE_MISSING, LULL_METRICS_FINISHED,
                "llama.cpp has no metric of finished requests: energy per request stays unknown");
    expect_note(LULL_METRICS_NOTE_MISSING, LULL_METRICS_TPOT,
                "llama.cpp has no metric of the time per output token: misses of a TPOT bound "
                "cannot be counted, so an objective with tpot keeps the highest clock while "
                "requests run");
    expect_note(LULL_METRICS_NOTE_MISSING, LULL_METRICS_ITL,
                "llama.cpp has no metric of the time between tokens: the time of single tokens "
                "stays unknown");
}

static void test_dynamo(void **state)
{
    (void)state;
    read_good("dynamo_frontend_active_requests 10\n"
              "dynamo_frontend_stage_requests{stage=\"preprocess\"} 1\n"
              "dynamo_frontend_stage_requests{stage=\"route\"} 3\n"
              "dynamo_frontend_inflight_requests{model=\"m\"} 10\n"
              "dynamo_frontend_input_sequence_tokens_sum{model=\"m\"} 800\n"
              "dynamo_frontend_output_tokens_total{model=\"m\"} 300\n"
              "dynamo_frontend_output_sequence_tokens_sum{model=\"m\"} 200\n"
              "dynamo_frontend_requests_total{model=\"m\"} 40\n");
    assert_string_equal(result.engine, "Dynamo");
    expect_near(result.reading.running, 7.0);
    expect_near(result.reading.waiting, 3.0);
    expect_near(result.reading.output_tokens, 300.0);
}

/* ---- sums ---------------------------------------------------------------------------------- */

static void test_sums(void **state)
{
    (void)state;
    read_good("vllm:num_requests_running{engine=\"0\"} 4\n"
              "vllm:num_requests_running{engine=\"1\"} 3\n"
              "vllm:num_requests_running{engine=\"1\"} 3\n" /* twice the same line */
              "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.1\"} 1\n"
              "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.2\"} 2\n"
              "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\"} 3\n"
              "vllm:time_to_first_token_seconds_sum{engine=\"0\"} 1\n"
              "vllm:time_to_first_token_seconds_sum{engine=\"1\"} 2\n"
              "vllm:time_to_first_token_seconds_bucket{engine=\"1\",le=\"0.2\"} 20\n"
              "vllm:time_to_first_token_seconds_bucket{engine=\"1\",le=\"+Inf\"} 30\n");
    expect_near(result.reading.running, 7.0);
    assert_true(isnan(result.reading.waiting));
    /* The bound 0.1 is of one engine only. */
    assert_int_equal(result.reading.ttft.count, 2);
    expect_near(result.reading.ttft.bound_s[0], 0.2);
    expect_near(result.reading.ttft.total[0], 22.0);
    expect_near(result.reading.ttft.total[1], 33.0);
    expect_near(result.reading.ttft.sum_s, 3.0);
}

/* Zero is a value; of the ranks of one replica one counts. */
static void test_zero_and_copies(void **state)
{
    (void)state;
    read_good("sglang:num_running_reqs{tp_rank=\"0\"} 0\nsglang:num_running_reqs{tp_rank=\"1\"} 0\n"
              "sglang:num_queue_reqs 0\n"
              "sglang:time_to_first_token_seconds_bucket{tp_rank=\"0\",le=\"0.1\"} 0\n"
              "sglang:time_to_first_token_seconds_bucket{tp_rank=\"0\",le=\"+Inf\"} 4\n"
              "sglang:time_to_first_token_seconds_sum{tp_rank=\"0\"} 2\n"
              "sglang:time_to_first_token_seconds_bucket{tp_rank=\"1\",le=\"0.1\"} 0\n"
              "sglang:time_to_first_token_seconds_bucket{tp_rank=\"1\",le=\"+Inf\"} 4\n"
              "sglang:time_to_first_token_seconds_sum{tp_rank=\"1\"} 2\n");
    expect_near(result.reading.running, 0.0);
    expect_near(result.reading.waiting, 0.0);
    assert_int_equal(result.reading.ttft.count, 2);
    expect_near(result.reading.ttft.total[0], 0.0);
    expect_near(result.reading.ttft.total[1], 4.0);
    expect_near(result.reading.ttft.sum_s, 2.0);
}

/* The kind of the server stays while its load is on the page. */
static void test_two_servers(void **state)
{
    (void)state;
    read_good("vllm:num_requests_running 1\n");
    read_good("vllm:num_requests_running 1\ntgi_batch_current_size 1\ntgi_queue_size 2\n");
    assert_string_equal(result.engine, "vLLM");
    assert_false(result.reading.is_restarted);
    read_good("vllm:num_requests_waiting 1\ntgi_batch_current_size 1\ntgi_queue_size 2\n");
    assert_string_equal(result.engine, "TGI");
    assert_true(result.reading.is_restarted);
}

/* More series than can be compared with the page before: all are counted. */
static void test_many_series(void **state)
{
    enum { SERIES = 5000, LINE_BYTES = 64 };
    char *const page = malloc(SERIES * LINE_BYTES);
    size_t used = 0;

    (void)state;
    for (int i = 0; i < SERIES; i++)
        used += (size_t)sprintf(page + used, "vllm:num_requests_running{engine=\"%d\"} 1\n", i);
    for (int i = 0; i < 2; i++) {
        read_good(page);
        expect_near(result.reading.running, SERIES);
    }
    free(page);
}

static void test_many_buckets(void **state)
{
    static char page[16384];
    size_t used = (size_t)sprintf(page, "vllm:num_requests_running 1\n");

    (void)state;
    for (int i = 1; i <= 150; i++)
        used += (size_t)sprintf(page + used,
                                "vllm:time_to_first_token_seconds_bucket{le=\"%d\"} %d\n", i, i);
    sprintf(page + used, "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 200\n");
    read_good(page);
    assert_int_equal(result.reading.ttft.count, LULL_SERVING_BUCKETS);
    for (uint32_t i = 0; i + 1 < LULL_SERVING_BUCKETS; i++)
        expect_near(result.reading.ttft.total[i], (double)i + 1.0);
    expect_near(result.reading.ttft.total[LULL_SERVING_BUCKETS - 1], 200.0);
}

/* ---- changes ------------------------------------------------------------------------------- */

static void test_reset(void **state)
{
    (void)state;
    read_good("vllm:num_requests_running 1\nvllm:generation_tokens_total{engine=\"0\"} 100\n"
              "vllm:generation_tokens_total{engine=\"1\"} 50\n");
    /* The sum rises although one engine began again. */
    read_good("vllm:num_requests_running 1\nvllm:generation_tokens_total{engine=\"0\"} 160\n"
              "vllm:generation_tokens_total{engine=\"1\"} 2\n");
    assert_true(result.reading.is_restarted);
    expect_note(LULL_METRICS_NOTE_RESET, LULL_METRICS_OUTPUT_TOKENS,
                "vllm:generation_tokens_total fell from 50 to 2: counting begins again");
    read_good("vllm:num_requests_running 1\nvllm:generation_tokens_total{engine=\"0\"} 161\n"
              "vllm:generation_tokens_total{engine=\"1\"} 3\n");
    assert_false(result.reading.is_restarted);
    /* An engine leaves the page, and comes back. */
    read_good("vllm:num_requests_running 1\nvllm:generation_tokens_total{engine=\"1\"} 4\n");
    assert_true(result.reading.is_restarted);
    expect_note(LULL_METRICS_NOTE_RESET, LULL_METRICS_OUTPUT_TOKENS,
                "vllm:generation_tokens_total fell from 164 to 4: counting begins again");
    read_good("vllm:num_requests_running 1\nvllm:generation_tokens_total{engine=\"0\"} 170\n"
              "vllm:generation_tokens_total{engine=\"1\"} 5\n");
    assert_true(result.reading.is_restarted);
    expect_note(LULL_METRICS_NOTE_RESET, LULL_METRICS_OUTPUT_TOKENS,
                "vllm:generation_tokens_total came back to the page: counting begins again");
}

static void test_one_note_of_a_reset(void **state)
{
    (void)state;
    read_good("vllm:num_requests_running 1\nvllm:generation_tokens_total 9\n"
              "vllm:prompt_tokens_total 9\n");
    read_good("vllm:num_requests_running 1\nvllm:generation_tokens_total 8\n"
              "vllm:prompt_tokens_total 8\n");
    assert_true(result.reading.is_restarted);
    assert_non_null(find_note(LULL_METRICS_NOTE_RESET, LULL_METRICS_PROMPT_TOKENS));
    assert_null(find_note(LULL_METRICS_NOTE_RESET, LULL_METRICS_OUTPUT_TOKENS));
}

static void test_histogram_reset(void **state)
{
    (void)state;
    read_good("vllm:num_requests_running 1\n"
              "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 9\n");
    read_good("vllm:num_requests_running 1\n"
              "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 8\n");
    assert_true(result.reading.is_restarted);
    expect_note(LULL_METRICS_NOTE_RESET, LULL_METRICS_TTFT,
                "vllm:time_to_first_token_seconds fell from 9 to 8: counting begins again");
}

static void test_restart(void **state)
{
    (void)state;
    read_good(VLLM_V1 "process_start_time_seconds 1.7e9\n");
    assert_false(result.reading.is_restarted);
    read_good(VLLM_V1 "process_start_time_seconds 1.70000005e9\n");
    assert_true(result.reading.is_restarted);
    expect_note(LULL_METRICS_NOTE_RESTART, LULL_METRICS_RUNNING,
                "vLLM restarted (process_start_time_seconds changed): counting begins again");
    read_good(VLLM_V1 "process_start_time_seconds 1.70000005e9\n");
    assert_false(result.reading.is_restarted);
}

static void test_other_server(void **state)
{
    (void)state;
    read_good(VLLM_V1);
    read_good("llamacpp:requests_processing 1\nllamacpp:n_decode_total 5\n");
    assert_true(result.reading.is_restarted);
    expect_note(LULL_METRICS_NOTE_RESTART, LULL_METRICS_RUNNING,
                "the page is now of llama.cpp, it was of vLLM: counting begins again");
}

static void test_vanished(void **state)
{
    (void)state;
    read_good(VLLM_V1);
    read_good("vllm:num_requests_running 3\n" VLLM_TPOT);
    assert_true(isnan(result.reading.waiting));
    assert_true(isnan(result.reading.output_tokens));
    assert_int_equal(result.reading.ttft.count, 0);
    expect_note(LULL_METRICS_NOTE_VANISHED, LULL_METRICS_WAITING,
                "vllm:num_requests_waiting vanished from the page of vLLM: a growing queue is seen "
                "only by its effect on TTFT");
    expect_note(LULL_METRICS_NOTE_VANISHED, LULL_METRICS_CACHE,
                "vllm:kv_cache_usage_perc vanished from the page of vLLM: a full cache is seen "
                "only when requests wait");
    expect_note(LULL_METRICS_NOTE_VANISHED, LULL_METRICS_PROMPT_TOKENS,
                "vllm:prompt_tokens_total vanished from the page of vLLM: prefill and decode "
                "cannot be distinguished");
    expect_note(LULL_METRICS_NOTE_VANISHED, LULL_METRICS_OUTPUT_TOKENS,
                "vllm:generation_tokens_total vanished from the page of vLLM: energy per token "
                "stays unknown");
    expect_note(LULL_METRICS_NOTE_VANISHED, LULL_METRICS_FINISHED,
                "vllm:request_success_total vanished from the page of vLLM: energy per request "
                "stays unknown");
    expect_note(LULL_METRICS_NOTE_VANISHED, LULL_METRICS_STEPS,
                "vllm:iteration_tokens_total_count vanished from the page of vLLM: the time of a "
                "step is estimated from tokens");
    expect_note(LULL_METRICS_NOTE_VANISHED, LULL_METRICS_TTFT,
                "vllm:time_to_first_token_seconds vanished from the page of vLLM: misses of a TTFT "
                "bound cannot be counted, so an objective with ttft keeps the highest clock while "
                "requests run");
    assert_null(find_note(LULL_METRICS_NOTE_VANISHED, LULL_METRICS_ITL)); /* there is TPOT */

    read_good("vllm:num_requests_waiting 0\n");
    assert_true(isnan(result.reading.running));
    expect_note(LULL_METRICS_NOTE_VANISHED, LULL_METRICS_RUNNING,
                "vllm:num_requests_running vanished from the page of vLLM: the load is unknown, so "
                "no clock is lowered by load");

    assert_int_equal(read_page("go_goroutines 5\n"), -ENODATA);
    assert_string_equal(err.text, "all metrics of vLLM vanished from the page");
    read_good(VLLM_V1);
    assert_true(result.reading.is_restarted);
}

/* Metrics that appear with the first request are not missing before it. */
static void test_late_metrics(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        read_good("tgi_batch_current_size 0\ntgi_queue_size 0\n");
    assert_null(find_note(LULL_METRICS_NOTE_MISSING, LULL_METRICS_TPOT));
    for (int i = 0; i < 45; i++) {
        char page[200];

        snprintf(page, sizeof(page),
                 "tgi_batch_current_size 1\ntgi_queue_size 0\ntgi_batch_inference_count %d\n", i);
        read_good(page);
    }
    assert_null(find_note(LULL_METRICS_NOTE_MISSING, LULL_METRICS_TPOT));
    for (int i = 0; i < 10; i++)
        read_good("tgi_batch_current_size 0\ntgi_queue_size 0\ntgi_batch_inference_count 50\n");
    expect_note(LULL_METRICS_NOTE_MISSING, LULL_METRICS_TPOT,
                "tgi_request_mean_time_per_token_duration is not on the page of TGI: misses of a "
                "TPOT bound cannot be counted, so an objective with tpot keeps the highest clock "
                "while requests run");
}

static void test_hints(void **state)
{
    (void)state;
    for (int i = 0; i < 70; i++)
        read_good("trtllm_num_requests_running 1\n");
    expect_note(LULL_METRICS_NOTE_MISSING, LULL_METRICS_TTFT,
                "trtllm_time_to_first_token_seconds is not on the page of TensorRT-LLM: misses of "
                "a TTFT bound cannot be counted, so an objective with ttft keeps the highest clock "
                "while requests run; start trtllm-serve with return_perf_metrics: true");
    read_good("vllm:num_requests_waiting 0\n");
    expect_note(LULL_METRICS_NOTE_MISSING, LULL_METRICS_RUNNING,
                "vllm:num_requests_running is not on the page of vLLM: the load is unknown, so no "
                "clock is lowered by load; start vLLM without --disable-log-stats");
}

static void test_renamed(void **state)
{
    (void)state;
    read_good("vllm:num_requests_running 1\nvllm:gpu_cache_usage_perc 0.1\n"
              "vllm:time_per_output_token_seconds_bucket{le=\"+Inf\"} 5\n");
    read_good("vllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0.1\n"
              "vllm:time_per_output_token_seconds_bucket{le=\"+Inf\"} 5\n");
    assert_false(result.reading.is_restarted); /* a gauge has no differences */
    expect_note(LULL_METRICS_NOTE_RENAMED, LULL_METRICS_CACHE,
                "vllm:kv_cache_usage_perc replaces vllm:gpu_cache_usage_perc on the page");
    read_good("vllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0.1\n"
              "vllm:inter_token_latency_seconds_bucket{le=\"+Inf\"} 5\n");
    assert_true(result.reading.is_restarted);
    expect_note(LULL_METRICS_NOTE_RENAMED, LULL_METRICS_ITL,
                "vllm:inter_token_latency_seconds replaces vllm:time_per_output_token_seconds on "
                "the page");
}

static void test_other_buckets(void **state)
{
    (void)state;
    read_good("vllm:num_requests_running 1\n"
              "vllm:time_to_first_token_seconds_bucket{le=\"0.5\"} 5\n"
              "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 5\n");
    read_good("vllm:num_requests_running 1\n"
              "vllm:time_to_first_token_seconds_bucket{le=\"0.25\"} 5\n"
              "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 6\n");
    assert_true(result.reading.is_restarted);
    expect_note(LULL_METRICS_NOTE_BUCKETS, LULL_METRICS_TTFT,
                "the buckets of vllm:time_to_first_token_seconds changed: counting begins again");
}

static void test_impossible_values(void **state)
{
    (void)state;
    read_good("vllm:num_requests_running NaN\nvllm:num_requests_waiting -5\n"
              "vllm:kv_cache_usage_perc 1.5\n"
              "vllm:time_to_first_token_seconds_bucket{le=\"0.5\"} 7\n"
              "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 6\n"
              "vllm:inter_token_latency_seconds_bucket{le=\"0.5\"} 7\n"
              "vllm:request_time_per_output_token_seconds_bucket{le=\"x\"} 7\n");
    assert_true(isnan(result.reading.running));
    assert_true(isnan(result.reading.waiting));
    expect_near(result.reading.cache_ratio, 1.0);
    assert_int_equal(result.reading.ttft.count, 0);
    assert_int_equal(result.reading.tpot.count, 0);
    assert_int_equal(result.reading.itl.count, 0);
    expect_note(LULL_METRICS_NOTE_VALUE, LULL_METRICS_RUNNING,
                "vllm:num_requests_running has the value nan, which is impossible: the load is "
                "unknown, so no clock is lowered by load");
    expect_note(LULL_METRICS_NOTE_VALUE, LULL_METRICS_WAITING,
                "vllm:num_requests_waiting has the value -5, which is impossible: a growing queue "
                "is seen only by its effect on TTFT");
    expect_note(LULL_METRICS_NOTE_VALUE, LULL_METRICS_TTFT,
                "the buckets of vllm:time_to_first_token_seconds do not rise up to +Inf, which is "
                "impossible: misses of a TTFT bound cannot be counted, so an objective with "
                "ttft keeps the highest clock while requests run");
    assert_non_null(find_note(LULL_METRICS_NOTE_VALUE, LULL_METRICS_ITL));
    assert_non_null(find_note(LULL_METRICS_NOTE_VALUE, LULL_METRICS_TPOT));
}

/* ---- old pages ----------------------------------------------------------------------------- */

static const char *page_at(int number, int running)
{
    static char page[512];
    static int total;

    /* What does not belong to the server may change. */
    snprintf(page, sizeof(page),
             "vllm:num_requests_running %d\nvllm:num_requests_waiting 0\n"
             "vllm:generation_tokens_total %d\nproxy_requests_total %d\n",
             running, number, total++);
    return page;
}

static void test_lag(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        read_good(page_at(i, 4));
        assert_false(result.is_lagging);
    }
    /* Pauses of nearly 3 s are possible. */
    for (int i = 0; i < 29; i++) {
        read_good(page_at(100, 4));
        assert_false(result.is_lagging);
    }
    /* A cache serves each page for 15 s. */
    for (int page = 0; page < 3; page++) {
        for (int i = 0; i < 150; i++) {
            read_good(page_at(200 + page, 4));
            assert_int_equal(result.is_lagging, page > 0 || i >= 30);
        }
    }
    expect_note(
        LULL_METRICS_NOTE_LAG, LULL_METRICS_RUNNING,
        "the page is old: it did not change for over 3 s although requests run, so no clock is "
        "lowered by load; if the server does not hang, give its own address, without a "
        "cache in between");
    /* Without it, the doubt ends. */
    for (int i = 0; i < 160; i++)
        read_good(page_at(300 + i, 4));
    assert_false(result.is_lagging);
    /* An idle server stands still. */
    for (int i = 0; i < 200; i++)
        read_good(page_at(500, 0));
    assert_false(result.is_lagging);
}

/* A page that a Python server renders changes even if it is idle. */
static void test_idle_lag(void **state)
{
    char page[512];

    (void)state;
    for (int i = 0; i < 160; i++) {
        snprintf(page, sizeof(page),
                 "vllm:num_requests_running 0\npython_info{version=\"3\"} 1\n"
                 "process_cpu_seconds_total %d\n",
                 i < 80 ? i / 3 : 100);
        read_good(page);
        assert_int_equal(result.is_lagging, i >= 130);
    }
    expect_note(
        LULL_METRICS_NOTE_LAG, LULL_METRICS_RUNNING,
        "the page is old: it did not change for over 3 s although the server renders it, so "
        "no clock is lowered by load; if the server does not hang, give its own address, "
        "without a cache in between");
}

static void test_old_stamps(void **state)
{
    (void)state;
    read_good("vllm:num_requests_running 1 1700000099500\n");
    assert_false(result.is_lagging);
    read_good("vllm:num_requests_running 1 1700000085000\n");
    assert_true(result.is_lagging);
    expect_note(LULL_METRICS_NOTE_LAG, LULL_METRICS_RUNNING,
                "the samples of the page are 15 s old, so no clock is lowered by load; give the "
                "address of the server itself");
}

/* ---- pages that are not readable ------------------------------------------------------------ */

static void expect_refused(const char *page, int code, const char *text)
{
    assert_int_equal(read_page(page), code);
    assert_string_equal(err.text, text);
}

static void test_refused_pages(void **state)
{
    (void)state;
    expect_refused("", LULL_E_FORMAT, "the page is empty; does the server publish metrics?");
    expect_refused(" \n\n", LULL_E_FORMAT, "the page is empty; does the server publish metrics?");
    expect_refused("<!doctype html>\n", LULL_E_FORMAT,
                   "the page is HTML, not Prometheus' text format; give the address of the "
                   "metrics, such as http://localhost:8000/metrics");
    expect_refused("[{\"cpuMemUsage\": 0}]\n", LULL_E_FORMAT,
                   "the page is JSON, not Prometheus' text format; trtllm-serve has that at "
                   "/prometheus/metrics");
    expect_refused("{\"error\": {\"code\": 501}}\n", LULL_E_FORMAT,
                   "the page is not in Prometheus' text format: line 1 (no comma or brace after a "
                   "label); give the address of the server's metrics");
    expect_refused("# nothing\n", LULL_E_FORMAT,
                   "the page is not in Prometheus' text format: it has no sample; give the address "
                   "of the server's metrics");
    expect_refused("vllm:num_requests_running 1\nvllm:num_requ", LULL_E_FORMAT,
                   "the page ends inside a line: the answer is incomplete");
    expect_refused("go_goroutines 1\ngo_threads 2\n", -ENODATA,
                   "the page has 2 samples, the first of go_goroutines, but no metric that Lull "
                   "knows; give another address, or the names with --metric-names FILE");
}

static void test_bad_lines(void **state)
{
    (void)state;
    read_good("vllm:num_requests_running 1\nvllm:generation_tokens_total\n\xff\xfe 1\n"
              "vllm:num_requests_waiting 2\n");
    expect_near(result.reading.running, 1.0);
    expect_near(result.reading.waiting, 2.0);
    expect_note(LULL_METRICS_NOTE_BAD_LINE, LULL_METRICS_RUNNING,
                "invalid lines on the page: 2; the first is line 2 (no value); they are left out");
}

/* ---- names of the user --------------------------------------------------------------------- */

static void test_own_names(void **state)
{
    static const char text[] =
        "{\"engines\": [{\"engine\": \"own\", \"metrics\": ["
        "{\"quantity\": \"running\", \"name\": \"my_running\"},"
        "{\"quantity\": \"cache\", \"name\": \"my_cache_percent\", \"scale\": 0.01},"
        "{\"quantity\": \"finished\", \"name\": \"my_requests\", \"label\": \"code\", \"value\": "
        "\"200\"},"
        "{\"quantity\": \"itl\", \"name\": \"my_itl_ms\", \"scale\": 0.001}]}]}";
    struct lull_metrics_names own;
    struct lull_metrics_reader *const own_reader = reader;

    (void)state;
    assert_int_equal(lull_metrics_names_open(text_file(text, strlen(text)), &own, &err), 0);
    reader = lull_metrics_reader_create(&own);
    read_good(VLLM_V1
              "my_running 2\nmy_cache_percent 50\nmy_requests{code=\"200\"} 7\n"
              "my_requests{code=\"500\"} 1\n"
              "my_itl_ms_bucket{le=\"50\"} 4\nmy_itl_ms_bucket{le=\"+Inf\"} 5\nmy_itl_ms_sum 90\n");
    assert_string_equal(result.engine, "own");
    expect_near(result.reading.cache_ratio, 0.5);
    expect_near(result.reading.finished, 7.0);
    expect_near(result.reading.itl.bound_s[0], 0.05);
    expect_near(result.reading.itl.sum_s, 0.09);
    lull_metrics_reader_destroy(reader);
    reader = own_reader;
    lull_metrics_names_close(&own);
}

static void test_bad_names(void **state)
{
    static const struct {
        const char *text;
        const char *part;
    } cases[] = {
        {"{}", "no \"engines\""},
        {"[]", "expected an object"},
        {"{\"engines\": [{\"engine\": \"a\"}]}", "with \"metrics\""},
        {"{\"engines\": [{\"metrics\": [{\"quantity\": \"running\", \"name\": \"a\"}]}]}",
         "expected an \"engine\""},
        {"{\"engines\": [{\"engine\": \"a\", \"metrics\": [{\"quantity\": \"run\"}]}]}",
         "expected a quantity"},
        {"{\"engines\": [{\"engine\": \"a\", \"metrics\": [{\"quantity\": \"running\"}]}]}",
         "the \"name\""},
        {"{\"engines\": [{\"engine\": \"a\", \"metrics\": [{\"quantity\": \"ttft\", \"name\": "
         "\"b\", \"scale\": 0}]}]}",
         "\"scale\" above 0"},
        {"{\"engines\": [{\"engine\": \"a\", \"metrics\": [{\"quantity\": \"ttft\", \"name\": "
         "\"b\", \"label\": \"c\"}]}]}",
         "\"label\" and \"value\""},
        {"{\"engines\": [{\"engine\": \"a\", \"metrics\": [{\"quantity\": \"ttft\", \"name\": "
         "\"b\", \"less\": \"c\"}]}]}",
         "\"less\""},
        {"{\"engines\": [{\"engine\": \"a\", \"metrics\": {}}]}", "array of \"metrics\""},
    };
    struct lull_metrics_names own;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const path = text_file(cases[i].text, strlen(cases[i].text));

        assert_int_equal(lull_metrics_names_open(path, &own, &err), LULL_E_FORMAT);
        if (strstr(err.text, cases[i].part) == NULL || strstr(err.text, path) == NULL)
            fail_msg("%s", err.text);
    }
    assert_int_equal(lull_metrics_names_open("/nonexistent", &own, &err), -ENOENT);
}

/* The repository's own file is one that users may start from. */
static void test_data_file(void **state)
{
    struct lull_metrics_names own;
    const char *const path = *state;

    if (lull_metrics_names_open(path, &own, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(own.count, 2 * lull_metrics_engine_count);
    for (uint32_t i = 0; i < lull_metrics_engine_count; i++) {
        assert_string_equal(own.engines[i]->name, lull_metrics_engines[i].name);
        assert_int_equal(own.engines[i]->count, lull_metrics_engines[i].count);
        for (uint32_t k = 0; k < own.engines[i]->count; k++)
            assert_string_equal(own.engines[i]->names[k].name,
                                lull_metrics_engines[i].names[k].name);
    }
    lull_metrics_names_close(&own);
}

#define READS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        READS(test_vllm),
        READS(test_vllm_v0),
        READS(test_stand_ins),
        READS(test_sglang),
        READS(test_tensorrt_llm),
        READS(test_triton),
        READS(test_tgi),
        READS(test_llama_cpp),
        READS(test_dynamo),
        READS(test_sums),
        READS(test_zero_and_copies),
        READS(test_two_servers),
        READS(test_many_series),
        READS(test_many_buckets),
        READS(test_reset),
        READS(test_one_note_of_a_reset),
        READS(test_histogram_reset),
        READS(test_restart),
        READS(test_other_server),
        READS(test_vanished),
        READS(test_late_metrics),
        READS(test_hints),
        READS(test_renamed),
        READS(test_other_buckets),
        READS(test_impossible_values),
        READS(test_lag),
        READS(test_idle_lag),
        READS(test_old_stamps),
        READS(test_refused_pages),
        READS(test_bad_lines),
        READS(test_own_names),
        cmocka_unit_test(test_bad_names),
        cmocka_unit_test_prestate(test_data_file, argc > 1 ? argv[1] : NULL),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
