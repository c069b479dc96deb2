/*
 * Lull's controller on a server in virtual time when something happens: bursts, faults of the
 * metrics, a restart, an idle hour. SPDX-License-Identifier: Apache-2.0
 */
#include "serving_run.h"

#include "base/error.h"

enum { CHANGES = 100000 };

/* The clocks that were requested, and that took effect. */
static struct {
    uint32_t count;
    int64_t time_ns[CHANGES];
    double mhz[CHANGES];
    bool is_effect[CHANGES];
} seen;

static void record(void *context, uint32_t pool, int64_t time_ns, double mhz, bool is_effect)
{
    (void)context;
    (void)pool;
    assert_true(seen.count < CHANGES);
    seen.time_ns[seen.count] = time_ns;
    seen.mhz[seen.count] = mhz;
    seen.is_effect[seen.count++] = is_effect;
}

/* The clock that was requested, or in force, at a time. */
static double clock_at(int64_t time_ns, bool is_effect)
{
    double mhz = NAN;

    for (uint32_t i = 0; i < seen.count && seen.time_ns[i] <= time_ns; i++)
        if (seen.is_effect[i] == is_effect)
            mhz = seen.mhz[i];
    return mhz;
}

/* Time from from_ns until a clock of at least, or at most, mhz is in force, s; INFINITY: never. */
static double time_until(int64_t from_ns, double mhz, bool is_least)
{
    const double now = clock_at(from_ns, true);

    if (is_least ? now >= mhz : now <= mhz)
        return 0.0;
    for (uint32_t i = 0; i < seen.count; i++)
        if (seen.is_effect[i] && seen.time_ns[i] >= from_ns &&
            (is_least ? seen.mhz[i] >= mhz : seen.mhz[i] <= mhz))
            return (double)(seen.time_ns[i] - from_ns) * 1e-9;
    return INFINITY;
}

/* ---- runs ----------------------------------------------------------------------------------- */

/* Adds Poisson arrivals between two times. */
static void add_arrivals(struct lull_server_arrivals *arrivals, double rate_per_s, int64_t from_ns,
                         int64_t until_ns)
{
    const struct lull_server_arrivals_poisson poisson = {.rate_per_s = rate_per_s,
                                                         .duration_ns = until_ns - from_ns,
                                                         .prompt_tokens = 1155.0,
                                                         .output_tokens = 211.0,
                                                         .seed = (uint64_t)from_ns + 1};
    struct lull_server_arrivals drawn = {0};

    assert_int_equal(lull_server_arrivals_draw(&poisson, &drawn), 0);
    for (size_t i = 0; i < drawn.count; i++) {
        drawn.items[i].time_ns += from_ns;
        assert_int_equal(lull_server_arrivals_add(arrivals, &drawn.items[i]), 0);
    }
    lull_server_arrivals_fini(&drawn);
    arrivals->period_ns = until_ns;
}

static struct lull_serving_run make_run(const struct lull_server_arrivals *arrivals)
{
    struct lull_serving_run run = serving_run_of(arrivals);

    run.watch = record;
    return run;
}

static struct lull_serving_outcome simulate(struct lull_serving_run *run,
                                            enum lull_serving_policy policy)
{
    struct lull_serving_outcome outcome;
    struct lull_error err = {0};

    seen.count = 0;
    run->policy = policy;
    assert_int_equal(lull_serving_simulate(run, &outcome, &err), 0);
    return outcome;
}

/* The requests that arrive from a time on, and that one run misses and the other does not. */
static uint32_t count_added(const struct lull_server_arrivals *arrivals, int64_t from_ns,
                            const struct lull_serving_outcome *outcome,
                            const struct lull_serving_outcome *reference)
{
    uint32_t added = 0;

    for (size_t i = 0; i < arrivals->count; i++)
        added += arrivals->items[i].time_ns >= from_ns && outcome->requests[i].is_missed &&
                 !reference->requests[i].is_missed;
    return added;
}

/* ---- scenarios ------------------------------------------------------------------------------ */

static const double highest_mhz = 1980.0;
static const double lowest_mhz = 345.0;

static void print_share(const char *name, const struct lull_serving_outcome *lull,
                        const struct lull_serving_outcome *highest, uint32_t added)
{
    printf(
        "%s: %.0f kJ at full clocks, saved %.1f %%; missed %llu at full clocks, %llu under Lull, "
        "%u added\n",
        name, 1e-3 * highest->energy_j, 100.0 - 100.0 * lull->energy_j / highest->energy_j,
        (unsigned long long)highest->missed, (unsigned long long)lull->missed, added);
}

static void test_a_burst_of_ten_times_the_load(void **state)
{
    struct lull_server_arrivals arrivals = {0};
    struct lull_serving_run run = make_run(&arrivals);
    struct lull_serving_outcome highest;
    struct lull_serving_outcome lull;
    double before_mhz;
    uint32_t added;

    (void)state;
    add_arrivals(&arrivals, 1.0, 0, S(300));
    add_arrivals(&arrivals, 10.0, S(300), S(330));
    add_arrivals(&arrivals, 1.0, S(330), S(400));
    highest = simulate(&run, LULL_SERVING_AT_HIGHEST);
    lull = simulate(&run, LULL_SERVING_UNDER_LULL);
    added = count_added(&arrivals, S(300), &lull, &highest);
    print_share("burst", &lull, &highest, added);
    before_mhz = clock_at(S(300), true);
    check_within("before it, MHz", before_mhz, 0.0, 0.7 * highest_mhz);
    /* Four requests show that the rate has grown; then one reading and the driver's latency. */
    check_within("full clocks after, s", time_until(S(300), highest_mhz, true), 0.0, 0.7);
    check_within("added misses", added, 0.0, 0.0);
    free(highest.requests);
    free(lull.requests);
    lull_server_arrivals_fini(&arrivals);
}

/* Plays faults at 200 s. They add at most one miss to those of Lull without faults. Returns the
 * energy that Lull saves. */
static double play_faults(const char *name, const struct lull_serving_faults *faults)
{
    struct lull_server_arrivals arrivals = {0};
    struct lull_serving_run run = make_run(&arrivals);
    struct lull_serving_outcome highest;
    struct lull_serving_outcome faultless;
    struct lull_serving_outcome lull;
    double saving;

    add_arrivals(&arrivals, 1.0, 0, S(300));
    faultless = simulate(&run, LULL_SERVING_UNDER_LULL);
    run.faults = *faults;
    highest = simulate(&run, LULL_SERVING_AT_HIGHEST);
    lull = simulate(&run, LULL_SERVING_UNDER_LULL);
    print_share(name, &lull, &highest, count_added(&arrivals, 0, &lull, &highest));
    check_within("misses that the faults add", count_added(&arrivals, 0, &lull, &faultless), 0.0,
                 1.0);
    saving = 1.0 - lull.energy_j / highest.energy_j;
    free(highest.requests);
    free(faultless.requests);
    free(lull.requests);
    lull_server_arrivals_fini(&arrivals);
    return saving;
}

/* Full clocks must be in force within a second of 200 s, and until the end. */
static void check_full_clocks(int64_t until_ns)
{
    check_within("full clocks after, s", time_until(S(200), highest_mhz, true), 0.0, 1.0);
    for (int64_t time_ns = S(201); time_ns <= until_ns; time_ns += MS(10))
        assert_true(clock_at(time_ns, true) == highest_mhz);
}

static void test_faults_lead_to_full_clocks(void **state)
{
    (void)state;
    (void)play_faults("metrics vanish", &(struct lull_serving_faults){.lost_from_ns = S(200),
                                                                      .lost_until_ns = S(230)});
    check_full_clocks(S(230));
    (void)play_faults("answers lag by 15 s", &(struct lull_serving_faults){.lag_ns = S(15)});
    check_full_clocks(S(300));
    (void)play_faults("the server restarts",
                      &(struct lull_serving_faults){.restart_ns = S(200), .restarted_ns = S(220)});
    check_full_clocks(S(220));
}

static void test_small_faults_cost_nothing(void **state)
{
    (void)state;
    assert_true(play_faults("counters reset", &(struct lull_serving_faults){.reset_ns = S(200)}) >
                0.2);
    assert_true(play_faults("half of the answers is lost",
                            &(struct lull_serving_faults){.lost_ratio = 0.5}) > 0.1);
}

/* When the last token of a request came, if it had two. */
static int64_t end_of(const struct lull_server_arrival *arrival,
                      const struct lull_serving_request *request)
{
    const double life_s = request->ttft_s + request->tpot_s * (arrival->output_tokens - 1);

    return arrival->time_ns + (int64_t)(life_s * 1e9);
}

static void test_an_idle_hour(void **state)
{
    enum { REQUESTS = 60 };
    struct lull_server_arrivals arrivals = {0};
    struct lull_serving_run run = make_run(&arrivals);
    struct lull_serving_outcome highest;
    struct lull_serving_outcome lull;
    double cost_s[REQUESTS];
    double parked_s = 0.0;

    (void)state;
    for (int64_t i = 0; i < REQUESTS; i++) { /* each minute, at all phases of the readings */
        const struct lull_server_arrival arrival = {S(60) * i + i * MS(37), 1155, 211};

        assert_int_equal(lull_server_arrivals_add(&arrivals, &arrival), 0);
    }
    arrivals.period_ns = S(3600);
    highest = simulate(&run, LULL_SERVING_AT_HIGHEST);
    lull = simulate(&run, LULL_SERVING_UNDER_LULL);
    for (size_t i = 0; i < REQUESTS; i++) {
        const int64_t end_ns = end_of(&arrivals.items[i], &lull.requests[i]);

        cost_s[i] = lull.requests[i].ttft_s - highest.requests[i].ttft_s;
        if (i + 1 < REQUESTS)
            parked_s = fmax(parked_s, time_until(end_ns, lowest_mhz, false));
    }
    print_share("idle hour", &lull, &highest, 0);
    check_within("parked after at most, s", parked_s, 0.5, 1.0);
    check_within("TTFT at full clocks, ms", 1e3 * highest.ttft_p50_s, 10.0, 100.0);
    check_within("what the first token pays, p50, ms", 1e3 * quantile(cost_s, REQUESTS, 0.5), 0.0,
                 100.0);
    check_within("p99, ms", 1e3 * quantile(cost_s, REQUESTS, 0.99), 0.0, 200.0);
    assert_true(lull.energy_j < 0.75 * highest.energy_j);
    assert_int_equal(lull.missed, highest.missed);
    free(highest.requests);
    free(lull.requests);
    lull_server_arrivals_fini(&arrivals);
}

/* Prefill and decode on GPUs of their own, each with a controller and its part of the objective. */
static void test_pools_are_controlled_apart(void **state)
{
    struct lull_server_arrivals arrivals = {0};
    struct lull_serving_run run = make_run(&arrivals);
    struct lull_serving_outcome highest;
    struct lull_serving_outcome lull;
    uint32_t added;

    (void)state;
    add_arrivals(&arrivals, 4.0, 0, S(400));
    run.pool_count = 2;
    run.handover_gbs = 50.0;
    run.pools[1] = run.pools[0];
    run.pools[0].objective.tpot_s = INFINITY;
    run.pools[1].objective.ttft_s = INFINITY;
    highest = simulate(&run, LULL_SERVING_AT_HIGHEST);
    lull = simulate(&run, LULL_SERVING_UNDER_LULL);
    added = count_added(&arrivals, 0, &lull, &highest);
    print_share("pools", &lull, &highest, added);
    for (int pool = 0; pool < 2; pool++)
        printf("pool %d: %.0f MHz on average, saved %.1f %%\n", pool, lull.pools[pool].mean_mhz,
               100.0 - 100.0 * lull.pools[pool].energy_j / highest.pools[pool].energy_j);
    assert_true(lull.pools[0].energy_j < 0.9 * highest.pools[0].energy_j);
    assert_true(lull.pools[1].energy_j < 0.6 * highest.pools[1].energy_j);
    assert_true((double)added <= 0.005 * (double)lull.done);
    assert_true(lull.states[0].requests > 0.9 * (double)lull.done);
    assert_true(lull.states[1].requests > 0.9 * (double)lull.done);
    free(highest.requests);
    free(lull.requests);
    lull_server_arrivals_fini(&arrivals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_burst_of_ten_times_the_load),
        cmocka_unit_test(test_faults_lead_to_full_clocks),
        cmocka_unit_test(test_small_faults_cost_nothing),
        cmocka_unit_test(test_an_idle_hour),
        cmocka_unit_test(test_pools_are_controlled_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
