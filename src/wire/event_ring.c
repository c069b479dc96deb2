/*
 * A ring is a bounded queue in which every record carries a sequence number. For position p (an
 * ever-growing count; its record is p modulo the capacity) the record's sequence is
 *   p              free for the producer that reserves p,
 *   p + 1          published,
 *   p + capacity   read, that is, free for the producer of the next lap.
 * A producer reserves p by moving head from p to p + 1, writes the record, publishes it.
 *
 * Stopped producers. One that stops between reserving and publishing leaves a hole. The reader
 * delivers what lies behind the hole and frees those records, but never frees the hole itself: only
 * its owner may end it. So no record ever has two writers. While the hole lasts, the ring is full
 * once head is a capacity ahead of it, and further events are counted as lost. When the process is
 * dead, the rest of the ring is not needed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/event_layout.h"

enum { PREFETCH = 4 }; /* number of records prefetched ahead of a push */

/* ---- sleeping until there are events, and being woken for them ---------------------------- */

#define DOZE_NS (200 * LULL_NS_PER_US)

static long event_ring_futex(_Atomic uint32_t *word, int operation, uint32_t value,
                             const struct timespec *until)
{
    return syscall(SYS_futex, word, operation, value, until, NULL, FUTEX_BITSET_MATCH_ANY);
}

/*
 * No wake-up is lost. The producer (P1) moves head and publishes its record, then (P2) reads the
 * doorbell; the reader (R1) writes SLEEPING, then (R2) reads head and records, then (R3) sleeps if
 * the doorbell still says SLEEPING, which the kernel checks atomically. All are sequentially
 * consistent, so if R2 misses P1, then R1 < R2 < P1 < P2 in their total order: P2 sees SLEEPING, or
 * the word was changed since by another thread, which wakes the reader. The one gap is a producer
 * that is killed after changing the word and before its system call; it delays the reader by
 * LONGEST_SLEEP_NS at most. Events that wake no reader may wait as long.
 */
static void ring_doorbell(struct lull_event_header *header)
{
    uint32_t expected = SLEEPING;

    if (atomic_compare_exchange_strong(&header->doorbell, &expected, AWAKE))
        event_ring_futex(&header->doorbell, FUTEX_WAKE, 1, NULL);
}

void lull_event_segment_wake(struct lull_event_segment *job)
{
    _Atomic uint32_t *doorbell = &job->segment->header.doorbell;
    const uint32_t was = atomic_exchange(doorbell, RUNG);

    if (was == SLEEPING || was == DOZING)
        event_ring_futex(doorbell, FUTEX_WAKE, 1, NULL);
}

int lull_event_segment_has_events(const struct lull_event_segment *job)
{
    const uint32_t count = claimed_slots(job->segment);

    for (uint32_t i = 0; i < count; i++) {
        struct lull_event_slot *slot = &job->segment->slots[i];
        const uint64_t end = end_of(slot, job->tails[i]);

        for (uint64_t position = job->tails[i]; position < end; position++)
            if (atomic_load(&record_at(slot, position)->sequence) == position + 1)
                return 1;
    }
    return 0;
}

/* Sleeps once in the given state. Returns 1 if lull_event_segment_wake ended the sleep. */
static int sleep_as(struct lull_event_segment *job, uint32_t state, int64_t until_ns)
{
    _Atomic uint32_t *doorbell = &job->segment->header.doorbell;
    const struct timespec until = lull_timespec_from_ns(until_ns);
    uint32_t expected = AWAKE;

    if (!atomic_compare_exchange_strong(doorbell, &expected, state)) {
        atomic_store(doorbell, AWAKE);
        return 1;
    }
    if (!lull_event_segment_has_events(job))
        event_ring_futex(doorbell, FUTEX_WAIT_BITSET, state, &until);
    return atomic_exchange(doorbell, AWAKE) == RUNG;
}

void lull_event_segment_wait(struct lull_event_segment *job, int64_t until_ns)
{
    int64_t now_ns = lull_now_ns();
    int64_t doze_until_ns = job->woken_ns + DOZE_NS;

    if (until_ns < 0)
        until_ns = 0;
    if (doze_until_ns > until_ns)
        doze_until_ns = until_ns;
    if (!lull_event_segment_has_events(job) && now_ns < doze_until_ns &&
        sleep_as(job, DOZING, doze_until_ns))
        return;
    while (!lull_event_segment_has_events(job) && (now_ns = lull_now_ns()) < until_ns) {
        const int64_t longest_ns = now_ns + LONGEST_SLEEP_NS;

        if (sleep_as(job, SLEEPING, until_ns < longest_ns ? until_ns : longest_ns))
            return;
    }
    job->woken_ns = lull_now_ns();
}

/* ---- events ------------------------------------------------------------------------------- */

/*
 * The record is of a later lap, so another thread has moved head. Returns 0 if it has not: the
 * ring is corrupt, and trying again would never end.
 */
static int reload_head(const struct lull_event_slot *slot, uint64_t *position)
{
    const uint64_t before = *position;

    *position = atomic_load_explicit(&slot->head, memory_order_relaxed);
    return *position != before;
}

/*
 * Work that the host enqueues runs later, and no decision depends on it at once: its event waits
 * for the next event that does matter, for the reader's own timer, or until the ring fills. Waking
 * the reader takes ten times as long as a push.
 */
static int is_worth_waking_for(const struct lull_event *event, uint64_t position)
{
    if (event->kind != LULL_EVENT_ENQUEUE && event->kind != LULL_EVENT_COMMUNICATOR)
        return 1;
    return position % (LULL_JOB_RING_EVENTS / 8) == 0;
}

void lull_event_push(struct lull_event_segment *job, uint32_t slot_index,
                     const struct lull_event *event)
{
    struct lull_event_slot *slot = &job->segment->slots[slot_index % LULL_JOB_MAX_PROCESSES];
    uint64_t position = atomic_load_explicit(&slot->head, memory_order_relaxed);
    struct lull_event_record *record;

    for (;;) {
        uint64_t sequence;

        record = record_at(slot, position);
        sequence = atomic_load_explicit(&record->sequence, memory_order_acquire);
        if (sequence == position) {
            if (atomic_compare_exchange_weak(&slot->head, &position, position + 1))
                break;
        } else if ((int64_t)(sequence - position) < 0 || !reload_head(slot, &position)) {
            atomic_fetch_add_explicit(&slot->lost, 1, memory_order_relaxed);
            return;
        }
    }
    /* The reader has written to the records ahead, so they lie in its cache: fetching one takes
     * longer than a push, and is begun here. */
    __builtin_prefetch(record_at(slot, position + PREFETCH), 1);
    store_words(record->words, event, EVENT_WORDS);
    atomic_store(&record->sequence, position + 1);
    if (atomic_load(&job->segment->header.doorbell) == SLEEPING &&
        is_worth_waking_for(event, position))
        ring_doorbell(&job->segment->header);
}

/* Half a ring ahead of head lies the first record that must have been read. */
int lull_event_segment_is_half_free(const struct lull_event_segment *job, uint32_t slot_index)
{
    const struct lull_event_slot *slot = &job->segment->slots[slot_index % LULL_JOB_MAX_PROCESSES];
    const uint64_t position =
        atomic_load_explicit(&slot->head, memory_order_relaxed) + LULL_JOB_RING_EVENTS / 2;

    return atomic_load_explicit(&slot->records[position % LULL_JOB_RING_EVENTS].sequence,
                                memory_order_relaxed) == position;
}

uint32_t lull_event_segment_read(struct lull_event_segment *job, uint32_t slot_index,
                                 struct lull_event *events_out, uint32_t max)
{
    uint64_t *tail;
    struct lull_event_slot *slot;
    uint64_t end;
    uint32_t count = 0;

    if (slot_index >= claimed_slots(job->segment))
        return 0;
    tail = &job->tails[slot_index];
    slot = &job->segment->slots[slot_index];
    end = end_of(slot, *tail);
    for (uint64_t position = *tail; position < end && count < max; position++) {
        struct lull_event_record *record = record_at(slot, position);
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
