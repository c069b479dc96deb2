/*
 * The control loop: reads the probes' rings, feeds the controller, posts its commands to the
 * actuator. It runs in its own thread, because nothing else may delay the clock request at the
 * start of a section. The main thread (run.c) does sampling, heartbeats and user output.
 *
 * Threads: create, start, stop and destroy belong to one thread; the others say so.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_CONTROL_CONTROL_H
#define LULL_GOVERNOR_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/section/communicator.h"
#include "core/section/controller/controller.h"
#include "core/section/gaps/gap_map.h"
#include "core/section/hang.h"
#include "core/section/idle_phase.h"
#include "core/section/placement.h"
#include "device/device.h"
#include "governor/energy/accounting.h"
#include "governor/control/actuator.h"
#include "governor/control/decider.h"
#include "governor/control/driver_watch.h"
#include "governor/control/section_meter.h"
#include "governor/run/run_log.h"
#include "wire/event.h"

struct lull_control;

/*
 * The communicators of one process that communicates on the GPU: their names and purposes, as
 * reported by the NCCL profiler plugin. All zero is empty.
 */
enum { LULL_COMMUNICATORS_KEPT = 32 };

struct lull_named_communicator {
    char name[LULL_JOB_NAME_BYTES]; /* "" without one */
    uint64_t operations;
    struct lull_communicator what;
};

struct lull_communicators {
    uint32_t count; /* numbers seen, at most LULL_COMMUNICATORS_KEPT; those beyond are ignored */
    struct lull_named_communicator items[LULL_COMMUNICATORS_KEPT]; /* by number in the process */
};

/* The section controller may use a GPU's power profile if it is OFFERED. The other states say why
 * it may not. */
enum lull_profile_state {
    LULL_PROFILE_UNKNOWN,     /* the GPU is not leased yet */
    LULL_PROFILE_UNSUPPORTED, /* it has none */
    LULL_PROFILE_UNUSED,      /* something else decides */
    LULL_PROFILE_DENIED,      /* the lease may not request it */
    LULL_PROFILE_UNREAD,      /* whether others request profiles is not read yet */
    LULL_PROFILE_FOREIGN,     /* they do */
    LULL_PROFILE_REFUSED,     /* the driver has refused a request */
    LULL_PROFILE_OUTRANKED,   /* it was requested without getting in force */
    LULL_PROFILE_OFFERED,
};

/* Returns why the profile is not used in this state. Static. */
const char *lull_profile_state_text(enum lull_profile_state state);

/* State of one GPU as the loop sees it. */
struct lull_control_gpu {
    int32_t process; /* slot of the rank that uses the GPU; -1: none does */
    bool shared;     /* several ranks use it, so it is not managed */
    uint32_t ranks;  /* ranks that use it, or have shared it */
    bool leased;
    struct lull_error refusal; /* why it is not leased; code 0: not asked yet */
    uint32_t device;           /* index in devices */
    struct lull_driver_watch driver;
    enum lull_profile_state profile;
    uint32_t limit_changes;                  /* of its power limit, by another program */
    struct lull_communicators communicators; /* empty where communication runs on the host */
    uint64_t events;                         /* of its ranks */
    uint64_t lost_events;
    int64_t entered_ns; /* when its rank entered the job (MPI_Init); 0: that was not seen */
    int64_t left_ns;    /* when it left; 0: that was not seen */
};

/* The present state of one GPU, for live views. */
struct lull_control_view {
    uint32_t wanted_mhz; /* the last request; 0: no clock can be set */
    int64_t lowered_ns;  /* total time at lowered clocks so far */
    uint64_t forecasts;  /* sections that were lowered and have been raised... */
    uint64_t hits;       /* ...ahead of their end, by its forecast */
    const struct lull_section_meter *meter;
};

/* A section that a process of the job has announced. */
struct lull_control_section {
    int64_t time_ns; /* of its last edge; 0: there was none */
    uint32_t name;
    bool is_open;
};

/* What a process of an inference server has reported: that a step of its engine has ended, that the
 * engine waits, or that it works again. */
enum lull_control_step_kind {
    LULL_CONTROL_STEP_ENDED,
    LULL_CONTROL_STEP_IDLE,
    LULL_CONTROL_STEP_BEGUN,
};

struct lull_control_step {
    int64_t time_ns;
    uint32_t slot; /* of the process */
    enum lull_control_step_kind kind;
};

enum { LULL_CONTROL_STEPS_KEPT = 1024 };

/* The inputs of a control loop. All of them must live until destroy. */
struct lull_control_setup {
    struct lull_event_segment *job;
    struct lull_devices *devices;
    struct lull_actuator *actuator; /* NULL: nothing is ever switched */
    const struct lull_controller_config *config;
    bool exposure;        /* compute kernels may be recorded in short windows, to find exposed
                             communication */
    bool learns_gaps;     /* a run that only observes records until it knows the gaps */
    const uint32_t *gpus; /* indices of devices that the job may use, in the job's order */
    uint32_t gpu_count;
    int64_t hang_after_ns; /* 0: hangs are not looked for */
};

int lull_control_create(const struct lull_control_setup *setup, struct lull_control **control_out,
                        struct lull_error *err);

/*
 * Replaces the section controller by another decider. The section controller then receives no
 * events. Call it before start. Both must live until destroy.
 */
void lull_control_set_decider(struct lull_control *control, const struct lull_decider *decider,
                              void *state);
const struct lull_decider *lull_control_decider(const struct lull_control *control);

/* Records the start or the end of an iteration in a GPU's run log. Deciders call it. */
void lull_control_log_boundary(struct lull_control *control, uint32_t gpu,
                               const struct lull_boundary *boundary);

/* Reports the program's energy windows to this accounting. Call it before start. The accounting
 * must live until destroy. */
void lull_control_set_accounting(struct lull_control *control, struct lull_accounting *accounting);

/* Makes leases also request permission to set power limits. Call it before start, on a control that
 * only observes: the caller sets the clocks. */
void lull_control_want_limits(struct lull_control *control);
bool lull_control_wants_limits(const struct lull_control *control);

/* Keeps the steps of a server's engines from now on, and moves those that were kept to steps_out;
 * returns how many. The main thread calls them. Errors: -ENOMEM. */
int lull_control_watch_steps(struct lull_control *control);
uint32_t lull_control_take_steps(struct lull_control *control,
                                 struct lull_control_step steps_out[LULL_CONTROL_STEPS_KEPT]);

/* Request a power limit in mW (0: the one from before the lease), a clock (0: unlocked) until
 * valid_until_ns, or power smoothing (a floor of 0: none). Nothing happens to a GPU that is not
 * leased, and 0 is returned. The main thread calls them. */
uint64_t lull_control_set_limit(struct lull_control *control, uint32_t gpu, uint32_t limit_mw);
uint64_t lull_control_set_clock(struct lull_control *control, uint32_t gpu, uint32_t sm_mhz,
                                int64_t valid_until_ns);
uint64_t lull_control_set_smoothing(struct lull_control *control, uint32_t gpu,
                                    const struct lull_smoothing *smoothing);
void lull_control_limit_result(const struct lull_control *control, uint32_t gpu,
                               struct lull_limit_result *result_out);
void lull_control_clock_result(const struct lull_control *control, uint32_t gpu,
                               struct lull_switch_result *result_out);

/*
 * Leases a GPU now, whether a rank uses it or not. The main thread calls it. Errors, with no effect
 * on other GPUs: -ENOTCONN there is no actuator now; those of lull_actuator_lease. With -EPIPE and
 * -ETIMEDOUT the daemon has died, and lull_control_arm leases the GPU.
 */
int lull_control_lease(struct lull_control *control, uint32_t gpu, struct lull_error *err);

/* From now on iterations are logged with this phase instead of the controller's, which only
 * observes. */
void lull_control_set_phase(struct lull_control *control, enum lull_controller_phase phase);

int lull_control_start(struct lull_control *control, struct lull_error *err);

/* Ends the thread. Before it ends, the thread takes the remaining events and raises all GPUs. */
void lull_control_stop(struct lull_control *control);
void lull_control_destroy(struct lull_control *control);

/*
 * Binds processes to the GPUs that they use (core/section/placement.h) and leases these GPUs. A
 * process without a known GPU waits, and nothing is switched for it. The main thread calls it a few
 * times a second, and the functions below.
 */
void lull_control_bind(struct lull_control *control);

/* Assumes that processes run on the only GPU if neither the probes nor the driver report where they
 * run. Call it before start, on a control of the only GPU of the driver. */
void lull_control_trust_environment(struct lull_control *control);

/* Returns whether the driver's lists of processes are to be read now. */
bool lull_control_wants_lists(struct lull_control *control, int64_t now_ns);
void lull_control_take_list(struct lull_control *control, uint32_t gpu,
                            const struct lull_device_processes *list);

/* Returns whether the driver's lists cannot name the job's processes on some GPU. */
bool lull_control_is_blind(const struct lull_control *control);

/* Counts the processes without a known GPU whose last state is this one. */
uint32_t lull_control_count_placed(struct lull_control *control, enum lull_placement placement);

/* Returns whether the GPU's power profiles are to be read; is_slow: in a round of slow readings. */
bool lull_control_wants_profiles(struct lull_control *control, uint32_t gpu, bool is_slow);

/* Returns whether a GPU is to be read for signs of work, and whether one is at its lowest clock for
 * an idle phase: then it is to be read as often as possible. */
bool lull_control_wants_utilization(struct lull_control *control, uint32_t gpu, int64_t now_ns);
bool lull_control_is_parked(struct lull_control *control);

/* Records one reading of a GPU in its run log and passes it to the decider. */
void lull_control_sample(struct lull_control *control, uint32_t gpu,
                         const struct lull_sample *sample);

/* Stops using the actuator. Once this has returned, no thread uses it. The main thread calls it,
 * and closes the actuator afterwards. */
void lull_control_disarm(struct lull_control *control);

/*
 * Leases all GPUs that ranks use through another actuator, which must live until disarm, and drives
 * them through it. Requests through the previous actuator are dropped; earlier results stay valid.
 * On failure no actuator is used, and the given one may hold leases until it is closed. The main
 * thread calls it, on a control that is disarmed. Errors: those of lull_actuator_lease.
 */
int lull_control_arm(struct lull_control *control, struct lull_actuator *actuator,
                     struct lull_error *err);

/* Starts or ends a hold. During a hold all GPUs stay at the reference and nothing is tested. Call
 * it while locked. */
void lull_control_hold(struct lull_control *control, enum lull_hold reason, bool held);

uint32_t lull_control_gpu_count(const struct lull_control *control);

/* While the loop runs, read the results of the next eight functions only between lock and unlock.
 */
void lull_control_lock(struct lull_control *control);
void lull_control_unlock(struct lull_control *control);
const struct lull_controller *lull_control_controller(const struct lull_control *control);
uint32_t lull_control_holds(const struct lull_control *control); /* enum lull_hold */
const struct lull_control_gpu *lull_control_gpu(const struct lull_control *control, uint32_t gpu);
const struct lull_run_log *lull_control_log(const struct lull_control *control, uint32_t gpu);
const struct lull_device_info *lull_control_info(const struct lull_control *control, uint32_t gpu);
struct lull_control_view lull_control_view(const struct lull_control *control, uint32_t gpu,
                                           int64_t now_ns);
/* Returns the idle phases of a GPU so far. */
const struct lull_idle_phase *lull_control_idle(const struct lull_control *control, uint32_t gpu);
/* Returns the gaps between the kernels of a GPU's rank; NULL: it does not communicate on the GPU.
 */
const struct lull_gap_map *lull_control_gaps(const struct lull_control *control, uint32_t gpu);
/* The controller to be changed: by the main thread alone, and only while locked. */
struct lull_controller *lull_control_controlled(struct lull_control *control);
struct lull_event_segment *lull_control_job(const struct lull_control *control);

/* The communication of the job's processes, ranks being their slots; NULL: hangs are not looked
 * for. Use it, and the next three, only while locked. */
struct lull_hang *lull_control_hang(struct lull_control *control);
/* The job hangs, and the rank of this slot only waits: its GPU is low until any communication ends,
 * or its rank reports something. */
void lull_control_lower_spinning(struct lull_control *control, uint32_t slot);
struct lull_control_section lull_control_last_section(const struct lull_control *control,
                                                      uint32_t slot);
/* The GPU of the job that a process is known to use; -1: none is known. */
int32_t lull_control_gpu_of(const struct lull_control *control, uint32_t slot);

/* Returns whether the decider has finished. */
bool lull_control_has_settled(const struct lull_control *control);

#endif
