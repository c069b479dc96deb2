/*
 * The state of power limits, shared by its files alone. Calls go down this list only:
 *   power_limits.c     the next step: waiting, warming up, profiling, holding
 *   limit_profiling.c  the time and energy under each limit
 *   limit_requests.c   requests to the control
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_LIMITS_POWER_LIMITS_STATE_H
#define LULL_GOVERNOR_LIMITS_POWER_LIMITS_STATE_H

#include "core/stats/counter.h"
#include "core/tuning/thermal.h"
#include "governor/limits/power_limits.h"

enum lull_limits_stage {
    LULL_LIMITS_WAITING, /* the job has no GPUs or does not iterate yet */
    LULL_LIMITS_WARMING, /* the temperature has not settled yet at the present limit */
    LULL_LIMITS_PROFILING,
    LULL_LIMITS_HELD, /* the limit found, or requested, is held */
    LULL_LIMITS_GIVEN_UP,
};

/* One GPU of the job. */
struct lull_limited_gpu {
    uint32_t index;    /* its number in the control */
    uint64_t sequence; /* sequence of the request that was made last */
    struct lull_counter counter;
    struct lull_warmth warmth;
    bool is_warm;
    double temperature_c;   /* the last reading; NAN: the GPU reports none */
    int64_t temperature_ns; /* when that was; 0: not yet */
    double begin_j;         /* energy at the begin of the piece; valid with begin_known */
};

struct lull_limits {
    const struct lull_limits_options *options;
    struct lull_devices *devices;
    enum lull_limits_stage stage;
    /* The limit set by the administrator, per GPU of the control. NAN: the GPU does not report
     * it. */
    double present_w[LULL_CONTROLLER_MAX_GPUS];
    bool is_present_known[LULL_CONTROLLER_MAX_GPUS];
    int64_t bound_ns; /* when the first rank was seen on a GPU; 0: not yet */
    double read_w;    /* the highest limit that was read back for what was requested last */
    bool is_stored;   /* the profile was there before */
    bool is_refining; /* clocks are searched under the best limit */
    struct lull_limit_search *search;
    struct lull_limit_profile profile; /* filled when known; count 0 before */
    uint32_t gpu_count;
    struct lull_limited_gpu gpus[LULL_CONTROLLER_MAX_GPUS];
    struct lull_limit_point asked; /* the operating point that was requested; limit_w 0: none yet */
    bool is_set;                   /* all GPUs have confirmed it */
    int64_t clock_ns;              /* when the clock was requested last */
    double spent_s;
    struct lull_moments clock_mhz[LULL_LIMIT_SEARCH_POINTS];
    /* The piece under way; edges are boundaries of the first GPU's iterations. */
    size_t seen;      /* number of boundaries that have been looked at */
    int64_t begin_ns; /* 0: there is no piece */
    bool begin_known; /* the energies at its begin are known */
    int64_t end_ns;   /* 0: it has not ended yet */
    uint64_t iterations;
};

/* ---- limit_profiling.c ---- */

/* Begins the search for limits up to highest_w. Errors: LULL_E_UNSUPPORTED the range is unknown. */
int lull_limits_begin_search(struct lull_limits *limits, struct lull_control *control,
                             double highest_w, struct lull_error *err);

/* Takes the iterations that have ended since the last call; may end the search. */
void lull_limits_profile(struct lull_limits *limits, struct lull_control *control,
                         struct lull_error *note_out);

/* ---- limit_requests.c ---- */

/* The facts of the job's GPU with this number. */
const struct lull_device_info *lull_limits_info(const struct lull_limits *limits,
                                                const struct lull_control *control, uint32_t gpu);

/* Gives all limits up. */
void lull_limits_abandon(struct lull_limits *limits, struct lull_control *control);

void lull_limits_request(struct lull_limits *limits, struct lull_control *control,
                         const struct lull_limit_point *point);

/* A locked clock has to be renewed; an unlocked one is requested once. */
void lull_limits_hold_clock(struct lull_limits *limits, struct lull_control *control,
                            int64_t now_ns);

/* Returns 1 when all GPUs have taken what was requested, 0 before. Errors: a GPU refused it. */
int lull_limits_poll_requests(struct lull_limits *limits, struct lull_control *control,
                              struct lull_error *err);

/* Chooses from the profile, and holds that. */
void lull_limits_hold_choice(struct lull_limits *limits, struct lull_control *control,
                             struct lull_error *note_out);

#endif
