/* Log lines that no process reads: no caller waits, and lost lines are counted.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"

enum { LINES = 1000 };

/* Puts the pipe instead of standard error; to be undone before anything is asserted. */
static int replace_stderr(int fd)
{
    const int kept = dup(STDERR_FILENO);

    dup2(fd, STDERR_FILENO);
    lull_log_init(LULL_LOG_INFO);
    return kept;
}

static void put_back(int kept)
{
    dup2(kept, STDERR_FILENO);
    close(kept);
}

static void say_much(void)
{
    for (int i = 0; i < LINES; i++)
        lull_log(LULL_LOG_INFO, "lulld", "message %d of many that nobody reads", i);
}

/* Reads the available text, and returns its number of lines. */
static uint32_t read_lines(int fd, char *text, size_t size)
{
    uint32_t lines = 0;
    ssize_t length;

    fcntl(fd, F_SETFL, O_NONBLOCK);
    length = read(fd, text, size - 1);
    text[length > 0 ? length : 0] = '\0';
    for (const char *at = text; *at != '\0'; at++)
        lines += *at == '\n';
    return lines;
}

static void check_unread(int reader, int writer)
{
    static char text[1 << 20];
    char expected[64];
    uint32_t kept;
    const int terminal = replace_stderr(writer);

    say_much();
    kept = read_lines(reader, text, sizeof(text));
    lull_log(LULL_LOG_INFO, "lulld", "somebody reads again");
    put_back(terminal);
    assert_in_range(kept, 1, LINES - 1);
    assert_int_equal(read_lines(reader, text, sizeof(text)), 2);
    snprintf(expected, sizeof(expected), "lull: %u messages were lost", LINES - kept);
    assert_memory_equal(text, expected, strlen(expected));
    assert_non_null(strstr(text, "\nlulld: info: somebody reads again\n"));
    close(reader);
    close(writer);
}

static void test_a_full_pipe_holds_up_nobody(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(fcntl(fds[1], F_SETPIPE_SZ, 4096), 4096);
    check_unread(fds[0], fds[1]);
}

static void test_a_full_socket_holds_up_nobody(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    check_unread(fds[0], fds[1]);
}

static void test_others_still_wait_at_the_same_pipe(void **state)
{
    int fds[2];
    int flags;
    int terminal;

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    terminal = replace_stderr(fds[1]);
    say_much();
    flags = fcntl(STDERR_FILENO, F_GETFL);
    put_back(terminal);
    assert_int_equal(flags & O_NONBLOCK, 0);
    close(fds[0]);
    close(fds[1]);
}

static void test_a_reader_that_is_gone(void **state)
{
    int fds[2];
    int terminal;

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    terminal = replace_stderr(fds[1]);
    close(fds[0]);
    say_much();
    lull_log_text("text", 4, lull_now_ns() + 60 * LULL_NS_PER_S);
    put_back(terminal);
    close(fds[1]);
}

static void test_a_text_waits_for_its_reader_until_then(void **state)
{
    static char text[20000];
    const int64_t begin_ns = lull_now_ns();
    int64_t end_ns;
    int fds[2];
    int terminal;

    (void)state;
    memset(text, 'x', sizeof(text));
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(fcntl(fds[1], F_SETPIPE_SZ, 4096), 4096);
    terminal = replace_stderr(fds[1]);
    lull_log_text(text, sizeof(text), begin_ns + 100 * LULL_NS_PER_MS);
    end_ns = lull_now_ns();
    put_back(terminal);
    assert_in_range(end_ns - begin_ns, 90 * LULL_NS_PER_MS, 10 * LULL_NS_PER_S);
    assert_int_equal(read(fds[0], text, sizeof(text)), 4096);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_pipe_holds_up_nobody),
        cmocka_unit_test(test_a_full_socket_holds_up_nobody),
        cmocka_unit_test(test_others_still_wait_at_the_same_pipe),
        cmocka_unit_test(test_a_reader_that_is_gone),
        cmocka_unit_test(test_a_text_waits_for_its_reader_until_then),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
