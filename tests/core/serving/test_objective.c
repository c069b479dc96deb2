/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "../property.h"

#include "core/serving/objective.h"

static void test_bounds_and_share_in_any_form(void **state)
{
    static const struct {
        const char *text;
        struct lull_objective objective;
    } rows[] = {
        {"ttft=500ms,tpot=50ms@p99", {0.5, 0.05, 0.99}}, {"tpot=0.05s", {INFINITY, 0.05, 0.99}},
        {"ttft=1s@p99.9", {1.0, INFINITY, 0.999}},       {"tpot=50ms,ttft=0.5s", {0.5, 0.05, 0.99}},
        {"ttft=1.5e3ms@p95", {1.5, INFINITY, 0.95}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lull_objective objective;

        assert_int_equal(lull_objective_parse(rows[i].text, &objective, NULL), 0);
        assert_true(objective.ttft_s == rows[i].objective.ttft_s ||
                    fabs(objective.ttft_s - rows[i].objective.ttft_s) < 1e-12);
        assert_true(objective.tpot_s == rows[i].objective.tpot_s ||
                    fabs(objective.tpot_s - rows[i].objective.tpot_s) < 1e-12);
        assert_near(objective.share, rows[i].objective.share, 1e-12);
    }
}

static void test_the_wrong_part_is_named(void **state)
{
    static const char *const rows[][2] = {
        {"", "''"},
        {"ttft", "'ttft'"},
        {"ttft=500", "'ttft=500'"},
        {"ttft=0ms", "'ttft=0ms'"},
        {"ttft=-1s", "'ttft=-1s'"},
        {"ttft=nan", "'ttft=nan'"},
        {"ttft=infs", "'ttft=infs'"},
        {"ttft=1s,", "''"},
        {"ttft=1s,ttft=2s", "'ttft=2s'"},
        {"ttft=1s@99", "'@99'"},
        {"ttft=1s@p50", "'50'"},
        {"ttft=1s@p100", "'100'"},
        {"ttft=1s@p99,tpot=1s", "'99,tpot=1s'"},
        {"ttft=1s tpot=1s", "' tpot=1s'"},
        {"latency=1s", "'latency=1s'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lull_objective objective = {1.0, 2.0, 0.75};
        struct lull_error err = {0};

        assert_int_equal(lull_objective_parse(rows[i][0], &objective, &err), -EINVAL);
        assert_int_equal(err.code, -EINVAL);
        if (strstr(err.text, rows[i][1]) == NULL)
            fail_msg("'%s': %s", rows[i][0], err.text);
        assert_non_null(strstr(err.text, "ttft=500ms,tpot=50ms@p99"));
        assert_true(objective.ttft_s == 1.0 && objective.tpot_s == 2.0 && objective.share == 0.75);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_and_share_in_any_form),
        cmocka_unit_test(test_the_wrong_part_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
