/*
 * The Helios simulator's schedule of the Philly jobs under FIFO, start by start and placement by
 * placement; and the results of an independent program for Chronus's jobs
 * under FIFO and EDF. Skipped if the data are absent. SPDX-License-Identifier: Apache-2.0
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

#include "tests/core/property.h"
#include "cluster/simulator/engine.h"
#include "cluster/trace/job_table.h"
#include "trace/lines.h"

enum { VCS = 11, NODE_GPUS = 8, MOST_IDS = 200000, MAX_JOBS = 100000 };

static struct {
    char names[VCS][16];
    struct lull_cluster_node nodes[1024];
    struct lull_cluster cluster;
    uint32_t first_node[VCS]; /* placements count nodes of their VC */
    struct lull_cluster_point of_id[MOST_IDS];
    struct lull_cluster_point points[MAX_JOBS];
    struct lull_cluster_job jobs[MAX_JOBS];
    int64_t starts_s[MAX_JOBS];
    char *placements[MAX_JOBS];
    size_t count;
} it;

static struct lull_lines *open_data(const char *name)
{
    struct lull_lines *lines = NULL;
    struct lull_error err;
    char path[512];
    char *header;

    snprintf(path, sizeof(path), LULL_CLUSTER_DATA "/%s", name);
    assert_int_equal(lull_lines_open(path, &lines, &err), 0);
    assert_int_equal(lull_lines_next(lines, &header, &err), 1);
    return lines;
}

static uint32_t find_vc(const char *name)
{
    for (uint32_t i = 0; i < it.cluster.pool_count; i++)
        if (strcmp(it.names[i], name) == 0)
            return i;
    return UINT32_MAX;
}

static void read_nodes(void)
{
    static const struct lull_cluster_type gpu = {.name = "P100"};
    struct lull_lines *lines = open_data("philly_vc_nodes.csv");
    char *rest;

    it.cluster = (struct lull_cluster){.types = &gpu, .type_count = 1, .nodes = it.nodes};
    while (lull_lines_next(lines, &rest, NULL) == 1) {
        const uint32_t vc = it.cluster.pool_count++;

        snprintf(it.names[vc], sizeof(it.names[vc]), "%s", lull_lines_cell(&rest));
        it.first_node[vc] = it.cluster.node_count;
        for (int left = atoi(lull_lines_cell(&rest)); left > 0; left--)
            it.nodes[it.cluster.node_count++] =
                (struct lull_cluster_node){.pool = vc, .gpus = NODE_GPUS};
    }
    lull_lines_close(lines);
}

static void read_jobs(void)
{
    struct lull_lines *lines = open_data("philly_jobs.csv.gz");
    char *rest;

    while (lull_lines_next(lines, &rest, NULL) == 1) {
        const int id = atoi(lull_lines_cell(&rest));
        struct lull_cluster_point *const point = &it.of_id[id];

        lull_lines_cell(&rest);
        lull_lines_cell(&rest);
        point->gpus = (uint32_t)atoi(lull_lines_cell(&rest));
        point->time_ns = (int64_t)atof(lull_lines_cell(&rest)) * 1000000000;
    }
    lull_lines_close(lines);
}

static void read_golden(void)
{
    struct lull_lines *lines = open_data("philly_helios_fifo.csv.gz");
    char *rest;

    while (lull_lines_next(lines, &rest, NULL) == 1) {
        struct lull_cluster_job *const job = &it.jobs[it.count];

        job->pool = find_vc(lull_lines_cell(&rest));
        it.points[it.count] = it.of_id[atoi(lull_lines_cell(&rest))];
        job->arrival_ns = atoll(lull_lines_cell(&rest)) * 1000000000;
        job->deadline_ns = LULL_CLUSTER_NEVER;
        job->weight = 1.0;
        job->point_count = 1;
        job->points = &it.points[it.count];
        it.starts_s[it.count] = atoll(lull_lines_cell(&rest));
        it.placements[it.count++] = strdup(lull_lines_cell(&rest));
    }
    lull_lines_close(lines);
}

/* Into the order of arrival, whose equals keep theirs; the golden file goes VC by VC. */
static int by_arrival(const void *a, const void *b)
{
    const struct lull_cluster_job *left = &it.jobs[*(const size_t *)a];
    const struct lull_cluster_job *right = &it.jobs[*(const size_t *)b];

    if (left->arrival_ns != right->arrival_ns)
        return left->arrival_ns < right->arrival_ns ? -1 : 1;
    return *(const size_t *)a < *(const size_t *)b ? -1 : 1;
}

static void describe(const struct lull_cluster_outcome *outcome, uint32_t first, char *text,
                     size_t size)
{
    size_t length = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < outcome->share_count; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%u:%u", i > 0 ? " " : "",
                                   outcome->shares[i].node - first, outcome->shares[i].gpus);
}

/* ---- results of a run ---------------------------------------------------------------------- */

struct sums {
    double completion_s; /* on average */
    double queue_s;
    double last_end_s;
    size_t late;
};

static struct sums sum_up(const struct lull_cluster_run *run, const struct lull_cluster_jobs *jobs)
{
    struct sums sums = {0};

    for (size_t i = 0; i < jobs->count; i++) {
        const struct lull_cluster_outcome *outcome = &lull_cluster_run_outcomes(run)[i];
        const double end_s = (double)outcome->end_ns * 1e-9;

        assert_int_equal(outcome->fate, LULL_CLUSTER_DONE);
        sums.completion_s += end_s - (double)jobs->all[i].arrival_ns * 1e-9;
        sums.queue_s += (double)(outcome->start_ns - jobs->all[i].arrival_ns) * 1e-9;
        sums.last_end_s = end_s > sums.last_end_s ? end_s : sums.last_end_s;
        sums.late += outcome->end_ns > jobs->all[i].deadline_ns;
    }
    sums.completion_s /= (double)jobs->count;
    sums.queue_s /= (double)jobs->count;
    return sums;
}

static void test_every_start_and_placement(void **state)
{
    static struct lull_cluster_job ordered[MAX_JOBS];
    static size_t order[MAX_JOBS];
    struct lull_cluster_jobs jobs = {ordered, 0};
    struct sums sums;
    struct lull_cluster_run *run = NULL;
    struct lull_error err;
    char text[4096];

    (void)state;
    read_nodes();
    read_jobs();
    read_golden();
    assert_int_equal(it.count, 68503);
    for (size_t i = 0; i < it.count; i++)
        order[i] = i;
    qsort(order, it.count, sizeof(order[0]), by_arrival);
    for (size_t i = 0; i < it.count; i++)
        ordered[i] = it.jobs[order[i]];
    jobs.count = it.count;
    assert_int_equal(lull_cluster_simulate(&it.cluster, &jobs, lull_cluster_policy_find("fifo"),
                                           NULL, &run, &err),
                     0);
    for (size_t i = 0; i < it.count; i++) {
        const struct lull_cluster_outcome *outcome = &lull_cluster_run_outcomes(run)[i];

        assert_int_equal(outcome->start_ns, it.starts_s[order[i]] * 1000000000);
        describe(outcome, it.first_node[ordered[i].pool], text, sizeof(text));
        assert_string_equal(text, it.placements[order[i]]);
    }
    sums = sum_up(run, &jobs);
    assert_near(sums.completion_s, 11585.587142, 1e-6);
    assert_near(sums.queue_s, 104.906296, 1e-6);
    assert_near(sums.last_end_s, 6469551.0, 0.5);
    lull_cluster_run_destroy(run);
    for (size_t i = 0; i < it.count; i++)
        free(it.placements[i]);
}

/* ---- Chronus -------------------------------------------------------------------------------- */

static const struct lull_job_table *named;

static int by_submission_and_id(const void *a, const void *b)
{
    const struct lull_job_table_row *left = a;
    const struct lull_job_table_row *right = b;

    if (left->submit_ns != right->submit_ns)
        return left->submit_ns < right->submit_ns ? -1 : 1;
    return atoi(lull_job_table_name(named, left->id)) - atoi(lull_job_table_name(named, right->id));
}

struct expected {
    const struct lull_cluster_policy_ops *policy;
    double completion_min, queue_min;
    int64_t last_end_min;
    uint64_t met;
};

static void compare_with_chronus(const struct lull_cluster_jobs *jobs,
                                 const struct expected *expected)
{
    static struct lull_cluster_node nodes[120];
    static const struct lull_cluster_type gpu = {.name = "P100"};
    const struct lull_cluster cluster = {&gpu, 1, nodes, 120, 1};
    struct sums sums;
    struct lull_cluster_run *run = NULL;
    struct lull_error err;

    for (size_t i = 0; i < 120; i++)
        nodes[i].gpus = NODE_GPUS;
    assert_int_equal(lull_cluster_simulate(&cluster, jobs, expected->policy, NULL, &run, &err), 0);
    sums = sum_up(run, jobs);
    assert_near(sums.completion_s / 60.0, expected->completion_min, 5e-5);
    assert_near(sums.queue_s / 60.0, expected->queue_min, 5e-5);
    assert_near(sums.last_end_s / 60.0, (double)expected->last_end_min, 1e-6);
    assert_int_equal(27621 - sums.late, expected->met);
    lull_cluster_run_destroy(run);
}

static void test_chronus(void **state)
{
    static struct lull_cluster_point points[MAX_JOBS];
    static struct lull_cluster_job all[MAX_JOBS];
    struct lull_cluster_jobs jobs = {all, 0};
    struct lull_job_table table;

    (void)state;
    assert_int_equal(
        lull_job_table_read(LULL_CLUSTER_DATA "/chronus_philly_mix2.csv.gz", &table, NULL), 0);
    named = &table;
    qsort(table.rows, table.count, sizeof(table.rows[0]), by_submission_and_id);
    for (; jobs.count < table.count; jobs.count++) {
        const struct lull_job_table_row *row = &table.rows[jobs.count];

        points[jobs.count] =
            (struct lull_cluster_point){.gpus = row->gpus, .time_ns = row->duration_ns};
        all[jobs.count] = (struct lull_cluster_job){.arrival_ns = row->submit_ns,
                                                    .deadline_ns = row->deadline_ns,
                                                    .weight = 1.0,
                                                    .point_count = 1,
                                                    .points = &points[jobs.count]};
    }
    compare_with_chronus(&jobs, &(struct expected){lull_cluster_policy_find("fifo"), 2467.8103,
                                                   2204.2982, 29021, 7664});
    compare_with_chronus(&jobs, &(struct expected){lull_cluster_policy_find("edf"), 1165.4374,
                                                   901.9253, 28740, 21736});
    lull_job_table_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_start_and_placement),
        cmocka_unit_test(test_chronus),
    };

    if (access(LULL_CLUSTER_DATA "/philly_helios_fifo.csv.gz", R_OK) < 0) {
        puts("skipped: no recorded schedules at " LULL_CLUSTER_DATA);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
