/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/slurm/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    BEYOND = 16, /* descriptors are moved beyond this before they are put into place */
    NS_PER_MS = 1000000,
};

/* Both ends of a helper's pipe and of its socket pair. */
struct ends {
    int sockets[2]; /* ours, its own */
    int words[2];   /* ours, its own */
};

int64_t lull_helper_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int open_ends(bool has_socket, struct ends *ends)
{
    int result;

    *ends = (struct ends){{-1, -1}, {-1, -1}};
    if (pipe2(ends->words, O_CLOEXEC) < 0)
        return -errno;
    if (!has_socket || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends->sockets) == 0)
        return 0;
    result = -errno;
    close_end(&ends->words[0]);
    close_end(&ends->words[1]);
    return result;
}

/* ---- in the helper before exec: async-signal-safe calls only -------------------------------- */

/* slurmstepd is exempt from the OOM killer. A helper must not be, and it can reset its score
 * only as root. */
static void be_mortal(void)
{
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    /* If the write fails, the helper stays exempt like its parent. */
    if (write(fd, "0", 1) < 0)
        errno = 0;
    close(fd);
}

static bool become_user(bool is_of_user)
{
    const uid_t uid = geteuid();
    const gid_t gid = getegid();

    if (!is_of_user) {
        be_mortal();
        return true;
    }
    if (seteuid(0) == 0)
        be_mortal();
    return setresgid(gid, gid, gid) == 0 && setresuid(uid, uid, uid) == 0;
}

static bool place_descriptors(const struct ends *ends, enum lull_helper_socket kind)
{
    const int words = fcntl(ends->words[1], F_DUPFD_CLOEXEC, BEYOND);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    int standard = nothing;
    int last = STDERR_FILENO;

    if (kind != LULL_HELPER_NO_SOCKET) {
        const int end = fcntl(ends->sockets[1], F_DUPFD_CLOEXEC, BEYOND);

        if (kind == LULL_HELPER_STANDARD_SOCKET)
            standard = end;
        else
            last = dup2(end, LULL_HELPER_SOCKET_NUMBER);
    }
    return last >= 0 && dup2(standard, STDIN_FILENO) >= 0 && dup2(standard, STDOUT_FILENO) >= 0 &&
           dup2(words, STDERR_FILENO) >= 0 && close_range((unsigned int)last + 1, ~0U, 0) == 0;
}

static void slurm_helper_unblock_signals(void)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Adds to what the caller reads of the helper. */
static void slurm_helper_write(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));

    (void)written; /* a caller that no longer reads misses only this line */
}

__attribute__((noreturn)) static void slurm_helper_exec(const struct lull_helper_start *start,
                                                        const struct ends *ends)
{
    if (!become_user(start->is_of_user) || !place_descriptors(ends, start->socket))
        _exit(126);
    if (!start->is_of_user && chdir("/") < 0)
        _exit(126);
    umask(022);
    slurm_helper_unblock_signals();
    alarm(start->limit_s);
    execve(start->argv[0], start->argv, start->environment);
    slurm_helper_write("lull: cannot start ");
    slurm_helper_write(start->argv[0]);
    slurm_helper_write("; install it on this node, or correct its path in plugstack.conf\n");
    _exit(127);
}

/* ---- in the caller ---- */

int lull_helper_start(const struct lull_helper_start *start, struct lull_helper *helper_out)
{
    struct ends ends;
    int result = open_ends(start->socket != LULL_HELPER_NO_SOCKET, &ends);
    pid_t pid;

    if (result < 0)
        return result;
    pid = fork();
    if (pid == 0) {
        /* Its parent ends at once, so that the helper is no descendant of Slurm's: what Slurm
         * kills, waits for and counts are the job's processes. */
        setsid();
        if (fork() == 0)
            slurm_helper_exec(start, &ends);
        _exit(0);
    }
    result = pid < 0 ? -errno : 0;
    close_end(&ends.sockets[1]);
    close_end(&ends.words[1]);
    if (result < 0) {
        close_end(&ends.sockets[0]);
        close_end(&ends.words[0]);
        return result;
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    *helper_out = (struct lull_helper){.socket = ends.sockets[0], .words = ends.words[0]};
    return 0;
}

/* Returns whether the helper may write more. */
static bool take_words(struct lull_helper *helper, char *text, size_t size, size_t *size_io)
{
    char buffer[1024];
    const ssize_t got = read(helper->words, buffer, sizeof(buffer));

    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    for (ssize_t i = 0; i < got && *size_io + 1 < size; i++)
        text[(*size_io)++] = buffer[i];
    text[*size_io] = '\0';
    return got > 0;
}

bool lull_helper_listen(struct lull_helper *helper, int64_t until_ns, char *text, size_t size,
                        size_t *size_io)
{
    struct pollfd poll_fd = {.fd = helper->words, .events = POLLIN};

    while (helper->words >= 0) {
        const int64_t left_ns = until_ns - lull_helper_now_ns();
        const int left_ms = left_ns > 0 ? (int)(left_ns / NS_PER_MS) : 0;
        const int ready = poll(&poll_fd, 1, left_ms);

        if (ready < 0 && errno == EINTR && left_ms > 0)
            continue;
        if (ready <= 0)
            return false;
        if (!take_words(helper, text, size, size_io))
            close_end(&helper->words);
    }
    return true;
}

void lull_helper_forget(struct lull_helper *helper)
{
    close_end(&helper->socket);
    close_end(&helper->words);
}
