/* Trials: what their pairs say. SPDX-License-Identifier: Apache-2.0 */
#include "trial_world.h"

/* ---- verdicts ------------------------------------------------------------------------------ */

static void test_screens_and_proofs_end_with_a_verdict(void **state)
{
    const struct lull_trial_config config = usual_config(RANKS);
    struct world world;
    uint32_t count;

    (void)state;
    make_world(&world, &config);
    world.candidate_ms[1] = 100.5;
    begin(&world, LULL_TRIAL_SCREEN);
    assert_int_equal(run(&world, &count), LULL_TRIAL_NOT_DEGRADED);
    assert_int_equal(count, length_of(&world, 3));
    assert_int_equal(estimate_of(&world, true).pairs, 3);
    assert_near(estimate_of(&world, true).slowdown_ratio, 0.005, 1e-4);
    begin(&world, LULL_TRIAL_PROOF);
    assert_int_equal(estimate_of(&world, true).pairs, 0);
    assert_int_equal(run(&world, &count), LULL_TRIAL_NOT_DEGRADED);
    assert_int_equal(count, length_of(&world, 6));
    assert_int_equal(estimate_of(&world, true).pairs, 6);
    assert_int_equal(estimate_of(&world, false).pairs, 0); /* nothing is kept yet */
    lull_trial_keep(&world.trial);
    assert_int_equal(estimate_of(&world, false).pairs, 6);
    assert_near(estimate_of(&world, false).slowdown_ratio, 0.005, 1e-4); /* the worst rank's */
    /* A rank of which nothing is kept has no say, however fast the other one is. */
    world.ranks[0].kept = (struct lull_guard){0};
    world.ranks[1].kept.differences.mean = -0.01;
    assert_int_equal(estimate_of(&world, false).pairs, 6);
    world.ranks[0].kept = world.ranks[1].kept;
    world.ranks[1].kept = (struct lull_guard){0};
    assert_int_equal(estimate_of(&world, false).pairs, 6);
    lull_trial_drop_kept(&world.trial);
    assert_int_equal(estimate_of(&world, false).pairs, 0);
    /* A screen rejects a candidate that does not pay; a proof does not require that it pays. */
    world.terms.worth_ratio = 0.002;
    world.noise_ms = 0.1; /* so that it is not far slower at once */
    begin(&world, LULL_TRIAL_SCREEN);
    assert_int_equal(run_on(&world), LULL_TRIAL_DEGRADED);
    begin(&world, LULL_TRIAL_PROOF);
    assert_int_equal(run_on(&world), LULL_TRIAL_NOT_DEGRADED);
}

static void test_noise_decides_between_harm_and_no_proof(void **state)
{
    const struct lull_trial_config config = usual_config(RANKS);
    struct world world;
    uint32_t count;

    (void)state;
    make_world(&world, &config);
    world.noise_ms = 1.0;
    warm_up(&world, 64);
    world.candidate_ms[1] = 103.0;
    begin(&world, LULL_TRIAL_PROOF);
    assert_int_equal(run(&world, &count), LULL_TRIAL_UNPROVEN); /* hopeless */
    assert_true(count <= length_of(&world, 6));
    world.candidate_ms[1] = 100.0;
    world.noise_ms = 50.0;
    begin(&world, LULL_TRIAL_PROOF);
    assert_int_equal(run(&world, &count), LULL_TRIAL_UNPROVEN);
    world.noise_ms = 0.5;
    world.candidate_ms[0] = world.candidate_ms[1] = 101.2;
    warm_up(&world, 300);
    for (uint32_t i = 0, proven = 0; proven == 0; i++) {
        assert_true(i < 20);
        begin(&world, LULL_TRIAL_PROOF);
        proven = run_on(&world) == LULL_TRIAL_DEGRADED;
    }
}

/* Equal pairs pass as soon as the share of the budget allows it: 2^-pairs at most. */
static void test_each_proof_has_its_share_of_one_error_budget(void **state)
{
    static const uint32_t pairs[] = {6, 7, 8, 9, 9, 10, 10, 10};
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    double sum = 0.0;
    uint32_t count;

    (void)state;
    make_world(&world, &config);
    for (uint32_t k = 0; k < 8; k++) {
        begin(&world, LULL_TRIAL_SCREEN); /* spends nothing */
        begin(&world, LULL_TRIAL_WATCH);
        begin(&world, LULL_TRIAL_PROOF);
        assert_int_equal(run(&world, &count), LULL_TRIAL_NOT_DEGRADED);
        assert_int_equal(estimate_of(&world, true).pairs, pairs[k]);
        lull_trial_drop_kept(&world.trial); /* gives nothing back */
    }
    make_world(&world, &config);
    for (uint32_t k = 1; k <= 1000; k++) {
        begin(&world, k % 3 == 0 ? LULL_TRIAL_CHECK : LULL_TRIAL_PROOF);
        assert_near(world.trial.guard.ranks[0].guard.config.error,
                    0.05 * 2.0 / ((k + 1.0) * (k + 2.0)), 1e-15);
        sum += world.trial.guard.ranks[0].guard.config.error;
        /* Broken off before it could have passed it gives its share back... */
        begin(&world, LULL_TRIAL_PROOF);
        assert_near(world.trial.guard.ranks[0].guard.config.error,
                    0.05 * 2.0 / ((k + 1.0) * (k + 2.0)), 1e-15);
        /* ...and later it does not. */
        for (uint32_t pair = 0; pair < 60; pair++)
            lull_guard_add(&world.trial.guard.ranks[0].guard, 1.0, 1.0 + 0.001 * (pair % 2));
    }
    assert_true(sum < 0.05 && sum > 0.0499);
    begin(&world, LULL_TRIAL_SCREEN);
    assert_near(world.trial.guard.ranks[0].guard.config.error, 0.05, 1e-15);
    assert_near(world.trial.guard.ranks[0].guard.config.refusal_error, 0.05, 1e-15);
    assert_int_equal(world.trial.guard.ranks[0].guard.config.max_pairs, 60);
}

/* All that a pair measures is its mean, whichever order its blocks have. */
static void test_a_pair_is_the_means_of_all_its_measured_iterations(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    struct lull_guard own;
    double sums[2] = {0.0, 0.0};
    double counts[2] = {0.0, 0.0};

    (void)state;
    make_world(&world, &config);
    world.noise_ms = 3.0;
    warm_up(&world, 100);
    begin(&world, LULL_TRIAL_PROOF);
    lull_guard_init(&own, &world.trial.guard.ranks[0].guard.config);
    for (enum lull_trial_result result = LULL_TRIAL_GOES_ON; result == LULL_TRIAL_GOES_ON;) {
        struct lull_random before = world.random;
        const double ms = 100.0 + 3.0 * lull_random_normal(&before, 0.0, 1.0);

        result = run_one(&world, 0);
        if (world.slot.measured) {
            sums[world.slot.candidate] += ms;
            counts[world.slot.candidate] += 1.0;
        }
        if (!world.slot.pair_ends)
            continue;
        assert_true(counts[0] >= BLOCK && counts[1] >= BLOCK);
        lull_guard_add(&own, sums[0] / counts[0], sums[1] / counts[1]);
        assert_near(estimate_of(&world, true).slowdown_ratio, own.differences.mean, 1e-12);
        assert_int_equal(estimate_of(&world, true).pairs, own.differences.count);
        sums[0] = sums[1] = counts[0] = counts[1] = 0.0;
    }
    assert_true(own.differences.count > 5);
}

/* Both measures are asked, and the worse of them has the say. */
static void test_the_worse_of_mean_and_tail_decides(void **state)
{
    static const enum lull_trial_result expected[4][4] = {
        {LULL_TRIAL_GOES_ON, LULL_TRIAL_GOES_ON, LULL_TRIAL_DEGRADED, LULL_TRIAL_GOES_ON},
        {LULL_TRIAL_GOES_ON, LULL_TRIAL_NOT_DEGRADED, LULL_TRIAL_DEGRADED, LULL_TRIAL_UNPROVEN},
        {LULL_TRIAL_DEGRADED, LULL_TRIAL_DEGRADED, LULL_TRIAL_DEGRADED, LULL_TRIAL_DEGRADED},
        {LULL_TRIAL_GOES_ON, LULL_TRIAL_UNPROVEN, LULL_TRIAL_DEGRADED, LULL_TRIAL_UNPROVEN},
    };

    (void)state;
    for (int mean = LULL_VERDICT_UNDECIDED; mean <= LULL_VERDICT_UNPROVEN; mean++)
        for (int tail = LULL_VERDICT_UNDECIDED; tail <= LULL_VERDICT_UNPROVEN; tail++) {
            struct lull_trial_config config = usual_config(1);
            enum lull_trial_result result;
            struct world world;

            config.tail_tolerance_ratio = 0.05;
            make_world(&world, &config);
            begin(&world, LULL_TRIAL_PROOF);
            world.trial.guard.ranks[0].verdict = (enum lull_verdict)mean;
            world.trial.tail_guard.ranks[0].verdict = (enum lull_verdict)tail;
            do
                result = run_one(&world, 0);
            while (!world.slot.pair_ends);
            assert_int_equal(result, expected[mean][tail]);
        }
}

/* The mean is harmless, the slowest iteration in a hundred is not. */
static void test_the_tail_counts_where_it_is_asked_for(void **state)
{
    (void)state;
    for (int counts = 0; counts < 2; counts++) {
        struct lull_trial_config config = usual_config(1);
        enum lull_trial_result result = LULL_TRIAL_GOES_ON;
        struct world world;

        config.tail_tolerance_ratio = counts ? 0.05 : 0.0;
        make_world(&world, &config);
        world.noise_ms = 0.1;
        warm_up(&world, 50);
        begin_with(&world, LULL_TRIAL_PROOF, 30);
        while (result == LULL_TRIAL_GOES_ON) {
            world.candidate_ms[0] = world.slot.offset % 15 == 7 ? 109.0 : 99.5;
            result = run_one(&world, 0);
        }
        if (counts)
            assert_true(result == LULL_TRIAL_DEGRADED || result == LULL_TRIAL_UNPROVEN);
        else
            assert_int_equal(result, LULL_TRIAL_NOT_DEGRADED);
        assert_near(world.trial.guard.ranks[0].guard.config.tolerance_ratio, 0.01, 1e-15);
    }
}

/* Two iterations far slower than the reference are enough, one is not. */
static void test_clearly_slow_iterations_end_a_trial_at_once(void **state)
{
    static const enum lull_trial_kind kinds[] = {LULL_TRIAL_SCREEN, LULL_TRIAL_PROOF,
                                                 LULL_TRIAL_CHECK};
    const struct lull_trial_config config = usual_config(RANKS);
    struct world world;

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t slow = 0; slow < RANKS; slow++) {
            make_world(&world, &config);
            warm_up(&world, 2);
            world.candidate_ms[slow] = 102.1;
            begin(&world, kinds[i]);
            assert_int_equal(run_on(&world), LULL_TRIAL_DEGRADED);
            assert_int_equal(world.low[slow], 2);
            /* One slow iteration may be the host's. */
            make_world(&world, &config);
            warm_up(&world, 2);
            begin_with(&world, kinds[i], 5);
            world.candidate_ms[slow] = 150.0;
            while (world.low[slow] == 0)
                assert_int_equal(run_one(&world, slow), LULL_TRIAL_GOES_ON);
            world.candidate_ms[slow] = 101.9;
            while (!world.slot.pair_ends)
                assert_int_equal(run_one(&world, slow), LULL_TRIAL_GOES_ON);
        }
}

/* Six of the reference's deviations: by more than those, and then by less. */
static void test_clearly_slow_is_measured_by_the_noise(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;

    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        make_world(&world, &config);
        for (uint32_t i = 0; i < 200; i++)
            lull_trial_take_unplaced(&world.trial, 0, 0, 99.0 + 2.0 * (i % 2), true);
        begin(&world, LULL_TRIAL_SCREEN);
        world.candidate_ms[0] = slow ? 106.2 : 105.8;
        while (world.low[0] < 2) {
            const enum lull_trial_result result = run_one(&world, 0);

            assert_int_equal(result,
                             slow && world.low[0] == 2 ? LULL_TRIAL_DEGRADED : LULL_TRIAL_GOES_ON);
        }
    }
    /* As long as the reference is hardly known there is nothing to compare with. */
    for (uint32_t known = 0; known < 5; known++) {
        struct lull_pair_slot slot = {.candidate = true};

        make_world(&world, &config);
        warm_up(&world, known);
        begin(&world, LULL_TRIAL_SCREEN);
        assert_int_equal(lull_trial_add(&world.trial, 0, &slot, 150.0, 1), LULL_TRIAL_GOES_ON);
        assert_int_equal(lull_trial_add(&world.trial, 0, &slot, 150.0, 1),
                         known == 4 ? LULL_TRIAL_DEGRADED : LULL_TRIAL_GOES_ON);
    }
}

/* ---- checks -------------------------------------------------------------------------------- */

/* At least twice a watched block; what has spent the budget, as many as have spent it. */
static void test_a_check_weighs_as_much_as_what_has_called_for_it(void **state)
{
    const struct lull_trial_config config = usual_config(1);

    (void)state;
    for (uint32_t many = 0; many < 3; many++) {
        static const uint32_t called[] = {0, 200, 1500};
        static const uint32_t least[] = {32, 200, 1024};
        struct world world;

        make_world(&world, &config);
        world.terms.loss_ratio = 0.0001;
        warm_up(&world, 10);
        begin(&world, LULL_TRIAL_WATCH);
        for (uint32_t i = 0; i < called[many]; i++)
            lull_loss_budget_take_lowered(&world.ranks[0].losses, 101.0);
        world.ranks[0].losses.earned_ms = 1e6;
        begin(&world, LULL_TRIAL_CHECK); /* it is not the budget that has called for it */
        assert_int_equal(world.trial.min_measured, 32);
        world.ranks[0].losses.earned_ms = 0.0;
        begin(&world, LULL_TRIAL_CHECK);
        assert_int_equal(world.trial.min_measured, least[many]);
        assert_int_equal(world.trial.guard.ranks[0].guard.config.max_pairs, 60 + least[many] / 3);
    }
}

static void test_a_check_passes_no_sooner(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    uint32_t pairs;

    (void)state;
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_CHECK);
    assert_int_equal(run_on(&world), LULL_TRIAL_NOT_DEGRADED);
    pairs = estimate_of(&world, true).pairs;
    assert_true(pairs > 7); /* which would do for the error alone */
    assert_true(world.ranks[0].measured >= 32 && world.ranks[0].measured < 32 + BLOCK + 2);
    for (uint32_t more = 0; more < 2; more++) {
        const uint32_t measured = world.ranks[0].measured;

        make_world(&world, &config);
        begin(&world, LULL_TRIAL_CHECK);
        world.trial.min_measured = measured + more; /* just enough, and one too few */
        assert_int_equal(run_on(&world), LULL_TRIAL_NOT_DEGRADED);
        assert_int_equal(estimate_of(&world, true).pairs, pairs + more);
    }
    /* It has not been called for by anything that would concern a proof. */
    assert_int_equal(world.trial.min_proof, 0);
    begin(&world, LULL_TRIAL_PROOF);
    assert_int_equal(world.trial.min_measured, 0);
}

static void test_a_proof_takes_twice_the_iterations_that_harm_took_to_show(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;

    (void)state;
    make_world(&world, &config);
    warm_up(&world, 10);
    begin(&world, LULL_TRIAL_CHECK);
    while (world.ranks[0].measured < 20)
        run_one(&world, 0);
    world.candidate_ms[0] = 120.0;
    assert_int_equal(run_on(&world), LULL_TRIAL_DEGRADED);
    assert_int_equal(world.trial.min_proof, 64);
    world.candidate_ms[0] = 100.0;
    begin(&world, LULL_TRIAL_PROOF);
    assert_int_equal(world.trial.min_measured, 64);
    assert_int_equal(world.trial.guard.ranks[0].guard.config.max_pairs, 60 + 64 / BLOCK);
    assert_int_equal(run_on(&world), LULL_TRIAL_NOT_DEGRADED);
    assert_true(world.ranks[0].measured >= 64);
    /* Harm that takes longer to show, and no more than a thousand iterations of it. */
    for (uint32_t later = 100; later <= 3000; later += 2900) {
        const uint32_t least = later < 512 ? 2 * later : 1024;

        begin_with(&world, LULL_TRIAL_CHECK, 50);
        world.trial.min_measured = 32;
        world.ranks[0].measured = later;
        world.candidate_ms[0] = 120.0;
        assert_int_equal(run_on(&world), LULL_TRIAL_DEGRADED);
        assert_true(world.trial.min_proof >= least && world.trial.min_proof <= least + 4);
        world.candidate_ms[0] = 100.0;
    }
    /* A check that proves nothing lengthens the next proof, as a refusal does. */
    for (int verdict = LULL_VERDICT_NOT_DEGRADED; verdict <= LULL_VERDICT_UNPROVEN; verdict++) {
        world.trial.min_proof = 0;
        begin(&world, LULL_TRIAL_CHECK);
        world.trial.guard.ranks[0].verdict = (enum lull_verdict)verdict;
        run_on(&world);
        assert_int_equal(world.trial.min_proof > 0, verdict != LULL_VERDICT_NOT_DEGRADED);
    }
    /* A slowdown that is found by a screen or a proof does not. */
    world.trial.min_proof = 0;
    begin(&world, LULL_TRIAL_PROOF);
    world.candidate_ms[0] = 120.0;
    assert_int_equal(run_on(&world), LULL_TRIAL_DEGRADED);
    assert_int_equal(world.trial.min_proof, 0);
}

/* The guard may not say yet that it is unproven; all iterations together say that it hurts. */
static void test_a_check_refuses_by_all_iterations_together(void **state)
{
    struct lull_trial_config config = usual_config(1);
    struct world world;

    (void)state;
    for (int rate = 0; rate < 2; rate++) {
        make_world(&world, &config);
        world.noise_ms = 1.0;
        warm_up(&world, 200);
        begin(&world, LULL_TRIAL_WATCH);
        /* So many have made it look slow, by 2 % or by 0.3 %. */
        for (uint32_t i = 0; i < 100; i++)
            lull_loss_budget_take_lowered(&world.ranks[0].losses,
                                          rate ? 100.3 : 101.0 + 2.0 * (i % 2));
        begin(&world, LULL_TRIAL_CHECK);
        world.candidate_ms[0] = rate ? 100.3 : 102.0;
        assert_int_equal(run_on(&world), rate ? LULL_TRIAL_NOT_DEGRADED : LULL_TRIAL_DEGRADED);
        if (!rate) /* at the end of the first pair, when the guard cannot say anything yet */
            assert_int_equal(estimate_of(&world, true).pairs, 1);
    }
    /* Slower than is tolerated, but by less than two and a half errors. */
    make_world(&world, &config);
    world.noise_ms = 0.5;
    warm_up(&world, 200);
    begin(&world, LULL_TRIAL_WATCH);
    for (uint32_t i = 0; i < 10; i++)
        lull_loss_budget_take_lowered(&world.ranks[0].losses, 98.0 + 10.0 * (i % 2));
    begin(&world, LULL_TRIAL_CHECK);
    assert_int_equal(run_on(&world), LULL_TRIAL_NOT_DEGRADED);
}

/* ---- accepted candidates -------------------------------------------------------------------- */

/* An accepted candidate runs for longer and longer stretches. */
static void test_what_is_kept_is_watched_ever_more_rarely(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    uint32_t count;

    (void)state;
    make_world(&world, &config);
    keep(&world);
    for (uint32_t blocks = 2; blocks <= 16; blocks *= 2) {
        begin(&world, LULL_TRIAL_WATCH);
        assert_int_equal(world.trial.schedule.candidate_blocks, blocks < 8 ? blocks : 8);
        assert_int_equal(run(&world, &count), LULL_TRIAL_HOLDS);
        assert_int_equal(count, length_of(&world, 1));
        assert_int_equal(run(&world, &count), LULL_TRIAL_HOLDS);
        assert_int_equal(count, length_of(&world, 2) - length_of(&world, 1));
        lull_trial_lengthen(&world.trial);
    }
    assert_int_equal(estimate_of(&world, false).pairs, 6 + 8);
    begin(&world, LULL_TRIAL_CHECK);
    assert_int_equal(world.trial.schedule.candidate_blocks, 1);
    lull_trial_drop_kept(&world.trial);
    begin(&world, LULL_TRIAL_WATCH);
    assert_int_equal(world.trial.schedule.candidate_blocks, 2);
}

/* Slow is what is slower than is tolerated by three deviations of a pair. */
static void test_a_slow_pair_is_told(void **state)
{
    const struct lull_trial_config config = usual_config(RANKS);
    struct world world;

    (void)state;
    for (uint32_t slow = 0; slow < RANKS; slow++)
        for (int above = 0; above < 2; above++) {
            make_world(&world, &config);
            keep(&world);
            world.candidate_ms[slow] = above ? 101.1 : 100.9;
            begin(&world, LULL_TRIAL_WATCH);
            assert_int_equal(run_on(&world), above ? LULL_TRIAL_SLOW_PAIR : LULL_TRIAL_HOLDS);
            /* A rank that does not take part any more is not looked at. */
            world.present = UINT64_C(1) << (1 - slow);
            assert_int_equal(run_on(&world), LULL_TRIAL_HOLDS);
        }
}

static void test_slow_is_measured_by_the_noise_of_pairs(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    struct lull_moments own = {0};

    (void)state;
    for (int above = 0; above < 2; above++) {
        make_world(&world, &config);
        world.noise_ms = 0.8;
        warm_up(&world, 100);
        keep(&world);
        own = world.ranks[0].kept.differences;
        assert_true(own.count >= 6);
        world.noise_ms = 0.0;
        const double limit = 0.01 + 3.0 * sqrt(lull_moments_variance(&own));
        world.candidate_ms[0] = 100.0 * (1.0 + limit) + (above ? 0.01 : -0.01);
        begin(&world, LULL_TRIAL_WATCH);
        assert_int_equal(run_on(&world), above ? LULL_TRIAL_SLOW_PAIR : LULL_TRIAL_HOLDS);
    }
    /* Two pairs say nothing of their noise, three do. */
    for (uint32_t pairs = 2; pairs <= 3; pairs++) {
        make_world(&world, &config);
        begin(&world, LULL_TRIAL_WATCH);
        world.ranks[0].kept.config = world.trial.guard.ranks[0].guard.config;
        for (uint32_t i = 0; i < pairs; i++)
            lull_guard_add(&world.ranks[0].kept, 100.0, 98.0 + 4.0 * (i % 2));
        world.candidate_ms[0] = 102.0;
        assert_int_equal(run_on(&world), pairs == 3 ? LULL_TRIAL_HOLDS : LULL_TRIAL_SLOW_PAIR);
    }
    /* With iterations this long there are hardly any pairs. */
    for (int above = 0; above < 2; above++) {
        make_world(&world, &config);
        for (uint32_t i = 0; i < 200; i++)
            lull_trial_take_unplaced(&world.trial, 0, 0, 99.0 + 2.0 * (i % 2), true);
        begin(&world, LULL_TRIAL_WATCH);
        /* The block at the reference lowers the noise of the 128 last ones by so much. */
        world.candidate_ms[0] = above ? 104.0 : 103.8;
        assert_int_equal(run_on(&world), above ? LULL_TRIAL_SLOW_PAIR : LULL_TRIAL_HOLDS);
    }
}

static void test_a_slow_block_is_told_before_its_pair_ends(void **state)
{
    struct lull_trial_config config = usual_config(1);
    struct world world;
    uint32_t low;

    (void)state;
    config.first_stretch = 64;
    make_world(&world, &config);
    keep(&world);
    begin(&world, LULL_TRIAL_WATCH);
    low = world.low[0];
    /* One slow iteration of sixteen is not enough. */
    world.candidate_ms[0] = 150.0;
    while (world.ranks[0].measured == 0)
        assert_int_equal(run_one(&world, 0), LULL_TRIAL_GOES_ON);
    world.candidate_ms[0] = 100.9;
    while (world.ranks[0].measured < 16)
        assert_int_equal(run_one(&world, 0), LULL_TRIAL_GOES_ON);
    world.candidate_ms[0] = 101.1;
    assert_int_equal(run_on(&world), LULL_TRIAL_SLOW_BLOCK);
    assert_int_equal(world.ranks[0].measured, 32);
    assert_true(world.low[0] - low <= 34);
    assert_int_equal(run_on(&world), LULL_TRIAL_SLOW_BLOCK);
    assert_int_equal(world.ranks[0].measured, 48);
    begin(&world, LULL_TRIAL_WATCH); /* starts again */
    assert_int_equal(run_on(&world), LULL_TRIAL_SLOW_BLOCK);
    assert_int_equal(world.ranks[0].measured, 16);
}

static void test_watched_pairs_prove_harm(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    enum lull_trial_result result = LULL_TRIAL_HOLDS;
    uint32_t pairs = 0;

    (void)state;
    make_world(&world, &config);
    world.noise_ms = 0.5;
    warm_up(&world, 100);
    keep(&world);
    /* Slower than is tolerated, but not by three deviations. */
    world.candidate_ms[0] = 101.5;
    begin(&world, LULL_TRIAL_WATCH);
    for (; result == LULL_TRIAL_HOLDS || result == LULL_TRIAL_SLOW_PAIR ||
           result == LULL_TRIAL_SLOW_BLOCK;
         pairs += result != LULL_TRIAL_SLOW_BLOCK)
        result = run_on(&world);
    assert_int_equal(result, LULL_TRIAL_HURTS);
    /* A watch that nothing has been kept before has the terms of its own. */
    make_world(&world, &config);
    begin(&world, LULL_TRIAL_WATCH);
    assert_int_equal(run_on(&world), LULL_TRIAL_HOLDS);
    assert_int_equal(world.ranks[0].kept.config.max_pairs, 60);
    assert_int_equal(world.ranks[0].watched.config.max_pairs, 14);
    assert_near(world.ranks[0].watched.config.tolerance_ratio, 0.01, 0.0);
    assert_in_range(pairs, 1, 60);
}

/* All pairs of what is kept lie above the tolerance for certain. */
static void test_the_bound_of_what_is_kept_proves_harm(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;

    (void)state;
    make_world(&world, &config);
    keep(&world);
    for (uint32_t i = 0; i < 8; i++) {
        struct lull_guard *kept = &world.ranks[0].kept;

        if (i == 0)
            *kept = (struct lull_guard){.config = kept->config};
        lull_guard_add(kept, 100.0, 103.0 + 0.01 * (i % 2));
    }
    world.candidate_ms[0] = 103.0;
    begin(&world, LULL_TRIAL_WATCH);
    assert_int_equal(run_on(&world), LULL_TRIAL_HURTS);
}

static void test_the_last_pair_is_taken_back(void **state)
{
    const struct lull_trial_config config = usual_config(RANKS);
    struct world world;

    (void)state;
    make_world(&world, &config);
    keep(&world);
    world.candidate_ms[0] = world.candidate_ms[1] = 100.8;
    begin(&world, LULL_TRIAL_WATCH);
    assert_int_equal(run_on(&world), LULL_TRIAL_HOLDS);
    assert_int_equal(estimate_of(&world, false).pairs, 7);
    assert_near(estimate_of(&world, false).slowdown_ratio, 0.008 / 7.0, 1e-5);
    lull_trial_forget_last_pair(&world.trial);
    assert_int_equal(estimate_of(&world, false).pairs, 6);
    assert_near(estimate_of(&world, false).slowdown_ratio, 0.0, 1e-12);
    lull_trial_forget_last_pair(&world.trial); /* there is only one to be taken back */
    assert_int_equal(estimate_of(&world, false).pairs, 6);
    assert_int_equal(world.ranks[1].kept.differences.count, 6);
}

/* A passed check adds its pairs to those of the accepted candidate. */
static void test_an_acquittal_is_kept_with_the_rest(void **state)
{
    const struct lull_trial_config config = usual_config(1);
    struct world world;
    uint32_t pairs;

    (void)state;
    make_world(&world, &config);
    keep(&world);
    begin(&world, LULL_TRIAL_CHECK);
    assert_int_equal(run_on(&world), LULL_TRIAL_NOT_DEGRADED);
    pairs = estimate_of(&world, true).pairs;
    lull_trial_keep(&world.trial);
    assert_int_equal(estimate_of(&world, false).pairs, 6 + pairs);
    assert_int_equal(world.ranks[0].kept.level.count, 6 + pairs);
}

static void test_rare_harm_is_excluded_by_and_by(void **state)
{
    const struct lull_trial_config config = usual_config(RANKS);
    struct world world;
    uint64_t measured;
    double excluded;

    (void)state;
    make_world(&world, &config);
    assert_near(lull_trial_rarest_excluded(&world.trial), 1.0, 0.0);
    begin(&world, LULL_TRIAL_SCREEN);
    run_on(&world);
    assert_near(lull_trial_rarest_excluded(&world.trial), 1.0, 0.0); /* nothing is kept */
    lull_trial_change_point(&world.trial);
    keep(&world);
    measured = world.ranks[0].kept_iterations;
    /* Those of the screen are another point's. */
    assert_true(measured >= 6 * BLOCK && measured <= 6 * (BLOCK + 2));
    assert_int_equal(measured, world.ranks[0].measured);
    begin(&world, LULL_TRIAL_WATCH);
    for (uint32_t i = 0; i < 200; i++) {
        assert_true(run_one(&world, 0) != LULL_TRIAL_SLOW_PAIR);
        measured += world.slot.candidate && world.slot.measured;
    }
    begin(&world, LULL_TRIAL_CHECK);
    /* The rank that has run least of them has the say. */
    excluded = lull_trial_rarest_excluded(&world.trial);
    assert_near(pow(1.0 - excluded, (double)world.ranks[1].kept_iterations), 0.05, 1e-9);
    assert_true(world.ranks[0].kept_iterations == measured);
    assert_true(world.ranks[1].kept_iterations < measured);
    for (uint32_t i = 0; i < 300; i++)
        run_one(&world, 1);
    assert_near(pow(1.0 - lull_trial_rarest_excluded(&world.trial), (double)measured), 0.05, 1e-9);
    lull_trial_drop_kept(&world.trial);
    assert_near(lull_trial_rarest_excluded(&world.trial), 1.0, 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_screens_and_proofs_end_with_a_verdict),
        cmocka_unit_test(test_noise_decides_between_harm_and_no_proof),
        cmocka_unit_test(test_each_proof_has_its_share_of_one_error_budget),
        cmocka_unit_test(test_a_pair_is_the_means_of_all_its_measured_iterations),
        cmocka_unit_test(test_the_worse_of_mean_and_tail_decides),
        cmocka_unit_test(test_the_tail_counts_where_it_is_asked_for),
        cmocka_unit_test(test_clearly_slow_iterations_end_a_trial_at_once),
        cmocka_unit_test(test_clearly_slow_is_measured_by_the_noise),
        cmocka_unit_test(test_a_check_weighs_as_much_as_what_has_called_for_it),
        cmocka_unit_test(test_a_check_passes_no_sooner),
        cmocka_unit_test(test_a_proof_takes_twice_the_iterations_that_harm_took_to_show),
        cmocka_unit_test(test_a_check_refuses_by_all_iterations_together),
        cmocka_unit_test(test_what_is_kept_is_watched_ever_more_rarely),
        cmocka_unit_test(test_a_slow_pair_is_told),
        cmocka_unit_test(test_slow_is_measured_by_the_noise_of_pairs),
        cmocka_unit_test(test_a_slow_block_is_told_before_its_pair_ends),
        cmocka_unit_test(test_watched_pairs_prove_harm),
        cmocka_unit_test(test_the_bound_of_what_is_kept_proves_harm),
        cmocka_unit_test(test_the_last_pair_is_taken_back),
        cmocka_unit_test(test_an_acquittal_is_kept_with_the_rest),
        cmocka_unit_test(test_rare_harm_is_excluded_by_and_by),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
