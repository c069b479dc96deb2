/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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

/* What a prompt thread runs as, and what a thread that it starts runs as. */
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
    int policies[] = {-1, -1};
    pthread_t thread;

    (void)state;
    assert_int_equal(lull_thread_start(&thread, set_realtime, policies), 0);
    pthread_join(thread, NULL);
    assert_int_equal(policies[0], permitted ? SCHED_RR | SCHED_RESET_ON_FORK : SCHED_OTHER);
    assert_int_equal(policies[1], SCHED_OTHER);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_thread_itself_is_prompt),
        cmocka_unit_test(test_signals_are_for_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
