/*
 * What Lull is compared with on servers: the capacity, the best fixed settings, the oracle.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "serving_run.h"

#include "base/clock.h"
#include "base/error.h"
#include "simulator/serving/hindsight.h"
#include "simulator/serving/oracle.h"

static const struct lull_serving_source source = {
    .prompt_tokens = 1155.0, .output_tokens = 211.0, .duration_ns = S(60), .seed = 1};

static struct lull_serving_outcome simulate(struct lull_serving_run *run,
                                            enum lull_serving_policy policy)
{
    struct lull_serving_outcome outcome;
    struct lull_error err = {0};

    run->policy = policy;
    assert_int_equal(lull_serving_simulate(run, &outcome, &err), 0);
    return outcome;
}

static double missed_at(double rate_per_s)
{
    struct lull_server_arrivals arrivals = {0};
    struct lull_serving_run run = serving_run_of(&arrivals);
    struct lull_serving_outcome outcome;
    double missed;

    assert_int_equal(lull_serving_make_arrivals(&source, rate_per_s, &arrivals), 0);
    outcome = simulate(&run, LULL_SERVING_AT_HIGHEST);
    missed = lull_serving_missed_ratio(&outcome);
    free(outcome.requests);
    lull_server_arrivals_fini(&arrivals);
    return missed;
}

static void test_the_capacity_just_meets_the_objective(void **state)
{
    struct lull_serving_run run = serving_run_of(NULL);
    struct lull_error err = {0};
    double rate = 0.0;

    (void)state;
    assert_int_equal(lull_serving_find_rate(&run, &source, &rate, &err), 0);
    printf("capacity: %.2f requests/s\n", rate);
    check_within("missed at the capacity", missed_at(rate), 0.0, 0.01);
    check_within("missed at 1.2 times as much", missed_at(1.2 * rate), 0.01, 1.0);
}

static void test_an_impossible_objective_has_no_capacity(void **state)
{
    struct lull_serving_run run = serving_run_of(NULL);
    struct lull_error err = {0};
    double rate = 0.0;

    (void)state;
    run.objective.tpot_s = 0.001;
    assert_true(lull_serving_find_rate(&run, &source, &rate, &err) < 0);
    printf("%s\n", err.text);
    assert_non_null(strstr(err.text, "--slo"));
}

/* Tries all settings to their end. */
static double try_all(struct lull_serving_run *run, enum lull_serving_policy policy,
                      uint64_t most_missed)
{
    const struct lull_gpu_model *model = run->pools[0].setup.gpu;
    const bool is_clock = policy == LULL_SERVING_AT_CLOCK;
    const double most = is_clock ? model->sm_max_mhz : model->limit_max_w;
    const double least = is_clock ? model->sm_min_mhz : model->limit_min_w;
    double best_j = INFINITY;

    for (int i = 0; i < 24; i++) {
        struct lull_serving_outcome outcome;

        run->clock_mhz = run->limit_w = most - (most - least) * i / 23;
        outcome = simulate(run, policy);
        if (outcome.missed <= most_missed)
            best_j = fmin(best_j, outcome.energy_j);
        free(outcome.requests);
    }
    return best_j;
}

static void check_fixed(struct lull_serving_run *run, enum lull_serving_policy policy,
                        const struct lull_serving_outcome *highest)
{
    struct lull_serving_outcome best;
    struct lull_serving_outcome again;
    struct lull_error err = {0};
    double setting = 0.0;

    assert_int_equal(
        lull_serving_find_fixed(run, policy, highest->missed + 5, &best, &setting, &err), 0);
    printf("best setting %.0f: saves %.1f %%, misses %llu, at full clocks %llu\n", setting,
           100.0 - 100.0 * best.energy_j / highest->energy_j, (unsigned long long)best.missed,
           (unsigned long long)highest->missed);
    assert_true(best.missed <= highest->missed + 5);
    assert_true(best.energy_j < 0.8 * highest->energy_j);
    run->clock_mhz = setting;
    run->limit_w = setting;
    again = simulate(run, policy);
    assert_true(again.energy_j == best.energy_j && again.missed == best.missed);
    assert_true(again.ttft_p99_s == best.ttft_p99_s && again.tpot_p50_s == best.tpot_p50_s);
    assert_true(try_all(run, policy, highest->missed + 5) == best.energy_j);
    free(again.requests);
    free(best.requests);
}

static void test_the_best_fixed_settings(void **state)
{
    struct lull_server_arrivals arrivals = {0};
    struct lull_serving_run run = serving_run_of(&arrivals);
    struct lull_serving_outcome highest;

    (void)state;
    assert_int_equal(lull_serving_make_arrivals(&source, 3.0, &arrivals), 0);
    highest = simulate(&run, LULL_SERVING_AT_HIGHEST);
    check_fixed(&run, LULL_SERVING_AT_CLOCK, &highest);
    check_fixed(&run, LULL_SERVING_AT_LIMIT, &highest);
    free(highest.requests);
    lull_server_arrivals_fini(&arrivals);
}

static bool gives_up(struct lull_serving_run *run, uint64_t most_missed, double energy_j)
{
    const struct lull_serving_bar bar = {.most_missed = most_missed, .energy_j = energy_j};
    struct lull_serving_outcome outcome;

    run->bar = &bar;
    outcome = simulate(run, LULL_SERVING_AT_CLOCK);
    run->bar = NULL;
    free(outcome.requests);
    return outcome.is_given_up;
}

static void test_a_run_that_cannot_be_the_best_is_given_up(void **state)
{
    struct lull_server_arrivals arrivals = {0};
    struct lull_serving_run run = serving_run_of(&arrivals);
    struct lull_serving_outcome whole;

    (void)state;
    run.clock_mhz = 600.0;
    assert_int_equal(lull_serving_make_arrivals(&source, 6.0, &arrivals), 0);
    whole = simulate(&run, LULL_SERVING_AT_CLOCK);
    assert_true(whole.missed > 10 && !whole.is_given_up);
    assert_false(gives_up(&run, whole.missed, INFINITY));
    assert_true(gives_up(&run, whole.missed - 1, INFINITY));
    assert_false(gives_up(&run, UINT64_MAX, whole.energy_j));
    assert_true(gives_up(&run, UINT64_MAX, 0.9 * whole.energy_j));
    free(whole.requests);
    lull_server_arrivals_fini(&arrivals);
}

/* The oracle saves, and misses nothing that full clocks do not miss. */
static void check_oracle(double rate_per_s, int64_t change_ns, double least_saving)
{
    struct lull_server_arrivals arrivals = {0};
    struct lull_serving_run run = serving_run_of(&arrivals);
    struct lull_serving_oracle oracle;
    struct lull_serving_outcome highest;
    struct lull_serving_outcome best;
    struct lull_error err = {0};

    assert_int_equal(lull_serving_make_arrivals(&source, rate_per_s, &arrivals), 0);
    highest = simulate(&run, LULL_SERVING_AT_HIGHEST);
    assert_int_equal(lull_serving_ask_oracle(&run, &highest, change_ns, NULL, &best, &oracle, &err),
                     0);
    printf("%.1f requests/s: oracle at %.0f and %.0f MHz, %llu added misses, %llu at full clocks\n",
           rate_per_s, oracle.prefill_mhz, oracle.decode_mhz, (unsigned long long)oracle.added,
           (unsigned long long)highest.missed);
    check_within("oracle saves", 1.0 - best.energy_j / highest.energy_j, least_saving, 0.8);
    assert_int_equal(oracle.added, 0);
    for (size_t i = 0; i < arrivals.count; i++)
        assert_true(!best.requests[i].is_missed || highest.requests[i].is_missed);
    free(highest.requests);
    free(best.requests);
    lull_server_arrivals_fini(&arrivals);
}

static void test_the_oracle_adds_no_miss(void **state)
{
    (void)state;
    check_oracle(2.0, 0, 0.4);
    check_oracle(6.0, 0, 0.3);
    check_oracle(11.0, 0, 0.1);
    check_oracle(6.0, 20 * LULL_NS_PER_MS, 0.3);
}

/* A driver that never ends a change leaves the oracle the first clock that it requests. */
static void test_the_oracle_waits_for_the_driver(void **state)
{
    struct lull_server_arrivals arrivals = {0};
    struct lull_serving_run run = serving_run_of(&arrivals);
    struct lull_serving_oracle oracle;
    struct lull_serving_outcome highest;
    struct lull_serving_outcome best;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_serving_make_arrivals(&source, 2.0, &arrivals), 0);
    highest = simulate(&run, LULL_SERVING_AT_HIGHEST);
    assert_int_equal(
        lull_serving_ask_oracle(&run, &highest, INT64_MAX / 2, NULL, &best, &oracle, &err), 0);
    assert_true(fabs(best.pools[0].mean_mhz - oracle.prefill_mhz) < 1.0);
    assert_int_equal(oracle.added, 0);
    free(highest.requests);
    free(best.requests);
    lull_server_arrivals_fini(&arrivals);
}

/* The energy of the oracle and of full clocks, if the first request comes late. */
static void ask_late(int64_t first_ns, double *oracle_j_out, double *highest_j_out)
{
    struct lull_server_arrivals arrivals = {0};
    struct lull_serving_run run = serving_run_of(&arrivals);
    struct lull_serving_oracle oracle;
    struct lull_serving_outcome highest;
    struct lull_serving_outcome best;
    struct lull_error err = {0};

    assert_int_equal(lull_serving_make_arrivals(&source, 2.0, &arrivals), 0);
    for (size_t i = 0; i < arrivals.count; i++)
        arrivals.items[i].time_ns += first_ns;
    arrivals.period_ns += first_ns;
    highest = simulate(&run, LULL_SERVING_AT_HIGHEST);
    assert_int_equal(lull_serving_ask_oracle(&run, &highest, 0, NULL, &best, &oracle, &err), 0);
    *oracle_j_out = best.energy_j;
    *highest_j_out = highest.energy_j;
    free(highest.requests);
    free(best.requests);
    lull_server_arrivals_fini(&arrivals);
}

static void test_the_oracle_is_parked_before_the_first_request(void **state)
{
    double oracle_j[2];
    double highest_j[2];

    (void)state;
    ask_late(0, &oracle_j[0], &highest_j[0]);
    ask_late(S(60), &oracle_j[1], &highest_j[1]);
    check_within("idle power against that at full clocks",
                 (oracle_j[1] - oracle_j[0]) / (highest_j[1] - highest_j[0]), 0.2, 0.8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_capacity_just_meets_the_objective),
        cmocka_unit_test(test_an_impossible_objective_has_no_capacity),
        cmocka_unit_test(test_the_best_fixed_settings),
        cmocka_unit_test(test_a_run_that_cannot_be_the_best_is_given_up),
        cmocka_unit_test(test_the_oracle_adds_no_miss),
        cmocka_unit_test(test_the_oracle_waits_for_the_driver),
        cmocka_unit_test(test_the_oracle_is_parked_before_the_first_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
