/*
 * A lease's share of the device writer. The writer serves whatever the latest request is, and never
 * delays a raising, so a client that raises step by step, or rings its doorbell in a loop, would
 * keep it busy. Here, between the client's table and the writer:
 * - a raising to a point below the reference beyond the share goes all the way up, which harms no
 *   job and leaves only lowerings, whose number the writer bounds;
 * - a power limit beyond the share is refused with -EDQUOT;
 * - rounds of the writer beyond what honest clients cause are reported.
 *
 * Threads: the writer's, but for init. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_SHARE_H
#define LULL_DAEMON_SHARE_H

#include <stdint.h>

#include "base/bucket.h"
#include "base/switch.h"
#include "daemon/quota.h"
#include "device/device.h"

struct lull_gpu_share {
    uint32_t applied_mhz; /* clock that the client's last request resulted in */
    struct lull_bucket raisings;
    struct lull_bucket limits;
    int64_t window_ns; /* begin of the time in which rounds are counted */
    uint32_t rounds;
};

struct lull_share {
    struct lull_switch_channel inner;
    void (*flooded)(void *context); /* the writer makes too many rounds */
    void *context;
    struct lull_gpu_share gpus[LULL_DEVICE_MAX_GPUS];
};

/* Prepares the share of a channel. flooded may be called from then on. */
void lull_share_init(struct lull_share *share, const struct lull_switch_channel *inner,
                     void (*flooded)(void *context), void *context);

/* The channel for the writer; it borrows the share. */
struct lull_switch_channel lull_share_channel(struct lull_share *share);

#endif
