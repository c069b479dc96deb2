/*
 * A trial with synthetic iterations: a given length for each rank on either side.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_CORE_TRIAL_WORLD_H
#define LULL_TESTS_CORE_TRIAL_WORLD_H

#include "core/switching/trial.h"
#include "../property.h"

enum { RANKS = 2, BLOCK = 3, BASE = 7 };

/* A trial of some ranks that all run the same iterations. */
struct world {
    struct lull_trial_config config;
    struct lull_trial_terms terms;
    struct lull_trial trial;
    struct lull_trial_rank ranks[RANKS];
    struct lull_random random;
    uint64_t present;
    uint64_t iteration[RANKS]; /* the next one of each rank */
    double reference_ms[RANKS];
    double candidate_ms[RANKS];
    double noise_ms;
    uint32_t low[RANKS]; /* iterations at the candidate */
    struct lull_pair_slot slot;
    bool is_placed; /* the last iteration had a slot */
};

/* Any loss is allowed. */
static const struct lull_trial_terms usual_terms = {.tolerance_ratio = 0.01};

static inline void begin_with(struct world *world, enum lull_trial_kind kind, uint32_t block)
{
    lull_trial_begin(&world->trial, kind, &world->terms, block, world->present);
    for (uint32_t i = 0; i < world->config.rank_count; i++)
        lull_trial_place(&world->trial, i, world->iteration[i]);
}

static inline void begin(struct world *world, enum lull_trial_kind kind)
{
    begin_with(world, kind, BLOCK);
}

static inline struct lull_trial_config usual_config(uint32_t ranks)
{
    return (struct lull_trial_config){
        .rank_count = ranks,
        .confidence = 0.95,
        .most_set_aside = 3,
        .first_stretch = 2,
        .most_stretch = 8,
        .seed = 5,
    };
}

static inline void make_world(struct world *world, const struct lull_trial_config *config)
{
    *world = (struct world){.config = *config, .terms = usual_terms};
    lull_trial_init(&world->trial, config, world->ranks);
    lull_random_init(&world->random, 11);
    for (uint32_t i = 0; i < config->rank_count; i++) {
        world->present |= UINT64_C(1) << i;
        world->iteration[i] = BASE;
        world->reference_ms[i] = 100.0;
        world->candidate_ms[i] = 100.0;
        /* As after some screens: nothing carries over. */
        for (uint32_t block = 0; block < 4; block++)
            lull_carry_over_add(&world->ranks[i].carry, block > 0, 0.0);
    }
}

static inline enum lull_trial_result run_one(struct world *world, uint32_t rank)
{
    struct lull_pair_slot *slot = &world->slot;
    double ms;

    world->is_placed = lull_trial_slot(&world->trial, rank, world->iteration[rank]++, slot);
    if (!world->is_placed)
        slot->candidate = false;
    ms = slot->candidate ? world->candidate_ms[rank] : world->reference_ms[rank];
    ms += lull_random_normal(&world->random, 0.0, 1.0) * world->noise_ms;
    world->low[rank] += slot->candidate;
    if (world->is_placed)
        return lull_trial_add(&world->trial, rank, slot, ms, world->present);
    lull_trial_take_unplaced(&world->trial, rank, world->iteration[rank] - 1, ms, true);
    return LULL_TRIAL_GOES_ON;
}

/* Runs iterations of all ranks until something is to be done; *count_out: how many. */
static inline enum lull_trial_result run(struct world *world, uint32_t *count_out)
{
    for (*count_out = 1; *count_out < 50000; ++*count_out)
        for (uint32_t i = 0; i < world->config.rank_count; i++) {
            enum lull_trial_result result;

            if ((world->present & (UINT64_C(1) << i)) == 0)
                continue;
            result = run_one(world, i);
            if (result != LULL_TRIAL_GOES_ON)
                return result;
        }
    return LULL_TRIAL_GOES_ON;
}

static inline enum lull_trial_result run_on(struct world *world)
{
    uint32_t count;

    return run(world, &count);
}

/* Iterations of so many pairs of the present trial. */
static inline uint64_t length_of(const struct world *world, uint32_t pairs)
{
    return lull_pair_schedule_begin(&world->trial.schedule, pairs);
}

static inline struct lull_guard_estimate estimate_of(const struct world *world, bool is_test)
{
    struct lull_guard_estimate estimate;

    if (is_test)
        lull_trial_estimate_test(&world->trial, &estimate);
    else
        lull_trial_estimate(&world->trial, &estimate);
    return estimate;
}

/* Iterations at the reference before there is a trial. */
static inline void warm_up(struct world *world, uint32_t iterations)
{
    for (uint32_t rank = 0; rank < world->config.rank_count; rank++)
        for (uint32_t i = 0; i < iterations; i++, world->iteration[rank]++)
            lull_trial_take_unplaced(&world->trial, rank, world->iteration[rank],
                                     world->reference_ms[rank] +
                                         world->noise_ms *
                                             lull_random_normal(&world->random, 0.0, 1.0),
                                     true);
}

/* Proves the candidate and keeps it. */
static inline void keep(struct world *world)
{
    begin(world, LULL_TRIAL_PROOF);
    assert_int_equal(run_on(world), LULL_TRIAL_NOT_DEGRADED);
    lull_trial_keep(&world->trial);
}

#endif
