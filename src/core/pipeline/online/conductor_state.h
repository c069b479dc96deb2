/*
 * Inside the conductor; shared by conductor.c (events), conductor_queue.c (commands: what the one
 * driver is asked for, and when), conductor_forecast.c (which clock a moment wants) and
 * conductor_trial.c (which iterations run at which plan). Nobody else includes this.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ONLINE_CONDUCTOR_STATE_H
#define LULL_CORE_PIPELINE_ONLINE_CONDUCTOR_STATE_H

#include "core/switching/call_trust.h"
#include "core/pipeline/online/conductor.h"
#include "core/switching/window_schedule.h"
#include "core/stats/quantile.h"

enum { CONDUCTOR_RECENT = 4, CONDUCTOR_SLOTS = 8, CONDUCTOR_TOLD = 64, CONDUCTOR_PLANS = 256 };
/* Detours take turns in two places behind the plans. */
enum { CONDUCTOR_DETOURS = 2 };

#define CONDUCTOR_HIGHEST (-1)

/* The latest intervals of an operation: from its begin to the next one's, and its length. */
struct conductor_recent {
    uint32_t count;
    uint32_t next;
    int64_t interval_ns[CONDUCTOR_RECENT];
    int64_t length_ns[CONDUCTOR_RECENT];
};

struct conductor_gpu {
    uint32_t op_count;
    bool is_lost;
    bool is_running;
    uint32_t op;     /* that runs or has ended last */
    int64_t begin_ns;
    int64_t end_ns;
    uint64_t iteration;
    bool is_same_plan; /* this iteration and the one before ran at the plan: it teaches */
    uint32_t requested;
    int64_t requested_ns;
    int64_t raised_ns; /* latest raising, while its outcome is open; 0 none */
    int64_t needed_ns; /* begin of the first operation behind it; 0 not yet */
    int32_t learnt_plan;
    struct conductor_recent *recent; /* per operation, at the plan learnt_plan */
    struct lull_switch_cost cost;
    int64_t lead_ns;  /* a raising is asked for so long before its operation begins */
    int64_t down_ns;  /* a lowering that lasts for less has no effect */
    int64_t ahead_ns; /* one asked for so long ahead cannot have effect before its time */
};

/* The node's driver, which serves one call after the other. */
struct conductor_driver {
    struct lull_quantile call_ms; /* that a call takes, its waiting for others left out */
    int64_t call_ns;              /* planned with */
    int64_t free_ns;              /* when it will have served what it was asked for, about */
    struct lull_call_trust trust;
    bool is_withheld;    /* no trust: nothing is lowered */
    bool is_disobedient; /* a GPU does not follow: nothing is lowered any more */
    uint32_t withdrawals;
};

struct conductor_plan {
    double slowdown_ratio;
    int64_t makespan_ns;
    struct lull_conductor_op *ops[LULL_CONDUCTOR_MAX_GPUS];
    uint32_t raises[LULL_CONDUCTOR_MAX_GPUS]; /* in an iteration */
};

/* What was decided for an iteration. */
struct conductor_slot {
    uint64_t number;
    uint64_t test;
    int32_t plan;
    bool is_candidate;
    bool is_measured;
    bool is_mixed; /* other clocks than these held for some of it */
    bool ends_window;
    bool ends_pair;
};

struct conductor_trial {
    enum lull_conductor_phase phase;
    int32_t plan;
    uint64_t test;  /* number of the present one: evidence of others does not count */
    uint64_t since; /* iteration with which it begins */
    uint32_t warming;
    bool is_held; /* the plan is not tried */
    uint32_t stretch; /* of a kept plan between references, iterations */
    struct lull_window_schedule schedule;
    struct lull_guard guard;
    struct lull_guard watch; /* all pairs of the plan */
    struct lull_guard before[2]; /* guard and watch without the latest pair */
    double sum_ms[2];        /* reference, candidate: of the present pair */
    uint32_t measured[2];
    bool is_broken; /* the present pair holds an iteration that was not whole */
};

struct lull_conductor {
    struct lull_conductor_config config;
    uint32_t gpu_count;
    uint32_t plan_count;
    struct conductor_plan *plans[CONDUCTOR_PLANS + CONDUCTOR_DETOURS];
    struct conductor_trial trial;
    struct conductor_trial suspended; /* by a detour */
    bool is_detoured;
    uint32_t detours;                             /* so far */
    struct conductor_slot slots[CONDUCTOR_SLOTS]; /* by number */
    int32_t leader;                               /* GPU whose iterations count, -1 none yet */
    uint64_t iteration;                           /* of the leader */
    int64_t iteration_ns;                         /* when it began; 0 not known */
    bool is_whole;                                /* so far */
    struct lull_conductor_iteration told[CONDUCTOR_TOLD];
    uint64_t told_written;
    uint64_t told_read;
    uint64_t late;
    struct conductor_driver driver;
    bool has_news; /* since the last poll */
    int64_t wake_ns;
    struct conductor_gpu gpus[LULL_CONDUCTOR_MAX_GPUS];
};

/* ---- conductor_forecast.c ---- */

struct conductor_decision {
    uint32_t point;
    int64_t raise_ns; /* when a higher clock must be asked for; INT64_MAX: not in sight */
    int64_t wake_ns;  /* when a lower one may be wanted though nothing has been told */
};

/*
 * The clock that the GPU is to have, raisings that must be asked for until until_ns (>= now_ns)
 * included; no lower than lowest_point until then.
 */
struct conductor_decision conductor_decide_clock(const struct lull_conductor *conductor,
                                                 const struct conductor_gpu *gpu, int64_t now_ns,
                                                 int64_t until_ns, uint32_t lowest_point);

/* What the plan has for an operation, counted from the first one of the GPU's iteration; it may
 * reach into the next one. */
uint32_t conductor_point_of(const struct lull_conductor *conductor, const struct conductor_gpu *gpu,
                            uint32_t op);

/* Lead and the like, anew from what switching costs: quantiles are too dear for every poll. */
void conductor_update_costs(const struct lull_conductor *conductor, struct conductor_gpu *gpu);

/* ---- conductor.c ---- */

/* A plan with its own copies of ops; NULL: no memory. */
struct conductor_plan *conductor_create_plan(struct lull_conductor *conductor,
                                             const struct lull_conductor_op *const *ops,
                                             double slowdown_ratio);
void conductor_destroy_plan(struct conductor_plan *plan);

/* ---- conductor_queue.c ---- */

/* A call for this GPU has taken driver_ms, its waiting left out. */
void conductor_learn_call(struct lull_conductor *conductor, double driver_ms);

/* A GPU does not do as it is told: the plan goes, for good. */
void conductor_withdraw_for_good(struct lull_conductor *conductor);

/* ---- conductor_trial.c ---- */

/* A new test of the trial's plan, from iteration since on. */
void conductor_begin_test(struct lull_conductor *conductor, enum lull_conductor_phase phase,
                          uint64_t since);

void conductor_trial_init(struct lull_conductor *conductor, int32_t plan, uint64_t since);

/* Decides how an iteration runs: the one behind the latest that was decided. */
void conductor_decide(struct lull_conductor *conductor, uint64_t number);

const struct conductor_slot *conductor_slot_of(const struct lull_conductor *conductor,
                                               uint64_t number);

/* From the present iteration on the highest clocks hold; the trial begins anew once it resumes. */
void conductor_trial_interrupt(struct lull_conductor *conductor);

/* An iteration of the leader has ended. */
void conductor_take_iteration(struct lull_conductor *conductor,
                              const struct lull_conductor_iteration *iteration);

#endif
