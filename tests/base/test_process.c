/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/process.h"

static void test_own_start_is_told_by_number_too(void **state)
{
    (void)state;
    assert_true(lull_process_start_ticks(0) > 0);
    assert_int_equal(lull_process_start_ticks(getpid()), lull_process_start_ticks(0));
    assert_true(lull_process_start_ticks(getppid()) <= lull_process_start_ticks(0));
}

/* A process that has ended and was not waited for still has its number, but is no process any more.
 */
static void test_ended_process_has_no_start(void **state)
{
    siginfo_t info;
    const pid_t child = fork();

    (void)state;
    if (child == 0)
        _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(lull_process_start_ticks(child), -1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(lull_process_start_ticks(child), -1);
}

static void test_living_child_began_no_earlier_than_its_parent(void **state)
{
    const pid_t child = fork();

    (void)state;
    if (child == 0) {
        pause();
        _exit(0);
    }
    assert_true(lull_process_start_ticks(child) >= lull_process_start_ticks(0));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void test_a_process_has_a_user(void **state)
{
    uid_t uid = 4711;

    (void)state;
    assert_int_equal(lull_process_user(getpid(), &uid), 0);
    assert_int_equal(uid, getuid());
    uid = 4711;
    assert_int_equal(lull_process_user(INT32_MAX, &uid), -ESRCH);
    assert_int_equal(uid, 4711);
}

static void test_boot_has_one_name(void **state)
{
    char first[LULL_BOOT_ID_BYTES];
    char second[LULL_BOOT_ID_BYTES];

    (void)state;
    memset(second, 'x', sizeof(second));
    assert_int_equal(lull_boot_id(first), 0);
    assert_int_equal(lull_boot_id(second), 0);
    assert_int_equal(strlen(first), 36); /* a UUID, without the line feed behind it */
    assert_memory_equal(first, second, sizeof(first));
}

static void test_a_range_of_descriptors_is_closed(void **state)
{
    const int first = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 200);
    const int second = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, first + 1);
    const int third = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, second + 1);

    (void)state;
    assert_true(first >= 200 && third > second);
    lull_process_close_range((unsigned int)first, (unsigned int)second);
    assert_int_equal(fcntl(first, F_GETFD), -1);
    assert_int_equal(fcntl(second, F_GETFD), -1);
    assert_true(fcntl(third, F_GETFD) >= 0);
    close(third);
}

static void test_a_process_is_killed_by_its_descriptor(void **state)
{
    const pid_t pid = fork();
    int status;
    int fd;

    (void)state;
    if (pid == 0) {
        pause();
        _exit(0);
    }
    fd = lull_process_open_fd(pid);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    lull_process_kill_fd(fd);
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_start_is_told_by_number_too),
        cmocka_unit_test(test_ended_process_has_no_start),
        cmocka_unit_test(test_living_child_began_no_earlier_than_its_parent),
        cmocka_unit_test(test_a_process_has_a_user),
        cmocka_unit_test(test_boot_has_one_name),
        cmocka_unit_test(test_a_range_of_descriptors_is_closed),
        cmocka_unit_test(test_a_process_is_killed_by_its_descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
