/*
 * One switch of a GPU's SM clock or of its power limit: what is asked for, within which
 * bounds, and what came of it.
 *
 * These plain values pass unchanged from who decides (governor) over the command table (wire) to
 * the device writer (device) and back. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_SWITCH_H
#define LULL_BASE_SWITCH_H

#include <stdint.h>

/*
 * What a lease asks for: the SM clocks between which this client may move, and the power limits.
 * Power limits of 0 and 0 mean that none is to be set.
 */
struct lull_band {
    uint32_t min_mhz;
    uint32_t max_mhz;
    uint32_t min_limit_mw;
    uint32_t max_limit_mw;
};

/* A request for a clock. Of several for one GPU the latest wins. Times are CLOCK_MONOTONIC ns. */
struct lull_switch_request {
    uint64_t sequence;      /* number of the request, > 0 */
    uint32_t sm_mhz;        /* 0: the reference point, which is a raising */
    int64_t deadline_ns;    /* a lowering that is not served by then is dropped */
    int64_t valid_until_ns; /* an applied lowering is undone then, unless it is renewed */
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
#define LULL_SETTLE_NOT_OBEYED INT64_C(-2)

/* The outcome of the latest request of a GPU that the device writer has served. */
struct lull_switch_result {
    uint64_t sequence; /* number of the request, as returned by lull_actuator_set; 0: none yet */
    int32_t status;    /* 0; or the negative code of the refused or failed call */
    uint32_t sm_mhz;   /* the point that was requested, clamped; 0 is the reference point */
    int64_t call_begin_ns; /* when the driver call began */
    int64_t call_ns;       /* how long it blocked the writer; 0: nothing had to be written */
    int64_t settle_ns;     /* from its return until the clock followed: half way between the reading
                            * that says so and the one before; LULL_SETTLE_UNKNOWN not seen yet,
                            * LULL_SETTLE_NOT_OBEYED given up */
    uint32_t observed_mhz; /* the last clock that was read back; 0: none */
    /* What the driver itself did, since requests that need no call may hide a call made before. */
    uint32_t calls; /* number of calls that set a clock and have returned since the lease began */
    uint32_t blocked_us; /* how long the last of them blocked */
};

#endif
