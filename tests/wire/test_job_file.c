/*
 * Files of killed runs are removed, and no other files.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/job_file.c" /* to read names of processes that do not exist */

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "wire/event.h"

static char directory[] = "/dev/shm/lull-test-XXXXXX";

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL ? -1 : 0;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

/* A process with a segment, which waits until it is killed. */
static pid_t start_owner(char *path_out, size_t size)
{
    int ready[2];
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        struct lull_event_segment *job;

        lull_job_file_path(directory, LULL_JOB_FILE_EVENTS, "managed", path_out, size);
        if (lull_event_segment_create(path_out, &job, NULL) == 0 &&
            write(ready[1], path_out, size) == (ssize_t)size)
            pause();
        _exit(1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], path_out, size), size);
    close(ready[0]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_dead_owners_segment_is_removed(void **state)
{
    char dead[128];
    char living[128];
    const pid_t killed = start_owner(dead, sizeof(dead));
    const pid_t running = start_owner(living, sizeof(living));

    (void)state;
    end(killed);
    assert_int_equal(lull_job_file_clear(directory), 1);
    assert_int_equal(access(dead, F_OK), -1);
    assert_int_equal(access(living, F_OK), 0);
    assert_int_equal(lull_job_file_clear(directory), 0);
    end(running);
    assert_int_equal(lull_job_file_clear(directory), 1);
    assert_int_equal(access(living, F_OK), -1);
}

/* An unused process id. */
static long unused_pid(void)
{
    const pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return (long)pid;
}

static void put(const char *name, mode_t mode)
{
    const int fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL, mode);

    assert_true(fd >= 0);
    close(fd);
}

static void what_is_locked_stays_although_its_process_seems_dead(void **state)
{
    char name[64];
    int fd;

    (void)state;
    snprintf(name, sizeof(name), "lull-job-%ld-managed", unused_pid());
    put(name, 0600);
    fd = open(path_of(name), O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(lull_job_file_clear(directory), 0);
    assert_int_equal(access(path_of(name), F_OK), 0);
    close(fd);
    assert_int_equal(lull_job_file_clear(directory), 1);
}

static void another_users_segment_stays(void **state)
{
    char name[64];

    (void)state;
    if (geteuid() != 0)
        skip();
    snprintf(name, sizeof(name), "lull-job-%ld-managed", unused_pid());
    put(name, 0600);
    assert_int_equal(chown(path_of(name), 12345, 12345), 0);
    assert_int_equal(lull_job_file_clear(directory), 0);
    assert_int_equal(unlink(path_of(name)), 0);
}

static void other_files_stay(void **state)
{
    static const char *const others[] = {
        "lull-job-",
        "lull-job-x-managed",
        "lull-job--5-managed",
        "lull-job-0-managed",
        "lull-job-99999999999999999999-managed",
        "lull-job-4000000000-managed",
        "lull-node-AbCdEf",
        "lull-job-12345",
        "other-job-12345-managed",
    };
    char name[64];

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        put(others[i], 0600);
    snprintf(name, sizeof(name), "lull-job-%ld-link", unused_pid());
    assert_int_equal(symlink("lull-node-AbCdEf", path_of(name)), 0);
    assert_int_equal(lull_job_file_clear(directory), 0);
    assert_int_equal(unlink(path_of(name)), 0);
    snprintf(name, sizeof(name), "lull-job-%ld-folder", unused_pid());
    assert_int_equal(mkdir(path_of(name), 0700), 0);
    assert_int_equal(lull_job_file_clear(directory), 0);
    assert_int_equal(rmdir(path_of(name)), 0);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(unlink(path_of(others[i])), 0);
}

static void names_that_tell_of_a_process(void **state)
{
    static const struct {
        const char *name;
        pid_t owner;
    } rows[] = {
        {"lull-job-1-x", 1},           {"lull-job-9-", 9},
        {"lull-job-123-managed", 123}, {"lull-job-2147483647-x", 2147483647},
        {"lull-job-2147483648-x", 0},  {"lull-job-9223372036854775808-x", 0},
        {"lull-job-:-x", 0},           {"lull-job-/-x", 0},
        {"lull-job-0-x", 0},           {"lull-job-12", 0},
        {"lull-job-12x-", 0},          {"Lull-job-12-x", 0},
        {"lull-jobs12-x", 0},
    };
    char path[64];
    char expected[64];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(owner_of(rows[i].name), rows[i].owner);
    lull_job_file_path("/d", LULL_JOB_FILE_EVENTS, "managed", path, sizeof(path));
    snprintf(expected, sizeof(expected), "/d/lull-job-%ld-managed-", (long)getpid());
    assert_memory_equal(path, expected, strlen(expected));
    assert_int_equal(strlen(path), strlen(expected) + 16);
    lull_job_file_path("/d", LULL_JOB_FILE_EVENTS, "managed", expected, sizeof(expected));
    assert_string_not_equal(path, expected); /* F57: no user can create it beforehand */
    assert_false(is_dead(getpid()));
    assert_false(is_dead(1)); /* of another user, perhaps */
}

static void a_directory_that_is_not_there(void **state)
{
    (void)state;
    assert_int_equal(lull_job_file_clear("/nonexistent/lull"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_owners_segment_is_removed),
        cmocka_unit_test(what_is_locked_stays_although_its_process_seems_dead),
        cmocka_unit_test(another_users_segment_stays),
        cmocka_unit_test(other_files_stay),
        cmocka_unit_test(names_that_tell_of_a_process),
        cmocka_unit_test(a_directory_that_is_not_there),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
