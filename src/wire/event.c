/*
 * Layout: one header page, then LULL_JOB_MAX_PROCESSES slots of the same size. The file is sparse;
 * a slot takes memory when it is claimed.
 *
 * A ring is a bounded queue in which every record carries a sequence number. For position p (an
 * ever-growing count; its record is p modulo the capacity) the record's sequence is
 *   p              free for the producer that reserves p,
 *   p + 1          published,
 *   p + capacity   read, that is, free for the producer of the next lap.
 * A producer reserves p by moving head from p to p + 1, writes the record, publishes it.
 *
 * Stopped producers. One that stops between reserving and publishing leaves a hole. The reader
 * delivers what lies behind the hole and frees those records, but never frees the hole itself:
 * only its owner may end it. So no record ever has two writers. While the hole lasts, the ring is
 * full once head is a capacity ahead of it, and further events are counted as lost. When the
 * process is dead nobody needs the rest of the ring.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/event.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define MAGIC UINT64_C(0x4a4f424c4c554c31)
#define DOZE_NS (200 * LULL_NS_PER_US)
#define LONGEST_SLEEP_NS (100 * LULL_NS_PER_MS)

enum {
    FORMAT_VERSION = 3,
    PAGE_BYTES = 4096,
    EVENT_WORDS = sizeof(struct lull_event) / sizeof(uint64_t),
    INFO_WORDS = sizeof(struct lull_process_info) / sizeof(uint64_t),
    NAME_WORDS = LULL_JOB_NAME_BYTES / sizeof(uint64_t),
    OTHER_NAME = LULL_JOB_MAX_NAMES - 1,
    SPINS = 1000,
    PREFETCH = 4, /* records */
};

/* The doorbell. Only SLEEPING obliges a producer to wake the reader. */
enum { AWAKE, SLEEPING, DOZING, RUNG };

enum { NAME_FREE, NAME_WRITING, NAME_READY };

_Static_assert(sizeof(struct lull_event) == EVENT_WORDS * sizeof(uint64_t), "whole words");
_Static_assert(sizeof(struct lull_process_info) == INFO_WORDS * sizeof(uint64_t), "whole words");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "shared by processes");

struct header {
    _Atomic uint64_t magic; /* written last */
    uint32_t version;
    uint32_t processes;
    uint32_t ring_events;
    uint32_t event_bytes;
    uint64_t segment_bytes;
    _Alignas(64) _Atomic uint32_t doorbell;
    _Alignas(64) _Atomic uint32_t claimed; /* slots */
};

struct name {
    _Atomic uint32_t state;
    _Atomic uint64_t words[NAME_WORDS];
};

struct record {
    _Atomic uint64_t sequence;
    _Atomic uint64_t words[EVENT_WORDS];
};

struct slot {
    /* Producers. */
    _Alignas(64) _Atomic uint64_t head;
    _Atomic uint64_t lost;
    _Atomic uint32_t communicators;
    /* Read by producers, written by the reader alone. */
    _Alignas(64) _Atomic uint32_t asked;
    /* Identity: version is odd while it is being written and 0 before the first time. */
    _Alignas(64) _Atomic uint32_t version;
    _Atomic uint64_t start_ticks; /* of the process since boot: tells it from a later one */
    _Atomic uint64_t info[INFO_WORDS];
    _Atomic int32_t threads[LULL_JOB_MAX_THREADS]; /* kernel thread ids */
    struct name names[LULL_JOB_MAX_NAMES];
    _Alignas(PAGE_BYTES) struct record records[LULL_JOB_RING_EVENTS];
};

struct segment {
    _Alignas(PAGE_BYTES) struct header header;
    _Alignas(PAGE_BYTES) struct slot slots[LULL_JOB_MAX_PROCESSES];
};

struct lull_job {
    struct segment *segment;
    uint64_t *tails;  /* reader only: per slot, everything before it is delivered */
    int64_t woken_ns; /* reader only: the last time events ended a wait */
    char *path;       /* reader only: the file to remove */
    int fd;           /* reader only: keeps the file locked (job_file.h); -1 none */
};

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

/* ---- words: text and records are copied once, by whole words, into private memory ---- */

static void store_words(_Atomic uint64_t *to, const void *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word;

        memcpy(&word, (const char *)from + i * sizeof(word), sizeof(word));
        atomic_store_explicit(&to[i], word, memory_order_relaxed);
    }
}

static void load_words(void *to, const _Atomic uint64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t word = atomic_load_explicit(&from[i], memory_order_relaxed);

        memcpy((char *)to + i * sizeof(word), &word, sizeof(word));
    }
}

/* ---- creating, joining, leaving ---- */

static void write_header(struct header *header)
{
    header->version = FORMAT_VERSION;
    header->processes = LULL_JOB_MAX_PROCESSES;
    header->ring_events = LULL_JOB_RING_EVENTS;
    header->event_bytes = sizeof(struct lull_event);
    header->segment_bytes = sizeof(struct segment);
    atomic_store(&header->magic, MAGIC);
}

static int is_our_format(const struct header *header)
{
    return atomic_load(&header->magic) == MAGIC && header->version == FORMAT_VERSION &&
           header->processes == LULL_JOB_MAX_PROCESSES &&
           header->ring_events == LULL_JOB_RING_EVENTS &&
           header->event_bytes == sizeof(struct lull_event) &&
           header->segment_bytes == sizeof(struct segment);
}

static int map_segment(int fd, struct segment **segment_out)
{
    void *memory = mmap(NULL, sizeof(struct segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (memory == MAP_FAILED)
        return -errno;
    *segment_out = memory;
    return 0;
}

/* The file, locked and mapped. */
static int create_file(const char *path, struct segment **segment_out)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int result = 0;

    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || ftruncate(fd, sizeof(struct segment)) < 0 ||
        fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, offsetof(struct segment, slots)) < 0)
        result = -errno;
    if (result == 0)
        result = map_segment(fd, segment_out);
    if (result == 0)
        return fd;
    close(fd);
    unlink(path);
    return result;
}

int lull_job_create(const char *path, struct lull_job **job_out, struct lull_error *err)
{
    struct lull_job *job = calloc(1, sizeof(*job));
    int result = -ENOMEM;

    if (job == NULL)
        goto fail;
    job->tails = calloc(LULL_JOB_MAX_PROCESSES, sizeof(*job->tails));
    job->path = strdup(path);
    if (job->tails == NULL || job->path == NULL)
        goto free_job;
    result = create_file(path, &job->segment);
    if (result < 0)
        goto free_job;
    job->fd = result;
    write_header(&job->segment->header);
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

void lull_job_destroy(struct lull_job *job)
{
    const int saved_errno = errno;

    if (job == NULL)
        return;
    munmap(job->segment, sizeof(struct segment));
    if (job->path != NULL)
        unlink(job->path);
    if (job->fd >= 0)
        close(job->fd);
    free(job->tails);
    free(job->path);
    free(job);
    errno = saved_errno;
}

/* Start time of this process in clock ticks since boot; 0 where /proc does not tell. */
static uint64_t own_start_ticks(void)
{
    char text[1024];
    const char *field;
    ssize_t size;
    uint64_t ticks = 0;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    size = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (size <= 0)
        return 0;
    text[size] = '\0';
    field = strrchr(text, ')'); /* ends field 2, which may hold anything; ours is field 22 */
    for (int i = 2; field != NULL && i < 22; i++)
        field = strchr(field + 1, ' ');
    if (field != NULL)
        ticks = strtoull(field + 1, NULL, 10);
    return ticks;
}

static int read_info(const struct slot *slot, struct lull_process_info *info_out)
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

/* Two probes of one process may come here at once; whoever loses keeps what the other wrote. */
static void write_info(struct slot *slot, const struct lull_process_info *info)
{
    uint32_t version = atomic_load_explicit(&slot->version, memory_order_relaxed);

    if (version % 2 != 0 || !atomic_compare_exchange_strong(&slot->version, &version, version + 1))
        return;
    atomic_thread_fence(memory_order_release);
    store_words(slot->info, info, INFO_WORDS);
    atomic_store_explicit(&slot->version, version + 2, memory_order_release);
}

static uint32_t claimed_slots(const struct segment *segment)
{
    const uint32_t claimed = atomic_load_explicit(&segment->header.claimed, memory_order_acquire);

    return claimed < LULL_JOB_MAX_PROCESSES ? claimed : LULL_JOB_MAX_PROCESSES;
}

static int find_own_slot(const struct segment *segment, uint64_t start_ticks, uint32_t *slot_out)
{
    const uint32_t count = claimed_slots(segment);

    for (uint32_t i = 0; i < count; i++) {
        const struct slot *slot = &segment->slots[i];
        struct lull_process_info info;

        if (read_info(slot, &info) == 0 && info.pid == getpid() &&
            atomic_load(&slot->start_ticks) == start_ticks) {
            *slot_out = i;
            return 0;
        }
    }
    return -ENOENT;
}

static int reserve_slot_memory(int fd, uint32_t slot)
{
    const off_t start = (off_t)(offsetof(struct segment, slots) + slot * sizeof(struct slot));

    if (fallocate(fd, FALLOC_FL_KEEP_SIZE, start, sizeof(struct slot)) < 0)
        return -errno;
    return 0;
}

/* Slots are claimed in order and never given back, so that slots 0..claimed-1 stay readable. */
static int claim_slot(struct segment *segment, int fd, uint64_t start_ticks,
                      const struct lull_process_info *info, uint32_t *slot_out)
{
    uint32_t index = atomic_load(&segment->header.claimed);
    struct slot *slot;
    int result;

    do {
        if (index >= LULL_JOB_MAX_PROCESSES)
            return -ENOSPC;
        result = reserve_slot_memory(fd, index);
        if (result < 0)
            return result;
    } while (!atomic_compare_exchange_strong(&segment->header.claimed, &index, index + 1));

    slot = &segment->slots[index];
    for (uint64_t i = 0; i < LULL_JOB_RING_EVENTS; i++)
        atomic_store_explicit(&slot->records[i].sequence, i, memory_order_relaxed);
    atomic_store(&slot->start_ticks, start_ticks);
    write_info(slot, info);
    *slot_out = index;
    return 0;
}

static int open_segment(const char *path, struct segment **segment_out)
{
    struct stat status;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    int result;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) < 0)
        result = -errno;
    else if (!S_ISREG(status.st_mode) || status.st_size != sizeof(struct segment))
        result = LULL_E_FORMAT;
    else
        result = map_segment(fd, segment_out);
    if (result == 0 && !is_our_format(&(*segment_out)->header)) {
        munmap(*segment_out, sizeof(struct segment));
        result = LULL_E_FORMAT;
    }
    if (result < 0) {
        close(fd);
        return result;
    }
    return fd;
}

int lull_job_join(const char *path, const struct lull_process_info *info, struct lull_job **job_out,
                  uint32_t *slot_out, struct lull_error *err)
{
    struct lull_job *job = calloc(1, sizeof(*job));
    const uint64_t start_ticks = own_start_ticks();
    uint32_t slot = 0;
    int result;
    int fd;

    if (job == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory", path);
    job->fd = -1;
    fd = open_segment(path, &job->segment);
    if (fd < 0) {
        free(job);
        return lull_error_set(err, fd, "%s: %s", path,
                              fd == LULL_E_FORMAT ? "not a job segment of this version"
                                                  : strerror(-fd));
    }
    result = find_own_slot(job->segment, start_ticks, &slot);
    if (result < 0)
        result = claim_slot(job->segment, fd, start_ticks, info, &slot);
    close(fd);
    if (result < 0) {
        lull_job_destroy(job);
        return lull_error_set(err, result, "%s: cannot claim a slot: %s", path, strerror(-result));
    }
    *job_out = job;
    *slot_out = slot;
    return 0;
}

/* ---- what a slot says about its process ---- */

uint32_t lull_job_process_count(const struct lull_job *job)
{
    return claimed_slots(job->segment);
}

int lull_job_process(const struct lull_job *job, uint32_t slot, struct lull_process_info *info_out)
{
    if (slot >= LULL_JOB_MAX_PROCESSES)
        return -EINVAL;
    return read_info(&job->segment->slots[slot], info_out);
}

void lull_job_identify(struct lull_job *job, uint32_t slot, const struct lull_process_info *info)
{
    write_info(&job->segment->slots[slot % LULL_JOB_MAX_PROCESSES], info);
}

void lull_job_name(const struct lull_job *job, uint32_t slot, uint32_t name, char *name_out)
{
    const struct name *entry;

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
static uint32_t settled_name_state(const struct name *entry)
{
    uint32_t state = NAME_WRITING;

    for (int i = 0; i < SPINS && state == NAME_WRITING; i++)
        state = atomic_load_explicit(&entry->state, memory_order_acquire);
    return state;
}

uint32_t lull_job_intern(struct lull_job *job, uint32_t slot, const char *name)
{
    struct name *names = job->segment->slots[slot % LULL_JOB_MAX_PROCESSES].names;
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

uint32_t lull_job_thread_of(struct lull_job *job, uint32_t slot, pid_t id)
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

uint32_t lull_job_thread(struct lull_job *job, uint32_t slot)
{
    return lull_job_thread_of(job, slot, (pid_t)syscall(SYS_gettid));
}

uint32_t lull_job_new_communicator(struct lull_job *job, uint32_t slot)
{
    return atomic_fetch_add_explicit(
        &job->segment->slots[slot % LULL_JOB_MAX_PROCESSES].communicators, 1, memory_order_relaxed);
}

/* ---- the doorbell ---- */

static long futex(_Atomic uint32_t *word, int operation, uint32_t value,
                  const struct timespec *until)
{
    return syscall(SYS_futex, word, operation, value, until, NULL, FUTEX_BITSET_MATCH_ANY);
}

/*
 * No wake-up is lost. The producer (P1) moves head and publishes its record, then (P2) reads the
 * doorbell; the reader (R1) writes SLEEPING, then (R2) reads head and records, then (R3) sleeps if
 * the doorbell still says SLEEPING, which the kernel checks atomically. All are sequentially
 * consistent, so if R2 misses P1, then R1 < R2 < P1 < P2 in their total order: P2 sees SLEEPING,
 * or the word was changed since by someone who wakes the reader himself. The one gap is a
 * producer that is killed after changing the word and before its system call; it delays the
 * reader by LONGEST_SLEEP_NS at most. As long may wait what nobody is woken for.
 */
static void ring_doorbell(struct header *header)
{
    uint32_t expected = SLEEPING;

    if (atomic_compare_exchange_strong(&header->doorbell, &expected, AWAKE))
        futex(&header->doorbell, FUTEX_WAKE, 1, NULL);
}

void lull_job_wake(struct lull_job *job)
{
    _Atomic uint32_t *doorbell = &job->segment->header.doorbell;
    const uint32_t was = atomic_exchange(doorbell, RUNG);

    if (was == SLEEPING || was == DOZING)
        futex(doorbell, FUTEX_WAKE, 1, NULL);
}

/* Where the records that may hold something end. head may be anything: one lap at most. */
static uint64_t end_of(const struct slot *slot, uint64_t tail)
{
    const uint64_t reserved = atomic_load(&slot->head) - tail;

    return tail + (reserved < LULL_JOB_RING_EVENTS ? reserved : LULL_JOB_RING_EVENTS);
}

static struct record *record_at(struct slot *slot, uint64_t position)
{
    return &slot->records[position % LULL_JOB_RING_EVENTS];
}

static int has_events(const struct lull_job *job)
{
    const uint32_t count = claimed_slots(job->segment);

    for (uint32_t i = 0; i < count; i++) {
        struct slot *slot = &job->segment->slots[i];
        const uint64_t end = end_of(slot, job->tails[i]);

        for (uint64_t position = job->tails[i]; position < end; position++)
            if (atomic_load(&record_at(slot, position)->sequence) == position + 1)
                return 1;
    }
    return 0;
}

/* Sleeps once in the given state. Returns 1 when lull_job_wake was the reason. */
static int sleep_as(struct lull_job *job, uint32_t state, int64_t until_ns)
{
    _Atomic uint32_t *doorbell = &job->segment->header.doorbell;
    const struct timespec until = lull_timespec_from_ns(until_ns);
    uint32_t expected = AWAKE;

    if (!atomic_compare_exchange_strong(doorbell, &expected, state)) {
        atomic_store(doorbell, AWAKE);
        return 1;
    }
    if (!has_events(job))
        futex(doorbell, FUTEX_WAIT_BITSET, state, &until);
    return atomic_exchange(doorbell, AWAKE) == RUNG;
}

void lull_job_wait(struct lull_job *job, int64_t until_ns)
{
    int64_t now_ns = lull_now_ns();
    int64_t doze_until_ns = job->woken_ns + DOZE_NS;

    if (until_ns < 0)
        until_ns = 0;
    if (doze_until_ns > until_ns)
        doze_until_ns = until_ns;
    if (!has_events(job) && now_ns < doze_until_ns && sleep_as(job, DOZING, doze_until_ns))
        return;
    while (!has_events(job) && (now_ns = lull_now_ns()) < until_ns) {
        const int64_t longest_ns = now_ns + LONGEST_SLEEP_NS;

        if (sleep_as(job, SLEEPING, until_ns < longest_ns ? until_ns : longest_ns))
            return;
    }
    job->woken_ns = lull_now_ns();
}

/* ---- the ring ---- */

/*
 * The record is of a later lap, so another thread has moved head. Returns 0 if it has not: the
 * ring is corrupt, and trying again would never end.
 */
static int reload_head(const struct slot *slot, uint64_t *position)
{
    const uint64_t before = *position;

    *position = atomic_load_explicit(&slot->head, memory_order_relaxed);
    return *position != before;
}

/*
 * What the host enqueues runs later, and nothing is decided on it at once: it waits for the next
 * event that does matter, for the reader's own timer, or until the ring fills. Waking the reader
 * takes ten times as long as a push.
 */
static int is_worth_waking_for(const struct lull_event *event, uint64_t position)
{
    if (event->kind != LULL_EVENT_ENQUEUE && event->kind != LULL_EVENT_COMMUNICATOR)
        return 1;
    return position % (LULL_JOB_RING_EVENTS / 8) == 0;
}

void lull_event_push(struct lull_job *job, uint32_t slot_index, const struct lull_event *event)
{
    struct slot *slot = &job->segment->slots[slot_index % LULL_JOB_MAX_PROCESSES];
    uint64_t position = atomic_load_explicit(&slot->head, memory_order_relaxed);
    struct record *record;

    for (;;) {
        uint64_t sequence;

        record = record_at(slot, position);
        sequence = atomic_load_explicit(&record->sequence, memory_order_acquire);
        if (sequence == position) {
            if (atomic_compare_exchange_weak(&slot->head, &position, position + 1))
                break;
        } else if ((int64_t)(sequence - position) < 0) {
            atomic_fetch_add_explicit(&slot->lost, 1, memory_order_relaxed);
            return;
        } else if (!reload_head(slot, &position)) {
            atomic_fetch_add_explicit(&slot->lost, 1, memory_order_relaxed);
            return;
        }
    }
    /* The reader has written to the records ahead; fetching them back takes longer than a push. */
    __builtin_prefetch(record_at(slot, position + PREFETCH), 1);
    store_words(record->words, event, EVENT_WORDS);
    atomic_store(&record->sequence, position + 1);
    if (atomic_load(&job->segment->header.doorbell) == SLEEPING &&
        is_worth_waking_for(event, position))
        ring_doorbell(&job->segment->header);
}

/* Half a ring ahead of head lies the first record that must have been read. */
int lull_job_is_half_free(const struct lull_job *job, uint32_t slot_index)
{
    const struct slot *slot = &job->segment->slots[slot_index % LULL_JOB_MAX_PROCESSES];
    const uint64_t position =
        atomic_load_explicit(&slot->head, memory_order_relaxed) + LULL_JOB_RING_EVENTS / 2;

    return atomic_load_explicit(&slot->records[position % LULL_JOB_RING_EVENTS].sequence,
                                memory_order_relaxed) == position;
}

uint32_t lull_job_read(struct lull_job *job, uint32_t slot_index, struct lull_event *events_out,
                       uint32_t max)
{
    uint64_t *tail;
    struct slot *slot;
    uint64_t end;
    uint32_t count = 0;

    if (slot_index >= claimed_slots(job->segment))
        return 0;
    tail = &job->tails[slot_index];
    slot = &job->segment->slots[slot_index];
    end = end_of(slot, *tail);
    for (uint64_t position = *tail; position < end && count < max; position++) {
        struct record *record = record_at(slot, position);
        uint64_t sequence = atomic_load_explicit(&record->sequence, memory_order_acquire);

        if (sequence == position + 1) {
            load_words(&events_out[count++], record->words, EVENT_WORDS);
            sequence = position + LULL_JOB_RING_EVENTS;
            atomic_store_explicit(&record->sequence, sequence, memory_order_release);
        }
        if (position == *tail && sequence == position + LULL_JOB_RING_EVENTS)
            ++*tail;
    }
    return count;
}

uint64_t lull_job_lost(const struct lull_job *job, uint32_t slot)
{
    if (slot >= LULL_JOB_MAX_PROCESSES)
        return 0;
    return atomic_load_explicit(&job->segment->slots[slot].lost, memory_order_relaxed);
}

void lull_job_ask(struct lull_job *job, uint32_t slot, uint32_t asked)
{
    if (slot < LULL_JOB_MAX_PROCESSES)
        atomic_store_explicit(&job->segment->slots[slot].asked, asked, memory_order_relaxed);
}

uint32_t lull_job_asked(const struct lull_job *job, uint32_t slot)
{
    return atomic_load_explicit(&job->segment->slots[slot].asked, memory_order_relaxed);
}
