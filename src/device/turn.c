/*
 * A call that begins stores its time, and one that ends clears it again: whoever clears it decides,
 * the thread that made the call or the spare that takes its turn.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/turn.h"

#include <assert.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

/* The longest calls that were published take some 20 ms, and a mistake costs only that two calls
 * overlap. With one look more this stays well below 100 ms. Chosen, not measured. */
#define PATIENCE_NS (50 * LULL_NS_PER_MS)

/* While there are calls the spare looks this often; after a second without any it sleeps until it
 * is woken, which costs the next call a system call. Chosen, not measured. */
#define LOOK_NS (20 * LULL_NS_PER_MS)
#define QUIET_NS LULL_NS_PER_S

/* What the calling thread has. Driver calls are made deep inside functions that other threads call
 * as well, so it cannot be passed to them. */
static _Thread_local struct {
    struct lull_turn *turn; /* NULL: it has none */
    bool is_lost;
    int64_t call_ns;
    uint32_t gpu;
} own;

void lull_turn_init(struct lull_turn *turn)
{
    *turn = (struct lull_turn){0};
    pthread_mutex_init(&turn->lock, NULL);
    lull_thread_init_condition(&turn->changed);
}

void lull_turn_fini(struct lull_turn *turn)
{
    pthread_cond_destroy(&turn->changed);
    pthread_mutex_destroy(&turn->lock);
}

/* Takes the turn out of a call that lasts too long. The lock is held, so that the thread inside,
 * which takes it too, finds its GPU marked. */
static bool take_over(struct lull_turn *turn, int64_t call_ns)
{
    if (lull_now_ns() < call_ns + PATIENCE_NS ||
        !atomic_compare_exchange_strong(&turn->call_ns, &call_ns, 0))
        return false;
    atomic_store(&turn->away_thread[turn->call_gpu], atomic_load(&turn->thread));
    atomic_store(&turn->away_ns[turn->call_gpu], call_ns);
    return true;
}

/* Sleeps until the next look, or, where there have been no calls for long, until one begins. */
static void sleep_on(struct lull_turn *turn, int64_t last_call_ns)
{
    const int64_t now_ns = lull_now_ns();
    const struct timespec look = lull_timespec_from_ns(now_ns + LOOK_NS);

    if (now_ns - last_call_ns < QUIET_NS) {
        pthread_cond_timedwait(&turn->changed, &turn->lock, &look);
        return;
    }
    atomic_store(&turn->is_spare_asleep, true);
    /* A call that began before the store is seen here; one after it wakes this thread. */
    if (atomic_load(&turn->call_ns) == 0)
        pthread_cond_wait(&turn->changed, &turn->lock);
    atomic_store(&turn->is_spare_asleep, false);
}

bool lull_turn_wait(struct lull_turn *turn)
{
    int64_t last_call_ns = 0;
    bool has_turn = false;

    pthread_mutex_lock(&turn->lock);
    while (!turn->is_over && !has_turn) {
        const int64_t call_ns = atomic_load(&turn->call_ns);

        if (call_ns != 0)
            last_call_ns = call_ns;
        has_turn = !turn->is_taken || (call_ns != 0 && take_over(turn, call_ns));
        if (!has_turn)
            sleep_on(turn, last_call_ns);
    }
    turn->is_taken = turn->is_taken || has_turn;
    if (has_turn)
        atomic_store(&turn->thread, gettid());
    pthread_mutex_unlock(&turn->lock);
    own.turn = has_turn ? turn : NULL;
    own.is_lost = false;
    own.call_ns = 0;
    return has_turn;
}

void lull_turn_end(struct lull_turn *turn)
{
    pthread_mutex_lock(&turn->lock);
    turn->is_over = true;
    pthread_cond_broadcast(&turn->changed);
    pthread_mutex_unlock(&turn->lock);
}

bool lull_turn_is_lost(void)
{
    return own.is_lost;
}

void lull_turn_give_back(void)
{
    assert(own.is_lost);
    atomic_store(&own.turn->away_ns[own.gpu], 0);
    own.turn = NULL;
    own.is_lost = false;
}

int64_t lull_turn_away_ns(const struct lull_turn *turn, uint32_t gpu)
{
    return atomic_load(&turn->away_ns[gpu]);
}

int lull_turn_away_thread(const struct lull_turn *turn, uint32_t gpu)
{
    return atomic_load(&turn->away_thread[gpu]);
}

void lull_turn_call_begin(uint32_t gpu)
{
    struct lull_turn *turn = own.turn;

    if (turn == NULL || own.is_lost)
        return;
    own.gpu = gpu;
    own.call_ns = lull_now_ns();
    turn->call_gpu = gpu;
    atomic_store(&turn->call_ns, own.call_ns);
    if (!atomic_load(&turn->is_spare_asleep))
        return;
    pthread_mutex_lock(&turn->lock);
    pthread_cond_signal(&turn->changed);
    pthread_mutex_unlock(&turn->lock);
}

void lull_turn_call_end(void)
{
    struct lull_turn *turn = own.turn;
    int64_t call_ns = own.call_ns;

    if (turn == NULL || own.is_lost || atomic_compare_exchange_strong(&turn->call_ns, &call_ns, 0))
        return;
    pthread_mutex_lock(&turn->lock);
    own.is_lost = true;
    pthread_mutex_unlock(&turn->lock);
}
