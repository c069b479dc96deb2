/*
 * The MPI shim is preloaded into an MPI program and reports to the governor when the program
 * communicates.
 *
 * It is built once per MPI from that MPI's header and not linked to it. Every wrapper passes its
 * arguments and result on unchanged and never blocks or allocates. The functions behind are looked
 * up by their PMPI_ names when the first of them is called, also in an MPI that was loaded with
 * dlopen(RTLD_LOCAL), so preloading into programs without MPI is harmless.
 *
 * Both shims are preloaded into every process, Open MPI's first. In a process of another MPI it
 * passes every call on to what comes next, which is MPICH's shim: its parameters are at least as
 * wide as those of the other MPI (handles are addresses, in MPICH they are int), and each takes a
 * register or a slot of 8 bytes in the calling conventions of x86-64 and AArch64, so that they pass
 * through whole. The other way round handles would be cut: MPICH's shim never comes first.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <mpi.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/clock.h"
#include "probe/client.h"
#include "probe/mpi_library.h"
#include "probe/mpi_shim.h"

#define UNPACK(...) __VA_ARGS__

/*
 * Calls that return at once belong to one run if they are no further apart than this;  What the
 * program does between them is unknown, so the gap bounds how much may wrongly count as
 * communication. */
#define LONGEST_GAP_NS (2 * LULL_NS_PER_US)
#define SHORTEST_RUN_NS (5 * LULL_NS_PER_US)

enum { COMMUNICATORS = 128 /* a power of two */ };

enum mpi_shim_mode { UNRESOLVED, OFF, ON };

struct mpi_shim_communicator {
    _Atomic uint64_t key; /* the handle, or NO_KEY */
    uint32_t number;
    uint32_t ranks;
};

enum { NO_KEY = 0, WRITING = 1, REMOVED = 2 };

/*
 * A run of calls that return at once, on one thread: posting, testing, probing. Programs that wait
 * by polling, or drown in small messages, communicate without a single blocking call.
 */
struct mpi_shim_run {
    int64_t begin_ns; /* 0: there is no run */
    int64_t end_ns;
};

static _Atomic int mode;
static struct mpi_shim_communicator communicators[COMMUNICATORS];
static _Thread_local int is_inside __attribute__((tls_model("initial-exec")));
static _Thread_local struct mpi_shim_run run __attribute__((tls_model("initial-exec")));

/* ---- the wrapped functions ---- */

#define DECLARE(name) static __typeof__(&MPI_##name) next_##name;

/* clang-format off */
#define EACH_FUNCTION(F)                                                                           \
    F(Init) F(Init_thread) F(Finalize) F(Comm_free) F(Comm_disconnect) F(Comm_size) F(Comm_rank)   \
        F(Type_size) F(Get_library_version)
/* clang-format on */
EACH_FUNCTION(DECLARE)

#define COUNT int
#define DISPLACEMENT int
#define EACH(name) DECLARE(name)
#include "probe/mpi_names.def"
#undef EACH

struct function {
    void **next;
    const char *name;
};

#define ROW(name) {(void **)&next_##name, "PMPI_" #name},

static const struct function functions[] = {EACH_FUNCTION(ROW)
#define EACH(name) ROW(name)
#include "probe/mpi_names.def"
#undef EACH
};

static int all_found;

static void mpi_shim_find_functions(void)
{
    const int is_own = lull_mpi_is_own();

    all_found = is_own;
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
        *functions[i].next = lull_mpi_next(functions[i].name, is_own);
        if (*functions[i].next == NULL)
            all_found = 0;
    }
    atomic_store_explicit(&mode, OFF, memory_order_release);
}

int lull_mpi_is_recording(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const int now = atomic_load_explicit(&mode, memory_order_acquire);

    if (__builtin_expect(now == ON, 1))
        return !is_inside;
    if (now == UNRESOLVED)
        pthread_once(&once, mpi_shim_find_functions);
    return 0;
}

static uint64_t mpi_shim_bytes_of(int64_t count, MPI_Datatype type)
{
    return count > 0 ? (uint64_t)count * lull_mpi_type_bytes(type) : 0;
}

/* ---- communicators ---- */

static size_t communicator_index(uint64_t key)
{
    return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 57) % COMMUNICATORS;
}

static struct mpi_shim_communicator *mpi_shim_find_communicator(uint64_t key)
{
    size_t index = communicator_index(key);

    for (size_t i = 0; i < COMMUNICATORS; i++, index = (index + 1) % COMMUNICATORS) {
        const uint64_t present =
            atomic_load_explicit(&communicators[index].key, memory_order_acquire);

        if (present == key)
            return &communicators[index];
        if (present == NO_KEY)
            return NULL;
    }
    return NULL;
}

static struct mpi_shim_communicator *mpi_shim_claim_communicator(uint64_t key)
{
    size_t index = communicator_index(key);

    for (size_t i = 0; i < COMMUNICATORS; i++, index = (index + 1) % COMMUNICATORS) {
        uint64_t present = atomic_load(&communicators[index].key);

        if ((present == NO_KEY || present == REMOVED) &&
            atomic_compare_exchange_strong(&communicators[index].key, &present, WRITING))
            return &communicators[index];
    }
    return NULL;
}

/* Assigns a number to a new communicator. Two threads that use it at the same time may assign two
 * numbers. The governor then treats it as two communicators. */
static void mpi_shim_add_communicator(MPI_Comm comm, struct lull_event *event)
{
    struct mpi_shim_communicator *entry = mpi_shim_claim_communicator(lull_mpi_key_of(comm));
    int ranks = 0;

    if (entry == NULL)
        return;
    if (next_Comm_size(comm, &ranks) != MPI_SUCCESS || ranks < 0)
        ranks = 0;
    entry->number = lull_event_segment_new_communicator(lull_client.job, lull_client.slot);
    entry->ranks = (uint32_t)ranks;
    event->communicator = entry->number;
    event->ranks = entry->ranks;
    atomic_store_explicit(&entry->key, lull_mpi_key_of(comm), memory_order_release);
}

static void set_communicator(struct lull_event *event, MPI_Comm comm)
{
    const struct mpi_shim_communicator *entry = mpi_shim_find_communicator(lull_mpi_key_of(comm));

    if (entry == NULL) {
        mpi_shim_add_communicator(comm, event);
        return;
    }
    event->communicator = entry->number;
    event->ranks = entry->ranks;
}

/* Forgets a communicator that ends, because its handle may soon represent another one. */
static void mpi_shim_forget_communicator(MPI_Comm comm)
{
    struct mpi_shim_communicator *entry;

    while ((entry = mpi_shim_find_communicator(lull_mpi_key_of(comm))) != NULL)
        atomic_store_explicit(&entry->key, REMOVED, memory_order_release);
}

/* ---- recording ---- */

static void push_at(struct lull_event *event, enum lull_event_kind kind, int64_t time_ns)
{
    event->kind = (uint16_t)kind;
    event->time_ns = time_ns;
    lull_client_push(event);
}

struct lull_event lull_mpi_new_event(enum lull_operation operation, int peer, uint64_t bytes)
{
    return (struct lull_event){
        .bytes = bytes,
        .communicator = LULL_EVENT_NO_COMMUNICATOR,
        .peer = peer < 0 ? -1 : peer,
        .thread = lull_client_thread()->number,
        .operation = (uint16_t)operation,
    };
}

/*
 * A run becomes a section only when it has ended. While it lasts, it is unknown whether the program
 * waits or computes between two calls.
 */
static void mpi_shim_end_run(void)
{
    if (run.begin_ns != 0 && run.end_ns - run.begin_ns >= SHORTEST_RUN_NS) {
        struct lull_event event = lull_mpi_new_event(LULL_OPERATION_POLL, -1, 0);

        push_at(&event, LULL_EVENT_BEGIN, run.begin_ns);
        push_at(&event, LULL_EVENT_END, run.end_ns);
    }
    run.begin_ns = 0;
}

void lull_mpi_add_to_run(int64_t begin_ns, int is_done)
{
    if (run.begin_ns != 0 && begin_ns - run.end_ns > LONGEST_GAP_NS)
        mpi_shim_end_run();
    if (run.begin_ns == 0)
        run.begin_ns = begin_ns;
    run.end_ns = lull_now_ns();
    if (is_done && run.end_ns - run.begin_ns >= SHORTEST_RUN_NS)
        mpi_shim_end_run();
}

void lull_mpi_begin_section(struct lull_event *event)
{
    if (run.begin_ns != 0)
        mpi_shim_end_run();
    is_inside = 1;
    push_at(event, LULL_EVENT_BEGIN, lull_now_ns());
}

void lull_mpi_end_section(struct lull_event *event)
{
    push_at(event, LULL_EVENT_END, lull_now_ns());
    is_inside = 0;
}

void lull_mpi_begin_post(struct lull_event *event)
{
    push_at(event, LULL_EVENT_POST, lull_now_ns());
}

void lull_mpi_end_post(struct lull_event *event)
{
    lull_mpi_add_to_run(event->time_ns, 0);
}

/* ---- life of the process ---- */

static void mpi_shim_identify(void)
{
    struct lull_process_info info;
    MPI_Comm world;
    int rank = 0;
    int size = 0;

    lull_client_info(&info);
    if (lull_mpi_find_world(&world) && next_Comm_rank(world, &rank) == MPI_SUCCESS &&
        next_Comm_size(world, &size) == MPI_SUCCESS) {
        info.world_rank = rank;
        info.world_size = size;
    }
    lull_event_segment_identify(lull_client.job, lull_client.slot, &info);
}

/* A forked child is no rank of the job, and MPI does not allow it to communicate. */
static void mpi_shim_stop_in_child(void)
{
    if (atomic_load(&mode) == ON)
        atomic_store(&mode, OFF);
}

void lull_mpi_start(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    struct lull_event event;
    int length = 0;

    if (atomic_load(&mode) !=
        OFF) /* a Fortran binding calls the C function, which has started it */
        return;
    if (!all_found || next_Get_library_version(version, &length) != MPI_SUCCESS ||
        !lull_mpi_is_this(version) || (!lull_client_is_on() && !lull_client_join()))
        return;
    if (pthread_atfork(NULL, NULL, mpi_shim_stop_in_child) != 0)
        return;
    lull_mpi_learn_types(next_Type_size);
    mpi_shim_identify();
    event = lull_mpi_new_event(LULL_OPERATION_NONE, -1, 0);
    push_at(&event, LULL_EVENT_ENTER, lull_now_ns());
    atomic_store_explicit(&mode, ON, memory_order_release);
}

#define WRAP_START(name, parameters, arguments)                                                    \
    EXPORT int MPI_##name parameters                                                               \
    {                                                                                              \
        int result;                                                                                \
                                                                                                   \
        lull_mpi_is_recording(); /* called for its side effect: it finds the functions */          \
        if (next_##name == NULL)                                                                   \
            return MPI_ERR_INTERN;                                                                 \
        result = next_##name arguments;                                                            \
        if (result == MPI_SUCCESS)                                                                 \
            lull_mpi_start();                                                                      \
        return result;                                                                             \
    }

WRAP_START(Init, (int *argc, char ***argv), (argc, argv))
WRAP_START(Init_thread, (int *argc, char ***argv, int required, int *provided),
           (argc, argv, required, provided))

#define WRAP_END(name)                                                                             \
    EXPORT int MPI_##name(MPI_Comm *comm)                                                          \
    {                                                                                              \
        if (lull_mpi_is_recording() && comm != NULL)                                               \
            mpi_shim_forget_communicator(*comm);                                                   \
        return next_##name != NULL ? next_##name(comm) : MPI_ERR_INTERN;                           \
    }

WRAP_END(Comm_free)
WRAP_END(Comm_disconnect)

void lull_mpi_finish(void)
{
    struct lull_event event;

    if (!lull_mpi_is_recording())
        return;
    mpi_shim_end_run();
    event = lull_mpi_new_event(LULL_OPERATION_NONE, -1, 0);
    push_at(&event, LULL_EVENT_EXIT, lull_now_ns());
    atomic_store(&mode, OFF);
}

EXPORT int MPI_Finalize(void)
{
    lull_mpi_finish();
    return next_Finalize != NULL ? next_Finalize() : MPI_ERR_INTERN;
}

/* ---- the wrappers ---- */

#define BYTES(count, type) mpi_shim_bytes_of(count, type)
#define SENT(buffer, count, type, count_in_place, type_in_place)                                   \
    ((buffer) == MPI_IN_PLACE ? mpi_shim_bytes_of(count_in_place, type_in_place)                   \
                              : mpi_shim_bytes_of(count, type))

/* The third field of the table chooses one of these. */
#define SET_COMMUNICATOR_comm(event) set_communicator(event, comm)
#define SET_COMMUNICATOR_NO_COMMUNICATOR(event) (void)0

#define WRAP(name, operation, communicator, peer, bytes, parameters, arguments, begin, end)        \
    EXPORT int MPI_##name parameters                                                               \
    {                                                                                              \
        struct lull_event event;                                                                   \
        int result;                                                                                \
                                                                                                   \
        if (!lull_mpi_is_recording())                                                              \
            return next_##name != NULL ? next_##name arguments : MPI_ERR_INTERN;                   \
        event = lull_mpi_new_event(LULL_OPERATION_##operation, peer, bytes);                       \
        SET_COMMUNICATOR_##communicator(&event);                                                   \
        begin(&event);                                                                             \
        result = next_##name arguments;                                                            \
        end(&event);                                                                               \
        return result;                                                                             \
    }

#define WRAP_SECTION(...) WRAP(__VA_ARGS__, lull_mpi_begin_section, lull_mpi_end_section)
#define WRAP_POSTED(...) WRAP(__VA_ARGS__, lull_mpi_begin_post, lull_mpi_end_post)

#define POLL(name, operation, done, parameters, arguments)                                         \
    EXPORT int MPI_##name parameters                                                               \
    {                                                                                              \
        int64_t begin_ns;                                                                          \
        int result;                                                                                \
                                                                                                   \
        if (!lull_mpi_is_recording())                                                              \
            return next_##name != NULL ? next_##name arguments : MPI_ERR_INTERN;                   \
        begin_ns = lull_now_ns();                                                                  \
        result = next_##name arguments;                                                            \
        lull_mpi_add_to_run(begin_ns, result != MPI_SUCCESS || (done));                            \
        return result;                                                                             \
    }

#define SECTION(name, ...) WRAP_SECTION(name, __VA_ARGS__)
#define POSTED(name, ...) WRAP_POSTED(name, __VA_ARGS__)
#define COLLECTIVE(name, iname, operation, communicator, peer, bytes, parameters, arguments)       \
    WRAP_SECTION(name, operation, communicator, peer, bytes, parameters, arguments)                \
    WRAP_POSTED(iname, operation, communicator, peer, bytes,                                       \
                (UNPACK parameters, MPI_Request * request), (UNPACK arguments, request))
#include "probe/mpi_calls.def"

#if MPI_VERSION >= 4
#define LARGE_COUNT
#undef COUNT
#undef DISPLACEMENT
#undef SECTION
#undef POSTED
#undef COLLECTIVE
#define COUNT MPI_Count
#define DISPLACEMENT MPI_Aint
#define SECTION(name, ...) WRAP_SECTION(name##_c, __VA_ARGS__)
#define POSTED(name, ...) WRAP_POSTED(name##_c, __VA_ARGS__)
#define COLLECTIVE(name, iname, operation, communicator, peer, bytes, parameters, arguments)       \
    WRAP_SECTION(name##_c, operation, communicator, peer, bytes, parameters, arguments)            \
    WRAP_POSTED(iname##_c, operation, communicator, peer, bytes,                                   \
                (UNPACK parameters, MPI_Request * request), (UNPACK arguments, request))
#include "probe/mpi_calls.def"
#endif
