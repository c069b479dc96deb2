/*
 * Exact windows: the last word on a plan, where there is time. Some operations that run at about
 * the same time, on stages near by, are free to choose, all others keep their options; whether the
 * plan can be had for less is then a small question, which branching (prove/prove.h) answers.
 * Windows are drawn at random, of many shapes, from a fixed seed: large neighbourhood search (Shaw
 * 1998).
 *
 * It finds what a beam (beam.h) has thrown away too early: steps in a dozen operations at once.
 *
 * Pure. Threads: any; the problem is only read. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUND_EXACT_H
#define LULL_CORE_PIPELINE_ROUND_EXACT_H

#include <stdint.h>

#include "core/pipeline/plan.h"

/*
 * option_inout: a plan within deadline_ns; it stays so and never becomes dearer. windows: how many
 * are looked at; each takes about a quarter of a second for 200 operations. The same input always
 * gives the same plan. Returns how many made it cheaper. Errors: -ENOMEM; those of
 * lull_pipeline_prove.
 */
int64_t lull_pipeline_exact(const struct lull_pipeline_problem *problem, int64_t deadline_ns,
                            uint32_t windows, uint32_t *option_inout);

#endif
