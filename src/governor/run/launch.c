/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int add_variable(const char *addition)
{
    bool prepend = addition[0] == '+';
    char *name = strdup(addition + (prepend ? 1 : 0));
    char *value = name == NULL ? NULL : strchr(name, '=');
    const char *old;
    int result = 0;

    if (value == NULL) {
        free(name);
        return -EINVAL;
    }
    *value++ = '\0';
    old = getenv(name);
    if (prepend && old != NULL && old[0] != '\0') {
        char *joined = NULL;

        if (asprintf(&joined, "%s:%s", value, old) < 0 || setenv(name, joined, 1) < 0)
            result = -ENOMEM;
        free(joined);
    } else if (setenv(name, value, 1) < 0) {
        result = -errno;
    }
    free(name);
    return result;
}

/* In the child. */
static void set_up(const struct lull_child_setup *setup, pid_t parent)
{
    if (setup->stdout_fd >= 0)
        dup2(setup->stdout_fd, STDOUT_FILENO);
    if (setup->stderr_fd >= 0)
        dup2(setup->stderr_fd, STDERR_FILENO);
    if (!setup->has_own_group)
        return;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(126); /* died before it could be reported */
}

/* In the child, before it lets any signal in. */
static void set_signals(const struct lull_child_signals *inherited)
{
    sigset_t mask;

    sigemptyset(&mask);
    if (inherited == NULL) {
        signal(SIGPIPE, SIG_DFL);
        signal(SIGINT, SIG_DFL);
    } else {
        signal(SIGCHLD, inherited->ignores_children ? SIG_IGN : SIG_DFL);
        mask = inherited->mask;
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
}

/* Runs in the child and never returns. The reason of a failed exec goes through the pipe. */
static void become(char *const argv[], const char *const *environment, int report_fd)
{
    int code;

    for (; environment != NULL && *environment != NULL; environment++)
        add_variable(*environment);
    execvp(argv[0], argv);
    code = errno;
    if (write(report_fd, &code, sizeof(code)) < 0)
        _exit(126);
    _exit(127);
}

int lull_child_start(char *const argv[], const char *const *environment,
                     struct lull_child *child_out, struct lull_error *err)
{
    const struct lull_child_setup shared = {.stdout_fd = -1, .stderr_fd = -1};

    return lull_child_start_as(argv, environment, &shared, child_out, err);
}

int lull_child_start_as(char *const argv[], const char *const *environment,
                        const struct lull_child_setup *setup, struct lull_child *child_out,
                        struct lull_error *err)
{
    const pid_t self = getpid();
    int report[2];
    int code = 0;
    pid_t pid;

    if (pipe2(report, O_CLOEXEC) < 0)
        return lull_error_set(err, -errno, "cannot start %s: %s", argv[0], strerror(errno));
    pid = fork();
    if (pid == 0) {
        set_up(setup, self);
        set_signals(setup->signals);
        become(argv, environment, report[1]);
    }
    close(report[1]);
    if (pid < 0) {
        code = errno;
        close(report[0]);
        return lull_error_set(err, -code, "cannot start %s: %s", argv[0], strerror(code));
    }
    while (read(report[0], &code, sizeof(code)) < 0 && errno == EINTR)
        continue;
    close(report[0]);
    if (code != 0) {
        waitpid(pid, NULL, 0);
        return lull_error_set(err, -code, "cannot start %s: %s; check the command after --",
                              argv[0], strerror(code));
    }
    *child_out = (struct lull_child){.pid = pid, .pidfd = pidfd_open(pid, 0)};
    return 0;
}

void lull_child_signal(const struct lull_child *child, int signal_number)
{
    if (child->pid > 0)
        kill(child->pid, signal_number);
}

void lull_child_signal_group(const struct lull_child *child, int signal_number)
{
    if (child->pid > 0)
        kill(-child->pid, signal_number);
}

bool lull_child_reap(struct lull_child *child, bool block, int *status_out)
{
    int status;
    pid_t got;

    do
        got = waitpid(child->pid, &status, block ? 0 : WNOHANG);
    while (got < 0 && errno == EINTR);
    if (got != child->pid)
        return false;
    *status_out = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (child->pidfd >= 0)
        close(child->pidfd);
    *child = (struct lull_child){.pid = -1, .pidfd = -1};
    return true;
}
