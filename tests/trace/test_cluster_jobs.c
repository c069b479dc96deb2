/*
 * Job traces: units, what is left out, what is refused; and the published ones, by their counts.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace/cluster_jobs.h"

static const char *data_folder;

static int read_text(const char *text, struct lull_cluster_jobs_table *table,
                     struct lull_error *err)
{
    struct lull_lines *lines;
    int rc;

    assert_int_equal(lull_lines_open_memory("jobs.csv", text, strlen(text), &lines, err), 0);
    rc = lull_cluster_jobs_read_lines(lines, table, err);
    lull_lines_close(lines);
    return rc;
}

static void test_units_and_order(void **state)
{
    struct lull_cluster_jobs_table table;

    (void)state;
    assert_int_equal(read_text("job_id,submit_min,num_gpus,duration_min,vc,deadlines_min,color\n"
                               "b,2,4,1.5,6214e9,10-20-30,red\n"
                               "a,1,1,0.25,6214e9,,blue\n"
                               "c,2,0,1,0e4a51,,\n"
                               "d,2,1,,0e4a51,,\n"
                               "e,2,1,1,0e4a51,,\n",
                               &table, NULL),
                     0);
    assert_int_equal(table.count, 3);
    assert_int_equal(table.without_gpus, 1);
    assert_int_equal(table.without_duration, 1);
    assert_string_equal(lull_cluster_jobs_name(&table, table.rows[0].id), "a");
    assert_int_equal(table.rows[0].submit_ns, 60 * INT64_C(1000000000));
    assert_int_equal(table.rows[0].duration_ns, 15 * INT64_C(1000000000));
    assert_int_equal(table.rows[0].deadline_ns, LULL_CLUSTER_JOBS_NO_DEADLINE);
    assert_int_equal(table.rows[0].model, UINT32_MAX);
    assert_int_equal(table.rows[0].vc, table.rows[1].vc);
    assert_string_equal(lull_cluster_jobs_name(&table, table.rows[1].vc), "6214e9");
    assert_string_equal(lull_cluster_jobs_name(&table, table.rows[1].id), "b");
    assert_int_equal(table.rows[1].deadline_ns, 12 * 60 * INT64_C(1000000000));
    assert_string_equal(lull_cluster_jobs_name(&table, table.rows[2].id), "e");
    lull_cluster_jobs_fini(&table);
}

static void test_refused_with_the_place(void **state)
{
    static const struct {
        const char *text;
        const char *said;
    } cases[] = {
        {"", "is empty"},
        {"job_id,num_gpus,duration_s\n", "no column submit_s"},
        {"submit_s,duration_s\n", "no column num_gpus"},
        {"submit_s,num_gpus\n", "no column duration_s"},
        {"submit_s,submit_min,num_gpus,duration_s\n", "another column says the same"},
        {"submit_s,num_gpus,duration_s\n1,2\n", "line 2, cells"},
        {"submit_s,num_gpus,duration_s\n1,2,3,4\n", "line 2, cells"},
        {"submit_s,num_gpus,duration_s\n0,1,1\nx,2,3\n", "line 3, submit_s: no such number"},
        {"submit_s,num_gpus,duration_s\n-1,2,3\n", "line 2, submit_s: a time below 0"},
        {"submit_s,num_gpus,duration_s\n1,-2,3\n", "line 2, num_gpus"},
        {"submit_s,num_gpus,duration_s\n1,2,-3\n", "line 2, duration_s: a time below 0"},
        {"submit_s,num_gpus,duration_s\n1,2,1e12\n", "line 2, duration_s"},
        {"submit_s,num_gpus,duration_s,deadline_s\n5,2,1,4\n", "before the job's submission"},
        {"submit_s,num_gpus,scheduled_s,deletion_s\n5,2,9,8\n", "before scheduled_s"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_cluster_jobs_table table;
        struct lull_error err = {0};

        assert_int_equal(read_text(cases[i].text, &table, &err), LULL_E_FORMAT);
        assert_non_null(strstr(err.text, cases[i].said));
        assert_null(table.rows);
    }
}

static void test_published(void **state)
{
    static const struct {
        const char *name;
        size_t count, without_gpus, without_duration;
    } files[] = {
        {"philly_jobs.csv.gz", 82247, 0, 0},          {"chronus_philly_mix2.csv.gz", 30746, 194, 0},
        {"elasticflow_philly_103959.csv", 876, 0, 0}, {"elasticflow_vs_pollux.csv", 195, 0, 0},
        {"gavel_jobs.csv.gz", 13716, 0, 1548},
    };
    struct lull_cluster_jobs_table table;
    struct lull_error err;
    char path[512];

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", data_folder, files[i].name);
        if (access(path, R_OK) < 0)
            skip();
        if (lull_cluster_jobs_read(path, &table, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(table.count, files[i].count);
        assert_int_equal(table.without_gpus, files[i].without_gpus);
        assert_int_equal(table.without_duration, files[i].without_duration);
        lull_cluster_jobs_fini(&table);
    }
    snprintf(path, sizeof(path), "%s/openb_pods.csv.gz", data_folder);
    assert_int_equal(lull_cluster_jobs_read(path, &table, &err), 0);
    assert_int_equal(table.without_gpus, 1088);
    assert_int_equal(table.count + table.without_duration, 7064);
    lull_cluster_jobs_fini(&table);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units_and_order),
        cmocka_unit_test(test_refused_with_the_place),
        cmocka_unit_test(test_published),
    };

    data_folder = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
