/*
 * Proof: that no plan of real options within a deadline needs as little as a given energy, where
 * the relaxation's bound (certificate.h) lies below it. Or a plan that does.
 *
 * Branch and bound: an operation that mixes two options in the relaxed optimum has either one that
 * is as fast as the mixture or one that is slower. With fewer options the flow is repaired, not
 * found anew (out-of-kilter method, Fulkerson 1961), and proves more; options that lose more
 * against the bound than there is to lose are left out (reduced cost fixing). Each of a few
 * operations is tried both ways before one is branched on; where one way is closed, the other
 * holds without branching (strong branching, probing: Savelsbergh 1994).
 *
 * Operations in a chain that nothing else joins or leaves count as one, with the sums of their
 * options: apart, each would make up for what branching tells the other.
 *
 * Losses of parts of the graph that share no operation add up. So the operations are cut into
 * windows of about the same time, and a search over each one alone, the flow outside standing
 * still, shows what is lost there at least; each has only its share to show, and a few small
 * searches are done where one over everything would not end. What windows cannot see is what is
 * lost between them, so the search over everything takes its turn as well. (Additive bounds:
 * Fischetti, Toth 1989; the windows as subproblems of a Lagrangian relaxation: Guignard, Kim 1987.)
 *
 * What is closed has been closed by a flow that lull_certificate_check passed and whose bound lies
 * above the energy, or by a longest path of the fastest options left that exceeds the deadline. So
 * a mistake in the search can make it long, but not wrong.
 *
 * Pure. Threads: any; the problem is only read. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_PROVE_PROVE_H
#define LULL_CORE_PIPELINE_PROVE_PROVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/plan.h"

enum lull_proof {
    LULL_PROOF_NONE,      /* no plan within the deadline needs so little */
    LULL_PROOF_FOUND,     /* this one does */
    LULL_PROOF_UNDECIDED, /* the search was cut off */
};

struct lull_proof_report {
    enum lull_proof outcome;
    uint64_t branchings;
    uint64_t closed;   /* choices of options that were shown impossible */
    double done_ratio; /* how much of the search over all operations is over, 0 to 1: halves */
    double bound_j;    /* of the flow before any branching */
    double proven_j;   /* no plan within the deadline needs less: at least bound_j */
};

struct lull_proof_limits {
    uint64_t branchings; /* the search is cut off after so many, 0: after none */
    uint32_t window_ops; /* operations in a window, about; 0: no windows */
};

/* Larger windows show more, and take longer to search: good for pipelines of 8 stages. */
enum { LULL_PROOF_WINDOW_OPS = 80 };

/* Told now and then how far it is; false: give up (undecided). */
typedef bool (*lull_proof_progress)(void *user, const struct lull_proof_report *report);

/*
 * energy_j: of an iteration that takes as long as the plan. progress may be NULL. option_out:
 * op_count places, a plan where one was found, else left alone. The same input always gives the
 * same report. Errors: -ERANGE no plan holds the deadline; -EINVAL a blocking power that is none;
 * -ENOMEM.
 */
int lull_pipeline_prove(const struct lull_pipeline_problem *problem, int64_t deadline_ns,
                        double energy_j, const struct lull_proof_limits *limits,
                        lull_proof_progress progress, void *user, uint32_t *option_out,
                        struct lull_proof_report *report_out, struct lull_error *err);

#endif
