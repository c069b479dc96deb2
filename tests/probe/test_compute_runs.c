/*
 * Compute runs against a brute-force reading: kernels within the gap of each other are connected,
 * and each connected set is one run.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/compute_runs.h"

enum { KERNELS = 60, ROUNDS = 2000, US = 1000 };

struct kernel {
    int64_t begin_ns;
    int64_t end_ns;
    int set;
};

static int are_close(const struct kernel *a, const struct kernel *b)
{
    return a->begin_ns - b->end_ns < LULL_COMPUTE_GAP_NS &&
           b->begin_ns - a->end_ns < LULL_COMPUTE_GAP_NS;
}

static void connect(struct kernel *kernels, int count)
{
    for (int i = 0; i < count; i++)
        kernels[i].set = i;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            if (are_close(&kernels[i], &kernels[j]) && kernels[i].set != kernels[j].set) {
                const int from = kernels[i].set;

                for (int k = 0; k < count; k++)
                    if (kernels[k].set == from)
                        kernels[k].set = kernels[j].set;
            }
}

static void check_run(const struct lull_compute_run *run, const struct kernel *kernels, int count,
                      int set)
{
    int64_t begin_ns = INT64_MAX;
    int64_t end_ns = INT64_MIN;
    uint64_t number = 0;

    for (int i = 0; i < count; i++) {
        if (kernels[i].set != set)
            continue;
        begin_ns = kernels[i].begin_ns < begin_ns ? kernels[i].begin_ns : begin_ns;
        end_ns = kernels[i].end_ns > end_ns ? kernels[i].end_ns : end_ns;
        number++;
    }
    assert_int_equal(run->begin_ns, begin_ns);
    assert_int_equal(run->end_ns, end_ns);
    assert_int_equal(run->kernels, number);
}

static void test_any_order_gives_the_same_runs(void **state)
{
    static struct lull_compute_runs runs;
    struct kernel kernels[KERNELS];

    (void)state;
    srand(7);
    for (int round = 0; round < ROUNDS; round++) {
        const int count = 1 + rand() % KERNELS;
        const int span_us = 100 + rand() % 3000;
        int sets = 0;

        memset(&runs, 0, sizeof(runs));
        for (int i = 0; i < count; i++) {
            kernels[i].begin_ns = (int64_t)(rand() % span_us) * US;
            kernels[i].end_ns = kernels[i].begin_ns + (int64_t)(rand() % 40) * US;
            lull_compute_runs_add(&runs, kernels[i].begin_ns, kernels[i].end_ns);
        }
        connect(kernels, count);
        for (int i = 0; i < count; i++)
            sets += kernels[i].set == i;
        assert_int_equal(runs.count, sets);
        for (uint32_t i = 0; i < runs.count; i++) {
            int at = 0;

            while (kernels[at].begin_ns != runs.runs[i].begin_ns)
                at++;
            check_run(&runs.runs[i], kernels, count, kernels[at].set);
            if (i > 0)
                assert_true(runs.runs[i].begin_ns - runs.runs[i - 1].end_ns >= LULL_COMPUTE_GAP_NS);
        }
    }
}

static void test_runs_go_out_up_to_a_time(void **state)
{
    static struct lull_compute_runs runs;

    (void)state;
    memset(&runs, 0, sizeof(runs));
    for (int i = 0; i < 5; i++)
        lull_compute_runs_add(&runs, i * 100 * US, (i * 100 + 50) * US);
    assert_int_equal(lull_compute_runs_before(&runs, 0), 0);
    assert_int_equal(lull_compute_runs_before(&runs, 200 * US), 2);
    assert_int_equal(lull_compute_runs_before(&runs, 200 * US + 1), 3);
    lull_compute_runs_forget(&runs, 2);
    assert_int_equal(runs.count, 3);
    assert_int_equal(runs.runs[0].begin_ns, 200 * US);
    lull_compute_runs_add(&runs, 160 * US, 170 * US); /* late: a run of its own */
    assert_int_equal(runs.count, 4);
    lull_compute_runs_add(&runs, 10, 5); /* nonsense */
    assert_int_equal(runs.count, 4);
    lull_compute_runs_forget(&runs, 4);
    assert_int_equal(runs.count, 0);
}

static void test_a_full_store_counts_what_it_drops(void **state)
{
    static struct lull_compute_runs runs;

    (void)state;
    memset(&runs, 0, sizeof(runs));
    for (int64_t i = 0; i < LULL_COMPUTE_RUNS + 10; i++)
        lull_compute_runs_add(&runs, i * 100 * US, (i * 100 + 50) * US);
    assert_int_equal(runs.count, LULL_COMPUTE_RUNS);
    assert_int_equal(runs.dropped, 10);
    lull_compute_runs_add(&runs, 60 * US, 70 * US); /* joins a run that is there */
    assert_int_equal(runs.runs[0].kernels, 2);
    assert_int_equal(runs.dropped, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order_gives_the_same_runs),
        cmocka_unit_test(test_runs_go_out_up_to_a_time),
        cmocka_unit_test(test_a_full_store_counts_what_it_drops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
