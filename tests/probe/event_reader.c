/*
 * Runs a command as a job and prints, as JSON, the reports of its probes:
 *   event_reader [--dump] COMMAND...
 * One object per process: its identity, seconds between entering and leaving the job, seconds in
 * sections (nested or overlapping ones of one thread counted once), events by operation and kind,
 * lost events; and, for its first thread and for the others together, by operation: how many
 * sections ended and how many seconds they took. --dump also prints one line per event on standard
 * error.
 * Exit status: the command's; 125 if the reader itself failed.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/event.h"

enum { KINDS = LULL_EVENT_ENTER + 1, BATCH = 512 };

struct thread_total {
    uint32_t depth;
    int64_t begin_ns;
    int64_t section_ns;
    int64_t operation_begin_ns[LULL_OPERATION_COUNT];
};

struct process_total {
    int64_t enter_ns;
    int64_t exit_ns;
    uint64_t bytes;
    uint64_t unmatched; /* ends without a start */
    uint64_t counts[LULL_OPERATION_COUNT][KINDS];
    struct sections {
        uint64_t count;
        int64_t ns;
    } sections[2][LULL_OPERATION_COUNT]; /* of the first thread, of the others */
    struct thread_total threads[LULL_JOB_MAX_THREADS];
};

static struct process_total totals[LULL_JOB_MAX_PROCESSES];
static int dumps;

static void account_section(struct process_total *total, const struct lull_event *event)
{
    struct thread_total *thread = &total->threads[event->thread % LULL_JOB_MAX_THREADS];

    if (event->kind == LULL_EVENT_BEGIN) {
        if (thread->depth++ == 0)
            thread->begin_ns = event->time_ns;
        thread->operation_begin_ns[event->operation] = event->time_ns;
    } else if (event->kind == LULL_EVENT_END) {
        struct sections *sections = &total->sections[event->thread != 0][event->operation];

        sections->count++;
        sections->ns += event->time_ns - thread->operation_begin_ns[event->operation];
        if (thread->depth == 0)
            total->unmatched++;
        else if (--thread->depth == 0)
            thread->section_ns += event->time_ns - thread->begin_ns;
    }
}

static void account(struct process_total *total, uint32_t slot, const struct lull_event *event)
{
    if (event->operation >= LULL_OPERATION_COUNT || event->kind >= KINDS)
        return;
    total->counts[event->operation][event->kind]++;
    if (event->kind != LULL_EVENT_END)
        total->bytes += event->bytes;
    if (event->kind == LULL_EVENT_ENTER)
        total->enter_ns = event->time_ns;
    if (event->kind == LULL_EVENT_EXIT)
        total->exit_ns = event->time_ns;
    account_section(total, event);
    if (dumps)
        fprintf(stderr, "event %u kind=%u %s bytes=%llu comm=%d ranks=%u peer=%d thread=%u\n", slot,
                event->kind, lull_operation_name((enum lull_operation)event->operation),
                (unsigned long long)event->bytes, (int)event->communicator, event->ranks,
                event->peer, event->thread);
}

static void drain(struct lull_event_segment *job)
{
    struct lull_event events[BATCH];

    for (uint32_t slot = 0; slot < lull_event_segment_process_count(job); slot++) {
        uint32_t count;

        while ((count = lull_event_segment_read(job, slot, events, BATCH)) > 0)
            for (uint32_t i = 0; i < count; i++)
                account(&totals[slot], slot, &events[i]);
    }
}

static void print_counts(const struct process_total *total)
{
    const char *comma = "";

    printf("\"counts\": {");
    for (uint32_t operation = 0; operation < LULL_OPERATION_COUNT; operation++) {
        const uint64_t *counts = total->counts[operation];
        uint64_t sum = 0;

        for (int kind = 0; kind < KINDS; kind++)
            sum += counts[kind];
        if (sum == 0)
            continue;
        printf("%s\"%s\": [", comma, lull_operation_name((enum lull_operation)operation));
        for (int kind = LULL_EVENT_BEGIN; kind < KINDS; kind++)
            printf("%s%llu", kind > LULL_EVENT_BEGIN ? ", " : "", (unsigned long long)counts[kind]);
        printf("]");
        comma = ", ";
    }
    printf("}");
}

static void print_sections(const char *name, const struct sections *sections)
{
    const char *comma = "";

    printf(", \"%s\": {", name);
    for (uint32_t operation = 0; operation < LULL_OPERATION_COUNT; operation++) {
        if (sections[operation].count == 0)
            continue;
        printf("%s\"%s\": [%llu, %.9f]", comma, lull_operation_name((enum lull_operation)operation),
               (unsigned long long)sections[operation].count,
               (double)sections[operation].ns * 1e-9);
        comma = ", ";
    }
    printf("}");
}

static void print_names(const struct lull_event_segment *job, uint32_t slot)
{
    char name[LULL_JOB_NAME_BYTES];
    const char *comma = "";

    printf(", \"names\": [");
    for (uint32_t i = 0; i < LULL_JOB_MAX_NAMES - 1; i++) {
        lull_event_segment_name(job, slot, i, name);
        if (name[0] != '\0')
            printf("%s\"%s\"", comma, name);
        if (name[0] != '\0')
            comma = ", ";
    }
    printf("]");
}

static void print_process(const struct lull_event_segment *job, uint32_t slot)
{
    const struct process_total *total = &totals[slot];
    struct lull_process_info info = {-1, -1, -1, -1, "?"};
    int64_t section_ns = 0;

    lull_event_segment_process(job, slot, &info);
    for (uint32_t i = 0; i < LULL_JOB_MAX_THREADS; i++)
        section_ns += total->threads[i].section_ns;
    printf("{\"pid\": %ld, \"program\": \"%s\", \"rank\": %d, \"size\": %d, \"local_rank\": %d, "
           "\"seconds\": %.9f, \"section_seconds\": %.9f, \"bytes\": %llu, \"unmatched\": %llu, "
           "\"lost\": %llu, ",
           (long)info.pid, info.program, info.world_rank, info.world_size, info.local_rank,
           (double)(total->exit_ns - total->enter_ns) * 1e-9, (double)section_ns * 1e-9,
           (unsigned long long)total->bytes, (unsigned long long)total->unmatched,
           (unsigned long long)lull_event_segment_lost(job, slot));
    print_counts(total);
    print_sections("first_thread", total->sections[0]);
    print_sections("other_threads", total->sections[1]);
    print_names(job, slot);
    printf("}");
}

static int run(struct lull_event_segment *job, char *const argv[])
{
    int status = 0;
    pid_t pid = fork();

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

    dumps = argc > 1 && strcmp(argv[1], "--dump") == 0;
    if (argc < 2 + dumps)
        return 125;
    snprintf(path, sizeof(path), "/dev/shm/lull-reader-%ld", (long)getpid());
    if (lull_event_segment_create(path, &job, &err) < 0) {
        fprintf(stderr, "event_reader: %s\n", err.text);
        return 125;
    }
    setenv(LULL_JOB_ENV, path, 1);
    status = run(job, argv + 1 + dumps);
    printf("[");
    for (uint32_t slot = 0; slot < lull_event_segment_process_count(job); slot++) {
        fputs(slot > 0 ? ",\n" : "", stdout);
        print_process(job, slot);
    }
    printf("]\n");
    lull_event_segment_destroy(job);
    return status;
}
