/* The saving of each lever, from the results of the trials. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "governor/report/report_parts.h"

enum { SECTIONS = 7, POINT = 5 };

/* Sections alone have saved 3 %, and together with the steady point 10 %. */
static struct lull_run_frontier frontier = {
    .tried = {{.others = SECTIONS, .saving_ratio = 0.03},
              {.others = SECTIONS, .point = POINT, .saving_ratio = 0.10},
              {.point = POINT, .saving_ratio = 0.06}},
    .tried_count = 3,
    .kept_point = POINT,
    .kept_others = SECTIONS,
};

static double ask(bool is_steady, bool is_only, const char **reason_out)
{
    const struct lull_report report = {.frontier = &frontier};

    return lull_tried_report_lever(&report, is_steady, is_only, reason_out);
}

static void the_steady_point_comes_on_top(void **state)
{
    const char *reason = "";

    (void)state;
    assert_true(fabs(ask(true, true, &reason) - 0.07) < 1e-12);
    assert_null(reason);
    assert_true(fabs(ask(false, true, &reason) - 0.03) < 1e-12);
    assert_null(reason);
}

static void several_levers_are_not_told_apart(void **state)
{
    const char *reason = NULL;

    (void)state;
    assert_true(isnan(ask(false, false, &reason)));
    assert_string_equal(reason, "it was compared only together with other levers");
    assert_true(fabs(ask(true, false, &reason) - 0.07) < 1e-12);
}

static void a_steady_point_alone_has_all(void **state)
{
    const char *reason = "";

    (void)state;
    frontier.kept_others = 0;
    assert_true(fabs(ask(true, false, &reason) - 0.06) < 1e-12);
    assert_null(reason);
    frontier.kept_others = SECTIONS;
}

static void what_was_not_compared_is_not_known(void **state)
{
    const char *reason = NULL;

    (void)state;
    frontier.kept_others = SECTIONS + 1;
    assert_true(isnan(ask(true, true, &reason)));
    assert_non_null(reason);
    reason = NULL;
    assert_true(isnan(ask(false, true, &reason)));
    assert_non_null(reason);
    frontier.kept_others = SECTIONS;
}

/* The kept setting has the saving of the verdict in the frontier, also if whole runs were compared.
 * Only a proof makes it count for the tolerance. */
static void the_frontier_has_the_verdicts_figures(void **state)
{
    const struct lull_report_gain gain = {
        .basis = "pairs of runs", .saving_ratio = 0.133, .low_ratio = 0.101, .high_ratio = 0.165};
    struct lull_report report = {.frontier = &frontier, .tolerance_ratio = 0.01};
    struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];

    (void)state;
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++)
        frontier.points[b] =
            (struct lull_job_frontier_point){.slowdown_ratio = lull_job_frontier_budgets[b],
                                             .saving_ratio = 0.123,
                                             .low_ratio = 0.05,
                                             .high_ratio = 0.2,
                                             .point = b < 4 ? POINT - 1 : POINT,
                                             .is_measured = b < 5};
    for (int proven = 0; proven <= 1; proven++) {
        frontier.is_proven = proven == 1;
        lull_tried_report_frontier(&report, &gain, points);
        assert_true(points[2].saving_ratio == 0.123 && points[2].high_ratio == 0.2);
        assert_true(points[4].saving_ratio == 0.133 && points[4].low_ratio == 0.101 &&
                    points[4].high_ratio == 0.165);
        assert_true(points[3].saving_ratio == (proven == 1 ? 0.133 : 0.123));
    }
    report.limits = (const struct lull_limits *)&report; /* the gain is of a power limit */
    lull_tried_report_frontier(&report, &gain, points);
    assert_true(points[4].saving_ratio == 0.123);
    frontier.is_proven = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_steady_point_comes_on_top),
        cmocka_unit_test(several_levers_are_not_told_apart),
        cmocka_unit_test(a_steady_point_alone_has_all),
        cmocka_unit_test(what_was_not_compared_is_not_known),
        cmocka_unit_test(the_frontier_has_the_verdicts_figures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
