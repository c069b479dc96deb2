/*
 * Bounds of missed requests against the true ones, on a server of this test's own: never fewer, and
 * where one request ends at a time exactly as many. SPDX-License-Identifier: Apache-2.0
 */
#include "governor/serving/latency_bound.h"

#include <string.h>

#include "../../core/property.h"

enum { REQUESTS = 200, BATCH = 12 };

static const double time_bounds_s[] = {0.05, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 5.0, 20.0, INFINITY};
static const double token_bounds_s[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.5, INFINITY};
static const double length_bounds[] = {1, 2, 5, 10, 20, 50, 100, 200, INFINITY};

struct request {
    double arrival_s;
    double begin_s; /* of prefill */
    double first_s;
    double last_s;
    double tokens;
    double made;
};

struct server {
    struct lull_request_times page;
    struct request requests[REQUESTS];
    uint32_t arrived;
    uint32_t begun;
    uint32_t running[BATCH];
    uint32_t running_count;
    /* of requests that ended */
    double tpot_s[REQUESTS];
    double ttft_s[REQUESTS];
    uint32_t tpots;
    uint32_t ttfts;
};

static void set_bounds(struct lull_serving_histogram *histogram, const double *bounds, size_t count)
{
    histogram->count = (uint32_t)count;
    memcpy(histogram->bound_s, bounds, count * sizeof(*bounds));
}

#define SET_BOUNDS(HISTOGRAM, BOUNDS)                                                              \
    set_bounds((HISTOGRAM), (BOUNDS), sizeof(BOUNDS) / sizeof((BOUNDS)[0]))

static void add_value(struct lull_serving_histogram *histogram, double value)
{
    histogram->sum_s += value;
    for (uint32_t i = 0; i < histogram->count; i++)
        histogram->total[i] += value <= histogram->bound_s[i] ? 1.0 : 0.0;
}

static void server_init(struct server *server, double rate, double tokens,
                        struct lull_random *random)
{
    double at_s = 0.0;

    *server = (struct server){0};
    SET_BOUNDS(&server->page.between, token_bounds_s);
    SET_BOUNDS(&server->page.decode, time_bounds_s);
    SET_BOUNDS(&server->page.answer, length_bounds);
    SET_BOUNDS(&server->page.queue, time_bounds_s);
    SET_BOUNDS(&server->page.prefill, time_bounds_s);
    for (int i = 0; i < REQUESTS; i++) {
        at_s -= log(1.0 - lull_random_uniform(random)) / rate;
        server->requests[i].arrival_s = at_s;
        server->requests[i].tokens = 1.0 - floor(tokens * log(1.0 - lull_random_uniform(random)));
    }
}

static void server_end_request(struct server *server, struct request *request)
{
    struct lull_request_times *const page = &server->page;

    page->finished++;
    add_value(&page->queue, request->begin_s - request->arrival_s);
    add_value(&page->prefill, request->first_s - request->begin_s);
    add_value(&page->decode, request->last_s - request->first_s);
    add_value(&page->answer, request->tokens);
    server->ttft_s[server->ttfts++] = request->first_s - request->arrival_s;
    if (request->tokens > 1.0)
        server->tpot_s[server->tpots++] =
            (request->last_s - request->first_s) / (request->tokens - 1.0);
}

/* One step from now_s on: each request gets a token. Returns the time at its end. */
static double server_step(struct server *server, double now_s, struct lull_random *random)
{
    double step_s = 0.005 + 0.04 * lull_random_uniform(random);
    uint32_t kept = 0;

    while (server->arrived < REQUESTS && server->requests[server->arrived].arrival_s <= now_s)
        server->arrived++;
    while (server->begun < server->arrived && server->running_count < BATCH) {
        server->requests[server->begun].begin_s = now_s;
        server->running[server->running_count++] = server->begun++;
        step_s += 0.1 * lull_random_uniform(random);
    }
    now_s += step_s;
    for (uint32_t i = 0; i < server->running_count; i++) {
        struct request *const request = &server->requests[server->running[i]];

        if (request->made > 0.0)
            add_value(&server->page.between, now_s - request->last_s);
        else
            request->first_s = now_s;
        request->last_s = now_s;
        request->made++;
        if (request->made >= request->tokens)
            server_end_request(server, request);
        else
            server->running[kept++] = server->running[i];
    }
    server->running_count = kept;
    server->page.alive = kept + server->arrived - server->begun;
    return now_s;
}

static double count_above(const double *values, uint32_t count, double bound_s)
{
    double above = 0.0;

    for (uint32_t i = 0; i < count; i++)
        above += values[i] > bound_s ? 1.0 : 0.0;
    return above;
}

/* Compares a histogram with the true latencies, at each of its bounds. */
static void expect_bound(const struct lull_serving_histogram *histogram, const double *values,
                         uint32_t count, uint64_t seed)
{
    const double all = histogram->total[histogram->count - 1];

    holds(histogram->is_upper, seed);
    for (uint32_t i = 0; i < histogram->count; i++) {
        holds(i == 0 || histogram->total[i] >= histogram->total[i - 1], seed);
        holds(all - histogram->total[i] >= count_above(values, count, histogram->bound_s[i]), seed);
    }
}

/* Hides what a source does not publish. */
static struct lull_request_times page_of(const struct server *server, uint32_t sources)
{
    struct lull_request_times page = server->page;

    if ((sources & LULL_LATENCY_FROM_TOKENS) == 0)
        page.between.count = 0;
    if ((sources & LULL_LATENCY_FROM_ENDS) == 0)
        page.decode.count = 0;
    return page;
}

/* Runs a server and returns the share of requests that count as missed at a TPOT of 50 ms, less the
 * true one. */
static double run(uint64_t seed, uint32_t sources, double rate, double page_s)
{
    static struct server server;
    static struct lull_latency_bound tpot;
    static struct lull_latency_bound ttft;
    struct lull_serving_histogram tpots;
    struct lull_serving_histogram ttfts;
    struct lull_serving_histogram likely;
    struct lull_serving_histogram before = {0};
    struct lull_random random;
    double now_s = 0.0;
    double next_s = 0.0;

    lull_random_init(&random, seed);
    server_init(&server, rate, 30.0, &random);
    tpot = ttft = (struct lull_latency_bound){0};
    while (server.ttfts < REQUESTS) {
        struct lull_request_times page;
        bool has_begun;

        now_s = server_step(&server, now_s, &random);
        if (now_s < next_s && server.ttfts < REQUESTS)
            continue;
        next_s = now_s + page_s * lull_random_uniform(&random);
        page = page_of(&server, sources);
        has_begun = lull_latency_bound_tpot(&tpot, &page, &tpots, &likely);
        holds(has_begun == (before.count == 0), seed);
        lull_latency_bound_ttft(&ttft, &page, &ttfts);
        expect_bound(&tpots, server.tpot_s, server.tpots, seed);
        expect_bound(&ttfts, server.ttft_s, server.ttfts, seed);
        for (uint32_t i = 0; i < before.count; i++)
            holds(tpots.total[i] >= before.total[i], seed);
        before = tpots;
        holds(likely.total[likely.count - 1] == tpots.total[tpots.count - 1], seed);
    }
    holds(ttfts.total[ttfts.count - 1] == server.ttfts, seed);
    holds(tpots.bound_s[7] == 0.05, seed);
    return (tpots.total[tpots.count - 1] - tpots.total[7] -
            count_above(server.tpot_s, server.tpots, 0.05)) /
           REQUESTS;
}

static void test_it_never_counts_too_few(void **state)
{
    const uint32_t both = LULL_LATENCY_FROM_TOKENS | LULL_LATENCY_FROM_ENDS;

    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++)
        for (uint32_t sources = 1; sources <= both; sources++)
            for (double rate = 1.0; rate < 30.0; rate *= 3.0)
                run(seed, sources, rate, 0.3);
}

/* Of requests that end one at a time, time and length are known. */
static void test_single_requests_are_exact(void **state)
{
    double more = 0.0;

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        more += run(seed, LULL_LATENCY_FROM_ENDS, 0.5, 0.05) / 10.0;
    assert_near(more, 0.0, 0.02);
}

/* Two sources count no more than each of them. */
static void test_the_lower_count_holds(void **state)
{
    const uint32_t both = LULL_LATENCY_FROM_TOKENS | LULL_LATENCY_FROM_ENDS;

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const double together = run(seed, both, 8.0, 0.3);

        holds(together <= run(seed, LULL_LATENCY_FROM_TOKENS, 8.0, 0.3), seed);
        holds(together <= run(seed, LULL_LATENCY_FROM_ENDS, 8.0, 0.3), seed);
    }
}

static void test_it_begins_again(void **state)
{
    struct lull_latency_bound bound = {0};
    struct lull_serving_histogram histogram;
    struct lull_serving_histogram likely;
    struct lull_request_times page = {.finished = 10.0, .alive = 2.0};

    (void)state;
    lull_latency_bound_tpot(&bound, &page, &histogram, &likely);
    assert_int_equal(histogram.count, 0);
    SET_BOUNDS(&page.between, token_bounds_s);
    assert_true(lull_latency_bound_tpot(&bound, &page, &histogram, &likely));
    page.finished = 12.0;
    assert_false(lull_latency_bound_tpot(&bound, &page, &histogram, &likely));
    assert_near(histogram.total[histogram.count - 1], 2.0, 0.0);
    assert_near(histogram.total[0], 0.0, 0.0); /* they were there on the first page */
    page.finished = 15.0;
    assert_false(lull_latency_bound_tpot(&bound, &page, &histogram, &likely));
    assert_near(histogram.total[0], 3.0, 0.0);
    page.finished = 3.0;
    assert_true(lull_latency_bound_tpot(&bound, &page, &histogram, &likely));
    assert_near(histogram.total[histogram.count - 1], 0.0, 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_never_counts_too_few),
        cmocka_unit_test(test_single_requests_are_exact),
        cmocka_unit_test(test_the_lower_count_holds),
        cmocka_unit_test(test_it_begins_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
