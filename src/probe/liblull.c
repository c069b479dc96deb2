/*
 * The public C API for sections and steps. Energy windows are in window.c.
 *
 * Names get numbers in a table of this library, which outlives a fork; the number of a name in the
 * process' slot may differ and is looked up when the process joins.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lull/lull.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "probe/client.h"

enum { OTHER_SECTION = LULL_JOB_MAX_NAMES - 1, HINTS = 64 };

struct section {
    char name[LULL_JOB_NAME_BYTES];
    _Atomic uint32_t slot_name; /* index of the name in the process' slot */
};

static struct section sections[LULL_JOB_MAX_NAMES];
static _Atomic uint32_t section_count;                          /* names below it never change */
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER; /* guards additions to sections */
static _Atomic uint8_t
    hints[HINTS]; /* the section that a pointer meant last time, by a hash of it */

static void liblull_intern(uint32_t section, struct lull_event_segment *job, uint32_t slot)
{
    atomic_store_explicit(&sections[section].slot_name,
                          lull_event_segment_intern(job, slot, sections[section].name),
                          memory_order_relaxed);
}

static void intern_all(struct lull_event_segment *job, uint32_t slot)
{
    const uint32_t count = atomic_load(&section_count);

    for (uint32_t i = 0; i < count; i++)
        liblull_intern(i, job, slot);
    atomic_store(&sections[OTHER_SECTION].slot_name, OTHER_SECTION);
}

/* A child of a process whose other thread was registering would wait forever. */
static void liblull_before_fork(void)
{
    pthread_mutex_lock(&registering);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&registering);
}

__attribute__((constructor)) static void liblull_prepare(void)
{
    lull_client.on_join = intern_all;
    pthread_atfork(liblull_before_fork, after_fork, after_fork);
}

static int liblull_is_named(uint32_t section, const char *name)
{
    return strncmp(sections[section].name, name, LULL_JOB_NAME_BYTES - 1) == 0;
}

static uint32_t liblull_find(const char *name)
{
    const uint32_t count = atomic_load_explicit(&section_count, memory_order_acquire);
    uint32_t i;

    for (i = 0; i < count && !liblull_is_named(i, name); i++)
        continue;
    if (i < count)
        return i;
    return OTHER_SECTION;
}

static uint32_t liblull_add(const char *name)
{
    uint32_t section;

    pthread_mutex_lock(&registering);
    section = liblull_find(name);
    if (section == OTHER_SECTION && section_count < OTHER_SECTION) {
        section = section_count;
        memcpy(sections[section].name, name, strnlen(name, LULL_JOB_NAME_BYTES - 1));
        atomic_store_explicit(&section_count, section + 1, memory_order_release);
        if (lull_client_is_on())
            liblull_intern(section, lull_client.job, lull_client.slot);
    }
    pthread_mutex_unlock(&registering);
    return section;
}

uint32_t lull_section_register(const char *name)
{
    uint32_t section;

    if (name == NULL)
        return OTHER_SECTION;
    section = liblull_find(name);
    if (section != OTHER_SECTION)
        return section;
    return liblull_add(name);
}

/* The hint is only the first place to search. The text decides, so a reused buffer is harmless. */
static uint32_t section_of(const char *name)
{
    _Atomic uint8_t *hint = &hints[((uintptr_t)name ^ (uintptr_t)name >> 6) % HINTS];
    uint32_t section = atomic_load_explicit(hint, memory_order_relaxed);

    if (section < atomic_load_explicit(&section_count, memory_order_acquire) &&
        liblull_is_named(section, name))
        return section;
    section = lull_section_register(name);
    atomic_store_explicit(hint, (uint8_t)section, memory_order_relaxed);
    return section;
}

/* Without a job this costs one load and one branch. */
static int liblull_is_on(void)
{
    const uint32_t state = atomic_load_explicit(&lull_client.state, memory_order_acquire);

    if (state == LULL_CLIENT_ON)
        return 1;
    return state == LULL_CLIENT_NEW && lull_client_join();
}

static inline void liblull_push(enum lull_event_kind kind, const struct lull_client_thread *thread,
                                uint32_t section)
{
    const struct lull_event event = {
        .time_ns = lull_now_ns(),
        .communicator = LULL_EVENT_NO_COMMUNICATOR,
        .peer = -1,
        .thread = thread->number,
        .kind = (uint16_t)kind,
        .operation = kind == LULL_EVENT_STEP ? LULL_OPERATION_NONE : LULL_OPERATION_USER,
        .name = atomic_load_explicit(&sections[section].slot_name, memory_order_relaxed),
    };

    lull_client_push(&event);
}

static inline void liblull_enter(uint32_t section)
{
    struct lull_client_thread *thread = lull_client_thread();

    if ((thread->open_sections >> section & 1) != 0)
        liblull_push(LULL_EVENT_END, thread, section);
    thread->open_sections |= UINT64_C(1) << section;
    liblull_push(LULL_EVENT_BEGIN, thread, section);
}

static inline void liblull_leave(uint32_t section)
{
    struct lull_client_thread *thread = lull_client_thread();

    if ((thread->open_sections >> section & 1) == 0)
        return;
    thread->open_sections &= ~(UINT64_C(1) << section);
    liblull_push(LULL_EVENT_END, thread, section);
}

void lull_section_enter(uint32_t section)
{
    if (section < LULL_JOB_MAX_NAMES && liblull_is_on())
        liblull_enter(section);
}

void lull_section_leave(uint32_t section)
{
    if (section < LULL_JOB_MAX_NAMES && liblull_is_on())
        liblull_leave(section);
}

void lull_section_begin(const char *name)
{
    if (name != NULL && liblull_is_on())
        liblull_enter(section_of(name));
}

void lull_section_end(const char *name)
{
    if (name != NULL && liblull_is_on())
        liblull_leave(section_of(name));
}

void lull_step(void)
{
    if (liblull_is_on())
        liblull_push(LULL_EVENT_STEP, lull_client_thread(), OTHER_SECTION);
}
