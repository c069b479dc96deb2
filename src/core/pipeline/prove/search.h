/*
 * Private to the proof (prove.c, windows.c, bound.c, narrow.c, branch.c): one search, over all
 * operations or over a window of them. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_PROVE_SEARCH_H
#define LULL_CORE_PIPELINE_PROVE_SEARCH_H

#include "core/pipeline/prove/state.h"

/* What rounding may make of a loss, nJ. */
#define LULL_PROVE_SLIP_NJ 1.0

/* What leaving an operation only its slower or its faster options has gained of late, on average.
 */
struct gain {
    double mean_j[2];
    uint32_t tries[2];
};

struct prover {
    struct choices choices;
    struct circulation net;
    int64_t deadline_ns;
    int64_t shortest_ns; /* with all options */
    double blocking_w;   /* of all devices */
    uint64_t most_branchings;
    lull_proof_progress progress;
    void *user;
    struct lull_proof_report report;
    int64_t *duration_ns;
    uint32_t *rounded; /* options left, for the plan within the relaxed optimum */
    uint32_t *found;   /* options asked */
    struct gain *gains;
    struct lull_error *err;

    /* The search at hand. */
    bool is_window;   /* else it is about all operations, and looks for a plan */
    bool *is_inside;  /* of each operation: whether it is about this one */
    double energy_j;  /* to be shown out of reach */
    double offset_j;  /* of the estimate */
    uint64_t limit;   /* of report.branchings: it is cut off there */
    bool is_given_up; /* by the caller */
};

/* Where a search may return to. */
struct mark {
    uint32_t trail_count;
    int64_t *numbers; /* flows, then potentials */
};

/* An operation that mixes options: which are as fast as the mixture, what rounding it costs. */
struct mixed {
    double cost_nj;
    int64_t window_ns;
    uint32_t op;
    double promise; /* its score if it gains what it has so far */
};

/* bound.c. -ENOMEM; to be freed by forget. */
int lull_prover_mark(const struct prover *prover, struct mark *mark);
void lull_prover_return(struct prover *prover, const struct mark *mark);
void lull_prover_forget(struct mark *mark);

/* Brings an operation up to date with what is left of its options. */
void lull_prover_pack(struct prover *prover, uint32_t op);

/* What every plan of the options left needs at least, by the flow at hand, checked. */
double lull_prover_bound(const struct prover *prover);

/* The same for a plan that takes just as long as the deadline, rounded up instead of down. */
double lull_prover_bound_above(const struct prover *prover);

/* The same unchecked and fast, to within rounding: sets the offset, then asks. */
void lull_prover_set_estimate(struct prover *prover);
double lull_prover_estimate(const struct prover *prover);

/* Whether the fastest options left hold the deadline; they are in duration_ns then. */
bool lull_prover_can_hold(struct prover *prover);

/* Leaves an operation only options on one side of a time, and repairs the flow. Returns the bound
 * then, checked where it lies above the energy, INFINITY where no plan is left. */
double lull_prover_restrict(struct prover *prover, uint32_t op, int64_t window_ns, bool is_fast);

/* narrow.c. Leaves out what loses more than there is to lose; returns how many options. */
uint32_t lull_prover_leave_out(struct prover *prover, double bound_j);

/* Rounds all down; lists the operations that it costs most, the dearest first (op_count places),
 * and returns how many. sum_j_out: what it costs in all. */
uint32_t lull_prover_list_mixed(struct prover *prover, struct mixed *mixed, double *sum_j_out);

/* Whether what was rounded down is good enough, its cost being sum_j; a plan is kept then. 1, 0,
 * -ENOMEM. */
int lull_prover_is_found(struct prover *prover, double bound_j, double sum_j);

/* branch.c. Returns 0: the energy is out of reach, -EEXIST: it is not, -EAGAIN: cut off or nothing
 * to branch on, -ENOMEM. share: of done_ratio. To be followed by a return to where it began. */
int lull_prover_explore(struct prover *prover, double share);

/* windows.c. */
struct window {
    double level_j; /* what every plan loses in it at least */
    double step_j;  /* by which the level is raised */
    bool is_exhausted;
};

struct windows {
    uint32_t count;
    uint32_t *window_of; /* of each operation; count: none */
    struct window *each;
    double step_j; /* at first */
    double root_j; /* the bound before any branching, rounded up */
    double sum_j;  /* of the levels */
};

/* -ENOMEM. */
int lull_windows_init(struct windows *windows, const struct prover *prover, uint32_t window_ops);
void lull_windows_fini(struct windows *windows);

/* Raises the levels until they show the energy out of reach (0), or each needs more branchings than
 * that for the next (-EAGAIN); neighbours that can go no further become one. -ENOMEM. */
int lull_windows_raise(struct windows *windows, struct prover *prover, double energy_j,
                       uint64_t branchings);

#endif
