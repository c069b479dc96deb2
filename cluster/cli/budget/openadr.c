/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/budget/openadr.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"

enum { TOKEN_BYTES = 4096, CONFIG_BYTES = 8192, ANSWER_S = 10 };

extern char **environ;

struct lull_openadr {
    const struct lull_budget_settings *settings;
    char config[CONFIG_BYTES]; /* of curl */
    bool was_reported;         /* that it does not answer; the thread's */
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t stop;
    bool is_stopping;
    pid_t child; /* 0: none */
    struct lull_grid_events grid;
};

/* --- curl's configuration --- */

/* Returns whether a text can stand between quotes in curl's configuration and in a header. */
static bool openadr_is_plain(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\\')
            return false;
    return true;
}

/* Returns whether only this host and the server can read what is sent to an address. */
static bool openadr_is_private(const char *url)
{
    static const char *const starts[] = {"https://",
                                         "http://127.0.0.1:", "http://localhost:", "http://[::1]:"};

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        if (strncmp(url, starts[i], strlen(starts[i])) == 0 && strchr(url, '@') == NULL)
            return true;
    return false;
}

static int openadr_read_token(const char *path, char *token_out, struct lull_error *err)
{
    const int result = lull_file_read_secret(path, token_out, TOKEN_BYTES, err);

    if (result < 0)
        return result;
    if (token_out[0] == '\0' || !openadr_is_plain(token_out))
        return lull_error_set(err, -EINVAL, "%s: invalid token: must be one line without blanks",
                              path);
    return 0;
}

static int openadr_configure(struct lull_openadr *openadr, struct lull_error *err)
{
    const struct lull_budget_settings *s = openadr->settings;
    char token[TOKEN_BYTES] = "";
    int length;

    if (!openadr_is_plain(s->openadr) || !openadr_is_plain(s->openadr_program) ||
        strpbrk(s->openadr_program, "&?#%/") != NULL ||
        (strncmp(s->openadr, "https://", 8) != 0 && strncmp(s->openadr, "http://", 7) != 0))
        return lull_error_set(err, -EINVAL,
                              "openadr: \"%.80s\" is not an address such as "
                              "https://vtn.example/3.0.1, or openadr-program is not an identifier",
                              s->openadr);
    if (s->openadr_token_file[0] != '\0') {
        int result = openadr_read_token(s->openadr_token_file, token, err);

        if (result < 0)
            return result;
        if (!openadr_is_private(s->openadr))
            return lull_error_set(err, -EINVAL,
                                  "openadr: the token would go to %.80s in the clear; use https",
                                  s->openadr);
    }
    length = snprintf(openadr->config, sizeof(openadr->config),
                      "silent\nshow-error\nfail\nproto = \"=http,https\"\nmax-time = %d\n"
                      "url = \"%s/events%s%s\"\nheader = \"Accept: application/json\"\n",
                      ANSWER_S, s->openadr, s->openadr_program[0] != '\0' ? "?programID=" : "",
                      s->openadr_program);
    if (token[0] != '\0' && length > 0 && (size_t)length < sizeof(openadr->config))
        snprintf(openadr->config + length, sizeof(openadr->config) - (size_t)length,
                 "header = \"Authorization: Bearer %s\"\n", token);
    return 0;
}

/* --- one answer --- */

/* Reads an answer until its end, at most LULL_GRID_MAX_BYTES and one more. */
static size_t read_answer(int fd, char *text)
{
    size_t size = 0;

    while (size < LULL_GRID_MAX_BYTES + 1) {
        const ssize_t got = read(fd, text + size, LULL_GRID_MAX_BYTES + 1 - size);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        size += (size_t)got;
    }
    return size;
}

/* Starts curl with these descriptors. Returns its number; negative: -errno. */
static pid_t openadr_spawn(int input, int output, int errors)
{
    static char *const words[] = {"curl", "--config", "-", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t child = 0;
    int result;

    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, 0);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    posix_spawn_file_actions_adddup2(&actions, errors, 2);
    result = posix_spawnp(&child, "curl", &actions, &attributes, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return result == 0 ? child : -result;
}

/* Makes the child known to stop(), or none. */
static void set_child(struct lull_openadr *openadr, pid_t child)
{
    pthread_mutex_lock(&openadr->lock);
    openadr->child = child;
    if (child > 0 && openadr->is_stopping)
        kill(child, SIGKILL);
    pthread_mutex_unlock(&openadr->lock);
}

/* Waits for the child, which keeps its number until stop() can no longer use it; returns its
 * status.
 */
static int openadr_reap(struct lull_openadr *openadr, pid_t child)
{
    siginfo_t unused;
    int status = -1;

    while (waitid(P_PID, (id_t)child, &unused, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        continue;
    set_child(openadr, 0);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

/* Returns curl's error message. */
static int openadr_fail(int errors, const char *url, int status, struct lull_error *err)
{
    char text[120] = "";
    const ssize_t got = pread(errors, text, sizeof(text) - 1, 0);

    if (got > 0)
        text[strcspn(text, "\n")] = '\0';
    return lull_error_set(err, -EIO, "%.80s: %s (curl ended with status %d)", url,
                          text[0] != '\0' ? text : "no answer", status);
}

/* Writes the answer and its size; text has room for one byte more than is allowed. */
static int openadr_fetch(struct lull_openadr *openadr, char *text, size_t *size_out,
                         struct lull_error *err)
{
    const int config = memfd_create("curl-config", MFD_CLOEXEC);
    const int errors = memfd_create("curl-errors", MFD_CLOEXEC);
    int answer[2] = {-1, -1};
    int status = -1;
    int result = -EIO;
    pid_t child;

    if (config < 0 || errors < 0 || pipe2(answer, O_CLOEXEC) < 0 ||
        pwrite(config, openadr->config, strlen(openadr->config), 0) < 0) {
        result = lull_error_set(err, -errno, "openadr: %s", strerror(errno));
        goto end;
    }
    child = openadr_spawn(config, answer[1], errors);
    close(answer[1]);
    answer[1] = -1;
    if (child < 0) {
        result = lull_error_set(err, (int)child, "openadr: curl cannot be started: %s",
                                strerror((int)-child));
        goto end;
    }
    set_child(openadr, child);
    *size_out = read_answer(answer[0], text);
    close(answer[0]); /* one that continues ends by SIGPIPE */
    answer[0] = -1;
    status = openadr_reap(openadr, child);
    result = 0;
    if (*size_out <= LULL_GRID_MAX_BYTES && status != 0)
        result = openadr_fail(errors, openadr->settings->openadr,
                              WIFEXITED(status) ? WEXITSTATUS(status) : -1, err);
end:
    for (int i = 0; i < 2; i++)
        if (answer[i] >= 0)
            close(answer[i]);
    if (config >= 0)
        close(config);
    if (errors >= 0)
        close(errors);
    return result;
}

/* --- the thread --- */

static void openadr_ask_server(struct lull_openadr *openadr, char *text,
                               struct lull_grid_events *grid)
{
    struct lull_error error = {0};
    size_t size = 0;
    int result = openadr_fetch(openadr, text, &size, &error);

    if (result == 0)
        result = lull_grid_read_openadr(openadr->settings->openadr, text, size, (int64_t)time(NULL),
                                        grid, &error);
    pthread_mutex_lock(&openadr->lock);
    if (result == 0)
        openadr->grid = *grid;
    if (result < 0 && !openadr->was_reported && !openadr->is_stopping)
        lull_log(LULL_LOG_WARNING, "budget", "%s; known events stay in force", error.text);
    pthread_mutex_unlock(&openadr->lock);
    openadr->was_reported = result < 0;
}

static void *openadr_thread(void *argument)
{
    struct lull_openadr *openadr = argument;
    char *text = malloc(LULL_GRID_MAX_BYTES + 1);
    struct lull_grid_events *grid = malloc(sizeof(*grid));
    bool is_stopping = text == NULL || grid == NULL;

    while (!is_stopping) {
        struct timespec until;

        openadr_ask_server(openadr, text, grid);
        until = lull_timespec_from_ns(lull_now_ns() +
                                      (int64_t)(openadr->settings->openadr_poll_s * 1e9));
        pthread_mutex_lock(&openadr->lock);
        while (!openadr->is_stopping &&
               pthread_cond_timedwait(&openadr->stop, &openadr->lock, &until) == 0)
            continue;
        is_stopping = openadr->is_stopping;
        pthread_mutex_unlock(&openadr->lock);
    }
    free(text);
    free(grid);
    return NULL;
}

int lull_openadr_start(const struct lull_budget_settings *settings,
                       struct lull_openadr **openadr_out, struct lull_error *err)
{
    struct lull_openadr *openadr = calloc(1, sizeof(*openadr));
    int result;

    if (openadr == NULL)
        return lull_error_set(err, -ENOMEM, "openadr: out of memory");
    openadr->settings = settings;
    result = openadr_configure(openadr, err);
    if (result < 0) {
        free(openadr);
        return result;
    }
    pthread_mutex_init(&openadr->lock, NULL);
    lull_thread_init_condition(&openadr->stop);
    result = -pthread_create(&openadr->thread, NULL, openadr_thread, openadr);
    if (result < 0) {
        pthread_cond_destroy(&openadr->stop);
        pthread_mutex_destroy(&openadr->lock);
        free(openadr);
        return lull_error_set(err, result, "openadr: no thread: %s", strerror(-result));
    }
    *openadr_out = openadr;
    return 0;
}

void lull_openadr_stop(struct lull_openadr *openadr)
{
    if (openadr == NULL)
        return;
    pthread_mutex_lock(&openadr->lock);
    openadr->is_stopping = true;
    if (openadr->child > 0)
        kill(openadr->child, SIGKILL);
    pthread_cond_signal(&openadr->stop);
    pthread_mutex_unlock(&openadr->lock);
    pthread_join(openadr->thread, NULL);
    pthread_cond_destroy(&openadr->stop);
    pthread_mutex_destroy(&openadr->lock);
    free(openadr);
}

void lull_openadr_read(struct lull_openadr *openadr, struct lull_grid_events *grid_out)
{
    grid_out->count = 0;
    if (openadr == NULL)
        return;
    pthread_mutex_lock(&openadr->lock);
    *grid_out = openadr->grid;
    pthread_mutex_unlock(&openadr->lock);
}
