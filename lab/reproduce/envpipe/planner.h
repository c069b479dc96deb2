/*
 * EnvPipe's planner (Choi et al., USENIX ATC'23), balanced variant, as the authors of Perseus
 * (SOSP'24) emulated it.
 *
 * The outer envelope runs at the highest clock: the last stage, the forwards of the first
 * micro-batch and the backwards of the last one. Every other operation begins at its clock of least
 * energy. Each step finds the critical path. While the path leaves the envelope, all its operations
 * at its lowest clock are raised by one clock. No step lowers a clock, and there is no model of
 * energy.
 *
 * Differences from the publication: the critical path is the longest path of the task graph
 * (EnvPipe estimates it from receive times), each class of operations has a low clock (EnvPipe:
 * each stage), and the first path outside the envelope counts (EnvPipe waits for ten iterations).
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_ENVPIPE_PLANNER_H
#define LULL_LAB_REPRODUCE_ENVPIPE_PLANNER_H

#include <stdint.h>

#include "core/pipeline/model/plan.h"

/* Writes op_count indices into the operating points to point_out, and the number of steps that
 * raised clocks to steps_out. Error: -ENOMEM. O(operations) per step. */
int lull_envpipe_plan(const struct lull_pipeline_problem *problem, uint32_t *point_out,
                      uint32_t *steps_out);

#endif
