/* The users whose processes compute on a GPU, with real processes of several users.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon/users.h"

enum { GPU = 3, OTHER = 4 };

static struct lull_users users;
static uid_t seen[LULL_DEVICE_MAX_PROCESSES];

/* Starts a process that does nothing, of a user. */
static pid_t start(uid_t uid)
{
    const pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (setuid(uid) != 0)
            _exit(1);
        pause();
        _exit(0);
    }
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void assert_users(uint32_t gpu, uint32_t count, uid_t first, uid_t second)
{
    assert_int_equal(lull_users_of(&users, gpu, seen), count);
    if (count > 0)
        assert_int_equal(seen[0], first);
    if (count > 1)
        assert_int_equal(seen[1], second);
}

/* A child has its user once it has called setuid(). */
static bool note_until_new(const pid_t *pids, uint32_t count)
{
    for (int i = 0; i < 2000; i++) {
        if (lull_users_note(&users, GPU, pids, count))
            return true;
        usleep(1000);
    }
    return false;
}

static void users_are_known_by_their_processes(void **state)
{
    const pid_t pids[] = {start(12002), start(12001), start(12002), getpid()};

    (void)state;
    lull_users_init(&users);
    assert_users(GPU, 0, 0, 0);
    assert_false(lull_users_note(&users, GPU, &pids[3], 1)); /* root's do not count */
    assert_true(note_until_new(pids, 1));
    assert_users(GPU, 1, 12002, 0);
    assert_users(OTHER, 0, 0, 0);
    assert_true(note_until_new(pids, 4));
    while (lull_users_of(&users, GPU, seen) < 2) /* one of them has just been started */
        note_until_new(pids, 4);
    assert_users(GPU, 2, 12001, 12002);
    assert_false(lull_users_note(&users, GPU, pids, 4));
    assert_true(lull_users_note(&users, GPU, &pids[1], 1));
    assert_users(GPU, 1, 12001, 0);
    assert_true(lull_users_note(&users, GPU, pids, 1)); /* as many, but another */
    assert_users(GPU, 1, 12002, 0);
    for (int i = 0; i < 3; i++)
        end(pids[i]);
    assert_true(lull_users_note(&users, GPU, pids, 4)); /* they are gone */
    assert_users(GPU, 0, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(users_are_known_by_their_processes)};

    if (geteuid() != 0) {
        print_message("skipped: only root may start processes of other users\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
