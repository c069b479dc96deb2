/*
 * A call stores its time when it begins and clears it when it ends. The thread that clears the time
 * owns the driver next: the thread that made the call, or the spare that takes over from it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/driver_owner.h"

#include <assert.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/thread.h"

/* The longest calls that were published take some 20 ms, and a mistake costs only that two calls
 * overlap. With one look more this stays well below 100 ms. */
#define PATIENCE_NS (50 * LULL_NS_PER_MS)

/* While there are calls the spare looks this often; after a second without any it sleeps until it
 * is woken, which costs the next call a system call. */
#define LOOK_NS (20 * LULL_NS_PER_MS)
#define QUIET_NS LULL_NS_PER_S

/* State of the calling thread. Driver calls are made deep inside functions that other threads call
 * as well, so it cannot be passed to them. */
static _Thread_local struct {
    struct lull_driver_owner *owner; /* NULL: it has none */
    bool is_lost;
    int64_t call_ns;
    uint32_t gpu;
} own;

void lull_driver_owner_init(struct lull_driver_owner *owner)
{
    *owner = (struct lull_driver_owner){0};
    pthread_mutex_init(&owner->lock, NULL);
    lull_thread_init_condition(&owner->changed);
}

void lull_driver_owner_fini(struct lull_driver_owner *owner)
{
    pthread_cond_destroy(&owner->changed);
    pthread_mutex_destroy(&owner->lock);
}

/* Takes the turn out of a call that lasts too long. The lock is held, so that the thread inside,
 * which takes it too, finds its GPU marked. */
static bool driver_owner_take_over(struct lull_driver_owner *owner, int64_t call_ns)
{
    if (lull_now_ns() < call_ns + PATIENCE_NS ||
        !atomic_compare_exchange_strong(&owner->call_ns, &call_ns, 0))
        return false;
    atomic_store(&owner->away_thread[owner->call_gpu], atomic_load(&owner->thread));
    atomic_store(&owner->away_ns[owner->call_gpu], call_ns);
    return true;
}

/* Sleeps until the next look, or, where there have been no calls for long, until one begins. */
static void sleep_on(struct lull_driver_owner *owner, int64_t last_call_ns)
{
    const int64_t now_ns = lull_now_ns();
    const struct timespec look = lull_timespec_from_ns(now_ns + LOOK_NS);

    if (now_ns - last_call_ns < QUIET_NS) {
        pthread_cond_timedwait(&owner->changed, &owner->lock, &look);
        return;
    }
    atomic_store(&owner->is_spare_asleep, true);
    /* A call that began before the store is seen here; one after it wakes this thread. */
    if (atomic_load(&owner->call_ns) == 0)
        pthread_cond_wait(&owner->changed, &owner->lock);
    atomic_store(&owner->is_spare_asleep, false);
}

bool lull_driver_owner_wait(struct lull_driver_owner *owner)
{
    int64_t last_call_ns = 0;
    bool has_turn = false;

    pthread_mutex_lock(&owner->lock);
    while (!owner->is_over && !has_turn) {
        const int64_t call_ns = atomic_load(&owner->call_ns);

        if (call_ns != 0)
            last_call_ns = call_ns;
        has_turn = !owner->is_taken || (call_ns != 0 && driver_owner_take_over(owner, call_ns));
        if (!has_turn)
            sleep_on(owner, last_call_ns);
    }
    owner->is_taken = owner->is_taken || has_turn;
    if (has_turn)
        atomic_store(&owner->thread, lull_process_thread());
    pthread_mutex_unlock(&owner->lock);
    own.owner = has_turn ? owner : NULL;
    own.is_lost = false;
    own.call_ns = 0;
    return has_turn;
}

void lull_driver_owner_end(struct lull_driver_owner *owner)
{
    pthread_mutex_lock(&owner->lock);
    owner->is_over = true;
    pthread_cond_broadcast(&owner->changed);
    pthread_mutex_unlock(&owner->lock);
}

bool lull_driver_owner_is_lost(void)
{
    return own.is_lost;
}

void lull_driver_owner_return(void)
{
    assert(own.is_lost);
    atomic_store(&own.owner->away_ns[own.gpu], 0);
    own.owner = NULL;
    own.is_lost = false;
}

int64_t lull_driver_owner_away_ns(const struct lull_driver_owner *owner, uint32_t gpu)
{
    return atomic_load(&owner->away_ns[gpu]);
}

int lull_driver_owner_away_thread(const struct lull_driver_owner *owner, uint32_t gpu)
{
    return atomic_load(&owner->away_thread[gpu]);
}

void lull_driver_owner_call_begin(uint32_t gpu)
{
    struct lull_driver_owner *owner = own.owner;

    if (owner == NULL || own.is_lost)
        return;
    own.gpu = gpu;
    own.call_ns = lull_now_ns();
    owner->call_gpu = gpu;
    atomic_store(&owner->call_ns, own.call_ns);
    if (!atomic_load(&owner->is_spare_asleep))
        return;
    pthread_mutex_lock(&owner->lock);
    pthread_cond_signal(&owner->changed);
    pthread_mutex_unlock(&owner->lock);
}

void lull_driver_owner_call_end(void)
{
    struct lull_driver_owner *owner = own.owner;
    int64_t call_ns = own.call_ns;

    if (owner == NULL || own.is_lost ||
        atomic_compare_exchange_strong(&owner->call_ns, &call_ns, 0))
        return;
    pthread_mutex_lock(&owner->lock);
    own.is_lost = true;
    pthread_mutex_unlock(&owner->lock);
}
