/*
 * Small random clusters against SimGrid: transfers over shared links between computations, and jobs
 * in a queue; makespan and energy. The reference is its recorded results (simgrid_answers.h). If
 * SimGrid is installed, simgrid_oracle.cpp also runs it, and
 * its results must equal the recorded ones.
 *
 * Usage: test_simgrid [ORACLE [record]]; record prints simgrid_answers.h again.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/core/property.h"
#include "cluster/simulator/engine.h"
#include "transfers.h"
#include "simgrid_answers.h"

enum { MOST_HOSTS = 8, STEPS = 4, MAX_JOBS = 30, TRANSFERS = 15, QUEUES = 10 };

static const char *oracle; /* NULL: SimGrid is not there */
static bool is_recording;
/* Limit of the data of a flow in transit in SimGrid: a TCP window. */
static const double window_mb = 4.194304;
static const double flop_s[2] = {1e12, 5e11};

struct host {
    double bytes_s;
    double idle_w[2];
    double busy_w[2];
    struct {
        int speed;
        double flop;
        double bytes;
        uint32_t to;
    } steps[STEPS];
};

static struct {
    struct host hosts[MOST_HOSTS];
    uint32_t count;
    double latency_s; /* of each link: SimGrid gives flows of different latency different parts */
} it;

static double between(struct lull_random *random, double least, double most)
{
    return least + (most - least) * lull_random_uniform(random);
}

static void draw_hosts(struct lull_random *random)
{
    it.count = 2 + (uint32_t)lull_random_below(random, MOST_HOSTS - 1);
    it.latency_s = between(random, 1e-6, 1e-3);
    for (uint32_t i = 0; i < it.count; i++) {
        struct host *const host = &it.hosts[i];

        host->bytes_s = between(random, 1e9, 25e9);
        for (int speed = 0; speed < 2; speed++) {
            host->idle_w[speed] = between(random, 30.0, 80.0);
            host->busy_w[speed] = between(random, 150.0, 500.0);
        }
    }
}

/* ---- asking SimGrid ------------------------------------------------------------------------- */

static void write_hosts(FILE *file)
{
    for (uint32_t i = 0; i < it.count; i++)
        fprintf(file, "host %.17g %.17g %.17g %.17g %.17g %.17g\n", it.hosts[i].bytes_s,
                it.latency_s, it.hosts[i].idle_w[0], it.hosts[i].busy_w[0], it.hosts[i].idle_w[1],
                it.hosts[i].busy_w[1]);
}

static FILE *open_question(char *path)
{
    const int file = mkstemp(path);

    assert_true(file >= 0);
    return fdopen(file, "w");
}

static void ask(const char *path, const char *options, double *answer)
{
    char command[1024];
    FILE *said;

    snprintf(command, sizeof(command), "'%s' %s < %s 2>/dev/null", oracle, options, path);
    said = popen(command, "r");
    assert_non_null(said);
    assert_int_equal(fscanf(said, "%lf %lf", &answer[0], &answer[1]), 2);
    assert_int_equal(pclose(said), 0);
}

static void compare(const char *what, uint64_t seed, const double *ours, const double *theirs,
                    double margin)
{
    for (int i = 0; i < 2; i++)
        if (!(fabs(ours[i] / theirs[i] - 1.0) <= margin))
            fail_msg("%s, seed %d: %s %.12g, SimGrid %.12g", what, (int)seed,
                     i == 0 ? "makespan" : "energy", ours[i], theirs[i]);
}

/* The question stands in the file, which goes. */
static void judge(const char *what, uint64_t seed, const char *path, const char *options,
                  const double *ours, const double *recorded)
{
    double theirs[2];

    if (oracle != NULL) {
        ask(path, options, theirs);
        if (is_recording)
            printf("    {%.12g, %.12g},\n", theirs[0], theirs[1]);
        else
            compare("recorded", seed, recorded, theirs, 1e-9);
        compare(what, seed, ours, theirs, 1e-6);
    }
    if (!is_recording)
        compare(what, seed, ours, recorded, 1e-6);
    unlink(path);
}

/* ---- transfers between computations -----------------------------------------------------------
 */

static void draw_steps(struct lull_random *random)
{
    for (uint32_t i = 0; i < it.count; i++)
        for (int step = 0; step < STEPS; step++) {
            const uint32_t other = (uint32_t)lull_random_below(random, it.count - 1);

            it.hosts[i].steps[step].speed = (int)lull_random_below(random, 2);
            it.hosts[i].steps[step].flop = between(random, 1e9, 1e11);
            it.hosts[i].steps[step].bytes = between(random, 1e7, 1e9);
            it.hosts[i].steps[step].to = other + (other >= i);
        }
}

/* Progress of a host in its steps: it computes until a time, or its transfer is under way. */
struct walk {
    int step;
    bool sends;
    uint32_t transfer;
    double until_s;
    double busy_j;
    double since_s; /* of idling */
};

struct model {
    double bandwidth_ratio;
    double latency_ratio;
    double reverse;
    const char *options;
};

static double compute_s(uint32_t host, int step)
{
    return it.hosts[host].steps[step].flop / flop_s[it.hosts[host].steps[step].speed];
}

static void begin_step(struct walk *walk, uint32_t host, double now_s)
{
    const int speed = walk->step < STEPS ? it.hosts[host].steps[walk->step].speed : 0;

    walk->sends = false;
    walk->until_s = INFINITY;
    if (walk->step == STEPS)
        return;
    walk->until_s = now_s + compute_s(host, walk->step);
    walk->busy_j += compute_s(host, walk->step) * it.hosts[host].busy_w[speed];
}

static void send(struct walk *walk, uint32_t host, struct lull_transfers *transfers,
                 const struct model *model)
{
    const uint32_t to = it.hosts[host].steps[walk->step].to;
    const struct lull_share_use uses[] = {{host, 1.0 + model->reverse}, {to, 1.0 + model->reverse}};
    const double latency_s = 2.0 * it.latency_s;
    const struct lull_network_transfer transfer = {
        uses, 2, it.hosts[host].steps[walk->step].bytes * 1e-6, latency_s * model->latency_ratio,
        window_mb / (2.0 * latency_s) * model->bandwidth_ratio};

    assert_int_equal(lull_transfers_start(transfers, &transfer, &walk->transfer), 0);
    walk->sends = true;
    walk->until_s = INFINITY;
    walk->since_s = lull_transfers_now_s(transfers);
}

static void end_transfer(struct walk *walks, uint32_t transfer, double now_s)
{
    for (uint32_t i = 0; i < it.count; i++) {
        struct walk *const walk = &walks[i];

        if (!walk->sends || walk->transfer != transfer)
            continue;
        walk->busy_j +=
            (now_s - walk->since_s) * it.hosts[i].idle_w[it.hosts[i].steps[walk->step].speed];
        walk->since_s = now_s;
        walk->step++;
        begin_step(walk, i, now_s);
        return;
    }
    fail_msg("transfer %u is nobody's", transfer);
}

static void run_walks(struct walk *walks, struct lull_transfers *transfers,
                      const struct model *model)
{
    for (;;) {
        double next_s = lull_transfers_next_s(transfers);
        uint32_t transfer;

        for (uint32_t i = 0; i < it.count; i++)
            next_s = fmin(next_s, walks[i].until_s);
        if (isinf(next_s))
            return;
        assert_int_equal(lull_transfers_advance(transfers, next_s), 0);
        while (lull_transfers_take(transfers, &transfer))
            end_transfer(walks, transfer, next_s);
        for (uint32_t i = 0; i < it.count; i++)
            if (walks[i].until_s <= next_s)
                send(&walks[i], i, transfers, model);
    }
}

static void simulate_steps(const struct model *model, double *answer)
{
    struct lull_share_link links[MOST_HOSTS] = {0};
    struct walk walks[MOST_HOSTS] = {0};
    struct lull_transfers *transfers;

    for (uint32_t i = 0; i < it.count; i++) {
        links[i].capacity_mb_s = it.hosts[i].bytes_s * model->bandwidth_ratio * 1e-6;
        begin_step(&walks[i], i, 0.0);
    }
    transfers = lull_transfers_create(links, it.count, LULL_SHARE_MAX_MIN);
    run_walks(walks, transfers, model);
    answer[0] = lull_transfers_now_s(transfers);
    answer[1] = 0.0;
    for (uint32_t i = 0; i < it.count; i++)
        answer[1] += walks[i].busy_j + (answer[0] - walks[i].since_s) *
                                           it.hosts[i].idle_w[it.hosts[i].steps[STEPS - 1].speed];
    lull_transfers_destroy(transfers);
}

static void test_transfers(void **state)
{
    static const struct model models[] = {
        {1.0, 1.0, 0.0, "--cfg=network/model:CM02 --cfg=network/crosstraffic:0"},
        {1.0, 1.0, 0.05, "--cfg=network/model:CM02"},
        {0.97, 13.01, 0.05, "--cfg=network/weight-S:0"},
    };

    (void)state;
    for (uint64_t seed = 1; seed <= TRANSFERS; seed++) {
        const struct model *model = &models[seed % 3];
        char path[] = "/tmp/lull-simgrid-XXXXXX";
        FILE *const file = open_question(path);
        struct lull_random random;
        double ours[2];

        lull_random_init(&random, seed);
        draw_hosts(&random);
        draw_steps(&random);
        write_hosts(file);
        for (uint32_t i = 0; i < it.count; i++)
            for (int step = 0; step < STEPS; step++)
                fprintf(file, "step %u %d %.17g %.17g %u\n", i, it.hosts[i].steps[step].speed,
                        it.hosts[i].steps[step].flop, it.hosts[i].steps[step].bytes,
                        it.hosts[i].steps[step].to);
        fclose(file);
        simulate_steps(model, ours);
        judge("transfers", seed, path, model->options, ours, simgrid_transfers[seed - 1]);
    }
}

/* ---- jobs in a queue --------------------------------------------------------------------------
 */

static void simulate_queue(const struct lull_cluster_job *all, size_t count, double *answer)
{
    const struct lull_cluster_type type = {.name = "GPU", .idle_w = it.hosts[0].idle_w[0]};
    struct lull_cluster_node nodes[MOST_HOSTS];
    struct lull_cluster cluster = {&type, 1, nodes, it.count, 1};
    const struct lull_cluster_jobs jobs = {all, count};
    struct lull_cluster_run *run = NULL;
    double run_j;
    double idle_j;

    for (uint32_t i = 0; i < it.count; i++)
        nodes[i] = (struct lull_cluster_node){.gpus = 1};
    assert_int_equal(
        lull_cluster_simulate(&cluster, &jobs, lull_cluster_policy_find("fifo"), NULL, &run, NULL),
        0);
    answer[0] = 0.0;
    for (size_t i = 0; i < count; i++)
        answer[0] = fmax(answer[0], (double)lull_cluster_run_outcomes(run)[i].end_ns * 1e-9);
    lull_cluster_run_energy(run, &run_j, &idle_j);
    answer[1] = run_j + idle_j;
    lull_cluster_run_destroy(run);
}

/* Hosts of one kind: which of them a job gets does not matter then. */
static void test_queue(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= QUEUES; seed++) {
        char path[] = "/tmp/lull-simgrid-XXXXXX";
        FILE *const file = open_question(path);
        struct lull_cluster_job jobs[MAX_JOBS];
        struct lull_cluster_point points[MAX_JOBS];
        struct lull_random random;
        double arrival_s = 0.0;
        double ours[2];

        lull_random_init(&random, 100 + seed);
        draw_hosts(&random);
        for (uint32_t i = 1; i < it.count; i++)
            it.hosts[i] = it.hosts[0];
        write_hosts(file);
        for (int i = 0; i < MAX_JOBS; i++) {
            const int speed = (int)lull_random_below(&random, 2);
            const double flop = between(&random, 1e12, 2e13);

            arrival_s += between(&random, 0.0, 12.0 / it.count);
            fprintf(file, "job %.17g %d %.17g\n", arrival_s, speed, flop);
            points[i] = (struct lull_cluster_point){
                .gpus = 1,
                .time_ns = llround(flop / flop_s[speed] * 1e9),
                .energy_j = flop / flop_s[speed] * it.hosts[0].busy_w[speed],
            };
            jobs[i] = (struct lull_cluster_job){.arrival_ns = llround(arrival_s * 1e9),
                                                .deadline_ns = LULL_CLUSTER_NEVER,
                                                .weight = 1.0,
                                                .point_count = 1,
                                                .points = &points[i]};
        }
        fclose(file);
        simulate_queue(jobs, MAX_JOBS, ours);
        judge("queue", seed, path, "", ours, simgrid_queues[seed - 1]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_queue),
    };

    oracle = argc > 1 ? argv[1] : NULL;
    is_recording = argc > 2 && strcmp(argv[2], "record") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
