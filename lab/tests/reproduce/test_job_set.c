/*
 * Job sets with a file per job: the three forms that such files have, gaps in their numbers,
 * refused input with its place; and the same names as a table. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lab/reproduce/edl/tasks.h"
#include "lab/reproduce/ada_srsf/training_jobs.h"

static const char *data_folder;

static int read_text(const char *text, struct lull_training_job *job, struct lull_error *err)
{
    char copy[2048];

    assert_true(strlen(text) < sizeof(copy));
    memcpy(copy, text, strlen(text) + 1);
    return lull_training_jobs_read_text("job_7.json", copy, job, err);
}

static void check_job(const struct lull_training_job *job)
{
    assert_int_equal(job->id, 7);
    assert_int_equal(job->workers, 4);
    assert_int_equal(job->iterations, 46);
    assert_int_equal(job->forward_ms, 25);
    assert_int_equal(job->backward_ms, 37);
    assert_true(job->model_mb == 99.5 && job->memory_mb == 3213.0);
    assert_int_equal(job->arrival_ms, 5004);
    assert_string_equal(job->net, "resnet50");
}

static void test_three_forms(void **state)
{
    static const char *const texts[] = {
        /* JSON with an unrequested field */
        "{\n \"job_id\": 7, \"nworkers\": 4, \"iters\": 46, \"dnn\": \"resnet50\",\n"
        " \"gpus\": [2, {\"a\": \"]\"}, [3]], \"schedule\": {\"rank_0\": {\"forward\": [0, 0]}},\n"
        " \"fw_time\":25,\"bw_time\":37,\"model_size\":99.5,\"train_mem\":3213,\n"
        " \"start_time\": 5004\n}\n",
        /* flow style, folded as YAML writers fold, with comments */
        "# a job\n{batch_size: 16, bw_time: 37, cuda_enabled: 1, data_dir: ./data, dnn: resnet50,\n"
        "  fw_time: 25, iters: 46, job_id: 7, lr: 0.1, model_size: 99.5, name: 'it: {a}',\r\n"
        "  nsteps_update: 1, nworkers: 4, start_time: 5004, # ms\n  train_mem: 3213}",
        /* block style */
        "---\nbatch_size: 16\nbw_time: 37   # ms\ndnn: \"resnet50\"\nfw_time: 25\niters: 46\n"
        "gpus:\n- 2\n- 3\nhosts: [a,\n  b]\nschedule:\n  iters: 3\njob_id: 7\r\n\nmodel_size: "
        "99.5\n"
        "nworkers: 4\nstart_time: 5004\ntrain_mem: 3213",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct lull_training_job job;
        struct lull_error err = {0};

        if (read_text(texts[i], &job, &err) < 0)
            fail_msg("%s", err.text);
        check_job(&job);
    }
}

static void test_refused_with_the_place(void **state)
{
    static const struct {
        const char *text;
        const char *said;
    } cases[] = {
        {"", "there is no job_id in it"},
        {"{}", "there is no job_id in it"},
        {"{job_id: 1, nworkers: 2}", "there is no iters in it"},
        {"[1, 2]", "line 1: this is not a name"},
        {"{job_id: 1,\n job_id: 2}", "line 2, job_id: is named twice"},
        {"{job_id 1}", "line 1: a colon"},
        {"{job_id: 1\n iters: 2}", "line 2: a comma or closing brace"},
        {"{job_id: 1", "line 1: a comma or closing brace"},
        {"{job_id: \"1\n\"}", "line 1: a quoted text does not end"},
        {"{a: [1, 2}", "line 1: a bracket is closed by"},
        {"{a: [1, 2", "line 1: a list or map does not end"},
        {"{a: 1} b", "line 1: there is more text"},
        {"job_id 1\n", "line 1: this is not a name, a colon and a value"},
        {"job_id: 1\n\nx\n", "line 3: this is not a name"},
        {"{job_id: 1, nworkers: 0, iters: 1, fw_time: 1, bw_time: 1, model_size: 1}",
         "line 1, nworkers: not a whole number"},
        {"job_id: 1\nnworkers: 2\niters: x\nfw_time: 1\nbw_time: 1\nmodel_size: 1\n",
         "line 3, iters"},
        {"job_id: 1\nnworkers: 2\niters: 1\nfw_time: 1\nbw_time: 1\nmodel_size: -1\n",
         "line 6, model_size: not from 0"},
        {"job_id: 1\nnworkers: 2\niters: 1\nfw_time: 1\nbw_time: 1\nmodel_size: 1\nstart_time: -5",
         "line 7, start_time"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_training_job job;
        struct lull_error err = {0};

        assert_int_equal(read_text(cases[i].text, &job, &err), LULL_E_FORMAT);
        if (strstr(err.text, "job_7.json") == NULL || strstr(err.text, cases[i].said) == NULL)
            fail_msg("'%s' does not say '%s'", err.text, cases[i].said);
    }
}

static void test_nesting_is_bounded(void **state)
{
    char text[256] = "{a: ";
    struct lull_training_job job;
    struct lull_error err = {0};

    (void)state;
    memset(text + 4, '[', 200);
    assert_int_equal(read_text(text, &job, &err), LULL_E_FORMAT);
    assert_non_null(strstr(err.text, "too deeply"));
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void remove_file(const char *folder, const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    unlink(path);
}

/* The jobs of a folder come in the order of their numbers, which have gaps. Other files stay
 * untouched. */
static void test_folder(void **state)
{
    static const char *const names[] = {"job_10.json", "job_9.json", "job_2.json",  "job_x.json",
                                        "job_03.json", "notes.txt",  "job_1.json~", "cluster_j0"};
    static const char form[] = "{job_id: %d, nworkers: 1, iters: 1, fw_time: 2, bw_time: 3, "
                               "model_size: 4}";
    char folder[] = "/tmp/lull-jobs-XXXXXX";
    struct lull_training_job *jobs = NULL;
    struct lull_error err = {0};
    size_t count = 0;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(lull_training_jobs_read(folder, &jobs, &count, &err), LULL_E_FORMAT);
    assert_non_null(strstr(err.text, "are no files job_0.json"));
    for (int i = 0; i < 3; i++) {
        char text[128];

        snprintf(text, sizeof(text), form, atoi(names[i] + 4));
        write_file(folder, names[i], text);
    }
    for (size_t i = 3; i < sizeof(names) / sizeof(names[0]); i++)
        write_file(folder, names[i], "nothing of ours");
    if (lull_training_jobs_read(folder, &jobs, &count, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(count, 3);
    assert_int_equal(jobs[0].id, 2);
    assert_int_equal(jobs[1].id, 9);
    assert_int_equal(jobs[2].id, 10);
    assert_int_equal(jobs[2].arrival_ms, 0);
    free(jobs);
    write_file(folder, "job_9.json", "{job_id: 9,\n nworkers: many}");
    assert_int_equal(lull_training_jobs_read(folder, &jobs, &count, &err), LULL_E_FORMAT);
    assert_non_null(strstr(err.text, "job_9.json"));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        remove_file(folder, names[i]);
    assert_int_equal(rmdir(folder), 0);
}

static void test_tasks(void **state)
{
    char text[] = "{D: 24.5, arrival: 5, cg: 72.25, delta: 0.75,\n  gamma: 57, job_id: 3, "
                  "job_name: j0, power_basic: 80.5,\n  t0: 7.5, utilization: 0.5}\n";
    char no_load[] = "{D: 1, arrival: 5, cg: 1, delta: 0.5, gamma: 1, job_id: 0, power_basic: 1,\n"
                     "t0: 1, utilization: 0}";
    struct lull_dvfs_task task;
    struct lull_error err = {0};

    (void)state;
    if (lull_dvfs_tasks_read_text("job_3.json", text, &task, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(task.id, 3);
    assert_true(task.arrival_s == 5.0 && task.scaled_s == 24.5 && task.constant_s == 7.5);
    assert_true(task.deadline_s == 5.0 + 64.0);
    assert_true(task.core_share == 0.75 && task.constant_w == 80.5);
    assert_true(task.memory_w == 57.0 && task.core_w == 72.25);
    assert_int_equal(lull_dvfs_tasks_read_text("job_0.json", no_load, &task, &err), LULL_E_FORMAT);
    assert_non_null(strstr(err.text, "line 2, utilization"));
}

/* The flattened published sets: no start_time or train_mem, gaps in the ids. */
static void test_published_tables(void **state)
{
    static const struct {
        const char *name;
        size_t count;
    } files[] = {{"inputs/dl_jobs/microsoft-80.csv", 77},
                 {"inputs/dl_jobs/microsoft-160.csv", 160},
                 {"inputs/dl_jobs/microsoft-480.csv", 475},
                 {"ada/jobs-160-s1-x10.csv", 160}};

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct lull_training_job *jobs = NULL;
        struct lull_error err = {0};
        char path[512];
        size_t count = 0;

        snprintf(path, sizeof(path), "%s/%s", data_folder, files[i].name);
        if (access(path, R_OK) < 0) {
            print_message("skipped: no %s\n", path);
            skip();
        }
        if (lull_training_jobs_read(path, &jobs, &count, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(count, files[i].count);
        free(jobs);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_forms),
        cmocka_unit_test(test_refused_with_the_place),
        cmocka_unit_test(test_nesting_is_bounded),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_published_tables),
    };

    data_folder = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
