/*
 * Sleeps of the reader of a job's events, in virtual time: the state of the doorbell in each sleep,
 * its timeout, and the event that ends it. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "job_fixture.h"
#include "wire/event_layout.h"

static int64_t virtual_ns;

static int64_t fake_now_ns(void)
{
    return virtual_ns;
}

/* One system call of the doorbell. */
struct bell_call {
    int operation;
    uint32_t value;
    int64_t until_ns; /* 0: none */
};

static struct bell_call calls[16];
static uint32_t call_count;
static struct lull_event_segment *pushed_into; /* gets an event in the next sleep */
static uint32_t *rung;                         /* the doorbell, rung in the next sleep */
static long fake_futex(void *word, int operation, uint32_t value, const struct timespec *until);

#define lull_now_ns fake_now_ns
#define syscall(number, word, operation, value, until, unused, mask)                               \
    fake_futex(word, operation, value, until)

#include "wire/event_ring.c"

#define T0 LULL_NS_PER_S
#define MS LULL_NS_PER_MS

static long fake_futex(void *word, int operation, uint32_t value, const struct timespec *until)
{
    const int64_t until_ns = until == NULL ? 0 : until->tv_sec * LULL_NS_PER_S + until->tv_nsec;

    assert_true(call_count < 16);
    calls[call_count++] = (struct bell_call){operation, value, until_ns};
    if (operation == FUTEX_WAKE)
        return 0;
    assert_int_equal(*(uint32_t *)word, value);
    if (pushed_into != NULL) {
        atomic_store((_Atomic uint32_t *)word, AWAKE);
        lull_event_push(pushed_into, 0, &(struct lull_event){.kind = LULL_EVENT_BEGIN});
        pushed_into = NULL;
        virtual_ns += 7;
    } else if (rung != NULL) {
        *rung = RUNG;
        rung = NULL;
        virtual_ns += 7;
    } else if (until_ns > virtual_ns) {
        virtual_ns = until_ns;
    }
    return 0;
}

static int begin(void **state)
{
    virtual_ns = T0;
    call_count = 0;
    pushed_into = NULL;
    rung = NULL;
    return set_up(state);
}

static struct lull_event_segment *job_of(void **state)
{
    return ((struct fixture *)*state)->job;
}

static _Atomic uint32_t *bell_of(void **state)
{
    return &job_of(state)->segment->header.doorbell;
}

static void check_sleep(uint32_t at, uint32_t doorbell, int64_t until_ns)
{
    assert_true(at < call_count);
    assert_int_equal(calls[at].operation, FUTEX_WAIT_BITSET);
    assert_int_equal(calls[at].value, doorbell);
    assert_int_equal(calls[at].until_ns, until_ns);
}

static struct lull_event_segment *join(void **state)
{
    const struct lull_process_info info = {getpid(), -1, -1, -1, "test"};
    struct lull_event_segment *job;
    uint32_t slot;

    assert_int_equal(
        lull_event_segment_join(((struct fixture *)*state)->path, &info, &job, &slot, NULL), 0);
    assert_int_equal(slot, 0);
    return job;
}

/* Right after events the reader dozes, from which it need not be woken; then it sleeps. */
static void it_dozes_and_then_sleeps_in_stretches(void **state)
{
    struct lull_event_segment *job = job_of(state);

    job->woken_ns = T0;
    lull_event_segment_wait(job, T0 + 250 * MS);
    assert_int_equal(call_count, 4);
    check_sleep(0, DOZING, T0 + DOZE_NS);
    check_sleep(1, SLEEPING, T0 + DOZE_NS + LONGEST_SLEEP_NS);
    check_sleep(2, SLEEPING, T0 + DOZE_NS + 2 * LONGEST_SLEEP_NS);
    check_sleep(3, SLEEPING, T0 + 250 * MS);
    assert_int_equal(virtual_ns, T0 + 250 * MS);
    assert_int_equal(job->woken_ns, virtual_ns);
    assert_int_equal(*bell_of(state), AWAKE);
}

static void a_short_wait_is_a_doze(void **state)
{
    struct lull_event_segment *job = job_of(state);

    job->woken_ns = T0 - DOZE_NS + 5;
    lull_event_segment_wait(job, T0 + 2);
    assert_int_equal(call_count, 1);
    check_sleep(0, DOZING, T0 + 2);
    virtual_ns = T0;
    call_count = 0;
    job->woken_ns = T0 - DOZE_NS; /* it has dozed long enough */
    lull_event_segment_wait(job, T0 + MS);
    assert_int_equal(call_count, 1);
    check_sleep(0, SLEEPING, T0 + MS);
    call_count = 0;
    job->woken_ns = virtual_ns;
    lull_event_segment_wait(job, -5);
    lull_event_segment_wait(job, virtual_ns);
    assert_int_equal(call_count, 0);
}

static void an_event_ends_the_wait(void **state)
{
    struct lull_event_segment *job = job_of(state);
    struct lull_event_segment *producer = join(state);
    struct lull_event event;

    job->woken_ns = T0;
    pushed_into = producer;
    lull_event_segment_wait(job, T0 + LULL_NS_PER_S);
    assert_int_equal(call_count, 1);
    check_sleep(0, DOZING, T0 + DOZE_NS);
    assert_int_equal(job->woken_ns, T0 + 7);
    lull_event_segment_wait(job, T0 + LULL_NS_PER_S); /* it is still there: no sleep */
    assert_int_equal(call_count, 1);
    assert_int_equal(lull_event_segment_read(job, 0, &event, 1), 1);
    virtual_ns = T0 + MS;
    pushed_into = producer;
    lull_event_segment_wait(job, T0 + LULL_NS_PER_S);
    assert_int_equal(call_count, 2);
    check_sleep(1, SLEEPING, T0 + MS + LONGEST_SLEEP_NS);
    assert_int_equal(job->woken_ns, T0 + MS + 7);
    lull_event_segment_destroy(producer);
}

static void a_ring_ends_the_wait(void **state)
{
    struct lull_event_segment *job = job_of(state);

    job->woken_ns = T0;
    rung = (uint32_t *)bell_of(state);
    lull_event_segment_wait(job, T0 + LULL_NS_PER_S); /* out of a doze */
    assert_int_equal(call_count, 1);
    assert_int_equal(job->woken_ns, T0);
    assert_int_equal(*bell_of(state), AWAKE);
    job->woken_ns = 0;
    rung = (uint32_t *)bell_of(state);
    lull_event_segment_wait(job, T0 + LULL_NS_PER_S); /* out of a sleep */
    assert_int_equal(call_count, 2);
    assert_int_equal(job->woken_ns, 0);
    atomic_store(bell_of(state), RUNG); /* before it began */
    lull_event_segment_wait(job, T0 + LULL_NS_PER_S);
    assert_int_equal(call_count, 2);
    assert_int_equal(*bell_of(state), AWAKE);
}

/* The kernel is called only if a reader sleeps. */
static void who_wakes_whom(void **state)
{
    static const struct {
        uint32_t before;
        uint32_t after_ring;
        uint32_t ring_calls;
        uint32_t wake_calls;
    } rows[] = {
        {AWAKE, AWAKE, 0, 0},
        {SLEEPING, AWAKE, 1, 1},
        {DOZING, DOZING, 0, 1},
        {RUNG, RUNG, 0, 0},
    };
    struct lull_event_segment *job = job_of(state);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        call_count = 0;
        atomic_store(bell_of(state), rows[i].before);
        ring_doorbell(&job->segment->header);
        assert_int_equal(*bell_of(state), rows[i].after_ring);
        assert_int_equal(call_count, rows[i].ring_calls);
        call_count = 0;
        atomic_store(bell_of(state), rows[i].before);
        lull_event_segment_wake(job);
        assert_int_equal(*bell_of(state), RUNG);
        assert_int_equal(call_count, rows[i].wake_calls);
        if (call_count > 0)
            assert_int_equal(calls[0].operation, FUTEX_WAKE);
        assert_true(call_count == 0 || calls[0].value >= 1);
    }
}

/* Of what is enqueued every eighth of a ring rings, of everything else each event. */
static void which_events_ring(void **state)
{
    struct lull_event_segment *producer = join(state);
    struct lull_event out;

    for (uint32_t i = 0; i < 2 * LULL_JOB_RING_EVENTS + 3; i++) {
        const uint16_t kind = i % 3 == 0 ? LULL_EVENT_COMMUNICATOR : LULL_EVENT_ENQUEUE;

        call_count = 0;
        atomic_store(bell_of(state), SLEEPING);
        lull_event_push(producer, 0, &(struct lull_event){.kind = kind});
        assert_int_equal(call_count, i % (LULL_JOB_RING_EVENTS / 8) == 0);
        assert_int_equal(lull_event_segment_read(job_of(state), 0, &out, 1), 1);
    }
    for (uint16_t kind = 0; kind < 20; kind++) {
        call_count = 0;
        atomic_store(bell_of(state), kind % 2 == 0 ? SLEEPING : AWAKE);
        if (kind == LULL_EVENT_COMMUNICATOR || kind == LULL_EVENT_ENQUEUE)
            continue;
        lull_event_push(producer, 0, &(struct lull_event){.kind = kind});
        assert_int_equal(call_count, kind % 2 == 0);
    }
    lull_event_segment_destroy(producer);
}

/* An event that is reserved but not published yet does not count. An event behind it does. */
static void what_counts_as_an_event(void **state)
{
    struct lull_event_segment *job = job_of(state);
    struct lull_event_segment *producer = join(state);
    struct lull_event out;

    assert_false(lull_event_segment_has_events(job));
    atomic_fetch_add(&job->segment->slots[0].head, 1);
    assert_false(lull_event_segment_has_events(job));
    lull_event_push(producer, 0, &(struct lull_event){.kind = LULL_EVENT_BEGIN});
    assert_true(lull_event_segment_has_events(job));
    assert_int_equal(lull_event_segment_read(job, 0, &out, 1), 1);
    assert_false(lull_event_segment_has_events(job));
    lull_event_segment_destroy(producer);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_dozes_and_then_sleeps_in_stretches),
        TEST(a_short_wait_is_a_doze),
        TEST(an_event_ends_the_wait),
        TEST(a_ring_ends_the_wait),
        TEST(who_wakes_whom),
        TEST(which_events_ring),
        TEST(what_counts_as_an_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
