/*
 * A command line as a workload: a run is the whole process, from its start to its end. Its output
 * goes to standard error, because standard output is for results.
 *
 * A run counts as one launch, which takes as long as the process, unless the command writes a line
 * "LAUNCHES SECONDS" into the file that LULL_SWEEP_LAUNCHES names: that many launches took so long.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "lab/sweep/workload.h"
#include "lab/sweep/time.h"
#include "base/child.h"

/* Time limit for a command to end after SIGTERM. */
static const int64_t grace_ns = 5 * LULL_NS_PER_S;

struct command_workload {
    char *const *command;
    const char *name;
    char words[256]; /* the arguments, as many as fit */
    char path[64];   /* of the file in which it may report its launches */
    char variable[96];
    struct lull_sweep_time time;
    atomic_bool is_cancelled;
};

/* The last part of a path. */
static const char *command_load_name_of(const char *path)
{
    const char *const slash = strrchr(path, '/');

    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static void command_load_join_words(struct command_workload *workload)
{
    size_t used = 0;

    for (uint32_t i = 1; workload->command[i] != NULL && used < sizeof(workload->words); i++)
        used += (size_t)snprintf(workload->words + used, sizeof(workload->words) - used, "%s%s",
                                 used > 0 ? " " : "", workload->command[i]);
}

static int make_file(struct command_workload *workload, struct lull_error *err)
{
    int fd;

    snprintf(workload->path, sizeof(workload->path), "/tmp/lull-sweep-XXXXXX");
    fd = mkstemp(workload->path);
    if (fd < 0)
        return lull_error_set(err, -errno, "%s: %s", workload->path, strerror(errno));
    close(fd);
    snprintf(workload->variable, sizeof(workload->variable), "LULL_SWEEP_LAUNCHES=%s",
             workload->path);
    return 0;
}

static int open_command(const struct lull_workload_place *place, void **workload_out,
                        struct lull_error *err)
{
    struct command_workload *const workload = calloc(1, sizeof(*workload));
    int result;

    if (workload == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the command");
    workload->command = place->command;
    workload->name = command_load_name_of(place->command[0]);
    command_load_join_words(workload);
    result = lull_sweep_time_open(&workload->time, err);
    if (result < 0)
        goto free_workload;
    result = make_file(workload, err);
    if (result < 0)
        goto close_time;
    *workload_out = workload;
    return 0;

close_time:
    lull_sweep_time_close(&workload->time);
free_workload:
    free(workload);
    return result;
}

static uint32_t count_commands(const void *state)
{
    (void)state;
    return 1;
}

static struct lull_workload_kernel name_command(const void *state, uint32_t index)
{
    const struct command_workload *const workload = state;

    (void)index;
    return (struct lull_workload_kernel){workload->name, workload->words};
}

static int start_command(void *state, uint32_t index, struct lull_error *err)
{
    (void)state;
    (void)index;
    (void)err;
    return 0;
}

/* ---- a run --------------------------------------------------------------------------------- */

static int end_early(struct lull_child *child)
{
    const int64_t until_ns = lull_now_ns() + grace_ns;
    int status;

    lull_child_signal_group(child, SIGTERM);
    while (!lull_child_reap(child, false, &status)) {
        if (lull_now_ns() > until_ns) {
            lull_child_signal_group(child, SIGKILL);
            lull_child_reap(child, true, &status);
            break;
        }
        lull_sleep_until_ns(lull_now_ns() + 5 * LULL_NS_PER_MS);
    }
    return -EINTR;
}

/* Waits for the end of the command, of which its exit status comes; -EINTR: it was cancelled. */
static int command_load_await(struct command_workload *workload, struct lull_child *child)
{
    struct pollfd end = {.fd = child->pidfd, .events = POLLIN};
    int status = 0;

    for (;;) {
        const int ready = poll(&end, 1, 50);

        if (atomic_load(&workload->is_cancelled))
            return end_early(child);
        if (ready > 0 && lull_child_reap(child, true, &status))
            return status;
    }
}

/* Reads the launches that the command has reported, if any. */
static int take_reported(const struct command_workload *workload, struct lull_workload_run *run,
                         struct lull_error *err)
{
    char *text = NULL;
    char *space;
    size_t size;
    int64_t launches;
    double seconds;
    int result = lull_file_read(workload->path, 256, &text, &size, err);

    if (result < 0)
        return result;
    if (size == 0)
        goto free_text;
    text[strcspn(text, "\r\n")] = '\0';
    space = strchr(text, ' ');
    if (space != NULL)
        *space = '\0';
    if (space == NULL || lull_text_parse_int(text, 1, INT64_MAX, &launches) < 0 ||
        lull_text_parse_between(space + 1, 1e-9, 1e9, &seconds) < 0) {
        result = lull_error_set(err, LULL_E_FORMAT,
                                "%s has not written LAUNCHES SECONDS into the file that "
                                "LULL_SWEEP_LAUNCHES names, such as: 100 2.5",
                                workload->name);
        goto free_text;
    }
    *run = (struct lull_workload_run){(uint64_t)launches, seconds};
free_text:
    free(text);
    return result;
}

static int command_load_run(void *state, double seconds, struct lull_workload_run *run_out,
                            struct lull_error *err)
{
    struct command_workload *const workload = state;
    const char *const environment[] = {workload->variable, NULL};
    const struct lull_child_setup setup = {
        .stdout_fd = STDERR_FILENO, .stderr_fd = -1, .has_own_group = true};
    const double begin_s = lull_sweep_time_now(&workload->time);
    struct lull_workload_run run = {1, 0.0};
    struct lull_child child;
    int result;

    (void)seconds;
    if (atomic_load(&workload->is_cancelled))
        return lull_error_set(err, -EINTR, "interrupted");
    if (truncate(workload->path, 0) < 0)
        return lull_error_set(err, -errno, "%s: %s", workload->path, strerror(errno));
    result = lull_child_start_as(workload->command, environment, &setup, &child, err);
    if (result < 0)
        return result;
    result = command_load_await(workload, &child);
    if (result == -EINTR)
        return lull_error_set(err, -EINTR, "interrupted");
    if (result != 0)
        return lull_error_set(err, -EIO,
                              "%s has ended with status %d; a command that is swept must succeed",
                              workload->name, result);
    run.seconds = lull_sweep_time_now(&workload->time) - begin_s;
    result = take_reported(workload, &run, err);
    if (result == 0)
        *run_out = run;
    return result;
}

static void cancel_command(void *state)
{
    struct command_workload *const workload = state;

    atomic_store(&workload->is_cancelled, true);
}

static void stop_command(void *state)
{
    (void)state;
}

static void close_command(void *state)
{
    struct command_workload *const workload = state;

    if (workload == NULL)
        return;
    unlink(workload->path);
    lull_sweep_time_close(&workload->time);
    free(workload);
}

const struct lull_workload_kind lull_command_workload = {
    .name = "command",
    .has_idle_ends = true,
    .open = open_command,
    .count = count_commands,
    .kernel = name_command,
    .start = start_command,
    .run = command_load_run,
    .cancel = cancel_command,
    .stop = stop_command,
    .close = close_command,
};
