/*
 * The controller's state, shared by its files and nobody else:
 *   controller.c  what comes in and goes out: calls, results, time, commands
 *   plan.c        which section has which target, point and forecast
 *   gaps.c        gaps in computation: which are switched, what is ahead, what was late
 *   queue.c       what GPUs with gaps ask of the node's driver, and when
 *   trial.c       tests of candidates, verdicts, settling
 *   watch.c       iterations into windows and pairs; watching what is settled
 *   refine.c      points of single GPUs, below or above the common one
 *   together.c    what other nodes have to say
 *   trust.c       a driver that blocks: nothing is lowered until it has proven itself anew
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_CONTROLLER_STATE_H
#define LULL_CORE_SECTION_CONTROLLER_STATE_H

#include "core/switching/call_trust.h"
#include "core/section/calibration.h"
#include "core/section/controller/controller.h"
#include "core/switching/feed_forward.h"
#include "core/section/gaps/low_span.h"
#include "core/switching/window_schedule.h"
#include "core/stats/allowance.h"
#include "core/stats/joint_guard.h"
#include "core/stats/upper_tail.h"

enum {
    LULL_CONTROLLER_NO_TARGET = -1,
    LULL_CONTROLLER_NO_TURN = -1,
    LULL_CONTROLLER_COUPLED = -1,
    LULL_CONTROLLER_WINDOWS_KEPT = 2,    /* a pair's */
    LULL_CONTROLLER_PAIRS_KEPT = 64,     /* by so many may a rank be ahead of the slowest */
    LULL_CONTROLLER_MIN_OCCURRENCES = 3, /* of a section, for a forecast */
};

/* What a clock costs in time: at most all, one step below the highest about so much. */
#define LULL_CONTROLLER_DEEP_LOSS 1.0
#define LULL_CONTROLLER_STEP_LOSS 0.01

struct lull_window_sum {
    uint32_t window;
    bool complete;
    struct lull_quantile iterations_ms; /* measured ones; of a long window the last */
    struct lull_upper_tail tail_ms;     /* the same, all of them */
};

/* Iteration times of a window. */
struct lull_window_times {
    double mean_ms;
    double p99_ms;
};

/* Two windows next to each other, of one GPU. */
struct lull_window_pair {
    bool is_complete;
    uint32_t pair;
    struct lull_window_times reference;
    struct lull_window_times candidate;
};

struct lull_controlled_gpu {
    struct lull_track *track;
    uint32_t points;
    bool exited;
    bool failed;
    uint32_t model; /* UINT32_MAX: one of its own */
    uint32_t changes;
    struct lull_switch_cost cost;
    struct lull_switch_cost model_cost; /* of all GPUs of its model, as if none had ever waited */
    struct lull_calibration calibration;
    struct lull_feed_forward feed;
    int32_t open_section;          /* -1 none */
    int32_t expected_section;      /* that `expected` is about, -1 none */
    struct lull_forecast expected; /* made while there is time: when the section before ends */
    int32_t target_of[LULL_TRACK_MAX_SECTIONS];
    struct lull_quantile reference_iterations_ms; /* the last ones at the reference */
    uint64_t base;                                /* iteration at which the running test starts */
    double reference_ms;                          /* of its last reference window */
    uint32_t slow_iterations;                     /* in a row, at the candidate */
    struct lull_window_sum windows[LULL_CONTROLLER_WINDOWS_KEPT];
    struct lull_window_pair pairs[LULL_CONTROLLER_PAIRS_KEPT];
    bool command_waits;
    struct lull_command command;
    int64_t steady_renew_ns;
    uint32_t fold;          /* the job's iterations in one of the track's */
    uint32_t switched_gaps; /* in one of the track's iterations */
    uint32_t late_now;      /* how often computation has begun low in the track's iteration */
    int32_t low_section;    /* gap at whose begin its lower clock was wanted, -1 none is open */
    int32_t ahead_section;  /* gap whose lowering is planned or asked for ahead, -1 none */
    bool has_gaps;          /* its sections are gaps: switched by the node's plan */
    bool raises_as_planned; /* the raising asked for last was foreseen */
    struct lull_low_span low;
};

struct lull_controller {
    struct lull_controller_config config;
    enum lull_controller_phase phase;
    uint32_t gpu_count;
    struct lull_controlled_gpu gpus[LULL_CONTROLLER_MAX_GPUS];
    struct lull_target targets[LULL_CONTROLLER_MAX_TARGETS];
    uint32_t target_count;
    bool steady;
    int32_t current; /* target under test, -1 none */
    struct lull_joint_guard guard;
    struct lull_joint_guard tail_guard; /* of the 99 % quantile, where that counts */
    struct lull_guard settled_guard;    /* all settled points against the reference */
    struct lull_guard watch_guard;      /* the same since its last verdict, with other nodes */
    struct lull_window_schedule schedule;
    uint32_t settled_stretch;
    bool checking; /* settled, and a test whether the results still hold is under way */
    uint64_t check_spacing;
    uint64_t next_check; /* iteration of GPU 0 before which no check starts */
    struct lull_quantile block;
    int32_t worst_rank; /* as the last test found it; COUPLED: they wait for each other */
    uint32_t next_pair; /* that all ranks are to complete */
    bool tainted;
    uint32_t set_aside;
    uint64_t test_begin;
    uint32_t tested_gaps;   /* of the target under test, that were to be lowered in this pair */
    uint32_t lowered_gaps;  /* those that were */
    uint32_t untried_pairs; /* of this test, set aside because too few were */
    uint64_t settled_after;
    struct lull_quantile driver_ms; /* that the node's driver takes for one call */
    double usual_driver_ms;         /* a quantile of them */
    int64_t driver_free_ns;         /* when it will have served what it was asked for, about */
    struct lull_allowance late;     /* iterations, of all GPUs, in which computation begins low */
    bool held;                      /* by the other nodes */
    int64_t now_ns;                 /* latest time passed in */
    struct lull_call_trust trust;
    bool withheld;           /* no trust: nothing is lowered */
    bool went_deep;          /* below the first step, since trust began */
    double waiting_ms;       /* the oldest request that the driver has yet to answer; 0 none */
    uint32_t aligned_window; /* iterations, with other nodes; 0: the own */
};

/* ---- plan.c ------------------------------------------------------------------- */

/* The GPU has a rank that has called, has not left, and the device does as it is told. */
bool lull_controller_is_active(const struct lull_controlled_gpu *gpu);

/* Its rank's sections are known. */
bool lull_controller_is_known(const struct lull_controlled_gpu *gpu);

/* What is expected of the next occurrence of a section, and of switching for it. */
void lull_controller_forecast(const struct lull_controller *controller,
                              const struct lull_controlled_gpu *gpu,
                              const struct lull_section *section, struct lull_forecast *out);

/* The point at which a target's section is to run in this iteration of the GPU's track. */
uint32_t lull_controller_planned_point(const struct lull_controller *controller,
                                       const struct lull_controlled_gpu *gpu, int32_t target_index,
                                       uint64_t iteration);

/* Adds a target for the lowest point; LULL_CONTROLLER_NO_TARGET when the list is full. */
int32_t lull_controller_add_target(struct lull_controller *controller, uint64_t signature,
                                   enum lull_descent_strategy strategy);

/* Finds which sections of this GPU are worth switching, and the target of each. */
void lull_controller_map_sections(struct lull_controller *controller,
                                  struct lull_controlled_gpu *gpu);

/* The unsettled target whose sections take longest; LULL_CONTROLLER_NO_TARGET: all are settled. */
int32_t lull_controller_next_target(const struct lull_controller *controller);

/* The job has changed under a steady point: has it sections worth switching now? */
bool lull_controller_any_section_pays(const struct lull_controller *controller);

/* Posts what the feed-forward wants. */
void lull_controller_post_feed(struct lull_controller *controller, struct lull_controlled_gpu *gpu);

/* ---- gaps.c ------------------------------------------------------------------- */

void lull_controller_init_gaps(struct lull_controller *controller);

/* What switching a gap needs now, and whether it may be switched at all. */
void lull_controller_expect_gap(const struct lull_controller *controller,
                                const struct lull_controlled_gpu *gpu,
                                const struct lull_section *section, struct lull_forecast *out);

/* Decides which gaps of this GPU are switched; length from which they are; INFINITY: none. */
double lull_controller_choose_gaps(struct lull_controlled_gpu *gpu);

void lull_controller_gap_begins(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                                uint32_t index, int64_t now_ns);
void lull_controller_gap_ends(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                              uint32_t index, int64_t now_ns);

/* A lowering of a GPU with gaps is asked for now: so much of a test has taken place. */
void lull_controller_note_lowering(struct lull_controller *controller,
                                   const struct lull_controlled_gpu *gpu);

/* The clock of a GPU with gaps has followed since effect_ns: was it too early or too late? */
void lull_controller_note_clock(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                                const struct lull_switch_outcome *outcome);

/* ---- queue.c ------------------------------------------------------------------ */

/* The node's driver has taken so long for a call, ms. */
void lull_controller_learn_driver(struct lull_controller *controller, double driver_ms);

/*
 * Asks for what the node's plan says is due for GPUs with gaps, after all else has been posted:
 * raisings one after the other, a lowering where there is room for it.
 */
void lull_controller_poll_gaps(struct lull_controller *controller, int64_t now_ns);

/* When to do so again at the latest; INT64_MAX: not before the next call. */
int64_t lull_controller_gaps_wake_ns(const struct lull_controller *controller);

/* ---- trial.c ------------------------------------------------------------------ */

/* A stretch of settled iterations in reference windows, before it has been doubled. */
enum { LULL_CONTROLLER_SETTLED_STRETCH = 32, LULL_CONTROLLER_CHECK_SPACING = 64 };

/* A candidate iteration so much longer than the reference is clearly slow. */
#define LULL_CONTROLLER_ABORT_RATIO 0.3

/* Decides what to do next after anything has changed: a section known, lost, settled, a rank gone.
 */
void lull_controller_reconsider(struct lull_controller *controller);

/* A fresh test: guards, windows, and the iteration from which the schedule counts. */
void lull_controller_begin_test(struct lull_controller *controller);

/* S224: the guard has spoken about the current candidate. */
void lull_controller_conclude(struct lull_controller *controller, enum lull_verdict verdict);

/* What the guards say so far: degraded by either measure; not degraded only by both. */
enum lull_verdict lull_controller_verdict(const struct lull_controller *controller);

/* What is settled hurts after all: descents start again, above what they had come to. */
void lull_controller_back_off(struct lull_controller *controller);

/* The target's search is over. */
void lull_controller_settle(struct lull_target *target);

/* ---- watch.c ------------------------------------------------------------------ */

/* An iteration of this GPU's rank has ended: it may complete a window, a pair, a verdict. */
void lull_controller_note_iteration(struct lull_controller *controller,
                                    struct lull_controlled_gpu *gpu, double iteration_ms);

/* Computation has begun low once, which the allowance pays for: says nothing of a point under test,
 * whose next pair is set aside. */
void lull_controller_excuse_pair(struct lull_controller *controller);

/* Judges the next pair if all active GPUs have completed it. */
void lull_controller_look_for_pair(struct lull_controller *controller);

/* ---- refine.c ----------------------------------------------------------------- */

/* The point of a target that is under test, or settled, for one GPU; of the target's own scale. */
uint32_t lull_controller_point_for(uint32_t gpu, const struct lull_target *target, bool under_test);

/* Passes the verdict to the search that runs. */
void lull_controller_take_verdict(struct lull_target *target, enum lull_verdict verdict);

/* True while a search of the target runs, the joint one or another that now begins. */
bool lull_controller_goes_on(const struct lull_controller *controller, struct lull_target *target);

/* Gives up points of single GPUs for good. */
void lull_controller_drop_own(struct lull_target *target);

/* ---- trust.c ------------------------------------------------------------------ */

/* Time has passed, or word of the driver has come: withholds lowerings, or proves it anew. */
void lull_controller_heed_trust(struct lull_controller *controller);

/* Raises the GPU if it is low, or asked to be, whatever for. */
void lull_controller_raise_now(struct lull_controller *controller, struct lull_controlled_gpu *gpu);

/* ---- together.c --------------------------------------------------------------- */

/* Unsettled targets do not try what another node has refused. */
void lull_controller_heed_refusals(struct lull_controller *controller);

/* Places a test at the same iterations on all nodes that count alike. */
void lull_controller_place_test(struct lull_controller *controller);

/* The point that may be applied for a settled target in this iteration. */
uint32_t lull_controller_agreed_point(const struct lull_controller *controller,
                                      const struct lull_target *target, uint32_t point,
                                      uint64_t iteration);

#endif
