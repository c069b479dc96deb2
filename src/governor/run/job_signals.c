/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/job_signals.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Signals that are not passed on: faults of this process, the end of its child, and signals
 * that stop background programs of a terminal. */
static const int own_signals[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,
                                  SIGTRAP, SIGSYS,  SIGCHLD, SIGTSTP, SIGTTIN, SIGTTOU};

int lull_job_signals_open(struct lull_job_signals *signals, struct lull_error *err)
{
    struct sigaction children;
    sigset_t passed;

    *signals = (struct lull_job_signals){.fd = -1};
    sigfillset(&passed);
    for (size_t i = 0; i < sizeof(own_signals) / sizeof(own_signals[0]); i++)
        sigdelset(&passed, own_signals[i]);
    signals->fd = signalfd(-1, &passed, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals->fd < 0)
        return lull_error_set(err, -errno, "signals do not reach the job: %s", strerror(errno));
    sigprocmask(SIG_BLOCK, &passed, &signals->inherited.mask);
    /* If SIGCHLD is ignored, wait returns no exit status. */
    sigaction(SIGCHLD, NULL, &children);
    signals->inherited.ignores_children = children.sa_handler == SIG_IGN;
    if (signals->inherited.ignores_children)
        signal(SIGCHLD, SIG_DFL);
    return 0;
}

void lull_job_signals_await_job(struct lull_job_signals *signals)
{
    sigpending(&signals->early);
}

/* Returns whether the terminal has sent it to the job as well. It sends the end of a connection to
 * the leader of a session only. */
static bool is_of_terminal(const struct signalfd_siginfo *info)
{
    static const int typed[] = {SIGINT, SIGQUIT, SIGWINCH, SIGHUP};

    if (info->ssi_code != SI_KERNEL || (info->ssi_signo == SIGHUP && getsid(0) == getpid()))
        return false;
    for (size_t i = 0; i < sizeof(typed) / sizeof(typed[0]); i++)
        if (typed[i] == (int)info->ssi_signo)
            return true;
    return false;
}

/* A process may write to a pipe that no process reads any more, and a job may signal its parent:
 * neither is meant for the job. */
static bool is_of_family(const struct signalfd_siginfo *info, const struct lull_child *job)
{
    return (info->ssi_code == SI_USER || info->ssi_code == SI_QUEUE) &&
           ((pid_t)info->ssi_pid == getpid() || (pid_t)info->ssi_pid == job->pid);
}

static void job_signal_forward(struct lull_job_signals *signals,
                               const struct signalfd_siginfo *info, const struct lull_child *job)
{
    const int number = (int)info->ssi_signo;
    const bool is_early = sigismember(&signals->early, number) == 1;

    sigdelset(&signals->early, number);
    if (is_of_family(info, job) || (is_of_terminal(info) && !is_early))
        return;
    if (info->ssi_code == SI_QUEUE)
        sigqueue(job->pid, number, (union sigval){.sival_ptr = (void *)(uintptr_t)info->ssi_ptr});
    else
        lull_child_signal(job, number);
}

void lull_job_signals_pass_on(struct lull_job_signals *signals, const struct lull_child *job)
{
    struct signalfd_siginfo info;

    while (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (job->pid > 0)
            job_signal_forward(signals, &info, job);
}

bool lull_job_signals_ask_for_end(struct lull_job_signals *signals)
{
    struct signalfd_siginfo info;
    bool is_asked = false;

    while (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        is_asked = is_asked || info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM ||
                   info.ssi_signo == SIGHUP || info.ssi_signo == SIGQUIT;
    return is_asked;
}

void lull_job_signals_close(struct lull_job_signals *signals)
{
    if (signals->fd >= 0)
        close(signals->fd);
    signals->fd = -1;
}
