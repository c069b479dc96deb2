/* Detection of a doorbell that is rung in a loop. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "daemon/flood.h"

static int doorbells[3];
static atomic_bool has_ended;

/* Rings without end, and hides that from readers of the counter. */
static void *ring(void *argument)
{
    const int fd = *(int *)argument;
    eventfd_t value;

    while (!atomic_load(&has_ended)) {
        eventfd_write(fd, 1);
        eventfd_read(fd, &value);
    }
    return NULL;
}

/* Rings as often as a governor with short sections. */
static void *ring_honestly(void *argument)
{
    while (!atomic_load(&has_ended)) {
        eventfd_write(*(int *)argument, 1);
        lull_sleep_until_ns(lull_now_ns() + 2 * LULL_NS_PER_MS);
    }
    return NULL;
}

static void f48_who_rings_in_a_loop_is_found(void **state)
{
    pthread_t honest, other;
    int found = -ENOENT;

    (void)state;
    for (int i = 0; i < 3; i++)
        doorbells[i] = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* rung long ago */
    assert_int_equal(lull_flood_find(doorbells, 0), -ENOENT);
    assert_int_equal(lull_flood_find(doorbells, 3), -ENOENT);
    assert_int_equal(pthread_create(&honest, NULL, ring_honestly, &doorbells[0]), 0);
    assert_int_equal(lull_flood_find(doorbells, 3), -ENOENT);
    assert_int_equal(pthread_create(&other, NULL, ring, &doorbells[2]), 0);
    for (int i = 0; i < 1000 && found == -ENOENT; i++) /* its thread may wait for a processor */
        found = lull_flood_find(doorbells, 3);
    assert_int_equal(found, 2);
    atomic_store(&has_ended, true);
    pthread_join(honest, NULL);
    pthread_join(other, NULL);
    for (int i = 0; i < 3; i++)
        close(doorbells[i]);
}

/* Rings for some 15 ms without a break, however long a busy host takes for it, and pauses for 60
 * ms.
 */
static void *ring_in_bursts(void *argument)
{
    enum { RINGS = 30000 };

    while (!atomic_load(&has_ended)) {
        lull_sleep_until_ns(lull_now_ns() + 60 * LULL_NS_PER_MS);
        for (int i = 0; i < RINGS; i++)
            eventfd_write(*(int *)argument, 1);
    }
    return NULL;
}

/* F61: a search that begins in a pause sees the next burst. Of ten searches that end before it two
 * or three would; a busy host may delay the bursts of some rounds. */
static void f61_who_pauses_between_bursts_is_found(void **state)
{
    enum { ROUNDS = 20, SEARCHES = 10, WANTED = 8 };
    pthread_t other;
    uint32_t found = 0;

    (void)state;
    atomic_store(&has_ended, false);
    doorbells[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_int_equal(pthread_create(&other, NULL, ring_in_bursts, &doorbells[0]), 0);
    for (int round = 0; round < ROUNDS && found < WANTED; round++) {
        found = 0;
        for (int i = 0; i < SEARCHES; i++)
            found += lull_flood_find(doorbells, 1) == 0;
    }
    assert_true(found >= WANTED);
    atomic_store(&has_ended, true);
    pthread_join(other, NULL);
    close(doorbells[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f48_who_rings_in_a_loop_is_found),
        cmocka_unit_test(f61_who_pauses_between_bursts_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
