/* Sleeping until there are events, and being woken for them. SPDX-License-Identifier: Apache-2.0 */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/event_layout.h"

#define DOZE_NS (200 * LULL_NS_PER_US)

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
void lull_event_ring_doorbell(struct lull_event_header *header)
{
    uint32_t expected = SLEEPING;

    if (atomic_compare_exchange_strong(&header->doorbell, &expected, AWAKE))
        futex(&header->doorbell, FUTEX_WAKE, 1, NULL);
}

void lull_event_segment_wake(struct lull_event_segment *job)
{
    _Atomic uint32_t *doorbell = &job->segment->header.doorbell;
    const uint32_t was = atomic_exchange(doorbell, RUNG);

    if (was == SLEEPING || was == DOZING)
        futex(doorbell, FUTEX_WAKE, 1, NULL);
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
        futex(doorbell, FUTEX_WAIT_BITSET, state, &until);
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
