/*
 * EDL on random tasks: the figures of a schedule equal those of a plain slot loop;
 * no GPU has two tasks at a time; no deadline is missed that
 * full clocks meet; each error flag has its documented effect. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/core/property.h"
#include "lab/reproduce/edl/online.h"
#include "lab/reproduce/edl/tasks.h"

enum { ROUNDS = 60 };

struct play {
    struct lull_edl_config config;
    bool is_online;
    struct lull_dvfs_task *tasks;
    struct lull_edl_job *jobs;
    size_t count;
    struct lull_edl_outcome outcome;
};

static void draw_config(struct lull_random *random, struct lull_edl_config *config)
{
    lull_edl_config_default(config);
    config->order = (enum lull_edl_order)lull_random_below(random, 2);
    config->place = (enum lull_edl_place)lull_random_below(random, 6);
    config->theta_ratio = 0.4 + 0.1 * (double)lull_random_below(random, 7);
    config->gpus_per_node = 1U << lull_random_below(random, 5);
    if (lull_random_below(random, 2) == 0)
        config->turn_on_j = 90.0;
    config->idle_w = 37.0;
}

/* Few tasks, so that a slot loop is quick; deadlines that are tight, or cannot be met. */
static void draw_play(uint64_t seed, struct play *play)
{
    struct lull_random random;

    lull_random_init(&random, seed);
    *play = (struct play){.is_online = lull_random_below(&random, 2) == 0};
    draw_config(&random, &play->config);
    play->count = lull_edl_tasks_count(0.1, play->is_online);
    play->tasks = calloc(play->count, sizeof(*play->tasks));
    play->jobs = calloc(play->count, sizeof(*play->jobs));
    assert_true(play->tasks != NULL && play->jobs != NULL);
    lull_edl_tasks_draw(0.1, play->is_online, seed, play->tasks);
    for (size_t i = 0; i < play->count; i++) {
        struct lull_dvfs_task *task = &play->tasks[i];
        const double room_s = task->deadline_s - task->arrival_s;

        if (play->is_online)
            task->arrival_s = floor(task->arrival_s / 4.0);
        task->deadline_s = task->arrival_s + room_s * (0.2 + 0.9 * lull_random_uniform(&random));
    }
}

static void run(struct play *play)
{
    struct lull_error err = {0};
    const int rc = play->is_online ? lull_edl_simulate(&play->config, play->tasks, play->count,
                                                       play->jobs, &play->outcome, &err)
                                   : lull_edl_schedule(&play->config, play->tasks, play->count,
                                                       play->jobs, &play->outcome, &err);

    if (rc < 0)
        fail_msg("%s", err.text);
}

static void end(struct play *play)
{
    free(play->tasks);
    free(play->jobs);
}

static size_t gpu_of(const struct play *play, const struct lull_edl_job *job)
{
    return (size_t)job->node * play->config.gpus_per_node + job->gpu;
}

static size_t count_gpus(const struct play *play)
{
    size_t most = 0;

    for (size_t i = 0; i < play->count; i++)
        if (play->jobs[i].node >= most)
            most = play->jobs[i].node + (size_t)1;
    return most * play->config.gpus_per_node;
}

static int by_start(const void *left, const void *right)
{
    const struct lull_edl_job *const a = left;
    const struct lull_edl_job *const b = right;

    return (a->start_s > b->start_s) - (a->start_s < b->start_s);
}

/* Sorts the jobs. */
static void check_jobs(struct play *play, uint64_t seed)
{
    double *end_s = calloc(count_gpus(play), sizeof(*end_s));
    double run_j = 0.0;
    uint64_t late = 0;

    qsort(play->jobs, play->count, sizeof(*play->jobs), by_start);
    for (size_t i = 0; i < play->count; i++) {
        const struct lull_edl_job *job = &play->jobs[i];
        const struct lull_dvfs_task *task = job->task;
        const struct lull_dvfs_point *p = &job->point;
        const double time_s = task->scaled_s * task->core_share / p->core_ratio +
                              task->scaled_s * (1.0 - task->core_share) / p->memory_ratio +
                              task->constant_s;
        const double power_w = task->constant_w + task->memory_w * p->memory_ratio +
                               task->core_w * p->voltage_ratio * p->voltage_ratio * p->core_ratio;

        holds(job->gpu < play->config.gpus_per_node, seed);
        holds(job->start_s >= task->arrival_s && job->start_s >= end_s[gpu_of(play, job)], seed);
        holds(fabs(job->finish_s - job->start_s - time_s) < 1e-6, seed);
        holds(fabs(p->power_w - power_w) < 1e-9, seed);
        end_s[gpu_of(play, job)] = job->finish_s;
        run_j += power_w * time_s;
        late += job->finish_s > task->deadline_s + 1e-6;
    }
    holds(fabs(run_j / play->outcome.run_j - 1.0) < 1e-9, seed);
    holds(late == play->outcome.misses, seed);
    free(end_s);
}

/* ---- the published slot loop over a finished schedule, as plainly as can be --------------- */

struct ledger {
    int64_t idle;
    uint64_t turn_ons;
    uint64_t most_on;
};

struct slow_gpu {
    double queue[64]; /* ends of its tasks; the first is the running one */
    size_t first;
    size_t last;
};

struct slow_node {
    bool is_on;
    int waiting;
    struct slow_gpu *gpus;
};

/* Step (a) of a slot for one node; returns the tasks that ended. */
static size_t look_at_node(struct slow_node *node, uint32_t gpus, double slot, int64_t *idle)
{
    bool is_busy = false;
    size_t ended = 0;

    for (uint32_t i = 0; i < gpus; i++) {
        struct slow_gpu *gpu = &node->gpus[i];

        is_busy = is_busy || gpu->first < gpu->last;
        if (gpu->first == gpu->last)
            ++*idle;
        else if (gpu->queue[gpu->first % 64] <= slot)
            gpu->first++, ended++;
    }
    node->waiting = is_busy ? 0 : node->waiting + 1;
    return ended;
}

static bool is_at_rest(const struct slow_node *node, uint32_t gpus)
{
    for (uint32_t i = 0; i < gpus; i++)
        if (node->gpus[i].first < node->gpus[i].last)
            return false;
    return true;
}

/* Step (c): jobs are sorted by start, so a GPU's come in the order in which it has them. */
static void take_arrivals(const struct play *play, struct slow_node *nodes, double slot,
                          struct ledger *ledger)
{
    for (size_t i = 0; i < play->count; i++) {
        const struct lull_edl_job *job = &play->jobs[i];
        struct slow_node *node = &nodes[job->node];
        struct slow_gpu *gpu = &node->gpus[job->gpu];

        if (ceil(job->task->arrival_s) != slot)
            continue;
        if (!node->is_on) {
            node->is_on = true;
            node->waiting = 0;
            ledger->turn_ons++;
        }
        assert_true(gpu->last - gpu->first < 64);
        gpu->queue[gpu->last++ % 64] = job->finish_s;
    }
}

static struct ledger keep_ledger(const struct play *play)
{
    const uint32_t per_node = play->config.gpus_per_node;
    const size_t node_count = count_gpus(play) / per_node;
    struct slow_node *nodes = calloc(node_count, sizeof(*nodes));
    struct ledger ledger = {0};
    size_t ended = 0;

    for (size_t n = 0; n < node_count; n++)
        nodes[n].gpus = calloc(per_node, sizeof(*nodes[n].gpus));
    for (double slot = 0.0;; slot += 1.0) {
        uint64_t on = 0;

        for (size_t n = 0; n < node_count; n++)
            if (nodes[n].is_on)
                ended += look_at_node(&nodes[n], per_node, slot, &ledger.idle);
        if (ended == play->count)
            break;
        for (size_t n = 0; n < node_count; n++)
            if (nodes[n].waiting >= 2 && is_at_rest(&nodes[n], per_node))
                nodes[n].is_on = false;
        take_arrivals(play, nodes, slot, &ledger);
        for (size_t n = 0; n < node_count; n++)
            on += nodes[n].is_on;
        ledger.most_on = on > ledger.most_on ? on : ledger.most_on;
    }
    for (size_t n = 0; n < node_count; n++)
        free(nodes[n].gpus);
    free(nodes);
    return ledger;
}

/* ---- tests -------------------------------------------------------------------------------- */

static void test_schedules_add_up(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct play play;

        draw_play(seed, &play);
        if (seed % 3 == 0)
            assert_int_equal(lull_edl_find_variant("published", &play.config.errors), 0);
        if (seed % 5 == 0)
            play.config.node_limit = 512 / play.config.gpus_per_node;
        run(&play);
        check_jobs(&play, seed);
        holds(play.config.node_limit == 0 || play.outcome.max_nodes <= play.config.node_limit,
              seed);
        if (play.is_online) {
            const struct ledger ledger = keep_ledger(&play);

            holds((double)ledger.idle == play.outcome.idle_s, seed);
            holds(ledger.turn_ons == play.outcome.turn_ons, seed);
            holds(ledger.most_on == play.outcome.max_nodes, seed);
        }
        end(&play);
    }
}

/* Every deadline that full clocks meet is met: full clocks can do no better than each task alone on
 * a GPU. */
static void test_repaired_is_late_only_where_it_must(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct play play;

        draw_play(seed, &play);
        run(&play);
        for (size_t i = 0; i < play.count; i++) {
            const struct lull_edl_job *job = &play.jobs[i];
            const struct lull_dvfs_task *task = job->task;

            holds(job->finish_s <= task->deadline_s + 1e-6 ||
                      task->arrival_s + task->scaled_s + task->constant_s > task->deadline_s,
                  seed);
        }
        end(&play);
    }
}

static void test_order_of_a_file_does_not_matter(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct play play;
        struct lull_edl_outcome first;

        draw_play(seed, &play);
        run(&play);
        first = play.outcome;
        for (size_t i = 0; i < play.count / 2; i++) {
            const struct lull_dvfs_task task = play.tasks[i];

            play.tasks[i] = play.tasks[play.count - 1 - i];
            play.tasks[play.count - 1 - i] = task;
        }
        run(&play);
        holds(fabs(first.run_j / play.outcome.run_j - 1.0) < 1e-12, seed);
        holds(first.idle_s == play.outcome.idle_s, seed);
        holds(first.turn_ons == play.outcome.turn_ons, seed);
        end(&play);
    }
}

static void test_a_crowded_cluster_hurries(void **state)
{
    const struct lull_dvfs_task tasks[] = {
        {1, 0.0, 130.0, 100.0, 10.0, 0.5, 50.0, 30.0, 100.0},
        {2, 0.0, 140.0, 100.0, 10.0, 0.5, 50.0, 30.0, 100.0},
    };
    struct lull_edl_job jobs[2];
    struct lull_edl_outcome outcome;
    struct lull_edl_config config;
    struct lull_dvfs_point fastest;

    (void)state;
    lull_edl_config_default(&config);
    config.node_limit = 1;
    fastest = lull_dvfs_fastest(&tasks[1], &config.range);
    assert_int_equal(lull_edl_schedule(&config, tasks, 2, jobs, &outcome, NULL), 0);
    assert_int_equal(outcome.misses, 1);
    assert_int_equal(outcome.turn_ons, 1);
    assert_near(jobs[1].point.time_s, fastest.time_s, 0.0);
    assert_near(jobs[1].start_s, jobs[0].finish_s, 0.0);
}

static void test_what_is_refused(void **state)
{
    const struct lull_dvfs_task late = {7, 3.0, 100.0, 10.0, 1.0, 0.5, 50.0, 30.0, 100.0};
    struct lull_edl_job job;
    struct lull_edl_outcome outcome;
    struct lull_edl_config config;
    struct lull_error err = {0};
    unsigned errors = 77;

    (void)state;
    lull_edl_config_default(&config);
    assert_int_equal(lull_edl_schedule(&config, &late, 1, &job, &outcome, &err), -EINVAL);
    assert_string_equal(err.text,
                        "task 7 arrives at 3 s, not at 0; schedule the tasks with --online");
    assert_int_equal(lull_edl_simulate(&config, &late, 0, &job, &outcome, &err), 0);
    assert_int_equal(outcome.turn_ons, 0);
    assert_int_equal(lull_edl_find_variant("mended", &errors), -EINVAL);
    assert_int_equal(errors, 77);
    assert_null(lull_edl_error_name(4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules_add_up),
        cmocka_unit_test(test_repaired_is_late_only_where_it_must),
        cmocka_unit_test(test_order_of_a_file_does_not_matter),
        cmocka_unit_test(test_a_crowded_cluster_hurries),
        cmocka_unit_test(test_what_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
