/*
 * The segment of a job's events with a process that writes arbitrary values at arbitrary times:
 * between two loads of the governor or of a probe the input may change the memory. Reading
 * terminates and returns no more than requested; texts are terminated; indices stay within the
 * segment.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdatomic.h>

#include "folder.h"
#include "input.h"

static void meddle(void);

#undef atomic_load
#undef atomic_load_explicit
#define atomic_load(address) (meddle(), *(address))
#define atomic_load_explicit(address, order) (meddle(), *(address))

#include "wire/event_ring.c"
#include "wire/event_segment.c"

enum { ACTS = 128, SLOTS = 2, MAX_READ = 64, RECORDS_USED = 8 };

static struct input input;
static struct lull_event_memory *victim;
static bool is_meddling;

/* A place in the header, in the data of a slot, or in the first records of a ring. */
static void overwrite(uint8_t what)
{
    struct lull_event_slot *const slot = &victim->slots[what % SLOTS];
    const uint8_t at = input_byte(&input);
    const uint64_t value = what & 2 ? input_u64(&input) : input_byte(&input);

    switch (what >> 2 & 7) {
    case 0:
        victim->header.claimed = (uint32_t)value;
        break;
    case 1:
        victim->header.doorbell = (uint32_t)value;
        break;
    case 2:
        slot->head = value;
        break;
    case 3:
        slot->records[at % RECORDS_USED].sequence = value;
        break;
    case 4:
        slot->records[at % RECORDS_USED].words[value % EVENT_WORDS] = value;
        break;
    case 5:
        slot->version = (uint32_t)value;
        slot->info[at % INFO_WORDS] = value * UINT64_C(0x0101010101010101);
        break;
    case 6:
        slot->names[at % LULL_JOB_MAX_NAMES].state = (uint32_t)value;
        slot->names[at % LULL_JOB_MAX_NAMES].words[value % NAME_WORDS] = UINT64_MAX;
        break;
    default:
        slot->threads[at % LULL_JOB_MAX_THREADS] = (int32_t)value;
    }
}

static void meddle(void)
{
    uint8_t what;

    if (!is_meddling || input_is_over(&input))
        return;
    what = input_byte(&input);
    if (what >= 0xe0)
        overwrite(what);
}

static void read_events(struct lull_event_segment *job, uint32_t slot, uint32_t max)
{
    static struct lull_event events[MAX_READ + 1];
    const uint64_t tail = job->tails[slot % SLOTS];
    uint32_t count;

    memset(&events[max], 0x5a, sizeof(events[max]));
    count = lull_event_segment_read(job, slot, events, max);
    require(count <= max && ((const uint8_t *)&events[max])[0] == 0x5a);
    require(slot < SLOTS || count == 0 || slot < LULL_JOB_MAX_PROCESSES);
    require(job->tails[slot % SLOTS] - tail <= LULL_JOB_RING_EVENTS);
}

static void look(struct lull_event_segment *job, uint32_t slot, uint8_t name)
{
    struct lull_process_info info;
    char text[LULL_JOB_NAME_BYTES];

    require(lull_event_segment_process_count(job) <= LULL_JOB_MAX_PROCESSES);
    if (lull_event_segment_process(job, slot, &info) == 0)
        require(memchr(info.program, '\0', sizeof(info.program)) != NULL);
    lull_event_segment_name(job, slot, name, text);
    require(memchr(text, '\0', sizeof(text)) != NULL);
    (void)lull_event_segment_lost(job, slot);
    lull_event_segment_ask(job, slot, name);
}

/* The probe's side, which shares the memory with what the other processes of the job write. */
static void probe(struct lull_event_segment *job, uint32_t slot, uint8_t what)
{
    const struct lull_event event = {.kind = LULL_EVENT_BEGIN, .time_ns = what};
    const struct lull_process_info info = {.pid = what, .program = "python3"};

    lull_event_push(job, slot, &event);
    require(lull_event_segment_intern(job, slot, "forward") <= OTHER_NAME);
    require(lull_event_segment_thread_of(job, slot, 1 + what) < LULL_JOB_MAX_THREADS);
    lull_event_segment_identify(job, slot, &info);
    (void)lull_event_segment_is_half_free(job, slot);
    (void)lull_event_segment_asked(job, slot);
}

static void act(struct lull_event_segment *job, uint8_t what)
{
    /* Governors take slots from below the count; the last one is there as well. */
    const uint32_t slot = what & 0x80 ? LULL_JOB_MAX_PROCESSES : what >> 3 & 1;

    switch (what & 7) {
    case 0:
    case 1:
        read_events(job, slot, what & 0x40 ? MAX_READ : 1);
        break;
    case 2:
        look(job, slot, input_byte(&input));
        break;
    case 3:
        probe(job, slot % SLOTS, input_byte(&input));
        break;
    case 4:
        (void)lull_event_segment_has_events(job);
        lull_event_segment_wait(job, 0);
        break;
    case 5:
        (void)is_our_format(&job->segment->header);
        break;
    default:
        overwrite(input_byte(&input));
    }
}

/* Clears the data that an input has written. The last slots of the ring stay zero. */
static void begin(struct lull_event_segment *job)
{
    memset(&job->segment->header, 0, sizeof(job->segment->header));
    event_segment_write_header(&job->segment->header);
    atomic_store(&job->segment->header.claimed, SLOTS);
    memset(job->tails, 0, LULL_JOB_MAX_PROCESSES * sizeof(job->tails[0]));
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct lull_event_slot *const slot = &job->segment->slots[i];

        memset(slot, 0, offsetof(struct lull_event_slot, records));
        for (uint64_t k = 0; k < LULL_JOB_RING_EVENTS; k++)
            slot->records[k].sequence = k;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lull_event_segment *job;
    char path[96];

    is_meddling = false;
    if (job == NULL) {
        snprintf(path, sizeof(path), "%s/job", folder());
        require(lull_event_segment_create(path, &job, NULL) == 0);
        victim = job->segment;
    }
    begin(job);
    input = (struct input){data, size};
    is_meddling = true;
    for (int i = 0; i < ACTS && !input_is_over(&input); i++)
        act(job, input_byte(&input));
    return 0;
}
