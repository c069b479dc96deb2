/*
 * One operating point of a kernel, measured: when its accuracy suffices, its time and power, and
 * reasons to reject it.
 *
 * Energy is counted between two edges: times at which the GPU's energy counter was seen to be
 * refreshed. Between two arbitrary reads it would be off by up to a refresh at both ends. Between
 * the edges the counter is read rarely, since reading it often makes some counters fall short
 * (docs/user/energy.md), while power, clocks and reasons are looked at some ten times a second.
 * Polled power over the same time checks the counter, and replaces one that failed.
 *
 * Pure; caller's storage; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_SWEEP_POINT_H
#define LULL_LAB_CORE_SWEEP_POINT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats/moments.h"

/* Reasons to reject a row, as bits. */
enum lull_sweep_mark {
    LULL_SWEEP_CLOCK = 1 << 0,         /* the clock that was requested was not in force */
    LULL_SWEEP_THERMAL = 1 << 1,       /* heat or the power supply limited it */
    LULL_SWEEP_POWER = 1 << 2,         /* a power limit other than the row's own limited it */
    LULL_SWEEP_SHORT = 1 << 3,         /* too few launches, seconds or refreshes of the counter */
    LULL_SWEEP_NOISE = 1 << 4,         /* time or power scattered too much */
    LULL_SWEEP_COUNTER = 1 << 5,       /* the energy counter failed; power stands in for it */
    LULL_SWEEP_OTHER_PROCESS = 1 << 6, /* another program computed on the GPU */
    LULL_SWEEP_MARKS = 7,              /* number of marks */
};

/* Conditions for a sufficient measurement of a point. Ratios are relative to the mean. */
struct lull_sweep_rules {
    double min_s; /* seconds of a window, at least and at most */
    double max_s;
    uint32_t min_launches;
    uint32_t min_refreshes; /* of the energy counter */
    double interval_ratio;  /* a window ends early when half of the 95 % intervals of time and
                             * power are within this */
    double noise_ratio;     /* above this the row is marked */
    double counter_ratio;   /* the permitted difference of polled power and counter */
    double clock_ratio;     /* the permitted slowdown of a kernel beyond that of its clock */
};

/* A reading of the GPU; NAN: the value could not be read. */
struct lull_sweep_look {
    double sm_mhz;
    double mem_mhz;
    double power_w;
    double temperature_c;
    uint64_t reasons;  /* bits of whatever meaning */
    bool is_capped;    /* a power limit holds the clock down */
    bool is_throttled; /* heat or the power supply holds it down */
    bool has_others;   /* another process computes on the GPU */
};

/* The time of an observed refresh of the energy counter, and its value then. */
struct lull_sweep_edge {
    bool is_found; /* false: it was not refreshed in time, or cannot be read; only time_s holds */
    double time_s; /* half way between the polls around the refresh */
    double counter_j; /* its value after the refresh */
};

enum { LULL_SWEEP_SERIES = 256 };

/* Values for a median: all of them, or every second, fourth ... of many. */
struct lull_sweep_series {
    uint64_t seen;
    uint64_t stride;
    uint32_t count;
    double values[LULL_SWEEP_SERIES];
};

/* The measurements of a point so far. */
struct lull_sweep_point {
    struct lull_sweep_edge begin;
    double refresh_s; /* between refreshes of the counter */
    struct lull_sweep_series sm_mhz;
    struct lull_sweep_series mem_mhz;
    struct lull_sweep_series temperature_c;
    double sm_min_mhz;
    double sm_max_mhz;
    struct lull_moments power_w;
    uint64_t reasons;
    bool is_capped;
    bool is_throttled;
    bool has_others;
    uint64_t launches;
    double seconds;              /* of these launches */
    struct lull_moments time_ms; /* of a launch, a value for each run */
    double counter_j;            /* as read last; NAN: not yet */
    bool has_counter_failed;
};

/* The requested point, and further known values. */
struct lull_sweep_target {
    double sm_mhz;      /* as requested */
    double step_mhz;    /* to the next clock of the GPU */
    bool has_own_limit; /* the power limit is the row's own, so that it may hold the clock down */
    bool has_counter;   /* the GPU has an energy counter */
    double base_sm_mhz; /* the highest clock at the same memory clock, and what a launch took
                         * there; NAN: not known */
    double base_time_ms;
};

struct lull_sweep_result {
    double sm_mhz; /* medians; NAN: not read */
    double sm_min_mhz;
    double sm_max_mhz;
    double mem_mhz;
    double temperature_c;
    uint64_t launches;
    double time_ms; /* of a launch */
    double time_sd_ms;
    double power_w;    /* mean of the board; NAN: not known */
    double power_sd_w; /* of the polled readings; NAN: fewer than two */
    double energy_j;   /* over the whole window; NAN: not known */
    double window_s;
    bool is_counted; /* power and energy are the counter's; false: polled power's */
    uint64_t reasons;
    uint32_t marks; /* enum lull_sweep_mark */
};

/* Begins a point at an edge. refresh_s: time between refreshes of the counter, > 0. */
void lull_sweep_point_begin(struct lull_sweep_point *point, const struct lull_sweep_edge *begin,
                            double refresh_s);

/* Take a reading of the GPU; a run of launches > 0 that took seconds > 0; the present value of the
 * counter. */
void lull_sweep_point_look(struct lull_sweep_point *point, const struct lull_sweep_look *look);
void lull_sweep_point_run(struct lull_sweep_point *point, uint64_t launches, double seconds);
void lull_sweep_point_count(struct lull_sweep_point *point, double counter_j);

/* Returns whether the window may end, now_s being the time: all values are precise enough, or it
 * has lasted for the longest time and has a run. */
bool lull_sweep_point_is_done(const struct lull_sweep_point *point,
                              const struct lull_sweep_rules *rules, double now_s);

/*
 * Concludes a point at an edge that is later than the start. It must have a run. tail_s, tail_w:
 * duration of the idle time before the edge after the end of the load,
 * and the power in it, which are subtracted; 0 for a load that continues.
 */
void lull_sweep_point_end(const struct lull_sweep_point *point,
                          const struct lull_sweep_rules *rules,
                          const struct lull_sweep_target *target, const struct lull_sweep_edge *end,
                          double tail_s, double tail_w, struct lull_sweep_result *result_out);

/* Returns whether a launch at this clock took longer than the clock alone explains,
 * so that a lower clock must have been in force. margin_ratio: the permitted excess. */
bool lull_sweep_is_impossible(double sm_mhz, double time_ms, double base_sm_mhz,
                              double base_time_ms, double margin_ratio);

/* ---- warmth -------------------------------------------------------------------------------- */

/* A GPU is warm when its temperature has stayed within 1 K for some time. Zero-initialised has seen
 * nothing. */
struct lull_sweep_warmth {
    bool is_begun;
    double min_c;
    double max_c;
    double since_s;
};

/* Takes a temperature; NAN is ignored. Returns whether the GPU has been warm for still_s. */
bool lull_sweep_warmth_take(struct lull_sweep_warmth *warmth, double time_s, double temperature_c,
                            double still_s);

#endif
