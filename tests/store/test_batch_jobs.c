/*
 * Recurring jobs in a store: the search continues exactly as one that was never stored, several
 * processes share it, and a process killed at any moment loses nothing that was acknowledged.
 *
 * usage: test_batch_jobs [LOCATION]: the store to use, else a sqlite file in a new directory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/stats/random.h"
#include "store/batch_jobs.h"

#include "batch_case.h"

/* Returns the result of an invented run. Its numbers have more digits than a short text holds. */
static struct lull_batch_progress result_of(uint64_t run, uint32_t size)
{
    return (struct lull_batch_progress){
        .energy_j = 1000.0 / 3.0 * fabs(log2((double)size / 30.0)) + 7.0 / 11.0 * (double)(run % 5),
        .time_s = 1.0 / 7.0 + (double)size,
        .epochs = (uint32_t)run,
        .metric = 0.1 * (double)run,
    };
}

static enum lull_batch_event event_of(uint64_t run)
{
    return run % 4 == 0 ? LULL_BATCH_MISSED : LULL_BATCH_REACHED;
}

static int submit(struct lull_batch_jobs *jobs, const char *name, struct lull_batch_ticket *ticket)
{
    const struct lull_batch_job job = make_job(name);
    struct lull_error err = {0};
    const int result = lull_batch_jobs_submit(jobs, &job, 0, ticket, &err);

    if (result < 0)
        fprintf(stderr, "%s\n", err.text);
    return result;
}

static int end(struct lull_batch_jobs *jobs, const char *name,
               const struct lull_batch_ticket *ticket)
{
    const struct lull_batch_progress progress = result_of(ticket->run, ticket->choice.size);

    return lull_batch_jobs_end(jobs, name, ticket->run, event_of(ticket->run), &progress, NULL);
}

static size_t load(struct lull_batch_jobs *jobs, const char *name,
                   struct lull_batch_entry **entries_out, struct lull_batch **batch_out)
{
    struct lull_batch_job job;
    struct lull_error err = {0};
    size_t count = 0;

    if (lull_batch_jobs_load(jobs, name, &job, entries_out, &count, batch_out, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(job.seed == make_job(name).seed);
    return count;
}

/* The same choices and bounds, to the last bit, as a search that lives in memory. */
static void test_as_if_never_stored(void **state)
{
    const struct lull_batch_job job = make_job("alike");
    struct lull_batch_jobs *jobs;
    struct lull_batch_config config;
    struct lull_batch *batch = NULL;

    (void)state;
    lull_batch_config_default(&config);
    config.sizes = job.sizes;
    config.size_count = job.size_count;
    config.default_size = job.default_size;
    config.price = job.price;
    config.beta_ratio = job.beta_ratio;
    config.seed = job.seed;
    assert_int_equal(lull_batch_create(&config, &batch, NULL), 0);
    for (int i = 0; i < 25; i++) {
        struct lull_batch_record record = {.event = LULL_BATCH_SUBMITTED};
        struct lull_batch_ticket ticket;
        struct lull_batch_choice choice;
        struct lull_batch_progress progress;

        jobs = open_jobs();
        assert_int_equal(submit(jobs, "alike", &ticket), 0);
        lull_batch_choose(batch, 0, &choice);
        assert_int_equal(ticket.choice.size, choice.size);
        assert_true(ticket.choice.bound == choice.bound);
        assert_int_equal(ticket.choice.is_exploring, choice.is_exploring);
        record.run = ticket.run;
        record.size = choice.size;
        record.bound = choice.bound;
        assert_int_equal(lull_batch_apply(batch, &record, NULL), 0);
        assert_int_equal(end(jobs, "alike", &ticket), 0);
        progress = result_of(ticket.run, choice.size);
        record.event = event_of(ticket.run);
        record.energy_j = progress.energy_j;
        record.time_s = progress.time_s;
        assert_int_equal(lull_batch_apply(batch, &record, NULL), 0);
        lull_batch_jobs_close(jobs);
    }
    lull_batch_destroy(batch);
    jobs = open_jobs();
    forget(jobs, "alike");
    lull_batch_jobs_close(jobs);
}

static void test_errors_change_nothing(void **state)
{
    struct lull_batch_jobs *jobs = open_jobs();
    struct lull_batch_job other = make_job("errors");
    struct lull_batch_ticket ticket;
    struct lull_batch_entry *entries = NULL;
    struct lull_error err;

    (void)state;
    assert_int_equal(submit(jobs, "errors", &ticket), 0);
    other.size_count = 3;
    assert_int_equal(lull_batch_jobs_submit(jobs, &other, 0, &ticket, &err), -EEXIST);
    assert_non_null(strstr(err.text, "other sizes"));
    other = make_job("errors");
    other.price.gpu_count = 4;
    assert_int_equal(lull_batch_jobs_submit(jobs, &other, 0, &ticket, &err), -EEXIST);
    assert_int_equal(lull_batch_jobs_forget(jobs, "errors", &err), -EBUSY);
    assert_int_equal(lull_batch_jobs_forget(jobs, "nobody", &err), -ENOENT);
    assert_int_equal(end(jobs, "errors", &ticket), 0);
    assert_int_equal(end(jobs, "errors", &ticket), -ENOENT);
    assert_int_equal(load(jobs, "errors", &entries, NULL), 1);
    assert_true(entries[0].over.energy_j ==
                result_of(ticket.run, entries[0].submitted.size).energy_j);
    free(entries);
    forget(jobs, "errors");
    lull_batch_jobs_close(jobs);
}

/* A process that submits, reports its progress, and ends. */
static void test_dead_runs_are_lost_with_their_energy(void **state)
{
    const struct lull_batch_progress progress = {12.5, 3.5, 2, 0.4};
    struct lull_batch_jobs *jobs;
    struct lull_batch_ticket ticket;
    struct lull_batch_entry *entries = NULL;
    struct lull_batch *batch = NULL;
    struct lull_batch_arm arms[LULL_BATCH_SIZES];
    const pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        jobs = open_jobs();
        if (submit(jobs, "dead", &ticket) < 0 ||
            lull_batch_jobs_heartbeat(jobs, "dead", ticket.run, &progress, NULL) < 0)
            _exit(1);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    jobs = open_jobs();
    assert_int_equal(load(jobs, "dead", &entries, NULL), 1);
    assert_false(entries[0].is_over || entries[0].is_alive);
    free(entries);
    assert_int_equal(submit(jobs, "dead", &ticket), 0);
    assert_int_equal(ticket.lost_count, 1);
    assert_int_equal(load(jobs, "dead", &entries, &batch), 2);
    assert_true(entries[0].is_over && entries[0].over.event == LULL_BATCH_LOST);
    assert_true(entries[0].over.energy_j == 12.5 && entries[0].over.time_s == 3.5);
    assert_true(entries[1].is_alive);
    assert_true(isinf(lull_batch_min_cost(batch)));
    for (size_t i = lull_batch_arms(batch, arms, LULL_BATCH_SIZES); i > 0; i--)
        assert_int_equal(arms[i - 1].run_count, 0);
    free(entries);
    lull_batch_destroy(batch);
    assert_int_equal(end(jobs, "dead", &ticket), 0);
    forget(jobs, "dead");
    lull_batch_jobs_close(jobs);
}

/* Submits and ends runs until killed, or count of them; reports each result that was acknowledged.
 */
static void work(const char *name, int count, int report)
{
    struct lull_batch_jobs *jobs = open_jobs();

    for (int i = 0; i < count; i++) {
        struct lull_batch_ticket ticket;

        if (submit(jobs, name, &ticket) < 0 || end(jobs, name, &ticket) < 0)
            _exit(1);
        if (write(report, &ticket, sizeof(ticket)) != (ssize_t)sizeof(ticket))
            _exit(2);
    }
    _exit(0);
}

static pid_t start_worker(const char *name, int count, const int report[2])
{
    const pid_t pid = fork();

    if (pid == 0)
        work(name, count, report[1]);
    return pid;
}

/* Each acknowledged result is there as it was; nothing is there twice. */
static void check_acknowledged(struct lull_batch_jobs *jobs, const char *name, int report)
{
    struct lull_batch_entry *entries = NULL;
    struct lull_batch *batch = NULL;
    const size_t count = load(jobs, name, &entries, &batch);
    struct lull_batch_ticket ticket;

    while (read(report, &ticket, sizeof(ticket)) == (ssize_t)sizeof(ticket)) {
        const struct lull_batch_progress expected = result_of(ticket.run, ticket.choice.size);
        size_t i = 0;

        while (i < count && entries[i].submitted.run != ticket.run)
            i++;
        assert_true(i < count && entries[i].is_over);
        assert_int_equal(entries[i].submitted.size, ticket.choice.size);
        assert_int_equal(entries[i].over.event, event_of(ticket.run));
        assert_true(entries[i].over.energy_j == expected.energy_j);
    }
    for (size_t i = 1; i < count; i++)
        assert_true(entries[i].submitted.run > entries[i - 1].submitted.run);
    free(entries);
    lull_batch_destroy(batch);
}

static void make_report(int report[2])
{
    assert_int_equal(pipe(report), 0);
}

static void test_many_processes(void **state)
{
    enum { WORKERS = 4, RUNS = 8 };
    struct lull_batch_jobs *jobs;
    struct lull_batch_entry *entries = NULL;
    int report[2];
    int status = 0;
    size_t count;

    (void)state;
    make_report(report);
    for (int i = 0; i < WORKERS; i++)
        start_worker("many", RUNS, report);
    close(report[1]);
    for (int i = 0; i < WORKERS; i++) {
        wait(&status);
        assert_int_equal(status, 0);
    }
    jobs = open_jobs();
    check_acknowledged(jobs, "many", report[0]);
    close(report[0]);
    count = load(jobs, "many", &entries, NULL);
    assert_int_equal(count, WORKERS * RUNS);
    for (size_t i = 0; i < count; i++)
        assert_true(entries[i].is_over && entries[i].over.event != LULL_BATCH_LOST);
    free(entries);
    forget(jobs, "many");
    lull_batch_jobs_close(jobs);
}

/* Two processes at work; one is killed at a random moment, then the other. */
static void test_killed_at_any_moment(void **state)
{
    enum { ROUNDS = 60 };
    const uint64_t seed = (uint64_t)time(NULL);
    struct lull_random random;

    (void)state;
    printf("seed %" PRIu64 "\n", seed);
    lull_random_init(&random, seed);
    for (int i = 0; i < ROUNDS; i++) {
        struct lull_batch_jobs *jobs;
        struct lull_batch_ticket ticket;
        int report[2];
        pid_t workers[2];

        make_report(report);
        for (int k = 0; k < 2; k++)
            workers[k] = start_worker("killed", INT32_MAX, report);
        close(report[1]);
        for (int k = 0; k < 2; k++) {
            usleep((useconds_t)(20000.0 * lull_random_uniform(&random)));
            kill(workers[k], SIGKILL);
            waitpid(workers[k], NULL, 0);
        }
        jobs = open_jobs();
        /* Whoever comes next can continue. */
        assert_int_equal(submit(jobs, "killed", &ticket), 0);
        assert_true(ticket.lost_count <= 2);
        assert_int_equal(end(jobs, "killed", &ticket), 0);
        check_acknowledged(jobs, "killed", report[0]);
        close(report[0]);
        if (i % 10 == 9)
            forget(jobs, "killed");
        lull_batch_jobs_close(jobs);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_if_never_stored),
        cmocka_unit_test(test_errors_change_nothing),
        cmocka_unit_test(test_dead_runs_are_lost_with_their_energy),
        cmocka_unit_test(test_many_processes),
        cmocka_unit_test(test_killed_at_any_moment),
    };
    int failed;

    if (batch_case_begin(argc, argv) < 0)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    batch_case_end();
    return failed;
}
