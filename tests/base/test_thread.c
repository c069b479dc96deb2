/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>

#include "base/thread.h"

static void *find_policy(void *argument)
{
    *(int *)argument = sched_getscheduler(0);
    return NULL;
}

/* Records the scheduling policies of a prompt thread and of a thread that it starts. */
static void *set_realtime(void *argument)
{
    int *policies = argument;
    pthread_t child;

    lull_thread_set_realtime();
    policies[0] = sched_getscheduler(0);
    if (lull_thread_start(&child, find_policy, &policies[1]) == 0)
        pthread_join(child, NULL);
    return NULL;
}

static bool is_permitted(void)
{
    const struct sched_param lowest = {.sched_priority = 1};
    const struct sched_param ordinary = {0};

    if (sched_setscheduler(0, SCHED_RR, &lowest) < 0)
        return false;
    sched_setscheduler(0, SCHED_OTHER, &ordinary);
    return true;
}

static void test_only_the_thread_itself_is_prompt(void **state)
{
    const bool permitted = is_permitted();
    const int ordinary = sched_getscheduler(0); /* idle, where the suite runs this test so */
    int policies[] = {-1, -1};
    pthread_t thread;

    (void)state;
    assert_int_equal(lull_thread_start(&thread, set_realtime, policies), 0);
    pthread_join(thread, NULL);
    assert_int_equal(policies[0], permitted ? SCHED_RR | SCHED_RESET_ON_FORK : ordinary);
    assert_int_equal(policies[1], permitted ? SCHED_OTHER : ordinary);
}

static void *find_mask(void *argument)
{
    pthread_sigmask(SIG_BLOCK, NULL, argument);
    return NULL;
}

static void test_signals_are_for_others(void **state)
{
    sigset_t mask;
    pthread_t thread;

    (void)state;
    sigemptyset(&mask);
    assert_int_equal(lull_thread_start(&thread, find_mask, &mask), 0);
    pthread_join(thread, NULL);
    assert_int_equal(sigismember(&mask, SIGTERM), 1);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGTERM), 0);
}

static void *wait_for_byte(void *argument)
{
    int *pipe_and_thread = argument;
    char byte;

    __atomic_store_n(&pipe_and_thread[1], gettid(), __ATOMIC_SEQ_CST);
    assert_int_equal(read(pipe_and_thread[0], &byte, 1), 1);
    return NULL;
}

static void test_what_a_thread_does(void **state)
{
    int pipe_and_thread[2] = {0};
    int fds[2];
    pthread_t thread;
    char channel[64];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    pipe_and_thread[0] = fds[0];
    assert_int_equal(lull_thread_state(gettid()), 'R');
    assert_int_equal(lull_thread_state(-1), '?');
    assert_false(lull_thread_wait_channel(-1, channel, sizeof(channel)));
    assert_int_equal(lull_thread_start(&thread, wait_for_byte, pipe_and_thread), 0);
    for (int i = 0; i < 2000; i++) {
        const int number = __atomic_load_n(&pipe_and_thread[1], __ATOMIC_SEQ_CST);

        if (number != 0 && lull_thread_state(number) == 'S')
            break;
        usleep(10000);
    }
    assert_int_equal(lull_thread_state(pipe_and_thread[1]), 'S');
    assert_int_equal(write(fds[1], "x", 1), 1);
    pthread_join(thread, NULL);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_thread_itself_is_prompt),
        cmocka_unit_test(test_signals_are_for_others),
        cmocka_unit_test(test_what_a_thread_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
