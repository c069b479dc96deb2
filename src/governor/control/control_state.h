/*
 * The control loop's state, for its own files only:
 *   control.c         its life, events, commands, calls of the main thread
 *   control_processes.c which process runs on which GPU, leases
 *   control_results.c results of commands, and the state of the driver
 *   control_samples.c readings of the GPUs
 *   control_sections.c the section of each GPU, for live views
 *   control_hang.c    what each process communicates, for hangs
 *   control_steps.c   steps of an inference server
 *   control_idle.c    the lowest clock in idle phases, whatever the decider wants
 *   control_profiles.c the power profile that the section controller wants
 *   section_decider.c the section controller, which rules unless another decider is set
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_CONTROL_CONTROL_STATE_H
#define LULL_GOVERNOR_CONTROL_CONTROL_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/section/hang.h"
#include "core/section/idle_phase.h"
#include "core/section/placement.h"
#include "core/serving/step_finder.h"
#include "governor/control/control.h"
#include "governor/control/power_round.h"

enum { LULL_CONTROL_REQUESTS_KEPT = 8, LULL_CONTROL_EVENTS_HELD = 4096 };

/* A process of the job, by its slot. Guarded by the control's lock, but for placement, which is the
 * main thread's. */
struct lull_control_process {
    bool is_waiting;               /* its GPU is not known yet */
    int64_t waiting_ns;            /* time since which it waits, or has communicated */
    int32_t gpu;                   /* the GPU that it governs; -1: none */
    int32_t seen_on;               /* the GPU that its energy windows count for (accounting.h) */
    enum lull_placement placement; /* its last known state, while it waits */
    struct lull_event *held;       /* its events while it waits; NULL: none */
    uint32_t held_count;
    uint64_t lost_events;                /* of its events, as its probes count them */
    struct lull_control_section section; /* that it announced last */
};

/* A request that has been posted. The writer may still be busy with one when the next is posted. */
struct lull_posted_request {
    uint64_t sequence;
    uint32_t point;
    uint32_t was_point; /* the point that was requested before this one */
    int64_t posted_ns;
    int64_t answers_ns; /* start of the section that caused it; 0: it was fed forward */
    bool is_of_idle;    /* for an idle phase, and not a decider's */
};

/* Requests for power profiles. */
struct lull_requested_profiles {
    uint32_t wanted;   /* enum lull_power_profile; those of the last request */
    bool was_wanted;   /* any has been requested in this run */
    uint64_t sequence; /* of the last request, until its outcome is taken; 0: none */
};

struct lull_governed_gpu {
    struct lull_control_gpu state;
    uint32_t actuator_slot;
    /* The main thread alone changes these two, and the first under the control's lock. */
    bool armed;       /* it is leased through the actuator */
    bool wants_lease; /* to be switched for its rank as soon as there is an actuator */
    const struct lull_device_info *info;
    struct lull_posted_request requests[LULL_CONTROL_REQUESTS_KEPT]; /* by sequence */
    uint64_t posted;        /* sequence of the last request */
    uint64_t taken;         /* sequence of the last outcome taken */
    uint16_t calls;         /* calls of the driver that have been taken, modulo 65536 */
    uint32_t xids;          /* errors of the driver that have been taken... */
    uint32_t xids_reported; /* ...as the log has them */
    struct lull_requested_profiles profiles;
    uint32_t point;          /* the point that was requested last */
    uint32_t first_limit_mw; /* its power limit at the start of the run; 0: unknown */
    uint32_t limit_mw;       /* ...and at the last reading */
    uint32_t cap_mhz; /* the reference point's clock while the GPU is capped; 0: it is not capped */
    struct lull_switch_result
        seen; /* result of a call whose clock is still settling; sequence 0: none */
    struct lull_clock_expectation expected; /* since_ns 0: nothing is expected */
    struct lull_run_log log;
    struct lull_idle_phase idle;
    bool is_parked; /* it is at its lowest clock for an idle phase */
    int64_t park_renew_ns;
    struct lull_span lowered; /* the present stretch at a lowered clock; begin_ns 0: none */
    int64_t lowered_ns;       /* total time of ended stretches */
    bool is_low_within;       /* it has been lowered for a section, and is to be raised */
    uint64_t forecasts;       /* raisings after that... */
    uint64_t hits;            /* ...that were requested while the section still continued */
    struct lull_section_meter meter;
    bool is_idle;  /* it was idle at the last reading */
    bool left;     /* its rank has ended, and another one may take the GPU over */
    bool has_list; /* list has been read; it is the main thread's */
    struct lull_device_processes list;
    int64_t section_begin_ns;
    uint32_t depth; /* number of the rank's calls that are nested now */
    /* The members below are NULL unless the rank communicates on the GPU. */
    struct lull_gap_map *gaps;     /* the gaps between its kernels */
    struct lull_track *enqueueing; /* its iterations, by what its host enqueues */
};

struct lull_control_steps {
    bool has_marks; /* the program marks its steps, and collectives show none */
    struct lull_step_finder finders[LULL_JOB_MAX_PROCESSES]; /* by slot */
    uint32_t count;
    struct lull_control_step items[LULL_CONTROL_STEPS_KEPT];
};

struct lull_control {
    struct lull_event_segment *job;
    struct lull_devices *devices;
    struct lull_actuator *actuator; /* NULL: there is none now; as armed above */
    uint32_t holds;                 /* enum lull_hold; guarded by the lock */
    struct lull_controller *controller;
    struct lull_power_round power_round;
    const struct lull_decider *decider; /* the active one */
    void *deciding;                     /* argument of its functions */
    struct lull_accounting *accounting; /* of energy windows; NULL: none */
    struct lull_hang *hang;             /* NULL: hangs are not looked for */
    struct lull_control_steps *steps;   /* NULL: they are not kept */
    uint64_t spinning;    /* bits: GPUs that only wait while the job hangs, and are low meanwhile */
    pthread_mutex_t lock; /* guards deciders and run logs */
    pthread_t thread;
    bool running;
    bool observe_only;
    double tolerance_ratio;
    bool exposure;    /* compute kernels may be recorded */
    bool learns_gaps; /* although it only observes */
    bool wants_limits;
    bool has_phase; /* lull_control_set_phase has set phase */
    enum lull_controller_phase phase;
    atomic_bool stopping;
    uint32_t bound; /* number of processes examined so far */
    struct lull_control_process processes[LULL_JOB_MAX_PROCESSES];
    bool is_certain;                          /* the driver has no other GPU than the first */
    int64_t listed_ns;                        /* when the driver listed processes last; 0: never */
    bool is_released[LULL_JOB_MAX_PROCESSES]; /* slot of that process; guarded by the lock */
    uint32_t next_release;                    /* the slot that is examined next, and... */
    int64_t release_ns;                       /* ...not before */
    uint32_t gpu_count;
    struct lull_governed_gpu gpus[LULL_CONTROLLER_MAX_GPUS];
};

/* Takes all events that the bound processes have pushed; those of others wait in their rings. */
void lull_control_drain(struct lull_control *control);

/*
 * Jobs that keep restarting workers would use up the slots. Once half of them are used, slots of
 * ended processes are released. One slot is checked at a time: a check takes some 20 us, which
 * delays the handling of events.
 */
void lull_control_release_slots(struct lull_control *control, int64_t now_ns);

/* Takes the results of the commands since the last call, and the state of the driver. */
void lull_control_take_results(struct lull_control *control);

/* Returns the kind of section of an event of the GPU's rank, by its operation or the program's name
 * for it. */
enum lull_live_section lull_control_section_of(const struct lull_control *control,
                                               const struct lull_governed_gpu *gpu,
                                               const struct lull_event *event);

/* Meters the host's calls and the program's sections. If communication runs on the GPU, its gaps
 * are metered instead (section_decider.c). */
void lull_control_meter(const struct lull_control *control, struct lull_governed_gpu *gpu,
                        const struct lull_event *event);

/* Counts whether a lowered section was raised by its forecast, or only when it had ended. Call it
 * before a command is executed. */
void lull_control_judge_forecast(const struct lull_control *control, struct lull_governed_gpu *gpu,
                                 const struct lull_command *command);

/* Posts a request for a GPU that is armed. Its sequence and the point before are filled in. */
void lull_control_post(struct lull_control *control, struct lull_governed_gpu *gpu,
                       const struct lull_posted_request *request, int64_t deadline_ns,
                       int64_t valid_until_ns);

/* Returns the time of an event, at most now: processes of the job may write anything. */
int64_t lull_control_event_ns(const struct lull_event *event);

/* A lease has begun, from which on idle phases are looked for; or leases have ended. */
void lull_control_idle_begin(const struct lull_control *control, struct lull_governed_gpu *gpu);
void lull_control_idle_end(struct lull_governed_gpu *gpu);

/* Take an event of the GPU's rank, and a reading. */
void lull_control_idle_take_event(struct lull_control *control, uint32_t gpu,
                                  const struct lull_event *event);
void lull_control_idle_take_sample(struct lull_control *control, struct lull_governed_gpu *gpu,
                                   const struct lull_sample *sample);

/* Returns whether a decider's command is dropped because the GPU is in an idle phase. A raising is
 * not: the decider expects the end of a section. It ends the phase. */
bool lull_control_idle_overrules(struct lull_governed_gpu *gpu, uint32_t point, int64_t now_ns);

/* Posts what idle phases need now. Call it before the decider's commands are executed. */
void lull_control_idle_poll(struct lull_control *control, int64_t now_ns);

/* A lease has begun: whether it may use the profile. */
void lull_control_profile_begin(struct lull_control *control, struct lull_governed_gpu *gpu);

/* Takes a reading, which shows whether other programs request profiles. */
void lull_control_profile_take_sample(struct lull_control *control, struct lull_governed_gpu *gpu,
                                      const struct lull_device_reading *reading);

/* Requests what the controller wants of a GPU now; takes the outcome of the last request. */
void lull_control_profile_follow(struct lull_control *control, uint32_t gpu);
void lull_control_profile_take_result(struct lull_control *control, struct lull_governed_gpu *gpu);

/* Take an event of a process, and how many it has lost, for hangs. */
void lull_control_hang_take(struct lull_control *control, uint32_t slot,
                            const struct lull_event *event);
void lull_control_hang_lose(struct lull_control *control, uint32_t slot, uint64_t lost_events);

/* Takes an event of a process, for the steps of a server. */
void lull_control_steps_take_event(struct lull_control *control, uint32_t slot,
                                   const struct lull_event *event);

/* Frees the data of a rank that communicates on the GPU. */
void lull_control_forget_device(struct lull_governed_gpu *gpu);

/* The section controller as a decider; its state is the control. */
extern const struct lull_decider lull_section_decider;

#endif
