/*
 * Rates of kinds of jobs: lookups, refused input; Gavel's table by its published figures.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/text_file.h"
#include "cluster/trace/job_rates.h"

#define HEADER "gpu,consolidated,job_type,num_gpus,iters_per_s\n"

static const char *data_folder;

static int read_text(const char *text, struct lull_job_rates_table *table, struct lull_error *err)
{
    return lull_job_rates_read(text_file(text, strlen(text)), table, err);
}

static void test_found(void **state)
{
    struct lull_job_rates_table table;
    struct lull_job_rates rates;

    (void)state;
    assert_int_equal(read_text(HEADER "v100,1,B,2,8\nv100,1,B,1,5\nv100,0,B,2,3\nv100,1,B,4,0\n"
                                      "v1000,1,B,1,9\nk80,1,B,1,1\nv100,1,A,1,7\n",
                               &table, NULL),
                     0);
    assert_true(lull_job_rates_has_gpu(&table, "V100-SXM2-16GB"));
    assert_true(lull_job_rates_has_gpu(&table, "k80"));
    assert_false(lull_job_rates_has_gpu(&table, "A100-SXM4-40GB"));
    assert_false(lull_job_rates_has_gpu(&table, "v10"));
    lull_job_rates_of(&table, "V100-SXM2-16GB", "B", true, &rates);
    assert_int_equal(rates.count, 2);
    assert_int_equal(rates.rows[0].gpus, 1);
    assert_true(rates.rows[0].rate == 5.0 && rates.rows[1].rate == 8.0);
    lull_job_rates_of(&table, "v100", "B", false, &rates);
    assert_int_equal(rates.count, 2);
    assert_true(rates.rows[0].rate == 5.0 && rates.rows[1].rate == 3.0);
    lull_job_rates_of(&table, "v100", "C", true, &rates);
    assert_int_equal(rates.count, 0);
    lull_job_rates_of(&table, "k80", "A", true, &rates);
    assert_int_equal(rates.count, 0);
    lull_job_rates_fini(&table);
}

static void test_refused_with_the_place(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        {"", "is empty"},
        {"gpu,rate\n", "missing column consolidated"},
        {HEADER, "has no rates"},
        {HEADER ",1,A,1,1\n", "line 2, gpu"},
        {HEADER "k80,2,A,1,1\n", "line 2, consolidated"},
        {HEADER "k80,1,,1,1\n", "line 2, job_type"},
        {HEADER "k80,1,A,0,1\n", "line 2, num_gpus"},
        {HEADER "k80,1,A,1,1\nk80,1,A,2,-1\n", "line 3, iters_per_s"},
        {HEADER "k80,1,A,1\n", "line 2, cells: there are fewer"},
        {HEADER "k80,1,A,1,1,1\n", "line 2, cells: there are more"},
        {HEADER "k80,1,A,1,1\nK80,1,A,1,2\n", "A on 1 k80 is there twice"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_job_rates_table table;
        struct lull_error err = {0};

        assert_int_equal(read_text(cases[i].text, &table, &err), LULL_E_FORMAT);
        if (strcasestr(err.text, cases[i].says) == NULL)
            fail_msg("%s does not say %s", err.text, cases[i].says);
        assert_null(table.rows);
    }
}

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Scaling on one V100 server, median over kinds: 1.81 on 2, 2.28 on 4, 6.48 on 8 (cluster.md 2). */
static void test_published(void **state)
{
    static const struct {
        uint32_t gpus;
        double median;
    } wanted[] = {{2, 1.81}, {4, 2.28}, {8, 6.48}};
    struct lull_job_rates_table table;
    char path[4096];

    (void)state;
    snprintf(path, sizeof(path), "%s/gavel_throughputs_isolated.csv", data_folder);
    if (access(path, R_OK) != 0) {
        print_message("skipped: no %s\n", path);
        skip();
    }
    assert_int_equal(lull_job_rates_read(path, &table, NULL), 0);
    assert_int_equal(table.count, 492);
    for (int k = 0; k < 3; k++) {
        double ratio[64];
        size_t count = 0;

        for (size_t i = 0; i < table.count; i++) {
            struct lull_job_rates rates;

            if (strcmp(table.rows[i].gpu, "v100") != 0 || !table.rows[i].is_consolidated ||
                table.rows[i].gpus != wanted[k].gpus || table.rows[i].rate <= 0.0)
                continue;
            lull_job_rates_of(&table, "V100-PCIE-32GB", table.rows[i].job_type, true, &rates);
            assert_int_equal(rates.rows[0].gpus, 1);
            ratio[count++] = table.rows[i].rate / rates.rows[0].rate;
        }
        qsort(ratio, count, sizeof(ratio[0]), by_value);

        const double median = (ratio[(count - 1) / 2] + ratio[count / 2]) / 2.0;

        if (median < wanted[k].median - 0.006 || median > wanted[k].median + 0.006)
            fail_msg("%u GPUs: %.3f", wanted[k].gpus, median);
    }
    lull_job_rates_fini(&table);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_refused_with_the_place),
        cmocka_unit_test(test_published),
    };

    data_folder = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
