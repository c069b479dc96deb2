/*
 * The serving governor's state, for its own files only:
 *   serving.c         its life, readings, server processes
 *   serving_clock.c   which clock each GPU gets, and its requests
 *   serving_steps.c   steps of a server without metrics
 *   serving_notes.c   messages for the user
 *   serving_summary.c results for the report and live views
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_SERVING_SERVING_STATE_H
#define LULL_GOVERNOR_SERVING_SERVING_STATE_H

#include "core/energy/device_curve.h"
#include "core/serving/cadence.h"
#include "core/serving/joint_energy.h"
#include "governor/serving/idle_watch.h"
#include "governor/serving/metrics_fetch.h"
#include "governor/serving/park.h"
#include "governor/serving/serving.h"

struct lull_serving_gpu {
    bool is_served;     /* its clock is chosen here */
    bool is_lost;       /* the last reading had no field at all */
    bool has_processes; /* by the last list */
    uint32_t park_mhz;  /* its clock while it is parked */
    uint32_t asked_mhz; /* last request; 0: the highest */
    uint32_t read_mhz;  /* last reading; 0: none */
    uint64_t sequence;  /* of the last request; 0: none */
    int64_t asked_ns;   /* when it was posted last */
    int64_t full_ns;    /* when all fields were read last; 0: never... */
    int64_t read_ns;    /* ...and when any was */
    struct lull_idle_watch watch;
    struct lull_park_record park;
    enum lull_idle_sign sign;             /* of the last reading that showed work */
    uint32_t signs[LULL_IDLE_SIGN_COUNT]; /* that ended a park */
};

/* The clock that the controller was last informed of, and since when readings contradict it. */
struct lull_serving_in_force {
    double mhz;       /* 0: none */
    uint32_t strange; /* consecutive rounds of readings with another clock */
    int64_t round_ns; /* of the last round that was compared */
};

/* Messages that are given once until their cause has ended. */
enum lull_serving_message {
    LULL_SERVING_NO_PARK,   /* no lower clock meets the bound of the first work */
    LULL_SERVING_NO_SIGNAL, /* an objective without metrics, which steps do not show */
    LULL_SERVING_NO_STEPS,  /* no probe shows steps */
    LULL_SERVING_CAPPED,
    LULL_SERVING_FAILED_GPU,   /* a GPU cannot be read, or its clock cannot be set */
    LULL_SERVING_UNREADABLE,   /* no utilization: idleness cannot be detected */
    LULL_SERVING_UNPLACED,     /* the GPUs of the command are unknown */
    LULL_SERVING_INEXACT_TTFT, /* the bound is no bucket of the histogram */
    LULL_SERVING_INEXACT_TPOT,
    LULL_SERVING_MESSAGES
};

struct lull_serving {
    const struct lull_serving_options *options;
    struct lull_control *control;
    uint32_t gpu_count; /* of the control */
    struct lull_serving_gpu gpus[LULL_CONTROLLER_MAX_GPUS];

    struct lull_metrics *metrics; /* NULL: none are read */
    struct lull_serving_figures figures;
    int64_t metrics_ns; /* when they were read last, or a step was seen; 0: never */

    /* steps in place of metrics */
    struct lull_cadence cadence;
    struct lull_control_step steps[LULL_CONTROL_STEPS_KEPT];
    bool has_steps;     /* there was a reading of them */
    int64_t working_ns; /* since when the GPUs work; 0: they do not */

    /* NULL: GPUs are only parked; it is created once the GPUs are known. */
    struct lull_serving_controller *controller;
    struct lull_serving_state state; /* of it */
    double controlled_mhz;           /* its clock */
    double clocks_mhz[LULL_SERVING_CLOCKS];
    struct lull_serving_in_force in_force;

    double blind_s;    /* longest time from the first work until the clocks are high */
    double energy_j;   /* of the served GPUs so far; NAN: unknown */
    int64_t energy_ns; /* of the last sum that the controller has */
    struct lull_joint_energy joint_energy; /* served GPUs, in their order */

    int64_t begin_ns;
    int64_t tick_ns;   /* of the last tick */
    int64_t listed_ns; /* of the last list of processes; 0: none */
    int64_t absent_ns; /* since when no process is on any GPU; 0: there is one */
    bool had_processes;
    bool is_blind_list;       /* lists cannot name this command's processes */
    bool is_changing;         /* a request for another clock has not taken effect on all GPUs */
    int64_t retried_until_ns; /* end of the attempt after that */
    int64_t failed_until_ns;  /* a GPU or its driver has failed: no clock is lowered before */
    bool is_held;             /* the highest clock is requested, whatever the load */
    bool is_capped;
    enum lull_live_mode mode;
    double modes_s[LULL_LIVE_MODE_COUNT];
    bool is_said[LULL_SERVING_MESSAGES];
};

/* Time until the clocks of all served GPUs have followed a request to raise them, at the 99th
 * percentile, s. */
double lull_serving_latency_s(const struct lull_serving *serving);

/* Begins to choose the clock of a GPU that was leased. */
void lull_serving_adopt(struct lull_serving *serving, uint32_t gpu);

/* Chooses the clocks and posts the requests that are due. */
void lull_serving_set_clocks(struct lull_serving *serving, int64_t now_ns);

/* Takes the steps since the last call. Returns whether they make a reading now. */
bool lull_serving_read_steps(struct lull_serving *serving, int64_t now_ns,
                             struct lull_serving_reading *reading_out);

/* Returns whether the server works, but no probe shows its steps. */
bool lull_serving_lacks_steps(const struct lull_serving *serving, int64_t now_ns);

/* Sets note_out to the first message that is due. */
void lull_serving_note(struct lull_serving *serving, int64_t now_ns, struct lull_error *note_out);

enum { LULL_SERVING_FAILURE_BYTES = 96 };

/* Returns the first GPU that cannot be read or driven, and why; -1: all can. Call it while the
 * control is locked. text_out may be NULL. */
int lull_serving_find_failed(const struct lull_serving *serving, char *text_out, size_t size);

#endif
