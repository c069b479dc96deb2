/*
 * A schedule that is created again at every event, as if its process had died each time,
 * against the simulator's, whose policy exists for the whole run. Policies that decide
 * from waiting and running jobs alone have the same starts. Those that learn or plan
 * have similar energy and completion. Under all policies every job runs exactly once.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/core/model/operating_points.h"
#include "core/stats/random.h"
#include "cluster/simulator/engine.h"
#include "cluster/slurm/schedule/journal.h"
#include "cluster/slurm/schedule/report.h"
#include "cluster/slurm/schedule/schedule.h"

enum { NODES = 6, NODE_GPUS = 8, JOBS = 60, CASES = 40 };

static const char table_text[] = "{\"gpus\": {\"a\": {\"idle_w\": 60, \"full_w\": 400}},"
                                 " \"jobs\": {\"known\": {\"time_s\": 400, \"gpus\": {\"a\": ["
                                 "  {\"sm_mhz\": 0, \"time_ratio\": 1, \"gpu_w\": 350},"
                                 "  {\"sm_mhz\": 1200, \"time_ratio\": 1.1, \"gpu_w\": 280},"
                                 "  {\"sm_mhz\": 900, \"time_ratio\": 1.4, \"gpu_w\": 210}]}}}}";

#define CLOCKS                                                                                     \
    "{\"a\": [{\"sm_mhz\": 0, \"time_ratio\": 1, \"gpu_w\": 365},"                                 \
    " {\"sm_mhz\": 1305, \"time_ratio\": 1.06, \"gpu_w\": 298},"                                   \
    " {\"sm_mhz\": 1200, \"time_ratio\": 1.12, \"gpu_w\": 252},"                                   \
    " {\"sm_mhz\": 1095, \"time_ratio\": 1.20, \"gpu_w\": 222}]}"

/* Jobs whose length and clocks are known. */
static const char lengths_text[] = "{\"gpus\": {\"a\": {\"idle_w\": 60, \"full_w\": 400}},"
                                   " \"jobs\": {\"short\": {\"time_s\": 60, \"gpus\": " CLOCKS "},"
                                   " \"middle\": {\"time_s\": 200, \"gpus\": " CLOCKS "},"
                                   " \"long\": {\"time_s\": 500, \"gpus\": " CLOCKS "}}}";

/* The state of a client: the input of its policy, and the journal's folder. */
struct memory {
    struct lull_past past;
    struct lull_schedule_journal journal;
    char folder[32];
    bool dies; /* before each look, so that only the journal is left */
};

/* A batch system that executes its orders. */
struct system {
    struct memory *memory; /* of the client; NULL: it has none */
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

/* The queue as reported by the batch system at a time: jobs that have arrived and not ended. */
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

static int remember(void *past, const json_t *decision)
{
    return lull_past_add(past, decision);
}

/* Dies and comes back, if it does. */
static void begin_look(struct memory *memory, struct lull_scheduling_rules *rules)
{
    struct lull_error err = {0};

    if (memory->dies) {
        lull_past_fini(&memory->past);
        assert_int_equal(lull_schedule_journal_recent(memory->folder, "p", LULL_PAST_MAX, remember,
                                                      &memory->past, &err),
                         0);
    }
    rules->past = &memory->past;
}

static void keep(struct memory *memory, const struct lull_queue *queue,
                 const struct lull_schedule *schedule,
                 const struct lull_schedule_decision *decision)
{
    json_t *const document = lull_report_decision(queue, schedule, decision, "p");
    struct lull_error err = {0};

    assert_non_null(document);
    if (memory->dies)
        assert_int_equal(lull_schedule_journal_add(&memory->journal, document, &err), 0);
    else
        assert_int_equal(lull_past_add(&memory->past, document), 0);
    json_decref(document);
}

static void decide(struct system *system, const struct lull_scheduling_rules *given, int64_t now_s)
{
    struct lull_scheduling_rules rules = *given;
    struct lull_queue_job shown[JOBS];
    struct lull_queue_node nodes[NODES];
    uint32_t original[JOBS];
    const struct lull_queue queue = look(system, now_s, shown, original, nodes);
    struct lull_schedule_decision decision;
    struct lull_schedule *schedule;
    struct lull_error err = {0};
    int rc;

    if (system->memory != NULL)
        begin_look(system->memory, &rules);
    if (lull_schedule_create(&queue, &rules, &schedule, &err) < 0)
        fail_msg("%s", err.text);
    while ((rc = lull_schedule_next(schedule, &decision, &err)) > 0) {
        assert_false(decision.is_rejected);
        if (system->memory != NULL)
            keep(system->memory, &queue, schedule, &decision);
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

/* ---- policies that learn or make plans --------------------------------------------------------
 */

/* The result of a run, over all jobs. */
struct sums {
    double energy_j;
    double completion_s;
};

static void name_kinds(struct system *system)
{
    static const char *const kinds[] = {"short", "middle", "long"};

    for (uint32_t i = 0; i < JOBS; i++) {
        system->jobs[i].name = kinds[i % 3];
        system->jobs[i].limit_s = 3600;
    }
}

/* The points of a job, as the table has them. */
static uint32_t points_of(const struct lull_point_table *table, const struct lull_queue_job *job,
                          struct lull_cluster_point points_out[LULL_CLUSTER_MAX_POINTS])
{
    const struct lull_table_row *const row = lull_point_table_find(table, job->name, "a");
    struct lull_cluster_point all[LULL_POINT_TABLE_MAX];

    for (uint32_t i = 0; i < row->count; i++) {
        const double time_s = row->time_s * row->points[i].time_ratio;

        all[i] = (struct lull_cluster_point){.gpus = job->gpus,
                                             .sm_mhz = row->points[i].sm_mhz,
                                             .time_ns = llround(time_s * 1e9),
                                             .energy_j = row->points[i].gpu_w * job->gpus * time_s};
    }
    return (uint32_t)lull_operating_points_choose(all, row->count, LULL_CLUSTER_MAX_POINTS,
                                                  points_out);
}

static struct sums sums_of_system(const struct system *system, const struct lull_point_table *table)
{
    struct sums sums = {0.0, 0.0};

    for (uint32_t i = 0; i < JOBS; i++) {
        struct lull_cluster_point points[LULL_CLUSTER_MAX_POINTS];
        const uint32_t count = points_of(table, &system->jobs[i], points);

        for (uint32_t k = 0; k < count; k++)
            if (points[k].sm_mhz == system->jobs[i].sm_mhz) {
                sums.energy_j += points[k].energy_j;
                sums.completion_s += (double)(system->start_s[i] - system->jobs[i].submit_s) +
                                     (double)points[k].time_ns * 1e-9;
            }
    }
    return sums;
}

static struct sums simulate_sums(const struct system *system, const struct lull_point_table *table,
                                 const struct lull_cluster_policy_ops *policy)
{
    static struct lull_cluster_point points[JOBS][LULL_CLUSTER_MAX_POINTS];
    static struct lull_cluster_job jobs[JOBS];
    const struct lull_cluster_type type = {.name = "a", .idle_w = 60};
    struct lull_cluster_node nodes[NODES];
    const struct lull_cluster cluster = {&type, 1, nodes, NODES, 1};
    const struct lull_cluster_jobs all = {jobs, JOBS};
    struct lull_cluster_run *simulated;
    struct sums sums = {0.0, 0.0};
    struct lull_error err = {0};

    for (uint32_t i = 0; i < NODES; i++)
        nodes[i] = (struct lull_cluster_node){.gpus = NODE_GPUS};
    for (uint32_t i = 0; i < JOBS; i++) {
        const struct lull_queue_job *const job = &system->jobs[i];

        jobs[i] = (struct lull_cluster_job){
            .arrival_ns = (job->submit_s - system->jobs[0].submit_s) * 1000000000,
            .deadline_ns = job->deadline_s > 0
                               ? (job->deadline_s - system->jobs[0].submit_s) * 1000000000
                               : LULL_CLUSTER_NEVER,
            .weight = 1.0,
            .point_count = points_of(table, job, points[i]),
            .points = points[i]};
    }
    if (lull_cluster_simulate(&cluster, &all, policy, NULL, &simulated, &err) < 0)
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < JOBS; i++) {
        const struct lull_cluster_outcome *const it = &lull_cluster_run_outcomes(simulated)[i];

        sums.energy_j += jobs[i].points[it->point].energy_j;
        sums.completion_s += (double)(it->end_ns - jobs[i].arrival_ns) * 1e-9;
    }
    lull_cluster_run_destroy(simulated);
    return sums;
}

static struct sums run_sums(const struct system *fresh, const struct lull_point_table *table,
                            const struct lull_cluster_policy_ops *policy, struct memory *memory)
{
    static struct system system;
    const struct lull_scheduling_rules rules = {policy, table, 0.0};
    struct sums sums;

    system = *fresh;
    system.memory = memory;
    for (uint32_t job = 0; job < JOBS; job++)
        system.jobs[job].shares = system.shares[job];
    run(&system, &rules);
    check_once(&system, policy->name);
    sums = sums_of_system(&system, table);
    if (memory != NULL)
        lull_past_fini(&memory->past);
    return sums;
}

/* Adds up the results of 20 runs: of a client with memory, of one without, and simulated. */
static void sum_up(const struct lull_point_table *table,
                   const struct lull_cluster_policy_ops *policy, struct sums sums_out[3])
{
    static struct system fresh;
    struct lull_random random;

    lull_random_init(&random, 20261128);
    for (uint32_t at = 0; at < CASES / 2; at++) {
        struct memory memory = {.dies = false};
        struct sums sums[3];

        make(&fresh, &random, false);
        name_kinds(&fresh);
        sums[0] = run_sums(&fresh, table, policy, &memory);
        sums[1] = run_sums(&fresh, table, policy, NULL);
        sums[2] = simulate_sums(&fresh, table, policy);
        for (uint32_t i = 0; i < 3; i++) {
            sums_out[i].energy_j += sums[i].energy_j;
            sums_out[i].completion_s += sums[i].completion_s;
        }
    }
}

static void policies_that_learn_or_plan_do_like_the_simulators(void **state)
{
    static const struct {
        const char *name;
        bool learns;
        double energy_ratio, completion_ratio; /* tolerances */
    } known[] = {{"hdf", false, 1e-6, 1e-6},
                 {"greedy-energy", false, 0.01, 0.04},
                 {"powerflow", true, 0.006, 0.012},
                 {"pd-rats", true, 0.02, 0.03}};
    struct lull_point_table *table;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(
        lull_point_table_parse(lengths_text, strlen(lengths_text), "table", &table, &err), 0);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct sums sums[3] = {{0.0, 0.0}};
        double energy, completion;

        sum_up(table, lull_cluster_policy_find(known[i].name), sums);
        energy = sums[0].energy_j / sums[2].energy_j - 1.0;
        completion = sums[0].completion_s / sums[2].completion_s - 1.0;
        if (fabs(energy) > known[i].energy_ratio || fabs(completion) > known[i].completion_ratio)
            fail_msg("%s: %.4f of the energy and %.4f of the completion time more than simulated",
                     known[i].name, energy, completion);
        if (known[i].learns && fabs(sums[1].energy_j / sums[2].energy_j - 1.0) < 0.05)
            fail_msg("%s does not learn anything", known[i].name);
    }
    lull_point_table_destroy(table);
}

/* The journal is all that is left of a client that was killed. */
static void a_client_that_dies_before_each_look_decides_the_same(void **state)
{
    static const char *const names[] = {"powerflow", "pd-rats"};
    static struct system fresh, systems[2];
    struct memory dying = {.folder = "/tmp/lull-schedule-XXXXXX", .dies = true};
    struct memory living = {.dies = false};
    struct memory *const memories[2] = {&living, &dying};
    struct lull_point_table *table;
    struct lull_random random;
    struct lull_error err = {0};

    (void)state;
    assert_non_null(mkdtemp(dying.folder));
    assert_int_equal(
        lull_point_table_parse(lengths_text, strlen(lengths_text), "table", &table, &err), 0);
    lull_random_init(&random, 5);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct lull_scheduling_rules rules = {lull_cluster_policy_find(names[i]), table, 0.0};

        make(&fresh, &random, false);
        name_kinds(&fresh);
        assert_int_equal(lull_schedule_journal_open(dying.folder, "p", &dying.journal, &err), 0);
        for (size_t k = 0; k < 2; k++) {
            systems[k] = fresh;
            systems[k].memory = memories[k];
            for (uint32_t job = 0; job < JOBS; job++)
                systems[k].jobs[job].shares = systems[k].shares[job];
            run(&systems[k], &rules);
            check_once(&systems[k], names[i]);
            lull_past_fini(&memories[k]->past);
        }
        for (uint32_t job = 0; job < JOBS; job++) {
            assert_int_equal(systems[0].start_s[job], systems[1].start_s[job]);
            assert_int_equal(systems[0].jobs[job].sm_mhz, systems[1].jobs[job].sm_mhz);
        }
        lull_schedule_journal_close(&dying.journal);
        assert_int_equal(unlink(dying.journal.path), 0);
    }
    assert_int_equal(rmdir(dying.folder), 0);
    lull_point_table_destroy(table);
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

/* A tariff that is cheap from 3600 to 7200 s, and a job of 400 s, or of the rest of its limit.
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

/* F55: a name of any bytes is decided on, written to the journal and found again, and the other
 * jobs run as if it were a plain one. */
static void names_of_any_bytes_change_nothing(void **state)
{
    const struct lull_scheduling_rules rules = {lull_cluster_policy_find("backfill"), NULL, 0.0};
    static char names[JOBS][24];
    struct memory memory = {.folder = "odd-names-XXXXXX", .dies = true};
    struct system plain, odd;
    struct lull_random random;
    struct lull_error err = {0};
    json_t *document;

    (void)state;
    lull_random_init(&random, 11);
    assert_non_null(mkdtemp(memory.folder));
    for (uint32_t at = 0; at < CASES; at++) {
        make(&plain, &random, false);
        odd = plain;
        for (uint32_t job = 0; job < JOBS; job++) {
            odd.jobs[job].shares = odd.shares[job];
            for (size_t i = 0; i + 1 < sizeof(names[job]); i++)
                names[job][i] = (char)(1 + lull_random_below(&random, 255));
            odd.jobs[job].name = names[job];
        }
        odd.memory = &memory;
        assert_int_equal(lull_schedule_journal_open(memory.folder, "p", &memory.journal, &err), 0);
        run(&plain, &rules);
        run(&odd, &rules);
        check_once(&odd, "backfill");
        assert_memory_equal(odd.start_s, plain.start_s, sizeof(odd.start_s));
        assert_int_equal(lull_schedule_journal_find(memory.folder, "p", 1, &document, &err), 0);
        assert_non_null(json_string_value(json_object_get(document, "name")));
        json_decref(document);
        lull_schedule_journal_close(&memory.journal);
        lull_past_fini(&memory.past);
        assert_int_equal(unlink(memory.journal.path), 0);
    }
    assert_int_equal(rmdir(memory.folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_starts_jobs_when_the_simulator_does),
        cmocka_unit_test(policies_that_learn_or_plan_do_like_the_simulators),
        cmocka_unit_test(a_client_that_dies_before_each_look_decides_the_same),
        cmocka_unit_test(every_policy_runs_every_job_once),
        cmocka_unit_test(a_deadline_lets_a_job_wait_for_cheaper_power),
        cmocka_unit_test(names_of_any_bytes_change_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
