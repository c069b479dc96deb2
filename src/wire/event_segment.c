/* The segment's file, its slots, and what a slot says of its process.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mapping.h"
#include "base/process.h"
#include "wire/event_layout.h"

#define MAGIC UINT64_C(0x4a4f424c4c554c31)

enum {
    FORMAT_VERSION = 5,
    SPINS = 1000,
};

enum { NAME_FREE, NAME_WRITING, NAME_READY };

static const char *const operation_names[LULL_OPERATION_COUNT] = {
    [LULL_OPERATION_NONE] = "none",
    [LULL_OPERATION_USER] = "user",
    [LULL_OPERATION_ALLREDUCE] = "allreduce",
    [LULL_OPERATION_REDUCE] = "reduce",
    [LULL_OPERATION_REDUCE_SCATTER] = "reduce_scatter",
    [LULL_OPERATION_ALLGATHER] = "allgather",
    [LULL_OPERATION_GATHER] = "gather",
    [LULL_OPERATION_SCATTER] = "scatter",
    [LULL_OPERATION_BROADCAST] = "broadcast",
    [LULL_OPERATION_ALLTOALL] = "alltoall",
    [LULL_OPERATION_BARRIER] = "barrier",
    [LULL_OPERATION_SCAN] = "scan",
    [LULL_OPERATION_NEIGHBOR] = "neighbor",
    [LULL_OPERATION_SEND] = "send",
    [LULL_OPERATION_RECEIVE] = "receive",
    [LULL_OPERATION_SENDRECV] = "sendrecv",
    [LULL_OPERATION_WAIT] = "wait",
    [LULL_OPERATION_PROBE] = "probe",
    [LULL_OPERATION_POLL] = "poll",
    [LULL_OPERATION_SIGNAL] = "signal",
};

const char *lull_operation_name(enum lull_operation operation)
{
    if ((unsigned)operation >= LULL_OPERATION_COUNT)
        return "?";
    return operation_names[operation];
}

/* ---- creating, joining, leaving ---- */

static void event_segment_write_header(struct lull_event_header *header)
{
    /* -errno is negative, so a valid descriptor always comes with its segment. */
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    header->version = FORMAT_VERSION;
    header->processes = LULL_JOB_MAX_PROCESSES;
    header->ring_events = LULL_JOB_RING_EVENTS;
    header->event_bytes = sizeof(struct lull_event);
    header->segment_bytes = sizeof(struct lull_event_memory);
    atomic_store(&header->magic, MAGIC);
}

static int is_our_format(const struct lull_event_header *header)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): for the same reason. */
    return atomic_load(&header->magic) == MAGIC && header->version == FORMAT_VERSION &&
           header->processes == LULL_JOB_MAX_PROCESSES &&
           header->ring_events == LULL_JOB_RING_EVENTS &&
           header->event_bytes == sizeof(struct lull_event) &&
           header->segment_bytes == sizeof(struct lull_event_memory);
}

static int map_segment(int fd, struct lull_event_memory **segment_out)
{
    void *memory =
        mmap(NULL, sizeof(struct lull_event_memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (memory == MAP_FAILED)
        return -errno;
    *segment_out = memory;
    return 0;
}

/* Creates the file, locked and mapped; returns its descriptor. */
static int event_segment_create_file(const char *path, struct lull_event_memory **segment_out)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int result = 0;

    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || ftruncate(fd, sizeof(struct lull_event_memory)) < 0 ||
        fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, offsetof(struct lull_event_memory, slots)) < 0)
        result = -errno;
    if (result == 0)
        result = map_segment(fd, segment_out);
    if (result == 0)
        return fd;
    close(fd);
    unlink(path);
    return result;
}

int lull_event_segment_create(const char *path, struct lull_event_segment **job_out,
                              struct lull_error *err)
{
    struct lull_event_segment *job = calloc(1, sizeof(*job));
    int result = -ENOMEM;

    if (job == NULL)
        goto fail;
    job->tails = calloc(LULL_JOB_MAX_PROCESSES, sizeof(*job->tails));
    job->path = strdup(path);
    if (job->tails == NULL || job->path == NULL)
        goto free_job;
    result = event_segment_create_file(path, &job->segment);
    if (result < 0)
        goto free_job;
    job->fd = result;
    job->guard = lull_mapping_guard(job->segment, sizeof(*job->segment));
    event_segment_write_header(&job->segment->header);
    *job_out = job;
    return 0;
free_job:
    free(job->tails);
    free(job->path);
    free(job);
fail:
    return lull_error_set(err, result, "%s: cannot create the job's segment: %s", path,
                          strerror(-result));
}

void lull_event_segment_destroy(struct lull_event_segment *job)
{
    const int saved_errno = errno;

    if (job == NULL)
        return;
    lull_mapping_release(job->guard);
    munmap(job->segment, sizeof(struct lull_event_memory));
    if (job->path != NULL)
        unlink(job->path);
    if (job->fd >= 0)
        close(job->fd);
    free(job->tails);
    free(job->path);
    free(job);
    errno = saved_errno;
}

bool lull_event_segment_is_cut(const struct lull_event_segment *job)
{
    return lull_mapping_is_cut(job->guard);
}

static int read_info(const struct lull_event_slot *slot, struct lull_process_info *info_out)
{
    struct lull_process_info info;
    const uint32_t version = atomic_load_explicit(&slot->version, memory_order_acquire);

    if (version == 0 || version % 2 != 0)
        return -EAGAIN;
    load_words(&info, slot->info, INFO_WORDS);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&slot->version, memory_order_relaxed) != version)
        return -EAGAIN;
    info.program[sizeof(info.program) - 1] = '\0';
    *info_out = info;
    return 0;
}

/* Two probes of one process may get here at once. The one that loses the race uses what the other
 * wrote.
 */
static void write_info(struct lull_event_slot *slot, const struct lull_process_info *info)
{
    uint32_t version = atomic_load_explicit(&slot->version, memory_order_relaxed);

    if (version % 2 != 0 || !atomic_compare_exchange_strong(&slot->version, &version, version + 1))
        return;
    atomic_thread_fence(memory_order_release);
    store_words(slot->info, info, INFO_WORDS);
    atomic_store_explicit(&slot->version, version + 2, memory_order_release);
}

static int find_own_slot(const struct lull_event_memory *segment, uint64_t start_ticks,
                         uint32_t *slot_out)
{
    const uint32_t count = claimed_slots(segment);

    for (uint32_t i = 0; i < count; i++) {
        const struct lull_event_slot *slot = &segment->slots[i];
        struct lull_process_info info;

        if (atomic_load(&slot->holder) == SLOT_TAKEN && read_info(slot, &info) == 0 &&
            info.pid == getpid() && atomic_load(&slot->start_ticks) == start_ticks) {
            *slot_out = i;
            return 0;
        }
    }
    return -ENOENT;
}

static int reserve_slot_memory(int fd, uint32_t slot)
{
    const off_t start =
        (off_t)(offsetof(struct lull_event_memory, slots) + slot * sizeof(struct lull_event_slot));

    if (fallocate(fd, FALLOC_FL_KEEP_SIZE, start, sizeof(struct lull_event_slot)) < 0)
        return -errno;
    return 0;
}

static void event_segment_introduce(struct lull_event_slot *slot, uint64_t start_ticks,
                                    const struct lull_process_info *info)
{
    atomic_store(&slot->start_ticks, start_ticks);
    atomic_store(&slot->pid_space, lull_process_pid_space());
    write_info(slot, info);
}

/* Takes a slot that has been released. Its names stay, because events that refer to them are still
 * in use. The ring continues where it is. */
static int reclaim_slot(struct lull_event_memory *segment, uint64_t start_ticks,
                        const struct lull_process_info *info, uint32_t *slot_out)
{
    for (uint32_t i = 0; i < LULL_JOB_MAX_PROCESSES; i++) {
        struct lull_event_slot *slot = &segment->slots[i];
        uint32_t holder = SLOT_RELEASED;

        if (!atomic_compare_exchange_strong(&slot->holder, &holder, SLOT_CHANGING))
            continue;
        for (uint32_t thread = 0; thread < LULL_JOB_MAX_THREADS; thread++)
            atomic_store(&slot->threads[thread], 0);
        atomic_store(&slot->communicators, 0);
        for (uint32_t gpu = 0; gpu < LULL_JOB_MAX_GPUS; gpu++)
            atomic_store(&slot->gpus[gpu], 0);
        event_segment_introduce(slot, start_ticks, info);
        atomic_store(&slot->holder, SLOT_TAKEN);
        *slot_out = i;
        return 0;
    }
    return -ENOSPC;
}

/* Slots are claimed in order, so that slots 0..claimed-1 stay readable; once there are no more,
 * those that the reader has released are claimed again. */
static int claim_slot(struct lull_event_memory *segment, int fd, uint64_t start_ticks,
                      const struct lull_process_info *info, uint32_t *slot_out)
{
    uint32_t index = atomic_load(&segment->header.claimed);
    struct lull_event_slot *slot;
    int result;

    do {
        if (index >= LULL_JOB_MAX_PROCESSES)
            return reclaim_slot(segment, start_ticks, info, slot_out);
        result = reserve_slot_memory(fd, index);
        if (result < 0)
            return result;
    } while (!atomic_compare_exchange_strong(&segment->header.claimed, &index, index + 1));

    slot = &segment->slots[index];
    for (uint64_t i = 0; i < LULL_JOB_RING_EVENTS; i++)
        atomic_store_explicit(&slot->records[i].sequence, i, memory_order_relaxed);
    event_segment_introduce(slot, start_ticks, info);
    *slot_out = index;
    return 0;
}

static int event_segment_open(const char *path, struct lull_event_memory **segment_out)
{
    struct stat status;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    int result;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) < 0)
        result = -errno;
    else if (!S_ISREG(status.st_mode) || status.st_size != sizeof(struct lull_event_memory))
        result = LULL_E_FORMAT;
    else
        result = map_segment(fd, segment_out);
    if (result == 0 && !is_our_format(&(*segment_out)->header)) {
        munmap(*segment_out, sizeof(struct lull_event_memory));
        result = LULL_E_FORMAT;
    }
    if (result < 0) {
        close(fd);
        return result;
    }
    return fd;
}

int lull_event_segment_join(const char *path, const struct lull_process_info *info,
                            struct lull_event_segment **job_out, uint32_t *slot_out,
                            struct lull_error *err)
{
    struct lull_event_segment *job = calloc(1, sizeof(*job));
    const uint64_t start_ticks = (uint64_t)lull_process_start_ticks(0);
    uint32_t slot = 0;
    int result;
    int fd;

    if (job == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory", path);
    job->fd = -1;
    job->guard = -1;
    fd = event_segment_open(path, &job->segment);
    if (fd < 0) {
        free(job);
        return lull_error_set(err, fd, "%s: %s", path,
                              fd == LULL_E_FORMAT ? "not a job segment of this version"
                                                  : strerror(-fd));
    }
    result = find_own_slot(job->segment, start_ticks, &slot);
    if (result < 0)
        result = claim_slot(job->segment, fd, start_ticks, info, &slot);
    if (result == -ENOSPC)
        atomic_fetch_add(&job->segment->header.without_room, 1);
    close(fd);
    if (result < 0) {
        lull_event_segment_destroy(job);
        return lull_error_set(err, result, "%s: cannot claim a slot: %s", path, strerror(-result));
    }
    *job_out = job;
    *slot_out = slot;
    return 0;
}

uint32_t lull_event_segment_turned_away(const struct lull_event_segment *job)
{
    return atomic_load(&job->segment->header.without_room);
}

/* ---- the process of a slot ---- */

uint32_t lull_event_segment_process_count(const struct lull_event_segment *job)
{
    return claimed_slots(job->segment);
}

int lull_event_segment_process(const struct lull_event_segment *job, uint32_t slot,
                               struct lull_process_info *info_out)
{
    if (slot >= LULL_JOB_MAX_PROCESSES)
        return -EINVAL;
    return read_info(&job->segment->slots[slot], info_out);
}

/* A process id identifies a process only within one PID namespace. */
bool lull_event_segment_has_ended(const struct lull_event_segment *job, uint32_t slot_index)
{
    const struct lull_event_slot *slot = &job->segment->slots[slot_index % LULL_JOB_MAX_PROCESSES];
    const uint64_t space = atomic_load(&slot->pid_space);
    struct lull_process_info info;

    if (space == 0 || space != lull_process_pid_space() || read_info(slot, &info) < 0)
        return false;
    return (uint64_t)lull_process_start_ticks(info.pid) != atomic_load(&slot->start_ticks);
}

int lull_event_segment_release(struct lull_event_segment *job, uint32_t slot_index)
{
    struct lull_event_slot *slot = &job->segment->slots[slot_index % LULL_JOB_MAX_PROCESSES];

    /* No slot is claimed in a segment whose file was truncated. */
    if (slot_index >= claimed_slots(job->segment))
        return -EBUSY;
    if (atomic_load(&slot->holder) != SLOT_TAKEN || !lull_event_segment_has_ended(job, slot_index))
        return -EBUSY;
    if (atomic_load(&slot->head) != job->tails[slot_index])
        return -EAGAIN;
    atomic_store(&slot->asked, 0);
    atomic_store(&slot->holder, SLOT_RELEASED);
    return 0;
}

int lull_event_segment_is_held(const struct lull_event_segment *job, uint32_t slot)
{
    return slot < LULL_JOB_MAX_PROCESSES &&
           atomic_load(&job->segment->slots[slot].holder) == SLOT_TAKEN;
}

void lull_event_segment_identify(struct lull_event_segment *job, uint32_t slot,
                                 const struct lull_process_info *info)
{
    write_info(&job->segment->slots[slot % LULL_JOB_MAX_PROCESSES], info);
}

uint64_t lull_event_segment_pid_space(const struct lull_event_segment *job, uint32_t slot)
{
    if (slot >= LULL_JOB_MAX_PROCESSES)
        return 0;
    return atomic_load(&job->segment->slots[slot].pid_space);
}

void lull_event_segment_report_gpu(struct lull_event_segment *job, uint32_t slot,
                                   const struct lull_process_gpu *gpu)
{
    _Atomic uint64_t *gpus = job->segment->slots[slot % LULL_JOB_MAX_PROCESSES].gpus;
    const uint64_t known = gpu->pci | GPU_REPORTED;

    for (uint32_t i = 0; i < LULL_JOB_MAX_GPUS; i++) {
        uint64_t present = 0;

        if (!atomic_compare_exchange_strong(&gpus[i], &present, known) &&
            (present & ~GPU_COMMUNICATES) != known)
            continue;
        if (gpu->is_communicating)
            atomic_fetch_or(&gpus[i], GPU_COMMUNICATES);
        return;
    }
}

uint32_t lull_event_segment_gpus(const struct lull_event_segment *job, uint32_t slot,
                                 struct lull_process_gpu *gpus_out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; slot < LULL_JOB_MAX_PROCESSES && i < LULL_JOB_MAX_GPUS; i++) {
        const uint64_t gpu = atomic_load(&job->segment->slots[slot].gpus[i]);

        if ((gpu & GPU_REPORTED) == 0)
            continue;
        gpus_out[count].pci = gpu & ~(GPU_REPORTED | GPU_COMMUNICATES);
        gpus_out[count++].is_communicating = (gpu & GPU_COMMUNICATES) != 0;
    }
    return count;
}

void lull_event_segment_name(const struct lull_event_segment *job, uint32_t slot, uint32_t name,
                             char *name_out)
{
    const struct lull_event_name *entry;

    name_out[0] = '\0';
    if (slot >= LULL_JOB_MAX_PROCESSES || name >= LULL_JOB_MAX_NAMES)
        return;
    if (name == OTHER_NAME) {
        snprintf(name_out, LULL_JOB_NAME_BYTES, "other");
        return;
    }
    entry = &job->segment->slots[slot].names[name];
    if (atomic_load_explicit(&entry->state, memory_order_acquire) != NAME_READY)
        return;
    load_words(name_out, entry->words, NAME_WORDS);
    name_out[LULL_JOB_NAME_BYTES - 1] = '\0';
}

/* Waits for another thread that is writing this entry, but not for one that died there. */
static uint32_t settled_name_state(const struct lull_event_name *entry)
{
    uint32_t state = NAME_WRITING;

    for (int i = 0; i < SPINS && state == NAME_WRITING; i++)
        state = atomic_load_explicit(&entry->state, memory_order_acquire);
    return state;
}

uint32_t lull_event_segment_intern(struct lull_event_segment *job, uint32_t slot, const char *name)
{
    struct lull_event_name *names = job->segment->slots[slot % LULL_JOB_MAX_PROCESSES].names;
    char wanted[LULL_JOB_NAME_BYTES] = "";
    char present[LULL_JOB_NAME_BYTES];

    memcpy(wanted, name, strnlen(name, sizeof(wanted) - 1));
    for (uint32_t i = 0; i < OTHER_NAME; i++) {
        uint32_t state = NAME_FREE;

        if (atomic_compare_exchange_strong(&names[i].state, &state, NAME_WRITING)) {
            store_words(names[i].words, wanted, NAME_WORDS);
            atomic_store_explicit(&names[i].state, NAME_READY, memory_order_release);
            return i;
        }
        if (settled_name_state(&names[i]) != NAME_READY)
            continue;
        load_words(present, names[i].words, NAME_WORDS);
        if (memcmp(present, wanted, sizeof(wanted)) == 0)
            return i;
    }
    return OTHER_NAME;
}

uint32_t lull_event_segment_thread_of(struct lull_event_segment *job, uint32_t slot, pid_t id)
{
    _Atomic int32_t *threads = job->segment->slots[slot % LULL_JOB_MAX_PROCESSES].threads;
    uint32_t i;

    for (i = 0; i < LULL_JOB_MAX_THREADS - 1; i++) {
        int32_t present = 0;

        if (atomic_compare_exchange_strong(&threads[i], &present, id) || present == id)
            break;
    }
    return i;
}

uint32_t lull_event_segment_thread(struct lull_event_segment *job, uint32_t slot)
{
    return lull_event_segment_thread_of(job, slot, (pid_t)syscall(SYS_gettid));
}

uint32_t lull_event_segment_new_communicator(struct lull_event_segment *job, uint32_t slot)
{
    return atomic_fetch_add_explicit(
        &job->segment->slots[slot % LULL_JOB_MAX_PROCESSES].communicators, 1, memory_order_relaxed);
}

uint64_t lull_event_segment_lost(const struct lull_event_segment *job, uint32_t slot)
{
    if (slot >= LULL_JOB_MAX_PROCESSES)
        return 0;
    return atomic_load_explicit(&job->segment->slots[slot].lost, memory_order_relaxed);
}

void lull_event_segment_ask(struct lull_event_segment *job, uint32_t slot, uint32_t asked)
{
    if (slot < LULL_JOB_MAX_PROCESSES)
        atomic_store_explicit(&job->segment->slots[slot].asked, asked, memory_order_relaxed);
}

uint32_t lull_event_segment_asked(const struct lull_event_segment *job, uint32_t slot)
{
    return atomic_load_explicit(&job->segment->slots[slot].asked, memory_order_relaxed);
}
