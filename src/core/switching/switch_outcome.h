/*
 * What came of one change of an operating point, as told to those who asked for it. It is told some
 * time after it has happened, so whatever depends on when the clock followed goes by effect_ns.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_SWITCH_OUTCOME_H
#define LULL_CORE_SWITCHING_SWITCH_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

struct lull_switch_outcome {
    uint32_t was_point; /* the point before; the controller of sections does not need it */
    uint32_t point;
    double call_ms;    /* from the request until the driver call returned */
    double driver_ms;  /* the part of it inside the driver */
    double settle_ms;  /* from the return until the clock read the target, and at least this long if
                        * it was overtaken; < 0: it never read it; NAN: nobody looked */
    int64_t effect_ns; /* when the clock read the target; the return where nobody looked */
    bool overtaken;    /* changed again before the clock was seen to follow, at effect_ns */
    bool failed;       /* refused: the GPU does not switch at all */
};

#endif
