/*
 * lull-keeper: waits until its supervised process (lulld, or `lull run --no-daemon`) dies or hangs
 * with GPUs lowered, and puts them back. device/keeper.h starts it; no other process does.
 *
 * It stays small and has nothing open: no socket, no driver, no journal. Each restoring is a child,
 * which opens the driver's library and the journal for itself, so that a driver that hangs or
 * crashes takes a child and not the keeper. The next child is forked in advance and waits, because
 * no process may be left to fork (TasksMax, RLIMIT_NPROC, memory) when it is needed. Every signal
 * that can be blocked is.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "base/thread.h"
#include "device/device.h"
#include "device/keeper.h"
#include "device/restore.h"

enum {
    LOOK_MS = 250,    /* interval of checks of the supervised process's heartbeat: a stall is found
                       * in 5.25 s */
    CHILD_MS = 10000, /* time limit of one restoring; the read-back has half a second in it */
    KILL_MS = 100,    /* time limit for a killed child to end */
    RETRY_FIRST_MS = 20, /* pauses between failed restorings double from here */
    RETRY_LAST_MS = 8000,
    GIVE_UP_MS = 60000, /* default: systemd kills what is left after 90 s */
};

/* Exit status of a child. */
enum restore_outcome { DONE, FAILED, BUSY };

struct keeper {
    const char *runtime_dir;
    struct lull_keeper_page *page;
    bool is_process_dead;
    pid_t standby;  /* the child that waits; 0: there is none */
    int standby_fd; /* one byte to here begins its work: whether the supervised process is dead */
    pid_t thread;   /* the thread of the supervised process that thread_fd is for; 0: none */
    int thread_fd;  /* -1: there is none, or the kernel has no descriptors of threads */
};

/* --- restoring --- */

/* Runs in a child. A supervised process that hangs holds the journal's lock, and the page is the
 * right to go past it. */
static enum restore_outcome keeper_restore(const struct keeper *keeper)
{
    struct lull_restore_report report;
    struct lull_journal *journal;
    struct lull_devices *devices;
    struct lull_error error = {0};
    char uuid[1][96];
    int result = keeper->is_process_dead
                     ? lull_journal_open(keeper->runtime_dir, &journal, &error)
                     : lull_journal_open_unlocked(keeper->runtime_dir, &journal, &error);

    if (result == -EBUSY)
        return BUSY;
    if (result < 0)
        goto failed;
    if (lull_journal_list(journal, uuid, 1, &error) == 0)
        return DONE;
    result = lull_devices_open(&devices, &error);
    if (result < 0)
        goto failed;
    /* Each failure of a GPU has been logged. */
    return lull_restore_all(devices, journal, &report, &error) == 0 ? DONE : FAILED;
failed:
    lull_log(LULL_LOG_ERROR, "lull-keeper", "%s", error.text);
    return FAILED;
}

/* Waits for the child; one that is stuck in the driver is killed. */
static enum restore_outcome keeper_await(pid_t pid)
{
    const int fd = lull_process_open_fd(pid);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    int status = 0;

    if (fd < 0 || poll(&ended, 1, CHILD_MS) <= 0) {
        kill(pid, SIGKILL);
        poll(&ended, 1, KILL_MS);
    }
    if (fd >= 0)
        close(fd);
    /* A child that an uninterruptible call of the driver holds is left to it. */
    if (waitpid(pid, &status, WNOHANG) != pid || !WIFEXITED(status))
        return FAILED;
    return (enum restore_outcome)WEXITSTATUS(status);
}

/* Runs in a child, and waits until it is needed. */
__attribute__((noreturn)) static void stand_by(struct keeper *keeper, pid_t parent, int begin_fd)
{
    uint8_t is_process_dead;

    lull_thread_set_realtime(); /* a child is ordinary at first */
    prctl(PR_SET_NAME, "lull-standby");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || read(begin_fd, &is_process_dead, 1) != 1)
        _exit(FAILED);
    keeper->is_process_dead = is_process_dead != 0;
    _exit((int)keeper_restore(keeper));
}

/* Forks the next child, unless one waits already. */
static void keeper_prepare(struct keeper *keeper)
{
    const pid_t self = getpid();
    int fds[2];
    pid_t pid;

    if (keeper->standby != 0 && waitpid(keeper->standby, NULL, WNOHANG) == 0)
        return;
    if (keeper->standby != 0)
        close(keeper->standby_fd);
    keeper->standby = 0;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return;
    pid = fork();
    if (pid == 0) {
        close(fds[1]);
        stand_by(keeper, self, fds[0]);
    }
    close(fds[0]);
    if (pid < 0) {
        close(fds[1]);
        return;
    }
    keeper->standby = pid;
    keeper->standby_fd = fds[1];
}

static enum restore_outcome restore_in_child(struct keeper *keeper)
{
    const uint8_t is_process_dead = keeper->is_process_dead;
    enum restore_outcome outcome = FAILED;
    pid_t pid;

    keeper_prepare(keeper);
    if (keeper->standby == 0)
        return FAILED;
    pid = keeper->standby;
    keeper->standby = 0;
    if (write(keeper->standby_fd, &is_process_dead, 1) == 1)
        outcome = keeper_await(pid);
    close(keeper->standby_fd);
    return outcome;
}

/* --- a supervised process that hangs --- */

static bool is_stalled(const struct keeper *keeper, int64_t now_ns)
{
    const struct lull_keeper_page *const page = keeper->page;

    return atomic_load_explicit(&page->is_engaged, memory_order_acquire) != 0 &&
           now_ns - atomic_load(&page->heartbeat_ns) >= LULL_KEEPER_STALL_NS;
}

/* Restores instead of the supervised process. The page says so before the first call of the driver,
 * so that a supervised process that continues meanwhile lowers nothing. */
static bool keeper_take_over(struct keeper *keeper)
{
    enum restore_outcome outcome;

    atomic_fetch_add(&keeper->page->takeovers, 1);
    outcome = restore_in_child(keeper);
    atomic_fetch_add(&keeper->page->takeovers, 1);
    lull_log(LULL_LOG_WARNING, "lull-keeper",
             outcome == DONE ? "the process that sets GPU clocks hung; the GPUs were restored"
                             : "the process that sets GPU clocks hangs, and the GPUs could not be "
                               "restored; trying again");
    return outcome == DONE;
}

/* Opens the thread that ends first, once there is one. */
static void keeper_open_thread(struct keeper *keeper)
{
    const pid_t thread = atomic_load(&keeper->page->thread);

    if (thread == keeper->thread)
        return;
    if (keeper->thread_fd >= 0)
        close(keeper->thread_fd);
    keeper->thread_fd = thread != 0 ? lull_process_open_thread_fd(thread) : -1;
    keeper->thread = thread;
}

/* A process is dead when all of its threads have ended, and each of them needs a processor for
 * that, which on an overloaded host it would wait for. */
static void keeper_hasten_death(struct keeper *keeper)
{
    if (atomic_load(&keeper->page->thread) == keeper->thread)
        lull_thread_set_realtime_of_process(atomic_load(&keeper->page->pid));
    close(keeper->thread_fd);
    keeper->thread_fd = -1;
}

/* Waits for the death of the supervised process for a moment, and returns whether it is dead. */
static bool keeper_await_death(struct keeper *keeper)
{
    struct pollfd fds[] = {{.fd = LULL_KEEPER_SUPERVISED_FD, .events = POLLIN},
                           {.fd = keeper->thread_fd, .events = POLLIN}};

    if (poll(fds, 2, LOOK_MS) <= 0)
        return false;
    if (fds[1].revents != 0)
        keeper_hasten_death(keeper);
    return fds[0].revents != 0;
}

/* Watches the supervised process until it is dead. A stall is answered once, and again only where
 * that failed. */
static void keeper_watch(struct keeper *keeper)
{
    int64_t answered_ns = 0; /* the beat before the stall that was answered last */
    int64_t retry_ms = RETRY_FIRST_MS;
    int64_t next_ns = 0;

    while (!keeper_await_death(keeper)) {
        const int64_t now_ns = lull_now_ns();
        const int64_t heartbeat_ns = atomic_load(&keeper->page->heartbeat_ns);

        keeper_prepare(keeper);
        keeper_open_thread(keeper);
        if (!is_stalled(keeper, now_ns) || heartbeat_ns == answered_ns || now_ns < next_ns)
            continue;
        if (keeper_take_over(keeper)) {
            answered_ns = heartbeat_ns;
            retry_ms = RETRY_FIRST_MS;
        } else {
            next_ns = lull_now_ns() + retry_ms * LULL_NS_PER_MS;
            retry_ms = 2 * retry_ms < RETRY_LAST_MS ? 2 * retry_ms : RETRY_LAST_MS;
        }
    }
    keeper->is_process_dead = true;
}

/* --- a supervised process that is dead --- */

static void pause_ms(int64_t ms)
{
    lull_sleep_until_ns(lull_now_ns() + ms * LULL_NS_PER_MS);
}

/* Restores until nothing is left to restored, or another process has taken the journal: it restores
 * before it does anything else, and has a keeper of its own. */
static enum restore_outcome put_back(struct keeper *keeper)
{
    const int64_t begin_ns = lull_now_ns();
    int64_t retry_ms = RETRY_FIRST_MS;

    for (;;) {
        const enum restore_outcome outcome = restore_in_child(keeper);
        const int64_t waited_ns = lull_now_ns() - begin_ns;

        if (outcome != FAILED || waited_ns >= GIVE_UP_MS * LULL_NS_PER_MS)
            return outcome;
        pause_ms(retry_ms);
        retry_ms = 2 * retry_ms < RETRY_LAST_MS ? 2 * retry_ms : RETRY_LAST_MS;
    }
}

/* --- the process --- */

/* Memory runs out because of others, and this process is what undoes the harm. It needs root's
 * right to be spared. */
static void avoid_being_chosen(void)
{
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    if (write(fd, "-1000", 5) < 0)
        errno = 0;
    close(fd);
}

int main(int argc, char **argv)
{
    struct keeper keeper = {.thread_fd = -1};

    if (argc != 2) {
        fprintf(stderr, "lull-keeper: started by lulld and lull only; it has no function alone\n");
        return LULL_EXIT_USAGE;
    }
    lull_log_init(LULL_LOG_INFO);
    keeper.runtime_dir = argv[1];
    keeper.page = mmap(NULL, sizeof(*keeper.page), PROT_READ | PROT_WRITE, MAP_SHARED,
                       LULL_KEEPER_PAGE_FD, 0);
    if (keeper.page == MAP_FAILED) {
        fprintf(stderr, "lull-keeper: it was not started by lulld or lull\n");
        return LULL_EXIT_USAGE;
    }
    lull_process_close_range(LULL_KEEPER_SUPERVISED_FD + 1, UINT_MAX);
    avoid_being_chosen();
    /* A job keeps every processor of its node busy, and some 10 ms of work would wait behind it. */
    lull_thread_set_realtime();
    keeper_prepare(&keeper);
    keeper_watch(&keeper);
    if (put_back(&keeper) != FAILED)
        return LULL_EXIT_OK;
    lull_log(LULL_LOG_ERROR, "lull-keeper",
             "GPUs lowered by a dead lulld or lull could not be restored; see above, then run lull "
             "restore as root");
    return LULL_EXIT_FAILED;
}
