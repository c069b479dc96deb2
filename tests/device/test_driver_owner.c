/*
 * Driver ownership: when it is withdrawn from a hanging call,
 * and which GPU is then unavailable; with a simulated clock. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"

static _Atomic int64_t fake_time_ns;

static int64_t fake_now_ns(void)
{
    return atomic_load(&fake_time_ns);
}

static int64_t look_ns; /* until when the spare would have slept last */

static int fake_look(pthread_mutex_t *lock, const struct timespec *until)
{
    look_ns = (int64_t)until->tv_sec * LULL_NS_PER_S + until->tv_nsec;
    pthread_mutex_unlock(lock);
    sched_yield();
    pthread_mutex_lock(lock);
    return ETIMEDOUT;
}

#define lull_now_ns fake_now_ns
#define pthread_cond_timedwait(changed, lock, until) fake_look(lock, until)
#include "device/driver_owner.c"

enum { GPU = 3, OTHER_GPU = 5 };

static struct lull_driver_owner turn;
static sem_t is_inside, may_return;

/* Observations of the thread of the long call. */
static struct {
    int thread;
    bool was_first, was_lost, is_lost_at_last;
    int64_t away_ns, given_back_ns;
} seen;

static int set_up(void **state)
{
    (void)state;
    atomic_store(&fake_time_ns, 7 * LULL_NS_PER_S);
    lull_driver_owner_init(&turn);
    sem_init(&is_inside, 0, 0);
    sem_init(&may_return, 0, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lull_driver_owner_fini(&turn);
    sem_destroy(&is_inside);
    sem_destroy(&may_return);
    return 0;
}

static void *call_long(void *argument)
{
    (void)argument;
    seen.thread = gettid();
    seen.was_first = lull_driver_owner_wait(&turn);
    lull_driver_owner_call_begin(GPU);
    sem_post(&is_inside);
    sem_wait(&may_return);
    lull_driver_owner_call_end();
    seen.was_lost = lull_driver_owner_is_lost();
    seen.away_ns = lull_driver_owner_away_ns(&turn, GPU);
    if (seen.was_lost)
        lull_driver_owner_return();
    seen.given_back_ns = lull_driver_owner_away_ns(&turn, GPU);
    seen.is_lost_at_last = lull_driver_owner_is_lost();
    lull_driver_owner_call_begin(GPU); /* it does not own the driver, so the call is ignored */
    return NULL;
}

static void start_long_call(pthread_t *thread)
{
    assert_int_equal(pthread_create(thread, NULL, call_long, NULL), 0);
    sem_wait(&is_inside);
}

static void end_long_call(pthread_t thread)
{
    sem_post(&may_return);
    pthread_join(thread, NULL);
}

static void test_a_long_call_loses_the_turn_and_keeps_its_gpu(void **state)
{
    const int64_t call_ns = fake_now_ns();
    pthread_t thread;

    (void)state;
    start_long_call(&thread);
    assert_true(seen.was_first);
    atomic_store(&fake_time_ns, call_ns + PATIENCE_NS - 1);
    assert_false(driver_owner_take_over(&turn, call_ns));
    assert_int_equal(lull_driver_owner_away_ns(&turn, GPU), 0);
    atomic_store(&fake_time_ns, call_ns + PATIENCE_NS);
    assert_true(lull_driver_owner_wait(&turn));
    assert_false(lull_driver_owner_is_lost());
    assert_int_equal(lull_driver_owner_away_ns(&turn, GPU), call_ns);
    assert_int_equal(lull_driver_owner_away_thread(&turn, GPU), seen.thread);
    assert_int_equal(lull_driver_owner_away_ns(&turn, OTHER_GPU), 0);
    assert_int_equal(atomic_load(&turn.thread), gettid());

    lull_driver_owner_call_begin(OTHER_GPU);
    assert_int_equal(atomic_load(&turn.call_ns), call_ns + PATIENCE_NS);
    lull_driver_owner_call_end();
    assert_false(lull_driver_owner_is_lost());
    assert_int_equal(atomic_load(&turn.call_ns), 0);

    end_long_call(thread);
    assert_true(seen.was_lost);
    assert_int_equal(seen.away_ns, call_ns);
    assert_int_equal(seen.given_back_ns, 0);
    assert_false(seen.is_lost_at_last);
    assert_int_equal(atomic_load(&turn.call_ns), 0);
    lull_driver_owner_end(&turn);
    assert_false(lull_driver_owner_wait(&turn));
}

/* One that returns in time keeps the turn; another call that began since is not taken for it. */
static void test_a_call_that_returns_keeps_the_turn(void **state)
{
    const int64_t call_ns = fake_now_ns();
    pthread_t thread;

    (void)state;
    start_long_call(&thread);
    atomic_store(&fake_time_ns, call_ns + 2 * PATIENCE_NS);
    assert_false(driver_owner_take_over(&turn, call_ns - 1));
    end_long_call(thread);
    assert_false(seen.was_lost);
    assert_int_equal(lull_driver_owner_away_ns(&turn, GPU), 0);
}

/* For a second after a call the spare looks every 20 ms. */
static void test_the_spare_looks_now_and_then(void **state)
{
    const int64_t now_ns = fake_now_ns();

    (void)state;
    look_ns = 0;
    pthread_mutex_lock(&turn.lock);
    sleep_on(&turn, now_ns - QUIET_NS + 1);
    assert_int_equal(look_ns, now_ns + LOOK_NS);
    look_ns = 0;
    atomic_store(&turn.call_ns, now_ns); /* it has just begun: no sleep */
    sleep_on(&turn, now_ns - QUIET_NS);
    assert_int_equal(look_ns, 0);
    assert_false(atomic_load(&turn.is_spare_asleep));
    pthread_mutex_unlock(&turn.lock);
}

static void *wait_as_spare(void *result)
{
    *(bool *)result = lull_driver_owner_wait(&turn);
    return NULL;
}

/* After a second without calls the spare sleeps, and a call that begins wakes it. */
static void test_a_call_wakes_the_spare(void **state)
{
    bool has_turn = false;
    pthread_t spare;

    (void)state;
    assert_true(lull_driver_owner_wait(&turn));
    assert_int_equal(pthread_create(&spare, NULL, wait_as_spare, &has_turn), 0);
    while (!atomic_load(&turn.is_spare_asleep))
        sched_yield();
    lull_driver_owner_call_begin(GPU);
    while (atomic_load(&turn.is_spare_asleep))
        sched_yield();
    assert_int_equal(lull_driver_owner_away_ns(&turn, GPU), 0);
    atomic_fetch_add(&fake_time_ns, PATIENCE_NS);
    pthread_join(spare, NULL);
    assert_true(has_turn);
    lull_driver_owner_call_end();
    assert_true(lull_driver_owner_is_lost());
    lull_driver_owner_return();
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_long_call_loses_the_turn_and_keeps_its_gpu),
        TEST(test_a_call_that_returns_keeps_the_turn),
        TEST(test_the_spare_looks_now_and_then),
        TEST(test_a_call_wakes_the_spare),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
