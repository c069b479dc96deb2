/*
 * A schedule that is made anew at every event, as after a death of its process each time, against
 * the simulator's, whose policy lives through the whole run: same starts under the policies that
 * decide by what waits and runs alone, and every job exactly once under all of them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/stats/random.h"
#include "simulator/cluster/engine.h"
#include "slurm/schedule/schedule.h"

enum { NODES = 6, NODE_GPUS = 8, JOBS = 60, CASES = 40 };

static const char table_text[] = "{\"gpus\": {\"a\": {\"idle_w\": 60, \"full_w\": 400}},"
                                 " \"jobs\": {\"known\": {\"time_s\": 400, \"gpus\": {\"a\": ["
                                 "  {\"sm_mhz\": 0, \"time_ratio\": 1, \"gpu_w\": 350},"
                                 "  {\"sm_mhz\": 1200, \"time_ratio\": 1.1, \"gpu_w\": 280},"
                                 "  {\"sm_mhz\": 900, \"time_ratio\": 1.4, \"gpu_w\": 210}]}}}}";

/* A batch system that does what it is told. */
struct system {
    struct lull_queue_node nodes[NODES];
    struct lull_queue_job jobs[JOBS];
    struct lull_cluster_share shares[JOBS][NODES];
    int64_t end_s[JOBS]; /* 0: it has not begun; -1: it is over */
    int64_t start_s[JOBS];
    uint32_t starts[JOBS];
};

static void make(struct system *system, struct lull_random *random, bool is_known)
{
    int64_t submit_s = 1000;

    *system = (struct system){0};
    for (uint32_t i = 0; i < NODES; i++)
        system->nodes[i] = (struct lull_queue_node){"n", "a", NODE_GPUS, 0, true};
    for (uint32_t i = 0; i < JOBS; i++) {
        const uint32_t size = (uint32_t)lull_random_below(random, 10);

        submit_s += (int64_t)lull_random_below(random, 60);
        system->jobs[i] = (struct lull_queue_job){
            .id = 1 + i,
            .is_of_lull = true,
            .name = is_known && i % 3 != 0 ? "known" : "unknown",
            .type = i % 2 == 0 ? "a" : "",
            .gpus = size < 8 ? 1 + size : NODE_GPUS * (size - 6),
            .nodes = size < 8 ? 1 : size - 6,
            .submit_s = submit_s,
            .limit_s = 30 + (int64_t)lull_random_below(random, 600),
            .takes_clocks = true,
            .shares = system->shares[i],
        };
        if (i % 4 == 0)
            system->jobs[i].deadline_s = submit_s + 200 + (int64_t)lull_random_below(random, 3000);
    }
}

/* What the batch system shows at a time: jobs that have come and are not over. */
static struct lull_queue look(const struct system *system, int64_t now_s,
                              struct lull_queue_job shown[JOBS], uint32_t original[JOBS],
                              struct lull_queue_node nodes[NODES])
{
    uint32_t count = 0;

    memcpy(nodes, system->nodes, sizeof(system->nodes));
    for (uint32_t i = 0; i < JOBS; i++) {
        if (system->jobs[i].submit_s > now_s || system->end_s[i] < 0)
            continue;
        for (uint32_t k = 0; k < system->jobs[i].share_count; k++)
            nodes[system->shares[i][k].node].used += system->shares[i][k].gpus;
        original[count] = i;
        shown[count++] = system->jobs[i];
    }
    return (struct lull_queue){now_s, nodes, NODES, shown, count};
}

static void begin_job(struct system *system, uint32_t job, int64_t now_s,
                      const struct lull_schedule_decision *decision)
{
    struct lull_queue_job *const started = &system->jobs[job];
    uint32_t gpus = 0;

    assert_int_equal(started->stage, LULL_QUEUE_WAITS);
    for (size_t k = 0; k < decision->share_count; k++) {
        uint32_t used = decision->shares[k].gpus;

        for (uint32_t i = 0; i < JOBS; i++)
            for (uint32_t s = 0; system->end_s[i] > 0 && s < system->jobs[i].share_count; s++)
                if (system->shares[i][s].node == decision->shares[k].node)
                    used += system->shares[i][s].gpus;
        assert_true(used <= NODE_GPUS);
        system->shares[job][k] = decision->shares[k];
        gpus += decision->shares[k].gpus;
    }
    assert_int_equal(gpus, started->gpus);
    assert_int_equal(decision->share_count, started->nodes);
    started->stage = LULL_QUEUE_RUNS;
    started->begin_s = now_s;
    started->sm_mhz = decision->point->sm_mhz;
    started->share_count = (uint32_t)decision->share_count;
    system->start_s[job] = now_s;
    system->end_s[job] = now_s + (decision->point->time_ns + 999999999) / 1000000000;
    system->starts[job]++;
}

static void decide(struct system *system, const struct lull_scheduling_rules *rules, int64_t now_s)
{
    struct lull_queue_job shown[JOBS];
    struct lull_queue_node nodes[NODES];
    uint32_t original[JOBS];
    const struct lull_queue queue = look(system, now_s, shown, original, nodes);
    struct lull_schedule_decision decision;
    struct lull_schedule *schedule;
    struct lull_error err = {0};
    int rc;

    if (lull_schedule_create(&queue, rules, &schedule, &err) < 0)
        fail_msg("%s", err.text);
    while ((rc = lull_schedule_next(schedule, &decision, &err)) > 0) {
        assert_false(decision.is_rejected);
        begin_job(system, original[decision.job], now_s, &decision);
    }
    assert_int_equal(rc, 0);
    lull_schedule_destroy(schedule);
}

/* Goes from event to event until all jobs are over. */
static void run(struct system *system, const struct lull_scheduling_rules *rules)
{
    int64_t now_s = 0;

    for (;;) {
        int64_t next_s = INT64_MAX;

        for (uint32_t i = 0; i < JOBS; i++) {
            if (system->jobs[i].submit_s > now_s && system->jobs[i].submit_s < next_s)
                next_s = system->jobs[i].submit_s;
            if (system->end_s[i] > 0 && system->end_s[i] < next_s)
                next_s = system->end_s[i];
        }
        if (next_s == INT64_MAX)
            return;
        now_s = next_s;
        for (uint32_t i = 0; i < JOBS; i++)
            if (system->end_s[i] > 0 && system->end_s[i] <= now_s) {
                system->end_s[i] = -1;
                system->jobs[i].share_count = 0;
            }
        decide(system, rules, now_s);
    }
}

static void check_once(const struct system *system, const char *policy)
{
    for (uint32_t i = 0; i < JOBS; i++)
        if (system->starts[i] != 1)
            fail_msg("%s: job %u began %u times", policy, i, system->starts[i]);
}

/* ---- the simulator's ------------------------------------------------------------------------ */

static void simulate(const struct system *system, const struct lull_cluster_policy_ops *policy,
                     int64_t start_s_out[JOBS])
{
    const struct lull_cluster_type type = {.name = "a"};
    struct lull_cluster_node nodes[NODES];
    const struct lull_cluster cluster = {&type, 1, nodes, NODES, 1};
    struct lull_cluster_point points[JOBS];
    struct lull_cluster_job jobs[JOBS];
    const struct lull_cluster_jobs all = {jobs, JOBS};
    struct lull_cluster_run *simulated;
    struct lull_error err = {0};

    for (uint32_t i = 0; i < NODES; i++)
        nodes[i] = (struct lull_cluster_node){.gpus = NODE_GPUS};
    for (uint32_t i = 0; i < JOBS; i++) {
        const struct lull_queue_job *const job = &system->jobs[i];

        points[i] =
            (struct lull_cluster_point){.gpus = job->gpus, .time_ns = job->limit_s * 1000000000};
        jobs[i] = (struct lull_cluster_job){
            .arrival_ns = (job->submit_s - system->jobs[0].submit_s) * 1000000000,
            .deadline_ns = LULL_CLUSTER_NEVER,
            .weight = 1.0,
            .point_count = 1,
            .points = &points[i]};
        if (job->deadline_s > 0)
            jobs[i].deadline_ns = (job->deadline_s - system->jobs[0].submit_s) * 1000000000;
    }
    if (lull_cluster_simulate(&cluster, &all, policy, NULL, &simulated, &err) < 0)
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < JOBS; i++)
        start_s_out[i] = lull_cluster_run_outcomes(simulated)[i].start_ns / 1000000000 +
                         system->jobs[0].submit_s;
    lull_cluster_run_destroy(simulated);
}

static void it_starts_jobs_when_the_simulator_does(void **state)
{
    static const char *const names[] = {"fifo", "edf", "sjf", "lpt", "backfill"};
    struct lull_random random;
    struct system system, fresh;
    int64_t expected_s[JOBS];

    (void)state;
    lull_random_init(&random, 20261127);
    for (uint32_t at = 0; at < CASES; at++) {
        make(&fresh, &random, false);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            const struct lull_scheduling_rules rules = {lull_cluster_policy_find(names[i]), NULL,
                                                        0.0};

            system = fresh;
            for (uint32_t job = 0; job < JOBS; job++)
                system.jobs[job].shares = system.shares[job];
            run(&system, &rules);
            check_once(&system, names[i]);
            simulate(&fresh, rules.policy, expected_s);
            for (uint32_t job = 0; job < JOBS; job++)
                if (system.start_s[job] != expected_s[job])
                    fail_msg("%s, case %u: job %u began at %lld, not %lld", names[i], at, job,
                             (long long)system.start_s[job], (long long)expected_s[job]);
        }
    }
}

static void every_policy_runs_every_job_once(void **state)
{
    struct lull_point_table *table;
    struct lull_random random;
    struct system fresh, system;
    struct lull_error err = {0};
    uint32_t lowered = 0;

    (void)state;
    lull_random_init(&random, 7);
    assert_int_equal(lull_point_table_parse(table_text, strlen(table_text), "table", &table, &err),
                     0);
    for (uint32_t at = 0; at < 10; at++) {
        make(&fresh, &random, true);
        for (const struct lull_cluster_policy_ops *const *row = lull_cluster_policy_all();
             *row != NULL; row++) {
            const struct lull_scheduling_rules rules = {*row, table, at % 2 == 0 ? 0.0 : 12500.0};

            if ((*row)->needs_value)
                continue;
            system = fresh;
            for (uint32_t job = 0; job < JOBS; job++)
                system.jobs[job].shares = system.shares[job];
            run(&system, &rules);
            check_once(&system, (*row)->name);
            for (uint32_t job = 0; job < JOBS; job++)
                lowered += system.jobs[job].sm_mhz != 0;
        }
    }
    assert_true(lowered > 100);
    lull_point_table_destroy(table);
}

/* A night that is cheap from 3600 to 7200 s, and a job of 400 s, or of what is left of its limit.
 */
static const struct lull_power_shift *shift_of(struct lull_queue_job job, int64_t now_s,
                                               struct lull_schedule **schedule_out)
{
    static const int64_t time_ns[] = {0, INT64_C(3600000000000), INT64_C(7200000000000),
                                      INT64_C(90000000000000)};
    static const double value[] = {0.30, 0.10, 0.30, 0.30};
    static const struct lull_tariff tariff = {time_ns, value, 4};
    static struct lull_point_table *table;
    static struct lull_queue_node node = {"n", "a", NODE_GPUS, 0, true};
    static struct lull_queue_job jobs[1];
    const struct lull_queue queue = {now_s, &node, 1, jobs, 1};
    static struct lull_queue shown;
    struct lull_scheduling_rules rules = {lull_cluster_policy_find("fifo"), NULL, 0.0, &tariff};
    struct lull_error err = {0};

    if (table == NULL)
        assert_int_equal(
            lull_point_table_parse(table_text, strlen(table_text), "table", &table, &err), 0);
    rules.table = table;
    jobs[0] = job;
    shown = queue;
    assert_int_equal(lull_schedule_create(&shown, &rules, schedule_out, &err), 0);
    return lull_schedule_shift(*schedule_out, 0);
}

static void a_deadline_lets_a_job_wait_for_cheaper_power(void **state)
{
    const struct lull_queue_job job = {.id = 1,
                                       .is_of_lull = true,
                                       .name = "known",
                                       .type = "",
                                       .gpus = 4,
                                       .nodes = 1,
                                       .limit_s = 600,
                                       .deadline_s = 6000,
                                       .takes_clocks = true};
    struct lull_queue_job other = job;
    struct lull_schedule_decision decision;
    struct lull_schedule *schedule;
    struct lull_error err = {0};
    const struct lull_power_shift *shift = shift_of(job, 100, &schedule);

    (void)state;
    assert_non_null(shift);
    assert_int_equal(shift->begin_ns, INT64_C(3600000000000));
    assert_true(shift->begin_per_kwh == 0.10 && shift->now_per_kwh == 0.30);
    assert_int_equal(lull_schedule_next(schedule, &decision, &err), 0);
    assert_null(lull_schedule_obstacle(schedule, 0));
    lull_schedule_destroy(schedule);

    /* Its time has come. */
    assert_null(shift_of(job, 3600, &schedule));
    assert_int_equal(lull_schedule_next(schedule, &decision, &err), 1);
    lull_schedule_destroy(schedule);

    /* It needs 400 s, a tenth of that to spare, and five minutes: it can wait until 40 s before the
     * night... */
    other.deadline_s = 4300;
    shift = shift_of(other, 100, &schedule);
    assert_non_null(shift);
    assert_int_equal(shift->begin_ns, INT64_C(3560000000000));
    lull_schedule_destroy(schedule);

    /* ...or not as far as that... */
    other.deadline_s = 3800;
    assert_null(shift_of(other, 100, &schedule));
    lull_schedule_destroy(schedule);

    /* ...nor does one without a deadline, or that was placed in vain before. */
    other.deadline_s = 0;
    assert_null(shift_of(other, 100, &schedule));
    assert_int_equal(lull_schedule_next(schedule, &decision, &err), 1);
    lull_schedule_destroy(schedule);
    other = job;
    other.tries = 1;
    assert_null(shift_of(other, 100, &schedule));
    lull_schedule_destroy(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_starts_jobs_when_the_simulator_does),
        cmocka_unit_test(every_policy_runs_every_job_once),
        cmocka_unit_test(a_deadline_lets_a_job_wait_for_cheaper_power),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
