/*
 * Stage profiles as Perseus (SOSP'24) records them: a table (columns.h) with at least the columns
 *   stage,instruction,frequency,time,energy
 * in any order: stage from 0; instruction forward, backward, input, weight, recompute or overlap
 * (with a column "partner", the stage of its backward); frequency the locked SM clock, MHz;
 * time in s, rounded to ns; energy in J, rounded to nJ. Other columns are skipped. A row
 * without a clock, time or energy is left out and counted.
 *
 * As Zeus's pipeline server writes them, a row per rank: dp_rank and tp_rank distinguish rows of
 * one stage and clock. Those of one dp_rank are one stage's GPUs, which take the longest time and
 * the sum of the energies; over dp_ranks both are means. A dp_rank with fewer rows than others is
 * left out of the mean and counted.
 *
 * As tools around DeepSpeed write them: instructions in its words (ForwardPass, BackwardPass, fwd,
 * bwd and similar ones), pp_rank or stage_id for stage, time_ms and energy_mj. Its other
 * instructions, such as SendActivation or OptimizerStep, have no clock to choose: they are left out
 * and counted.
 *
 * Every stage from 0 to the last has the instructions that stage 0 has; clocks may differ.
 *
 * One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_PIPELINE_PROFILE_H
#define LULL_TRACE_PIPELINE_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/model/profile.h"

/* Skipped and merged rows. */
struct lull_pipeline_profile_notes {
    size_t blank_rows;     /* left out: a clock, time or energy is missing */
    size_t other_rows;     /* left out: another instruction of DeepSpeed */
    size_t partial_copies; /* dp_ranks of a point left out: they lack a tp_rank that others have */
    uint32_t copies;       /* the most dp_ranks of a point */
    uint32_t shards;       /* the most tp_ranks of a dp_rank */
};

/*
 * Reads a file, plain or gzip ("-" is standard input). profile_out: not initialised before; written
 * on success, then the caller's to fini; notes_out, which may be null, likewise. Errors, with line
 * and column: LULL_E_FORMAT a column, stage or instruction that is missing, what is not a number,
 * no time above 0, no clock, an unknown instruction, a clock twice (of the same ranks), nothing at
 * all; -ENOMEM; those of lull_columns_read.
 */
int lull_pipeline_profile_read(const char *path, struct lull_pipeline_profile *profile_out,
                               struct lull_pipeline_profile_notes *notes_out,
                               struct lull_error *err);

#endif
