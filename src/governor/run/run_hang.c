/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_hang.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/amount.h"
#include "base/clock.h"
#include "base/process.h"
#include "governor/run/run_pass.h"

/* A hang is reported if it is still seen this long after it was first seen: events that wait in a
 * ring while the host is busy arrive meanwhile. */
static const int64_t confirm_ns = 400 * LULL_NS_PER_MS;

/* Groups of ranks that are named by what they are inside. */
enum { MAX_GROUPS = 3 };

const char *lull_run_hang_kind_text(enum lull_hang_kind kind)
{
    switch (kind) {
    case LULL_HANG_MISSING:
        return "missing rank";
    case LULL_HANG_ELSEWHERE:
        return "rank on another node";
    case LULL_HANG_DEADLOCK:
        return "ranks wait for each other";
    case LULL_HANG_INSIDE:
    case LULL_HANG_NONE:
    default:
        return "no rank is missing";
    }
}

const char *lull_run_hang_process_text(enum lull_hang_process process)
{
    switch (process) {
    case LULL_HANG_STOPPED:
        return "stopped";
    case LULL_HANG_ENDED:
        return "ended";
    case LULL_HANG_RUNS:
    default:
        return "running";
    }
}

const struct lull_run_hang_record *lull_run_hangs_now(const struct lull_run_hangs *hangs)
{
    if (!hangs->is_hung)
        return NULL;
    return &hangs->records[hangs->count > LULL_RUN_HANGS_KEPT ? LULL_RUN_HANGS_KEPT - 1
                                                              : hangs->count - 1];
}

/* ---- processes --------------------------------------------------------------------------- */

static struct lull_process_info run_hang_process(const struct lull_control *control, uint32_t slot)
{
    struct lull_process_info info = {.world_rank = -1};

    if (lull_event_segment_process(lull_control_job(control), slot, &info) < 0)
        return (struct lull_process_info){.world_rank = -1};
    return info;
}

static enum lull_hang_process run_hang_state_of(const struct lull_control *control, uint32_t slot)
{
    struct lull_event_segment *const job = lull_control_job(control);
    const struct lull_process_info info = run_hang_process(control, slot);

    if (lull_event_segment_has_ended(job, slot))
        return LULL_HANG_ENDED;
    if (lull_event_segment_pid_space(job, slot) == lull_process_pid_space() &&
        lull_process_state(info.pid) == 'T')
        return LULL_HANG_STOPPED;
    return LULL_HANG_RUNS;
}

/* Launchers that restart a job put new processes in the places of ended ones. */
static bool is_replaced(const struct lull_control *control, uint32_t slot, uint32_t count)
{
    const int32_t rank = run_hang_process(control, slot).world_rank;

    for (uint32_t i = slot + 1; rank >= 0 && i < count; i++)
        if (run_hang_process(control, i).world_rank == rank)
            return true;
    return false;
}

/* Reads the states of all processes of the job. */
static void look_at_processes(struct lull_control *control)
{
    struct lull_hang *const hang = lull_control_hang(control);
    const uint32_t count = lull_event_segment_process_count(lull_control_job(control));

    for (uint32_t slot = 0; slot < count; slot++) {
        const enum lull_hang_process state = run_hang_state_of(control, slot);

        if (state == LULL_HANG_ENDED && is_replaced(control, slot, count))
            lull_hang_join(hang, slot);
        else
            lull_hang_set_process(hang, slot, state);
    }
}

/* ---- calls ------------------------------------------------------------------------------- */

static const char *communicator_name(const struct lull_control *control, uint32_t slot,
                                     uint32_t number)
{
    const int32_t gpu = lull_control_gpu_of(control, slot);
    const struct lull_control_gpu *state;

    if (gpu < 0)
        return "";
    state = lull_control_gpu(control, (uint32_t)gpu);
    if (state->process != (int32_t)slot || number >= state->communicators.count)
        return "";
    return state->communicators.items[number].name;
}

static void describe_call(struct lull_control *control, uint32_t slot, char *text, size_t size)
{
    const struct lull_hang_call call = lull_hang_look(lull_control_hang(control), slot);
    const char *const name = communicator_name(control, slot, call.communicator);

    snprintf(text, size, "%s%s%s",
             call.time_ns != 0 ? lull_operation_name((enum lull_operation)call.operation) : "",
             name[0] != '\0' ? " of " : "", name);
}

static struct lull_run_hang_rank describe_rank(struct lull_control *control, uint32_t slot,
                                               int64_t now_ns)
{
    const struct lull_process_info info = run_hang_process(control, slot);
    const struct lull_hang_call call = lull_hang_look(lull_control_hang(control), slot);
    const struct lull_control_section section = lull_control_last_section(control, slot);
    const int32_t gpu = lull_control_gpu_of(control, slot);
    struct lull_run_hang_rank rank = {
        .rank = info.world_rank,
        .pid = info.pid,
        .gpu = gpu < 0 ? -1 : (int32_t)lull_control_gpu(control, (uint32_t)gpu)->device,
        .process = run_hang_state_of(control, slot),
        .call_s = call.time_ns != 0 ? (double)(now_ns - call.time_ns) * 1e-9 : (double)NAN,
        .is_in_section = section.is_open,
    };

    describe_call(control, slot, rank.call, sizeof(rank.call));
    if (section.time_ns != 0)
        lull_event_segment_name(lull_control_job(control), slot, section.name, rank.section);
    return rank;
}

/* ---- the sentence ------------------------------------------------------------------------ */

struct sentence {
    size_t length;
    char *text;
};

__attribute__((format(printf, 2, 3))) static void run_hang_write(struct sentence *sentence,
                                                                 const char *format, ...)
{
    const size_t left = LULL_RUN_HANG_TEXT - sentence->length;
    va_list arguments;
    int written;

    va_start(arguments, format);
    written = vsnprintf(sentence->text + sentence->length, left, format, arguments);
    va_end(arguments);
    if (written > 0)
        sentence->length += (size_t)written < left ? (size_t)written : left - 1;
}

static int run_hang_compare_numbers(const void *a, const void *b)
{
    const int32_t left = *(const int32_t *)a;
    const int32_t right = *(const int32_t *)b;

    return (left > right) - (left < right);
}

/* Writes "rank 3" or "ranks 0-2, 5". */
static void write_numbers(struct sentence *sentence, int32_t *numbers, uint32_t count)
{
    uint32_t last;

    qsort(numbers, count, sizeof(numbers[0]), run_hang_compare_numbers);
    run_hang_write(sentence, count == 1 ? "rank" : "ranks");
    for (uint32_t i = 0; i < count; i = last + 1) {
        for (last = i; last + 1 < count && numbers[last + 1] == numbers[last] + 1; last++)
            continue;
        run_hang_write(sentence, i == 0 ? " %d" : ", %d", numbers[i]);
        if (last > i)
            run_hang_write(sentence, "-%d", numbers[last]);
    }
}

/* Writes the ranks that are inside this call, and marks them as written. */
static uint32_t write_group(struct lull_control *control, const char *call, bool *is_written,
                            struct sentence *sentence)
{
    const uint32_t count = lull_event_segment_process_count(lull_control_job(control));
    int32_t numbers[LULL_JOB_MAX_PROCESSES];
    uint32_t found = 0;

    for (uint32_t slot = 0; slot < count; slot++) {
        char own[LULL_RUN_HANG_CALL];
        int32_t rank;

        if (is_written[slot] || !lull_hang_look(lull_control_hang(control), slot).is_inside)
            continue;
        describe_call(control, slot, own, sizeof(own));
        if (strcmp(own, call) != 0)
            continue;
        rank = run_hang_process(control, slot).world_rank;
        is_written[slot] = true;
        numbers[found++] = rank >= 0 ? rank : (int32_t)slot;
    }
    if (found == 0)
        return 0;
    write_numbers(sentence, numbers, found);
    run_hang_write(sentence, found == 1 ? " is in %s, " : " are in %s, ", call);
    return found;
}

/* Writes who is inside what, the longest call first. */
static void write_waiting(struct lull_control *control, const struct lull_hang_finding *finding,
                          struct sentence *sentence)
{
    const uint32_t count = lull_event_segment_process_count(lull_control_job(control));
    bool is_written[LULL_JOB_MAX_PROCESSES] = {0};
    char call[LULL_RUN_HANG_CALL];
    uint32_t groups = 1;

    for (uint32_t slot = 0; slot < count; slot++)
        is_written[slot] = finding->is_missing[slot];
    describe_call(control, finding->oldest, call, sizeof(call));
    write_group(control, call, is_written, sentence);
    for (uint32_t slot = 0; slot < count && groups < MAX_GROUPS; slot++) {
        if (is_written[slot])
            continue;
        describe_call(control, slot, call, sizeof(call));
        groups += write_group(control, call, is_written, sentence) > 0;
    }
}

static void write_rank(const struct lull_run_hang_rank *rank, const char *host,
                       struct sentence *sentence)
{
    run_hang_write(sentence, "process %d", rank->pid);
    if (rank->gpu >= 0)
        run_hang_write(sentence, " on GPU %d", rank->gpu);
    run_hang_write(sentence, " of %s", host);
    if (rank->process != LULL_HANG_RUNS)
        run_hang_write(sentence, ", %s",
                       rank->process == LULL_HANG_ENDED ? "ended" : "stopped by a signal");
    if (isnan(rank->call_s))
        run_hang_write(sentence, ", without any communication so far");
    else
        run_hang_write(sentence, ", last in %s %s ago", rank->call,
                       lull_amount_time(rank->call_s).text);
    if (rank->section[0] != '\0')
        run_hang_write(sentence,
                       rank->is_in_section ? ", now in its section %s" : ", last in its section %s",
                       rank->section);
}

static void write_missing(const struct lull_run_hang_record *record, const char *host,
                          struct sentence *sentence)
{
    for (uint32_t i = 0; i < record->missing_count && i < LULL_RUN_HANG_MISSING; i++) {
        const struct lull_run_hang_rank *const rank = &record->missing[i];

        run_hang_write(sentence, i == 0 ? "and " : ", ");
        if (rank->rank >= 0)
            run_hang_write(sentence, "rank %d is missing (", rank->rank);
        else
            run_hang_write(sentence, "a process is missing (");
        write_rank(rank, host, sentence);
        run_hang_write(sentence, ")");
    }
    if (record->missing_count > LULL_RUN_HANG_MISSING)
        run_hang_write(sentence, " and %u more", record->missing_count - LULL_RUN_HANG_MISSING);
    run_hang_write(sentence, ". See what it does, for example with `py-spy dump --pid %d`",
                   record->missing[0].pid);
}

/* Writes the sentence: what happened, and after ". " what to do. */
static void write_sentence(struct lull_control *control, const struct lull_hang_finding *finding,
                           int64_t now_ns, struct lull_run_hang_record *record)
{
    struct sentence sentence = {0, record->text};
    char host[64] = "this node";

    gethostname(host, sizeof(host) - 1);
    run_hang_write(&sentence, "the job hangs: no communication has ended for %s, ",
                   lull_amount_time((double)(now_ns - finding->since_ns) * 1e-9).text);
    write_waiting(control, finding, &sentence);
    switch (finding->kind) {
    case LULL_HANG_MISSING:
        write_missing(record, host, &sentence);
        return;
    case LULL_HANG_ELSEWHERE:
        run_hang_write(&sentence, "and a rank on another node is missing. See what `lull run` "
                                  "reports on the other nodes of the job");
        return;
    case LULL_HANG_DEADLOCK:
        run_hang_write(&sentence, "so they wait for each other. Check that all ranks call the "
                                  "collectives of their communicators in the same order");
        return;
    case LULL_HANG_INSIDE:
    case LULL_HANG_NONE:
    default:
        run_hang_write(&sentence, "and no rank is missing, so a GPU or the network does not "
                                  "answer. See the kernel's log (dmesg), and NCCL_DEBUG=INFO");
    }
}

/* ---- reports ----------------------------------------------------------------------------- */

static void run_hang_fill(struct lull_control *control, const struct lull_hang_finding *finding,
                          int64_t now_ns, struct lull_run_hang_record *record)
{
    uint32_t described = 0;

    *record = (struct lull_run_hang_record){
        .kind = finding->kind,
        .since_ns = finding->since_ns,
        .reported_ns = now_ns,
        .waiting_count = finding->waiting_count,
        .missing_count = finding->missing_count,
    };
    describe_call(control, finding->oldest, record->call, sizeof(record->call));
    for (uint32_t slot = 0; slot < LULL_JOB_MAX_PROCESSES && described < LULL_RUN_HANG_MISSING;
         slot++)
        if (finding->is_missing[slot])
            record->missing[described++] = describe_rank(control, slot, now_ns);
    write_sentence(control, finding, now_ns, record);
}

/* GPUs whose communication kernel only waits need no clock. */
static void lower_waiting(struct lull_control *control, const struct lull_hang_finding *finding)
{
    for (uint32_t slot = 0; slot < LULL_JOB_MAX_PROCESSES; slot++)
        if (!finding->is_missing[slot] &&
            lull_hang_look(lull_control_hang(control), slot).is_kernel)
            lull_control_lower_spinning(control, slot);
}

/* Returns whether the job hangs, and fills in the record. */
static bool run_hang_look(struct lull_run_pass *pass, int64_t now_ns,
                          struct lull_run_hang_record *record)
{
    struct lull_hang_finding finding;

    look_at_processes(pass->control);
    lull_hang_find(lull_control_hang(pass->control), now_ns, &finding);
    if (finding.kind == LULL_HANG_NONE)
        return false;
    run_hang_fill(pass->control, &finding, now_ns, record);
    lower_waiting(pass->control, &finding);
    return true;
}

static void run_hang_report(struct lull_run_pass *pass, const struct lull_run_hang_record *record)
{
    struct lull_run_hangs *const hangs = &pass->hangs;

    hangs->is_hung = true;
    hangs->count++;
    hangs
        ->records[hangs->count > LULL_RUN_HANGS_KEPT ? LULL_RUN_HANGS_KEPT - 1 : hangs->count - 1] =
        *record;
    lull_run_note(pass->run, record->text);
}

static void run_hang_withdraw(struct lull_run_pass *pass, int64_t now_ns)
{
    struct lull_run_hang_record *const record =
        (struct lull_run_hang_record *)lull_run_hangs_now(&pass->hangs);
    char text[128];

    record->end_ns = now_ns;
    pass->hangs.is_hung = false;
    snprintf(text, sizeof(text), "the job communicates again, after %s without",
             lull_amount_time((double)(now_ns - record->since_ns) * 1e-9).text);
    lull_run_note(pass->run, text);
}

void lull_run_hangs_tick(struct lull_run_pass *pass, int64_t now_ns)
{
    struct lull_run_hangs *const hangs = &pass->hangs;
    struct lull_run_hang_record record;
    bool is_due;
    bool is_new = false;

    if (hangs->begin_ns == 0)
        hangs->begin_ns = now_ns;
    lull_control_lock(pass->control);
    is_due = lull_control_hang(pass->control) != NULL &&
             lull_hang_is_due(lull_control_hang(pass->control), now_ns);
    if (is_due && hangs->due_ns == 0)
        hangs->due_ns = now_ns;
    if (is_due && !hangs->is_hung && now_ns - hangs->due_ns >= confirm_ns)
        is_new = run_hang_look(pass, now_ns, &record);
    lull_control_unlock(pass->control);
    if (is_new)
        run_hang_report(pass, &record);
    if (is_due)
        return;
    hangs->due_ns = 0;
    if (hangs->is_hung)
        run_hang_withdraw(pass, now_ns);
}
