/*
 * The gloo shim is preloaded into PyTorch programs that communicate with gloo (on CPUs). It reports
 * to the governor when they communicate and when they wait for communication.
 *
 * PyTorch runs gloo's collectives on threads of its own while the program computes on: their events
 * carry those threads' numbers and expose nothing. What the program waits for is exposed: a work
 * object's wait(), and the end of a backward pass of DistributedDataParallel, which waits for all
 * gradients and copies them back. Only the main thread's waits are reported, because PyTorch's
 * threads also wait for each other. The main thread has number 0, whichever thread communicates
 * first.
 *
 * Linked to neither library; without them nothing here is ever called, so preloading into other
 * programs is harmless. Functions are wrapped by their symbols. C++ exceptions pass through (this
 * file is compiled with -fexceptions) and end the section.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/client.h"
#include "probe/loaded_symbol.h"

#define EXPORT __attribute__((visibility("default")))

enum { MAX_YIELDS = 10000, MAIN_THREAD = 0 };

/* ---- the wrapped functions ---- */

/*
 * Python loads its libraries for themselves (RTLD_LOCAL), where RTLD_NEXT does not look: then the
 * function is in what the calling library needs, or, at last, in a library of a known name.
 */
static void *gloo_shim_lookup_in(const char *library_name, const char *symbol)
{
    void *library = dlopen(library_name, RTLD_LAZY | RTLD_NOLOAD);
    void *found = NULL;

    if (library != NULL) {
        found = dlsym(library, symbol);
        dlclose(library);
    }
    return found;
}

/* The caller has loaded the library, so this is reached only if the call could not be resolved
 * without the shim either. Returning would falsely indicate that the communication took place. */
__attribute__((noreturn)) static void end_without(const char *symbol)
{
    dprintf(STDERR_FILENO, "symbol lookup error: undefined symbol: %s\n", symbol);
    _exit(127); /* as the dynamic linker does */
}

static void *gloo_shim_lookup(const char *symbol, const void *caller)
{
    static const char *const names[] = {"libgloo.so.0", "libtorch_cpu.so"};
    void *found = dlsym(RTLD_NEXT, symbol);
    Dl_info info;

    if (found == NULL && dladdr(caller, &info) != 0 && info.dli_fname != NULL)
        found = gloo_shim_lookup_in(info.dli_fname, symbol);
    for (size_t i = 0; found == NULL && i < sizeof(names) / sizeof(names[0]); i++)
        found = gloo_shim_lookup_in(names[i], symbol);
    if (found == NULL)
        found = lull_loaded_symbol(symbol);
    if (found == NULL)
        end_without(symbol);
    return found;
}

static inline void *gloo_shim_find_behind(void *_Atomic *next, const char *symbol,
                                          const void *caller)
{
    void *behind = atomic_load_explicit(next, memory_order_relaxed);

    if (__builtin_expect(behind == NULL, 0)) {
        behind = gloo_shim_lookup(symbol, caller);
        atomic_store_explicit(next, behind, memory_order_relaxed);
    }
    return behind;
}

/* ---- life of the process ---- */

static void gloo_shim_enter(struct lull_event_segment *job, uint32_t slot)
{
    const struct lull_event event = {
        .time_ns = lull_now_ns(),
        .communicator = LULL_EVENT_NO_COMMUNICATOR,
        .peer = -1,
        .thread = lull_event_segment_thread_of(job, slot, getpid()),
        .kind = LULL_EVENT_ENTER,
    };

    lull_event_push(job, slot, &event);
}

__attribute__((constructor)) static void gloo_shim_prepare(void)
{
    lull_client.on_join = gloo_shim_enter;
}

__attribute__((destructor)) static void gloo_shim_leave(void)
{
    struct lull_event event = {
        .time_ns = lull_now_ns(),
        .communicator = LULL_EVENT_NO_COMMUNICATOR,
        .peer = -1,
        .kind = LULL_EVENT_EXIT,
    };

    if (!lull_client_is_on())
        return;
    event.thread = lull_client_thread()->number;
    lull_client_push(&event);
}

/*
 * The first call of a process joins. A concurrent call waits for it (some 100 us, once), so that no
 * call is missing from the sequence that the governor learns.
 */
static int gloo_shim_is_recording(void)
{
    if (__builtin_expect(lull_client_is_on(), 1))
        return 1;
    for (int i = 0; i < MAX_YIELDS && !lull_client_join(); i++) {
        if (atomic_load(&lull_client.state) == LULL_CLIENT_OFF)
            return 0;
        sched_yield();
    }
    return lull_client_is_on();
}

/* ---- recording ---- */

/* Begins a section; an event of kind 0 means that it is not recorded. */
static struct lull_event gloo_shim_begin_section(enum lull_operation operation, int is_wait)
{
    struct lull_event event = {
        .communicator = LULL_EVENT_NO_COMMUNICATOR, .peer = -1, .operation = (uint16_t)operation};

    if (!gloo_shim_is_recording())
        return event;
    event.thread = lull_client_thread()->number;
    if (is_wait && event.thread != MAIN_THREAD)
        return event;
    event.kind = LULL_EVENT_BEGIN;
    event.time_ns = lull_now_ns();
    lull_client_push(&event);
    return event;
}

/* Ends a section, also when an exception passes through. A child that was forked within is not in
 * the job. */
static void gloo_shim_end_section(struct lull_event *event)
{
    if (event->kind == 0 || !lull_client_is_on())
        return;
    event->kind = LULL_EVENT_END;
    event->time_ns = lull_now_ns();
    lull_client_push(event);
}

/* ---- what a work object waits for ---- */

/* Words in the names of PyTorch's classes of work; a word comes before the words that it contains.
 */
static const struct {
    const char *word;
    enum lull_operation operation;
} work_words[] = {
    {"ReduceScatter", LULL_OPERATION_REDUCE_SCATTER},
    {"Allreduce", LULL_OPERATION_ALLREDUCE},
    {"Allgather", LULL_OPERATION_ALLGATHER},
    {"Alltoall", LULL_OPERATION_ALLTOALL},
    {"Broadcast", LULL_OPERATION_BROADCAST},
    {"Barrier", LULL_OPERATION_BARRIER},
    {"Reduce", LULL_OPERATION_REDUCE},
    {"Gather", LULL_OPERATION_GATHER},
    {"Scatter", LULL_OPERATION_SCATTER},
};

/*
 * Finds the operation by the name of the object's class, as the C++ ABI (Itanium) lays it out: the
 * type information stands before the table of virtual functions, and the name second in it.
 */
static enum lull_operation operation_of_work(const void *work)
{
    const struct type_information {
        const void *table;
        const char *name;
    } *const *const functions = *(const struct type_information *const *const *)work;
    const struct type_information *type = functions[-1];

    for (size_t i = 0; type != NULL && i < sizeof(work_words) / sizeof(work_words[0]); i++)
        if (strstr(type->name, work_words[i].word) != NULL)
            return work_words[i].operation;
    return LULL_OPERATION_WAIT;
}

/* ---- the wrappers ---- */

#define WRAP(prefix, name, operation, is_wait, symbol, result, parameters, arguments)              \
    EXPORT result prefix##_##name parameters __asm__(symbol);                                      \
    EXPORT result prefix##_##name parameters                                                       \
    {                                                                                              \
        static void *_Atomic next;                                                                 \
        result(*behind) parameters;                                                                \
                                                                                                   \
        *(void **)&behind = gloo_shim_find_behind(&next, symbol, __builtin_return_address(0));     \
        struct lull_event section __attribute__((cleanup(gloo_shim_end_section), unused)) =        \
            gloo_shim_begin_section(operation, is_wait);                                           \
                                                                                                   \
        return behind arguments;                                                                   \
    }

#define COLLECTIVE(name, operation, symbol)                                                        \
    WRAP(gloo, name, LULL_OPERATION_##operation, 0, symbol, void, (void *options), (options))
#define WAIT(name, operation, symbol, result, parameters, arguments)                               \
    WRAP(torch, name, operation, 1, symbol, result, parameters, arguments)
#include "probe/gloo_calls.def"
