/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/play/server/page.h"

#include <inttypes.h>
#include <math.h>

struct page_writer {
    FILE *out;
    const char *model;
};

static void write_head(const struct page_writer *page, const char *name, const char *type,
                       const char *help)
{
    fprintf(page->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_labels(const struct page_writer *page)
{
    fprintf(page->out, "engine=\"0\",model_name=\"%s\"", page->model);
}

static void write_value(const struct page_writer *page, const char *name, const char *suffix,
                        double value)
{
    fprintf(page->out, "%s%s{", name, suffix);
    write_labels(page);
    fprintf(page->out, "} %.17g\n", value);
}

static void write_gauge(const struct page_writer *page, const char *name, const char *help,
                        double value)
{
    write_head(page, name, "gauge", help);
    write_value(page, name, "", value);
}

static void write_counter(const struct page_writer *page, const char *name, const char *help,
                          double value)
{
    write_head(page, name, "counter", help);
    write_value(page, name, "", value);
}

/* Writes a bound as Python does, which vLLM is written in: 1 is "1.0". */
static void write_bound(const struct page_writer *page, double bound)
{
    if (isinf(bound))
        fprintf(page->out, ",le=\"+Inf");
    else if (bound == floor(bound))
        fprintf(page->out, ",le=\"%.1f", bound);
    else
        fprintf(page->out, ",le=\"%.12g", bound);
}

static void write_buckets(const struct page_writer *page, const char *name, const char *help,
                          uint32_t count, const double *bounds, const uint64_t *totals, double sum)
{
    write_head(page, name, "histogram", help);
    for (uint32_t i = 0; i < count; i++) {
        fprintf(page->out, "%s_bucket{", name);
        write_labels(page);
        write_bound(page, bounds[i]);
        fprintf(page->out, "\"} %" PRIu64 "\n", totals[i]);
    }
    write_value(page, name, "_count", count > 0 ? (double)totals[count - 1] : 0);
    write_value(page, name, "_sum", sum);
}

static void write_histogram(const struct page_writer *page, const char *name, const char *help,
                            const struct lull_engine_histogram *histogram)
{
    write_buckets(page, name, help, histogram->count, histogram->bound_s, histogram->total,
                  histogram->sum_s);
}

static void write_ended(const struct page_writer *page,
                        const struct lull_model_server_page *content)
{
    const struct {
        const char *reason;
        uint64_t count;
    } rows[] = {
        {"stop", content->stopped},
        {"length", content->reading.engine.finished - content->stopped},
        {"abort", content->reading.cancelled},
    };

    write_head(page, "vllm:request_success_total", "counter",
               "Count of successfully processed requests.");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fprintf(page->out, "vllm:request_success_total{");
        write_labels(page);
        fprintf(page->out, ",finished_reason=\"%s\"} %" PRIu64 "\n", rows[i].reason, rows[i].count);
    }
}

static void write_counters(const struct page_writer *page,
                           const struct lull_engine_statistics *engine)
{

    write_gauge(page, "vllm:num_requests_running", "Number of requests in model execution batches.",
                engine->running);
    write_gauge(page, "vllm:num_requests_waiting", "Number of requests waiting to be processed.",
                engine->waiting);
    write_gauge(page, "vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
                engine->cache_ratio);
    write_counter(page, "vllm:prefix_cache_queries_total",
                  "Prefix cache queries, in terms of number of queried tokens.", 0);
    write_counter(page, "vllm:prefix_cache_hits_total",
                  "Prefix cache hits, in terms of number of cached tokens.", 0);
    write_counter(page, "vllm:num_preemptions_total",
                  "Cumulative number of preemption from the engine.", (double)engine->preempted);
    write_counter(page, "vllm:prompt_tokens_total", "Number of prefill tokens processed.",
                  (double)engine->prompt_tokens);
    write_counter(page, "vllm:generation_tokens_total", "Number of generation tokens processed.",
                  (double)engine->output_tokens);
}

static void write_histograms(const struct page_writer *page,
                             const struct lull_model_server_reading *reading)
{
    const struct lull_engine_statistics *const engine = &reading->engine;

    write_buckets(page, "vllm:iteration_tokens_total",
                  "Histogram of number of tokens per engine_step.", LULL_MODEL_SERVER_TOKEN_BUCKETS,
                  lull_model_server_token_bounds, reading->step_tokens.total,
                  reading->step_tokens.sum);
    write_histogram(page, "vllm:time_to_first_token_seconds",
                    "Histogram of time to first token in seconds.", &engine->ttft);
    write_histogram(page, "vllm:inter_token_latency_seconds",
                    "Histogram of inter-token latency in seconds.", &engine->itl);
    write_histogram(page, "vllm:request_time_per_output_token_seconds",
                    "Histogram of time_per_output_token_seconds per request.", &engine->tpot);
    write_histogram(page, "vllm:e2e_request_latency_seconds",
                    "Histogram of e2e request latency in seconds.", &engine->latency);
    write_histogram(page, "vllm:request_queue_time_seconds",
                    "Histogram of time spent in WAITING phase for request.", &engine->queue);
}

void lull_model_server_page_write(FILE *out, const struct lull_model_server_page *page)
{
    const struct page_writer writer = {out, page->model};

    write_head(&writer, "process_start_time_seconds", "gauge",
               "Start time of the process since unix epoch in seconds.");
    fprintf(out, "process_start_time_seconds %.3f\n", page->start_s);
    write_counters(&writer, &page->reading.engine);
    write_ended(&writer, page);
    write_histograms(&writer, &page->reading);
}
