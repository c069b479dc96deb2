/*
 * A job in virtual time that the controller of sections manages, for the audit of the guard.
 *
 * An iteration of each rank is `sections` times computation and then a collective that all ranks
 * leave together (or each for itself: free_ranks). Time goes from event to event: a phase ends, a
 * driver call returns, a clock follows, the controller wants to be asked. The node has one driver
 * that serves one call at a time.
 *
 * Only the harm (harm.h) determines the cost of a lowered clock: with a steady point it slows
 * whatever runs while the clock is low; with sections it lengthens the section that was low, and
 * computation that runs low, at a steady point too, is slower in proportion to the clock. The loss
 * is counted without noise: the work done low, in iterations of the unmanaged job, times what it
 * costs on average. With a straggler the loss is that of the job's clock: others wait for it, so a
 * low clock of theirs costs nothing at first.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BENCH_GUARD_JOB_H
#define LULL_BENCH_GUARD_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "core/section/controller/controller.h"
#include "harm.h"
#include "noise.h"

enum { AUDIT_MAX_RANKS = 4, AUDIT_MAX_POINTS = 64 };

struct audit_job_config {
    struct audit_noise_spec noise;
    struct audit_harm_spec harm;
    uint32_t ranks;
    uint32_t points;         /* clocks, the reference included; at most AUDIT_MAX_POINTS */
    uint32_t sections;       /* 0: one steady point is sought */
    bool has_both;           /* sections and then a steady point for the computation */
    bool free_ranks;         /* no rank waits for another; only the last one is harmed */
    double iteration_ms;     /* unmanaged, without noise */
    double straggle;         /* one rank computes this much longer than the others */
    uint32_t straggle_every; /* mean number of iterations until another rank does */
    uint32_t extra_every;    /* an extra call at the end of every so many iterations; 0: never */
    double tolerance_ratio;
    uint64_t seed;
};

struct audit_job;

/* null: out of memory. */
struct audit_job *audit_job_create(const struct audit_job_config *config);
void audit_job_destroy(struct audit_job *job);

/* Runs the job until the first rank has ended one more iteration. */
void audit_job_step(struct audit_job *job);

const struct lull_controller *audit_job_controller(const struct audit_job *job);

/* By how much the run so far is slower than it would have been unmanaged; of free ranks the most.
 */
double audit_job_slowdown(const struct audit_job *job);

/* The same by the job's own clock, noise taken out: it differs by how often harm that is drawn by
 * lot struck, and by nothing else. */
double audit_job_clocked_slowdown(const struct audit_job *job);

/* Tells whether any target is lowered on any rank: as the best point found so far, or proven
 * harmless. */
bool audit_job_holds_any(const struct audit_job *job);
bool audit_job_keeps_any(const struct audit_job *job);

/* The mean slowdown that what is kept now causes; of free ranks the most. */
double audit_job_kept_slowdown(const struct audit_job *job);

#endif
