/*
 * Targets: what is searched a point for, each over all GPUs that have such sections, and the steady
 * point of whole iterations; how far each search has come, and which one is next.
 *
 * All GPUs of a target search together first; then some may search below the common point on their
 * own (refine.c). The list never acts: it takes verdicts and answers which point holds where.
 *
 * Inside the controller only; the struct of a target is public (controller.h). Borrows the
 * controller's GPUs and configuration. Pure; one thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_CONTROLLER_TARGETS_H
#define LULL_CORE_SECTION_CONTROLLER_TARGETS_H

#include "core/section/controller/controller.h"

struct lull_controlled_gpu;

enum { LULL_CONTROLLER_NO_TARGET = -1, LULL_CONTROLLER_NO_TURN = -1 };

struct lull_targets {
    const struct lull_controller_config *config;
    const struct lull_controlled_gpu *gpus;
    uint32_t gpu_count;
    struct lull_target list[LULL_CONTROLLER_MAX_TARGETS];
    uint32_t count;
    int32_t steady;  /* the target of whole iterations; LULL_CONTROLLER_NO_TARGET: there is none */
    int32_t profile; /* the target of the power profile; LULL_CONTROLLER_NO_TARGET: there is none */
    int32_t current; /* target under test; LULL_CONTROLLER_NO_TARGET: none is */
    bool takes_all;  /* nothing is left out of the search */
};

/* ---- targets.c ---------------------------------------------------------------- */

/* An empty list over gpu_count GPUs; both pointers are borrowed. */
void lull_targets_init(struct lull_targets *targets, const struct lull_controller_config *config,
                       const struct lull_controlled_gpu *gpus, uint32_t gpu_count);

/* The target of sections of this class; LULL_CONTROLLER_NO_TARGET: there is none. */
int32_t lull_targets_find(const struct lull_targets *targets, uint64_t signature);

/* Adds a target for the lowest point; LULL_CONTROLLER_NO_TARGET when the list is full. */
int32_t lull_targets_add(struct lull_targets *targets, uint64_t signature,
                         enum lull_descent_strategy strategy);

/* Adds the target of the power profile, which has two points: without it, and with it. */
void lull_targets_add_profile(struct lull_targets *targets);

/* Returns whether the target's sections lie within iterations. */
bool lull_targets_is_within(const struct lull_targets *targets, uint32_t index);

/* Returns whether the power profile is still to be tested or proven. Nothing else is lowered
 * meanwhile, so that the trials compare the profile alone with the reference. */
bool lull_targets_is_profile_open(const struct lull_targets *targets);

/* Returns whether trials switch the profile: it is tested, or has been found. */
bool lull_targets_has_profile(const struct lull_targets *targets);

/* Removes the profile for the rest of the run, for this reason. */
void lull_targets_drop_profile(struct lull_targets *targets, enum lull_settle_reason reason);

/* The power profile, then the unsettled target whose sections take longest, and the steady point
 * after all others: it takes what these leave of the tolerance. Sections that take little of the
 * time, and those whose clock could rarely be changed in time, are left out as long as takes_all is
 * false. LULL_CONTROLLER_NO_TARGET: all others are settled. */
int32_t lull_targets_next(const struct lull_targets *targets);

/* Whatever is to be searched has been: gives the reason for targets that are left out. */
void lull_targets_explain_left_out(struct lull_targets *targets);

/* From now on what has been left out is searched, too. Returns whether there is any. */
bool lull_targets_take_left_out(struct lull_targets *targets);

/* S224: the guard has spoken about the target's candidate. */
void lull_targets_conclude(const struct lull_targets *targets, struct lull_target *target,
                           enum lull_verdict verdict);

/* All that has been found is proven harmless together. */
void lull_targets_prove(struct lull_targets *targets);

/* Forgets every proof: all targets count as unproven from now on. */
void lull_targets_disprove(struct lull_targets *targets);

/* Returns whether nothing but what is proven has been found; also where nothing has been. */
bool lull_targets_are_proven(const struct lull_targets *targets);

/* The profile has passed its screen and is not proven yet. Or only the steady point is left to
 * search, and nothing of what sections have found is proven yet: a short job is to have at least
 * that. */
bool lull_targets_want_proof_first(const struct lull_targets *targets);

/* Returns whether any target has a proven point below the reference. */
bool lull_targets_any_is_proven(const struct lull_targets *targets);

/* Backs off from results that are harmful, or not proven harmless: descents whose result is lower
 * than the proven point start again, this many points (>= 1) above the result, and never go higher
 * than the proven point. Clocks are backed off before the profile: it is proven alone next. */
void lull_targets_back_off(struct lull_targets *targets, uint32_t points);

/* Gives up results that cannot be proven now: the proven points are kept, and may be reopened. */
void lull_targets_give_up(struct lull_targets *targets);

/* Searches again below what has been found; false: there is nothing left below. */
bool lull_targets_reopen(struct lull_targets *targets);

/* Returns the duty that refines the target's result; none: {0}. */
struct lull_duty lull_target_duty(const struct lull_target *target);

/* Returns whether anything has been found below the reference. */
bool lull_targets_are_lowered(const struct lull_targets *targets);

/* Returns whether something is switched within iterations. */
bool lull_targets_have_sections(const struct lull_targets *targets);

/* The steady point's target, or null: there is no search. */
const struct lull_target *lull_targets_steady(const struct lull_targets *targets);

/* The power profile's target, or null: none is offered. */
const struct lull_target *lull_targets_profile(const struct lull_targets *targets);

/* The target under test, or null. */
const struct lull_target *lull_targets_descending(const struct lull_targets *targets);

/* A point of a target on this GPU's clock list. */
uint32_t lull_targets_point_on(const struct lull_targets *targets, uint32_t gpu,
                               const struct lull_target *target, uint32_t point);

/* ---- refine.c ----------------------------------------------------------------- */

/* The point of a target that is under test, or settled, for one GPU; of the target's own scale. */
uint32_t lull_target_point_for(const struct lull_target *target, uint32_t gpu, bool under_test);

/* The point of a target that is under test: of all together, or of the GPU whose turn it is. */
uint32_t lull_target_candidate(const struct lull_target *target);

/* The same of a point that is common to all GPUs. */
uint32_t lull_target_common_point(const struct lull_target *target, uint32_t gpu, uint32_t point);

/* Passes the verdict to the search that runs. */
void lull_target_take_verdict(struct lull_target *target, enum lull_verdict verdict);

/* True while a search of the target runs, the joint one or another that now begins. */
bool lull_target_goes_on(const struct lull_targets *targets, struct lull_target *target);

/* Gives up points of single GPUs permanently. */
void lull_target_drop_own(struct lull_target *target);

/* Searches again below what has been found, one point at a time at first. */
void lull_target_reopen(const struct lull_targets *targets, struct lull_target *target);

#endif
