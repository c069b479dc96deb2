/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/state_directory.h"

static void test_write_then_read_gives_the_same_bytes(void **state)
{
    char directory[] = "/tmp/lull-file-XXXXXX";
    char path[64];
    char *data;
    size_t size;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/a", directory);
    assert_int_equal(lull_file_write_atomic(path, "one", 3, 0600, NULL), 0);
    assert_int_equal(lull_file_write_atomic(path, "two!", 4, 0600, NULL), 0);
    assert_int_equal(lull_file_read(path, 100, &data, &size, NULL), 0);
    assert_int_equal(size, 4);
    assert_string_equal(data, "two!");
    free(data);
    assert_int_equal(lull_file_read(path, 3, &data, &size, NULL), -EFBIG);
    unlink(path);
    rmdir(directory);
}

static int write_number(const void *context, FILE *file)
{
    const int number = *(const int *)context;

    fprintf(file, "%d\n", number);
    return number < 0 ? number : 0;
}

static void test_a_file_that_a_function_writes_is_whole_or_as_before(void **state)
{
    char directory[] = "/tmp/lull-file-XXXXXX";
    const int good = 42;
    const int bad = -ENOMEM;
    struct lull_error err = {0};
    char path[64];
    char *data;
    size_t size;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/a", directory);
    assert_int_equal(lull_file_write_with(path, write_number, &good, &err), 0);
    assert_int_equal(lull_file_write_with(path, write_number, &bad, &err), -ENOMEM);
    assert_non_null(strstr(err.text, "not enough memory"));
    assert_int_equal(lull_file_read(path, 100, &data, &size, NULL), 0);
    assert_string_equal(data, "42\n");
    free(data);
    unlink(path);
    rmdir(directory);
}

static void test_a_full_disk_says_so_and_leaves_nothing(void **state)
{
    struct lull_error err = {0};

    (void)state;
    assert_true(lull_file_write_atomic("/nonexistent/dir/file", "x", 1, 0600, &err) < 0);
    assert_non_null(strstr(err.text, "/nonexistent/dir/file"));
}

static void test_directories_are_made_with_their_parents(void **state)
{
    char directory[] = "/tmp/lull-file-XXXXXX";
    char path[64];

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/a/b", directory);
    assert_int_equal(lull_file_make_directory(path, 0700, NULL), 0);
    assert_int_equal(lull_file_make_directory(path, 0700, NULL), 0);
    rmdir(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    rmdir(directory);
}

/* A path that is not a regular file is written to and not replaced: root's /dev/null, a pipe. */
static void test_a_pipe_is_written_to_and_not_replaced(void **state)
{
    char directory[] = "/tmp/lull-XXXXXX";
    char path[64];
    char text[8] = "";
    struct stat status;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/pipe", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(lull_file_write_atomic(path, "one", 3, 0600, NULL), 0);
    assert_int_equal(read(fd, text, sizeof(text) - 1), 3);
    assert_string_equal(text, "one");
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISFIFO(status.st_mode));
    assert_int_equal(lull_file_write_atomic("/dev/null", "one", 3, 0600, NULL), 0);
    assert_int_equal(lstat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    close(fd);
    unlink(path);
    rmdir(directory);
}

/* F56: a special file that another user has put in place of a file does not block. */
static void test_what_is_no_file_is_not_waited_for(void **state)
{
    char directory[] = "/tmp/lull-XXXXXX";
    char path[64];
    char secret[64];
    char large[100000] = "";
    struct lull_error err = {0};
    char *data;
    size_t size;
    int reader;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/pipe", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(lull_file_read(path, 100, &data, &size, &err), -EINVAL);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(lull_file_read_secret(path, secret, sizeof(secret), &err), -EINVAL);
    assert_int_equal(lull_file_read(directory, 100, &data, &size, &err), -EISDIR);
    assert_int_equal(lull_file_read("/dev/zero", 100, &data, &size, &err), -EINVAL);
    assert_int_equal(lull_file_write_atomic(path, "one", 3, 0600, &err), -ENXIO);
    reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_int_equal(lull_file_write_atomic(path, large, sizeof(large), 0600, &err), -ETIMEDOUT);
    close(reader);
    unlink(path);
    rmdir(directory);
}

/* F56: the owner of a file may hold up those who open it for 45 s, by a lease. */
static void test_a_leased_file_is_not_waited_for(void **state)
{
    char path[] = "/tmp/lull-XXXXXX";
    const int fd = mkstemp(path);
    struct lull_error err = {0};
    char *data;
    size_t size;

    (void)state;
    assert_true(fd >= 0);
    signal(SIGIO, SIG_IGN);
    if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0) {
        unlink(path);
        skip();
    }
    assert_int_equal(lull_file_read(path, 100, &data, &size, &err), -EAGAIN);
    close(fd);
    unlink(path);
}

static void require_state(const char *chosen, const char *expected)
{
    char found[128];

    assert_int_equal(lull_state_directory_find(chosen, found, sizeof(found), NULL), 0);
    assert_string_equal(found, expected);
}

/* State directories with the variable of an emulated node and without it, as root and as another
 * user. */
static void test_state_of_an_emulated_node_stands_apart(void **state)
{
    const bool is_root = geteuid() == 0;
    char found[128];

    (void)state;
    unsetenv("LULL_STATE_DIR");
    setenv("XDG_STATE_HOME", "/x", 1);
    for (int i = 0; i < 3; i++) {
        static const char *const nodes[] = {NULL, "", "/dev/shm/lull-node-x"};
        const char *const below = i == 2 ? "/emulated" : "";
        char expected[64];

        unsetenv(LULL_EMULATED_NODE_VARIABLE);
        if (nodes[i] != NULL)
            setenv(LULL_EMULATED_NODE_VARIABLE, nodes[i], 1);
        assert_true(lull_file_is_node_emulated() == (i == 2));
        snprintf(expected, sizeof(expected), "%s%s", is_root ? "/var/lib/lull" : "/x/lull", below);
        require_state(NULL, expected);
        snprintf(expected, sizeof(expected), "/chosen%s", below);
        require_state("/chosen", expected);
        assert_int_equal(lull_state_directory_find("/chosen", found, strlen(expected), NULL),
                         -ENAMETOOLONG);
        assert_int_equal(lull_state_directory_find("/chosen", found, strlen(expected) + 1, NULL),
                         0);
        assert_int_equal(lull_state_directory_find_node(found, sizeof(found), NULL), 0);
        snprintf(expected, sizeof(expected), "/var/lib/lull%s", below);
        assert_string_equal(found, expected);
        setenv("LULL_STATE_DIR", "/own", 1);
        snprintf(expected, sizeof(expected), "/own%s", below);
        require_state(NULL, expected);
        assert_int_equal(lull_state_directory_find_node(found, sizeof(found), NULL), 0);
        assert_string_equal(found, expected);
        unsetenv("LULL_STATE_DIR");
    }
    unsetenv(LULL_EMULATED_NODE_VARIABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pipe_is_written_to_and_not_replaced),
        cmocka_unit_test(test_what_is_no_file_is_not_waited_for),
        cmocka_unit_test(test_a_leased_file_is_not_waited_for),
        cmocka_unit_test(test_write_then_read_gives_the_same_bytes),
        cmocka_unit_test(test_a_file_that_a_function_writes_is_whole_or_as_before),
        cmocka_unit_test(test_a_full_disk_says_so_and_leaves_nothing),
        cmocka_unit_test(test_state_of_an_emulated_node_stands_apart),
        cmocka_unit_test(test_directories_are_made_with_their_parents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
