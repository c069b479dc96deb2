/*
 * Hangs in random jobs in virtual time: with checkpoints and evaluations of nearly the bound, and
 * with or without a rank that stops. The job is played here without any code of the detector.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "../property.h"
#include "core/section/hang.h"

enum { MOST_RANKS = 16, MOST_EVENTS = 1 << 16, WORLD = 0, TENSOR = 1, NO_RANK = MOST_RANKS };
enum { SCHEDULES = 100, ITERATIONS = 30 };

static const double bound_s = 300.0;
static const double poll_s = 0.5;
/* A checkpoint or an evaluation, and the computation beside it, stay below the bound. */
static const double longest_pause_s = 290.0;

/* How a rank's communication is seen. */
enum sight { BY_CALLS, BY_KERNELS, BY_ENQUEUES, SIGHTS };

enum edge_kind { ENQUEUE, BEGIN, END, LOSE };

struct event {
    double time_s;
    uint32_t order;
    uint32_t rank;
    enum edge_kind kind;
    struct lull_hang_edge edge;
};

struct job {
    struct lull_random random;
    enum sight sight;
    bool has_ids;
    uint32_t ranks;
    uint32_t tensor; /* ranks of a tensor-parallel group */
    uint32_t victim; /* NO_RANK: no rank stops */
    uint32_t stops_at;
    uint32_t operations;
    double now_s[MOST_RANKS];
    bool is_stuck[MOST_RANKS];
    uint32_t numbers[MOST_RANKS];
    uint32_t lost_from[MOST_RANKS]; /* events of this rank from this operation on... */
    uint32_t lost_to[MOST_RANKS];   /* ...up to this one are lost */
    struct event *events;
    uint32_t count;
};

/* ---- the job ----------------------------------------------------------------------------- */

static uint32_t draw_below(struct job *job, uint32_t bound)
{
    return (uint32_t)lull_random_below(&job->random, bound);
}

static int64_t ns_of(double s)
{
    return (int64_t)(s * 1e9) + 1;
}

static void add(struct job *job, uint32_t rank, enum edge_kind kind, double time_s,
                uint32_t communicator)
{
    struct event *const event = &job->events[job->count];

    if (job->operations > job->lost_from[rank] && job->operations < job->lost_to[rank])
        return;
    assert_true(job->count < MOST_EVENTS);
    *event = (struct event){.time_s = time_s, .order = job->count++, .rank = rank};
    event->kind = kind;
    event->edge = (struct lull_hang_edge){
        .time_ns = ns_of(time_s),
        .communicator = communicator,
        .ranks = communicator == WORLD ? job->ranks : job->tensor,
        .number = job->sight == BY_KERNELS ? job->numbers[rank] : 0,
        .is_kernel = job->sight == BY_KERNELS,
        .is_collective = true,
    };
}

static void enter(struct job *job, uint32_t rank, uint32_t communicator)
{
    job->numbers[rank]++;
    if (job->sight != BY_CALLS)
        add(job, rank, ENQUEUE, job->now_s[rank], communicator);
    if (job->sight != BY_ENQUEUES)
        add(job, rank, BEGIN, job->now_s[rank] + 1e-5, communicator);
}

/* The ranks first..first + count - 1 meet. */
static void meet(struct job *job, uint32_t first, uint32_t count, uint32_t communicator)
{
    double last_s = 0.0;
    bool is_stuck = false;

    for (uint32_t i = first; i < first + count; i++) {
        is_stuck = is_stuck || job->is_stuck[i];
        if (!job->is_stuck[i])
            enter(job, i, communicator);
        last_s = fmax(last_s, job->now_s[i]);
    }
    for (uint32_t i = first; i < first + count; i++) {
        if (is_stuck) {
            job->is_stuck[i] = true;
            continue;
        }
        job->now_s[i] = last_s + 0.001 + 0.01 * lull_random_uniform(&job->random);
        if (job->sight != BY_ENQUEUES)
            add(job, i, END, job->now_s[i], communicator);
    }
}

static void compute(struct job *job)
{
    for (uint32_t i = 0; i < job->ranks; i++)
        job->now_s[i] += 0.05 + 2.0 * lull_random_uniform(&job->random);
}

/* A checkpoint or an evaluation, of one rank or of all. */
static void pause_for_long(struct job *job)
{
    const uint32_t only = draw_below(job, 2) == 0 ? draw_below(job, job->ranks) : NO_RANK;
    const double pause_s = longest_pause_s * (0.2 + 0.8 * lull_random_uniform(&job->random));

    for (uint32_t i = 0; i < job->ranks; i++)
        if (only == NO_RANK || only == i)
            job->now_s[i] += pause_s * (only == NO_RANK ? 0.9 + 0.1 * i / job->ranks : 1.0);
}

static void next_operation(struct job *job)
{
    job->operations++;
    for (uint32_t i = 0; i < job->ranks; i++)
        if (job->lost_to[i] == job->operations)
            add(job, i, LOSE, job->now_s[i], WORLD);
    if (job->victim != NO_RANK && job->operations == job->stops_at)
        job->is_stuck[job->victim] = true;
}

static void play(struct job *job)
{
    for (uint32_t iteration = 0; iteration < ITERATIONS; iteration++) {
        for (uint32_t layer = 0; layer < 3; layer++) {
            compute(job);
            next_operation(job);
            for (uint32_t first = 0; first < job->ranks; first += job->tensor)
                meet(job, first, job->tensor, TENSOR);
        }
        compute(job);
        if (draw_below(job, 5) == 0)
            pause_for_long(job);
        next_operation(job);
        meet(job, 0, job->ranks, WORLD);
    }
}

static int by_time(const void *a, const void *b)
{
    const struct event *const left = a;
    const struct event *const right = b;

    if (left->time_s != right->time_s)
        return left->time_s < right->time_s ? -1 : 1;
    return left->order < right->order ? -1 : 1;
}

static void draw_job(struct job *job, uint64_t seed, bool has_victim)
{
    static const uint32_t sizes[][2] = {{2, 2}, {4, 2}, {8, 4}, {8, 8}, {8, 2}, {16, 4}};
    const uint32_t *size;

    *job = (struct job){.victim = NO_RANK};
    lull_random_init(&job->random, seed);
    size = sizes[draw_below(job, 6)];
    job->ranks = size[0];
    job->tensor = size[1];
    job->sight = (enum sight)draw_below(job, SIGHTS);
    job->has_ids =
        job->sight == BY_ENQUEUES || (job->sight == BY_KERNELS && draw_below(job, 4) > 0);
    for (uint32_t i = 0; i < job->ranks && !has_victim; i++)
        if (draw_below(job, 8) == 0) {
            job->lost_from[i] = 1 + draw_below(job, 4 * ITERATIONS - 8);
            job->lost_to[i] = job->lost_from[i] + 1 + draw_below(job, 6);
        }
    if (has_victim) {
        job->victim = draw_below(job, job->ranks);
        job->stops_at = 6 + draw_below(job, 4 * ITERATIONS - 12);
    }
    job->events = malloc(MOST_EVENTS * sizeof(*job->events));
    assert_non_null(job->events);
    play(job);
    qsort(job->events, job->count, sizeof(*job->events), by_time);
}

/* ---- the detector ------------------------------------------------------------------------ */

static struct lull_hang *watch(const struct job *job)
{
    struct lull_hang *const hang = lull_hang_create(ns_of(bound_s));

    assert_non_null(hang);
    for (uint32_t i = 0; i < job->ranks; i++) {
        lull_hang_join(hang, i);
        if (!job->has_ids)
            continue;
        lull_hang_announce(hang, i, WORLD, 7, job->ranks);
        lull_hang_announce(hang, i, TENSOR, 100 + i / job->tensor, job->tensor);
    }
    return hang;
}

static void feed(struct lull_hang *hang, const struct event *event)
{
    switch (event->kind) {
    case ENQUEUE:
        lull_hang_enqueue(hang, event->rank, &event->edge);
        break;
    case BEGIN:
        lull_hang_begin(hang, event->rank, &event->edge);
        break;
    case END:
        lull_hang_end(hang, event->rank, &event->edge);
        break;
    case LOSE:
        lull_hang_lose(hang, event->rank);
    }
}

/* Returns when the detector reports the job, s; negative: it never does before it ends. */
static double find_report_s(const struct job *job, struct lull_hang *hang, double end_s)
{
    uint32_t next = 0;

    for (double now_s = 0.0; now_s < end_s; now_s += poll_s) {
        while (next < job->count && job->events[next].time_s <= now_s)
            feed(hang, &job->events[next++]);
        if (lull_hang_is_due(hang, ns_of(now_s)))
            return now_s;
    }
    return -1.0;
}

static void jobs_with_long_pauses_raise_no_alarm(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SCHEDULES; seed++) {
        struct job job;
        struct lull_hang *hang;

        draw_job(&job, seed, false);
        hang = watch(&job);
        holds(find_report_s(&job, hang, job.now_s[0]) < 0.0, seed);
        lull_hang_destroy(hang);
        free(job.events);
    }
}

/* The last completed communication, as the detector may see it: of enqueued operations that are not
 * timed, the last enqueueing. */
static double find_last_progress_s(const struct job *job)
{
    double last_s = 0.0;

    for (uint32_t i = 0; i < job->count; i++)
        if (job->events[i].kind == END ||
            (job->sight == BY_ENQUEUES && job->events[i].kind == ENQUEUE))
            last_s = fmax(last_s, job->events[i].time_s);
    return last_s;
}

static double find_last_event_s(const struct job *job)
{
    return job->events[job->count - 1].time_s;
}

static void a_missing_rank_is_named(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * SCHEDULES; seed++) {
        struct lull_hang_finding finding;
        struct lull_hang *hang;
        struct job job;
        double report_s;
        double due_s;

        draw_job(&job, seed, true);
        hang = watch(&job);
        /* The ranks that wait begin to wait at the last event at the latest. */
        due_s = bound_s + fmax(find_last_progress_s(&job), find_last_event_s(&job));
        report_s = find_report_s(&job, hang, due_s + 60.0);
        holds(report_s >= find_last_progress_s(&job) + bound_s, seed);
        holds(report_s <= due_s + 2 * poll_s, seed);
        lull_hang_find(hang, ns_of(due_s + 1.0), &finding);
        holds(finding.kind == LULL_HANG_MISSING, seed);
        holds(finding.missing_count == 1 && finding.is_missing[job.victim], seed);
        holds(finding.waiting_count == job.ranks - 1, seed);
        holds(!lull_hang_look(hang, job.victim).is_inside, seed);
        lull_hang_destroy(hang);
        free(job.events);
    }
}

/* ---- cases ------------------------------------------------------------------------------- */

static struct lull_hang_edge edge_at(double s, uint32_t communicator, uint32_t ranks)
{
    return (struct lull_hang_edge){
        .time_ns = ns_of(s), .communicator = communicator, .ranks = ranks, .is_collective = true};
}

static void begin_at(struct lull_hang *hang, uint32_t rank, double s, uint32_t communicator,
                     uint32_t ranks)
{
    const struct lull_hang_edge edge = edge_at(s, communicator, ranks);

    lull_hang_begin(hang, rank, &edge);
}

static struct lull_hang_finding find_at(const struct lull_hang *hang, double s)
{
    struct lull_hang_finding finding;

    lull_hang_find(hang, ns_of(s), &finding);
    return finding;
}

static void a_hang_ends_with_any_progress(void **state)
{
    struct lull_hang *const hang = lull_hang_create(ns_of(10.0));
    const struct lull_hang_edge end = edge_at(20.0, 0, 2);

    (void)state;
    begin_at(hang, 0, 1.0, 0, 2);
    begin_at(hang, 1, 2.0, 0, 2);
    assert_false(lull_hang_is_due(hang, ns_of(10.9)));
    assert_true(lull_hang_is_due(hang, ns_of(11.1)));
    assert_int_equal(find_at(hang, 11.1).kind, LULL_HANG_INSIDE);
    lull_hang_end(hang, 1, &end);
    assert_false(lull_hang_is_due(hang, ns_of(20.1)));
    assert_int_equal(find_at(hang, 20.1).kind, LULL_HANG_NONE);
    /* The other rank is still inside, and rank 1 is not. */
    assert_int_equal(find_at(hang, 31.0).kind, LULL_HANG_MISSING);
    assert_true(find_at(hang, 31.0).is_missing[1]);
    lull_hang_destroy(hang);
}

static void members_on_other_nodes_are_missing_elsewhere(void **state)
{
    struct lull_hang *const hang = lull_hang_create(ns_of(10.0));

    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        begin_at(hang, i, 1.0, 0, 4);
    assert_int_equal(find_at(hang, 12.0).kind, LULL_HANG_ELSEWHERE);
    /* A process that has stopped is what the others wait for, whatever it is inside. */
    lull_hang_set_process(hang, 1, LULL_HANG_STOPPED);
    assert_int_equal(find_at(hang, 12.0).kind, LULL_HANG_MISSING);
    assert_int_equal(find_at(hang, 12.0).missing_count, 1);
    assert_int_equal(find_at(hang, 12.0).waiting_count, 1);
    assert_true(find_at(hang, 12.0).is_missing[1]);
    lull_hang_destroy(hang);
}

static void a_process_that_never_communicates_is_missing(void **state)
{
    struct lull_hang *const hang = lull_hang_create(ns_of(10.0));

    (void)state;
    lull_hang_join(hang, 1);
    begin_at(hang, 0, 1.0, 0, 2);
    assert_int_equal(find_at(hang, 12.0).kind, LULL_HANG_MISSING);
    assert_true(find_at(hang, 12.0).is_missing[1]);
    lull_hang_destroy(hang);
}

static void ranks_in_two_communicators_wait_for_each_other(void **state)
{
    struct lull_hang *const hang = lull_hang_create(ns_of(10.0));

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        lull_hang_announce(hang, i, 0, 7, 2);
        lull_hang_announce(hang, i, 1, 8, 2);
        begin_at(hang, i, 1.0, i, 2);
    }
    assert_int_equal(find_at(hang, 12.0).kind, LULL_HANG_DEADLOCK);
    lull_hang_destroy(hang);
}

/* gloo reports neither communicators nor sizes. */
static void calls_without_a_communicator_have_all_ranks(void **state)
{
    struct lull_hang *const hang = lull_hang_create(ns_of(10.0));

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        begin_at(hang, i, 1.0, UINT32_MAX, 0);
    for (uint32_t i = 1; i < 3; i++) {
        const struct lull_hang_edge end = edge_at(2.0, UINT32_MAX, 0);

        lull_hang_end(hang, i, &end);
    }
    begin_at(hang, 1, 3.0, UINT32_MAX, 0);
    assert_int_equal(find_at(hang, 14.0).missing_count, 1);
    assert_true(find_at(hang, 14.0).is_missing[2]);
    lull_hang_destroy(hang);
}

/* Kernels of sends and receives run beside each other: the end of a later one ends none. */
static void sends_beside_each_other_end_by_themselves(void **state)
{
    struct lull_hang *const hang = lull_hang_create(ns_of(10.0));
    struct lull_hang_edge edge = edge_at(1.0, 0, 2);

    (void)state;
    edge.is_kernel = true;
    edge.is_collective = false;
    edge.number = 5;
    lull_hang_begin(hang, 0, &edge);
    edge.number = 6;
    lull_hang_begin(hang, 0, &edge);
    edge.time_ns = ns_of(2.0);
    lull_hang_end(hang, 0, &edge);
    assert_true(lull_hang_look(hang, 0).is_inside);
    assert_true(lull_hang_look(hang, 0).is_kernel);
    assert_int_equal(lull_hang_look(hang, 0).time_ns, ns_of(1.0));
    assert_true(lull_hang_is_due(hang, ns_of(13.0)));
    lull_hang_destroy(hang);
}

/* A rank that has enqueued more than another waits for it, unless the difference may be lost
 * events.
 */
static void counts_with_lost_events_show_nothing(void **state)
{
    struct lull_hang *const hang = lull_hang_create(ns_of(10.0));
    const struct lull_hang_edge edge = edge_at(1.0, 0, 2);

    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        lull_hang_announce(hang, i, 0, 7, 2);
    lull_hang_enqueue(hang, 1, &edge);
    lull_hang_enqueue(hang, 0, &edge);
    assert_false(lull_hang_is_due(hang, ns_of(12.0)));
    lull_hang_enqueue(hang, 0, &edge);
    assert_true(lull_hang_is_due(hang, ns_of(12.0)));
    assert_true(find_at(hang, 12.0).is_missing[1]);
    assert_int_equal(find_at(hang, 12.0).missing_count, 1);
    assert_true(lull_hang_look(hang, 0).is_inside);
    assert_false(lull_hang_look(hang, 1).is_inside);
    lull_hang_lose(hang, 1);
    assert_false(lull_hang_is_due(hang, ns_of(12.0)));
    lull_hang_destroy(hang);
}

/* An end that was not reported is forgotten when later ones have ended. */
static void lost_ends_are_forgotten(void **state)
{
    struct lull_hang *const hang = lull_hang_create(ns_of(10.0));
    struct lull_hang_edge edge = edge_at(1.0, 0, 2);

    (void)state;
    edge.is_kernel = true;
    lull_hang_begin(hang, 0, &edge);
    edge.number = 7;
    lull_hang_end(hang, 0, &edge);
    assert_false(lull_hang_is_due(hang, ns_of(100.0)));
    edge.is_collective = false;
    edge.number = 0;
    lull_hang_begin(hang, 0, &edge);
    for (uint32_t i = 1; i <= 65; i++) {
        edge.time_ns += 1000;
        edge.number = i;
        lull_hang_begin(hang, 0, &edge);
        lull_hang_end(hang, 0, &edge);
    }
    assert_false(lull_hang_is_due(hang, ns_of(100.0)));
    lull_hang_destroy(hang);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_with_long_pauses_raise_no_alarm),
        cmocka_unit_test(a_missing_rank_is_named),
        cmocka_unit_test(a_hang_ends_with_any_progress),
        cmocka_unit_test(members_on_other_nodes_are_missing_elsewhere),
        cmocka_unit_test(a_process_that_never_communicates_is_missing),
        cmocka_unit_test(ranks_in_two_communicators_wait_for_each_other),
        cmocka_unit_test(calls_without_a_communicator_have_all_ranks),
        cmocka_unit_test(sends_beside_each_other_end_by_themselves),
        cmocka_unit_test(counts_with_lost_events_show_nothing),
        cmocka_unit_test(lost_ends_are_forgotten),
    };

    return cmocka_run_group_tests_name("hang", tests, NULL, NULL);
}
