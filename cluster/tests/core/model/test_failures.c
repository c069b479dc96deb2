/*
 * Failures of nodes: random ones have the given distribution, each node is independent, and
 * impossible ones are refused. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/core/model/failures.h"
#include "tests/core/property.h"

enum { NODES = 200 };

#define S INT64_C(1000000000)

static size_t draw(uint32_t nodes, uint64_t seed, struct lull_cluster_failure **failures_out)
{
    size_t count = 0;

    assert_int_equal(lull_cluster_failures_draw(
                         &(struct lull_failure_model){nodes, 1000 * S, 50 * S, 105000 * S, seed},
                         failures_out, &count, NULL),
                     0);
    return count;
}

static void test_drawn_as_told(void **state)
{
    struct lull_cluster_failure *failures;
    const size_t count = draw(NODES, 7, &failures);
    /* A node fails every 1050 s: 100 times each, a Poisson count of 20,000 in all or so. */
    const double mean = 100.0 * NODES;

    (void)state;
    assert_true(fabs((double)count - mean) < 5.0 * sqrt(mean));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(failures[i].to_ns - failures[i].from_ns, 50 * S);
        assert_true(failures[i].from_ns < 105000 * S);
        assert_true(i == 0 || failures[i].from_ns >= failures[i - 1].from_ns);
    }
    assert_int_equal(lull_cluster_failures_order(failures, count, NODES, NULL), 0);
    free(failures);
}

/* The times that node 0 works are exponentially distributed. Up to 80 of them count under each
 * seed. */
static void test_times_are_exponential(void **state)
{
    double sum_s = 0.0;
    size_t stretches = 0;
    size_t long_ones = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct lull_cluster_failure *failures;
        const size_t count = draw(1, seed, &failures);
        int64_t up_ns = 0;

        for (size_t i = 0; i < count && i < 80; i++) {
            const double works_s = (double)(failures[i].from_ns - up_ns) * 1e-9;

            sum_s += works_s;
            long_ones += works_s > 2000.0;
            stretches++;
            up_ns = failures[i].to_ns;
        }
        free(failures);
    }
    assert_near(sum_s / (double)stretches, 1000.0, 50.0);
    assert_near((double)long_ones / (double)stretches, exp(-2.0), 0.02);
}

static void test_more_nodes_change_no_other(void **state)
{
    struct lull_cluster_failure *few, *many;
    const size_t few_count = draw(5, 3, &few);
    const size_t many_count = draw(9, 3, &many);
    size_t at = 0;

    (void)state;
    for (size_t i = 0; i < many_count; i++)
        if (many[i].node < 5) {
            assert_int_equal(many[i].node, few[at].node);
            assert_int_equal(many[i].from_ns, few[at++].from_ns);
        }
    assert_int_equal(at, few_count);
    free(few);
    free(many);
}

static void refuse(struct lull_cluster_failure first, struct lull_cluster_failure second,
                   const char *why)
{
    struct lull_cluster_failure failures[] = {first, second};
    struct lull_error err = {0};

    assert_int_equal(lull_cluster_failures_order(failures, 2, 4, &err), -EINVAL);
    assert_non_null(strstr(err.text, why));
}

static void test_what_cannot_be(void **state)
{
    const struct lull_cluster_failure good = {1, 5 * S, 9 * S};
    struct lull_cluster_failure *failures = NULL;
    size_t count = 0;

    (void)state;
    refuse(good, (struct lull_cluster_failure){4, 0, S}, "node 4 fails, but the cluster has 4");
    refuse(good, (struct lull_cluster_failure){0, -1, S}, "0 s or later");
    refuse(good, (struct lull_cluster_failure){0, S, S}, "end after it began");
    refuse(good, (struct lull_cluster_failure){1, 8 * S, 10 * S}, "node 1 fails at 8 s while");
    assert_int_equal(
        lull_cluster_failures_draw(&(struct lull_failure_model){1 << 20, 1, 1, INT64_C(1) << 50, 1},
                                   &failures, &count, NULL),
        -EINVAL);
    assert_null(failures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drawn_as_told),
        cmocka_unit_test(test_times_are_exponential),
        cmocka_unit_test(test_more_nodes_change_no_other),
        cmocka_unit_test(test_what_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
