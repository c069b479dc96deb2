/*
 * The controller: decides, for all GPUs of a job on one node, at which operating point each section
 * runs, and when to request it. The governor feeds it calls, results and time; it gives commands.
 *
 * Life of a job:
 *   LEARNING    Each track finds its iteration and sections; the switch cost is calibrated by a
 *               few pulses of one clock step, a tenth of a second each.
 *   DESCENDING  One target after the other is searched, those with the longest sections first: the
 *               descent proposes a point, and a screen (core/switching/trial.h) interleaves it and
 *               all that has been settled with the reference; a few pairs say where to continue.
 *               All GPUs that have the section move together, and the one that is slowed most
 *               decides (joint_guard.h). Then GPUs that wait clearly longer than others go lower
 *               than these, one at a time. Last comes the steady point, at which all runs that no
 *               section lowers further: it takes what sections, which cost next to no time, have
 *               left of the tolerance. In gaps a screen requests less than the user's tolerance,
 *               because a longer iteration costs energy as well.
 *               It is searched for once the sections have been proven and have saved for a while:
 *               half of a search runs at the reference.
 *               When every search is over, a proof decides whether to accept all of it together.
 *               What is not proven is raised by a point, or 2, 4 ... after more failures, and the
 *               searches continue from there.
 *               Before all of that comes the power profile, if one is offered: its screen and its
 *               proof compare it alone with the reference, and it stays only if the owner has
 *               measured by then that it saves energy. The searches then run with it.
 *               A steady point that is proven is refined once by a duty (duty.h), proven as well.
 *   SETTLED     The results are applied, and watched: blocks at the reference at growing
 *               intervals. What looks slow, or has spent the loss budget, is checked; what fails
 *               is raised as after a failed proof. docs/research/guard.md states the guarantee.
 *
 * A driver that blocks for longer than sections are long takes the node back to LEARNING, with all
 * GPUs raised (core/switching/driver_queue.h). After a while it is calibrated again; if it has
 * recovered by then, the results are taken up again. A deviation of any track raises its GPU at
 * once; when its iteration is found again with the same sections, its results are taken up again.
 *
 * Raising restores the steady point. Only GPUs that deviate go to the reference. At a steady point
 * computation takes longer, so gaps begin later; how much is learnt from the communication
 * (gap_map.h, track.h), because trials let both take turns.
 *
 * Feed-forward: a lowering is requested before the forecast begin by less than the shortest latency
 * seen, so that no computation runs low; a raising is requested before the forecast end by a lead
 * whose mean lateness stays within a share of the tolerance. Of the gaps in computation the longest
 * are switched: as many as give the longest time low while computation begins low in less than one
 * of the job's iterations in a hundred (gap_choice.h). That is also counted, for all GPUs of a
 * controller together, and paid for from one allowance (stats/allowance.h): the less of it is left,
 * the longer the leads, and with nothing left no gap is switched. So from the beginning on at most
 * 0.75 % of all GPUs' iterations are late, and two more.
 *
 * GPUs of one node share a driver that serves one call at a time. The calls for gaps are requested
 * when the node's plan says so (core/switching/driver_queue.h): raisings that fall together one
 * after the other, the first of them earlier for that reason, and a lowering only where it holds up
 * none of them.
 *
 * A GPU whose rank waits for later ones runs below the steady point by what fills its waiting
 * (slack.h), in all iterations at tried or accepted points. It costs no time, so it comes first:
 * trials judge the ranks that do not wait, and a screen starts again when a GPU is lowered for
 * that.
 *
 * A job on several nodes has a controller on each. They search in the same way in the same
 * iterations, and apply what all have agreed on (agreement.h); then no GPU has a point of its own
 * in a section, and slack is what a rank waits for the latest of all nodes, as far as they have
 * reported it to each other (arrival.h).
 *
 * Points are indices into the GPU's clock list: 0 the highest, which represents the reference (no
 * lock at all). Pure; create/destroy; one thread. Time is passed in, never read.
 *
 * Source: US 2025/0264922 A1 (S210 find the section, S220 lower in it, S221-S227 descent, S230
 * monitor performance); design.md section 4.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_CONTROLLER_CONTROLLER_H
#define LULL_CORE_SECTION_CONTROLLER_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/swing_limit.h"
#include "core/switching/switch_cost.h"
#include "core/section/call.h"
#include "core/section/descent.h"
#include "core/section/duty.h"
#include "core/section/slack.h"
#include "core/section/track.h"
#include "core/stats/guard.h"
#include "core/switching/loss_budget.h"
#include "core/switching/whole_bound.h"
#include "core/switching/visit.h"

/* Slowdown, by estimate, from which clocks of gaps save less than it costs. */
#define LULL_GAP_WORTH 0.0015

enum {
    LULL_CONTROLLER_MAX_GPUS = 64,
    LULL_CONTROLLER_MAX_TARGETS = 16,
    LULL_CONTROLLER_MAX_HISTORY = 64, /* verdicts kept per target */
};

struct lull_controller_config {
    double tolerance_ratio;      /* slowdown that is allowed, (0, 1] */
    double tail_tolerance_ratio; /* slowdown that is allowed of the 99 % quantile of iteration times
                                  * (the latency of a token); 0: only the mean counts */
    double confidence;           /* of all "not degraded" of a run together, (0.5, 1) */
    enum lull_descent_strategy strategy; /* for sections; the steady point always gallops */
    double window_ms;                    /* least length of a block of a trial */
    uint32_t window_iterations;          /* least number of iterations in it, >= 2 */
    double steady_tolerance_ratio; /* slowdown that the steady point may cost by estimate; at most
                                    * tolerance_ratio counts */
    double swing_ratio; /* permitted increase of the node's power swings over the reference, >= 0 */
    uint64_t seed; /* of the coins by which trials are ordered; on all nodes of a job the same; 0:
                    * the nodes agree on one (lull_controller_share_seed) */
    bool only_steady;   /* one steady point, whatever sections there are */
    bool only_sections; /* no steady point */
    bool observe_only;  /* learn sections, never command anything */
    bool together;      /* other nodes of the job decide with this one: see lull_controller_agree */
    bool reactive;      /* for comparison: switch when a section begins and ends, never before */
};

/* Tolerance 1 %, confidence 95 %, bisection, blocks of 300 ms and 2 iterations, swings 5 % wider.
 */
void lull_controller_config_default(struct lull_controller_config *config);

enum lull_controller_phase {
    LULL_PHASE_LEARNING,
    LULL_PHASE_DESCENDING,
    LULL_PHASE_SETTLED,
};

/* Why a section has the point it has. */
enum lull_settle_reason {
    LULL_REASON_NONE,           /* the first search is under way */
    LULL_REASON_LOWEST,         /* the device's minimum does not degrade */
    LULL_REASON_DEGRADES_BELOW, /* one point lower looks slower, or is not proven harmless */
    LULL_REASON_SAVES_NOTHING,  /* harmless, but the lowered section draws no less power */
    LULL_REASON_SHORT,     /* its sections take so little of the time that all else comes first */
    LULL_REASON_UNTRIED,   /* its clock could rarely be changed in time, so all else comes first */
    LULL_REASON_WITHDRAWN, /* of the profile: it was offered, and cannot be used any more */
};

struct lull_descent_record {
    uint32_t point; /* of the first GPU's clock list */
    int32_t gpu;    /* whose turn it was to go lower than the others; -1: all searched together */
    double slowdown_ratio;
    double upper_ratio;
    uint32_t pairs;
    uint32_t iterations; /* spent on this verdict */
    enum lull_verdict verdict;
};

/* The energy of an iteration that the power profile saves, as a ratio, and the interval of 95 %.
 * NAN: not measured. */
struct lull_profile_saving {
    double ratio;
    double low_ratio;
    double high_ratio;
};

/* Points at which a target's sections run: its own scale, 0 the highest. */
struct lull_target_points {
    uint32_t common;
    struct lull_duty duty; /* of the steady point: low beats are one point lower */
    bool has_own;          /* GPUs have points of their own: */
    uint32_t own[LULL_CONTROLLER_MAX_GPUS];
};

/* One section over all GPUs that have it, or the steady point (signature 0). */
struct lull_target {
    uint64_t signature;               /* the class of its sections */
    bool of_gaps;                     /* its sections are gaps in a GPU's computation */
    struct lull_descent descent;      /* the search of all GPUs together */
    struct lull_target_points proven; /* in force whatever is being searched */
    enum lull_settle_reason reason;
    bool settled;
    bool is_untried;       /* pairs of its screen had too few changes of clocks to show anything */
    struct lull_duty duty; /* holds while the descent's result is its point */
    uint64_t held_up; /* bits: GPUs that stay at the reference, because they hold up the others */
    bool has_own;     /* GPUs have points of their own: */
    uint32_t own_point[LULL_CONTROLLER_MAX_GPUS];
    bool is_refined;                   /* every turn is over */
    int32_t turn;                      /* GPU that searches below the others; -1: none does */
    struct lull_descent own;           /* its search */
    uint64_t turns_left;               /* bits: GPUs that wait for theirs */
    uint32_t without_effect;           /* turns in a row that came to nothing */
    uint32_t agreed_point;             /* several nodes: the lowest that may be applied... */
    uint64_t agreed_from;              /* ...from this iteration on */
    struct lull_profile_saving saving; /* of the profile alone */
    uint32_t refused_point; /* the highest that another node has refused; count: none is */
    struct lull_moments power_reference_w; /* sampled in the section at the reference... */
    struct lull_moments power_lowered_w;   /* ...and at the point under test or kept */
    uint32_t record_count;
    struct lull_descent_record records[LULL_CONTROLLER_MAX_HISTORY];
};

struct lull_command {
    uint32_t gpu;           /* index of the track */
    uint32_t point;         /* 0: reference */
    int64_t deadline_ns;    /* a lowering served later is worthless */
    int64_t valid_until_ns; /* a lowering not renewed until then is undone */
    int64_t answers_ns;     /* begin of the section that it answers; 0: it answers none, but is a
                             * raising, a pulse, for a gap, or ahead of a forecast begin */
};

/* Knowledge and decisions of the controller at one moment. Borrowed members stay valid until the
 * next take or poll. */
struct lull_controller_view {
    enum lull_controller_phase phase;
    uint32_t lead; /* GPU whose iterations are counted, by decisions and for people: the first that
                    * takes part, or until one does the first with a rank; 0 if there is none */
    bool is_suspended;  /* nothing is lowered because driver calls block for too long */
    bool has_sections;  /* something is switched within iterations */
    bool awaits_steady; /* a steady point is still to be sought */
    bool is_proven;     /* something is lowered, and proven not to slow the job down by more than is
                         * tolerated */
    bool has_settled;  /* every target has its result, and all of it together is proven harmless, or
                        * nothing is lowered; whatever a job does at its very end */
    bool is_searching; /* a target has no result yet, or the results are not proven: in a search and
                        * a proof, and while sections are low and rest before the search for the
                        * steady point */
    uint64_t settled_after; /* iterations of the lead until the first settling; 0: not yet */
    uint64_t kept_others;   /* represents the points of sections and gaps that are proven, and ranks
                             * that wait, as in a visit; 0: there are none */
    uint64_t profile_others; /* represents the profile alone, as in a visit, while it is tested; 0:
                              * it is not */
    uint32_t target_count;
    const struct lull_target *targets;
    const struct lull_target *steady;     /* the steady point's; null: there is no search */
    const struct lull_target *profile;    /* the power profile's; null: none is tested */
    const struct lull_target *descending; /* the one under test; null: none */
    uint32_t candidate; /* the point under test of `descending`: of all together, or of the GPU
                         * whose turn it is */
    const struct lull_swing_limit *swings; /* levers given up because the node's power would swing
                                            * too widely, and the swings that this comes from */
    struct lull_guard_estimate slowdown;   /* of the accepted points against reference blocks of the
                                            * same run, of the rank that was slowed most */
    struct lull_whole_slowdown whole; /* of the run so far, trials and all; valid at any time */
    struct lull_loss_left loss_left;  /* time that trials and lowered points may have cost the rank
                                       * that has least of it left */
    uint64_t seed;                    /* of the coins */
    double rarest_excluded; /* the smallest share of iterations with harm that is excluded at the
                             * accepted points, with the confidence of the run; 1: nothing is
                             * accepted */
};

/* The same of one GPU. It is a few loads, for readers at every call. */
struct lull_controller_gpu_view {
    enum lull_controller_phase phase; /* of the job */
    bool has_sections;                /* of the job */
    uint32_t steady_point;            /* at which its computation runs now; 0: the reference */
    bool uses_profile;                /* its power profile is to be requested now */
    const struct lull_track *track;
    const struct lull_slack_record *slack;      /* result of its rank's waiting for later ones */
    const struct lull_switch_cost *switch_cost; /* as learnt */
};

struct lull_controller;

/* null: no memory. point_counts[i] is the number of clocks of GPU i; gpu_count 1..MAX_GPUS. */
struct lull_controller *lull_controller_create(const struct lull_controller_config *config,
                                               uint32_t gpu_count, const uint32_t *point_counts);
void lull_controller_destroy(struct lull_controller *controller);

/* Returns what switching costs on this GPU as far as known beforehand. If that is as much as a
 * calibration measures, the job is spared one. To be called before the first call. */
void lull_controller_set_switch_cost(struct lull_controller *controller, uint32_t gpu,
                                     const struct lull_switch_cost *cost);

/*
 * GPUs of one model (any number of the caller's) behind one driver switch alike: until a GPU has
 * been switched often enough, what is learnt of the others holds for it. A GPU that is not set here
 * has a model of its own. To be called before the first call.
 */
void lull_controller_set_model(struct lull_controller *controller, uint32_t gpu, uint32_t model);

/* The lowest clock of this GPU as a share of its highest, [0, 1]: the most that its clocks can cost
 * follows from it. 0 if it is never set. To be called before the first call. */
void lull_controller_set_lowest(struct lull_controller *controller, uint32_t gpu,
                                double lowest_ratio);

/*
 * This GPU has a power profile that may be requested, or has it no more. It is tested if all GPUs
 * that take part have one when the first search begins. Withdrawing it forgets what was proven with
 * it.
 */
void lull_controller_offer_profile(struct lull_controller *controller, uint32_t gpu);
void lull_controller_withdraw_profile(struct lull_controller *controller, uint32_t gpu);

/* Takes what the pairs so far have measured of the profile's energy: of the setting profile_others
 * of the view. Call it about once a second while that is not 0. */
void lull_controller_take_profile_saving(struct lull_controller *controller,
                                         const struct lull_profile_saving *saving);

/* Takes a call of the rank on this GPU. Calls of one GPU come in the order of their times. */
void lull_controller_take_call(struct lull_controller *controller, uint32_t gpu,
                               const struct lull_call *call);

/*
 * Takes the begin or end of a communication kernel, or of a call in which the host waits, of the
 * rank on this GPU: it shows how long the rank waits for later ones (core/section/slack.h). The
 * edges of one GPU come in the order of their times; place is 0. GPUs that others wait for may be
 * raised at the next poll.
 */
void lull_controller_take_collective(struct lull_controller *controller, uint32_t gpu,
                                     const struct lull_call *edge);

/* One iteration of this GPU's calls represents `fold` iterations of the job, >= 1 (gap_map.h). */
void lull_controller_take_fold(struct lull_controller *controller, uint32_t gpu, uint32_t fold);

/* The rank on this GPU has left: its GPU goes back to the reference and no test waits for it. */
void lull_controller_take_exit(struct lull_controller *controller, uint32_t gpu);

/*
 * Another rank takes this GPU over, after take_exit: its calls are learnt afresh; results of
 * sections that it shares with the one before are kept. False: no memory, the GPU stays unused.
 */
bool lull_controller_take_start(struct lull_controller *controller, uint32_t gpu);

/* Outcome of a command. If it failed, the GPU is left unchanged from now on. */
void lull_controller_take_switch(struct lull_controller *controller, uint32_t gpu,
                                 const struct lull_switch_outcome *outcome);

/*
 * A driver call for this GPU has returned after blocked_ms, whatever it was for. The oldest request
 * to any GPU has been without an answer for waiting_ms (0: none is); repeat this as long as it
 * holds. A driver that blocks for longer than sections are long is left unchanged for a while
 * (core/switching/driver_queue.h): all GPUs are raised, and calibrated again before anything is
 * lowered.
 */
void lull_controller_take_blocked(struct lull_controller *controller, uint32_t gpu,
                                  double blocked_ms);
void lull_controller_take_waiting(struct lull_controller *controller, double waiting_ms);

/* The GPU is held down by heat or by its power supply at this time, or its driver has reported an
 * error: the pair is set aside. */
void lull_controller_take_disturbance(struct lull_controller *controller, uint32_t gpu);

/* A power reading of this GPU, W, which shows whether a lowered section saves at all. */
void lull_controller_take_power(struct lull_controller *controller, uint32_t gpu, double power_w);

/*
 * Takes the power of all GPUs of the job on this node together, W, every 100 ms. If its swings at
 * the accepted points are wider than at the reference by more than config.swing_ratio, gaps and the
 * depth of sections are given up (core/energy/swing_limit.h), though not before the steady point
 * has been sought, which narrows swings.
 */
void lull_controller_take_node_power(struct lull_controller *controller, int64_t time_ns,
                                     double power_w);

/*
 * Of several nodes one is missing, or they do not agree (held): everything is raised at once and
 * stays at the reference. Once released, what was being tested begins again.
 */
void lull_controller_hold(struct lull_controller *controller, bool held);

/*
 * Sets the agreement of the nodes on a target (by its index): the lowest point that may be applied,
 * from which iteration on, and the highest point that a node has refused (the descent's count: none
 * has), which no test goes down to. Only with config.together, where nothing is applied before.
 */
void lull_controller_agree(struct lull_controller *controller, uint32_t target,
                           uint32_t agreed_point, uint64_t from_iteration, uint32_t refused_point);

/* This node's report to the others about how its ranks arrive; see lull_slack_report. */
bool lull_controller_report(struct lull_controller *controller, struct lull_arrival *arrival_out);

/* Takes the combined report of all nodes about an iteration. GPUs that others wait for may be
 * raised at the next poll. */
void lull_controller_receive(struct lull_controller *controller, const struct lull_arrival *latest,
                             int64_t now_ns);

/* Blocks are to be at least this long, so that all nodes measure in the same iterations. */
void lull_controller_align(struct lull_controller *controller, uint32_t window_iterations);

/* The nodes know this number alike: their coins come from it, unless the configuration has a seed.
 * It must not change while they are in step. */
void lull_controller_share_seed(struct lull_controller *controller, uint64_t seed);

/* The length of the blocks that this node wants for its proofs, iterations. */
uint32_t lull_controller_window(const struct lull_controller *controller);

/* Commands due at now_ns; returns how many were written to commands_out (at most max). */
uint32_t lull_controller_poll(struct lull_controller *controller, int64_t now_ns,
                              struct lull_command *commands_out, uint32_t max);

/* Latest time of the next poll; INT64_MAX: only after the next call. */
int64_t lull_controller_wake_ns(const struct lull_controller *controller);

/* Returns what the controller knows and has decided now. It compares all targets and ranks: at most
 * a few times per iteration. */
struct lull_controller_view lull_controller_look(const struct lull_controller *controller);
struct lull_controller_gpu_view lull_controller_look_gpu(const struct lull_controller *controller,
                                                         uint32_t gpu);

/* The target that governs a section of a GPU, or null: left at the reference. */
const struct lull_target *lull_controller_target_of(const struct lull_controller *controller,
                                                    uint32_t gpu, uint32_t section);

/* A point of a target, as an index into this GPU's clock list. */
uint32_t lull_controller_point_on(const struct lull_controller *controller, uint32_t gpu,
                                  const struct lull_target *target, uint32_t point);

/* The point at which a target's sections are proven harmless on this GPU, together with all others;
 * 0: none is. */
uint32_t lull_controller_kept_point(const struct lull_controller *controller, uint32_t gpu,
                                    const struct lull_target *target);

/* Returns the share of the iterations, [0, 1), that run one point below the one at which a target
 * is kept: more than 0 only of the steady point, where its duty is proven. */
double lull_target_below_ratio(const struct lull_target *target);

/* Returns whether a target is proven harmless at any point below the reference. */
bool lull_target_is_kept_low(const struct lull_target *target);

/* At which points the present iteration of a GPU's rank runs. */
struct lull_visit lull_controller_visit(const struct lull_controller *controller, uint32_t gpu);

/* Iterations cannot be tested once their unevenness exceeds the tolerance by this factor. Default:
 * stalls of a busy host add about the tolerance. */
#define LULL_UNEVEN_FACTOR 3.0

/* By how much the mean of a GPU's last iterations at the highest clock exceeds their median,
 * relative to it, where no rhythm explains that: see lull_trial_unevenness. */
double lull_controller_unevenness(const struct lull_controller *controller, uint32_t gpu);

#endif
