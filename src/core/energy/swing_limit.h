/*
 * Swing limit: clocks that all GPUs of a node lower and raise in lockstep widen the swings of its
 * power. If they exceed those without Lull by more than permitted, levers are given up one after
 * the other, in the order of their cost in joules per watt of swing: first the gaps, which stay at
 * the steady clock, then the depth of sections, which is halved until it is 0.
 *
 * Swings without Lull are measured only in stretches at the reference: during learning, and in
 * blocks of trials that are long enough. These are compared with stretches at the accepted points,
 * in pieces of 1, 2, 5 and 10 s (swing.h). The longest length of which both sides have six pieces
 * decides. With fewer pieces no lever is given up. Repeated tests find wide swings by chance at
 * some time, so each test needs twice as many pieces as the one before.
 *
 * Levers are restored in reverse order, each after a back-off that doubles each time. All are
 * restored at once when other points are accepted, because the cause is gone.
 *
 * Pure; caller's storage; one thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_SWING_LIMIT_H
#define LULL_CORE_ENERGY_SWING_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/swing.h"

/* Fewer pieces of a side decide nothing. With swings exactly at the limit, 16 of 100 nodes then
 * give a lever up by chance within a minute; with three pieces 25, with eight 11
 * (test_swing_limit). A larger number would rarely be reached, because jobs of short iterations run
 * few seconds in a row at the reference. */
enum { LULL_SWING_LIMIT_PIECES = 6 };

enum { LULL_SWING_LENGTHS = 4, LULL_SWING_MAX_READINGS = 100 };

/* Points that a node runs at while its power is read. */
enum lull_swing_side {
    LULL_SWING_NEITHER, /* something is tried, or not all GPUs are at the same */
    LULL_SWING_REFERENCE,
    LULL_SWING_MANAGED, /* at the accepted points */
};

/* The levers that are given up. */
struct lull_swing_cut {
    bool gaps;
    uint32_t halvings; /* of the depth of sections */
};

/* The levers in use, which can be given up. */
struct lull_swing_levers {
    bool gaps;        /* gaps are lowered */
    uint32_t deepest; /* points by which the deepest section is below the steady point */
};

/* Pieces of one length. */
struct lull_swing_pieces {
    double powers_w[LULL_SWING_MAX_READINGS]; /* of the piece under way */
    uint32_t count;
    struct lull_swing reference;
    struct lull_swing managed; /* since the given-up levers last changed */
};

/* Two sides that were compared. */
struct lull_swing_finding {
    double length_s; /* of pieces; 0: nothing has been given up so far */
    struct lull_swing reference;
    struct lull_swing managed;
};

struct lull_swing_limit {
    double allowed_ratio;
    struct lull_swing_pieces pieces[LULL_SWING_LENGTHS];
    enum lull_swing_side side; /* of the last reading */
    int64_t last_ns;           /* its time */
    uint64_t next_look;        /* the number of managed pieces from which they are looked at */
    struct lull_swing_cut cut;
    int64_t retry_ns; /* earliest time to restore a lever */
    int64_t spacing_ns;
    struct lull_swing_finding finding; /* for which something was given up last */
};

/* allowed_ratio: how much wider than at the reference swings may be, >= 0. */
void lull_swing_limit_init(struct lull_swing_limit *limit, double allowed_ratio);

/*
 * Takes a reading of the node's power, W, at time_ns, with the node's state since the previous one.
 * Readings are to come every 100 ms; pieces with one that is late by more than a half are left out.
 * Returns whether the levers in use have changed.
 */
bool lull_swing_limit_take(struct lull_swing_limit *limit, enum lull_swing_side side,
                           int64_t time_ns, double power_w, const struct lull_swing_levers *levers);

/* Other points are accepted from now on: all levers are restored. */
void lull_swing_limit_renew(struct lull_swing_limit *limit);

/* The point of a section, as an index of clocks, at a steady point: between both. */
uint32_t lull_swing_cut_point(const struct lull_swing_cut *cut, bool is_gap, uint32_t steady,
                              uint32_t point);

/*
 * The longest pieces of which both sides have enough for a comparison, with
 * their length; NULL: too few readings at the reference or at the accepted
 * points.
 */
const struct lull_swing_pieces *lull_swing_limit_known(const struct lull_swing_limit *limit,
                                                       double *length_s_out);

/* Gives up one more lever. False: none is left. */
bool lull_swing_cut_deepen(struct lull_swing_cut *cut, const struct lull_swing_levers *levers);

/* Restores the lever that was given up last. False: none was. */
bool lull_swing_cut_undo(struct lull_swing_cut *cut);

#endif
