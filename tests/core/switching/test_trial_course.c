/*
 * Trials: their permitted cost, the pairs that count, and ranks with different iterations.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "trial_world.h"

/* ---- the loss budget ----------------------------------------------------------------------- */

/* Each iteration earns 0.1 ms, and one at the candidate costs 0.9 ms: with two of them, which are
 * needed to know, and few others before, more is spent than there is. */
static void make_poor_world(struct world *world, const struct lull_trial_config *config)
{
    make_world(world, config);
    world->terms.loss_ratio = 0.001;
    for (uint32_t i = 0; i < config->rank_count; i++)
        world->candidate_ms[i] = 100.9;
}

static double left_ms(const struct world *world, uint32_t rank)
{
    return lull_loss_budget_left_ms(&world->ranks[rank].losses, 1.0);
}

/* The rest of the pair runs at the reference, and counts for neither side. */
static void test_a_pair_is_cut_when_the_budget_is_spent(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct lull_trial_config config = usual_config(1);
        struct world world;
        uint32_t references = 0;

        config.seed = seed;
        make_poor_world(&world, &config);
        world.terms.loss_ratio = 0.0001;
        warm_up(&world, 5);
        begin_with(&world, LULL_TRIAL_SCREEN, 10);
        while (left_ms(&world, 0) >= 0.0)
            run_one(&world, 0);
        /* At the first moment at which the candidate is known well enough. */
        assert_int_equal(world.low[0], 2);
        while (!world.slot.pair_ends) {
            assert_int_equal(run_one(&world, 0), LULL_TRIAL_GOES_ON);
            assert_false(world.slot.candidate);
            references += world.slot.measured;
        }
        if (references > 0) /* the block at the reference came last, whole */
            assert_true(references >= 10);
        assert_int_equal(estimate_of(&world, true).pairs, 1);
        assert_near(estimate_of(&world, true).slowdown_ratio, 0.009, 1e-4);
    }
}

/* It waits until two more iterations as slow as those so far can be paid for. */
static void test_the_next_pair_waits_for_the_budget(void **state)
{
    (void)state;
    for (uint32_t warm = 10; warm <= 20; warm += 10) {
        const struct lull_trial_config config = usual_config(1);
        struct world world;
        const double reserve_ms = 2.0 * 0.9;
        double spent_ms;
        uint64_t base;
        uint64_t seed;
        uint64_t end;
        uint64_t wait;

        make_poor_world(&world, &config);
        world.terms.loss_ratio = 0.0001;
        warm_up(&world, warm);
        begin_with(&world, LULL_TRIAL_SCREEN, 10);
        seed = world.trial.schedule.seed;
        base = world.ranks[0].base;
        do
            run_one(&world, 0);
        while (!world.slot.pair_ends);
        end = world.iteration[0];
        spent_ms = -left_ms(&world, 0);
        assert_true(spent_ms > 0.0);
        wait = (uint64_t)ceil((reserve_ms + spent_ms) / 0.01);
        assert_int_equal(world.ranks[0].base, end + wait);
        assert_true(world.ranks[0].base > base);
        assert_int_equal(world.trial.schedule.seed, seed + 1);
        assert_int_equal(world.trial.first_pair, 1);
        for (uint64_t i = 0; i < wait; i++) {
            run_one(&world, 0);
            assert_false(world.is_placed);
        }
        /* A quarter of what has been earned meanwhile is kept back. */
        assert_true(left_ms(&world, 0) <= reserve_ms + 0.01 + 1e-9);
        assert_true(left_ms(&world, 0) >= reserve_ms - 0.25 * 0.01 * (double)wait - 1e-9);
        run_one(&world, 0);
        assert_true(world.is_placed && world.slot.pair == 1 && world.slot.offset == 0);
        /* The second pair counts as the first one does. */
        while (!world.slot.pair_ends)
            run_one(&world, 0);
        assert_int_equal(world.trial.next_pair, 2);
        assert_int_equal(estimate_of(&world, true).pairs, 2);
        wait = (uint64_t)ceil((reserve_ms - left_ms(&world, 0)) / 0.01);
        assert_int_equal(world.ranks[0].base, world.iteration[0] + wait);
        assert_int_equal(world.trial.first_pair, 2);
    }
}

/* However long a harmful candidate is tried, the loss is at most the earned time and a few
 * iterations.
 */
static void test_what_is_lost_stays_within_the_budget(void **state)
{
    static const double harms_ms[] = {0.3, 0.9, 2.0, 5.0, 20.0};

    (void)state;
    for (uint32_t h = 0; h < 5; h++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct lull_trial_config config = usual_config(1);
            struct world world;
            double lost_ms = 0.0;
            double max_ms = 0.0;

            config.seed = seed;
            make_world(&world, &config);
            world.terms.loss_ratio = 0.005;
            world.candidate_ms[0] = 100.0 + harms_ms[h];
            warm_up(&world, 10);
            for (uint32_t trial = 0; trial < 20; trial++) {
                enum lull_trial_result result = LULL_TRIAL_GOES_ON;

                /* Every one is another point, that harms as much. */
                begin_with(&world, LULL_TRIAL_PROOF, 5);
                for (uint32_t i = 0; i < 300 && result == LULL_TRIAL_GOES_ON; i++) {
                    const uint32_t low = world.low[0];

                    result = run_one(&world, 0);
                    lost_ms += (world.low[0] - low) * harms_ms[h];
                    max_ms = fmax(max_ms, lost_ms - 0.5 * (double)(world.iteration[0] - BASE));
                }
            }
            /* Two iterations until there is anything to be known, and the one that is under way. */
            holds(max_ms <= 3.0 * harms_ms[h], seed);
            holds(lost_ms > 0.0, seed);
        }
}

/* With no loss budget, or nothing spent, nothing waits. */
static void test_nothing_waits_without_a_loss(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    uint32_t count;

    (void)state;
    make_world(&world, &config);
    world.candidate_ms[0] = 100.9;
    begin(&world, LULL_TRIAL_SCREEN);
    assert_int_equal(run(&world, &count), LULL_TRIAL_NOT_DEGRADED);
    assert_int_equal(count, length_of(&world, 3));
    make_world(&world, &config);
    world.terms.loss_ratio = 0.001;
    world.candidate_ms[0] = 99.0;
    begin(&world, LULL_TRIAL_SCREEN);
    assert_int_equal(run(&world, &count), LULL_TRIAL_NOT_DEGRADED);
    assert_int_equal(count, length_of(&world, 3));
    assert_true(lull_trial_affords_check(&world.trial));
}

/* A trial that is begun without anything left begins later; a watch begins at once. */
static void test_a_trial_begins_when_the_budget_allows_it(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;

    (void)state;
    make_poor_world(&world, &config);
    warm_up(&world, 10);
    begin(&world, LULL_TRIAL_WATCH);
    for (uint32_t i = 0; i < 10; i++)
        lull_loss_budget_take_lowered(&world.ranks[0].losses, 100.9);
    begin(&world, LULL_TRIAL_WATCH);
    assert_int_equal(world.ranks[0].base, world.iteration[0]);
    begin(&world, LULL_TRIAL_CHECK);
    /* 9 ms and 1.8 ms for the next two, less three quarters of 1.009 ms; the warm-up has earned
     * nothing. */
    assert_int_equal(world.ranks[0].base, world.iteration[0] + 101);
    /* Less is left than the next two may cost, but not nothing. */
    world.ranks[0].losses.earned_ms += 9.0;
    begin(&world, LULL_TRIAL_CHECK);
    assert_int_equal(world.ranks[0].base, world.iteration[0] + 33);
    world.ranks[0].losses.earned_ms -= 9.0;
    lull_trial_change_point(&world.trial);
    begin(&world, LULL_TRIAL_PROOF);
    /* Of another point nothing is known; it is taken for as slow. */
    assert_int_equal(world.ranks[0].base, world.iteration[0] + 101);
}

/* A check is not afforded if its cost takes more than 512 iterations to earn. */
static void test_a_check_that_is_far_away_is_not_afforded(void **state)
{
    const struct lull_trial_config config = usual_config(RANKS);
    struct world world;

    (void)state;
    for (uint32_t poor = 0; poor < RANKS; poor++)
        for (int above = 0; above < 2; above++) {
            make_poor_world(&world, &config);
            warm_up(&world, 10);
            begin(&world, LULL_TRIAL_WATCH);
            assert_true(lull_trial_affords_check(&world.trial));
            for (uint32_t i = 0; i < 60; i++)
                lull_loss_budget_take_lowered(&world.ranks[poor].losses, 100.9);
            /* 54 ms and 1.8 ms for the next two, less three quarters of what has been earned. */
            world.ranks[poor].losses.earned_ms = above ? 6.0 : 6.3;
            assert_int_equal(lull_trial_affords_check(&world.trial), !above);
        }
}

/* An accepted candidate that has spent the budget is checked at once. */
static void test_a_watch_tells_that_the_budget_is_spent(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    enum lull_trial_result result;
    struct world world;

    (void)state;
    make_poor_world(&world, &config);
    world.candidate_ms[0] = 100.0;
    keep(&world);
    begin(&world, LULL_TRIAL_WATCH);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(run_on(&world), LULL_TRIAL_HOLDS);
    world.candidate_ms[0] = 100.9;
    for (result = LULL_TRIAL_HOLDS; result == LULL_TRIAL_HOLDS;)
        result = run_on(&world);
    assert_int_equal(result, LULL_TRIAL_SPENT);
    assert_true(world.slot.candidate && left_ms(&world, 0) < 0.0);
    /* If other nodes run the same iterations, the pair is cut instead, as on them. */
    world.trial.config.is_aligned = true;
    assert_int_equal(run_one(&world, 0), LULL_TRIAL_GOES_ON);
    while (!world.slot.pair_ends) {
        run_one(&world, 0);
        assert_false(world.slot.candidate);
    }
}

/* Pairs of nodes that run the same iterations begin as planned, spent or not. */
static void test_aligned_pairs_are_never_put_off(void **state)
{
    struct lull_trial_config config = usual_config(1);
    struct world world;

    (void)state;
    config.is_aligned = true;
    make_poor_world(&world, &config);
    begin_with(&world, LULL_TRIAL_SCREEN, 10);
    world.ranks[0].losses.charged_ms = 5.0;
    assert_int_equal(world.trial.schedule.seed, config.seed);
    do
        run_one(&world, 0);
    while (!world.slot.pair_ends);
    assert_true(left_ms(&world, 0) < 0.0);
    assert_int_equal(world.ranks[0].base, BASE);
    run_one(&world, 0);
    assert_true(world.is_placed && world.slot.pair == 1);
    /* Other trials of one node alone toss other coins. */
    config.is_aligned = false;
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_SCREEN);
    assert_int_equal(world.trial.schedule.seed, config.seed + (UINT64_C(1) << 32));
    begin(&world, LULL_TRIAL_SCREEN);
    assert_int_equal(world.trial.schedule.seed, config.seed + (UINT64_C(2) << 32));
}

/* With other nodes there are no checks: all iterations together decide, pair by pair. */
static void test_an_aligned_watch_finds_harm_by_all_iterations(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        struct lull_trial_config config = usual_config(1);
        struct world world;
        enum lull_trial_result result = LULL_TRIAL_HOLDS;

        config.is_aligned = true;
        make_world(&world, &config);
        world.noise_ms = 0.5;
        warm_up(&world, 100);
        keep(&world);
        world.candidate_ms[0] = slow ? 102.5 : 100.5;
        begin(&world, LULL_TRIAL_WATCH);
        for (uint32_t i = 0; i < 60 && result != LULL_TRIAL_HURTS; i++)
            result = run_on(&world);
        assert_int_equal(result == LULL_TRIAL_HURTS, slow);
    }
}

static void add_many(struct world *world, uint32_t pair, bool candidate, double ms, uint32_t count)
{
    const struct lull_pair_slot slot = {.pair = pair, .candidate = candidate, .measured = true};

    for (uint32_t i = 0; i < count; i++)
        lull_trial_add(&world->trial, 0, &slot, ms - 1.0 + 2.0 * (i % 2), world->present);
}

/* The job itself becomes slower while it runs low; that spends nothing. */
static void test_a_job_that_changes_spends_nothing(void **state)
{
    static const double changes_ms[] = {0.5, 10.0, -10.0, 3.0};
    const struct lull_trial_config config = usual_config(1);

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        const double now_ms = 100.0 + changes_ms[i];
        struct world world;
        const struct lull_moments *excess = &world.ranks[0].losses.excess_ms;
        const struct lull_recent_level *level = &world.ranks[0].losses.reference;

        make_world(&world, &config);
        begin_with(&world, LULL_TRIAL_WATCH, 10);
        add_many(&world, 0, false, 100.0, 200);
        for (uint32_t pair = 1; pair < 3; pair++) {
            add_many(&world, pair, true, 100.0, 40);
            add_many(&world, pair, true, pair == 2 ? now_ms : 100.0, 40);
            assert_near(excess->mean * (double)excess->count,
                        pair == 2 ? 40.0 * changes_ms[i] : 0.0, 2.0);
            add_many(&world, pair, false, pair == 2 ? now_ms : 100.0, 10);
        }
        /* Compared with what lies between, unless it may be noise. */
        assert_near(excess->mean * (double)excess->count, i == 0 ? 40.0 * changes_ms[i] : 0.0, 2.0);
        assert_int_equal(level->count, i == 0 ? 128 : 10);
        if (i > 0)
            assert_near(level->mean_ms, now_ms, 1e-9);
        assert_near(world.ranks[0].level_ms, level->mean_ms, 0.0);
        assert_int_equal(world.ranks[0].lowered, 0);
        /* If nothing has run low since the last block, there is nothing to correct. */
        add_many(&world, 3, false, now_ms + 20.0, 10);
        assert_int_equal(level->count, i == 0 ? 128 : 20);
        assert_true(level->mean_ms < now_ms + 15.0);
    }
}

/* The time that harm takes to show determines the minimum length of the blocks of a check. */
static void test_telling_blocks_are_twice_the_run(void **state)
{
    struct lull_trial_config config = usual_config(RANKS);
    struct world world;
    uint32_t run_length = 0;

    (void)state;
    config.first_stretch = 100;
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_WATCH);
    assert_int_equal(lull_trial_min_check_block(&world.trial), 0);
    for (uint32_t i = 0; i < 400; i++) {
        run_one(&world, 1);
        run_length = world.slot.candidate ? run_length + 1 : 0;
        assert_int_equal(lull_trial_min_check_block(&world.trial),
                         run_length <= 32 ? 2 * run_length : 0);
    }
    /* The longest run of any rank. */
    while (!world.slot.candidate)
        run_one(&world, 1);
    lull_trial_take_unplaced(&world.trial, 1, world.iteration[1], 100.0, false);
    assert_int_equal(lull_trial_min_check_block(&world.trial), 0);
    do
        run_one(&world, 0);
    while (!world.slot.candidate);
    assert_int_equal(lull_trial_min_check_block(&world.trial), 2);
}

/* ---- which pairs count --------------------------------------------------------------------- */

/* Iterations before the base do not count, and the pair that a trial joins is not judged. */
static void test_a_trial_is_joined(void **state)
{
    (void)state;
    for (uint32_t offset = 0; offset < 30; offset++) {
        struct lull_trial_config config = usual_config(1);
        struct lull_pair_slot slot;
        struct world world;
        uint32_t joined;

        config.is_aligned = true;
        make_world(&world, &config);
        begin(&world, LULL_TRIAL_SCREEN);
        assert_false(lull_trial_slot(&world.trial, 0, BASE - 1, &slot));
        assert_true(lull_trial_slot(&world.trial, 0, BASE, &slot));
        lull_trial_join(&world.trial, offset);
        world.iteration[0] += offset;
        joined = lull_pair_slot(&world.trial.schedule, offset).pair;
        assert_int_equal(world.trial.next_pair, joined + 1);
        assert_int_equal(world.ranks[0].done, joined + 1);
        do {
            assert_int_equal(run_one(&world, 0), LULL_TRIAL_GOES_ON);
            assert_false(world.slot.candidate || world.slot.measured);
        } while (!world.slot.pair_ends);
        assert_int_equal(world.slot.pair, joined);
        assert_int_equal(run_on(&world), LULL_TRIAL_NOT_DEGRADED);
        assert_int_equal(estimate_of(&world, true).pairs, 3);
        assert_int_equal(world.slot.pair, joined + 3);
        /* A kept candidate stays in force in a watch that is joined. */
        begin(&world, LULL_TRIAL_WATCH);
        lull_trial_join(&world.trial, 1);
        world.iteration[0]++;
        world.low[0] = 0;
        assert_int_equal(run_on(&world), LULL_TRIAL_HOLDS);
        assert_int_equal(world.slot.pair, 1);
        assert_true(world.low[0] > 2 * 2 * BLOCK);
    }
}

static void test_disturbed_pairs_are_set_aside_not_for_ever(void **state)
{
    static const enum lull_trial_kind kinds[] = {LULL_TRIAL_SCREEN, LULL_TRIAL_WATCH};
    const struct lull_trial_config config = usual_config(1);

    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        const bool is_watch = kinds[k] == LULL_TRIAL_WATCH;
        struct world world;

        make_world(&world, &config);
        begin(&world, kinds[k]);
        for (uint32_t i = 0; i < 3; i++) {
            lull_trial_disturb(&world.trial, NULL);
            assert_int_equal(run_on(&world), LULL_TRIAL_SET_ASIDE);
            assert_int_equal(estimate_of(&world, !is_watch).pairs, 0);
        }
        /* The fourth in a row counts; so does one that is not disturbed, and then it starts again.
         */
        lull_trial_disturb(&world.trial, NULL);
        for (uint32_t i = 0; i < 2; i++) {
            while (!world.slot.pair_ends || world.trial.next_pair < 4 + i)
                run_one(&world, 0);
            assert_int_equal(estimate_of(&world, !is_watch).pairs, 1 + i);
        }
        lull_trial_disturb(&world.trial, NULL);
        assert_int_equal(run_on(&world), LULL_TRIAL_SET_ASIDE);
        assert_int_equal(estimate_of(&world, !is_watch).pairs, 2);
        assert_int_equal(run_on(&world), is_watch ? LULL_TRIAL_HOLDS : LULL_TRIAL_NOT_DEGRADED);
    }
}

static void test_a_pair_counts_if_enough_changes_were_made(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;

    (void)state;
    make_world(&world, &config);
    /* A quarter of those wanted are enough. */
    for (int wanted = 5; wanted >= 4; wanted--) {
        begin(&world, LULL_TRIAL_SCREEN);
        for (int i = 0; i < wanted; i++)
            lull_trial_want_change(&world.trial);
        lull_trial_make_change(&world.trial);
        assert_int_equal(run_on(&world),
                         wanted == 4 ? LULL_TRIAL_NOT_DEGRADED : LULL_TRIAL_SET_ASIDE);
    }
    /* A screen without them in three pairs says so, and after fourteen one counts all the
     * same. */
    begin(&world, LULL_TRIAL_SCREEN);
    for (int i = 0; i < 14; i++) {
        lull_trial_want_change(&world.trial);
        assert_int_equal(run_on(&world), i == 2 ? LULL_TRIAL_UNTRIED : LULL_TRIAL_SET_ASIDE);
    }
    lull_trial_want_change(&world.trial);
    assert_int_equal(run_on(&world), LULL_TRIAL_NOT_DEGRADED);
    assert_int_equal(estimate_of(&world, true).pairs, 3);
    /* A proof counts all, and cannot pass: it is given up. */
    for (int is_check = 0; is_check < 2; is_check++) {
        begin(&world, is_check ? LULL_TRIAL_CHECK : LULL_TRIAL_PROOF);
        while (world.trial.next_pair < 14) {
            if (world.trial.wanted_changes == 0)
                lull_trial_want_change(&world.trial);
            assert_int_equal(run_one(&world, 0), LULL_TRIAL_GOES_ON);
        }
        assert_int_equal(estimate_of(&world, true).pairs, 14);
        lull_trial_want_change(&world.trial);
        assert_int_equal(run_on(&world), LULL_TRIAL_GIVES_UP);
    }
    begin(&world, LULL_TRIAL_WATCH);
    lull_trial_want_change(&world.trial);
    assert_int_equal(run_on(&world), LULL_TRIAL_SET_ASIDE);
    assert_int_equal(run_on(&world), LULL_TRIAL_HOLDS);
    /* Those of a trial that has ended do not count for the next one. */
    lull_trial_want_change(&world.trial);
    lull_trial_disturb(&world.trial, NULL);
    begin(&world, LULL_TRIAL_WATCH);
    assert_int_equal(run_on(&world), LULL_TRIAL_HOLDS);
}

/* ---- ranks --------------------------------------------------------------------------------- */

static void test_a_pair_waits_for_all_ranks_that_are_present(void **state)
{
    const struct lull_trial_config config = usual_config(RANKS);
    struct world world;
    uint64_t two;

    (void)state;
    for (int leaves = 0; leaves < 2; leaves++) {
        make_world(&world, &config);
        begin(&world, LULL_TRIAL_SCREEN);
        two = length_of(&world, 2);
        for (uint64_t i = 0; i < two; i++)
            assert_int_equal(run_one(&world, 0), LULL_TRIAL_GOES_ON);
        assert_int_equal(world.trial.next_pair, 0);
        for (uint64_t i = 0; i < length_of(&world, 1); i++)
            run_one(&world, 1);
        assert_int_equal(world.trial.next_pair, 1);
        if (!leaves)
            continue;
        world.present = 1;
        assert_int_equal(lull_trial_leave(&world.trial, 1, world.present), LULL_TRIAL_GOES_ON);
        assert_int_equal(world.trial.next_pair, 2);
        assert_int_equal(run_on(&world), LULL_TRIAL_NOT_DEGRADED);
        assert_int_equal(world.slot.pair, 2);
    }
    /* It waits for a rank that is up to two pairs behind, and no longer. */
    make_world(&world, &config);
    world.terms.tolerance_ratio = 0.5;
    begin(&world, LULL_TRIAL_PROOF);
    for (uint32_t done = 1; done < 7; done++) {
        do
            assert_int_equal(run_one(&world, 0), LULL_TRIAL_GOES_ON);
        while (!world.slot.pair_ends);
        assert_int_equal(world.trial.next_pair, done > 2 ? done - 2 : 0);
    }
    /* Its end may complete the verdict. */
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_SCREEN);
    for (uint64_t i = 0; i < length_of(&world, 3); i++)
        run_one(&world, 0);
    world.present = 1;
    assert_int_equal(lull_trial_leave(&world.trial, 1, world.present), LULL_TRIAL_NOT_DEGRADED);
    /* A rank that was not there when the trial began is not waited for either. */
    make_world(&world, &config);
    world.present = 2;
    begin(&world, LULL_TRIAL_SCREEN);
    assert_int_equal(run_on(&world), LULL_TRIAL_NOT_DEGRADED);
    assert_int_equal(world.iteration[0], BASE);
}

/* In as much time as the slow rank takes for one iteration the fast one runs eleven. */
static enum lull_trial_result run_unlike(struct world *world, uint64_t *slow_count_out)
{
    for (*slow_count_out = 1; *slow_count_out < 2000; ++*slow_count_out)
        for (uint32_t i = 0; i < 12; i++) {
            const enum lull_trial_result result = run_one(world, i == 11);

            if (result != LULL_TRIAL_GOES_ON)
                return result;
        }
    return LULL_TRIAL_GOES_ON;
}

static void test_ranks_that_do_not_wait_are_judged_apart(void **state)
{
    const struct lull_trial_config config = usual_config(RANKS);
    struct world world;
    uint64_t count;

    (void)state;
    /* Nobody is ahead of the verdict: it takes the slow rank's three pairs. */
    make_world(&world, &config);
    world.reference_ms[1] = 1100.0;
    world.candidate_ms[1] = 1105.0;
    begin(&world, LULL_TRIAL_SCREEN);
    assert_int_equal(run_unlike(&world, &count), LULL_TRIAL_NOT_DEGRADED);
    assert_int_equal(count, length_of(&world, 3));
    assert_near(estimate_of(&world, true).slowdown_ratio, 5.0 / 1100.0, 1e-4);
    /* A pair is over once the fast rank is three pairs ahead. */
    assert_true(world.trial.next_pair > 20);
    /* Harm to either is harm. */
    for (uint32_t slow = 0; slow < RANKS; slow++) {
        make_world(&world, &config);
        world.reference_ms[1] = world.candidate_ms[1] = 1100.0;
        world.candidate_ms[slow] *= 1.02;
        world.noise_ms = 0.3;
        warm_up(&world, 100);
        begin(&world, LULL_TRIAL_SCREEN);
        assert_int_equal(run_unlike(&world, &count), LULL_TRIAL_DEGRADED);
    }
}

/* Ranks that wait for each other are put off by as many iterations, others by as much time. */
static void test_all_ranks_wait_for_the_poorest(void **state)
{
    static const struct {
        double other_ms;
        uint64_t wait; /* the other rank's, in percent of the poor one's */
    } cases[] = {{100.0, 100}, {149.0, 100}, {151.0, 66}, {1000.0, 10}, {68.0, 100}, {50.0, 200}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (uint32_t poor = 0; poor < RANKS; poor++) {
            const struct lull_trial_config config = usual_config(RANKS);
            struct world world;
            uint64_t wait[RANKS];

            make_poor_world(&world, &config);
            world.reference_ms[1 - poor] = cases[i].other_ms;
            warm_up(&world, 10);
            begin(&world, LULL_TRIAL_WATCH);
            for (uint32_t k = 0; k < 40; k++)
                lull_loss_budget_take_lowered(&world.ranks[poor].losses, 100.9);
            begin(&world, LULL_TRIAL_CHECK);
            if (i == 0) { /* the other one has spent as well, but less */
                for (uint32_t k = 0; k < 20; k++)
                    lull_loss_budget_take_lowered(&world.ranks[1 - poor].losses, 100.9);
                begin(&world, LULL_TRIAL_CHECK);
            }
            for (uint32_t rank = 0; rank < RANKS; rank++)
                wait[rank] = world.ranks[rank].base - world.iteration[rank];
            /* 36 ms and 1.8 ms for the next two, less three quarters of 4.036 ms. */
            assert_int_equal(wait[poor], 348);
            assert_near((double)wait[1 - poor], 3.48 * (double)cases[i].wait, 3.0);
        }
}

/* Both ranks have spent what they had, in pairs of their own: neither runs low any more in it. */
static void test_ranks_that_do_not_wait_are_cut_apart(void **state)
{
    const struct lull_trial_config config = usual_config(RANKS);
    struct world world;
    uint32_t low[RANKS];

    (void)state;
    make_world(&world, &config);
    begin_with(&world, LULL_TRIAL_SCREEN, 30);
    /* One is in the first pair and the other in the second one, each at the candidate. */
    do
        run_one(&world, 0);
    while (world.trial.ranks[0].done < 1);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        do
            run_one(&world, rank);
        while (!world.slot.candidate || !world.slot.measured);
    assert_int_equal(world.slot.pair, 0);
    world.trial.terms.loss_ratio = 0.0001;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        world.ranks[rank].losses.charged_ms = 1e6;
        low[rank] = world.low[rank];
    }
    for (uint32_t i = 0; i < 20; i++) {
        run_one(&world, 0);
        run_one(&world, 1);
    }
    /* One iteration each shows that there is nothing left. */
    assert_true(world.low[0] <= low[0] + 1);
    assert_true(world.low[1] <= low[1] + 1);
}

/* Ranks that run the same iterations wait for each other: where one has spent, both stop. */
static void test_a_cut_holds_for_all_ranks(void **state)
{
    struct lull_trial_config config = usual_config(RANKS);
    struct world world;

    (void)state;
    config.is_aligned = true; /* so that pairs follow each other */
    make_world(&world, &config);
    warm_up(&world, 10);
    world.terms.loss_ratio = 0.0001;
    begin_with(&world, LULL_TRIAL_PROOF, 20);
    world.ranks[1].losses.charged_ms = 1e6;
    for (uint32_t pair = 0; pair < 5; pair++) {
        const uint32_t low = world.low[0];

        do {
            run_one(&world, 1);
            run_one(&world, 0);
        } while (!world.slot.pair_ends);
        assert_int_equal(world.slot.pair, pair);
        assert_int_equal(world.low[0] - low, 1); /* the iteration that is under way */
        assert_int_equal(world.low[1], pair + 1);
    }
}

/* A rank's iterations at the reference, every tenth or one of ten by a coin longer. */
static double find_unevenness(uint32_t iterations, bool is_rhythm, double longer_ms,
                              bool is_reference)
{
    const struct lull_trial_config config = usual_config(2);
    struct lull_random coins;
    struct world world;

    lull_random_init(&coins, 11);
    make_world(&world, &config);
    for (uint64_t i = 0; i < iterations; i++) {
        const bool is_longer = is_rhythm ? i % 10 == 3 : lull_random_below(&coins, 10) == 0;

        lull_trial_take_unplaced(&world.trial, 1, i, 100.0 + (is_longer ? longer_ms : 0.0),
                                 is_reference);
    }
    assert_true(lull_trial_unevenness(&world.trial, 0) == 0.0); /* nothing was measured of it */
    return lull_trial_unevenness(&world.trial, 1);
}

static void test_unevenness_is_what_no_rhythm_explains(void **state)
{
    (void)state;
    assert_true(find_unevenness(120, true, 100.0, true) == 0.0);
    assert_true(find_unevenness(120, false, 0.0, true) == 0.0);
    assert_true(find_unevenness(120, false, 100.0, false) == 0.0);
    assert_true(find_unevenness(63, false, 100.0, true) == 0.0);
    /* One of ten twice as long adds a tenth to the mean. */
    assert_in_range(lround(1000.0 * find_unevenness(120, false, 100.0, true)), 50, 170);
    assert_in_range(lround(1000.0 * find_unevenness(120, false, 300.0, true)), 150, 510);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unevenness_is_what_no_rhythm_explains),
        cmocka_unit_test(test_a_pair_is_cut_when_the_budget_is_spent),
        cmocka_unit_test(test_the_next_pair_waits_for_the_budget),
        cmocka_unit_test(test_what_is_lost_stays_within_the_budget),
        cmocka_unit_test(test_nothing_waits_without_a_loss),
        cmocka_unit_test(test_a_trial_begins_when_the_budget_allows_it),
        cmocka_unit_test(test_a_check_that_is_far_away_is_not_afforded),
        cmocka_unit_test(test_a_watch_tells_that_the_budget_is_spent),
        cmocka_unit_test(test_aligned_pairs_are_never_put_off),
        cmocka_unit_test(test_an_aligned_watch_finds_harm_by_all_iterations),
        cmocka_unit_test(test_a_job_that_changes_spends_nothing),
        cmocka_unit_test(test_telling_blocks_are_twice_the_run),
        cmocka_unit_test(test_a_trial_is_joined),
        cmocka_unit_test(test_disturbed_pairs_are_set_aside_not_for_ever),
        cmocka_unit_test(test_a_pair_counts_if_enough_changes_were_made),
        cmocka_unit_test(test_a_pair_waits_for_all_ranks_that_are_present),
        cmocka_unit_test(test_ranks_that_do_not_wait_are_judged_apart),
        cmocka_unit_test(test_all_ranks_wait_for_the_poorest),
        cmocka_unit_test(test_ranks_that_do_not_wait_are_cut_apart),
        cmocka_unit_test(test_a_cut_holds_for_all_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
