/*
 * What came of one change of an operating point, as told to those who asked for it. Heard of some
 * time after it happened: what depends on when the clock followed goes by effect_ns.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_SWITCH_OUTCOME_H
#define LULL_CORE_SWITCHING_SWITCH_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

struct lull_switch_outcome {
    uint32_t was_point; /* asked for before; the controller needs none */
    uint32_t point;
    double call_ms;    /* from the request until the driver call returned */
    double driver_ms;  /* of this inside the driver */
    double settle_ms;  /* from the return until the clock read the target, or at least so long
                        * where it was overtaken; < 0: it never did; NAN: nobody looked */
    int64_t effect_ns; /* when it read the target, or the return where nobody looked */
    bool overtaken;    /* changed again before the clock was seen to follow, at effect_ns */
    bool failed;       /* refused: the GPU does not switch at all */
};

#endif
