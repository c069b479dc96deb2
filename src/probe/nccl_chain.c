/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/nccl_chain.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/event.h"

enum { TRIES = 64 /* places searched for a new pair; chosen */, LONGEST_NAME = 512 };

/* The lowest bits of a pair's state, below its ticket. */
enum { GONE = 0, WRITING, RUNNING, STOPPED, KEPT /* stopped, but a graph's parent */ };
enum { STATE_BITS = 3, STATE_MASK = (1 << STATE_BITS) - 1 };

/* It is changed in this order: the state to WRITING, the rest, the state to RUNNING. */
struct pair {
    _Alignas(64) _Atomic uint64_t state; /* ticket << STATE_BITS | state */
    void *_Atomic own;
    void *_Atomic theirs;
    const struct lull_nccl_chain *_Atomic chain;
    _Atomic uint32_t is_captured;
};

static struct pair pairs[LULL_NCCL_PAIRS];
static _Atomic uint64_t next_ticket = 1;
static void *library;
static int mask; /* the other plugin's mask for all communicators, as NCCL has one */

/* ---- the library ---- */

/* Finds the plugin as NCCL does: by a path, by a library's name, or by the middle of one. */
static void nccl_chain_load(void)
{
    const char *name = secure_getenv(LULL_NCCL_CHAIN_ENV);
    char full[LONGEST_NAME];

    if (name == NULL || name[0] == '\0')
        return;
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL || strchr(name, '/') != NULL ||
        (size_t)snprintf(full, sizeof(full), "libnccl-profiler-%s.so", name) >= sizeof(full))
        return;
    library = dlopen(full, RTLD_NOW | RTLD_LOCAL);
}

static const struct lull_nccl_profiler *
nccl_chain_find_table(const struct lull_nccl_identity *identity)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct lull_nccl_profiler *table;
    char symbol[32];

    pthread_once(&once, nccl_chain_load);
    if (library == NULL)
        return NULL;
    snprintf(symbol, sizeof(symbol), "ncclProfiler_v%u", identity->version);
    table = dlsym(library, symbol);
    return table == identity->table ? NULL : table; /* nothing is passed on to ourselves */
}

static int nccl_chain_call_init(const struct lull_nccl_profiler *table,
                                const struct lull_nccl_identity *identity, void **context)
{
    if (identity->version < 4)
        return ((lull_nccl_init_v1)table->init)(context, &mask);
    if (identity->version < 5)
        return ((lull_nccl_init_v4)table->init)(context, &mask, identity->name, identity->id,
                                                identity->nodes, identity->ranks, identity->rank,
                                                identity->logger);
    return ((lull_nccl_init_v5)table->init)(context, identity->id, &mask, identity->name,
                                            identity->nodes, identity->ranks, identity->rank,
                                            identity->logger);
}

void lull_nccl_chain_init(struct lull_nccl_chain *chain, const struct lull_nccl_identity *identity)
{
    const struct lull_nccl_profiler *table = nccl_chain_find_table(identity);

    *chain = (struct lull_nccl_chain){.version = identity->version};
    if (table != NULL && nccl_chain_call_init(table, identity, &chain->context) == 0)
        chain->table = table;
}

int lull_nccl_chain_mask(void)
{
    return __atomic_load_n(&mask, __ATOMIC_RELAXED);
}

/* ---- pairs ---- */

/*
 * Claims a place whose event is over for the next ticket and makes its state WRITING. NULL: there
 * is none. Tickets are given out once, so no two threads write to one place.
 */
static struct pair *claim_pair(uint64_t *ticket_out)
{
    for (int i = 0; i < TRIES; i++) {
        const uint64_t ticket = atomic_fetch_add_explicit(&next_ticket, 1, memory_order_relaxed);
        struct pair *pair = &pairs[ticket % LULL_NCCL_PAIRS];
        uint64_t present = atomic_load(&pair->state);

        if (((present & STATE_MASK) == GONE || (present & STATE_MASK) == STOPPED) &&
            atomic_compare_exchange_strong(&pair->state, &present,
                                           ticket << STATE_BITS | WRITING)) {
            *ticket_out = ticket;
            return pair;
        }
    }
    return NULL;
}

struct found {
    void *own;
    void *theirs;
    const struct lull_nccl_chain *chain;
    struct pair *pair;
    uint64_t state;
};

/* Copies a pair. False: its place belongs to another one by now. */
static bool nccl_chain_find_pair(const void *handle, struct found *found_out)
{
    const uint64_t ticket = lull_nccl_handle_ticket(handle);
    struct pair *pair = &pairs[ticket % LULL_NCCL_PAIRS];
    const uint64_t state = atomic_load_explicit(&pair->state, memory_order_acquire);

    if (lull_nccl_handle_kind(handle) != LULL_NCCL_KIND_PAIR || state >> STATE_BITS != ticket ||
        (state & STATE_MASK) < RUNNING)
        return false;
    found_out->own = atomic_load_explicit(&pair->own, memory_order_acquire);
    found_out->theirs = atomic_load_explicit(&pair->theirs, memory_order_acquire);
    found_out->chain = atomic_load_explicit(&pair->chain, memory_order_acquire);
    found_out->pair = pair;
    found_out->state = state;
    return atomic_load_explicit(&pair->state, memory_order_relaxed) >> STATE_BITS == ticket;
}

void *lull_nccl_chain_own(void *handle)
{
    struct found found;

    return nccl_chain_find_pair(handle, &found) ? found.own : NULL;
}

static void *their_part(void *handle)
{
    struct found found;

    return nccl_chain_find_pair(handle, &found) ? found.theirs : NULL;
}

/* ---- passing on ---- */

/* For each event, by the number of its bit: the events for whose sake it is wanted, by NCCL's rule.
 */
static const int wanted_for[] = {
#define NETWORK (LULL_NCCL_PROXY_OP | LULL_NCCL_PROXY_STEP | LULL_NCCL_NET_PLUGIN)
#define KERNEL (LULL_NCCL_KERNEL_CH | LULL_NCCL_KERNEL_PHASE)
#define ENGINE (LULL_NCCL_CE_COLL | LULL_NCCL_CE_SYNC | LULL_NCCL_CE_BATCH)
#define TASK (LULL_NCCL_COLL | LULL_NCCL_P2P | NETWORK | KERNEL)
    LULL_NCCL_GROUP | TASK,
    LULL_NCCL_COLL | NETWORK | KERNEL,
    LULL_NCCL_P2P | NETWORK | KERNEL,
    NETWORK,
    LULL_NCCL_PROXY_STEP | LULL_NCCL_NET_PLUGIN,
    LULL_NCCL_PROXY_CTRL,
    KERNEL,
    LULL_NCCL_NET_PLUGIN,
    LULL_NCCL_GROUP_API | LULL_NCCL_COLL_API | LULL_NCCL_P2P_API | LULL_NCCL_KERNEL_LAUNCH |
        LULL_NCCL_GROUP | TASK | ENGINE,
    LULL_NCCL_COLL_API | LULL_NCCL_COLL | NETWORK | KERNEL | ENGINE,
    LULL_NCCL_P2P_API | LULL_NCCL_P2P | NETWORK | KERNEL,
    LULL_NCCL_KERNEL_LAUNCH,
    ENGINE,
    LULL_NCCL_CE_SYNC,
    LULL_NCCL_CE_BATCH,
    LULL_NCCL_KERNEL_PHASE,
#undef NETWORK
#undef KERNEL
#undef ENGINE
#undef TASK
};

static bool nccl_chain_is_wanted(uint64_t type)
{
    for (size_t i = 0; i < sizeof(wanted_for) / sizeof(*wanted_for); i++)
        if (type == UINT64_C(1) << i)
            return (wanted_for[i] & lull_nccl_chain_mask()) != 0;
    return false;
}

/* The documented size of a descriptor in each version: the other plugin may read what Lull does not
 * declare, so a copy has to hold all of it, and must not read beyond it. */
static const uint8_t descriptor_bytes[] = {0, 120, 128, 120, 104, 112, 112, 136};

enum { MAX_DESCRIPTOR_BYTES = 136 };

_Static_assert(sizeof(descriptor_bytes) == LULL_NCCL_VERSIONS + 1, "a size for each version");

union descriptor {
    uint8_t bytes[MAX_DESCRIPTOR_BYTES];
    struct lull_nccl_descriptor_v1 v1;
    struct lull_nccl_descriptor_v5 v5;
};

/* Copies the descriptor and puts the other plugin's handles instead of ours. */
static void nccl_chain_translate(union descriptor *to, const void *from, uint32_t version,
                                 uint64_t type)
{
    memcpy(to, from, descriptor_bytes[version]);
    to->v1.parent = their_part(to->v1.parent); /* it lies at the same place in all versions */
    if (version >= 5 && type == LULL_NCCL_COLL)
        to->v5.coll.group = their_part(to->v5.coll.group);
    if (version >= 5 && type == LULL_NCCL_P2P)
        to->v5.p2p.group = their_part(to->v5.p2p.group);
}

void *lull_nccl_chain_start(const struct lull_nccl_chain *chain, void *own, const void *descriptor,
                            const struct lull_nccl_event *event)
{
    union descriptor theirs;
    struct pair *pair;
    void *handle = NULL;
    uint64_t ticket;

    if (!nccl_chain_is_wanted(event->type) || (pair = claim_pair(&ticket)) == NULL)
        return own;
    nccl_chain_translate(&theirs, descriptor, chain->version, event->type);
    chain->table->start(chain->context, &handle, &theirs);
    if (handle == NULL) {
        atomic_store(&pair->state, ticket << STATE_BITS | GONE);
        return own;
    }
    atomic_store_explicit(&pair->own, own, memory_order_release);
    atomic_store_explicit(&pair->theirs, handle, memory_order_release);
    atomic_store_explicit(&pair->chain, chain, memory_order_release);
    atomic_store_explicit(&pair->is_captured, event->is_captured, memory_order_release);
    atomic_store_explicit(&pair->state, ticket << STATE_BITS | RUNNING, memory_order_release);
    return lull_nccl_handle(LULL_NCCL_KIND_PAIR, ticket, 0);
}

void lull_nccl_chain_stop(void *handle)
{
    struct found found;
    uint64_t next;

    if (!nccl_chain_find_pair(handle, &found) || (found.state & STATE_MASK) != RUNNING)
        return;
    next = atomic_load_explicit(&found.pair->is_captured, memory_order_acquire) ? KEPT : STOPPED;
    next |= found.state & ~(uint64_t)STATE_MASK;
    if (atomic_compare_exchange_strong(&found.pair->state, &found.state, next))
        found.chain->table->stop(found.theirs);
}

void lull_nccl_chain_record(void *handle, int state, void *arguments)
{
    struct found found;

    if (nccl_chain_find_pair(handle, &found) && (found.state & STATE_MASK) == RUNNING)
        found.chain->table->record(found.theirs, state, arguments);
}

void lull_nccl_chain_finalize(const struct lull_nccl_chain *chain)
{
    if (chain->table == NULL)
        return;
    for (size_t i = 0; i < LULL_NCCL_PAIRS; i++) {
        uint64_t state = atomic_load(&pairs[i].state);

        if ((state & STATE_MASK) >= RUNNING && atomic_load(&pairs[i].chain) == chain)
            atomic_compare_exchange_strong(&pairs[i].state, &state, state & ~(uint64_t)STATE_MASK);
    }
    chain->table->finalize(chain->context);
}
