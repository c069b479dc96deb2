/*
 * Possible savings of recorded jobs, against the published table. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/text.h"
#include "lab/reproduce/zeus/recurrence.h"
#include "zeus_case.h"

enum { COLUMNS = 27 };

static double number(const char *text)
{
    double value = 0.0;

    assert_int_equal(lull_text_parse_number(text, &value), 0);
    return value;
}

/* The table has three decimals. */
static void near(const char *cell, double actual)
{
    const double half = 0.00051;

    if (!(fabs(actual - number(cell)) <= half))
        fail_msg("%.6f, not %s", actual, cell);
}

static double saving_pct(const struct lull_recurrence_knobs *knobs,
                         const struct lull_recurrence_knobs *base)
{
    return 100.0 * (1.0 - knobs->energy_j / base->energy_j);
}

static double change_pct(const struct lull_recurrence_knobs *knobs,
                         const struct lull_recurrence_knobs *base)
{
    return 100.0 * (knobs->time_s / base->time_s - 1.0);
}

static void check_row(char *const *cells)
{
    struct lull_batch_trace *trace = zeus_read(cells[0], cells[1]);
    struct lull_recurrence_potential p;
    struct lull_error err = {0};

    assert_non_null(trace);
    assert_int_equal(lull_recurrence_search(trace, 0.5, &p, &err), 0);
    assert_int_equal(lull_recurrence_count(trace), (int)number(cells[10]));
    near(cells[6], p.base.size);
    near(cells[7], p.base.limit_w);
    near(cells[11], p.base.energy_j);
    near(cells[12], p.base.time_s);
    near(cells[13], saving_pct(&p.best_size, &p.base));
    near(cells[14], saving_pct(&p.best_limit, &p.base));
    near(cells[15], saving_pct(&p.min_energy, &p.base));
    near(cells[16], p.min_energy.size);
    near(cells[17], p.min_energy.limit_w);
    near(cells[18], change_pct(&p.min_energy, &p.base));
    near(cells[19], p.min_cost.size);
    near(cells[20], p.min_cost.limit_w);
    near(cells[21], saving_pct(&p.min_cost, &p.base));
    near(cells[22], change_pct(&p.min_cost, &p.base));
    near(cells[23], p.min_time.size);
    near(cells[24], p.min_time.limit_w);
    near(cells[25], change_pct(&p.min_time, &p.base));
    near(cells[26], saving_pct(&p.min_time, &p.base));
    lull_batch_trace_destroy(trace);
}

static void test_the_exhaustive_optimum_is_the_published_one(void **state)
{
    struct lull_lines *lines = NULL;
    struct lull_error err = {0};
    char *rest = NULL;
    uint32_t rows = 0;

    (void)state;
    if (zeus_is_absent()) {
        print_message("skipped: no " ZEUS_TRAIN "\n");
        skip();
    }
    assert_int_equal(lull_lines_open(LULL_ZEUS_DATA "/golden/potential.csv", &lines, &err), 0);
    assert_int_equal(lull_lines_next(lines, &rest, &err), 1);
    while (lull_lines_next(lines, &rest, &err) == 1) {
        char *cells[COLUMNS];

        for (size_t i = 0; i < COLUMNS; i++)
            cells[i] = lull_lines_cell(&rest);
        check_row(cells);
        rows++;
    }
    lull_lines_close(lines);
    assert_int_equal(rows, 12);
}

static const struct lull_batch_trace_size small = {
    .size = 8,
    .limit_count = 2,
    .path_count = 1,
    .limits = {{200.0, 10.0, 100.0}, {100.0, 12.0, 50.0}},
    .paths = {{1, 5.0}},
};

static void test_the_first_run_pays_for_finding_its_limit(void **state)
{
    struct lull_recurrence_run run = {
        .size = &small,
        .limit = lull_recurrence_choose_limit(&small, 1.0),
        .epochs = 5.0,
        .bound = INFINITY,
        .is_profiling = true,
    };

    (void)state;
    assert_ptr_equal(run.limit, &small.limits[1]);
    assert_ptr_equal(lull_recurrence_choose_limit(&small, 0.0), &small.limits[0]);
    lull_recurrence_execute(&run, 1.0, 10);
    assert_true(run.has_reached);
    assert_true(fabs(run.energy_j - (800.0 + 4.0 * 600.0)) < 1e-9);
    assert_true(fabs(run.time_s - (11.0 + 4.0 * 12.0)) < 1e-9);
}

static void test_the_bound_ends_a_run(void **state)
{
    struct lull_recurrence_run run = {
        .size = &small, .limit = &small.limits[1], .epochs = 5.0, .bound = 4.0 * 600.0};

    (void)state;
    lull_recurrence_execute(&run, 1.0, 10);
    assert_false(run.has_reached);
    assert_int_equal(run.max_epochs, 4);
    assert_true(fabs(run.energy_j - 2400.0) < 1e-9);
    /* On an integer but for rounding. */
    run.bound = 5.0 * 600.0 * (1.0 - 1e-12);
    lull_recurrence_execute(&run, 1.0, 10);
    assert_true(run.has_reached);
    run.bound = 599.0;
    lull_recurrence_execute(&run, 1.0, 10);
    assert_true(!run.has_reached && run.energy_j == 0.0 && run.time_s == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_exhaustive_optimum_is_the_published_one),
        cmocka_unit_test(test_the_first_run_pays_for_finding_its_limit),
        cmocka_unit_test(test_the_bound_ends_a_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
