/*
 * The controller's state, private to its files. Calls go down this list only:
 *   controller.c  inputs and outputs
 *   driver_calls.c evidence from the driver's calls
 *   view.c        the view for readers
 *   visits.c      at which points an iteration runs, for comparisons
 *   iteration.c   an iteration that has ended: for the trial, and what is due after it
 *   conclude.c    consequences of a trial's verdicts
 *   decide.c      the next step: the trial that runs
 *   blocks.c      number of iterations in the blocks of a trial
 *   gaps.c        GPUs whose sections are gaps: what is asked of the driver for them, and when
 *   plan.c        which section has which target, point and forecast
 *   profile.c     the power profile: whether it is tested, when it is used, and what it saves
 *   dither.c      the steady point between two clocks: which duty, and when it is low
 *   expectation.c predictions from trials of the steady point
 *   swings.c      levers given up because the node's power would swing too widely
 *   peers.c       reports of the controllers of the job's other nodes
 *   targets.c     the list of targets (targets.h)
 *   refine.c      points of single GPUs, below or above the common one (targets.h)
 *   gpu.c         whether a GPU takes part, what is asked of it, what switching it costs
 *
 * Below them are the driver's queue and the trial (core/switching).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_CONTROLLER_STATE_H
#define LULL_CORE_SECTION_CONTROLLER_STATE_H

#include "core/energy/swing_limit.h"
#include "core/switching/switch_cost.h"
#include "core/section/controller/controller.h"
#include "core/section/controller/targets.h"
#include "core/section/gaps/gap_choice.h"
#include "core/section/slack.h"
#include "core/stats/allowance.h"
#include "core/switching/driver_queue.h"
#include "core/switching/feed_forward.h"
#include "core/switching/trial.h"

enum { LULL_CONTROLLER_MIN_OCCURRENCES = 3 }; /* of a section, before it can be forecast */
/* Iterations between two checks, and from the settling to a retry, at first; see conclude.c and
 * iteration.c. */
enum { LULL_CONTROLLER_FIRST_CHECK = 64, LULL_CONTROLLER_FIRST_RETRY = 2048 };

struct lull_controlled_gpu {
    struct lull_track *track;
    uint32_t points;
    double lowest_ratio; /* the lowest clock as a share of the highest */
    bool exited;
    bool failed;
    uint32_t model; /* UINT32_MAX: one of its own */
    uint32_t changes;
    struct lull_switch_cost cost;
    struct lull_switch_cost model_cost; /* of all GPUs of its model, as if none had ever waited */
    struct lull_switch_calibration calibration;
    struct lull_feed_forward feed;
    int32_t open_section;          /* -1: none */
    int32_t expected_section;      /* that `expected` is about, -1: none */
    struct lull_forecast expected; /* made while there is time: when the section before ends */
    int32_t target_of[LULL_TRACK_MAX_SECTIONS];
    struct lull_quantile reference_iterations_ms; /* the last ones at the reference */
    bool command_waits;
    struct lull_command command;
    uint32_t steady; /* the point that a raising goes back to: of the whole iteration */
    int64_t steady_renew_ns;
    uint32_t fold;          /* the job's iterations in one of the track's */
    uint32_t switched_gaps; /* in one of the track's iterations */
    uint32_t late_now;   /* number of times that computation started low in the track's iteration */
    int32_t low_section; /* gap at whose begin its lower clock was wanted, -1: none is open */
    int32_t ahead_section;  /* gap whose lowering is planned or requested ahead, -1: none */
    bool has_gaps;          /* its sections are gaps: switched by the node's plan */
    bool raises_as_planned; /* the raising requested last was foreseen */
    struct lull_low_interval low;
    int64_t low_ns;    /* time below the steady point since the last proof began */
    bool has_profile;  /* its power profile may be requested */
    bool uses_profile; /* it is to be, in the present iteration */
};

struct lull_controller {
    struct lull_controller_config config;
    enum lull_controller_phase phase;
    uint32_t gpu_count;
    struct lull_controlled_gpu gpus[LULL_CONTROLLER_MAX_GPUS];
    struct lull_targets targets;
    struct lull_trial trial; /* of the target under test, or of all that are settled */
    struct lull_trial_rank ranks[LULL_CONTROLLER_MAX_GPUS];
    struct lull_driver_queue queue; /* of the node's driver */
    struct lull_slack slack;        /* of its ranks */
    uint32_t screened_descents;     /* of the slack, when the present trial began */
    uint32_t failures;              /* proofs and checks in a row that have made it back off */
    uint32_t checks_passed;         /* checks since what is settled has been proven */
    uint32_t lead;                  /* GPU whose iterations are counted; UINT32_MAX: none yet */
    uint64_t lead_offset;           /* of its count, so that the count continues with a new lead */
    uint64_t check_spacing;
    uint64_t next_check; /* iteration before which no check starts */
    uint64_t retry_spacing;
    uint64_t next_retry;    /* iteration before which nothing is tried again */
    bool is_retrying;       /* the settled points stay the result until lower ones are proven */
    uint64_t searched_from; /* iteration with which the search for sections began */
    uint64_t steady_from;   /* ...and before which no steady point is tried; 0: not known yet */
    uint32_t refined_point; /* steady point that a duty has been sought for; UINT32_MAX: none */
    uint64_t refined_from;  /* iteration with which that began */
    bool had_profile;       /* the profile has been tested, or could not be */
    int64_t proof_from_ns;
    uint64_t trial_begin;
    uint64_t settled_after;
    int64_t decided_from_ns; /* since when decisions have been running without a break */
    int64_t decided_ns;      /* time in which they had been before */
    struct lull_swing_limit swings;
    struct lull_allowance late; /* iterations, of all GPUs, in which computation begins low */
    bool held;                  /* by the other nodes */
    int64_t now_ns;             /* latest time passed in */
    bool went_deep;             /* below the first step, since the driver has been trusted */
    uint32_t aligned_window;    /* iterations, with other nodes; 0: the own */
};

/* ---- driver_calls.c ----------------------------------------------------------------- */

/* While the driver is not trusted everything is raised, and no test runs. */
void lull_controller_act_on_driver(struct lull_controller *controller,
                                   enum lull_driver_change change);

/* ---- decide.c ----------------------------------------------------------------- */

void lull_controller_init_decisions(struct lull_controller *controller);

/* Decides what to do next after anything has changed: a section known, lost, settled, a rank gone.
 */
void lull_controller_reconsider(struct lull_controller *controller);

/* Begins a fresh trial: guards, pairs, and the iteration from which the schedule counts. */
void lull_controller_begin_trial(struct lull_controller *controller, enum lull_trial_kind kind);

/* Returns whether something runs below the reference: for a section, for all, or because its rank
 * waits. */
bool lull_controller_is_lowered(const struct lull_controller *controller);

/* Returns whether what is to be proven is a duty of a steady point that is proven already. */
bool lull_controller_is_refining(const struct lull_controller *controller);

/* The target to search now, if any. */
int32_t lull_controller_next_target(const struct lull_controller *controller);

/* Whatever has been proven holds no more. */
void lull_controller_forget_proof(struct lull_controller *controller);

/* ---- conclude.c --------------------------------------------------------------- */

/* Acts on the result of a trial: takes a verdict, begins a check or the next stretch of a watch. */
void lull_controller_act_on(struct lull_controller *controller, enum lull_trial_result result);

/* ---- iteration.c -------------------------------------------------------------- */

/* An iteration of this GPU's rank has ended: it may complete a block, a pair, a verdict. */
void lull_controller_take_iteration(struct lull_controller *controller,
                                    struct lull_controlled_gpu *gpu, double iteration_ms);

/* ---- visits.c ----------------------------------------------------------------- */

/* Represents the points of sections and gaps that are proven; see struct lull_controller_view. */
uint64_t lull_controller_kept_others(const struct lull_controller *controller);
uint64_t lull_controller_profile_others(const struct lull_controller *controller);

/* ---- blocks.c ----------------------------------------------------------------- */

/* Iterations per block of a trial of this kind that begins now, at least 1. */
uint32_t lull_controller_block(const struct lull_controller *controller, enum lull_trial_kind kind);

/* ---- gpu.c -------------------------------------------------------------------- */

/* The GPU has a rank that has called and not left, and the device applies requests. */
bool lull_controller_is_active(const struct lull_controlled_gpu *gpu);

/* Its rank's sections are known. */
bool lull_controller_is_known(const struct lull_controlled_gpu *gpu);

/* Both: its iterations count. */
bool lull_controller_takes_part(const struct lull_controlled_gpu *gpu);

/* The GPU whose iterations are counted; see struct lull_controller_view. */
uint32_t lull_controller_lead(const struct lull_controller *controller);

/* Lets a GPU that takes part lead, unless the present one still does. The job may use any of the
 * node's GPUs, so the first one may have no rank. */
void lull_controller_choose_lead(struct lull_controller *controller);

/* Has the present iteration bear this number, although the lead's track counts from another one. */
void lull_controller_count_on(struct lull_controller *controller, uint64_t iteration);

/* The number of the present iteration, of the GPU that leads; 0 before there is one. */
uint64_t lull_controller_iteration(const struct lull_controller *controller);

/* Number of active GPUs before this one, or of all (UINT32_MAX). */
uint32_t lull_controller_active_before(const struct lull_controller *controller, uint32_t gpu);

/* A bit for each GPU that takes part. */
uint64_t lull_controller_present(const struct lull_controller *controller);

/*
 * Those of them whose iterations a trial judges: a rank that waits for others begins its iterations
 * later once it is lowered, which looks like a long one, and where it comes too late those that it
 * waits for see that.
 */
uint64_t lull_controller_judged(const struct lull_controller *controller);

/* Its sections have changed, or its rank has: nothing that was planned for them holds any more. */
void lull_controller_forget_sections(struct lull_controlled_gpu *gpu);

/* No section of the GPU has a target. */
void lull_controller_forget_targets(struct lull_controlled_gpu *gpu);

/* Has the GPU set to this point at the next poll, unless lowering it is not allowed now; at 0 or
 * above its steady point, to that one. */
void lull_controller_post(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                          uint32_t point, int64_t deadline_ns, int64_t valid_until_ns);

/* Posts what the feed-forward wants. */
void lull_controller_post_feed(struct lull_controller *controller, struct lull_controlled_gpu *gpu);

/* Has the GPU run at this steady point from now on, or when it is raised next. */
void lull_controller_set_steady(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                                uint32_t point);

/* Raises the GPU to the reference if it is low, or asked to be, whatever for. */
void lull_controller_raise_now(struct lull_controller *controller, struct lull_controlled_gpu *gpu);
void lull_controller_raise_all(struct lull_controller *controller);

/* Learns the cost of switching this GPU, and others of its model, from a change of its clock. */
void lull_controller_learn_cost(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                                const struct lull_switch_outcome *outcome);

/* ---- peers.c ------------------------------------------------------------------ */

/* The point that may be applied for a settled target in this iteration. */
uint32_t lull_controller_agreed_point(const struct lull_controller *controller,
                                      const struct lull_target *target, uint32_t point,
                                      uint64_t iteration);

/* Unsettled targets do not try what another node has refused. */
void lull_controller_apply_refusals(struct lull_controller *controller);

/* Sets the agreement of the nodes on a target. Returns true if the point being tested has been
 * refused. */
bool lull_controller_set_agreed(struct lull_controller *controller, uint32_t index,
                                uint32_t agreed_point, uint64_t from_iteration,
                                uint32_t refused_point);

/* Places a test at the same iterations on all nodes that count alike. */
void lull_controller_place_test(struct lull_controller *controller);

/* ---- swings.c ----------------------------------------------------------------- */

/* Returns whether a steady point is still to be sought. */
bool lull_controller_awaits_steady(const struct lull_controller *controller);

/* A section's point (an index of the GPU's clocks) with what is given up for the node's swings; 0:
 * it is not lowered. While something is tried nothing is given up: a proof is of all that it keeps.
 */
uint32_t lull_controller_cut_point(const struct lull_controller *controller,
                                   const struct lull_controlled_gpu *gpu,
                                   const struct lull_target *target, uint32_t point);

/* ---- dither.c ----------------------------------------------------------------- */

/* Returns the slowdown that is aimed at with the steady point: some of the tolerance is left to the
 * proof. */
double lull_controller_wanted_ratio(const struct lull_controller *controller);

/* Returns the slowdown per point, by least squares through the origin of what the trials of the
 * steady point and of those around it have found, each as good as it has pairs. NAN: nothing has
 * been. */
double lull_controller_slope(const struct lull_controller *controller,
                             const struct lull_target *steady);

/* Lets the search of the steady point, which has taken a verdict, continue where its trials so far
 * expect its end. */
void lull_controller_aim(const struct lull_controller *controller, struct lull_target *steady);

/* Returns whether the steady target's duty has this iteration run one point lower. */
bool lull_controller_is_low_slot(const struct lull_target *steady,
                                 const struct lull_pair_slot *slot);

/* Returns the duty with which the steady point, as proven, is likely to come nearer to the
 * tolerance; none: {0}. */
struct lull_duty lull_controller_find_duty(const struct lull_controller *controller);

/* ---- plan.c ------------------------------------------------------------------- */

/* Time that the GPU's steady point adds between the previous section and this one, ms. */
double lull_controller_stretch_ms(const struct lull_controlled_gpu *gpu,
                                  const struct lull_section *section);

/* Forecasts the next occurrence of a section, and switching for it. */
void lull_controller_forecast(const struct lull_controller *controller,
                              const struct lull_controlled_gpu *gpu,
                              const struct lull_section *section, struct lull_forecast *out);

/* The point at which a target's section is to run in this iteration of the GPU's track. */
uint32_t lull_controller_planned_point(const struct lull_controller *controller,
                                       const struct lull_controlled_gpu *gpu, int32_t target_index,
                                       uint64_t iteration);

/* Slack is used at all, and this is one of the iterations at what is tried or kept. */
bool lull_controller_uses_slack(const struct lull_controller *controller,
                                const struct lull_controlled_gpu *gpu, uint64_t iteration);

/* Finds which sections of this GPU are worth switching, and the target of each. */
void lull_controller_map_sections(struct lull_controller *controller,
                                  struct lull_controlled_gpu *gpu);

/* The allowance for computation that begins low. */
void lull_controller_init_allowance(struct lull_controller *controller);

/* Present requirements for switching each of the GPU's gaps that are switched. */
struct lull_gap_need lull_controller_gap_need(const struct lull_controller *controller,
                                              const struct lull_controlled_gpu *gpu);

/* ---- profile.c ---------------------------------------------------------------- */

/* Adds the profile to what is searched, once, if all GPUs that take part have one. */
void lull_controller_map_profile(struct lull_controller *controller);

/* Returns whether the GPU uses the profile in this iteration of its track. */
bool lull_controller_plans_profile(const struct lull_controller *controller,
                                   const struct lull_controlled_gpu *gpu, uint64_t iteration);

/* The profile has been proven to be within the tolerance. Returns false, and drops it, if it was
 * not measured to save energy. */
bool lull_controller_profile_pays(struct lull_controller *controller);

/* ---- gaps.c ------------------------------------------------------------------- */

void lull_controller_gap_begins(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                                uint32_t index, int64_t now_ns);
void lull_controller_gap_ends(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                              uint32_t index, int64_t now_ns);

/* The clock of a GPU with gaps has followed since effect_ns: was it too early or too late? */
void lull_controller_note_clock(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                                const struct lull_switch_outcome *outcome);

/*
 * Requests what the node's plan says is due for GPUs with gaps, after all else has been posted:
 * raisings one after the other, a lowering where there is room for it.
 */
void lull_controller_poll_gaps(struct lull_controller *controller, int64_t now_ns);

/* Latest time at which to do so again; INT64_MAX: not before the next call. */
int64_t lull_controller_gaps_wake_ns(const struct lull_controller *controller);

#endif
