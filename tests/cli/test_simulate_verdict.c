/*
 * The first line of `lull simulate` for synthetic results: a figure
 * beyond the tolerance, or a run that still searches, is never
 * recommended. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/simulate_report.h"

/* A run of 400 periods that has settled in its 100th, and saves. */
static struct lull_simulate_results make_results(void)
{
    struct lull_simulate_results results = {
        .model = lull_gpu_model_find("A100-SXM4-40GB", 14),
        .tolerance_ratio = 0.01,
        .periods = 400,
        .ranks = 1,
    };

    results.modes[LULL_SIMULATE_AUTO] = (struct lull_simulate_mode){
        .outcome = {.settled_in = 100, .keeps = true},
        .whole = {.slowdown_ratio = 0.006, .saving_ratio = 0.05},
        .worst_ratio = 0.007,
        .has_settled_part = true,
        .settled = {.slowdown_ratio = 0.008, .saving_ratio = 0.08},
    };
    return results;
}

static void check(const struct lull_simulate_results *results, bool is_within, const char *begin,
                  const char *part)
{
    const struct lull_simulate_mode *mode = &results->modes[LULL_SIMULATE_AUTO];
    char text[256];

    lull_simulate_verdict(results, text, sizeof(text));
    assert_true(lull_simulate_is_within(results, mode) == is_within);
    assert_memory_equal(text, begin, strlen(begin));
    assert_non_null(strstr(text, part));
    if (strncmp(begin, "saves", 5) != 0)
        assert_null(strstr(text, "run: lull run"));
}

static void test_each_figure_beyond_the_tolerance_fails(void **state)
{
    struct lull_simulate_results results = make_results();
    struct lull_simulate_mode *mode = &results.modes[LULL_SIMULATE_AUTO];

    (void)state;
    check(&results, true,
          "saves 8.0 % of the energy, 0.8 % slower (at most 0.8 %) once settled; with the search "
          "5.0 % "
          "less energy, 0.6 % slower over all 400 periods, on A100",
          "run: lull run -- COMMAND");
    results.tolerance_ratio = 0.02;
    check(&results, true, "saves", "run: lull run --tolerance 2% -- COMMAND");
    results.tolerance_ratio = 0.01;
    mode->worst_ratio = 0.0101;
    check(&results, false, "slower than allowed: 1.01 % at the worst moment", "1 % allowed");
    mode->settled.slowdown_ratio = 0.0102;
    check(&results, false, "slower than allowed: 1.02 % once settled", "1 % allowed");
    mode->has_settled_part = false;
    check(&results, false, "slower than allowed: 1.01 % at the worst moment", "1 % allowed");
    mode->whole.slowdown_ratio = 0.018;
    check(&results, false, "slower than allowed: 1.8 % over the whole run", "1 % allowed");
    mode->outcome.settled_in = 0; /* a failure goes before a search */
    check(&results, false, "slower than allowed: 1.8 % over the whole run", "1 % allowed");
}

static void test_a_search_recommends_nothing(void **state)
{
    struct lull_simulate_results results = make_results();
    struct lull_simulate_mode *mode = &results.modes[LULL_SIMULATE_AUTO];

    (void)state;
    mode->outcome.settled_in = 0;
    mode->has_settled_part = false;
    check(&results, true, "still searching after 400 periods", "use more --periods");
    mode->outcome.unevenness_ratio = 0.23;
    check(&results, true, "still searching after 400 periods",
          "on average 23 % longer than typical, without a rhythm; use more --periods");
    mode->outcome.settled_in = 398; /* too late for a settled part */
    check(&results, true,
          "saves 5.0 % of the energy, 0.6 % slower (at most 0.7 %) over all 400 periods, on",
          "run: ");
}

static void test_little_is_nothing(void **state)
{
    struct lull_simulate_results results = make_results();
    struct lull_simulate_mode *mode = &results.modes[LULL_SIMULATE_AUTO];

    (void)state;
    mode->whole.saving_ratio = 0.004; /* the search has taken most of the run */
    check(&results, true, "saves 8.0 %", "with the search 0.4 % less energy");
    mode->whole.saving_ratio = -0.004;
    check(&results, true, "saves 8.0 %", "with the search 0.4 % more energy");
    mode->settled.saving_ratio = 0.006;
    check(&results, true, "nothing to gain: all levers together save 0.6 %", "A100");
    mode->outcome.keeps = false;
    check(&results, true, "nothing to gain: no lower clock passed", "A100");
    mode->outcome.unevenness_ratio = 0.029;
    check(&results, true, "nothing to gain: no lower clock passed", "A100");
    mode->outcome.unevenness_ratio = 0.5;
    check(&results, true, "nothing to gain: no lower clock passed",
          "its periods are too uneven to be tested to 1 %: on average 50 % longer than typical, "
          "without a rhythm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_figure_beyond_the_tolerance_fails),
        cmocka_unit_test(test_a_search_recommends_nothing),
        cmocka_unit_test(test_little_is_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
