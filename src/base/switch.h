/*
 * One switch of a GPU's SM clock or of its power limit: the request, its bounds, and its outcome.
 *
 * Plain values that pass unchanged from who decides (governor) over the command table (wire) to
 * the device writer (device) and back. The command table copies them as bytes: their order is part
 * of its format. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_SWITCH_H
#define LULL_BASE_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What a lease requests: the SM clocks between which this client may move, and the power limits.
 * Power limits of 0 and 0 mean that none is to be set.
 */
struct lull_band {
    uint32_t min_mhz;
    uint32_t max_mhz;
    uint32_t min_limit_mw;
    uint32_t max_limit_mw;
};

/*
 * Upper limits of a GPU, whether it is leased or not. A clock or power limit of 0 is not capped.
 */
struct lull_cap {
    uint32_t max_mhz;
    uint32_t max_limit_mw;
};

/* A request for a clock. Of several for one GPU the latest wins. Times are CLOCK_MONOTONIC ns. */
struct lull_switch_request {
    uint64_t sequence;      /* number of the request, > 0 */
    int64_t deadline_ns;    /* a lowering that is not served by then is dropped */
    int64_t valid_until_ns; /* an applied lowering is undone then unless it is renewed */
    uint32_t sm_mhz;        /* 0: the reference point (raising) */
};

/* A request for a power limit until the lease ends. Of several for one GPU the latest wins. */
struct lull_limit_request {
    uint64_t sequence; /* number of the request, > 0 */
    uint32_t limit_mw; /* 0: the limit that was set before the lease */
};

/* The outcome of the latest request for a power limit that the device writer has served. */
struct lull_limit_result {
    uint64_t sequence; /* 0 none yet */
    int32_t status;    /* 0; or the negative code of the refused or failed call */
    uint32_t limit_mw; /* the limit that was read back; 0: unknown */
};

/* Values of settle_ns: it is not known yet, and the clock never followed. */
#define LULL_SETTLE_UNKNOWN INT64_C(-1)
#define LULL_SETTLE_NOT_APPLIED INT64_C(-2)

/* The outcome of the latest request of a GPU that the device writer has served. */
struct lull_switch_result {
    uint64_t sequence;     /* number of the request, as returned by lull_actuator_set; 0 none yet */
    int64_t call_begin_ns; /* when the driver call began */
    int64_t call_ns;       /* how long it blocked the writer; 0: nothing had to be written */
    int64_t settle_ns;     /* from its return until the clock followed: half way between the reading
                            * that says so and the one before; LULL_SETTLE_UNKNOWN not seen yet,
                            * LULL_SETTLE_NOT_APPLIED given up */
    int32_t status;        /* 0; or the negative code of the refused or failed call */
    uint32_t sm_mhz;       /* the point that was requested, clamped; 0 is the reference point */
    uint32_t observed_mhz; /* last clock read back; 0 none */
    /* Of the driver itself: requests that need no call may hide one that was made before. */
    uint16_t calls;         /* that set a clock and have returned, since the lease began, modulo
                             * 65536 */
    uint16_t reference_mhz; /* the clock that the reference point is now, because the GPU is capped;
                             * 0: it is not */
    uint32_t blocked_us;    /* how long the last of them blocked */
    uint32_t unread_us;     /* for how long the clock had not been read before the reading that says
                             * that it has followed; while settle_ns is not known, before the call */
};

/*
 * Where the device writer takes requests from and puts results to, by the number of a GPU. The
 * functions run on the writer's thread: they must not block, and must tolerate anything that a
 * hostile client does to the memory behind them.
 */
struct lull_switch_channel {
    void *context;
    /* Copies a request that was not taken before; false: there is none. */
    bool (*take)(void *context, uint32_t gpu, struct lull_switch_request *request_out);
    void (*publish)(void *context, uint32_t gpu, const struct lull_switch_result *result);
    bool (*take_limit)(void *context, uint32_t gpu, struct lull_limit_request *request_out);
    void (*publish_limit)(void *context, uint32_t gpu, const struct lull_limit_result *result);
};

#endif
