/*
 * Run pass: one execution of a run's command, and the run that it belongs to. What starts is in
 * run_start.c, what watches in run_watch.c, what ends in run.c.
 *
 * Threads: the main thread of `lull run`; nothing here waits for the driver without a bound.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_PASS_H
#define LULL_GOVERNOR_RUN_RUN_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/error.h"
#include "device/rapl.h"
#include "governor/limits/power_smoothing.h"
#include "governor/control/control.h"
#include "governor/energy/accounting.h"
#include "governor/plan/plan_runner.h"
#include "governor/plan/straggler_response.h"
#include "governor/report/scalars.h"
#include "governor/run/job_signals.h"
#include "base/child.h"
#include "governor/run/probes.h"
#include "governor/run/run.h"
#include "governor/run/run_comparison.h"
#include "governor/run/run_frontier.h"
#include "governor/run/run_hang.h"
#include "governor/run/run_leases.h"
#include "governor/run/run_live.h"
#include "governor/run/run_witness.h"
#include "governor/run/sampler.h"

enum { LULL_RUN_MAX_NOTES = 24, LULL_RUN_NOTE_SIZE = 640, LULL_RUN_PATH_SIZE = 512 };

struct lull_managed_run {
    const struct lull_run_options *options;
    struct lull_devices *devices;
    bool is_driver_stuck; /* a thread has not returned from it, so the devices must stay open */
    struct lull_job_signals signals;
    struct lull_run_leases leases;
    struct lull_error denial; /* why there was no actuator at the last attempt; code 0: there was */
    struct lull_sampler *sampler; /* NULL: no GPU, or no thread */
    uint32_t gpus[LULL_CONTROLLER_MAX_GPUS];
    uint32_t gpu_count;
    bool is_certain; /* the driver has no other GPU than the first of them */
    struct lull_probes probes;
    struct lull_event_segment
        *adopted_job; /* of a job that a launcher starts, until its pass has it */
    struct lull_child adopted;
    struct lull_peers_summary peers; /* nodes 0: the job has one node */
    struct lull_pipeline_plans plans;
    struct lull_rapl *rapl; /* NULL: it could not be opened, and rapl_reason says why */
    struct lull_error rapl_reason;
    struct lull_run_comparison comparison; /* empty without --compare */
    char *notes[LULL_RUN_MAX_NOTES + 1];
    uint32_t note_count;
    uint32_t first_finding; /* index of the first note found at the end; while the job runs, the
                               number of notes */
};

/* The state of the progress display: what it has shown, and when the next sentence is due. */
struct lull_run_progress {
    bool has_title;   /* the terminal's title is ours */
    bool has_settled; /* a sentence has reported that the search has settled */
    int64_t pause_ns; /* before the next sentence; 0: none has been logged */
    int64_t next_ns;  /* when it is due */
};

struct lull_run_pass {
    struct lull_managed_run *run;
    const char *name;
    char title[48]; /* name of the pass in the progress display: "run 2 of 6, managed" */
    struct lull_event_segment *job;
    struct lull_control *control;
    struct lull_peers *peers;                 /* NULL: the job has one node */
    struct lull_plan_runner *runner;          /* NULL: no plan is executed */
    struct lull_online *online;               /* NULL: plans are given, or none */
    struct lull_straggler_response *response; /* NULL: stragglers are not looked for */
    struct lull_limits *limits;               /* NULL: power limits are not set */
    struct lull_power_smoothing *smoothing;   /* NULL: power swings are not bounded by it */
    struct lull_serving *serving;             /* NULL: no server is managed */
    struct lull_accounting *accounting;       /* NULL: no GPU, or no memory */
    struct lull_child child;
    int status;
    bool ended;
    bool observe_only;
    bool was_paused;                           /* at any time */
    bool is_denied;                            /* it only observes because a right is missing */
    bool has_energy[LULL_CONTROLLER_MAX_GPUS]; /* its energy was read since a rank uses it */
    int64_t
        logged_ns[LULL_CONTROLLER_MAX_GPUS]; /* of the last logged reading; of a server's GPUs */
    uint64_t ticks;
    int64_t begin_ns;              /* of watching */
    struct lull_run_trials trials; /* as far as who looks on has looked at them */
    struct lull_run_live live;
    struct lull_run_progress progress;
    struct lull_run_hangs hangs;
    struct lull_run_witness witness;        /* of the command's processes, until one has joined */
    struct lull_scalar_files *scalar_files; /* NULL: none are written */
    struct lull_scalars scalars;
    double wall_s;
    char job_path[LULL_RUN_PATH_SIZE];
    uv_loop_t loop;
    uv_poll_t child_poll;
    uv_timer_t timer;
    uv_timer_t serving_timer;
    uv_poll_t signals;
};

/* Messages say what happened and then what to do, separated by the first ". " or, without one, the
 * last "; ": the end of a run prints both parts in different lines. */

/* Logs a message to the user once, and stores it for the report. */
void lull_run_note(struct lull_managed_run *run, const char *text);

/* Stores what was found after the end of the job for the report,
 * whose table shows it. Without a table it is logged at once. */
void lull_run_found(struct lull_managed_run *run, const char *text);

/* Sends the launcher what its job needs. This comes before the GPUs are opened, because the
 * launcher waits for it and drivers are slow. Does nothing if this process starts the command.
 * Errors: the launcher has gone. */
int lull_run_adopt_job(struct lull_managed_run *run, struct lull_error *err);

/* Opens the GPUs that the command sees, their sampler and their actuator. A failure is noted, and
 * the command runs unmanaged. Errors, of a run that is attached only: why its GPUs cannot be
 * managed. */
int lull_run_open_devices(struct lull_managed_run *run, struct lull_error *err);

/* Opens the actuator unless one is open; without one the command is observed only. */
void lull_run_open_actuator(struct lull_managed_run *run);

/* Chooses the probes that the job loads. A note reports each probe that cannot be loaded. */
void lull_run_choose_probes(struct lull_managed_run *run);

/* Check what would otherwise be reported only at the end of the job. Errors: -EINVAL, with the
 * option and what to give instead. */
int lull_run_check_limit(const struct lull_managed_run *run, struct lull_error *err);

/* Loads the plans. Errors: -EINVAL one cannot be read, or is none; the text names its file. */
int lull_run_load_plans(struct lull_managed_run *run, struct lull_error *err);

/* Makes the job's segment and the control loop; without them the command still runs. Errors, of a
 * run that is attached only: why its GPUs cannot be managed. */
int lull_run_pass_prepare(struct lull_run_pass *pass, bool observe_only, struct lull_error *err);

/* Starts the command as the child. Errors: those of lull_child_start_as. */
int lull_run_pass_start_job(struct lull_run_pass *pass, struct lull_error *err);

/* Reads the GPUs before the job starts and after it has ended, and waits for it, but not for a
 * driver that hangs. */
void lull_run_pass_sample(struct lull_run_pass *pass);

/* Open the folder of --scalars, write a row of the run's numbers, and close it with a last row. A
 * failure is noted and does not affect the job. */
void lull_run_pass_begin_scalars(struct lull_run_pass *pass);
void lull_run_pass_report_scalars(struct lull_run_pass *pass);
void lull_run_pass_end_scalars(struct lull_run_pass *pass);

/* Returns when the child, or what the run is attached to, has ended: until then it passes signals
 * on, samples, and renews leases. */
void lull_run_pass_watch(struct lull_run_pass *pass);

#endif
