/* The supervised process's side of the keeper: the page, the program's start, and its restart.
 * SPDX-License-Identifier: Apache-2.0 */
#include "device/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/thread.h"

/* A keeper that dies younger than this is followed by the next one after a pause, which doubles
 * from the first to the last. */
static const int64_t young_ns = LULL_NS_PER_S;
static const int pause_first_ms = 5;
static const int pause_last_ms = 10000;

/* Descriptors are numbered from here, above those that the keeper begins with. */
enum { LOWEST_FD = 10 };

struct lull_keeper {
    struct lull_keeper_page *page;
    int page_fd;
    int supervised_fd; /* a pidfd of this process */
    int stop_fd;
    int keeper_fd; /* a pidfd of the keeper; -1: none runs. The thread's, once it runs. */
    pid_t pid;
    pthread_t thread;
    bool is_watched; /* the thread runs */
    char program[PATH_MAX];
    char runtime_dir[PATH_MAX];
};

extern char **environ;

/* Moves a descriptor above those that the keeper begins with, so that none is overwritten. */
static int move_up(int fd)
{
    int moved;

    if (fd < 0)
        return -1;
    moved = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);
    close(fd);
    return moved;
}

/* The size is sealed, so that neither side can make the other's next look fail. */
static int open_page(struct lull_keeper *keeper)
{
    void *page;

    keeper->page_fd = move_up(memfd_create("lull-keeper", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (keeper->page_fd < 0 || ftruncate(keeper->page_fd, sizeof(*keeper->page)) < 0 ||
        fcntl(keeper->page_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
    page =
        mmap(NULL, sizeof(*keeper->page), PROT_READ | PROT_WRITE, MAP_SHARED, keeper->page_fd, 0);
    if (page == MAP_FAILED)
        return -errno;
    keeper->page = page;
    atomic_store(&keeper->page->heartbeat_ns, lull_now_ns());
    atomic_store(&keeper->page->pid, getpid());
    return 0;
}

/* Describes the descriptors of the keeper. A driver that is already open stays closed to it. */
static int describe_fds(const struct lull_keeper *keeper, posix_spawn_file_actions_t *actions)
{
    int result = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);

    if (result == 0)
        result = posix_spawn_file_actions_adddup2(actions, STDIN_FILENO, STDOUT_FILENO);
    if (result == 0)
        result = posix_spawn_file_actions_adddup2(actions, keeper->page_fd, LULL_KEEPER_PAGE_FD);
    if (result == 0)
        result = posix_spawn_file_actions_adddup2(actions, keeper->supervised_fd,
                                                  LULL_KEEPER_SUPERVISED_FD);
    return -result;
}

/* The keeper begins with every signal blocked, and leaves it at that: only SIGKILL ends it. */
static int describe_signals(posix_spawnattr_t *attributes)
{
    sigset_t all;
    int result;

    sigfillset(&all);
    result = posix_spawnattr_setsigmask(attributes, &all);
    if (result == 0)
        result = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    return -result;
}

/* Starts the program. A keeper that died while it restored has left its work unfinished, and its
 * successor starts again. */
static int keeper_client_spawn(struct lull_keeper *keeper)
{
    char *const arguments[] = {"lull-keeper", keeper->runtime_dir, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int result = -posix_spawn_file_actions_init(&actions);

    if (result < 0)
        return result;
    result = -posix_spawnattr_init(&attributes);
    if (result < 0)
        goto destroy_actions;
    result = describe_fds(keeper, &actions);
    if (result < 0)
        goto destroy_attributes;
    result = describe_signals(&attributes);
    if (result < 0)
        goto destroy_attributes;
    if ((atomic_load(&keeper->page->takeovers) & 1) != 0)
        atomic_fetch_add(&keeper->page->takeovers, 1);
    result = -posix_spawn(&keeper->pid, keeper->program, &actions, &attributes, arguments, environ);
    if (result < 0)
        goto destroy_attributes;
    keeper->keeper_fd = lull_process_open_fd(keeper->pid);
    if (keeper->keeper_fd < 0) {
        result = -errno;
        kill(keeper->pid, SIGKILL);
        waitpid(keeper->pid, NULL, 0);
    }
destroy_attributes:
    posix_spawnattr_destroy(&attributes);
destroy_actions:
    posix_spawn_file_actions_destroy(&actions);
    return result;
}

static void keeper_client_reap(struct lull_keeper *keeper)
{
    if (keeper->keeper_fd < 0)
        return;
    waitpid(keeper->pid, NULL, 0);
    close(keeper->keeper_fd);
    keeper->keeper_fd = -1;
}

/* Waits until this process wants to stop (true), or the keeper dies or the time is over. */
static bool wait_for_stop(const struct lull_keeper *keeper, int timeout_ms)
{
    struct pollfd fds[] = {{.fd = keeper->stop_fd, .events = POLLIN},
                           {.fd = keeper->keeper_fd, .events = POLLIN}};

    while (poll(fds, 2, timeout_ms) < 0 && errno == EINTR)
        continue;
    return fds[0].revents != 0;
}

static void keeper_client_log_restart(int result, bool *is_logged)
{
    if (result == 0)
        lull_log(LULL_LOG_WARNING, "keeper", "the keeper has died; another one was started");
    else if (!*is_logged)
        lull_log(LULL_LOG_ERROR, "keeper",
                 "the keeper has died and cannot be started again (%s); until it can, clocks that "
                 "are low when this process is killed stay low until lulld or lull starts again",
                 strerror(-result));
    *is_logged = result < 0;
}

static void *keeper_client_thread(void *argument)
{
    struct lull_keeper *const keeper = argument;
    int64_t begun_ns = lull_now_ns();
    int pause_ms = pause_first_ms;
    bool is_logged = false;

    pthread_setname_np(pthread_self(), "lull-ward");
    lull_thread_set_realtime();
    atomic_store(&keeper->page->thread, lull_process_thread());
    while (!wait_for_stop(keeper, -1)) {
        keeper_client_reap(keeper);
        if (lull_now_ns() - begun_ns >= young_ns)
            pause_ms = pause_first_ms;
        if (wait_for_stop(keeper, pause_ms))
            break;
        pause_ms = 2 * pause_ms < pause_last_ms ? 2 * pause_ms : pause_last_ms;
        keeper_client_log_restart(keeper_client_spawn(keeper), &is_logged);
        begun_ns = lull_now_ns();
    }
    return NULL;
}

static void keeper_client_destroy(struct lull_keeper *keeper)
{
    const int fds[] = {keeper->page_fd, keeper->supervised_fd, keeper->stop_fd, keeper->keeper_fd};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (keeper->page != NULL)
        munmap(keeper->page, sizeof(*keeper->page));
    free(keeper);
}

static int keeper_client_open_all(struct lull_keeper *keeper, struct lull_error *err)
{
    int result;

    keeper->supervised_fd = move_up(lull_process_open_fd(getpid()));
    keeper->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (keeper->supervised_fd < 0 || keeper->stop_fd < 0)
        return lull_error_set(err, -errno, "keeper: cannot watch this process: %s",
                              strerror(errno));
    result = open_page(keeper);
    if (result == 0)
        result = keeper_client_spawn(keeper);
    if (result < 0)
        return lull_error_set(err, result, "keeper: %s does not start: %s", keeper->program,
                              strerror(-result));
    return 0;
}

int lull_keeper_start(const char *runtime_dir, struct lull_keeper **keeper_out,
                      struct lull_error *err)
{
    struct lull_keeper *keeper = calloc(1, sizeof(*keeper));
    int result;

    if (keeper == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the keeper");
    keeper->page_fd = keeper->supervised_fd = keeper->stop_fd = keeper->keeper_fd = -1;
    result = lull_file_find_own("keeper/lull-keeper", "lull-keeper", keeper->program,
                                sizeof(keeper->program), err);
    if (result == 0 && realpath(runtime_dir, keeper->runtime_dir) == NULL)
        result = lull_error_set(err, -errno, "%s: %s", runtime_dir, strerror(errno));
    if (result == 0)
        result = keeper_client_open_all(keeper, err);
    if (result < 0) {
        keeper_client_destroy(keeper);
        return result;
    }
    *keeper_out = keeper;
    return 0;
}

int lull_keeper_watch(struct lull_keeper *keeper, struct lull_error *err)
{
    int result;

    if (keeper == NULL)
        return 0;
    result = lull_thread_start(&keeper->thread, keeper_client_thread, keeper);
    if (result < 0)
        return lull_error_set(err, result, "keeper: its watch does not start: %s",
                              strerror(-result));
    keeper->is_watched = true;
    return 0;
}

void lull_keeper_stop(struct lull_keeper *keeper, bool is_restored)
{
    if (keeper == NULL)
        return;
    if (keeper->is_watched) {
        atomic_store(&keeper->page->thread, 0);
        eventfd_write(keeper->stop_fd, 1);
        pthread_join(keeper->thread, NULL);
    }
    if (keeper->keeper_fd >= 0 && is_restored) {
        lull_process_kill_fd(keeper->keeper_fd);
        keeper_client_reap(keeper);
    }
    keeper_client_destroy(keeper);
}

uint32_t lull_keeper_heartbeat(struct lull_keeper *keeper, int64_t now_ns, bool is_engaged)
{
    atomic_store_explicit(&keeper->page->heartbeat_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&keeper->page->is_engaged, is_engaged, memory_order_release);
    return atomic_load_explicit(&keeper->page->takeovers, memory_order_acquire);
}
