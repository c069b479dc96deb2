/*
 * One switch of a GPU's SM clock or of its power limit: the request, its bounds, and its outcome.
 *
 * These plain values pass unchanged from the governor, which decides, through the command table
 * (wire) to the device writer and back. The command table copies them as bytes, so their order is
 * part of its format. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_SWITCH_H
#define LULL_BASE_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The request of a lease: the range of SM clocks and of power limits, the power profiles, and
 * whether power smoothing, that this client may set. If both power limits are 0, it sets none.
 */
struct lull_band {
    uint32_t min_mhz;
    uint32_t max_mhz;
    uint32_t min_limit_mw;
    uint32_t max_limit_mw;
    uint32_t profiles;  /* enum lull_power_profile */
    uint32_t smoothing; /* 0 or 1: bands have no padding, and are compared as bytes */
};

/* Power smoothing: a floor that the driver holds by burning power, and how fast power changes. */
struct lull_smoothing {
    uint32_t floor_percent; /* of the highest power limit; 0: no smoothing */
    uint32_t ramp_up_w;     /* per second */
    uint32_t ramp_down_w;   /* per second */
    uint32_t hysteresis_ms; /* for so long the floor holds after the load has fallen below it */
};

/*
 * Upper limits of a GPU, whether it is leased or not. A clock or power limit of 0 is not capped.
 */
struct lull_cap {
    uint32_t max_mhz;
    uint32_t max_limit_mw;
};

/* A request for a clock. The latest request for a GPU wins. Times are CLOCK_MONOTONIC ns. */
struct lull_switch_request {
    uint64_t sequence;   /* number of the request, > 0 */
    int64_t deadline_ns; /* a request to lower the clock is dropped if it is not served by then */
    int64_t valid_until_ns; /* a lowered clock is restored then unless the request is renewed */
    uint32_t sm_mhz;        /* 0: the reference point (raising) */
};

/* A request for a power limit, power profiles and power smoothing until the lease ends. The latest
 * request for a GPU wins. */
struct lull_limit_request {
    uint64_t sequence;               /* number of the request, > 0 */
    uint32_t limit_mw;               /* 0: the limit that was set before the lease */
    uint32_t profiles;               /* enum lull_power_profile; 0, as from older clients: none */
    struct lull_smoothing smoothing; /* as well */
};

/* The outcome of the latest request for a power limit that the device writer has served, and of the
 * latest ones for profiles and for smoothing. An older lulld leaves these 0. */
struct lull_limit_result {
    uint64_t sequence; /* 0 none yet */
    int32_t status;    /* 0; or the negative code of the refused or failed call */
    uint32_t limit_mw; /* the limit that was read back; 0: unknown */
    uint64_t profile_sequence;
    int32_t profile_status;
    uint32_t profiles; /* those in force, by whichever program */
    uint64_t smoothing_sequence;
    int32_t smoothing_status;
    uint32_t smoothing_floor_w; /* as the driver applies it; 0: none */
};

/* Values of settle_ns: it is not known yet, and the clock never followed. */
#define LULL_SETTLE_UNKNOWN INT64_C(-1)
#define LULL_SETTLE_NOT_APPLIED INT64_C(-2)

/* The outcome of the latest request of a GPU that the device writer has served. */
struct lull_switch_result {
    uint64_t sequence;     /* number of the request, as returned by lull_actuator_set; 0 none yet */
    int64_t call_begin_ns; /* start of the driver call */
    int64_t call_ns;       /* time that it blocked the writer; 0: nothing had to be written */
    int64_t settle_ns;     /* time from its return until the clock followed: half way between the
                            * reading that shows it and the one before. LULL_SETTLE_UNKNOWN not seen
                            * yet, LULL_SETTLE_NOT_APPLIED given up */
    int32_t status;        /* 0; or the negative code of the refused or failed call */
    uint32_t sm_mhz;       /* the point that was requested, clamped; 0 is the reference point */
    uint32_t observed_mhz; /* last clock read back; 0 none */
    /* For driver calls alone, since requests that need no call may hide an earlier call. */
    uint16_t calls;         /* that set a clock and have returned, since the lease began, modulo
                             * 65536 */
    uint16_t reference_mhz; /* the clock of the reference point while the GPU is capped; 0: it is
                             * not capped */
    uint32_t blocked_us;    /* time that the last of them blocked */
    uint32_t unread_us; /* time without a reading of the clock before the reading that shows that it
                         * has followed; while settle_ns is unknown, before the call */
};

/*
 * The functions by which the device writer takes requests and stores results, per GPU number. They
 * run on the writer's thread, so they must not block. They must tolerate any change that a hostile
 * client makes to the underlying memory.
 */
struct lull_switch_channel {
    void *context;
    /* Copies a request that was not taken before. Returns false if there is none. */
    bool (*take)(void *context, uint32_t gpu, struct lull_switch_request *request_out);
    void (*publish)(void *context, uint32_t gpu, const struct lull_switch_result *result);
    bool (*take_limit)(void *context, uint32_t gpu, struct lull_limit_request *request_out);
    void (*publish_limit)(void *context, uint32_t gpu, const struct lull_limit_result *result);
};

#endif
