/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/nccl_profiler.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/client.h"
#include "probe/gpu_time.h"
#include "probe/nccl_chain.h"
#include "probe/own_gpu.h"

enum { CALLS = LULL_NCCL_COLL_API | LULL_NCCL_P2P_API, TASKS = LULL_NCCL_COLL | LULL_NCCL_P2P };
enum { WORD_CHANNELS = 16, WORDS = LULL_NCCL_CHANNELS / WORD_CHANNELS };
enum { JOIN_TRIES = 10000, JOIN_PAUSE_US = 100 };
enum { SLOW_KERNEL_TIMES = 231 /* in NCCL 2.31 kernel times cost up to 13 % [published] */ };

enum { FREE, CLAIMED, LIVE, ENDED };

/* Written by init before any other thread has its address. */
struct nccl_profiler_communicator {
    _Alignas(64) _Atomic uint32_t state;
    uint32_t version;
    uint32_t client; /* generation of the client that has announced it; 0: none has */
    uint32_t number;
    uint32_t ranks;
    int32_t pid;
    bool may_time_kernels;
    int *mask;              /* NCCL's mask, which all communicators share */
    _Atomic int asked_mask; /* value that this communicator last wrote there */
    lull_nccl_logger logger;
    struct lull_nccl_chain chain;
    struct lull_gpu_time gpu_time;
    _Atomic uint32_t unmatched;   /* number of kernels whose operation is not known, or no longer */
    _Atomic uint32_t implausible; /* number of kernels that ended before they began */
};

/*
 * An operation from its enqueuing to the end of its kernel. Every word that is changed later
 * carries its ticket, so that a change on behalf of an earlier operation fails.
 */
struct operation {
    _Alignas(64) _Atomic uint64_t counts; /* see COUNTS_... */
    _Atomic uint64_t
        channels[WORDS]; /* ticket << 32 | ended << 16 | began, with a bit per channel */
    _Atomic uint64_t bytes;
    _Atomic uint64_t whose;      /* ranks << 32 | communicator */
    _Atomic uint64_t what;       /* peer << 32 | operation << 8 | number of reporting channels */
    _Atomic uint64_t owner;      /* address of the communicator's entry */
    _Atomic uint32_t client;     /* generation of the communicator's client */
    _Atomic int64_t offset_ns;   /* from the GPU's time to ours; NO_OFFSET before the first */
    _Atomic int64_t begin_ns;    /* the reported begin; 0: not yet */
    _Atomic int64_t last_end_ns; /* the latest end of a channel, in our time */
};

/* ticket << 17 | is_over << 16 | channels that ended << 8 | channels that began */
#define COUNTS_BEGAN UINT64_C(1)
#define COUNTS_ENDED (UINT64_C(1) << 8)
#define COUNTS_OVER (UINT64_C(1) << 16)
#define COUNTS_TICKET_SHIFT 17

#define NO_OFFSET INT64_MIN

/* The last one is never alive; it is the context of communicators that found no place. */
static struct nccl_profiler_communicator communicators[LULL_NCCL_COMMUNICATORS + 1];
static _Atomic uint32_t next_communicator;
static struct operation operations[LULL_NCCL_OPERATIONS];
static _Atomic uint64_t next_ticket = 1; /* 0 is never given out */

/* ---- communicators ---- */

/* An entry is used again only after all others, so that late callbacks for it still find it ended.
 */
static struct nccl_profiler_communicator *profiler_claim_communicator(void)
{
    for (uint32_t i = 0; i < LULL_NCCL_COMMUNICATORS; i++) {
        const uint32_t index = atomic_fetch_add(&next_communicator, 1) % LULL_NCCL_COMMUNICATORS;
        struct nccl_profiler_communicator *entry = &communicators[index];
        uint32_t state = atomic_load(&entry->state);

        if ((state == FREE || state == ENDED) &&
            atomic_compare_exchange_strong(&entry->state, &state, CLAIMED))
            return entry;
    }
    return NULL;
}

/* Returns the communicator of a context that init has given out in this process and finalize has
 * not taken back. NULL: the context is no such one. */
static struct nccl_profiler_communicator *profiler_find_communicator(void *context)
{
    const uintptr_t distance = (uintptr_t)context - (uintptr_t)communicators;
    struct nccl_profiler_communicator *entry = context;

    if (distance >= sizeof(communicators) || distance % sizeof(*communicators) != 0 ||
        atomic_load_explicit(&entry->state, memory_order_acquire) != LIVE)
        return NULL;
    return entry;
}

/* Returns whether events may be pushed for a communicator that this generation of the client has
 * announced: after fork() its number means nothing to the child's slot. */
static inline bool profiler_is_on(uint32_t client)
{
    return client != 0 && lull_client_is_on() &&
           atomic_load_explicit(&lull_client.generation, memory_order_relaxed) == client;
}

/* Returns NCCL_VERSION_CODE / 100, such as 231 for 2.31.x; 0: unknown. NCCL may be loaded locally,
 * where dlsym() does not look, so it is found by an address within it. */
static int nccl_release(const void *caller)
{
    int (*get_version)(int *version) = NULL;
    void *library = NULL;
    int version = 0;
    Dl_info info;

    if (caller != NULL && dladdr(caller, &info) != 0 && info.dli_fname != NULL)
        library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        library = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return 0;
    get_version = (int (*)(int *))dlsym(library, "ncclGetVersion");
    if (get_version == NULL || get_version(&version) != 0)
        version = 0;
    dlclose(library);
    return version / 100;
}

static bool may_time_kernels(const struct lull_nccl_identity *identity)
{
    const int release = nccl_release(identity->caller);

    if (identity->version < 3)
        return false;
    if (release == 0)
        return identity->version < 7;
    return release != SLOW_KERNEL_TIMES;
}

/* Joins the job. Another thread may be joining just now; init has the time to wait for it, and
 * without waiting events would be missed. */
static bool join_job(void)
{
    for (int i = 0; i < JOIN_TRIES; i++) {
        if (lull_client_join() || lull_client_is_on())
            return true;
        if (atomic_load(&lull_client.state) != LULL_CLIENT_JOINING)
            return false;
        usleep(JOIN_PAUSE_US);
    }
    return false;
}

/* Folds the id that NCCL gives a communicator in all of its ranks; 0: there is none. */
static uint32_t fold_id(uint64_t id)
{
    return (uint32_t)(id ^ id >> 32);
}

static void profiler_announce(const struct nccl_profiler_communicator *communicator,
                              const struct lull_nccl_identity *identity)
{
    struct lull_event event = {
        .time_ns = lull_now_ns(),
        .bytes = identity->nodes > 0 ? (uint64_t)identity->nodes : 0,
        .communicator = communicator->number,
        .ranks = communicator->ranks,
        .peer = identity->rank < 0 ? -1 : identity->rank,
        .thread = fold_id(identity->id),
        .kind = LULL_EVENT_COMMUNICATOR,
        .name = LULL_JOB_MAX_NAMES,
    };

    if (identity->name != NULL)
        event.name = lull_event_segment_intern(lull_client.job, lull_client.slot, identity->name);
    lull_client_push(&event);
}

static int wanted_mask(const struct nccl_profiler_communicator *communicator)
{
    int mask = lull_nccl_chain_mask();

    if (!profiler_is_on(communicator->client))
        return mask;
    mask |= communicator->version < 5 ? TASKS : CALLS;
    if (communicator->may_time_kernels &&
        lull_event_segment_asked(atomic_load_explicit(&lull_client.job, memory_order_relaxed),
                                 atomic_load_explicit(&lull_client.slot, memory_order_relaxed)) &
            LULL_ASK_TIMES)
        mask |= LULL_NCCL_KERNEL_CH;
    return mask;
}

/* Writes the mask only when what we want has changed, because others may have changed it as well
 * (RAS of NCCL 2.31). */
static inline void renew_mask(struct nccl_profiler_communicator *communicator)
{
    const int wanted = wanted_mask(communicator);

    if (wanted == atomic_load_explicit(&communicator->asked_mask, memory_order_relaxed))
        return;
    atomic_store_explicit(&communicator->asked_mask, wanted, memory_order_relaxed);
    __atomic_store_n(communicator->mask, wanted, __ATOMIC_RELAXED);
}

static void profiler_fill(struct nccl_profiler_communicator *communicator,
                          const struct lull_nccl_identity *identity, int *mask)
{
    communicator->version = identity->version;
    communicator->ranks = identity->ranks > 0 ? (uint32_t)identity->ranks : 0;
    communicator->client = 0;
    communicator->pid = getpid();
    communicator->may_time_kernels = may_time_kernels(identity);
    communicator->mask = mask;
    communicator->logger = identity->logger;
    atomic_store(&communicator->unmatched, 0);
    atomic_store(&communicator->implausible, 0);
    lull_gpu_time_init(&communicator->gpu_time);
    lull_nccl_chain_init(&communicator->chain, identity);
    if (join_job()) {
        communicator->client = atomic_load(&lull_client.generation);
        communicator->number =
            lull_event_segment_new_communicator(lull_client.job, lull_client.slot);
        profiler_announce(communicator, identity);
        lull_own_gpu_report_current(); /* NCCL has made the communicator's device current */
    }
    atomic_store(&communicator->asked_mask, wanted_mask(communicator));
    __atomic_store_n(mask, atomic_load(&communicator->asked_mask), __ATOMIC_RELAXED);
}

int lull_nccl_init(const struct lull_nccl_identity *identity, void **context, int *mask)
{
    const int saved_errno = errno;
    struct nccl_profiler_communicator *communicator;

    if (context == NULL)
        return 0;
    *context = &communicators[LULL_NCCL_COMMUNICATORS];
    communicator = mask == NULL ? NULL : profiler_claim_communicator();
    if (communicator != NULL) {
        profiler_fill(communicator, identity, mask);
        atomic_store_explicit(&communicator->state, LIVE, memory_order_release);
        *context = communicator;
    }
    errno = saved_errno;
    return 0;
}

/* Returns what was lost through NCCL's log, which shows it only to users who request it. */
static void profiler_log_losses(const struct nccl_profiler_communicator *communicator)
{
    const uint32_t unmatched = atomic_load(&communicator->unmatched);
    const uint32_t implausible = atomic_load(&communicator->implausible);

    if (communicator->logger != NULL && (unmatched > 0 || implausible > 0))
        communicator->logger(LULL_NCCL_LOG_INFO, LULL_NCCL_LOG_PROFILE, "lull", 0,
                             "communicator %u: %u kernels of unknown operations, %u with "
                             "implausible times",
                             communicator->number, unmatched, implausible);
}

int lull_nccl_finalize(void *context)
{
    const int saved_errno = errno;
    struct nccl_profiler_communicator *communicator = profiler_find_communicator(context);
    uint32_t state = LIVE;

    if (communicator != NULL &&
        atomic_compare_exchange_strong(&communicator->state, &state, CLAIMED)) {
        lull_nccl_chain_finalize(&communicator->chain);
        profiler_log_losses(communicator);
        atomic_store_explicit(&communicator->state, ENDED, memory_order_release);
    }
    errno = saved_errno;
    return 0;
}

/* ---- what is pushed ---- */

static void push_enqueue(const struct nccl_profiler_communicator *communicator,
                         const struct lull_nccl_event *event)
{
    const struct lull_event pushed = {
        .time_ns = lull_now_ns(),
        .bytes = event->bytes,
        .communicator = communicator->number,
        .ranks = communicator->ranks,
        .peer = event->peer,
        .thread = lull_client_thread()->number,
        .kind = LULL_EVENT_ENQUEUE,
        .operation = event->operation,
    };

    lull_client_push(&pushed);
}

static void push_kernel(const struct operation *operation, enum lull_event_kind kind,
                        uint64_t ticket, int64_t time_ns)
{
    const uint64_t whose = atomic_load_explicit(&operation->whose, memory_order_relaxed);
    const uint64_t what = atomic_load_explicit(&operation->what, memory_order_relaxed);
    const struct lull_event pushed = {
        .time_ns = time_ns,
        .bytes = atomic_load_explicit(&operation->bytes, memory_order_relaxed),
        .communicator = (uint32_t)whose,
        .ranks = (uint32_t)(whose >> 32),
        .peer = (int32_t)(what >> 32),
        .thread = (uint32_t)ticket,
        .kind = (uint16_t)kind,
        .operation = (uint16_t)(what >> 8),
    };

    lull_client_push(&pushed);
}

/* ---- operations and their kernels ---- */

static struct operation *operation_of(uint64_t ticket)
{
    return &operations[ticket % LULL_NCCL_OPERATIONS];
}

/*
 * The words that carry the ticket come first: from then on changes of the earlier operation fail,
 * and what they had read of the rest is not used.
 */
static void *begin_operation(struct nccl_profiler_communicator *communicator,
                             const struct lull_nccl_event *event)
{
    const uint64_t ticket = atomic_fetch_add_explicit(&next_ticket, 1, memory_order_relaxed);
    struct operation *operation = operation_of(ticket);

    atomic_store_explicit(&operation->counts, ticket << COUNTS_TICKET_SHIFT, memory_order_relaxed);
    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&operation->channels[i], ticket << 32, memory_order_relaxed);
    atomic_store_explicit(&operation->bytes, event->bytes, memory_order_release);
    atomic_store_explicit(&operation->whose,
                          (uint64_t)communicator->ranks << 32 | communicator->number,
                          memory_order_release);
    atomic_store_explicit(&operation->what,
                          (uint64_t)(uint32_t)event->peer << 32 | (uint64_t)event->operation << 8 |
                              event->channels,
                          memory_order_release);
    atomic_store_explicit(&operation->owner, (uint64_t)(uintptr_t)communicator,
                          memory_order_release);
    atomic_store_explicit(&operation->client, communicator->client, memory_order_release);
    atomic_store_explicit(&operation->offset_ns, NO_OFFSET, memory_order_release);
    atomic_store_explicit(&operation->begin_ns, 0, memory_order_release);
    atomic_store_explicit(&operation->last_end_ns, 0, memory_order_release);
    return lull_nccl_handle(LULL_NCCL_KIND_OPERATION, ticket, 0);
}

/* Sets the bit of a channel. False: it was set already, or the ticket is old. */
static bool profiler_mark(struct operation *operation, uint64_t ticket, uint32_t channel,
                          uint64_t bit)
{
    _Atomic uint64_t *word = &operation->channels[channel / WORD_CHANNELS];
    const uint32_t shift = channel % WORD_CHANNELS;
    uint64_t present = atomic_load_explicit(word, memory_order_acquire);

    do {
        if (present >> 32 != (ticket & UINT32_MAX) || (present & bit << shift) != 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(word, &present, present | bit << shift,
                                                    memory_order_acq_rel, memory_order_acquire));
    return true;
}

#define BEGAN_BIT UINT64_C(1)
#define ENDED_BIT (UINT64_C(1) << WORD_CHANNELS)

/* Counts a channel that begins, if the operation is still the ticket's and not over. Returns the
 * counts before; 0: it was not counted. */
static uint64_t count_begin(struct operation *operation, uint64_t ticket)
{
    uint64_t counts = atomic_load_explicit(&operation->counts, memory_order_acquire);

    do {
        if (counts >> COUNTS_TICKET_SHIFT != ticket || (counts & COUNTS_OVER) != 0)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&operation->counts, &counts,
                                                    counts + COUNTS_BEGAN, memory_order_acq_rel,
                                                    memory_order_acquire));
    return counts;
}

/* Counts a channel that ends. True: it ends the operation, since all channels that began have ended
 * and no more are expected. */
static bool count_end(struct operation *operation, uint64_t ticket)
{
    const uint8_t expected = (uint8_t)atomic_load_explicit(&operation->what, memory_order_acquire);
    uint64_t counts = atomic_load_explicit(&operation->counts, memory_order_acquire);
    uint64_t next;

    do {
        if (counts >> COUNTS_TICKET_SHIFT != ticket || (counts & COUNTS_OVER) != 0)
            return false;
        next = counts + COUNTS_ENDED;
        if ((uint8_t)(next >> 8) == (uint8_t)next && (uint8_t)next >= expected)
            next |= COUNTS_OVER;
    } while (!atomic_compare_exchange_weak_explicit(&operation->counts, &counts, next,
                                                    memory_order_acq_rel, memory_order_acquire));
    return (next & COUNTS_OVER) != 0;
}

/* All channels of an operation use one offset, so that its length is exact. */
static int64_t offset_of(struct operation *operation,
                         struct nccl_profiler_communicator *communicator, uint64_t gpu_ns,
                         int64_t now_ns)
{
    const int64_t offset_ns = lull_gpu_time_offset(&communicator->gpu_time, gpu_ns, now_ns);
    int64_t present = NO_OFFSET;

    if (atomic_compare_exchange_strong(&operation->offset_ns, &present, offset_ns))
        return offset_ns;
    return present;
}

static void raise_to(_Atomic int64_t *value, int64_t at_least)
{
    int64_t present = atomic_load_explicit(value, memory_order_relaxed);

    while (present < at_least &&
           !atomic_compare_exchange_weak_explicit(value, &present, at_least, memory_order_relaxed,
                                                  memory_order_relaxed))
        continue;
}

static void *profiler_begin_kernel(struct nccl_profiler_communicator *communicator,
                                   const struct lull_nccl_event *event)
{
    const uint64_t ticket = lull_nccl_handle_ticket(event->parent);
    struct operation *operation = operation_of(ticket);
    const int64_t now_ns = lull_now_ns();
    int64_t time_ns = now_ns;
    uint64_t before;

    if (lull_nccl_handle_kind(event->parent) != LULL_NCCL_KIND_OPERATION ||
        event->channel >= LULL_NCCL_CHANNELS ||
        !profiler_mark(operation, ticket, event->channel, BEGAN_BIT)) {
        atomic_fetch_add_explicit(&communicator->unmatched, 1, memory_order_relaxed);
        return NULL;
    }
    if (event->gpu_ns != 0) {
        const int64_t offset_ns = offset_of(operation, communicator, event->gpu_ns, now_ns);

        time_ns = (int64_t)(event->gpu_ns + (uint64_t)offset_ns);
        time_ns = time_ns < now_ns ? time_ns : now_ns;
    }
    before = count_begin(operation, ticket);
    if (before == 0)
        return NULL;
    if ((before & 0xff) == 0) {
        atomic_store_explicit(&operation->begin_ns, time_ns, memory_order_release);
        push_kernel(operation, LULL_EVENT_KERNEL_BEGIN, ticket, time_ns);
    }
    return lull_nccl_handle(LULL_NCCL_KIND_KERNEL, ticket, event->channel);
}

/*
 * A kernel cannot end before it began; it seems so when the host was too late and one of the times
 * is a later kernel's. What the host sees is then the only time there is.
 */
static int64_t plausible_end(const struct operation *operation, int64_t end_ns, int64_t now_ns)
{
    struct nccl_profiler_communicator *owner =
        (struct nccl_profiler_communicator *)(uintptr_t)atomic_load_explicit(&operation->owner,
                                                                             memory_order_relaxed);

    if (end_ns >= atomic_load_explicit(&operation->begin_ns, memory_order_acquire))
        return end_ns < now_ns ? end_ns : now_ns;
    atomic_fetch_add_explicit(&owner->implausible, 1, memory_order_relaxed);
    return now_ns;
}

/* Ends a kernel on one channel; gpu_ns 0: unknown. A repeated end does nothing. */
static void profiler_end_kernel(const void *handle, uint64_t gpu_ns)
{
    const uint64_t ticket = lull_nccl_handle_ticket(handle);
    struct operation *operation = operation_of(ticket);
    int64_t offset_ns;
    int64_t now_ns;

    if (!profiler_mark(operation, ticket, lull_nccl_handle_channel(handle), ENDED_BIT))
        return;
    now_ns = lull_now_ns();
    offset_ns = atomic_load_explicit(&operation->offset_ns, memory_order_relaxed);
    raise_to(&operation->last_end_ns, gpu_ns == 0 || offset_ns == NO_OFFSET
                                          ? now_ns
                                          : (int64_t)(gpu_ns + (uint64_t)offset_ns));
    if (count_end(operation, ticket) &&
        profiler_is_on(atomic_load_explicit(&operation->client, memory_order_relaxed)))
        push_kernel(operation, LULL_EVENT_KERNEL_END, ticket,
                    plausible_end(operation, atomic_load(&operation->last_end_ns), now_ns));
}

/* ---- callbacks ---- */

/* A captured call is enqueued by each replay of its graph, not by itself. */
static void *start_call(struct nccl_profiler_communicator *communicator,
                        const struct lull_nccl_event *event)
{
    if (event->is_captured)
        return lull_nccl_handle(LULL_NCCL_KIND_CAPTURED, 0, 0);
    push_enqueue(communicator, event);
    return lull_nccl_handle(LULL_NCCL_KIND_CALL, 0, 0);
}

static void *start_task(struct nccl_profiler_communicator *communicator,
                        const struct lull_nccl_event *event)
{
    if (communicator->version < 5 ||
        lull_nccl_handle_kind(event->parent) == LULL_NCCL_KIND_CAPTURED)
        push_enqueue(communicator, event);
    return begin_operation(communicator, event);
}

static void *start_own(struct nccl_profiler_communicator *communicator,
                       const struct lull_nccl_event *event)
{
    if (!profiler_is_on(communicator->client))
        return NULL;
    switch (event->type) {
    case LULL_NCCL_COLL_API:
    case LULL_NCCL_P2P_API:
        return start_call(communicator, event);
    case LULL_NCCL_COLL:
    case LULL_NCCL_P2P:
        return start_task(communicator, event);
    case LULL_NCCL_KERNEL_CH:
        return profiler_begin_kernel(communicator, event);
    case LULL_NCCL_GROUP:
    case LULL_NCCL_GROUP_API:
        return lull_nccl_handle(LULL_NCCL_KIND_CALL, 0, 0);
    default:
        return NULL;
    }
}

/* Returns our part of a handle that NCCL has from start, which is our handle or a pair. */
static void *own_part(void *handle)
{
    if (lull_nccl_handle_kind(handle) == LULL_NCCL_KIND_PAIR)
        return lull_nccl_chain_own(handle);
    return handle;
}

int lull_nccl_start(void *context, void **handle, const void *descriptor,
                    struct lull_nccl_event *event)
{
    struct nccl_profiler_communicator *communicator = profiler_find_communicator(context);

    if (handle == NULL)
        return 0;
    *handle = NULL;
    if (communicator == NULL || descriptor == NULL ||
        (event->type == LULL_NCCL_PROXY_OP && event->pid != communicator->pid))
        return 0;
    if ((event->type & (CALLS | TASKS)) != 0)
        renew_mask(communicator);
    event->parent = own_part(event->parent);
    *handle = start_own(communicator, event);
    if (communicator->chain.table != NULL)
        *handle = lull_nccl_chain_start(&communicator->chain, *handle, descriptor, event);
    return 0;
}

int lull_nccl_stop(void *handle)
{
    void *own = own_part(handle);

    if (lull_nccl_handle_kind(own) == LULL_NCCL_KIND_KERNEL)
        profiler_end_kernel(own, 0);
    if (lull_nccl_handle_kind(handle) == LULL_NCCL_KIND_PAIR)
        lull_nccl_chain_stop(handle);
    return 0;
}

int lull_nccl_record(void *handle, int state, void *arguments, uint64_t gpu_ns)
{
    void *own = own_part(handle);

    if (state == LULL_NCCL_KERNEL_CH_STOP && lull_nccl_handle_kind(own) == LULL_NCCL_KIND_KERNEL)
        profiler_end_kernel(own, gpu_ns);
    if (lull_nccl_handle_kind(handle) == LULL_NCCL_KIND_PAIR)
        lull_nccl_chain_record(handle, state, arguments);
    return 0;
}
