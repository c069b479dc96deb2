/*
 * What power_limits.c and power_limits_report.c share, and nobody else. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_GOVERNOR_LIMITS_POWER_LIMITS_STATE_H
#define LULL_GOVERNOR_LIMITS_POWER_LIMITS_STATE_H

#include "core/job/warmth.h"
#include "core/stats/counter.h"
#include "governor/limits/power_limits.h"
#include "store/limit_profiles.h"

enum lull_limits_stage {
    LULL_LIMITS_WAITING, /* for the job's GPUs and its iteration */
    LULL_LIMITS_WARMING, /* until the temperature has settled at the present limit */
    LULL_LIMITS_PROFILING,
    LULL_LIMITS_HELD, /* the result, or what was asked for */
    LULL_LIMITS_GIVEN_UP,
};

/* One GPU of the job. */
struct lull_limited_gpu {
    uint32_t index;    /* of the control */
    uint64_t sequence; /* of the request that was made last */
    struct lull_counter counter;
    struct lull_warmth warmth;
    bool is_warm;
    double begin_j; /* at the begin of the piece; valid with begin_known */
};

struct lull_limits {
    const struct lull_limits_options *options;
    struct lull_devices *devices;
    enum lull_limits_stage stage;
    bool is_stored;   /* the profile was there before */
    bool is_refining; /* clocks */
    struct lull_limit_search *search;
    struct lull_limit_profile profile; /* filled when known; count 0 before */
    uint32_t gpu_count;
    struct lull_limited_gpu gpus[LULL_CONTROLLER_MAX_GPUS];
    struct lull_limit_setting asked; /* limit_w 0: nothing yet */
    bool is_set;                     /* all GPUs have confirmed it */
    int64_t clock_ns;                /* when the clock was asked for last */
    double spent_s;
    struct lull_moments clock_mhz[LULL_LIMIT_SEARCH_SETTINGS];
    /* The piece under way; edges are boundaries of the first GPU's iterations. */
    size_t seen;      /* boundaries looked at */
    int64_t begin_ns; /* 0: none */
    bool begin_known; /* its energies are */
    int64_t end_ns;   /* 0: not yet */
    uint64_t iterations;
};

#endif
