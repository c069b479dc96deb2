/* Trials: windows, pairs, and what they say. SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/trial.h"
#include "../property.h"

enum { RANKS = 2, WINDOW = 3 };

/* A trial of some ranks that all run the same iterations. */
struct world {
    struct lull_trial_config config;
    struct lull_trial trial;
    struct lull_trial_rank ranks[RANKS];
    uint64_t present;
    uint64_t iteration[RANKS]; /* the next one of each rank */
    double reference_ms[RANKS];
    double candidate_ms[RANKS];
};

static const struct lull_trial_terms usual_terms = {.tolerance_ratio = 0.01, .abort_ratio = 0.3};

static void begin(struct world *world, enum lull_trial_kind kind)
{
    lull_trial_set_terms(&world->trial, &usual_terms, world->present);
    lull_trial_begin(&world->trial, kind, WINDOW);
    for (uint32_t i = 0; i < world->config.rank_count; i++)
        lull_trial_place(&world->trial, i, world->iteration[i]);
}

static struct lull_trial_config usual_config(uint32_t ranks)
{
    return (struct lull_trial_config){
        .rank_count = ranks,
        .confidence = 0.95,
        .min_pairs = 4,
        .max_pairs = 14,
        .kept_pairs = 14,
        .most_set_aside = 3,
        .first_stretch = 2,
        .most_stretch = 8,
    };
}

static void make_world(struct world *world, const struct lull_trial_config *config)
{
    *world = (struct world){.config = *config};
    lull_trial_init(&world->trial, config, world->ranks);
    for (uint32_t i = 0; i < config->rank_count; i++) {
        world->present |= UINT64_C(1) << i;
        world->iteration[i] = 7;
        world->reference_ms[i] = 100.0;
        world->candidate_ms[i] = 100.0;
    }
}

static enum lull_trial_result run_one(struct world *world, uint32_t rank)
{
    struct lull_window_slot slot;

    assert_true(lull_trial_slot(&world->trial, rank, world->iteration[rank]++, &slot));
    return lull_trial_add(&world->trial, rank, &slot,
                          slot.candidate ? world->candidate_ms[rank] : world->reference_ms[rank],
                          world->present);
}

/* Runs iterations of all ranks until something is to be done; *count_out: how many. */
static enum lull_trial_result run(struct world *world, uint32_t *count_out)
{
    for (*count_out = 1; *count_out < 5000; ++*count_out)
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

/* A pair is two windows, and two pairs share three changes; see window_schedule.h. */
static uint32_t length_of(uint32_t pairs)
{
    return 2 * WINDOW * pairs + pairs + 1;
}

static void test_a_test_ends_with_a_verdict(void **state)
{
    const struct lull_trial_config config = usual_config(RANKS);
    struct lull_guard_estimate estimate;
    struct world world;
    uint32_t count;

    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        make_world(&world, &config);
        world.candidate_ms[0] = world.candidate_ms[1] = slow ? 103.0 : 100.5;
        begin(&world, LULL_TRIAL_TEST);
        assert_int_equal(run(&world, &count), slow ? LULL_TRIAL_DEGRADED : LULL_TRIAL_NOT_DEGRADED);
        assert_int_equal(count, length_of(4));
        lull_trial_estimate_test(&world.trial, &estimate);
        assert_int_equal(estimate.pairs, 4);
        assert_near(estimate.slowdown_ratio, slow ? 0.03 : 0.005, 1e-9);
        lull_trial_estimate(&world.trial, &estimate);
        assert_int_equal(estimate.pairs, 0); /* nothing is kept yet */
        lull_trial_keep(&world.trial);
        lull_trial_estimate(&world.trial, &estimate);
        assert_int_equal(estimate.pairs, 4);
        lull_trial_drop_kept(&world.trial);
        lull_trial_estimate(&world.trial, &estimate);
        assert_int_equal(estimate.pairs, 0);
    }
}

/* Iterations before the base do not count, and the pair that a trial joins is not judged. */
static void test_a_trial_is_joined(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct lull_window_slot slot;
    struct world world;
    uint32_t count;

    (void)state;
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_TEST);
    assert_false(lull_trial_slot(&world.trial, 0, 6, &slot));
    lull_trial_join(&world.trial, 1);
    world.iteration[0]++;
    assert_int_equal(run(&world, &count), LULL_TRIAL_SET_ASIDE);
    assert_int_equal(count, length_of(1) - 1);
    assert_int_equal(run(&world, &count), LULL_TRIAL_NOT_DEGRADED);
    assert_int_equal(count, length_of(5) - length_of(1));
    lull_trial_join(&world.trial, length_of(1) + 1); /* in the second pair */
    assert_int_equal(world.trial.next_pair, 2);
}

static double slowdown_with_a_hiccup(bool uses_plain_mean)
{
    struct lull_trial_config config = usual_config(1);
    struct lull_guard_estimate estimate;
    struct world world;

    config.uses_plain_mean = uses_plain_mean;
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_TEST);
    for (uint32_t i = 1; i <= length_of(1); i++) {
        world.candidate_ms[0] = i == length_of(1) ? 115.0 : 100.0;
        run_one(&world, 0);
    }
    lull_trial_estimate_test(&world.trial, &estimate);
    assert_int_equal(estimate.pairs, 1);
    return estimate.slowdown_ratio;
}

static void test_a_window_is_its_faster_half_or_its_mean(void **state)
{
    (void)state;
    assert_near(slowdown_with_a_hiccup(false), 0.0, 1e-12);
    assert_near(slowdown_with_a_hiccup(true), 0.05, 1e-12);
}

/* The iteration that ends a pair is never told. */
static void test_lost_iterations_cost_a_pair_or_join_the_next(void **state)
{
    (void)state;
    for (int spans = 0; spans < 2; spans++) {
        struct lull_trial_config config = usual_config(1);
        struct lull_guard_estimate estimate;
        struct world world;

        config.uses_plain_mean = true;
        config.spans_lost_iterations = spans;
        make_world(&world, &config);
        begin(&world, LULL_TRIAL_TEST);
        for (uint32_t i = 1; i < length_of(1); i++)
            run_one(&world, 0);
        world.iteration[0]++;
        world.candidate_ms[0] = 110.0;
        for (uint32_t i = length_of(1); i < length_of(2); i++)
            run_one(&world, 0);
        lull_trial_estimate_test(&world.trial, &estimate);
        assert_int_equal(estimate.pairs, spans);
        if (spans) /* two iterations at 100 ms and three at 110 */
            assert_near(estimate.slowdown_ratio, 0.06, 1e-12);
    }
}

static void test_disturbed_pairs_are_set_aside_not_for_ever(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct lull_guard_estimate estimate;
    struct world world;
    uint32_t count;

    (void)state;
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_TEST);
    for (int i = 0; i < 3; i++) {
        lull_trial_disturb(&world.trial);
        assert_int_equal(run(&world, &count), LULL_TRIAL_SET_ASIDE);
    }
    lull_trial_discard_pair(&world.trial);
    for (uint32_t i = 0; i < length_of(4) - length_of(3); i++)
        run_one(&world, 0);
    lull_trial_estimate_test(&world.trial, &estimate);
    assert_int_equal(estimate.pairs, 1);
    begin(&world, LULL_TRIAL_TEST);
    lull_trial_discard_pair(&world.trial);
    assert_int_equal(run(&world, &count), LULL_TRIAL_SET_ASIDE);
    /* A watched pair is never discarded, only disturbed. */
    begin(&world, LULL_TRIAL_WATCH);
    lull_trial_discard_pair(&world.trial);
    assert_int_equal(run(&world, &count), LULL_TRIAL_HOLDS);
    begin(&world, LULL_TRIAL_WATCH);
    lull_trial_disturb(&world.trial);
    assert_int_equal(run(&world, &count), LULL_TRIAL_SET_ASIDE);
}

static void test_a_pair_counts_if_enough_changes_were_made(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    uint32_t count;

    (void)state;
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_TEST);
    /* A quarter of those wanted are enough. */
    for (int wanted = 5; wanted >= 4; wanted--) {
        for (int i = 0; i < wanted; i++)
            lull_trial_want_change(&world.trial);
        lull_trial_make_change(&world.trial);
        assert_int_equal(run(&world, &count),
                         wanted == 4 ? LULL_TRIAL_NOT_DEGRADED : LULL_TRIAL_SET_ASIDE);
    }
    /* After fourteen pairs without one counts all the same. */
    begin(&world, LULL_TRIAL_TEST);
    for (int i = 0; i < 14; i++) {
        lull_trial_want_change(&world.trial);
        assert_int_equal(run(&world, &count), LULL_TRIAL_SET_ASIDE);
    }
    lull_trial_want_change(&world.trial);
    assert_int_equal(run(&world, &count), LULL_TRIAL_NOT_DEGRADED);
    assert_int_equal(count, length_of(18) - length_of(14));
}

static void test_clearly_slow_iterations_on_all_ranks_end_a_test(void **state)
{
    struct lull_trial_config config = usual_config(RANKS);
    struct world world;
    uint32_t count;

    (void)state;
    config.abort_iterations = 3;
    make_world(&world, &config);
    world.candidate_ms[0] = world.candidate_ms[1] = 131.0;
    begin(&world, LULL_TRIAL_TEST);
    assert_int_equal(run(&world, &count), LULL_TRIAL_DEGRADED);
    assert_int_equal(count, 1 + WINDOW + 3);
    /* One rank that is not slow is enough to go on; a check always goes on. */
    for (int slow = 0; slow < RANKS; slow++) {
        make_world(&world, &config);
        world.candidate_ms[slow] = 131.0;
        begin(&world, LULL_TRIAL_TEST);
        run(&world, &count);
        assert_true(count >= length_of(1));
    }
    make_world(&world, &config);
    world.candidate_ms[0] = world.candidate_ms[1] = 131.0;
    begin(&world, LULL_TRIAL_CHECK);
    run(&world, &count);
    assert_int_equal(count, length_of(1));
}

/* What is kept runs for ever longer stretches; a slow one is told, or a verdict, or a bound. */
static void test_what_is_kept_is_watched(void **state)
{
    struct lull_trial_config config = usual_config(1);
    struct world world;
    uint32_t count;

    (void)state;
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_WATCH);
    assert_int_equal(run(&world, &count), LULL_TRIAL_HOLDS);
    assert_int_equal(count, 2 * WINDOW + 1 + WINDOW + 1);
    for (uint32_t windows = 4; windows <= 16; windows *= 2) {
        lull_trial_lengthen(&world.trial);
        begin(&world, LULL_TRIAL_WATCH);
        assert_int_equal(run(&world, &count), LULL_TRIAL_HOLDS);
        assert_int_equal(count, (windows < 8 ? windows : 8) * WINDOW + 1 + WINDOW + 1);
    }
    world.candidate_ms[0] = 101.1;
    begin(&world, LULL_TRIAL_WATCH);
    assert_int_equal(run(&world, &count), LULL_TRIAL_SLOW_PAIR);
    lull_trial_drop_kept(&world.trial);
    assert_int_equal(world.trial.stretch, 2);
    for (int rule = LULL_WATCH_VERDICTS; rule <= LULL_WATCH_BOUND; rule++) {
        int pairs = 1;

        config.watch_rule = (enum lull_watch_rule)rule;
        make_world(&world, &config);
        world.candidate_ms[0] = 101.1;
        begin(&world, LULL_TRIAL_WATCH);
        for (; run(&world, &count) == LULL_TRIAL_SLOW_PAIR; pairs++)
            continue;
        assert_int_equal(pairs, 4);
        assert_int_equal(run(&world, &count),
                         rule == LULL_WATCH_BOUND ? LULL_TRIAL_HURTS : LULL_TRIAL_SLOW_PAIR);
    }
}

static void test_a_slow_block_is_told_before_its_pair_ends(void **state)
{
    struct lull_trial_config config = usual_config(1);
    struct world world;
    uint32_t count;

    (void)state;
    config.first_stretch = 8;
    config.block_iterations = 10;
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_TEST);
    assert_int_equal(run(&world, &count), LULL_TRIAL_NOT_DEGRADED);
    world.candidate_ms[0] = 101.1;
    begin(&world, LULL_TRIAL_WATCH);
    assert_int_equal(run(&world, &count), LULL_TRIAL_SLOW_BLOCK);
    assert_int_equal(count, 1 + 10);
    assert_int_equal(run(&world, &count), LULL_TRIAL_SLOW_BLOCK);
    assert_int_equal(count, 10);
    assert_int_equal(run(&world, &count), LULL_TRIAL_SLOW_PAIR);
}

static void test_a_pair_waits_for_all_ranks_that_are_present(void **state)
{
    const struct lull_trial_config config = usual_config(RANKS);
    struct world world;

    (void)state;
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_TEST);
    for (uint32_t i = 0; i < length_of(2); i++)
        assert_int_equal(run_one(&world, 0), LULL_TRIAL_GOES_ON);
    assert_int_equal(world.trial.next_pair, 0);
    for (uint32_t i = 0; i < length_of(1); i++)
        run_one(&world, 1);
    assert_int_equal(world.trial.next_pair, 1);
    world.present = 1;
    lull_trial_leave(&world.trial, 1, world.present);
    assert_int_equal(world.trial.next_pair, 2);
}

/* A rank that does not wait for the others has a verdict of its own, and the worst rank's counts.
 */
static void test_ranks_that_part_are_judged_apart(void **state)
{
    const struct lull_trial_config config = usual_config(RANKS);
    struct lull_guard_estimate estimate;
    struct world world;
    uint32_t count;

    (void)state;
    make_world(&world, &config);
    world.candidate_ms[1] = 103.0;
    begin(&world, LULL_TRIAL_TEST);
    assert_int_equal(run(&world, &count), LULL_TRIAL_DEGRADED);
    assert_int_equal(count, length_of(4));
    make_world(&world, &config);
    world.reference_ms[1] = 200.0;
    world.candidate_ms[1] = 201.0;
    begin(&world, LULL_TRIAL_TEST);
    assert_int_equal(run(&world, &count), LULL_TRIAL_NOT_DEGRADED);
    lull_trial_keep(&world.trial);
    assert_int_equal(world.trial.worst_rank, 1);
    /* While it is watched, the worst rank stands for all. */
    world.candidate_ms[1] = 203.0;
    begin(&world, LULL_TRIAL_WATCH);
    assert_int_equal(run(&world, &count), LULL_TRIAL_SLOW_PAIR);
    lull_trial_estimate(&world.trial, &estimate);
    assert_int_equal(estimate.pairs, 5);
}

/* The mean is harmless, the slowest iteration in a hundred is not. */
static void test_the_tail_counts_where_it_is_asked_for(void **state)
{
    for (int counts = 0; counts < 2; counts++) {
        struct lull_trial_config config = usual_config(1);
        enum lull_trial_result result = LULL_TRIAL_GOES_ON;
        struct lull_window_slot slot;
        struct world world;

        (void)state;
        config.tail_tolerance_ratio = counts ? 0.05 : 0.0;
        make_world(&world, &config);
        begin(&world, LULL_TRIAL_TEST);
        while (result == LULL_TRIAL_GOES_ON) {
            lull_trial_slot(&world.trial, 0, world.iteration[0], &slot);
            world.candidate_ms[0] = slot.window_ends ? 120.0 : 100.0;
            result = run_one(&world, 0);
        }
        assert_int_equal(result, counts ? LULL_TRIAL_DEGRADED : LULL_TRIAL_NOT_DEGRADED);
    }
}

static void test_the_last_pair_is_taken_back(void **state)
{
    struct lull_trial_config config = usual_config(1);
    struct lull_guard_estimate estimate;
    struct world world;

    (void)state;
    config.estimates_tests = true;
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_TEST);
    for (uint32_t i = 0; i < length_of(2); i++) {
        world.candidate_ms[0] = i < length_of(1) ? 100.0 : 110.0;
        run_one(&world, 0);
    }
    lull_trial_estimate(&world.trial, &estimate);
    assert_int_equal(estimate.pairs, 2);
    lull_trial_forget_last_pair(&world.trial);
    lull_trial_estimate(&world.trial, &estimate);
    assert_int_equal(estimate.pairs, 1);
    assert_near(estimate.slowdown_ratio, 0.0, 1e-12);
    lull_trial_estimate_test(&world.trial, &estimate);
    assert_int_equal(estimate.pairs, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_test_ends_with_a_verdict),
        cmocka_unit_test(test_a_trial_is_joined),
        cmocka_unit_test(test_a_window_is_its_faster_half_or_its_mean),
        cmocka_unit_test(test_lost_iterations_cost_a_pair_or_join_the_next),
        cmocka_unit_test(test_disturbed_pairs_are_set_aside_not_for_ever),
        cmocka_unit_test(test_a_pair_counts_if_enough_changes_were_made),
        cmocka_unit_test(test_clearly_slow_iterations_on_all_ranks_end_a_test),
        cmocka_unit_test(test_what_is_kept_is_watched),
        cmocka_unit_test(test_a_slow_block_is_told_before_its_pair_ends),
        cmocka_unit_test(test_a_pair_waits_for_all_ranks_that_are_present),
        cmocka_unit_test(test_ranks_that_part_are_judged_apart),
        cmocka_unit_test(test_the_tail_counts_where_it_is_asked_for),
        cmocka_unit_test(test_the_last_pair_is_taken_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
