/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int lull_thread_start(pthread_t *thread_out, void *(*run)(void *), void *argument)
{
    sigset_t all;
    sigset_t before;
    int result;

    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* blocked, it would end the process (mapping.h) */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(thread_out, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -result;
}

void lull_thread_init_condition(pthread_cond_t *condition_out)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition_out, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* thread 0: the calling one. */
static void thread_raise(pid_t thread)
{
    const struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_RR)};

    sched_setscheduler(thread, SCHED_RR | SCHED_RESET_ON_FORK, &lowest);
}

void lull_thread_set_realtime(void)
{
    thread_raise(0);
}

void lull_thread_set_realtime_of_process(pid_t pid)
{
    char path[64];
    const struct dirent *entry;
    DIR *tasks;

    snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
    tasks = opendir(path);
    if (tasks == NULL)
        return;
    while ((entry = readdir(tasks)) != NULL) {
        const long thread = strtol(entry->d_name, NULL, 10);

        if (thread > 0)
            thread_raise((pid_t)thread);
    }
    closedir(tasks);
}

/* Reads the first line of a file about a thread; false: there is none. */
static bool thread_read_line(int thread, const char *file, char *line_out, size_t size)
{
    char path[64];
    FILE *stream;
    bool is_read;

    snprintf(path, sizeof(path), "/proc/self/task/%d/%s", thread, file);
    stream = fopen(path, "re");
    if (stream == NULL)
        return false;
    is_read = fgets(line_out, (int)size, stream) != NULL;
    fclose(stream);
    return is_read;
}

char lull_thread_state(int thread)
{
    char line[256];
    const char *end;

    if (!thread_read_line(thread, "stat", line, sizeof(line)))
        return '?';
    end = strrchr(line, ')'); /* the name before it may hold anything */
    return end != NULL && end[1] == ' ' && end[2] != '\0' ? end[2] : '?';
}

bool lull_thread_wait_channel(int thread, char *name_out, size_t size)
{
    return thread_read_line(thread, "wchan", name_out, size) && strcmp(name_out, "0") != 0;
}
