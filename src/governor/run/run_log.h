/*
 * Run log: what happened on one GPU during a run, kept for the report and the timeline: the
 * boundaries of its iterations, its sections, the points requested, and readings of power, clock
 * and energy. Bounded: beyond LULL_RUN_LOG_LIMIT entries of a kind, later ones are only counted.
 *
 * Threads: one at a time; the control loop and the sampler share a lock (control.c).
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_LOG_H
#define LULL_GOVERNOR_RUN_RUN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/energy/account.h"
#include "core/stats/moments.h"
#include "core/section/controller/controller.h"
#include "device/device.h"

enum { LULL_RUN_LOG_LIMIT = 1 << 20 };

/* The beginning of an iteration. */
struct lull_boundary {
    int64_t time_ns;
    bool first; /* no iteration ends here: the time before is unknown */
    enum lull_controller_phase phase;
    struct lull_visit
        visit; /* the points of the iteration that begins; none where a plan decides */
};

/* One section, or one stretch at a lowered clock. */
struct lull_span {
    int64_t begin_ns;
    int64_t end_ns;
    uint32_t index; /* the operation of a section, or the MHz of a stretch */
};

struct lull_sample {
    int64_t time_ns;
    struct lull_device_reading reading;
};

struct lull_boundaries {
    struct lull_boundary *items;
    size_t count;
    size_t warmup; /* this many of the first ones are not iterations of the job: see below */
    size_t capacity;
};

struct lull_spans {
    struct lull_span *items;
    size_t count;
    size_t capacity;
};

struct lull_samples {
    struct lull_sample *items;
    size_t count;
    size_t capacity;
};

/* Times from the start of a section until the driver call that lowers its clock began.
 */
struct lull_reactions {
    int64_t *items; /* ns */
    size_t count;
    size_t capacity;
};

struct lull_run_log {
    struct lull_boundaries boundaries;
    struct lull_reactions reactions; /* of lowerings that were not forecast */
    struct lull_spans sections;
    struct lull_spans lowered;
    struct lull_samples samples; /* whose counters never run backwards, whatever was read */
    struct lull_energy_account energy;
    uint64_t dropped;
    uint64_t switches;
    uint64_t refused; /* requests that the writer or the device refused */
};

/* source: the properties of the GPU's readings. */
void lull_run_log_init(struct lull_run_log *log, const struct lull_energy_source *source);
void lull_run_log_fini(struct lull_run_log *log);

/*
 * Adds the beginning of an iteration. Iterations found before a first one count as warm-up, if the
 * search had not settled and they lasted for less time than
 * finding the new ones took. The start of a job may repeat too,
 * such as the collectives with which a library tunes itself.
 */
void lull_run_log_add_boundary(struct lull_run_log *log, const struct lull_boundary *boundary);
void lull_run_log_add_section(struct lull_run_log *log, const struct lull_span *span);
void lull_run_log_add_lowered(struct lull_run_log *log, const struct lull_span *span);
void lull_run_log_add_reaction(struct lull_run_log *log, int64_t reaction_ns);
void lull_run_log_add_sample(struct lull_run_log *log, const struct lull_sample *sample);

/* Finds the p-quantile (0..1) of the reactions, us. False: there were none, or no memory to sort
 * them. */
bool lull_run_log_reaction_us(const struct lull_run_log *log, double p, double *reaction_out);

/*
 * Finds the energy from the first reading until time_ns, J: the counter where it was read, and in
 * between in proportion to the power readings. False: that time has no readings on both sides, or
 * the sensors contradict each other.
 */
bool lull_run_log_energy_j(const struct lull_run_log *log, int64_t time_ns, double *energy_out);

/* Energy between two times, J. False: one of them has no readings around it. */
bool lull_run_log_energy_between(const struct lull_run_log *log, int64_t begin_ns, int64_t end_ns,
                                 double *energy_out);

/* Adds the power readings from begin_ns up to end_ns, W. */
void lull_run_log_powers(const struct lull_run_log *log, int64_t begin_ns, int64_t end_ns,
                         struct lull_moments *powers_w);

/* The power limit of the GPU at the begin of the run and at its end, mW; 0: not known. */
struct lull_run_log_limits {
    uint32_t first_mw;
    uint32_t last_mw;
};

struct lull_run_log_limits lull_run_log_limits(const struct lull_run_log *log);

/* Returns the share of the readings of a GPU with work in which one of these reasons
 * (enum lull_clock_reason) held its clock, and which did; 0 of too few readings. */
double lull_run_log_held_ratio(const struct lull_run_log *log, uint64_t reasons,
                               uint64_t *found_out);

/* Returns whether they held it in so many of them that it matters. */
bool lull_run_log_is_held(const struct lull_run_log *log, uint64_t reasons);

/* A sample as a reading for an energy account. */
struct lull_energy_reading lull_sample_energy_reading(const struct lull_sample *sample);

/* Finds how well that energy is known: the variance and the bias of an edge at time_ns. The edge's
 * own energy counts from a time of its own and cannot be compared with that of other edges. False:
 * there are no readings around that time. */
bool lull_run_log_edge(const struct lull_run_log *log, const struct lull_energy_source *source,
                       int64_t time_ns, struct lull_energy_edge *edge_out);

#endif
