/*
 * Private to the beam (beam_pass.c): what it costs in the end that a partial plan's operations end
 * earlier or later than the guide's.
 *
 * To first order that is what the flow says, and counted as it is lost. To second order, every
 * operation to come is a spring between its begin and its end, as stiff as its price of time is
 * steep; begins and ends that the flow ties together move as one; the end of all stands still. What
 * the springs hold when the ends of the partial plan are moved, and all to come settles, is a
 * quadratic form of those moves: the Schur complement of the springs' matrix, found by taking
 * operations away one by one, the last first, and eliminating what no partial plan holds
 * (cost-to-go of a linear-quadratic problem: Bellman 1957; the matrix is a network's, reduced:
 * Kron 1939).
 *
 * So a plan that is late as a whole, which costs little, is told from one whose parts do not fit.
 *
 * Pure. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUND_SPRINGS_H
#define LULL_CORE_PIPELINE_ROUND_SPRINGS_H

#include <stdbool.h>
#include <stdint.h>

struct beam;

/* An end of partial plans, in the form at hand. */
struct spring_end {
    uint32_t slot;
    uint32_t row;
    int64_t guide_ns;
};

/* A quadratic form after each turn, over events: begins and ends that move as one. */
struct springs {
    double *stiffness; /* of each operation, W per ns; 0: the flow has no price for it */
    double least_w;    /* what flows over a tie at least */
    uint32_t *event;   /* of begins (2 op) and ends (2 op + 1), then of the end of all */
    uint32_t *size;    /* of the form after each turn */
    uint64_t *first;   /* where its events begin; its matrix, row by row, at first_value */
    uint64_t *first_value;
    uint32_t *events;
    double *values;

    /* The form after the turn at hand, and the partial plan asked about. */
    uint32_t *holder;        /* of each slot, the operation whose end is there */
    struct spring_end *ends; /* those but the turn's own */
    uint32_t end_count;
    struct spring_end own; /* row: size where it is in none */
    const double *form;
    uint32_t form_size;
    double *move_ns; /* of each row */
    double held_nj;  /* with the turn's own end at own_move_ns */
    double own_move_ns;
    double pull_w; /* there, on its row */
    bool is_free;  /* nobody else holds its row */
};

/* stiffness and least_w are set before; the beam has its flow, its turns and its slots. -E2BIG:
 * so many ends are held at once that the forms are too large; -ENOMEM. Destroy it even then. */
int lull_springs_create(struct springs *springs, const struct beam *beam);
void lull_springs_destroy(struct springs *springs);

/* Goes on to a turn, one after the other from the first. */
void lull_springs_turn(struct springs *springs, const struct beam *beam, uint32_t turn);

/* Takes a partial plan before the turn, by its ends; then asks what springs hold after it where the
 * turn's operation ends at end_ns. O(size^2) and O(1). */
void lull_springs_enter(struct springs *springs, const int64_t *ends_ns);
double lull_springs_held_nj(const struct springs *springs, int64_t end_ns);

#endif
