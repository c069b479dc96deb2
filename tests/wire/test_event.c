/*
 * The segment: joining, names, order and loss under many producers, killed and hostile producers,
 * and the doorbell. Includes the layout to reach a record between its reservation and publication.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "job_fixture.h"
#include "wire/event_layout.h"

enum { PROCESSES = 3, THREADS = 3, EVENTS_PER_THREAD = 20000, KILLS = 40 };

static struct lull_event_segment *join(const char *path, uint32_t *slot_out)
{
    const struct lull_process_info info = {getpid(), -1, -1, -1, "test"};
    struct lull_event_segment *job = NULL;

    if (lull_event_segment_join(path, &info, &job, slot_out, NULL) < 0)
        _exit(9);
    return job;
}

/* ---- asking ---- */

static void governor_asks_and_probe_sees(void **state)
{
    struct fixture *fixture = *state;
    uint32_t slot;
    struct lull_event_segment *job = join(fixture->path, &slot);

    assert_int_equal(lull_event_segment_asked(job, slot), 0);
    lull_event_segment_ask(fixture->job, slot, LULL_ASK_TIMES | LULL_ASK_COMPUTE);
    assert_int_equal(lull_event_segment_asked(job, slot), LULL_ASK_TIMES | LULL_ASK_COMPUTE);
    lull_event_segment_destroy(job);
}

static void nobody_can_be_asked_beyond_the_slots(void **state)
{
    const size_t bytes = sizeof(struct lull_event_memory) + sizeof(struct lull_event_slot);
    struct lull_event_segment job = {
        .segment = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
    };
    const struct lull_event_slot *beyond;

    (void)state;
    assert_ptr_not_equal(job.segment, MAP_FAILED);
    beyond = (const struct lull_event_slot *)((const char *)job.segment +
                                              sizeof(struct lull_event_memory));
    lull_event_segment_ask(&job, LULL_JOB_MAX_PROCESSES - 1, LULL_ASK_TIMES);
    lull_event_segment_ask(&job, LULL_JOB_MAX_PROCESSES, LULL_ASK_TIMES);
    assert_int_equal(lull_event_segment_asked(&job, LULL_JOB_MAX_PROCESSES - 1), LULL_ASK_TIMES);
    assert_int_equal(beyond->asked, 0);
    munmap(job.segment, bytes);
}

/* ---- joining ---- */

static void refuses_existing_file(void **state)
{
    struct fixture *fixture = *state;
    struct lull_event_segment *job = NULL;
    struct lull_error err;

    assert_int_equal(lull_event_segment_create(fixture->path, &job, &err), -EEXIST);
    assert_non_null(strstr(err.text, fixture->path));
    assert_null(job);
}

static void file_is_private_and_sparse(void **state)
{
    struct fixture *fixture = *state;
    struct stat status;

    assert_int_equal(stat(fixture->path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_true(status.st_blocks * 512 < 1 << 20);
}

static void one_slot_per_process(void **state)
{
    struct fixture *fixture = *state;
    struct lull_process_info info;
    uint32_t first;
    uint32_t second;
    struct lull_event_segment *one = join(fixture->path, &first);
    struct lull_event_segment *two = join(fixture->path, &second);

    assert_int_equal(first, second);
    assert_int_equal(lull_event_segment_process_count(fixture->job), 1);
    info = (struct lull_process_info){getpid(), 3, 8, 1, "renamed"};
    lull_event_segment_identify(two, second, &info);
    memset(&info, 0, sizeof(info));
    assert_int_equal(lull_event_segment_process(fixture->job, first, &info), 0);
    assert_int_equal(info.pid, getpid());
    assert_int_equal(info.world_rank, 3);
    assert_string_equal(info.program, "renamed");
    assert_int_equal(lull_event_segment_new_communicator(one, first), 0);
    assert_int_equal(lull_event_segment_new_communicator(two, second), 1);
    assert_int_equal(lull_event_segment_thread(one, first), lull_event_segment_thread(two, second));
    assert_int_equal(lull_event_segment_process(fixture->job, 1, &info), -EAGAIN);
    assert_int_equal(lull_event_segment_process(fixture->job, 100000, &info), -EINVAL);
    lull_event_segment_destroy(one);
    lull_event_segment_destroy(two);
}

struct where {
    struct lull_event_segment *job;
    uint32_t slot;
};

static void *number_of_this_thread(void *argument)
{
    const struct where *where = argument;

    return (void *)(uintptr_t)lull_event_segment_thread(where->job, where->slot);
}

/* A probe's first call may be on any thread; the main one is number 0 all the same. */
static void another_thread_gives_the_main_one_its_number(void **state)
{
    struct fixture *fixture = *state;
    struct where where;
    pthread_t thread;
    void *number;

    where.job = join(fixture->path, &where.slot);
    assert_int_equal(lull_event_segment_thread_of(where.job, where.slot, getpid()), 0);
    assert_int_equal(pthread_create(&thread, NULL, number_of_this_thread, &where), 0);
    assert_int_equal(pthread_join(thread, &number), 0);
    assert_int_equal((uintptr_t)number, 1);
    assert_int_equal(lull_event_segment_thread(where.job, where.slot), 0);
    assert_int_equal(lull_event_segment_thread_of(where.job, where.slot, getpid()), 0);
    lull_event_segment_destroy(where.job);
}

static void refuses_what_is_no_segment(void **state)
{
    const struct lull_process_info info = {getpid(), -1, -1, -1, "test"};
    struct fixture *fixture = *state;
    struct lull_event_segment *job = NULL;
    uint32_t slot = 77;

    assert_int_equal(lull_event_segment_join("/nowhere/at/all", &info, &job, &slot, NULL), -ENOENT);
    assert_int_equal(lull_event_segment_join("/dev/null", &info, &job, &slot, NULL), LULL_E_FORMAT);
    assert_int_equal(lull_event_segment_join("/", &info, &job, &slot, NULL), -EISDIR);
    fixture->job->segment->header.version++;
    assert_int_equal(lull_event_segment_join(fixture->path, &info, &job, &slot, NULL),
                     LULL_E_FORMAT);
    assert_null(job);
    assert_int_equal(slot, 77);
    assert_int_equal(lull_event_segment_process_count(fixture->job), 0);
}

/* Every number that describes the layout counts. */
static void refuses_another_layout(void **state)
{
    const struct lull_process_info info = {getpid(), -1, -1, -1, "test"};
    struct fixture *fixture = *state;
    struct lull_event_header *header = &fixture->job->segment->header;
    uint32_t *const numbers[] = {&header->version,
                                 &header->processes,
                                 &header->ring_events,
                                 &header->event_bytes,
                                 (uint32_t *)&header->segment_bytes,
                                 (uint32_t *)&header->magic};
    struct lull_event_segment *job = NULL;
    uint32_t slot;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        ++*numbers[i];
        assert_int_equal(lull_event_segment_join(fixture->path, &info, &job, &slot, NULL),
                         LULL_E_FORMAT);
        --*numbers[i];
    }
    assert_int_equal(lull_event_segment_join(fixture->path, &info, &job, &slot, NULL), 0);
    lull_event_segment_destroy(job);
    assert_int_equal(truncate(fixture->path, (off_t)sizeof(struct lull_event_memory) + 1), 0);
    assert_int_equal(lull_event_segment_join(fixture->path, &info, &job, &slot, NULL),
                     LULL_E_FORMAT);
}

/* A process id may be used again: the start time distinguishes a later process from an earlier one.
 */
static void another_process_of_the_same_number_gets_another_slot(void **state)
{
    struct fixture *fixture = *state;
    struct lull_event_slot *slots = fixture->job->segment->slots;
    uint32_t first;
    uint32_t second;
    struct lull_event_segment *job = join(fixture->path, &first);

    assert_true(atomic_load(&slots[first].start_ticks) > 0);
    lull_event_segment_destroy(job);
    atomic_fetch_add(&slots[first].start_ticks, 1);
    job = join(fixture->path, &second);
    assert_int_equal(second, first + 1);
    assert_int_equal(lull_event_segment_process_count(fixture->job), 2);
    lull_event_segment_destroy(job);
}

/* The process of a slot is read completely or not at all, and it has one writer at a time. */
static void a_half_written_identity_is_not_read(void **state)
{
    const struct lull_process_info other = {getpid(), 5, 6, 7, "other"};
    struct fixture *fixture = *state;
    struct lull_process_info info = {0};
    uint32_t slot;
    struct lull_event_segment *job = join(fixture->path, &slot);
    _Atomic uint32_t *version = &fixture->job->segment->slots[slot].version;

    assert_int_equal(atomic_load(version), 2);
    atomic_store(version, 3);
    assert_int_equal(lull_event_segment_process(fixture->job, slot, &info), -EAGAIN);
    lull_event_segment_identify(job, slot, &other);
    assert_int_equal(atomic_load(version), 3);
    atomic_store(version, 4);
    assert_int_equal(lull_event_segment_process(fixture->job, slot, &info), 0);
    assert_string_equal(info.program, "test");
    lull_event_segment_identify(job, slot, &other);
    assert_int_equal(atomic_load(version), 6);
    assert_int_equal(lull_event_segment_process(fixture->job, slot, &info), 0);
    assert_memory_equal(&info, &other, sizeof(info));
    lull_event_segment_destroy(job);
}

static void threads_beyond_the_last_number_share_it(void **state)
{
    struct fixture *fixture = *state;
    uint32_t slot;
    struct lull_event_segment *job = join(fixture->path, &slot);

    for (int round = 0; round < 2; round++)
        for (int32_t i = 0; i < LULL_JOB_MAX_THREADS + 2; i++)
            assert_int_equal(lull_event_segment_thread_of(job, slot, 1000 + i),
                             i < LULL_JOB_MAX_THREADS ? i : LULL_JOB_MAX_THREADS - 1);
    lull_event_segment_destroy(job);
}

static void slots_that_do_not_exist_say_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct lull_process_info info;
    char name[LULL_JOB_NAME_BYTES] = "x";

    assert_int_equal(lull_event_segment_lost(fixture->job, LULL_JOB_MAX_PROCESSES), 0);
    assert_int_equal(lull_event_segment_process(fixture->job, LULL_JOB_MAX_PROCESSES, &info),
                     -EINVAL);
    lull_event_segment_name(fixture->job, LULL_JOB_MAX_PROCESSES, OTHER_NAME, name);
    assert_string_equal(name, "");
    name[0] = 'x';
    lull_event_segment_name(fixture->job, 0, 3, name); /* one without a name */
    assert_string_equal(name, "");
    atomic_store(&fixture->job->segment->slots[LULL_JOB_MAX_PROCESSES - 1].lost, 5);
    assert_int_equal(lull_event_segment_lost(fixture->job, LULL_JOB_MAX_PROCESSES - 1), 5);
}

static void all_slots_taken(void **state)
{
    const struct lull_process_info info = {getpid(), -1, -1, -1, "test"};
    struct fixture *fixture = *state;
    struct lull_event_segment *job = NULL;
    uint32_t slot;

    atomic_store(&fixture->job->segment->header.claimed, LULL_JOB_MAX_PROCESSES);
    assert_int_equal(lull_event_segment_join(fixture->path, &info, &job, &slot, NULL), -ENOSPC);
    atomic_store(&fixture->job->segment->header.claimed, 0);
}

/* Joins in a process of its own, which says so much and ends; returns its slot, negative: it has
 * none. */
static int join_and_end(const char *path, uint32_t events)
{
    int status = 0;
    const pid_t pid = fork();

    if (pid == 0) {
        const struct lull_process_info info = {getpid(), -1, -1, -1, "worker"};
        const struct lull_event event = {.kind = LULL_EVENT_STEP};
        struct lull_event_segment *job;
        uint32_t slot;

        if (lull_event_segment_join(path, &info, &job, &slot, NULL) < 0)
            _exit(255);
        if (lull_event_segment_thread(job, slot) != 0 ||
            lull_event_segment_new_communicator(job, slot) != 0)
            _exit(254);
        for (uint32_t i = 0; i < events; i++)
            lull_event_push(job, slot, &event);
        _exit((int)slot % 250);
    }
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status) >= 254 ? -1 : WEXITSTATUS(status);
}

static void test_f51_slots_of_the_dead_are_used_again(void **state)
{
    struct fixture *fixture = *state;
    struct lull_process_info info;
    struct lull_event event;

    assert_int_equal(join_and_end(fixture->path, 1), 0);
    assert_int_equal(join_and_end(fixture->path, 0), 1);
    atomic_store(&fixture->job->segment->header.claimed, LULL_JOB_MAX_PROCESSES);
    assert_int_equal(join_and_end(fixture->path, 0), -1);
    /* The events of dead processes are read first. */
    assert_int_equal(lull_event_segment_release(fixture->job, 0), -EAGAIN);
    assert_int_equal(join_and_end(fixture->path, 0), -1);
    for (int worker = 0; worker < 3; worker++) {
        assert_int_equal(lull_event_segment_read(fixture->job, 0, &event, 1), 1);
        assert_int_equal(lull_event_segment_release(fixture->job, 0), 0);
        assert_false(lull_event_segment_is_held(fixture->job, 0));
        assert_int_equal(lull_event_segment_release(fixture->job, 0), -EBUSY);
        assert_int_equal(join_and_end(fixture->path, 1), 0);
        assert_true(lull_event_segment_is_held(fixture->job, 0));
    }
    assert_int_equal(lull_event_segment_process(fixture->job, 0, &info), 0);
    assert_string_equal(info.program, "worker");
    atomic_store(&fixture->job->segment->header.claimed, 2);
}

static void test_f51_slots_of_the_living_are_never_released(void **state)
{
    struct fixture *fixture = *state;
    struct lull_event_slot *slots = fixture->job->segment->slots;
    uint32_t slot;
    struct lull_event_segment *job = join(fixture->path, &slot);

    assert_int_equal(lull_event_segment_release(fixture->job, slot), -EBUSY);
    assert_int_equal(join_and_end(fixture->path, 0), 1);
    /* A number of another space, such as a container's, says nothing of who lives. */
    atomic_fetch_add(&slots[1].pid_space, 1);
    assert_int_equal(lull_event_segment_release(fixture->job, 1), -EBUSY);
    atomic_store(&slots[1].pid_space, 0);
    assert_int_equal(lull_event_segment_release(fixture->job, 1), -EBUSY);
    lull_event_segment_destroy(job);
}

static void names_fill_up(void **state)
{
    struct fixture *fixture = *state;
    char name[LULL_JOB_NAME_BYTES * 2];
    char read[LULL_JOB_NAME_BYTES];
    uint32_t slot;
    struct lull_event_segment *job = join(fixture->path, &slot);

    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < OTHER_NAME; i++) {
            snprintf(name, sizeof(name), "section %u", i);
            assert_int_equal(lull_event_segment_intern(job, slot, name), i);
        }
    assert_int_equal(lull_event_segment_intern(job, slot, "one too many"), OTHER_NAME);
    lull_event_segment_name(fixture->job, slot, 5, read);
    assert_string_equal(read, "section 5");
    lull_event_segment_name(fixture->job, slot, OTHER_NAME, read);
    assert_string_equal(read, "other");
    lull_event_segment_name(fixture->job, slot, LULL_JOB_MAX_NAMES, read);
    assert_string_equal(read, "");
    lull_event_segment_destroy(job);
}

static void long_names_are_cut(void **state)
{
    struct fixture *fixture = *state;
    char name[LULL_JOB_NAME_BYTES * 2];
    char read[LULL_JOB_NAME_BYTES];
    uint32_t slot;
    struct lull_event_segment *job = join(fixture->path, &slot);

    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(lull_event_segment_intern(job, slot, name), 0);
    assert_int_equal(lull_event_segment_intern(job, slot, name), 0);
    lull_event_segment_name(fixture->job, slot, 0, read);
    assert_int_equal(strlen(read), LULL_JOB_NAME_BYTES - 1);
    lull_event_segment_destroy(job);
}

/* ---- the ring ---- */

static void full_ring_counts_what_it_drops(void **state)
{
    static struct lull_event events[LULL_JOB_RING_EVENTS * 2];
    struct fixture *fixture = *state;
    uint32_t slot;
    struct lull_event_segment *job = join(fixture->path, &slot);

    for (uint64_t i = 0; i < LULL_JOB_RING_EVENTS + 10; i++)
        lull_event_push(job, slot, &(struct lull_event){.bytes = i});
    assert_int_equal(lull_event_segment_lost(fixture->job, slot), 10);
    assert_int_equal(lull_event_segment_read(fixture->job, slot, events, 7), 7);
    assert_int_equal(
        lull_event_segment_read(fixture->job, slot, events + 7, LULL_JOB_RING_EVENTS * 2 - 7),
        LULL_JOB_RING_EVENTS - 7);
    for (uint64_t i = 0; i < LULL_JOB_RING_EVENTS; i++)
        assert_int_equal(events[i].bytes, i);
    assert_int_equal(lull_event_segment_read(fixture->job, slot, events, 1), 0);
    assert_int_equal(lull_event_segment_read(fixture->job, 1, events, 1), 0);
    lull_event_segment_destroy(job);
}

static struct lull_event_record *reserve(struct lull_event_segment *job, uint32_t slot,
                                         uint64_t *position_out)
{
    *position_out = atomic_fetch_add(&job->segment->slots[slot].head, 1);
    return &job->segment->slots[slot].records[*position_out % LULL_JOB_RING_EVENTS];
}

static void half_a_free_ring_is_seen(void **state)
{
    struct lull_event event = {.kind = LULL_EVENT_STEP};
    struct fixture *fixture = *state;
    uint32_t slot;
    struct lull_event_segment *job = join(fixture->path, &slot);

    for (int lap = 0; lap < 3; lap++) {
        for (int i = 0; i < LULL_JOB_RING_EVENTS / 2; i++) {
            assert_true(lull_event_segment_is_half_free(job, slot));
            lull_event_push(job, slot, &event);
        }
        assert_false(lull_event_segment_is_half_free(job, slot));
        assert_int_equal(lull_event_segment_read(fixture->job, slot, &event, 1), 1);
        assert_true(lull_event_segment_is_half_free(job, slot));
        while (lull_event_segment_read(fixture->job, slot, &event, 1) == 1)
            continue;
    }
    lull_event_segment_destroy(job);
}

static void hole_is_passed_over_and_delivered_late(void **state)
{
    static struct lull_event events[LULL_JOB_RING_EVENTS];
    struct fixture *fixture = *state;
    const struct lull_event late = {.bytes = 999999};
    uint32_t slot;
    uint64_t position;
    uint64_t received = 0;
    struct lull_event_segment *job = join(fixture->path, &slot);
    struct lull_event_record *hole = reserve(job, slot, &position);

    for (uint64_t i = 0; i < LULL_JOB_RING_EVENTS + 5; i++) {
        lull_event_push(job, slot, &(struct lull_event){.bytes = i});
        if (i % 100 == 0)
            received += lull_event_segment_read(fixture->job, slot, events, 64);
    }
    while (lull_event_segment_read(fixture->job, slot, events, 1) == 1)
        assert_int_equal(events[0].bytes, received++);
    assert_int_equal(received, LULL_JOB_RING_EVENTS - 1);
    assert_int_equal(lull_event_segment_lost(fixture->job, slot), 6);

    store_words(hole->words, &late, EVENT_WORDS);
    atomic_store(&hole->sequence, position + 1);
    assert_int_equal(lull_event_segment_read(fixture->job, slot, events, 64), 1);
    assert_int_equal(events[0].bytes, late.bytes);
    for (uint64_t i = 0; i < LULL_JOB_RING_EVENTS; i++)
        lull_event_push(job, slot, &(struct lull_event){.bytes = i});
    assert_int_equal(lull_event_segment_lost(fixture->job, slot), 6);
    assert_int_equal(lull_event_segment_read(fixture->job, slot, events, LULL_JOB_RING_EVENTS),
                     LULL_JOB_RING_EVENTS);
    lull_event_segment_destroy(job);
}

struct producer {
    struct lull_event_segment *job;
    uint32_t slot;
    uint32_t number;
};

static void *produce(void *argument)
{
    const struct producer *producer = argument;

    for (uint64_t i = 0; i < EVENTS_PER_THREAD; i++) {
        const struct lull_event event = {
            .time_ns = (int64_t)(i * 3), .bytes = i, .thread = producer->number, .ranks = 1};

        lull_event_push(producer->job, producer->slot, &event);
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

static void run_producers(const char *path)
{
    struct producer producers[THREADS];
    pthread_t threads[THREADS];
    uint32_t slot;
    struct lull_event_segment *job = join(path, &slot);

    for (uint32_t i = 0; i < THREADS; i++) {
        producers[i] = (struct producer){job, slot, i};
        pthread_create(&threads[i], NULL, produce, &producers[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    lull_event_segment_destroy(job);
}

struct tally {
    uint64_t next[PROCESSES][THREADS];
    uint64_t count[PROCESSES];
};

static void drain(struct lull_event_segment *job, struct tally *tally)
{
    struct lull_event events[256];
    uint32_t count;

    for (uint32_t slot = 0; slot < lull_event_segment_process_count(job); slot++)
        while ((count = lull_event_segment_read(job, slot, events, 256)) > 0)
            for (uint32_t i = 0; i < count; i++) {
                const struct lull_event *event = &events[i];

                assert_true(event->thread < THREADS);
                assert_int_equal(event->time_ns, event->bytes * 3);
                assert_true(event->bytes >= tally->next[slot][event->thread]);
                tally->next[slot][event->thread] = event->bytes + 1;
                tally->count[slot]++;
            }
}

static void stress_keeps_order_and_counts_losses(void **state)
{
    struct fixture *fixture = *state;
    struct tally tally = {0};
    int running = PROCESSES;

    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            run_producers(fixture->path);
            _exit(0);
        }
    while (running > 0) {
        int status = 0;

        lull_event_segment_wait(fixture->job, lull_now_ns() + 5 * LULL_NS_PER_MS);
        drain(fixture->job, &tally);
        if (waitpid(-1, &status, WNOHANG) > 0) {
            assert_int_equal(status, 0);
            running--;
        }
    }
    drain(fixture->job, &tally);
    assert_int_equal(lull_event_segment_process_count(fixture->job), PROCESSES);
    for (uint32_t slot = 0; slot < PROCESSES; slot++)
        assert_int_equal(tally.count[slot] + lull_event_segment_lost(fixture->job, slot),
                         THREADS * EVENTS_PER_THREAD);
}

/* Random moments of death; a push takes some 20 ns of every loop, so some hit its middle. */
static void killed_producers_do_not_block(void **state)
{
    struct fixture *fixture = *state;
    struct lull_event events[256];
    unsigned seed = 12345;

    for (uint32_t kill_count = 0; kill_count < KILLS; kill_count++) {
        pid_t pid = fork();
        uint64_t expected = 0;
        uint32_t count;

        if (pid == 0) {
            uint32_t slot;
            struct lull_event_segment *job = join(fixture->path, &slot);

            for (uint64_t i = 1;; i++)
                lull_event_push(job, slot, &(struct lull_event){.bytes = i});
        }
        while (lull_event_segment_read(fixture->job, kill_count, events, 1) == 0)
            lull_event_segment_wait(fixture->job, lull_now_ns() + LULL_NS_PER_MS);
        expected = events[0].bytes;
        seed = seed * 1103515245u + 12345u;
        lull_sleep_until_ns(lull_now_ns() + seed / 65536u % 1000 * LULL_NS_PER_US);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        while ((count = lull_event_segment_read(fixture->job, kill_count, events, 256)) > 0)
            for (uint32_t i = 0; i < count; i++) {
                assert_true(events[i].bytes > expected);
                expected = events[i].bytes;
            }
        assert_true(expected > 0);
        assert_false(lull_event_segment_has_events(fixture->job));
    }
}

/* Whatever a process writes into its part, the reader ends every call with sane values. */
static void hostile_segment_cannot_hurt_the_reader(void **state)
{
    static struct lull_event events[LULL_JOB_RING_EVENTS * 2];
    struct fixture *fixture = *state;
    uint32_t slot;
    struct lull_event_segment *job = join(fixture->path, &slot);
    unsigned char *bytes = (unsigned char *)&fixture->job->segment->header.doorbell;
    const size_t shared_bytes = sizeof(struct lull_event_slot) + PAGE_BYTES - 128;
    unsigned seed = 4711;

    for (int round = 0; round < 200; round++) {
        char name[LULL_JOB_NAME_BYTES];
        struct lull_process_info info;

        for (size_t i = 0; i < 20000; i++) {
            seed = seed * 1103515245u + 12345u;
            bytes[seed / 16u % shared_bytes] = (unsigned char)(seed >> 24);
        }
        atomic_store(&fixture->job->segment->slots[0].head, (uint64_t)seed << (seed % 32));
        assert_true(lull_event_segment_process_count(fixture->job) <= LULL_JOB_MAX_PROCESSES);
        assert_true(lull_event_segment_read(fixture->job, slot, events, LULL_JOB_RING_EVENTS * 2) <=
                    LULL_JOB_RING_EVENTS);
        lull_event_segment_wait(fixture->job, lull_now_ns() + 10);
        for (uint32_t i = 0; i < LULL_JOB_MAX_NAMES; i++) {
            lull_event_segment_name(fixture->job, slot, i, name);
            assert_true(strlen(name) < sizeof(name));
        }
        if (lull_event_segment_process(fixture->job, slot, &info) == 0)
            assert_true(strlen(info.program) < sizeof(info.program));
        lull_event_push(job, slot, &(struct lull_event){0});
    }
    lull_event_segment_destroy(job);
}

/* ---- the doorbell ---- */

static void wait_ends_in_time(void **state)
{
    struct fixture *fixture = *state;
    int64_t start_ns = lull_now_ns();

    lull_event_segment_wait(fixture->job, start_ns + 5 * LULL_NS_PER_MS);
    assert_true(lull_now_ns() - start_ns >= 5 * LULL_NS_PER_MS);
    lull_event_segment_wait(fixture->job, 0);
    lull_event_segment_wait(fixture->job, -1);
}

static void *wake_later(void *job)
{
    lull_sleep_until_ns(lull_now_ns() + 20 * LULL_NS_PER_MS);
    lull_event_segment_wake(job);
    return NULL;
}

static void wake_ends_a_wait(void **state)
{
    struct fixture *fixture = *state;
    int64_t start_ns = lull_now_ns();
    pthread_t thread;

    pthread_create(&thread, NULL, wake_later, fixture->job);
    lull_event_segment_wait(fixture->job, start_ns + 60 * LULL_NS_PER_S);
    assert_true(lull_now_ns() - start_ns < 30 * LULL_NS_PER_S);
    pthread_join(thread, NULL);
    lull_event_segment_wake(fixture->job);
    lull_event_segment_wait(fixture->job, lull_now_ns() + 60 * LULL_NS_PER_S);
    assert_true(lull_now_ns() - start_ns < 30 * LULL_NS_PER_S);
}

/*
 * One event at a time, the next only after the reader has answered: a lost wake-up would cost
 * LONGEST_SLEEP_NS, so a thousand rounds within a few seconds show that there are none.
 */
static void no_wake_up_is_lost(void **state)
{
    enum { ROUNDS = 1000 };
    struct fixture *fixture = *state;
    struct lull_event event;
    int answer[2];
    int64_t worst_ns = 0;
    int slow = 0;
    pid_t pid;

    assert_int_equal(pipe(answer), 0);
    pid = fork();
    if (pid == 0) {
        uint32_t slot;
        struct lull_event_segment *job = join(fixture->path, &slot);
        char byte;

        for (unsigned i = 0; i < ROUNDS; i++) {
            lull_sleep_until_ns(lull_now_ns() + i % 50 * 10 * LULL_NS_PER_US);
            lull_event_push(job, slot, &(struct lull_event){.time_ns = lull_now_ns()});
            if (read(answer[0], &byte, 1) != 1)
                _exit(1);
        }
        _exit(0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        while (lull_event_segment_read(fixture->job, 0, &event, 1) == 0)
            lull_event_segment_wait(fixture->job, lull_now_ns() + 10 * LULL_NS_PER_S);
        if (lull_now_ns() - event.time_ns > worst_ns)
            worst_ns = lull_now_ns() - event.time_ns;
        slow += lull_now_ns() - event.time_ns > LONGEST_SLEEP_NS / 2;
        assert_int_equal(write(answer[1], "", 1), 1);
    }
    waitpid(pid, NULL, 0);
    print_message("longest time from push to read: %.3f ms\n", lull_ms_from_ns(worst_ns));
    assert_true(slow < 5); /* a busy machine may hold up a few */
    close(answer[0]);
    close(answer[1]);
}

/* A call enqueued each millisecond; the reader is woken for few of them, and for the section. */
static void nobody_is_woken_for_what_is_enqueued(void **state)
{
    enum { ENQUEUED = 200 };
    struct fixture *fixture = *state;
    struct lull_event event = {.kind = 0};
    int waits = 0;
    int events = 0;
    pid_t pid = fork();

    if (pid == 0) {
        uint32_t slot;
        struct lull_event_segment *job = join(fixture->path, &slot);

        for (unsigned i = 0; i <= ENQUEUED; i++) {
            lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
            event.kind = i < ENQUEUED ? LULL_EVENT_ENQUEUE : LULL_EVENT_BEGIN;
            lull_event_push(job, slot, &event);
        }
        _exit(0);
    }
    while (event.kind != LULL_EVENT_BEGIN) {
        lull_event_segment_wait(fixture->job, lull_now_ns() + 10 * LULL_NS_PER_S);
        waits++;
        while (lull_event_segment_read(fixture->job, 0, &event, 1) == 1)
            events++;
    }
    waitpid(pid, NULL, 0);
    assert_int_equal(events, ENQUEUED + 1);
    assert_true(waits < ENQUEUED / 2);
}

static void operations_have_names(void **state)
{
    (void)state;
    for (enum lull_operation i = LULL_OPERATION_NONE; i < LULL_OPERATION_COUNT; i++)
        assert_non_null(lull_operation_name(i));
    assert_string_equal(lull_operation_name(LULL_OPERATION_COUNT), "?");
    assert_string_equal(lull_operation_name((enum lull_operation)1000), "?");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(refuses_existing_file),
        TEST(file_is_private_and_sparse),
        TEST(governor_asks_and_probe_sees),
        cmocka_unit_test(nobody_can_be_asked_beyond_the_slots),
        TEST(one_slot_per_process),
        TEST(another_thread_gives_the_main_one_its_number),
        TEST(refuses_what_is_no_segment),
        TEST(refuses_another_layout),
        TEST(another_process_of_the_same_number_gets_another_slot),
        TEST(a_half_written_identity_is_not_read),
        TEST(threads_beyond_the_last_number_share_it),
        TEST(slots_that_do_not_exist_say_nothing),
        TEST(all_slots_taken),
        TEST(test_f51_slots_of_the_dead_are_used_again),
        TEST(test_f51_slots_of_the_living_are_never_released),
        TEST(names_fill_up),
        TEST(long_names_are_cut),
        TEST(full_ring_counts_what_it_drops),
        TEST(half_a_free_ring_is_seen),
        TEST(hole_is_passed_over_and_delivered_late),
        TEST(stress_keeps_order_and_counts_losses),
        TEST(killed_producers_do_not_block),
        TEST(hostile_segment_cannot_hurt_the_reader),
        TEST(wait_ends_in_time),
        TEST(wake_ends_a_wait),
        TEST(no_wake_up_is_lost),
        TEST(nobody_is_woken_for_what_is_enqueued),
        cmocka_unit_test(operations_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
