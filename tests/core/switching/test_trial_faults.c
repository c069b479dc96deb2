/*
 * Trials that are influenced by something other than the
 * candidate: heat and other jobs. By the numbers of the fault
 * list. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "trial_world.h"

/* Goes on until the trial has a verdict; every so many pairs are disturbed, 0: none are. */
static enum lull_trial_result find_verdict(struct world *world, uint32_t disturbed_every,
                                           uint32_t *set_aside_out)
{
    uint32_t pairs = 0;

    *set_aside_out = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        enum lull_trial_result result;

        if (disturbed_every != 0 && pairs % disturbed_every == 0)
            lull_trial_disturb(&world->trial, NULL);
        result = run_one(world, 0);
        pairs += world->is_placed && world->slot.pair_ends;
        *set_aside_out += result == LULL_TRIAL_SET_ASIDE;
        if (result != LULL_TRIAL_GOES_ON && result != LULL_TRIAL_SET_ASIDE)
            return result;
    }
    return LULL_TRIAL_GOES_ON;
}

/* While heat holds the clock down anyway a lower one costs nothing, which proves nothing: the trial
 * ends, and nothing is lowered for it. */
static void test_f17_heat_that_never_ends_proves_nothing(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    uint32_t set_aside;

    (void)state;
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_PROOF);
    assert_int_equal(find_verdict(&world, 1, &set_aside), LULL_TRIAL_GIVES_UP);
    assert_int_equal(set_aside, 3); /* it was tried again, and not for ever */
}

/* Every other block at the candidate is slower, by 2 %, and its clock limited. The candidate may be
 * the cause, so these pairs count. Before, they were set aside and the candidate passed. */
static void test_f17_limits_of_the_candidate_do_not_hide_harm(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    uint32_t passed = 0;

    (void)state;
    for (uint32_t job = 0; job < 200; job++) {
        struct world world;
        enum lull_trial_result result = LULL_TRIAL_GOES_ON;

        make_world(&world, &config);
        lull_random_init(&world.random, 3000 + job);
        world.trial.config.seed = job;
        world.noise_ms = 0.3;
        begin(&world, LULL_TRIAL_PROOF);
        while (result == LULL_TRIAL_GOES_ON || result == LULL_TRIAL_SET_ASIDE) {
            const bool is_slow = world.slot.pair % 2 == 0;

            world.candidate_ms[0] = is_slow ? 102.2 : 100.0;
            result = run_one(&world, 0);
            if (world.is_placed && world.slot.candidate && is_slow && !world.slot.pair_ends)
                lull_trial_disturb(&world.trial, &world.slot);
        }
        passed += result == LULL_TRIAL_NOT_DEGRADED;
    }
    print_message("limited where the candidate hurts: %u of 200 passed\n", passed);
    assert_true(passed <= 5);
}

/* A check proves nothing either while heat holds the clock down. */
static void test_f17_heat_ends_a_check(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    uint32_t set_aside;

    (void)state;
    make_world(&world, &config);
    keep(&world);
    begin(&world, LULL_TRIAL_CHECK);
    assert_int_equal(find_verdict(&world, 1, &set_aside), LULL_TRIAL_GIVES_UP);
    assert_int_equal(set_aside, 3);
}

/* Half of the clock changes are made, and harm grows with them: 1.5 % with all of them. Before,
 * such a candidate passed. A harmless one does. */
static void test_missing_changes_do_not_hide_harm(void **state)
{
    static const double harms[] = {0.015, 0.0};
    const struct lull_trial_config config = usual_config(1);
    uint32_t passed[2] = {0};

    (void)state;
    for (uint32_t i = 0; i < 400; i++) {
        struct world world;
        enum lull_trial_result result = LULL_TRIAL_GOES_ON;

        make_world(&world, &config);
        lull_random_init(&world.random, 5000 + i);
        world.trial.config.seed = i;
        world.noise_ms = 0.3;
        world.candidate_ms[0] = 100.0 + 50.0 * harms[i % 2];
        begin(&world, LULL_TRIAL_PROOF);
        while (result == LULL_TRIAL_GOES_ON) {
            result = run_one(&world, 0);
            if (!world.slot.candidate)
                continue;
            lull_trial_want_change(&world.trial);
            lull_trial_want_change(&world.trial);
            lull_trial_make_change(&world.trial);
        }
        passed[i % 2] += result == LULL_TRIAL_NOT_DEGRADED;
    }
    print_message("half of the changes: %u of 200 harmful ones passed, %u harmless ones\n",
                  passed[0], passed[1]);
    assert_true(passed[0] <= 5);
    assert_true(passed[1] >= 195);
}

/* What carries over for longer than any schedule leaves out hides harm from pairs: no proof. */
static void test_a_carry_over_without_end_proves_nothing(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    enum lull_trial_result result = LULL_TRIAL_RESTARTS;
    uint32_t restarts = 0;
    uint32_t since_low = UINT32_MAX / 2;

    (void)state;
    make_world(&world, &config);
    world.noise_ms = 0.1;
    world.candidate_ms[0] = 100.8;
    world.ranks[0].carry = (struct lull_carry_over){0};
    warm_up(&world, 40);
    begin(&world, LULL_TRIAL_PROOF);
    for (uint32_t i = 0; i < 20000; i++) {
        /* A block at the reference directly after the candidate is slow, whatever is left out. */
        world.reference_ms[0] = since_low < world.trial.washout + 1 + BLOCK ? 100.8 : 100.0;
        result = run_one(&world, 0);
        since_low = world.slot.candidate ? 0 : since_low + 1;
        if (result == LULL_TRIAL_RESTARTS) {
            restarts++;
            begin(&world, LULL_TRIAL_PROOF);
        } else if (result != LULL_TRIAL_GOES_ON) {
            break;
        }
    }
    assert_int_equal(result, LULL_TRIAL_GIVES_UP);
    assert_int_equal(restarts, 5);
}

/* An occasional thermal limit costs only the pair in which it occurs. */
static void test_f17_hot_moments_are_set_aside(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    uint32_t set_aside;

    (void)state;
    for (uint32_t every = 3; every <= 5; every++) {
        make_world(&world, &config);
        begin(&world, LULL_TRIAL_PROOF);
        assert_int_equal(find_verdict(&world, every, &set_aside), LULL_TRIAL_NOT_DEGRADED);
        assert_true(set_aside > 0);
    }
    /* Heat in an earlier trial is no reason to doubt the next one. */
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_PROOF);
    assert_int_equal(find_verdict(&world, 1, &set_aside), LULL_TRIAL_GIVES_UP);
    begin(&world, LULL_TRIAL_PROOF);
    assert_int_equal(find_verdict(&world, 0, &set_aside), LULL_TRIAL_NOT_DEGRADED);
}

/* Screens steer and watches guard: they may not stop for heat, so that pairs in it count now and
 * then. */
static void test_f17_not_all_windows_are_dropped(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    uint32_t set_aside;

    (void)state;
    make_world(&world, &config);
    world.candidate_ms[0] = 110.0;
    begin(&world, LULL_TRIAL_SCREEN);
    assert_int_equal(find_verdict(&world, 1, &set_aside), LULL_TRIAL_DEGRADED);
    world.candidate_ms[0] = 100.0;
    keep(&world);
    world.candidate_ms[0] = 110.0;
    begin(&world, LULL_TRIAL_WATCH);
    assert_true(find_verdict(&world, 1, &set_aside) != LULL_TRIAL_GOES_ON);
}

/* Runs on with both sides as much slower as the neighbour makes them. */
static enum lull_trial_result run_beside(struct world *world, double factor)
{
    enum lull_trial_result result;

    world->reference_ms[0] *= factor;
    world->candidate_ms[0] *= factor;
    result = run_on(world);
    world->reference_ms[0] /= factor;
    world->candidate_ms[0] /= factor;
    return result;
}

/*
 * Another job slows the job down while it runs at the accepted candidate. That is a reason for a
 * check, not a verdict: the reference is measured again, is now equally slow, and the candidate
 * stays accepted.
 */
static void test_f18_a_noisy_neighbour_is_told_from_the_candidate(void **state)
{
    static const double factors[] = {1.05, 1.2, 2.0};
    const struct lull_trial_config config = usual_config(1);

    (void)state;
    for (uint32_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
        struct world world;
        enum lull_trial_result result;
        uint32_t low;

        make_world(&world, &config);
        world.noise_ms = 0.2;
        keep(&world);
        begin(&world, LULL_TRIAL_WATCH);
        assert_int_equal(run_on(&world), LULL_TRIAL_HOLDS);
        begin(&world, LULL_TRIAL_WATCH);
        do
            run_one(&world, 0);
        while (!world.slot.candidate);
        result = run_beside(&world, factors[i]);
        assert_true(result == LULL_TRIAL_SLOW_BLOCK || result == LULL_TRIAL_SLOW_PAIR ||
                    result == LULL_TRIAL_HOLDS);
        begin(&world, LULL_TRIAL_CHECK);
        low = world.low[0];
        assert_int_equal(run_beside(&world, factors[i]), LULL_TRIAL_NOT_DEGRADED);
        assert_true(world.low[0] > low);
    }
}

/* The same suspicion if the accepted point has really become slower: the reference is unchanged.
 */
static void test_f18_a_candidate_that_hurts_is_told_from_a_neighbour(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;

    (void)state;
    make_world(&world, &config);
    world.noise_ms = 0.2;
    keep(&world);
    world.candidate_ms[0] = 105.0;
    begin(&world, LULL_TRIAL_CHECK);
    assert_int_equal(run_on(&world), LULL_TRIAL_DEGRADED);
}

/* A neighbour that comes and goes at random while a candidate is proven delays the verdict, and
 * does not turn it. */
static void test_f18_a_neighbour_that_comes_and_goes(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    uint32_t passed = 0;
    uint32_t refused = 0;

    (void)state;
    for (uint32_t job = 0; job < 100; job++) {
        struct lull_random random;
        struct world world;
        enum lull_trial_result result = LULL_TRIAL_GOES_ON;
        uint32_t left = 0;
        double factor = 1.0;

        make_world(&world, &config);
        lull_random_init(&random, job);
        lull_random_init(&world.random, 1000 + job);
        world.noise_ms = 0.3;
        begin(&world, LULL_TRIAL_PROOF);
        for (uint32_t i = 0; i < 5000 && result == LULL_TRIAL_GOES_ON; i++) {
            if (left-- == 0) {
                left = 20 + (uint32_t)lull_random_below(&random, 200);
                factor = lull_random_below(&random, 2) == 0 ? 1.0 : 1.3;
            }
            world.reference_ms[0] = 100.0 * factor;
            world.candidate_ms[0] = 100.0 * factor;
            result = run_one(&world, 0);
        }
        passed += result == LULL_TRIAL_NOT_DEGRADED;
        refused += result == LULL_TRIAL_DEGRADED;
    }
    print_message("beside a neighbour of 30 %%: %u of 100 passed, %u called degraded\n", passed,
                  refused);
    assert_true(refused <= 5);
    assert_true(passed >= 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f17_heat_that_never_ends_proves_nothing),
        cmocka_unit_test(test_f17_limits_of_the_candidate_do_not_hide_harm),
        cmocka_unit_test(test_f17_heat_ends_a_check),
        cmocka_unit_test(test_missing_changes_do_not_hide_harm),
        cmocka_unit_test(test_a_carry_over_without_end_proves_nothing),
        cmocka_unit_test(test_f17_hot_moments_are_set_aside),
        cmocka_unit_test(test_f17_not_all_windows_are_dropped),
        cmocka_unit_test(test_f18_a_noisy_neighbour_is_told_from_the_candidate),
        cmocka_unit_test(test_f18_a_candidate_that_hurts_is_told_from_a_neighbour),
        cmocka_unit_test(test_f18_a_neighbour_that_comes_and_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
