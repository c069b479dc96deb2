/*
 * An energy account: the energy of one device (a GPU, a CPU package) up to any time, with its
 * uncertainty, from readings of its energy counter or, without a counter, of its power.
 *
 * A counter is refreshed periodically (T, up to 100 ms). A reading is up to T old, T/2 on average,
 * so it is used as the energy at T/2 before. Two readings may be a second apart, because frequent
 * polling makes some counters fall short. Between them energy is distributed in proportion to the
 * polled power, scaled to the counter's difference; without power, evenly.
 *
 * A power reading is the average over a window W that ended up to T ago; it holds until the next
 * refresh (a step, never a ramp to the next reading) and is moved back by (T + W) / 2.
 *
 * Uncertainties. The variance of an edge adds up: when the counter was refreshed, uniform over T
 * (T^2 / 12 times the mean square of the power nearby); the uneven distribution of energy between
 * the readings around the edge, from the scatter of the powers there; and, for energy without a
 * counter or across a counter's reset, the energy missed by the readings, above all by late ones.
 * Half an interval is two standard deviations, limited to the energy that the device can have
 * drawn. It contains the true value in at least 95 of 100 cases (tests/core/energy/test_energy.c,
 * against integrals by brute force). It excludes the gain error of the board's own measurement (5 %
 * on NVIDIA's, arXiv 2312.02741), which is the same in every reading of it.
 *
 * Resets: a counter that goes back (driver reload), or leaps further than the device can draw,
 * continues with the energy estimated from power for the time between, and the uncertainty grows
 * accordingly. If a later reading continues from the old counter value, the readings in between
 * were wrong and there was no reset; then the counter's growth over the whole time counts.
 *
 * Refusals: an impossible power (plausible.h) is dropped and counted.
 *
 * Silence: a counter that hangs while power is drawn, or can no longer be read, is replaced
 * by the polled power. When it counts again, its growth in the meantime is used if it is plausible.
 * Energy never decreases.
 *
 * Estimates: a figure indicates whether it is an estimate instead of a measurement, because the
 * window is shorter than the resolution of the readings, or power replaced the counter within it.
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

/* The properties of a device's readings. Times in s, all >= 0. */
struct lull_energy_source {
    double counter_refresh_s;
    double power_refresh_s;
    double power_window_s;
    double highest_w; /* that the device can draw, > 0 */
    double lowest_w;  /* least power at all times; 0: it may draw nothing */
};

struct lull_energy_reading {
    int64_t time_ns;  /* not before that of the reading before */
    bool has_counter; /* counter_j was read: energy since any time, J */
    bool has_power;   /* power_w was read */
    double counter_j;
    double power_w;
    bool is_refused; /* a power was read, and already found to be impossible */
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

/* Position of a counter before it was reset, or before a wrong reading. */
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
    double replaced_j;       /* energy that replaced the counter's growth since then */
    uint32_t resets;         /* of the counter */
    uint32_t leaps;          /* those of them that were rises beyond what the device can draw */
    uint32_t glitches;       /* wrong readings of the counter that it continued from */
    uint32_t refused_powers; /* impossible power readings */
    struct lull_energy_course course;
    int64_t begin_ns;          /* of the first reading */
    int64_t power_begin_ns;    /* since when powers are read without a long gap... */
    int64_t power_ns;          /* ...and when one was read last; valid once one was */
    struct lull_moments power; /* of the powers read, W */
    double estimated_s;        /* time in which power replaced the counter */
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
    double edge_j2;      /* variance from the unknown place of the edge between readings */
    double path_j2;      /* variance collected up to here; differences of it count */
    double bias_j;       /* possible systematic error of such an edge: see struct lull_energy_sum */
    double resolution_s; /* shorter windows with this edge cannot be measured */
    double estimated_s;  /* before the edge, in which power stood in for the counter */
};

struct lull_energy_figure {
    double seconds;
    double joules;
    double uncertainty_j; /* half of the 95 % interval, without the gain error of the board */
    double bias_j;        /* the part of the error that many such windows may share */
    bool is_estimate;     /* estimated, not measured */
};

/*
 * Many windows, of one device or of several. Their errors cancel except for a common part: windows
 * synchronised with the work have edges where power always rises, or always falls, and a sensor's
 * window and the polling period smear such edges. So uncertainties are added as squares and biases
 * linearly, which is never more than the sum of the largest errors. Zero-initialised is empty.
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

/* The energy at the reading taken at time_ns, J. False: it was not the last one, or had no energy.
 */
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

/* The energy between two edges of one account, begin not after end. */
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

/* Judges all readings of the account so far: whether its energies are credible. */
enum lull_energy_doubt lull_energy_account_doubt(const struct lull_energy_account *account);

#endif
