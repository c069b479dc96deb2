/*
 * An energy account: what one device (a GPU, a CPU package) has drawn up to any time, and how well
 * that is known, from readings of its energy counter or, where it has none, of its power.
 *
 * A counter is refreshed only now and then (T, up to 100 ms): what is read is up to T old, T/2 on
 * average, so it is taken as the energy at T/2 before. Between two readings, which may lie a second
 * apart because frequent polling makes some counters fall short, energy is laid out as the polled
 * power says, scaled to what the counter has counted; without power, evenly.
 *
 * A power reading is the average over a window W that ended up to T ago; it holds until the next
 * refresh (a step, never a ramp to the next reading) and is moved back by (T + W) / 2.
 *
 * Uncertainties. The variance of an edge adds up: when the counter was refreshed, uniform over T
 * (T^2 / 12 times the mean square of the power nearby); how unevenly the energy may lie between the
 * readings around the edge, from the scatter of the powers read there; and, for energy without a
 * counter or across a counter's reset, what the readings left unseen, most of all those that came
 * late. Half an interval is two standard deviations, never more than what the device can have drawn
 * at all: it holds the truth in 95 of 100 cases and more (tests/core/energy/test_energy.c, against
 * integrals by brute force). Not in it: the gain of the board's own measurement (5 % on NVIDIA's,
 * arXiv 2312.02741), which is the same in every reading of it.
 *
 * Resets: a counter that goes back (driver reload), or leaps further than the device can draw,
 * counts on from what the power says of the time between; the uncertainty grows by what is not
 * known of it. If a later reading continues where the counter was before, what lay between was no
 * reset but wrong readings, and the counter's growth over all of it counts.
 *
 * Refusals: a power that the device cannot draw (plausible.h) is no reading; it is counted.
 *
 * Silence: a counter that hangs while power is drawn, or can no longer be read, is replaced
 * by the polled power. When it counts again, what it has grown by in the meantime counts if it may
 * be that; energy never runs backwards.
 *
 * Estimates: a figure says whether it was worked out rather than measured, because the window is
 * shorter than what the readings resolve, or power stood in for the counter within it.
 *
 * Pure; caller's storage; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_ACCOUNT_H
#define LULL_CORE_ENERGY_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/plausible.h"
#include "core/stats/moments.h"

enum { LULL_ENERGY_KEPT = 64 }; /* readings: six seconds and more at ten per second */

/* How a device's readings come about. Times in s, all >= 0. */
struct lull_energy_source {
    double counter_refresh_s;
    double power_refresh_s;
    double power_window_s;
    double highest_w; /* that the device can draw, > 0 */
    double lowest_w;  /* that it draws at all times; 0: it may draw nothing */
};

struct lull_energy_reading {
    int64_t time_ns;  /* not before that of the reading before */
    bool has_counter; /* counter_j was read: energy since any time, J */
    bool has_power;   /* power_w was read */
    double counter_j;
    double power_w;
    bool is_refused; /* a power was read, and found beforehand to be none that can be */
};

/* A reading in the account. */
struct lull_energy_point {
    int64_t time_ns;
    bool has_energy;
    bool has_power;     /* it was read lately */
    double energy_j;    /* counted since the account began */
    double power_w;     /* the last one known */
    double polled_j;    /* integral of the power as it was read, steps */
    double variance_j2; /* of energy_j, grown since the account began: resets, unseen power */
    double estimated_s; /* as in the account */
};

/* Where a counter was before it was reset, or before a wrong reading. */
struct lull_energy_course {
    bool is_open; /* it may still continue from there */
    double counter_j;
    int64_t counter_ns;
    double counter_polled_j;
    double energy_j;
    double blind_s;
};

struct lull_energy_account {
    struct lull_energy_source source;
    uint64_t count; /* of points; the last LULL_ENERGY_KEPT are kept */
    struct lull_energy_point points[LULL_ENERGY_KEPT];
    bool has_counter;        /* energy_j comes from a counter */
    double counter_j;        /* as read when it last grew... */
    int64_t counter_ns;      /* ...at this time... */
    double counter_polled_j; /* ...and the polled integral then */
    double replaced_j;       /* what has been put instead of the counter's growth since */
    uint32_t resets;         /* of the counter */
    uint32_t leaps;          /* those of them that were rises beyond what the device can draw */
    uint32_t glitches;       /* wrong readings of the counter that it continued from */
    uint32_t refused_powers; /* readings of power that cannot be */
    struct lull_energy_course course;
    int64_t begin_ns;          /* of the first reading */
    int64_t power_begin_ns;    /* since when powers are read without a long gap... */
    int64_t power_ns;          /* ...and when one was read last; valid once one was */
    struct lull_moments power; /* of the powers read, W */
    double estimated_s;        /* time in which power stood in for the counter */
    double blind_s;            /* time without a usable energy reading... */
    double counter_blind_s;    /* ...up to when the counter last grew */
    double counted_j;          /* growth of the counter while the power was known... */
    double counted_s;          /* ...in this time... */
    double checked_j;          /* ...and the polled integral of it */
};

/* The energy up to a time, J since the account's first reading. */
struct lull_energy_edge {
    int64_t time_ns;
    double energy_j;
    double edge_j2; /* variance from where the edge lies between readings */
    double path_j2; /* variance collected up to here; differences of it count */
    double bias_j; /* how far it may be off each time an edge lies so: see struct lull_energy_sum */
    double resolution_s; /* shorter windows with this edge cannot be measured */
    double estimated_s;  /* before the edge, in which power stood in for the counter */
};

struct lull_energy_figure {
    double seconds;
    double joules;
    double uncertainty_j; /* half of the 95 % interval, without the gain of the board */
    double bias_j;        /* the part that many such windows may have in common */
    bool is_estimate;     /* worked out rather than measured */
};

/*
 * Many windows, of one device or of several. Their errors cancel but for what they may have in
 * common: windows that keep time with the work have their edges where power always rises, or always
 * falls, and power that is seen through a sensor's window and polls of finite distance smears both.
 * So uncertainties are added as squares and biases as they are, which is never more than all errors
 * at their largest. Zero-initialised is empty.
 */
struct lull_energy_sum {
    uint64_t count;
    uint64_t estimates; /* of them */
    double seconds;
    double joules;
    double square_j2; /* of the uncertainties */
    double largest_j; /* sum of the uncertainties */
    double bias_j;
};

void lull_energy_account_init(struct lull_energy_account *account,
                              const struct lull_energy_source *source);

/*
 * Takes a reading; one with neither counter nor power is ignored. The first reading decides: if it
 * has a counter, energy comes from the counter permanently (readings without it only give the
 * power).
 */
void lull_energy_account_take(struct lull_energy_account *account,
                              const struct lull_energy_reading *reading);

/* The energy as of the reading that was taken at time_ns, J. False: it was not the last one, or
 * brought no energy. */
bool lull_energy_account_last(const struct lull_energy_account *account, int64_t time_ns,
                              double *energy_out);

/* Edges up to here do not change any more with later readings; INT64_MIN without readings. */
int64_t lull_energy_account_settled_ns(const struct lull_energy_account *account);

/*
 * The best present estimate of the energy up to time_ns. False: the account holds no energy
 * reading, or time_ns lies before the oldest that is still kept (or by more than a refresh before
 * the first).
 */
bool lull_energy_account_at(const struct lull_energy_account *account, int64_t time_ns,
                            struct lull_energy_edge *edge_out);

/* What was drawn between two edges of one account, begin not after end. */
struct lull_energy_figure lull_energy_between(const struct lull_energy_account *account,
                                              const struct lull_energy_edge *begin,
                                              const struct lull_energy_edge *end);

void lull_energy_sum_add(struct lull_energy_sum *sum, const struct lull_energy_figure *figure);

/* Half of the 95 % interval of sum->joules, J. */
double lull_energy_sum_uncertainty_j(const struct lull_energy_sum *sum);

/*
 * The polled power's integral over the counter's count, minus 1, of the time in which both were
 * read; a cross-check that needs many seconds. False: there is no such time, or nothing counted.
 */
bool lull_energy_account_check(const struct lull_energy_account *account, double *ratio_out);

/* Judges what the account has taken so far as a whole: whether its energies can be true. */
enum lull_energy_doubt lull_energy_account_doubt(const struct lull_energy_account *account);

#endif
