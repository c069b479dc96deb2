/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/flood.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/device.h"

/* A client that rings a doorbell in a loop has rung it in most of these samples. An honest client
 * rings at most once a millisecond. The time is bounded, because on a busy host a sample takes
 * longer and contains more rings of an honest client. */
enum { SAMPLES = 100, MIN_RUNG = 24 };

/* A client that pauses between bursts, so as not to be seen, is seen in its next burst. */
#define SEARCH_NS (200 * LULL_NS_PER_MS)

#define SAMPLE_NS (100 * LULL_NS_PER_US)
#define SAMPLING_NS (20 * LULL_NS_PER_MS)

/* Counts in how many samples each doorbell was rung. It counts edges, because doorbells are never
 * reset. */
static void flood_sample(int epoll_fd, uint32_t *counts)
{
    struct epoll_event events[LULL_DEVICE_MAX_GPUS];
    const int64_t until_ns = lull_now_ns() + SAMPLING_NS;

    epoll_wait(epoll_fd, events, LULL_DEVICE_MAX_GPUS, 0); /* drops earlier rings */
    for (uint32_t i = 0; i < SAMPLES && lull_now_ns() < until_ns; i++) {
        int rung;

        lull_sleep_until_ns(lull_now_ns() + SAMPLE_NS);
        rung = epoll_wait(epoll_fd, events, LULL_DEVICE_MAX_GPUS, 0);
        for (int event = 0; event < rung; event++)
            counts[events[event].data.u32]++;
    }
}

/* Returns which doorbell was rung most, if that was often enough; -ENOENT: none was. */
static int find_in_window(int epoll_fd, uint32_t count)
{
    uint32_t counts[LULL_DEVICE_MAX_GPUS] = {0};
    uint32_t most = 0;

    flood_sample(epoll_fd, counts);
    for (uint32_t i = 1; i < count; i++)
        if (counts[i] > counts[most])
            most = i;
    return counts[most] >= MIN_RUNG ? (int)most : -ENOENT;
}

int lull_flood_find(const int *doorbells, uint32_t count)
{
    const int64_t until_ns = lull_now_ns() + SEARCH_NS;
    int found;
    const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

    assert(count <= LULL_DEVICE_MAX_GPUS);
    if (epoll_fd < 0)
        return -errno;
    for (uint32_t i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = i};

        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, doorbells[i], &event);
    }
    do {
        found = find_in_window(epoll_fd, count);
    } while (found < 0 && lull_now_ns() < until_ns);
    close(epoll_fd);
    return found;
}
