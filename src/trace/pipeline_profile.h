/*
 * Stage profiles as Perseus (SOSP'24) records them: CSV with a header that has at least the columns
 *   stage,instruction,frequency,time,energy
 * in any order: stage from 0; instruction forward, backward, input, weight, recompute or overlap
 * (with a column "partner", the stage of its backward); frequency the locked SM clock, MHz;
 * time in s, rounded to ns; energy in J, rounded to nJ. Other columns are passed over.
 *
 * Every stage from 0 to the last has the instructions that stage 0 has; clocks may differ.
 *
 * One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_PIPELINE_PROFILE_H
#define LULL_TRACE_PIPELINE_PROFILE_H

#include "base/error.h"
#include "core/pipeline/model/profile.h"

/*
 * Reads a file, plain or gzip ("-" is standard input). profile_out: not initialised before; written
 * on success, then the caller's to fini. Errors, with line and column: LULL_E_FORMAT a column,
 * stage or instruction that is missing, what is no number, no time above 0, no clock, an unknown
 * instruction, a clock twice, nothing at all; -ENOMEM; those of lull_columns_read.
 */
int lull_pipeline_profile_read(const char *path, struct lull_pipeline_profile *profile_out,
                               struct lull_error *err);

#endif
