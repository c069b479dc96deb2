/*
 * The pool of threads for descriptors of clients: one thread per user, and no thread is started
 * later. SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "daemon/foreign.h"

enum { JOBS = 200 };

struct test_job {
    struct lull_foreign_job job; /* the first member */
    sem_t *begun;
    sem_t *go_on; /* NULL: it does not wait */
    sem_t *done;
};

static void work(struct lull_foreign_job *job)
{
    const struct test_job *const test = (struct test_job *)job;

    sem_post(test->begun);
    while (test->go_on != NULL && sem_wait(test->go_on) < 0)
        continue; /* the pool interrupts */
    sem_post(test->done);
}

static sem_t begun, go_on, done;
static struct test_job jobs[JOBS + 1];

static int set_up(void **state)
{
    (void)state;
    return sem_init(&begun, 0, 0) < 0 || sem_init(&go_on, 0, 0) < 0 || sem_init(&done, 0, 0) < 0;
}

static void add(struct lull_foreign *foreign, struct test_job *job, uid_t uid, sem_t *waits_for)
{
    *job =
        (struct test_job){{.uid = uid, .is_stray = true, .work = work}, &begun, waits_for, &done};
    lull_foreign_add(foreign, &job->job);
}

static int count_threads(void)
{
    DIR *const listing = opendir("/proc/self/task");
    int count = 0;

    assert_non_null(listing);
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(listing);
    return count;
}

static int value_of(sem_t *semaphore)
{
    int value;

    sem_getvalue(semaphore, &value);
    return value;
}

/* F60: jobs that do not end hold one thread per user, and another user's are done meanwhile. */
static void f60_a_user_holds_one_thread(void **state)
{
    struct lull_foreign *foreign;
    int threads;

    (void)state;
    assert_int_equal(lull_foreign_start(&foreign, NULL), 0);
    threads = count_threads();
    for (int i = 0; i < JOBS; i++)
        add(foreign, &jobs[i], 1, &go_on);
    assert_int_equal(sem_wait(&begun), 0);
    add(foreign, &jobs[JOBS], 2, NULL);
    assert_int_equal(sem_wait(&begun), 0);
    assert_int_equal(sem_wait(&done), 0); /* it came last and is done first */
    lull_sleep_until_ns(lull_now_ns() + 20 * LULL_NS_PER_MS);
    assert_int_equal(value_of(&begun), 0);
    assert_int_equal(count_threads(), threads);
    for (int i = 0; i < JOBS; i++)
        sem_post(&go_on);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(sem_wait(&done), 0);
    while (lull_foreign_stray_count(foreign) > 0)
        lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
    lull_foreign_stop(foreign);
}

static void every_thread_serves_a_user(void **state)
{
    struct lull_foreign *foreign;

    (void)state;
    assert_int_equal(lull_foreign_start(&foreign, NULL), 0);
    for (uid_t uid = 0; uid <= LULL_FOREIGN_THREADS; uid++)
        add(foreign, &jobs[uid], uid, &go_on);
    for (int i = 0; i < LULL_FOREIGN_THREADS; i++)
        assert_int_equal(sem_wait(&begun), 0);
    assert_int_equal(lull_foreign_stray_count(foreign), LULL_FOREIGN_THREADS + 1);
    for (int i = 0; i <= LULL_FOREIGN_THREADS; i++)
        sem_post(&go_on);
    for (int i = 0; i <= LULL_FOREIGN_THREADS; i++)
        assert_int_equal(sem_wait(&done), 0);
    lull_foreign_stop(foreign);
}

static void sleep_once(struct lull_foreign_job *job)
{
    const struct timespec minute = {.tv_sec = 60};

    (void)job;
    nanosleep(&minute, NULL);
    sem_post(&done);
}

/* F60: what sleeps on is interrupted. */
static void f60_a_sleeping_job_is_interrupted(void **state)
{
    struct lull_foreign_job job = {.uid = 1, .work = sleep_once};
    const int64_t begin_ns = lull_now_ns();
    struct lull_foreign *foreign;

    (void)state;
    assert_int_equal(lull_foreign_start(&foreign, NULL), 0);
    lull_foreign_add(foreign, &job);
    assert_int_equal(sem_wait(&done), 0);
    assert_true(lull_now_ns() - begin_ns < 30 * LULL_NS_PER_S);
    assert_int_equal(lull_foreign_stray_count(foreign), 0); /* its connection counts it */
    lull_foreign_stop(foreign);
}

/* A job that never ends does not hold up the end of lulld. */
static void stopping_does_not_wait_for_a_stuck_job(void **state)
{
    static struct lull_foreign *foreign; /* left to the stuck thread, which is no leak */
    const int64_t begin_ns = lull_now_ns();

    (void)state;
    lull_foreign_stop(NULL);
    assert_int_equal(lull_foreign_start(&foreign, NULL), 0);
    add(foreign, &jobs[0], 1, &go_on);
    assert_int_equal(sem_wait(&begun), 0);
    lull_foreign_stop(foreign);
    assert_true(lull_now_ns() - begin_ns < 30 * LULL_NS_PER_S);
    sem_post(&go_on);
    assert_int_equal(sem_wait(&done), 0);
}

#define TEST(function) cmocka_unit_test_setup(function, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(f60_a_user_holds_one_thread),
        TEST(every_thread_serves_a_user),
        TEST(f60_a_sleeping_job_is_interrupted),
        TEST(stopping_does_not_wait_for_a_stuck_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
