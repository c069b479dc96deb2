/*
 * Runs a command as a job whose probes are requested everything, and prints their reports as JSON:
 *   lull-watch COMMAND...
 * It replaces the governor and cannot set clocks. One object per process: events by
 * kind, the times of kernels and compute runs, and how the recording of kernels ended.
 * Exit status: the command's; 125 if the watch itself failed.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/event.h"

enum { KINDS = LULL_EVENT_COMMUNICATOR + 1, BATCH = 512, TAGS = 65536 };

struct watch_total {
    uint64_t counts[KINDS];
    int64_t begin_ns[TAGS]; /* of the kernel with this tag that runs; 0 none */
    uint64_t kernels;       /* with both edges */
    int64_t kernel_ns;
    int64_t longest_ns;
    uint64_t unmatched; /* ends without a start, begins without an end */
    uint64_t compute_ns;
    uint64_t dropped;
    int32_t failure;
};

static struct watch_total totals[LULL_JOB_MAX_PROCESSES];

static void account_kernel(struct watch_total *total, const struct lull_event *event)
{
    int64_t *begin_ns = &total->begin_ns[event->thread % TAGS];

    if (event->kind == LULL_EVENT_KERNEL_BEGIN) {
        total->unmatched += *begin_ns != 0;
        *begin_ns = event->time_ns;
        return;
    }
    if (*begin_ns == 0) {
        total->unmatched++;
        return;
    }
    total->kernels++;
    total->kernel_ns += event->time_ns - *begin_ns;
    if (event->time_ns - *begin_ns > total->longest_ns)
        total->longest_ns = event->time_ns - *begin_ns;
    *begin_ns = 0;
}

static void account(struct watch_total *total, const struct lull_event *event)
{
    if (event->kind >= KINDS)
        return;
    total->counts[event->kind]++;
    if (event->kind == LULL_EVENT_KERNEL_BEGIN || event->kind == LULL_EVENT_KERNEL_END)
        account_kernel(total, event);
    if (event->kind == LULL_EVENT_COMPUTE)
        total->compute_ns += event->bytes;
    if (event->kind == LULL_EVENT_COMPLETE) {
        total->dropped += event->bytes;
        if (event->peer != -1)
            total->failure = event->peer;
    }
}

static void drain(struct lull_event_segment *job)
{
    struct lull_event events[BATCH];

    for (uint32_t slot = 0; slot < lull_event_segment_process_count(job); slot++) {
        uint32_t count;

        lull_event_segment_ask(job, slot, LULL_ASK_TIMES | LULL_ASK_COMPUTE);
        while ((count = lull_event_segment_read(job, slot, events, BATCH)) > 0)
            for (uint32_t i = 0; i < count; i++)
                account(&totals[slot], &events[i]);
    }
}

static void print_process(const struct lull_event_segment *job, uint32_t slot)
{
    const struct watch_total *total = &totals[slot];
    struct lull_process_info info = {-1, -1, -1, -1, "?"};

    lull_event_segment_process(job, slot, &info);
    printf("{\"pid\": %ld, \"communicators\": %" PRIu64 ", \"enqueued\": %" PRIu64
           ", \"kernels\": %" PRIu64 ", \"kernel_ms\": %.3f, \"kernel_longest_ms\": %.3f, "
           "\"unmatched\": %" PRIu64 ", \"compute_runs\": %" PRIu64 ", \"compute_ms\": %.3f, "
           "\"dropped\": %" PRIu64 ", \"failure\": %d, \"lost\": %" PRIu64 "}",
           (long)info.pid, total->counts[LULL_EVENT_COMMUNICATOR],
           total->counts[LULL_EVENT_ENQUEUE], total->kernels, lull_ms_from_ns(total->kernel_ns),
           lull_ms_from_ns(total->longest_ns), total->unmatched, total->counts[LULL_EVENT_COMPUTE],
           (double)total->compute_ns * 1e-6, total->dropped, total->failure,
           lull_event_segment_lost(job, slot));
}

static int run(struct lull_event_segment *job, char *const argv[])
{
    int status = 0;
    const pid_t pid = fork();

    if (pid == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    if (pid < 0)
        return 125;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        lull_event_segment_wait(job, lull_now_ns() + 20 * LULL_NS_PER_MS);
        drain(job);
    }
    drain(job);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char *argv[])
{
    struct lull_event_segment *job;
    struct lull_error err;
    char path[64];
    int status;

    if (argc < 2)
        return 125;
    snprintf(path, sizeof(path), "/dev/shm/lull-watch-%ld", (long)getpid());
    if (lull_event_segment_create(path, &job, &err) < 0) {
        fprintf(stderr, "lull-watch: %s\n", err.text);
        return 125;
    }
    setenv(LULL_JOB_ENV, path, 1);
    status = run(job, argv + 1);
    printf("[");
    for (uint32_t slot = 0; slot < lull_event_segment_process_count(job); slot++) {
        fputs(slot > 0 ? ",\n" : "", stdout);
        print_process(job, slot);
    }
    printf("]\n");
    lull_event_segment_destroy(job);
    return status;
}
