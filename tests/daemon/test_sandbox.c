/*
 * Operations that the sandbox forbids and permits. Each check runs in a
 * separate process, because a process cannot leave the sandbox. SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon/sandbox.h"

enum { PASSED = 0, FAILED = 1, NO_SANDBOX = 77 };

/* Runs a check inside the sandbox; it returns whether all was as it should be. */
static void run_inside(bool (*check)(void))
{
    struct lull_error error = {0};
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        if (lull_sandbox_enter((gid_t)-1, &error) < 0) {
            fprintf(stderr, "%s\n", error.text);
            _exit(NO_SANDBOX);
        }
        _exit(check() ? PASSED : FAILED);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_SANDBOX) {
        print_message("skipped: this kernel or container lets nobody filter system calls\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), PASSED);
}

static bool is_refused(const char *what, long result)
{
    if (result < 0 && errno == ENOSYS)
        return true;
    fprintf(stderr, "%s is not refused: %ld (%s)\n", what, result, strerror(errno));
    return false;
}

static bool check_refusals(void)
{
    const int protection = PROT_READ | PROT_WRITE;
    void *const page = mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool is_right = page != MAP_FAILED;

    is_right &= is_refused("a user namespace", syscall(SYS_unshare, CLONE_NEWUSER));
    is_right &= is_refused("a child in a namespace",
                           syscall(SYS_clone, CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, 0));
    is_right &= is_refused("mount", syscall(SYS_mount, NULL, "/tmp", NULL, 0UL, NULL));
    is_right &= is_refused("ptrace", ptrace(PTRACE_TRACEME, 0, NULL, NULL));
    is_right &= is_refused("bpf", syscall(SYS_bpf, 0, NULL, 0));
    is_right &= is_refused("a module", syscall(SYS_init_module, NULL, 0UL, ""));
    is_right &= is_refused("io_uring", syscall(SYS_io_uring_setup, 1, NULL));
    is_right &= is_refused("setuid", syscall(SYS_setuid, 0));
    is_right &= is_refused("TCP", socket(AF_INET, SOCK_STREAM, 0));
    is_right &= is_refused("kill", kill(getppid(), 0));
    is_right &= is_refused("code that is data", mprotect(page, 4096, PROT_READ | PROT_EXEC));
    is_right &=
        is_refused("written and run", (long)(intptr_t)mmap(NULL, 4096, protection | PROT_EXEC,
                                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    return is_right;
}

static bool finds(const char *line)
{
    const pid_t child = fork();
    int status;

    if (child == 0) {
        execl("/bin/grep", "grep", "-qxE", line, "/proc/self/status", (char *)NULL);
        _exit(FAILED);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Another program, such as a keeper, finds itself in the sandbox. */
static bool check_programs(void)
{
    return finds("Seccomp:\t2") && finds("NoNewPrivs:\t1") &&
           finds("CapEff:\t0000000000[02]00000") && !finds("Seccomp:\t0");
}

static void *add_one(void *place)
{
    ++*(int *)place;
    return NULL;
}

/* A thread, and a driver's library that is loaded again. */
static bool check_threads_and_libraries(void)
{
    pthread_t thread;
    int count = 0;
    void *library;

    if (pthread_create(&thread, NULL, add_one, &count) != 0 || pthread_join(thread, NULL) != 0)
        return false;
    library = dlopen("libsqlite3.so.0", RTLD_NOW);
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    return count == 1 && library != NULL && dlsym(library, "sqlite3_libversion") != NULL &&
           dlclose(library) == 0;
}

/* The steps of writing a journal, in a directory that the parent has made and goes to. */
static bool check_files(void)
{
    const int fd = open("new", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    return fd >= 0 && write(fd, "x", 1) == 1 && fsync(fd) == 0 && close(fd) == 0 &&
           chmod("new", 0640) == 0 && rename("new", "saved") == 0 && unlink("saved") == 0;
}

static unsigned long long read_status(const char *name, int base)
{
    FILE *const file = fopen("/proc/self/status", "r");
    unsigned long long value = 0;
    char line[256];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtoull(line + strlen(name), NULL, base);
    if (file != NULL)
        fclose(file);
    return value;
}

static bool check_privileges(void)
{
    const unsigned long long admin = 1ULL << 21; /* CAP_SYS_ADMIN */

    return (read_status("CapEff:", 16) & ~admin) == 0 &&
           (read_status("CapPrm:", 16) & ~admin) == 0 && read_status("CapInh:", 16) == 0 &&
           read_status("CapAmb:", 16) == 0 && read_status("NoNewPrivs:", 10) == 1 &&
           read_status("Seccomp:", 10) == 2;
}

static void test_system_calls_are_refused(void **state)
{
    (void)state;
    run_inside(check_refusals);
}

static void test_programs_stay_inside(void **state)
{
    (void)state;
    run_inside(check_programs);
}

static void test_threads_and_libraries_work(void **state)
{
    (void)state;
    run_inside(check_threads_and_libraries);
}

static void test_journals_work(void **state)
{
    char directory[] = "/tmp/lull-sandbox-XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory), 0);
    run_inside(check_files);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(directory), 0);
}

static void test_privileges_are_dropped(void **state)
{
    const unsigned long long before = read_status("CapEff:", 16);

    (void)state;
    run_inside(check_privileges);
    assert_true(read_status("CapEff:", 16) == before); /* only the child is inside */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_system_calls_are_refused),
        cmocka_unit_test(test_programs_stay_inside),
        cmocka_unit_test(test_threads_and_libraries_work),
        cmocka_unit_test(test_journals_work),
        cmocka_unit_test(test_privileges_are_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
