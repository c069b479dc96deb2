/*
 * The memory layout of the segment of a job's events. Only event_segment.c (the file, and the
 * identity of a slot's process) and event_ring.c (events, and waking the reader) use it.
 *
 * Layout: one header page, then LULL_JOB_MAX_PROCESSES slots of the same size. The file is sparse;
 * a slot takes memory when it is claimed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_WIRE_EVENT_LAYOUT_H
#define LULL_WIRE_EVENT_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "wire/event.h"

/* The reader looks for events this often without being woken, because a producer may be killed
 * before it wakes the reader. */
#define LONGEST_SLEEP_NS (100 * LULL_NS_PER_MS)

enum {
    PAGE_BYTES = 4096,
    EVENT_WORDS = sizeof(struct lull_event) / sizeof(uint64_t),
    INFO_WORDS = sizeof(struct lull_process_info) / sizeof(uint64_t),
    NAME_WORDS = LULL_JOB_NAME_BYTES / sizeof(uint64_t),
    OTHER_NAME = LULL_JOB_MAX_NAMES - 1, /* stands for all names that found no room */
};

/* The state of a slot. A released slot has no owner until another process has claimed it and
 * written its identity. */
enum { SLOT_TAKEN, SLOT_RELEASED, SLOT_CHANGING };

/* A GPU in a slot. */
#define GPU_REPORTED (UINT64_C(1) << 62)
#define GPU_COMMUNICATES (UINT64_C(1) << 63)

/* The doorbell. Only SLEEPING obliges a producer to wake the reader. */
enum { AWAKE, SLEEPING, DOZING, RUNG };

_Static_assert(sizeof(struct lull_event) == EVENT_WORDS * sizeof(uint64_t), "whole words");
_Static_assert(sizeof(struct lull_process_info) == INFO_WORDS * sizeof(uint64_t), "whole words");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "shared by processes");

struct lull_event_header {
    _Atomic uint64_t magic; /* written last */
    uint32_t version;
    uint32_t processes;
    uint32_t ring_events;
    uint32_t event_bytes;
    uint64_t segment_bytes;
    _Alignas(64) _Atomic uint32_t doorbell;
    _Alignas(64) _Atomic uint32_t claimed; /* slots */
    _Atomic uint32_t without_room;         /* number of processes that found no memory for a slot */
};

struct lull_event_name {
    _Atomic uint32_t state;
    _Atomic uint64_t words[NAME_WORDS];
};

struct lull_event_record {
    _Atomic uint64_t sequence;
    _Atomic uint64_t words[EVENT_WORDS];
};

struct lull_event_slot {
    /* Written by producers. */
    _Alignas(64) _Atomic uint64_t head;
    _Atomic uint64_t lost;
    _Atomic uint32_t communicators;
    /* Written by the reader only, read by producers. */
    _Alignas(64) _Atomic uint32_t asked;
    /* Identity: version is odd while it is being written and 0 before the first time. */
    _Alignas(64) _Atomic uint32_t version;
    _Atomic uint64_t
        start_ticks; /* start time of the process since boot: distinguishes it from a later one */
    _Atomic uint64_t pid_space; /* inode of the PID namespace of its process id; 0: unknown */
    _Atomic uint32_t holder;
    _Atomic uint64_t gpus[LULL_JOB_MAX_GPUS]; /* PCI addresses, a bit of GPU_...; 0: free */
    _Atomic uint64_t info[INFO_WORDS];
    _Atomic int32_t threads[LULL_JOB_MAX_THREADS]; /* kernel thread ids */
    struct lull_event_name names[LULL_JOB_MAX_NAMES];
    _Alignas(PAGE_BYTES) struct lull_event_record records[LULL_JOB_RING_EVENTS];
};

struct lull_event_memory {
    _Alignas(PAGE_BYTES) struct lull_event_header header;
    _Alignas(PAGE_BYTES) struct lull_event_slot slots[LULL_JOB_MAX_PROCESSES];
};

struct lull_event_segment {
    struct lull_event_memory *segment;
    uint64_t *tails;  /* reader only: per slot, everything before it is delivered */
    int64_t woken_ns; /* reader only: the last time events ended a wait */
    char *path;       /* reader only: the file to remove */
    int fd;           /* reader only: keeps the file locked (job_file.h); -1 none */
    int guard;        /* reader only: of the mapping (base/mapping.h) */
};

/* ---- words: text and records are copied once, by whole words, into private memory ---- */

static inline void store_words(_Atomic uint64_t *to, const void *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word;

        memcpy(&word, (const char *)from + i * sizeof(word), sizeof(word));
        atomic_store_explicit(&to[i], word, memory_order_relaxed);
    }
}

static inline void load_words(void *to, const _Atomic uint64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t word = atomic_load_explicit(&from[i], memory_order_relaxed);

        memcpy((char *)to + i * sizeof(word), &word, sizeof(word));
    }
}

/* ---- slots and records ---- */

static inline uint32_t claimed_slots(const struct lull_event_memory *segment)
{
    const uint32_t claimed = atomic_load_explicit(&segment->header.claimed, memory_order_acquire);

    return claimed < LULL_JOB_MAX_PROCESSES ? claimed : LULL_JOB_MAX_PROCESSES;
}

/* Returns the end of the records that may contain events: one lap after tail at most, because a
 * process may have written any value into head. */
static inline uint64_t end_of(const struct lull_event_slot *slot, uint64_t tail)
{
    const uint64_t reserved = atomic_load(&slot->head) - tail;

    return tail + (reserved < LULL_JOB_RING_EVENTS ? reserved : LULL_JOB_RING_EVENTS);
}

static inline struct lull_event_record *record_at(struct lull_event_slot *slot, uint64_t position)
{
    return &slot->records[position % LULL_JOB_RING_EVENTS];
}

/* Returns whether an event of any slot can be read. */
int lull_event_segment_has_events(const struct lull_event_segment *job);

#endif
