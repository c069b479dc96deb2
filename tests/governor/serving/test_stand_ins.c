/*
 * The controller on a server without a histogram of TPOT or TTFT, in virtual time: the stand-ins
 * keep the objective, and still save. SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "../../core/property.h"
#include "../../core/serving/serving_plant.h"
#include "governor/serving/latency_bound.h"

enum { ROOM = 4000 };

/* The bound of TPOT is near what low clocks need, so that it limits them. */
static const struct lull_objective objective = {0.5, 0.025, 0.99};
static const double seconds = 400.0;

/* What the page of a server has. */
struct page {
    bool has_tpot;
    bool has_between;
    bool has_ends;
    bool has_ttft;
    struct lull_latency_bound tpot;
    struct lull_latency_bound ttft;
    double requests;
};

static void change(void *changer, const struct plant_ends *ends,
                   struct lull_serving_reading *reading)
{
    struct page *const page = changer;
    struct lull_request_times times = {.finished = reading->finished,
                                       .alive = reading->running + reading->waiting};

    if (page->has_between)
        times.between = reading->itl;
    if (page->has_ends) {
        times.decode = ends->decode;
        times.answer = ends->answer;
    }
    times.queue = ends->queue;
    times.prefill = ends->prefill;
    if (!page->has_tpot)
        lull_latency_bound_tpot(&page->tpot, &times, &reading->tpot, &reading->likely_tpot);
    if (!page->has_ttft)
        lull_latency_bound_ttft(&page->ttft, &times, &reading->ttft);
}

/* The energy that is saved on such a server, and the share of requests that miss in addition. */
struct outcome {
    double saved;
    double added;
    double counted; /* misses in addition to the true ones */
};

static double count_misses(const struct plant_request *requests, size_t count)
{
    double missed = 0.0;

    for (size_t i = 0; i < count; i++)
        missed += plant_missed(&requests[i], &objective) ? 1.0 : 0.0;
    return missed / (double)count;
}

static struct outcome run(struct page page, double rate, uint64_t seed)
{
    const struct plant_config plant =
        plant_small(lull_device_curve_find("H100-SXM5", strlen("H100-SXM5")));
    const struct lull_serving_config config = plant_controller_config(&plant, &objective);
    struct lull_serving_controller *const controller = lull_serving_controller_create(&config);
    struct plant_request *const requests = calloc(ROOM, sizeof(*requests));
    const struct plant_faults faults = {.change = change, .changer = &page};
    struct lull_random random;
    struct plant_result full;
    struct plant_result lull;
    struct outcome outcome;
    size_t count;

    assert_non_null(controller);
    assert_non_null(requests);
    lull_random_init(&random, seed);
    count = plant_arrivals(requests, ROOM, 0.0, seconds, rate, 500.0, 150.0, &random);
    full = plant_run(&plant, requests, count, seconds, NULL, plant.curve->sm_max_mhz, NULL, NULL,
                     NULL);
    outcome.added = -count_misses(requests, count);
    lull = plant_run(&plant, requests, count, seconds, controller, 0.0, &faults, NULL, NULL);
    outcome.added += count_misses(requests, count);
    outcome.counted = lull.state.missed_ratio - count_misses(requests, count);
    outcome.saved = 1.0 - lull.joules / full.joules;
    lull_serving_controller_destroy(controller);
    free(requests);
    return outcome;
}

/* Prints the means over loads and seeds, and compares them with the promise. */
static void expect(const char *what, struct page page, double least_saved)
{
    struct outcome mean = {0};
    double runs = 0.0;

    for (uint64_t seed = 1; seed <= 2; seed++) {
        for (double rate = 1.0; rate < 10.0; rate *= 3.0) {
            const struct outcome outcome = run(page, rate, seed);

            holds(outcome.counted > -0.005, seed);
            mean.saved += outcome.saved;
            mean.added += outcome.added;
            mean.counted += outcome.counted;
            runs++;
        }
    }
    print_message("%s: saved %.1f %%, added misses %.2f points, counted too many %.1f points\n",
                  what, 100.0 * mean.saved / runs, 100.0 * mean.added / runs,
                  100.0 * mean.counted / runs);
    assert_true(mean.added / runs < 0.005);
    assert_true(mean.saved / runs > least_saved);
}

static void test_all_histograms(void **state)
{
    (void)state;
    expect("all histograms", (struct page){.has_tpot = true, .has_ttft = true}, 0.35);
}

static void test_time_between_tokens(void **state)
{
    (void)state;
    expect("time between tokens", (struct page){.has_between = true, .has_ttft = true}, 0.3);
}

static void test_requests_that_ended(void **state)
{
    (void)state;
    expect("requests that ended", (struct page){.has_ends = true, .has_ttft = true}, 0.35);
    expect("both", (struct page){.has_ends = true, .has_between = true, .has_ttft = true}, 0.3);
}

static void test_queue_and_prefill(void **state)
{
    (void)state;
    expect("queue and prefill", (struct page){.has_tpot = true}, 0.3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_histograms),
        cmocka_unit_test(test_time_between_tokens),
        cmocka_unit_test(test_requests_that_ended),
        cmocka_unit_test(test_queue_and_prefill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
