/*
 * Recorded iterations as operating points: schedules computed by hand, random graphs against the
 * longest path and a count microsecond by microsecond, SimAI's texts against closed forms, and
 * refused input. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/stats/random.h"
#include "cluster/simulator/job_workload.h"

enum { COMPUTE = 4, SEND = 5, RECEIVE = 6, COLLECTIVE = 7 }; /* node types */

static char folder[] = "/tmp/lull-workload-XXXXXX";

static struct lull_job_type find(const char *name)
{
    struct lull_job_type type;

    assert_int_equal(lull_job_type_find(name, (uint32_t)strlen(name), &type), 0);
    return type;
}

static const char *write_file(const char *text)
{
    static char path[64];
    FILE *file;

    snprintf(path, sizeof(path), "%s/w", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static struct lull_job_workload *read_text(const char *text)
{
    struct lull_job_workload *workload = NULL;
    struct lull_error err = {0};

    if (lull_job_workload_read(write_file(text), &workload, &err) < 0)
        fail_msg("%s", err.text);
    return workload;
}

static struct lull_job_recorded make(const struct lull_job_workload *workload,
                                     const char *type_name, uint32_t job_class, uint32_t gpus,
                                     bool has_clocks)
{
    const struct lull_job_type type = find(type_name);
    const struct lull_job_setting setting = {&type, job_class, LULL_JOB_NVLINK, gpus, has_clocks};
    struct lull_job_recorded recorded;
    struct lull_error err = {0};

    if (lull_job_workload_make(workload, &setting, &recorded, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(recorded.points.count > 0 && recorded.points.all[0].time_ratio == 1.0);
    for (uint32_t i = 0; i < recorded.points.count; i++) {
        assert_true((double)recorded.points.all[i].exposed_ratio >= 0.0 &&
                    (double)recorded.points.all[i].exposed_ratio <= 1.0);
        assert_true(i == 0 ||
                    (recorded.points.all[i].time_ratio > recorded.points.all[i - 1].time_ratio &&
                     recorded.points.all[i].energy_w < recorded.points.all[i - 1].energy_w));
    }
    return recorded;
}

/* At the highest clock of an A100. */
static struct lull_job_recorded make_text(const char *text, uint32_t gpus)
{
    struct lull_job_workload *workload = read_text(text);
    const struct lull_job_recorded recorded = make(workload, "A100-SXM4-40GB", 0, gpus, false);

    lull_job_workload_destroy(workload);
    return recorded;
}

/* ---- Chakra traces ------------------------------------------------------------------------ */

enum { MAX_NODES = 40 };

struct node {
    int kind;
    int is_host;
    int group; /* of communication */
    int time_us;
    int deps[MAX_NODES]; /* -1: the end */
};

static const char *write_graph(const struct node *nodes, int count)
{
    static char text[1 << 16];
    FILE *const file = fmemopen(text, sizeof(text), "w");

    assert_non_null(file);
    fputs("{\"workload_graph\": [", file);
    for (int i = 0; i < count; i++) {
        fprintf(file,
                "%s{\"Id\": %d, \"Name\": \"n\", \"NodeType\": %d, \"runtime\": %d, "
                "\"is_cpu_op\": %s, \"pg_name\": \"%d\", \"data_deps\": [",
                i > 0 ? ", " : "", 100 + i, nodes[i].kind, nodes[i].time_us,
                nodes[i].is_host ? "true" : "false", nodes[i].group);
        for (int k = 0; nodes[i].deps[k] >= 0; k++)
            fprintf(file, "%s%d", k > 0 ? ", " : "", 100 + nodes[i].deps[k]);
        fputs("]}", file);
    }
    fputs("]}", file);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void check_step(const struct node *nodes, int count, int step_us, double exposed_us)
{
    const struct lull_job_recorded recorded = make_text(write_graph(nodes, count), 1);

    assert_int_equal(recorded.step_ns, 1000 * (int64_t)step_us);
    assert_true(fabs((double)recorded.points.all[0].exposed_ratio * step_us - exposed_us) <
                1e-6 * step_us);
}

static void test_known_schedules(void **state)
{
    /* A kernel of 100, its gradient's 50 beside one of 30; the last needs both. */
    static const struct node beside[] = {{COMPUTE, 0, 0, 100, {-1}},
                                         {COLLECTIVE, 0, 0, 50, {0, -1}},
                                         {COMPUTE, 0, 0, 30, {0, -1}},
                                         {COMPUTE, 0, 0, 10, {1, 2, -1}}};
    /* One group's collectives are one after the other, two groups' are not; nor out and in. */
    static const struct node groups[] = {
        {COMPUTE, 0, 0, 10, {-1}},       {COLLECTIVE, 0, 1, 40, {0, -1}},
        {COLLECTIVE, 0, 1, 30, {0, -1}}, {COLLECTIVE, 0, 2, 60, {0, -1}},
        {SEND, 0, 3, 50, {0, -1}},       {RECEIVE, 0, 3, 65, {0, -1}}};
    /* The host's part is no communication, and the GPU waits for it. */
    static const struct node host[] = {{COMPUTE, 1, 0, 20, {-1}},
                                       {COLLECTIVE, 1, 0, 70, {0, -1}},
                                       {COMPUTE, 0, 0, 5, {0, -1}},
                                       {COMPUTE, 0, 0, 7, {1, 2, -1}}};

    (void)state;
    check_step(beside, 4, 160, 20.0);
    check_step(groups, 6, 80, 70.0);
    check_step(host, 4, 97, 0.0);
}

/*
 * As PyTorch records: only launches are known. Kernels in their order, 20 + 30; the gradient's
 * collective (40) behind the first, beside the second; the optimizer (5) behind both.
 */
static const struct node launched[] = {
    {COMPUTE, 1, 0, 1, {-1}},        {COMPUTE, 0, 0, 20, {0, -1}},   {COMPUTE, 1, 0, 1, {0, -1}},
    {COLLECTIVE, 0, 0, 40, {2, -1}}, {COMPUTE, 1, 0, 1, {2, -1}},    {COMPUTE, 0, 0, 30, {4, -1}},
    {COMPUTE, 1, 0, 1, {4, -1}},     {COLLECTIVE, 0, 0, 8, {6, -1}}, {COMPUTE, 1, 0, 1, {6, -1}},
    {COMPUTE, 0, 0, 5, {8, -1}},
};

static void test_streams(void **state)
{
    struct node reversed[10];

    (void)state;
    /* 1 + 20 | 40, with 30 of it hidden | 8 | 5 */
    check_step(launched, 10, 1 + 20 + 40 + 8 + 5, 10.0 + 8.0);
    /* Dependencies define the order if that of the file does not. */
    for (int i = 0; i < 10; i++) {
        reversed[i] = launched[9 - i];
        if (reversed[i].deps[0] >= 0)
            reversed[i].deps[0] = 9 - reversed[i].deps[0];
    }
    check_step(reversed, 10, 1 + 20 + 40 + 8 + 5, 10.0 + 8.0);
}

/* Copies are in the order of kernels, but the GPU waits, at any clock; marks take no time. */
static void test_copies(void **state)
{
    static const char text[] =
        "{\"workload_graph\": ["
        "{\"Id\": 1, \"NodeType\": 1, \"runtime\": 900, \"is_cpu_op\": true},"
        "{\"Id\": 2, \"NodeType\": 4, \"runtime\": 10, \"is_cpu_op\": false, \"data_deps\": [1]},"
        "{\"Id\": 3, \"NodeType\": 4, \"runtime\": 30, \"is_cpu_op\": false, \"Name\": \"Memcpy "
        "HtoD\"},"
        "{\"Id\": 4, \"NodeType\": 2, \"runtime\": 2000, \"is_cpu_op\": false},"
        "{\"Id\": 5, \"NodeType\": 4, \"runtime\": 5, \"is_cpu_op\": false}]}";
    static struct lull_job_tempo tempo[LULL_JOB_MAX_CLOCKS];
    struct lull_job_workload *workload = read_text(text);
    const struct lull_job_recorded recorded = make(workload, "A100-SXM4-40GB", 0, 1, false);
    const struct lull_job_recorded all = make(workload, "A100-SXM4-40GB", 0, 1, true);
    const struct lull_job_type type = find("A100-SXM4-40GB");

    (void)state;
    lull_job_workload_destroy(workload);
    (void)lull_job_type_tempo(&type, 0, LULL_JOB_NVLINK, tempo);
    assert_int_equal(recorded.step_ns, 2045000);
    assert_true((double)recorded.points.all[0].exposed_ratio == 0.0);
    assert_true(fabs(recorded.points.all[0].energy_w * 2045.0 - 15.0 * tempo[0].compute_w -
                     2030.0 * tempo[0].waiting_w) < 1e-6);
    assert_true(all.points.all[all.points.count - 1].time_ratio < 1.05);
}

/* ---- against the longest path ------------------------------------------------------------- */

struct drawn {
    struct node nodes[MAX_NODES];
    int count;
    int last_kernel;
};

static void depend(struct node *node, int on)
{
    int k = 0;

    while (node->deps[k] >= 0 && node->deps[k] != on)
        k++;
    if (node->deps[k] < 0) {
        node->deps[k] = on;
        node->deps[k + 1] = -1;
    }
}

/* No two nodes ever want the same resource: kernels and the host's operations are chains, and each
 * collective is its group's only one. Then each task waits only for its dependencies. */
static void draw(struct lull_random *random, struct drawn *drawn)
{
    int last[2] = {-1, -1}; /* kernel, host's */

    *drawn = (struct drawn){.count = 3 + (int)lull_random_below(random, MAX_NODES - 4)};
    for (int i = 0; i < drawn->count; i++) {
        struct node *node = &drawn->nodes[i];
        const uint64_t what = lull_random_below(random, 4);

        *node = (struct node){.kind = what == 0 ? COLLECTIVE : COMPUTE,
                              .is_host = what == 1,
                              .group = i,
                              .time_us = 1 + (int)lull_random_below(random, 300)};
        node->deps[0] = -1;
        for (uint64_t k = lull_random_below(random, 3); i > 0 && k > 0; k--)
            depend(node, (int)lull_random_below(random, (uint64_t)i));
        if (node->kind == COMPUTE) {
            if (last[node->is_host] >= 0)
                depend(node, last[node->is_host]);
            last[node->is_host] = i;
        }
    }
    /* At least two kernels, one behind the other: the trace itself gives the GPU's order. */
    for (int i = 0; i < 2; i++) {
        struct node *node = &drawn->nodes[drawn->count++];

        *node = (struct node){.kind = COMPUTE, .time_us = 50};
        node->deps[0] = -1;
        if (last[0] >= 0)
            depend(node, last[0]);
        last[0] = drawn->count - 1;
    }
}

static double longest_path_ns(const struct drawn *drawn, const struct lull_job_tempo *tempo,
                              double *end_ns)
{
    double longest_ns = 0.0;

    for (int i = 0; i < drawn->count; i++) {
        const struct node *node = &drawn->nodes[i];
        const double ratio = node->is_host              ? 1.0
                             : node->kind == COLLECTIVE ? tempo->transfer_ratio
                                                        : tempo->compute_ratio;

        end_ns[i] = 0.0;
        for (int k = 0; node->deps[k] >= 0; k++)
            end_ns[i] = fmax(end_ns[i], end_ns[node->deps[k]]);
        end_ns[i] += round(1000.0 * node->time_us * ratio);
        longest_ns = fmax(longest_ns, end_ns[i]);
    }
    return longest_ns;
}

/* At the highest clock, where all times are whole microseconds. */
static double count_energy_j(const struct drawn *drawn, const struct lull_job_tempo *tempo,
                             const double *end_ns, int step_us)
{
    double energy_j = 0.0;

    for (int us = 0; us < step_us; us++) {
        double power_w = tempo->waiting_w;

        for (int i = 0; i < drawn->count; i++) {
            const struct node *node = &drawn->nodes[i];
            const double end_us = end_ns[i] / 1000.0;

            if (node->is_host || us + 0.5 > end_us || us + 0.5 < end_us - node->time_us)
                continue;
            if (node->kind == COMPUTE) {
                power_w = tempo->compute_w;
                break;
            }
            power_w = tempo->transfer_w;
        }
        energy_j += power_w * 1e-6;
    }
    return energy_j;
}

static void check_drawn(const struct drawn *drawn, const char *type_name, uint32_t job_class)
{
    static struct lull_job_tempo tempo[LULL_JOB_MAX_CLOCKS];
    const struct lull_job_type type = find(type_name);
    const uint32_t clocks = lull_job_type_tempo(&type, job_class, LULL_JOB_NVLINK, tempo);
    struct lull_job_workload *workload = read_text(write_graph(drawn->nodes, drawn->count));
    const struct lull_job_recorded all = make(workload, type_name, job_class, 1, true);
    const struct lull_job_recorded one = make(workload, type_name, job_class, 1, false);
    double end_ns[MAX_NODES];
    const double step_ns = longest_path_ns(drawn, &tempo[0], end_ns);
    const double energy_j = count_energy_j(drawn, &tempo[0], end_ns, (int)(step_ns / 1000.0));

    assert_int_equal(all.step_ns, (int64_t)step_ns);
    assert_int_equal(one.step_ns, (int64_t)step_ns);
    assert_true(one.points.count == 1 && one.points.all[0].sm_mhz == tempo[0].sm_mhz);
    assert_true(fabs(one.points.all[0].energy_w * step_ns * 1e-9 / energy_j - 1.0) < 1e-9);
    for (uint32_t i = 0; i < all.points.count; i++) {
        uint32_t clock = 0;

        while (clock < clocks && tempo[clock].sm_mhz != all.points.all[i].sm_mhz)
            clock++;
        assert_true(clock < clocks);
        assert_true(fabs(all.points.all[i].time_ratio * step_ns -
                         longest_path_ns(drawn, &tempo[clock], end_ns)) < 1.0);
    }
    lull_job_workload_destroy(workload);
}

static void test_longest_paths(void **state)
{
    static const char *const types[] = {"A100-SXM4-40GB", "V100-SXM2-16GB", "H100-SXM5"};
    const uint64_t seed = 20240611;
    struct lull_random random;
    struct drawn drawn;

    (void)state;
    lull_random_init(&random, seed);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < 120; i++) {
        draw(&random, &drawn);
        check_drawn(&drawn, types[i % 3], (uint32_t)i % LULL_JOB_CLASSES);
    }
}

/* ---- operating points
 * -------------------------------------------------------------------------------- */

/* A single kernel scales like its class at each clock; the time of the host alone is constant. */
static void test_ends(void **state)
{
    static const struct node kernel[] = {{COMPUTE, 0, 0, 1000, {-1}}};
    static const struct node waiting[] = {{COMPUTE, 1, 0, 1000000, {-1}},
                                          {COMPUTE, 0, 0, 1, {0, -1}}};
    static struct lull_job_tempo tempo[LULL_JOB_MAX_CLOCKS];
    const int64_t time_ns = INT64_C(7200000000000);
    const struct lull_job_type type = find("A100-SXM4-40GB");
    struct lull_job_workload *workload = read_text(write_graph(kernel, 1));
    struct lull_job_recorded recorded = make(workload, type.name, 0, 1, true);
    struct lull_cluster_point points[LULL_CLUSTER_MAX_POINTS];
    uint32_t count;

    (void)state;
    assert_string_equal(lull_job_workload_form(workload), "Chakra");
    assert_false(lull_job_workload_needs_gpus(workload));
    lull_job_workload_destroy(workload);
    (void)lull_job_type_tempo(&type, 0, LULL_JOB_NVLINK, tempo);
    count = lull_job_recorded_points(&recorded.points, time_ns, 3, 16, points);
    assert_in_range(count, 2, LULL_CLUSTER_MAX_POINTS);
    assert_int_equal(points[0].time_ns, time_ns);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t clock = 0;

        while (tempo[clock].sm_mhz != points[i].sm_mhz)
            clock++;
        assert_true(points[i].type == 3 && points[i].gpus == 16);
        assert_true(fabs((double)points[i].time_ns / (double)time_ns - tempo[clock].compute_ratio) <
                    1e-6);
        assert_true(fabs(points[i].energy_j / (16e-9 * (double)points[i].time_ns) -
                         tempo[clock].compute_w) < 1e-3);
    }
    workload = read_text(write_graph(waiting, 2));
    recorded = make(workload, type.name, 0, 1, true);
    lull_job_workload_destroy(workload);
    assert_true(recorded.points.all[recorded.points.count - 1].time_ratio < 1.00001);
    assert_true(recorded.points.all[0].sm_mhz < tempo[0].sm_mhz);
}

/* A board has one clock; what it draws is between the ends of its class. */
static void test_board(void **state)
{
    static const struct node kernel[] = {{COMPUTE, 0, 0, 1000, {-1}},
                                         {COLLECTIVE, 0, 0, 500, {0, -1}}};
    struct lull_job_workload *workload = read_text(write_graph(kernel, 2));
    const struct lull_job_recorded recorded = make(workload, "K80-12GB", 0, 1, true);

    (void)state;
    lull_job_workload_destroy(workload);
    assert_int_equal(recorded.points.count, 1);
    assert_int_equal(recorded.step_ns, 1500000);
    assert_true(fabs((double)recorded.points.all[0].exposed_ratio - 1.0 / 3.0) < 1e-7);
}

/* ---- SimAI -------------------------------------------------------------------------------- */

/* One round of a ring of n GPUs. */
static double round_ns(double latency_ns, double gbs, double bytes, double n)
{
    return (n - 1.0) * (latency_ns + bytes / gbs / n);
}

static void test_layers(void **state)
{
    static const char text[] =
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 ep: 2 pp: 1 vpp: 1 ga: 1 "
        "all_gpus: 64 pp_comm: 0\n2\n"
        "gather -1 0 NONE 0 0 NONE 0 0 ALLGATHER 80000000 100\n"
        "mlp -1 1000000 ALLREDUCE 4000000 2000000 ALLTOALL_EP 6000000 3000000 REDUCESCATTER_DP_EP "
        "9000000 100\n";
    const double own_gbs = find("A100-SXM4-40GB").model->link_gbs;
    const double layers_ns = 1e6 + 2.0 * round_ns(2000.0, own_gbs, 4e6, 4.0) + 2e6 +
                             round_ns(2000.0, own_gbs, 6e6, 2.0) + 3e6;
    /* 16 copies between nodes, half of them for each expert; one after the other at the end. */
    const double gradients_ns =
        round_ns(4000.0, 22.5, 9e6, 8.0) + round_ns(4000.0, 22.5, 8e7, 16.0);
    const struct lull_job_recorded recorded = make_text(text, 1);

    (void)state;
    assert_true(fabs((double)recorded.step_ns - layers_ns - gradients_ns) < 10.0);
    assert_true(fabs((double)recorded.points.all[0].exposed_ratio * (double)recorded.step_ns -
                     ((double)recorded.step_ns - 6e6)) < 10.0);
}

/* A gradient is sent beside the layers below. */
static void test_hidden_gradient(void **state)
{
    static const char text[] = "DATA all_gpus: 16\n2\n"
                               "below -1 1 NONE 0 9000000 NONE 0 0 NONE 0 1\n"
                               "above -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 16000000 1\n";
    const struct lull_job_recorded hidden = make_text(text, 16);

    (void)state;
    assert_int_equal(hidden.step_ns, 9000004);
    assert_true((double)hidden.points.all[0].exposed_ratio == 0.0);
}

/* The job's own GPUs, where the text does not give them: 8 in a node. */
static void test_gpus_of_the_job(void **state)
{
    static const char text[] =
        "DATA ga: 1\n1\nall -1 1000 NONE 0 0 NONE 0 0 ALLREDUCE 64000000 1\n";
    const double own_gbs = find("A100-SXM4-40GB").model->link_gbs;
    struct lull_job_workload *workload = read_text(text);

    (void)state;
    assert_string_equal(lull_job_workload_form(workload), "SimAI");
    assert_true(lull_job_workload_needs_gpus(workload));
    assert_int_equal(make(workload, "A100-SXM4-40GB", 0, 1, false).step_ns, 1000);
    assert_true(fabs((double)make(workload, "A100-SXM4-40GB", 0, 8, false).step_ns - 1000.0 -
                     2.0 * round_ns(2000.0, own_gbs, 64e6, 8.0)) < 10.0);
    assert_true(fabs((double)make(workload, "A100-SXM4-40GB", 0, 16, false).step_ns - 1000.0 -
                     2.0 * round_ns(4000.0, 22.5, 64e6, 16.0)) < 10.0);
    lull_job_workload_destroy(workload);
}

/* m micro-batches through p stages: (m + p - 1)(f + b), and data from stage to stage. */
static void test_stages(void **state)
{
    static const char text[] =
        "HYBRID model_parallel_NPU_group: 2 pp: 4 vpp: %d ga: %d all_gpus: 16 pp_comm: %d\n1\n"
        "all -1 8000000 ALLREDUCE 2000000 12000000 NONE 0 12000000 ALLREDUCE 5000000 1\n";
    const double own_gbs = find("A100-SXM4-40GB").model->link_gbs;
    const double forward_ns = 1e6 + 2.0 * round_ns(2000.0, own_gbs, 2e6, 2.0) / 8.0;
    const double gradient_ns = 2.0 * round_ns(2000.0, own_gbs, 5e6, 2.0);
    char filled[512];

    (void)state;
    snprintf(filled, sizeof(filled), text, 1, 8, 0);
    /* 4 us ahead of each of the first three stages, and on the way back; 1F1B waits for more of
     * them in between. */
    const double min_ns = 11.0 * (forward_ns + 3e6) + 6.0 * 4000.0 + gradient_ns;
    const struct lull_job_recorded plain = make_text(filled, 16);

    assert_true((double)plain.step_ns > min_ns - 100.0);
    assert_true((double)plain.step_ns < min_ns + 16.0 * 4000.0);
    /* Two chunks of a stage: the bubble is about half as long. */
    snprintf(filled, sizeof(filled), text, 2, 8, 0);
    assert_true((double)make_text(filled, 16).step_ns < (double)plain.step_ns - 4e6);
    /* Micro-batches that stages do not divide are not interleaved. */
    snprintf(filled, sizeof(filled), text, 2, 9, 0);
    const int64_t uneven_ns = make_text(filled, 16).step_ns;

    snprintf(filled, sizeof(filled), text, 1, 9, 0);
    assert_int_equal(make_text(filled, 16).step_ns, uneven_ns);
}

/* ---- refused input ----------------------------------------------------------------------- */

static void refused(const char *text, const char *said)
{
    struct lull_job_workload *workload = NULL;
    struct lull_error err = {0};

    assert_int_equal(lull_job_workload_read(write_file(text), &workload, &err), LULL_E_FORMAT);
    if (strstr(err.text, said) == NULL || strstr(err.text, "/w: ") == NULL)
        fail_msg("%s, not %s", err.text, said);
}

static void refused_with(const char *text, uint32_t gpus, const char *said)
{
    const struct lull_job_type type = find("A100-SXM4-40GB");
    const struct lull_job_setting setting = {&type, 0, LULL_JOB_NVLINK, gpus, true};
    struct lull_job_workload *workload = read_text(text);
    struct lull_job_recorded recorded;
    struct lull_error err = {0};

    assert_int_equal(lull_job_workload_make(workload, &setting, &recorded, &err), LULL_E_FORMAT);
    if (strstr(err.text, said) == NULL || strstr(err.text, "/w: ") == NULL)
        fail_msg("%s, not %s", err.text, said);
    lull_job_workload_destroy(workload);
}

static void test_refused(void **state)
{
    static const struct node untimed[] = {{COMPUTE, 0, 0, 0, {-1}}, {COLLECTIVE, 0, 0, 9, {0, -1}}};
    static const struct node host[] = {{COMPUTE, 1, 0, 9, {-1}}};
    static const struct node slow[] = {{COMPUTE, 0, 0, 1000000001, {-1}}};
    struct lull_job_workload *workload = NULL;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_job_workload_read("/nowhere/x.et", &workload, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nowhere/x.et"));
    refused("", "is empty");
    refused("{\"traceEvents\": []}", "workload_graph");
    refused("\x07 \n damaged", "; read as Chakra");
    refused(write_graph(untimed, 2), "no computation on a GPU that takes time");
    refused(write_graph(host, 1), "no computation on a GPU that takes time");
    refused(write_graph(slow, 1), "node 100 takes over 1000 s");
    refused("what is this\nand that\n",
            "line 2: this should be the number of layers that follow, 1 to 1048576; read as SimAI");
    refused("DATA\nx\n", "line 2: this should be the number of layers");
    refused("DATA\n1\na -1 0 NONE 0 0 NONE 0 0 ALLREDUCE 9 1\n", "no layer computes");
    refused("DATA\n1\na -1 1 ALLREDUCE_XP 9 0 NONE 0 0 NONE 0 1\n", "among XP");
    refused("DATA\n1\na -1 1000000000001 NONE 9 0 NONE 0 0 NONE 0 1\n", "over 1000 s");
    refused_with(
        "DATA model_parallel_NPU_group: 3 all_gpus: 8\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n", 8,
        "8 GPUs are no copies of 3");
    refused_with("DATA pp: 3\n1\na -1 9 NONE 0 9 NONE 0 1 NONE 0 1\n", 8, "no copies of 1 tensor");
    refused_with(
        "DATA pp: 2 ga: 9 pp_comm: 2000000000000000\n1\na -1 1 NONE 0 9 NONE 0 1 NONE 0 1\n", 8,
        "as a pipeline");
    refused_with("DATA\n1\na -1 1 NONE 0 9 NONE 0 1 ALLREDUCE 1000000000000000 1\n", 8,
                 "a collective of over 1000 s");
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    char path[64];

    (void)state;
    snprintf(path, sizeof(path), "%s/w", folder);
    return unlink(path) + rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_schedules),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_longest_paths),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_board),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_hidden_gradient),
        cmocka_unit_test(test_gpus_of_the_job),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
