/*
 * Recurring jobs that several nodes share: the handling of a run whose node stops responding. A
 * process acts as another node by using another node name, and the common clock, the store's, is
 * advanced instead of waiting.
 *
 * usage: test_batch_nodes [LOCATION]: the store to use, else a sqlite file in a new directory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "store/batch_rows.h" /* to place a process on another node */

#include "batch_case.h"

enum { SOON_S = 55, LATE_S = 65 }; /* before and after the 60 s that a silent node is given */

static const struct lull_batch_progress reported = {12.5, 3.5, 2, 0.4};

/* The store's clock, so many seconds ahead, for this process. */
static void move_clock(struct lull_batch_jobs *jobs, int ahead_s)
{
    static const struct lull_sql_kind *real;
    static struct lull_sql_kind moved;
    static char now[160];

    if (real == NULL)
        real = jobs->sql->kind;
    moved = *real;
    snprintf(now, sizeof(now), "(%s + %d)", real->now, ahead_s);
    moved.now = now;
    jobs->sql->kind = &moved;
}

static struct lull_batch_jobs *open_as(const char *place)
{
    struct lull_batch_jobs *jobs = open_jobs();

    snprintf(jobs->self.place, sizeof(jobs->self.place), "%s", place);
    move_clock(jobs, 0);
    return jobs;
}

static uint32_t submit(struct lull_batch_jobs *jobs, const char *name,
                       struct lull_batch_ticket *ticket)
{
    const struct lull_batch_job job = make_job(name);
    struct lull_error err = {0};

    if (lull_batch_jobs_submit(jobs, &job, 0, ticket, &err) < 0)
        fail_msg("%s", err.text);
    return ticket->lost_count;
}

static struct lull_batch_entry first_entry(struct lull_batch_jobs *jobs, const char *name)
{
    struct lull_batch_entry *entries = NULL;
    struct lull_batch_entry first;
    struct lull_batch_job job;
    struct lull_error err = {0};
    size_t count = 0;

    if (lull_batch_jobs_load(jobs, name, &job, &entries, &count, NULL, &err) < 0)
        fail_msg("%s", err.text);
    first = entries[0];
    free(entries);
    return first;
}

/* ---- the other node ---------------------------------------------------------------------- */

enum order { ORDER_BEAT, ORDER_END };

struct node {
    pid_t pid;
    int orders;  /* written: struct command */
    int answers; /* read: int */
    struct lull_batch_ticket ticket;
};

struct command {
    enum order order;
    int ahead_s;
};

/* Submits a run, reports its progress, then follows its orders. */
static void be_a_node(const char *name, int orders, int answers)
{
    struct lull_batch_jobs *jobs = open_as("another machine");
    struct lull_batch_ticket ticket;
    struct command command;

    submit(jobs, name, &ticket);
    if (lull_batch_jobs_heartbeat(jobs, name, ticket.run, &reported, NULL) < 0 ||
        write(answers, &ticket, sizeof(ticket)) != (ssize_t)sizeof(ticket))
        _exit(1);
    while (read(orders, &command, sizeof(command)) == (ssize_t)sizeof(command)) {
        int result;

        move_clock(jobs, command.ahead_s);
        result =
            command.order == ORDER_BEAT
                ? lull_batch_jobs_heartbeat(jobs, name, ticket.run, &reported, NULL)
                : lull_batch_jobs_end(jobs, name, ticket.run, LULL_BATCH_REACHED, &reported, NULL);
        if (write(answers, &result, sizeof(result)) != (ssize_t)sizeof(result))
            _exit(1);
    }
    _exit(0);
}

static struct node start_node(const char *name)
{
    struct node node;
    int orders[2];
    int answers[2];

    assert_int_equal(pipe(orders) | pipe(answers), 0);
    node.pid = fork();
    if (node.pid == 0) {
        close(orders[1]);
        be_a_node(name, orders[0], answers[1]);
    }
    close(orders[0]);
    close(answers[1]);
    node.orders = orders[1];
    node.answers = answers[0];
    assert_int_equal(read(node.answers, &node.ticket, sizeof(node.ticket)), sizeof(node.ticket));
    return node;
}

static int tell(const struct node *node, enum order order, int ahead_s)
{
    const struct command command = {order, ahead_s};
    int result = 1;

    assert_int_equal(write(node->orders, &command, sizeof(command)), sizeof(command));
    assert_int_equal(read(node->answers, &result, sizeof(result)), sizeof(result));
    return result;
}

static void kill_node(const struct node *node)
{
    kill(node->pid, SIGKILL);
    waitpid(node->pid, NULL, 0);
    close(node->orders);
    close(node->answers);
}

/* ---- tests ------------------------------------------------------------------------------- */

static void finish(struct lull_batch_jobs *jobs, const char *name, uint64_t run)
{
    assert_int_equal(lull_batch_jobs_end(jobs, name, run, LULL_BATCH_REACHED, &reported, NULL), 0);
}

static void test_a_dead_nodes_run_is_lost_after_a_minute(void **state)
{
    const struct node node = start_node("dead");
    struct lull_batch_jobs *jobs = open_as("this machine");
    struct lull_batch_ticket ticket;
    struct lull_batch_entry entry;

    (void)state;
    kill_node(&node);
    move_clock(jobs, SOON_S); /* its end is not certain yet */
    assert_true(first_entry(jobs, "dead").is_alive);
    assert_int_equal(lull_batch_jobs_forget(jobs, "dead", NULL), -EBUSY);
    assert_int_equal(submit(jobs, "dead", &ticket), 0);
    finish(jobs, "dead", ticket.run);
    move_clock(jobs, LATE_S);
    entry = first_entry(jobs, "dead");
    assert_false(entry.is_alive || entry.is_over);
    assert_int_equal(submit(jobs, "dead", &ticket), 1);
    entry = first_entry(jobs, "dead");
    assert_true(entry.is_over && entry.over.event == LULL_BATCH_LOST);
    assert_true(entry.over.energy_j == reported.energy_j && entry.over.time_s == reported.time_s);
    finish(jobs, "dead", ticket.run);
    forget(jobs, "dead");
    lull_batch_jobs_close(jobs);
}

static void test_a_node_that_speaks_keeps_its_run(void **state)
{
    const struct node node = start_node("alive");
    struct lull_batch_jobs *jobs = open_as("this machine");
    struct lull_batch_ticket ticket;

    (void)state;
    assert_int_equal(tell(&node, ORDER_BEAT, 50), 0);
    move_clock(jobs, 50 + SOON_S);
    assert_int_equal(submit(jobs, "alive", &ticket), 0);
    finish(jobs, "alive", ticket.run);
    assert_int_equal(tell(&node, ORDER_END, 50 + SOON_S), 0);
    assert_int_equal(first_entry(jobs, "alive").over.event, LULL_BATCH_REACHED);
    kill_node(&node);
    forget(jobs, "alive");
    lull_batch_jobs_close(jobs);
}

/* Its network was away: an abandoned run stays abandoned, and that is reported. */
static void test_a_node_that_comes_back_too_late(void **state)
{
    const struct node node = start_node("late");
    struct lull_batch_jobs *jobs = open_as("this machine");
    struct lull_batch_ticket ticket;

    (void)state;
    move_clock(jobs, LATE_S);
    assert_int_equal(submit(jobs, "late", &ticket), 1);
    finish(jobs, "late", ticket.run);
    assert_int_equal(tell(&node, ORDER_BEAT, LATE_S), 0);
    assert_true(first_entry(jobs, "late").is_over);
    assert_int_equal(tell(&node, ORDER_END, LATE_S), -ENOENT);
    assert_int_equal(first_entry(jobs, "late").over.event, LULL_BATCH_LOST);
    kill_node(&node);
    forget(jobs, "late");
    lull_batch_jobs_close(jobs);
}

/* On the same machine the process itself is looked at: silence means nothing. */
static void test_silence_on_one_machine_means_nothing(void **state)
{
    struct lull_batch_jobs *jobs = open_as("this machine");
    struct lull_batch_ticket first;
    struct lull_batch_ticket ticket;

    (void)state;
    submit(jobs, "silent", &first);
    move_clock(jobs, 3600);
    assert_int_equal(submit(jobs, "silent", &ticket), 0);
    finish(jobs, "silent", first.run);
    finish(jobs, "silent", ticket.run);
    forget(jobs, "silent");
    lull_batch_jobs_close(jobs);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dead_nodes_run_is_lost_after_a_minute),
        cmocka_unit_test(test_a_node_that_speaks_keeps_its_run),
        cmocka_unit_test(test_a_node_that_comes_back_too_late),
        cmocka_unit_test(test_silence_on_one_machine_means_nothing),
    };
    int failed;

    if (batch_case_begin(argc, argv) < 0)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    batch_case_end();
    return failed;
}
