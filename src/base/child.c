/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "base/text.h"

/* Writes what the variable of an addition is to be, as NAME=VALUE, which the caller frees. Errors:
 * -EINVAL it is no addition; -ENOMEM. */
static int launch_compose_env(const char *addition, char **variable_out)
{
    const bool prepend = addition[0] == '+';
    const char *const variable = addition + (prepend ? 1 : 0);
    const char *const equals = strchr(variable, '=');
    const char *old = NULL;
    char *name;
    int result;

    if (equals == NULL)
        return -EINVAL;
    name = strndup(variable, (size_t)(equals - variable));
    if (name == NULL)
        return -ENOMEM;
    if (prepend)
        old = getenv(name);
    free(name);
    if (old != NULL && old[0] != '\0')
        result = asprintf(variable_out, "%s:%s", variable, old);
    else
        result = asprintf(variable_out, "%s", variable);
    return result < 0 ? -ENOMEM : 0;
}

/* In the child, whose variables are lost with it: they stay where they were composed. */
static void add_variable(const char *addition)
{
    char *variable;

    if (launch_compose_env(addition, &variable) == 0)
        putenv(variable);
}

/* In the child. */
static void launch_set_up(const struct lull_child_setup *setup, pid_t parent)
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
static void launch_exec(char *const argv[], const char *const *environment, int report_fd)
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
        launch_set_up(setup, self);
        set_signals(setup->signals);
        launch_exec(argv, environment, report[1]);
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
    *child_out = (struct lull_child){.pid = pid, .pidfd = lull_process_open_fd(pid)};
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

/* Writes the variables one after the other, each with its NUL; an empty one where there are none,
 * for a packet of no bytes is the end of a connection. */
static int write_variables(const char *const *environment, FILE *packet)
{
    if (environment == NULL || *environment == NULL)
        return fputc('\0', packet) == EOF ? -ENOMEM : 0;
    for (; *environment != NULL; environment++) {
        char *variable;
        int result = launch_compose_env(*environment, &variable);

        if (result < 0)
            return result;
        if (fputs(variable, packet) == EOF || fputc('\0', packet) == EOF)
            result = -ENOMEM;
        free(variable);
        if (result < 0)
            return result;
    }
    return 0;
}

int lull_child_adopt(int launcher_fd, const char *const *environment, struct lull_child *child_out,
                     struct lull_error *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const packet = open_memstream(&text, &size);
    int result = packet == NULL ? -ENOMEM : write_variables(environment, packet);

    if (packet != NULL && fclose(packet) == EOF && result == 0)
        result = -ENOMEM;
    if (result == 0 && send(launcher_fd, text, size, MSG_NOSIGNAL) < 0)
        result = -errno;
    free(text);
    if (result < 0)
        return lull_error_set(err, result,
                              "the job's environment cannot be sent to the launcher: %s",
                              strerror(-result));
    *child_out = (struct lull_child){.pid = -1, .pidfd = launcher_fd, .is_adopted = true};
    return 0;
}

/* A launcher that ends without a word was killed, and its job with it. */
static bool launch_read_launcher(const struct lull_child *child, bool block, int *status_out)
{
    char word[16];
    ssize_t got;
    int64_t status;

    do
        got = recv(child->pidfd, word, sizeof(word) - 1, block ? 0 : MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN)
        return false;
    word[got > 0 ? got : 0] = '\0';
    if (lull_text_parse_int(word, 0, 255, &status) < 0)
        status = 128 + SIGKILL;
    *status_out = (int)status;
    return true;
}

bool lull_child_reap(struct lull_child *child, bool block, int *status_out)
{
    int status;
    pid_t got;

    if (child->is_adopted) {
        if (!launch_read_launcher(child, block, status_out))
            return false;
        *child = (struct lull_child){.pid = -1, .pidfd = -1};
        return true;
    }
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
