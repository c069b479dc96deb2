/*
 * Job traces and the nodes they ran on: units, skipped rows, refused input; and the published
 * traces, by their counts. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/text_file.h"
#include "cluster/trace/job_table.h"
#include "cluster/trace/cluster_tables.h"

/* Returns the number of jobs that need less than a whole GPU. */
static size_t count_fractional(const struct lull_job_table *table)
{
    size_t count = 0;

    for (size_t i = 0; i < table->count; i++)
        count += table->rows[i].gpu_milli < 1000;
    return count;
}

static const char *data_folder;

static int read_text(const char *text, struct lull_job_table *table, struct lull_error *err)
{
    return lull_job_table_read(text_file(text, strlen(text)), table, err);
}

static void test_units_and_order(void **state)
{
    struct lull_job_table table;

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
    assert_string_equal(lull_job_table_name(&table, table.rows[0].id), "a");
    assert_int_equal(table.rows[0].submit_ns, 60 * INT64_C(1000000000));
    assert_int_equal(table.rows[0].duration_ns, 15 * INT64_C(1000000000));
    assert_int_equal(table.rows[0].deadline_ns, LULL_JOB_TABLE_NO_DEADLINE);
    assert_int_equal(table.rows[0].model, UINT32_MAX);
    assert_int_equal(table.rows[0].vc, table.rows[1].vc);
    assert_string_equal(lull_job_table_name(&table, table.rows[1].vc), "6214e9");
    assert_string_equal(lull_job_table_name(&table, table.rows[1].id), "b");
    assert_int_equal(table.rows[1].deadline_ns, 12 * 60 * INT64_C(1000000000));
    assert_string_equal(lull_job_table_name(&table, table.rows[2].id), "e");
    lull_job_table_fini(&table);
}

static void test_refused_with_the_place(void **state)
{
    static const struct {
        const char *text;
        const char *said;
    } cases[] = {
        {"", "is empty"},
        {"job_id,num_gpus,duration_s\n", "missing column submit_s"},
        {"submit_s,duration_s\n", "missing column num_gpus"},
        {"submit_s,num_gpus\n", "missing column duration_s"},
        {"submit_s,submit_min,num_gpus,duration_s\n", "another column has the same meaning"},
        {"submit_s,num_gpus,duration_s\n1,2\n", "line 2, cells"},
        {"submit_s,num_gpus,duration_s\n1,2,3,4\n", "line 2, cells"},
        {"submit_s,num_gpus,duration_s\n0,1,1\nx,2,3\n", "line 3, submit_s: no such number"},
        {"submit_s,num_gpus,duration_s\n-1,2,3\n", "line 2, submit_s: a time below 0"},
        {"submit_s,num_gpus,duration_s\n1,-2,3\n", "line 2, num_gpus"},
        {"submit_s,num_gpus,duration_s\n1,2,-3\n", "line 2, duration_s: a time below 0"},
        {"submit_s,num_gpus,duration_s\n1,2,1e12\n", "line 2, duration_s"},
        {"submit_s,num_gpus,duration_s\n1,8.5,3\n", "line 2, num_gpus: not a number of GPUs"},
        {"submit_s\tnum_gpus\tduration_s\n1\t1,024\t3\n", "the comma may group digits"},
        {"submit_s,num_gpus,duration_s\n1714600000000,2,3\n", "is it in milliseconds?"},
        {"submit_s,num_gpus,duration_s\n1,2,3\n1714600000,2,3\n",
         "line 3: submitted over 30 years"},
        {"a,b,c\n1,2,3\n", "missing column submit_s or submit_min or creation_s, and no num_gpus"},
        {"a;b;c\n1;2;3\n", "found a, b, c (3 columns, separated by semicolons); the columns are"},
        {"submit_s,num_gpus,duration_s\n\"1,2,3\n4,5,6\n", "line 2, cells: a cell's quotes"},
        {"submit_s,gpu_request,duration_s\n1,1.5,3\n", "neither whole GPUs nor a share of one"},
        {"[{\"a\":1}]", "only Philly's cluster_job_log is read"},
        {"{\"a\":1}", "only Philly's cluster_job_log"},
        {"; SWF\n1 2 3\n", "line 2: 3 of the 18 numbers"},
        {"t\tp\td\ts\t1\t1000\t2\t1\t-1.0\t7\n", "a number of steps and no duration"},
        {"submit_s,num_gpus,duration_s,deadline_s\n5,2,1,4\n", "before the job's submission"},
        {"submit_s,num_gpus,scheduled_s,deletion_s\n5,2,9,8\n", "before scheduled_s"},
        {"submit_s,num_gpus,duration_s,num_gpus\n", "is named twice"},
        {"submit_s,num_gpus,duration_s,values\n", "missing column deadlines_min"},
        {"submit_s,num_gpus,duration_s,weight\n1,1,1,0\n", "line 2, weight: not from"},
        {"submit_s,num_gpus,duration_s,gpu_memory_mib\n1,1,1,-1\n", "line 2, gpu_memory_mib"},
        {"submit_s,num_gpus,duration_s,preemptible\n1,1,1,yes\n", "line 2, preemptible"},
        {"submit_s,num_gpus,duration_s,least_gpus\n1,4,1,5\n", "not from 1 to num_gpus"},
        {"submit_s,num_gpus,duration_s,most_gpus\n1,4,1,3\n", "below num_gpus"},
        {"submit_s,num_gpus,duration_s,gpu_milli\n1,1,1,1001\n", "line 2, gpu_milli"},
        {"submit_s,num_gpus,duration_s,value_j\n1,1,1,x\n", "line 2, value_j: not a number"},
        {"submit_s,num_gpus,duration_s,value_j\n1,1,1,\n1,1,1,0\n", "line 3, value_j: not above"},
        {"submit_s,num_gpus,duration_s,value_j\n1,1,1,1.1e15\n", "line 2, value_j: not above"},
        {"submit_s,num_gpus,duration_s,deadlines_min\n\n1,1,1,9-8\n", "line 3, deadlines_min"},
        {"submit_s,num_gpus,duration_s,deadlines_min\n1,1,1,-8\n", "line 2, deadlines_min"},
        {"submit_s,num_gpus,duration_s,deadlines_min,deadline_s\n", "has the same meaning"},
        {"submit_s,num_gpus,duration_s,deadlines_min,values\n1,1,1,8-9,5\n", "not as many"},
        {"submit_s,num_gpus,duration_s,deadlines_min,values\n1,1,1,8,5-4\n", "not as many"},
        {"submit_s,num_gpus,duration_s,deadlines_min,values\n1,1,1,8-9,5-6\n", "for being later"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_job_table table;
        struct lull_error err = {0};

        assert_int_equal(read_text(cases[i].text, &table, &err), LULL_E_FORMAT);
        assert_non_null(strstr(err.text, cases[i].said));
        assert_null(table.rows);
    }
}

/* A table, and the expected values of its only job. */
static void expect_job(const char *text, uint32_t gpus, uint32_t gpu_milli, int64_t submit_s,
                       int64_t duration_s)
{
    struct lull_job_table table;
    struct lull_error err = {0};

    if (read_text(text, &table, &err) < 0)
        fail_msg("%s", err.text);
    if (table.count != 1)
        fail_msg("%zu jobs in '%s'", table.count, text);
    assert_int_equal(table.rows[0].gpus, gpus);
    assert_int_equal(table.rows[0].gpu_milli, gpu_milli);
    assert_int_equal(table.rows[0].submit_ns, submit_s * INT64_C(1000000000));
    assert_int_equal(table.rows[0].duration_ns, duration_s * INT64_C(1000000000));
    lull_job_table_fini(&table);
}

static void test_tables_as_programs_write_them(void **state)
{
    (void)state;
    expect_job(
        "\"job_id\";\"submit_s\";\"num_gpus\";\"duration_s\"\r\n\"a;b\";0;8,0;1.000,0\r\n;;;\r\n",
        8, 1000, 0, 1000);
    expect_job("\"job_id\",submit_s,num_gpus,duration_s\n\"two\nlines\",1e1,\"1,024\",\"2,000\"\n",
               1024, 1000, 10, 2000);
    expect_job("# made by hand\nsep=\t\nSubmit_S\tNUM_GPUS\tduration_s\n5\t2\t00:01:40\n", 2, 1000,
               5, 100);
    expect_job("submit_s|num_gpus|duration_s|\n5|2|7|\nsubmit_s|num_gpus|duration_s|\n", 2, 1000, 5,
               7);
    expect_job("submit_s,num_gpus,duration_s\n2024-02-29 00:00:01+01:00,2,7\n", 2, 1000, 1709161201,
               7);
    expect_job("submit_s,num_gpus,duration_s\n1709164801,2,7\n", 2, 1000, 1709164801, 7);
}

static void test_published_tables(void **state)
{
    (void)state;
    expect_job("job_id,user,node_num,gpu_num,state,submit_time,start_time,end_time,duration,queue\n"
               "1,u,1,8,COMPLETED,1970-01-02 08:00:00+08:00,1970-01-02 08:00:30+08:00,"
               "1970-01-02 08:10:30+08:00,600,30\n"
               "2,u,1,8,RUNNING,1970-01-02 08:00:00+08:00,1970-01-02 08:00:30+08:00,,600,30\n",
               8, 1000, 86400, 600);
    expect_job(
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,2,9,1,vgg,150,30\n",
        2, 1000, 9, 150);
    expect_job("name,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n"
               "p,1,460,,0,500,20\nq,1,460,,0,,20\nr,1,460,,,500,20\n",
               1, 460, 0, 480);
    expect_job("job_name,inst_num,submit_time,start_time,end_time,plan_gpu\na,2,5,10,110,50.0\n"
               "b,2,5,110,10,100\n",
               2, 500, 5, 100);
    expect_job(
        "job_name,organization,gpu_model,gpu_request,worker_num,submit_time,duration,job_type\n"
        "a,o,A10,8,4,5,100,HP\n",
        32, 1000, 5, 100);
    expect_job("JobID|Partition|Submit|Start|End|Elapsed|AllocTRES|State\n"
               "7|p|1970-01-02T00:00:00|1970-01-02T00:10:00|1970-01-04T01:11:12|2-01:01:12|"
               "billing=4,gres/gpu:x=1,gres/gpu:y=3,gres/gpu=4,node=1|COMPLETED\n"
               "7.batch||1970-01-02T00:10:00|1970-01-02T00:10:00|1970-01-04T01:11:12|2-01:01:12|"
               "gres/gpu=4|COMPLETED\n"
               "8|p|1970-01-02T00:30:00|Unknown|Unknown|00:00:00|gres/gpu=2|PENDING\n",
               4, 1000, 86400, 176472);
}

static void test_formats_that_are_no_tables(void **state)
{
    (void)state;
    expect_job(
        "[{\"vc\":\"v\",\"jobid\":\"j\",\"submitted_time\":\"1970-01-02 00:00:00\",\"attempts\":["
        "{\"start_time\":\"1970-01-02 00:05:00\",\"end_time\":\"1970-01-02 00:06:00\",\"detail\":"
        "[{\"ip\":\"a\",\"gpus\":[\"gpu0\",\"gpu1\"]},{\"ip\":\"b\",\"gpus\":[\"gpu0\"]}]},"
        "{\"start_time\":\"1970-01-02 01:05:00\",\"end_time\":\"1970-01-02 01:05:30\",\"detail\":"
        "[{\"ip\":\"a\",\"gpus\":[\"gpu0\",\"gpu1\",\"gpu2\"]}]}]},"
        "{\"vc\":\"v\",\"jobid\":\"k\",\"submitted_time\":\"1970-01-02 00:00:00\",\"attempts\":["
        "{\"start_time\":null,\"end_time\":\"None\",\"detail\":[{\"gpus\":[\"gpu0\"]}]}]}]",
        3, 1000, 86400, 90);
    expect_job("; Version: 2.2\n\n 1 5 7 300 2 -1 -1 4 900 -1 1 1 1 -1 1 0 -1 -1\n"
               " 2 5 -1 -1 -1 -1 -1 4 900 -1 5 1 1 -1 1 0 -1 -1\n",
               2, 1000, 5, 300);
    expect_job("t (batch size 16)\tpython3 t.py\td\t--steps\t1\t1000\t2\tstatic\t1\t-1.0\t420\t7\n",
               2, 1000, 7, 420);
}

static void test_what_is_left_out_is_counted(void **state)
{
    struct lull_job_table table;

    (void)state;
    assert_int_equal(read_text("job_id,submit_s,num_gpus,duration_s\n"
                               "a,0,8.0,10\nb,1,,10\nc,2,1,\nd,3,1,0\ne,,1,5\nf,4,1,N/A\n",
                               &table, NULL),
                     0);
    assert_int_equal(table.count, 1);
    assert_int_equal(table.without_gpus, 1);
    assert_int_equal(table.without_duration, 2);
    assert_int_equal(table.of_no_duration, 1);
    assert_int_equal(table.without_submission, 1);
    lull_job_table_fini(&table);
}

static void test_needs(void **state)
{
    struct lull_job_table table;

    (void)state;
    assert_int_equal(read_text("job_id,submit_s,num_gpus,duration_s,weight,gpu_memory_mib,"
                               "preemptible,least_gpus,most_gpus\n"
                               "a,0,4,9,2.5,40000,1,2,16\n"
                               "b,0,4,9,,,0,,8\n"
                               "c,0,4,9,,,,4,\n",
                               &table, NULL),
                     0);
    assert_true(table.rows[0].weight == 2.5 && table.rows[1].weight == 1.0);
    assert_int_equal(table.rows[0].memory_mib, 40000);
    assert_int_equal(table.rows[1].memory_mib, 0);
    assert_int_equal(table.rows[0].preemptible, 1);
    assert_int_equal(table.rows[1].preemptible, 0);
    assert_int_equal(table.rows[2].preemptible, -1);
    assert_int_equal(table.rows[0].min_gpus, 2);
    assert_int_equal(table.rows[0].max_gpus, 16);
    assert_int_equal(table.rows[1].min_gpus, 4);
    assert_int_equal(table.rows[1].max_gpus, 8);
    assert_int_equal(table.rows[2].max_gpus, 0);
    lull_job_table_fini(&table);
}

static void test_shares_of_gpus_and_values(void **state)
{
    struct lull_job_table table;

    (void)state;
    assert_int_equal(read_text("pod,submit_s,num_gpu,gpu_milli,gpu_spec,duration_s,deadlines_min,"
                               "values\n"
                               "a,0,1,460,V100M16|V100M32,9,1-2-3,10-8-2.5\n"
                               "dropped,0,1,460,,,1-2,10-8\n"
                               "b,0,2,1000,,9,5,\n"
                               "c,0,0,0,,9,,\n"
                               "d,0,1,,,9,,\n",
                               &table, NULL),
                     0);
    assert_int_equal(table.count, 3);
    assert_int_equal(count_fractional(&table), 1);
    assert_int_equal(table.rows[0].gpu_milli, 460);
    assert_string_equal(lull_job_table_name(&table, table.rows[0].gpu_models), "V100M16|V100M32");
    assert_int_equal(table.rows[1].gpu_models, UINT32_MAX);
    assert_int_equal(table.rows[2].gpu_milli, 1000);
    assert_int_equal(table.step_count, 4);
    assert_int_equal(table.rows[0].step_count, 3);
    assert_true(table.steps[2].value == 2.5);
    assert_int_equal(table.steps[2].deadline_ns, 180 * INT64_C(1000000000));
    assert_int_equal(table.rows[1].first_step, 3);
    assert_true(table.steps[3].value == 1.0);
    assert_int_equal(table.rows[2].step_count, 0);
    lull_job_table_fini(&table);
}

static void test_values_in_joules(void **state)
{
    struct lull_job_table table;

    (void)state;
    assert_int_equal(
        read_text("submit_s,value_j,num_gpus,duration_s\n0,2.5e6,1,9\n1,,1,9\n", &table, NULL), 0);
    assert_true(table.rows[0].value_j == 2.5e6);
    assert_true(table.rows[1].value_j == 0.0);
    lull_job_table_fini(&table);
    assert_int_equal(read_text("submit_s,num_gpus,duration_s\n0,1,9\n", &table, NULL), 0);
    assert_true(table.rows[0].value_j == 0.0);
    lull_job_table_fini(&table);
}

static void test_workloads(void **state)
{
    char text[512];
    struct lull_job_table table;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(read_text("job_id,submit_s,num_gpus,duration_s,workload\n"
                               "a,0,1,5,ranks/0.et\nb,1,1,5,\nc,2,1,5, ranks/0.et\nd,3,1,5,x\n",
                               &table, NULL),
                     0);
    assert_string_equal(lull_job_table_name(&table, table.rows[0].workload), "ranks/0.et");
    assert_int_equal(table.rows[1].workload, UINT32_MAX);
    assert_int_equal(table.rows[2].workload, table.rows[0].workload);
    assert_true(table.rows[3].workload != table.rows[0].workload);
    assert_int_equal(table.rows[3].line, 5);
    lull_job_table_fini(&table);
    for (int length = 255; length <= 256; length++) {
        snprintf(text, sizeof(text), "submit_s,num_gpus,duration_s,job_id,workload\n0,1,5,a,%0*d\n",
                 length, 7);
        assert_int_equal(read_text(text, &table, &err), length == 255 ? 0 : LULL_E_FORMAT);
        lull_job_table_fini(&table);
    }
    assert_non_null(strstr(err.text, "line 2, workload: a name of more than 255 bytes"));
}

/* Columns in any order; others are passed over. */
static void test_pools(void **state)
{
    static const char text[] = "color,nodes,vc\nred,3,6214e9\nblue,4,x\n";
    struct lull_cluster_pools_table pools;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_cluster_pools_read(text_file(text, sizeof(text) - 1), &pools, &err), 0);
    assert_int_equal(pools.nodes, 7);
    assert_int_equal(lull_cluster_pools_find(&pools, "6214e9"), 0);
    lull_cluster_pools_fini(&pools);
}

/* Their published numbers. Gavel's jobs of up to 64 GPUs have no known duration. */
static const struct published {
    const char *name;
    size_t count, without_gpus, without_duration;
    double gpu_h;
    double gpu_h_margin; /* as it is rounded there */
    uint32_t max_gpus;
    size_t with_deadline;
    uint32_t steps; /* the longest list of deadlines */
} published[] = {
    {"philly_jobs.csv.gz", 82247, 0, 0, 978078.0, 1.0, 128, 0, 0},
    {"chronus_philly_mix2.csv.gz", 30746, 194, 0, 379e3, 500.0, 32, 27621, 4},
    {"elasticflow_philly_103959.csv", 876, 0, 0, 43e3, 500.0, 4, 876, 1},
    {"elasticflow_vs_pollux.csv", 195, 0, 0, 9e3, 500.0, 16, 195, 1},
    {"gavel_jobs.csv.gz", 13716, 0, 1548, 763e3, 500.0, 8, 0, 0},
    {"openb_pods.csv.gz", 6203, 1088, 861, 51e3, 500.0, 8, 0, 0},
};

static void check_table(const struct lull_job_table *table, const struct published *file)
{
    double gpu_h = 0.0;
    uint32_t max_gpus = 0;
    size_t with_deadline = 0;
    uint32_t steps = 0;

    for (size_t i = 0; i < table->count; i++) {
        const struct lull_job_table_row *row = &table->rows[i];

        gpu_h += row->gpus * (row->gpu_milli / 1000.0) * (double)row->duration_ns / 3.6e12;
        max_gpus = row->gpus > max_gpus ? row->gpus : max_gpus;
        with_deadline += row->deadline_ns != LULL_JOB_TABLE_NO_DEADLINE;
        steps = row->step_count > steps ? row->step_count : steps;
    }
    print_message("%s: %zu jobs, %.1f GPU-h, at most %u GPUs, %zu with deadlines\n", file->name,
                  table->count, gpu_h, max_gpus, with_deadline);
    assert_int_equal(table->count, file->count);
    assert_int_equal(table->without_gpus, file->without_gpus);
    assert_int_equal(table->without_duration, file->without_duration);
    assert_true(gpu_h > file->gpu_h - file->gpu_h_margin);
    assert_true(gpu_h < file->gpu_h + file->gpu_h_margin);
    assert_int_equal(max_gpus, file->max_gpus);
    assert_int_equal(with_deadline, file->with_deadline);
    assert_int_equal(steps, file->steps);
}

static void test_published(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
        struct lull_job_table table;
        struct lull_error err;
        char path[512];

        snprintf(path, sizeof(path), "%s/%s", data_folder, published[i].name);
        if (access(path, R_OK) < 0) {
            print_message("skipped: no %s\n", path);
            skip();
        }
        if (lull_job_table_read(path, &table, &err) < 0)
            fail_msg("%s", err.text);
        check_table(&table, &published[i]);
        assert_int_equal(count_fractional(&table), i == 5 ? 2573 : 0);
        lull_job_table_fini(&table);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_as_programs_write_them),
        cmocka_unit_test(test_published_tables),
        cmocka_unit_test(test_formats_that_are_no_tables),
        cmocka_unit_test(test_what_is_left_out_is_counted),
        cmocka_unit_test(test_needs),
        cmocka_unit_test(test_units_and_order),
        cmocka_unit_test(test_refused_with_the_place),
        cmocka_unit_test(test_values_in_joules),
        cmocka_unit_test(test_shares_of_gpus_and_values),
        cmocka_unit_test(test_workloads),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_published),
    };

    data_folder = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
