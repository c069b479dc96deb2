/*
 * The two questions that the audit asks of the guard, each answered by many runs of one kind of
 * job. A result is printed as the members of a JSON object.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BENCH_GUARD_AUDIT_H
#define LULL_BENCH_GUARD_AUDIT_H

#include <stdint.h>

#include "job.h"

/* Run number `run` of a cell has this seed. */
uint64_t audit_run_seed(uint64_t seed, uint32_t run);

/*
 * One verdict (one_verdict.c): of the first verdict in each run, how often it is "not degraded",
 * how often "degraded", how often there is none within this many iterations; and how many
 * iterations and pairs it took. -1: no memory.
 */
int audit_one_verdict(const struct audit_job_config *config, uint64_t seed, uint32_t runs,
                      uint32_t iterations);

/*
 * Whole runs (whole_run.c), looked at after 100, 500, 1000, ... iterations: the slowdown of the run
 * so far, how often it is over the tolerance, how often a lowered point is kept then, and one that
 * harms. At the end: when the first lowering began that stayed, and what the guard reports. -1: no
 * memory.
 */
int audit_whole_run(const struct audit_job_config *config, uint64_t seed, uint32_t runs,
                    uint32_t iterations);

/*
 * What the guard sees after each pair of blocks, in one run until its verdict (one_verdict.c):
 * estimate and bounds of the slowdown, null before there are any. -1: no memory.
 */
int audit_looks(const struct audit_job_config *config, uint64_t seed, uint32_t iterations);

/* ---- numbers of many runs ------------------------------------------------------------------- */

double audit_mean(const double *values, uint32_t count);

/* The p-quantile; sorts the values. */
double audit_quantile(double *values, uint32_t count, double p);

#endif
