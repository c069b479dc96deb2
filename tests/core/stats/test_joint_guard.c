/* The guard over ranks: the worst rank decides. SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/joint_guard.h"
#include "../property.h"

static const struct lull_guard_config typical = {
    .tolerance_ratio = 0.01,
    .error = 0.05,
    .refusal_error = 0.05,
    .max_pairs = 60,
};

/* Ranks of one job, and by how much the candidate slows each. */
struct job {
    uint32_t ranks;
    double iteration_ms[LULL_JOINT_GUARD_MAX_RANKS]; /* at the reference */
    double slowdown[LULL_JOINT_GUARD_MAX_RANKS];
    double own_noise;    /* of each rank's blocks */
    double common_noise; /* of all together */
};

static enum lull_verdict try_job(const struct job *job, struct lull_random *random)
{
    enum lull_verdict verdict = LULL_VERDICT_UNDECIDED;
    struct lull_joint_guard joint;

    lull_joint_guard_init(&joint, &typical, job->ranks, false);
    while (verdict == LULL_VERDICT_UNDECIDED) {
        const double common[2] = {lull_random_normal(random, 1.0, job->common_noise),
                                  lull_random_normal(random, 1.0, job->common_noise)};

        for (uint32_t i = 0; i < job->ranks; i++) {
            const double reference =
                job->iteration_ms[i] * common[0] * lull_random_normal(random, 1.0, job->own_noise);
            const double candidate = job->iteration_ms[i] * common[1] * (1.0 + job->slowdown[i]) *
                                     lull_random_normal(random, 1.0, job->own_noise);

            lull_joint_guard_add(&joint, i, reference, candidate, true);
        }
        verdict = lull_joint_guard_verdict(&joint);
    }
    return verdict;
}

/* Share of runs with each verdict. */
static void try_many(const struct job *job, uint32_t runs, uint64_t seed, double shares[4])
{
    struct lull_random random;

    lull_random_init(&random, seed);
    for (int i = 0; i < 4; i++)
        shares[i] = 0.0;
    for (uint32_t i = 0; i < runs; i++)
        shares[try_job(job, &random)] += 1.0 / runs;
}

/* Of ranks with times and noise of their own, one is slowed by just what is allowed. */
static void test_a_single_slowed_rank_is_not_hidden_by_the_others(void **state)
{
    enum { RUNS = 1000 };
    const double margin = 3.0 * sqrt(0.05 * 0.95 / RUNS);

    (void)state;
    for (uint32_t ranks = 2; ranks <= 16; ranks *= 2) {
        for (uint32_t noise = 0; noise < 3; noise++) {
            struct job job = {.ranks = ranks, .own_noise = 0.0005 * (1 + 4 * noise)};
            double shares[4];

            for (uint32_t i = 0; i < ranks; i++)
                job.iteration_ms[i] = 100.0 + 20.0 * (noise == 1 ? i : 0);
            job.slowdown[ranks / 2] = typical.tolerance_ratio;
            try_many(&job, RUNS, 10 * ranks + noise, shares);
            print_message("%u ranks, noise %.4f: passed %.4f\n", ranks, job.own_noise,
                          shares[LULL_VERDICT_NOT_DEGRADED]);
            assert_true(shares[LULL_VERDICT_NOT_DEGRADED] <= 0.05 + margin);
        }
    }
}

/* Looking at many ranks does not refuse what is harmless, coupled or not. */
static void test_many_harmless_ranks_pass(void **state)
{
    (void)state;
    for (int coupled = 0; coupled < 2; coupled++) {
        struct job job = {
            .ranks = 16,
            .own_noise = coupled ? 0.0005 : 0.003,
            .common_noise = coupled ? 0.004 : 0.0,
        };
        double shares[4];

        for (uint32_t i = 0; i < job.ranks; i++)
            job.iteration_ms[i] = coupled ? 100.0 : 50.0 + 10.0 * i;
        try_many(&job, 1000, 5, shares);
        print_message("16 harmless ranks: passed %.4f\n", shares[LULL_VERDICT_NOT_DEGRADED]);
        assert_true(shares[LULL_VERDICT_NOT_DEGRADED] > 0.97);
    }
}

/* Of many ranks just above the tolerance none is refused more often by chance than it may. */
static void test_the_chance_of_refusal_is_shared_by_the_ranks(void **state)
{
    struct lull_joint_guard joint;

    (void)state;
    for (uint32_t ranks = 1; ranks <= 64; ranks *= 4) {
        lull_joint_guard_init(&joint, &typical, ranks, false);
        for (uint32_t i = 0; i < ranks; i++) {
            const struct lull_guard_config *own = &joint.ranks[i].guard.config;

            assert_near(own->refusal_error, 0.05 / ranks, 1e-15);
            assert_near(own->error, 0.05, 0.0);
            assert_near(own->tolerance_ratio, 0.01, 0.0);
            assert_int_equal(own->max_pairs, 60);
        }
    }
}

/* Pairs that come to a verdict: harmless, harmful, and too few for either. */
static void feed(struct lull_joint_guard *joint, uint32_t rank, enum lull_verdict verdict)
{
    for (uint32_t i = 0; joint->ranks[rank].verdict == LULL_VERDICT_UNDECIDED; i++) {
        const double noise = i % 2 == 0 ? 0.001 : -0.001;

        if (verdict == LULL_VERDICT_NOT_DEGRADED)
            lull_joint_guard_add(joint, rank, 100.0, 100.0 * (1.0 + noise), true);
        else if (verdict == LULL_VERDICT_DEGRADED)
            lull_joint_guard_add(joint, rank, 100.0, 100.0 * (1.012 + 2.5 * noise), i > 9);
        else
            lull_joint_guard_add(joint, rank, 100.0, 100.0 * (1.0 + 100.0 * noise), true);
    }
    assert_int_equal(joint->ranks[rank].verdict, verdict);
}

static void test_the_worst_verdict_counts_once_it_is_there(void **state)
{
    (void)state;
    for (int first = 1; first < 4; first++)
        for (int second = 1; second < 4; second++) {
            const enum lull_verdict verdicts[2] = {(enum lull_verdict)first,
                                                   (enum lull_verdict)second};
            struct lull_joint_guard joint;
            enum lull_verdict expected = LULL_VERDICT_NOT_DEGRADED;
            enum lull_verdict before = LULL_VERDICT_UNDECIDED;

            lull_joint_guard_init(&joint, &typical, 3, false);
            lull_joint_guard_leave(&joint, 1);
            assert_int_equal(lull_joint_guard_verdict(&joint), LULL_VERDICT_UNDECIDED);
            feed(&joint, 2, verdicts[1]);
            if (verdicts[1] != LULL_VERDICT_NOT_DEGRADED)
                before = verdicts[1];
            assert_int_equal(lull_joint_guard_verdict(&joint), before);
            feed(&joint, 0, verdicts[0]);
            if (first == LULL_VERDICT_UNPROVEN || second == LULL_VERDICT_UNPROVEN)
                expected = LULL_VERDICT_UNPROVEN;
            if (first == LULL_VERDICT_DEGRADED || second == LULL_VERDICT_DEGRADED)
                expected = LULL_VERDICT_DEGRADED;
            assert_int_equal(lull_joint_guard_verdict(&joint), expected);
            /* A rank that has left is ignored, whatever its results. */
            lull_joint_guard_leave(&joint, 2);
            assert_int_equal(lull_joint_guard_verdict(&joint), verdicts[0]);
        }
}

/* The first verdict of a rank is its last one. */
static void test_a_rank_is_not_asked_again(void **state)
{
    struct lull_joint_guard joint;
    uint64_t pairs;

    (void)state;
    lull_joint_guard_init(&joint, &typical, 1, false);
    feed(&joint, 0, LULL_VERDICT_NOT_DEGRADED);
    pairs = joint.ranks[0].guard.differences.count;
    for (uint32_t i = 0; i < 50; i++)
        lull_joint_guard_add(&joint, 0, 100.0, 150.0 + i % 2, true);
    assert_int_equal(lull_joint_guard_verdict(&joint), LULL_VERDICT_NOT_DEGRADED);
    assert_int_equal(joint.ranks[0].guard.differences.count, pairs);
}

/* Until it may pass a rank's test can only refuse. */
static void test_a_test_that_may_not_pass_yet_can_only_refuse(void **state)
{
    struct lull_joint_guard joint;

    (void)state;
    lull_joint_guard_init(&joint, &typical, 2, false);
    for (uint32_t i = 0; i < 70; i++)
        for (uint32_t rank = 0; rank < 2; rank++)
            lull_joint_guard_add(&joint, rank, 100.0, rank == 0 ? 100.0 : 90.0 + 20.0 * (i % 2),
                                 false);
    assert_int_equal(lull_joint_guard_verdict(&joint), LULL_VERDICT_UNDECIDED);
    lull_joint_guard_add(&joint, 0, 100.0, 100.0, true);
    assert_int_equal(joint.ranks[0].verdict, LULL_VERDICT_NOT_DEGRADED);
    lull_joint_guard_add(&joint, 1, 100.0, 100.0, true);
    assert_int_equal(lull_joint_guard_verdict(&joint), LULL_VERDICT_UNPROVEN);
    lull_joint_guard_init(&joint, &typical, 1, false);
    for (uint32_t i = 0; i < 20; i++)
        lull_joint_guard_add(&joint, 0, 100.0, 105.0 + 0.1 * (i % 2), false);
    assert_int_equal(lull_joint_guard_verdict(&joint), LULL_VERDICT_DEGRADED);
}

/* A screen is requested instead of a verdict: it decides with three pairs, and asks what pays. */
static void test_ranks_are_screened(void **state)
{
    struct lull_guard_config config = typical;

    (void)state;
    config.worth_ratio = 0.002;
    for (int is_screen = 0; is_screen < 2; is_screen++)
        for (int slow = 0; slow < 2; slow++) {
            struct lull_joint_guard joint;

            lull_joint_guard_init(&joint, &config, 2, is_screen);
            for (uint32_t i = 0; i < 3; i++)
                for (uint32_t rank = 0; rank < 2; rank++)
                    lull_joint_guard_add(&joint, rank, 100.0, rank == 1 && slow ? 100.4 : 100.0,
                                         true);
            if (!is_screen)
                assert_int_equal(lull_joint_guard_verdict(&joint), LULL_VERDICT_UNDECIDED);
            else
                assert_int_equal(lull_joint_guard_verdict(&joint),
                                 slow ? LULL_VERDICT_DEGRADED : LULL_VERDICT_NOT_DEGRADED);
        }
}

static void test_the_worst_rank_is_the_one_slowed_most(void **state)
{
    struct lull_joint_guard joint;

    (void)state;
    lull_joint_guard_init(&joint, &typical, 4, false);
    assert_int_equal(lull_joint_guard_worst(&joint), 0);
    lull_joint_guard_add(&joint, 1, 100.0, 98.0, true);
    assert_int_equal(lull_joint_guard_worst(&joint), 1); /* the only one with a pair */
    lull_joint_guard_add(&joint, 3, 10.0, 10.3, true);
    lull_joint_guard_add(&joint, 2, 100.0, 102.0, true);
    lull_joint_guard_add(&joint, 0, 100.0, 101.0, true);
    assert_int_equal(lull_joint_guard_worst(&joint), 3);
    lull_joint_guard_leave(&joint, 3);
    assert_int_equal(lull_joint_guard_worst(&joint), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_single_slowed_rank_is_not_hidden_by_the_others),
        cmocka_unit_test(test_many_harmless_ranks_pass),
        cmocka_unit_test(test_the_chance_of_refusal_is_shared_by_the_ranks),
        cmocka_unit_test(test_the_worst_verdict_counts_once_it_is_there),
        cmocka_unit_test(test_a_rank_is_not_asked_again),
        cmocka_unit_test(test_a_test_that_may_not_pass_yet_can_only_refuse),
        cmocka_unit_test(test_ranks_are_screened),
        cmocka_unit_test(test_the_worst_rank_is_the_one_slowed_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
