/*
 * Zeus's policy against recorded series of it, step by step. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lab/reproduce/zeus/golden.h"
#include "lab/reproduce/zeus/recurrence.h"
#include "zeus_case.h"

static const struct {
    const char *gpu;
    const char *dataset;
    const char *rest;
    struct lull_golden_setting setting;
} goldens[] = {
    {"a40", "cifar100", "seed1_eta0.5_beta2.0", {0.5, 2.0, 0}},
    {"a40", "cifar100", "seed4_eta0.3_beta1.2_win5", {0.3, 1.2, 5}},
    {"a40", "imagenet", "seed1_eta0.5_beta2.0", {0.5, 2.0, 0}},
    {"a40", "librispeech", "seed1_eta0.5_beta2.0", {0.5, 2.0, 0}},
    {"a40", "movielens-1m", "seed1_eta0.5_beta2.0", {0.5, 2.0, 0}},
    {"a40", "movielens-1m", "seed7_eta0.5_betainf", {0.5, INFINITY, 0}},
    {"a40", "sentiment140", "seed1_eta0.5_beta2.0", {0.5, 2.0, 0}},
    {"a40", "squad", "seed1_eta0.5_beta2.0", {0.5, 2.0, 0}},
    {"v100", "cifar100", "seed1_eta0.5_beta2.0", {0.5, 2.0, 0}},
    {"v100", "imagenet", "seed1_eta0.5_beta2.0", {0.5, 2.0, 0}},
    {"v100", "librispeech", "seed1_eta0.5_beta2.0", {0.5, 2.0, 0}},
    {"v100", "librispeech", "seed3_eta0.5_beta1.5_win10", {0.5, 1.5, 10}},
    {"v100", "movielens-1m", "seed1_eta0.5_beta2.0", {0.5, 2.0, 0}},
    {"v100", "sentiment140", "seed1_eta0.5_beta2.0", {0.5, 2.0, 0}},
    {"v100", "squad", "seed1_eta0.5_beta2.0", {0.5, 2.0, 0}},
    {"v100", "squad", "seed2_eta0.0_beta2.0", {0.0, 2.0, 0}},
    {"v100", "squad", "seed2_eta1.0_beta2.0", {1.0, 2.0, 0}},
};

enum { GOLDENS = sizeof(goldens) / sizeof(goldens[0]) };

static void check(size_t index, const struct lull_golden_setting *setting,
                  struct lull_golden_verdict *verdict_out)
{
    char path[512];
    struct lull_batch_trace *trace = zeus_read(goldens[index].gpu, goldens[index].dataset);
    struct lull_lines *lines = NULL;
    struct lull_error err = {0};

    assert_non_null(trace);
    snprintf(path, sizeof(path), "%s/golden/replay_%s_%s_%s.csv", LULL_ZEUS_DATA,
             goldens[index].gpu, goldens[index].dataset, goldens[index].rest);
    assert_int_equal(lull_lines_open(path, &lines, &err), 0);
    if (lull_golden_check(trace, setting, lines, verdict_out, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(verdict_out->steps >= lull_recurrence_count(trace));
    lull_lines_close(lines);
    lull_batch_trace_destroy(trace);
}

static void test_every_recorded_step_is_taken_again(void **state)
{
    uint32_t steps = 0;
    double error = 0.0;

    (void)state;
    if (zeus_is_absent()) {
        print_message("skipped: no " ZEUS_TRAIN "\n");
        skip();
    }
    for (size_t i = 0; i < GOLDENS; i++) {
        struct lull_golden_verdict verdict;

        check(i, &goldens[i].setting, &verdict);
        if (verdict.mismatches > 0)
            fail_msg("%s %s %s: %u of %u steps differ, first step %u in %s", goldens[i].gpu,
                     goldens[i].dataset, goldens[i].rest, verdict.mismatches, verdict.steps,
                     verdict.first_mismatch, verdict.first_what);
        steps += verdict.steps;
        error = fmax(error, verdict.max_relative_error);
    }
    print_message("%u steps, largest relative error %.1e\n", steps, error);
    assert_true(error <= 1e-12);
}

static void test_another_setting_is_noticed(void **state)
{
    const struct lull_golden_setting wrong[] = {{0.4, 2.0, 0}, {0.5, 1.9, 0}, {0.5, 2.0, 3}};

    (void)state;
    if (zeus_is_absent()) {
        print_message("skipped: no " ZEUS_TRAIN "\n");
        skip();
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct lull_golden_verdict verdict;

        check(0, &wrong[i], &verdict);
        assert_true(verdict.mismatches > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_recorded_step_is_taken_again),
        cmocka_unit_test(test_another_setting_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
