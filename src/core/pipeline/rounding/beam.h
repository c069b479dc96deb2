/*
 * Beam: a cheaper plan for the one deadline that a job will run with.
 *
 * A flow through the task graph (certificate.h) bounds the energy of every plan, and shows where a
 * given plan loses against that bound: on every edge it loses the flow times the slack, and in
 * every operation what its operating point costs more than the cheapest one at the price of its
 * flow. No loss is negative, so the search builds plans operation by operation, as time continues,
 * and of the partial plans that have come equally far it keeps only those with the least loss (beam
 * search, Lowerre 1976). A plan may drift from the relaxed optimum's times, but pays for it.
 *
 * It finds what moves of many operations by one width (rounding.h) do not find: combinations of
 * different steps that add up to the same time on every path.
 *
 * Pure. Threads: one per rounding. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUNDING_BEAM_H
#define LULL_CORE_PIPELINE_ROUNDING_BEAM_H

#include <stdint.h>

#include "core/pipeline/rounding/rounding.h"

struct lull_frontier;

/*
 * Looks for a cheaper plan within deadline_ns. point_inout: a plan within deadline_ns, such as
 * lull_pipeline_round_thorough's; it stays within and never becomes more expensive. The frontier,
 * of the same problem, is left standing somewhere near. The work is bounded, at most half a second
 * for 512 operations: a plan within 0.05 % of the relaxed optimum is left as it is, and a search
 * along another flow follows only on one that has saved 0.02 %. The same input always gives the
 * same plan. Errors: -ERANGE the plan takes longer than the deadline; those of lull_frontier_seek;
 * -ENOMEM.
 */
int lull_pipeline_beam(struct lull_pipeline_rounding *rounding, struct lull_frontier *frontier,
                       int64_t deadline_ns, uint32_t *point_inout);

#endif
