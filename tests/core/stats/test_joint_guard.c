/*
 * The guard over ranks: coupled ones as if they were one, others by the worst of them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/stats/joint_guard.h"
#include "../property.h"

static const struct lull_guard_config usual = {
    .tolerance_ratio = 0.01,
    .confidence = 0.95,
    .min_pairs = 4,
    .max_pairs = 14,
    .abort_ratio = 0.3,
};

/* Ranks of one job, and by how much the candidate slows each. */
struct job {
    uint32_t ranks;
    double iteration_ms[LULL_JOINT_GUARD_MAX_RANKS]; /* at the reference */
    double slowdown[LULL_JOINT_GUARD_MAX_RANKS];
    double own_noise;    /* of each rank's windows */
    double common_noise; /* of all together */
    bool is_mean_only;   /* for comparison: as if they were coupled */
};

static enum lull_verdict try_job(const struct job *job, struct lull_random *random)
{
    enum lull_verdict verdict = LULL_VERDICT_UNDECIDED;
    struct lull_joint_guard joint;

    lull_joint_guard_init(&joint, &usual, job->ranks);
    for (uint32_t pair = 0; pair < usual.max_pairs && verdict == LULL_VERDICT_UNDECIDED; pair++) {
        const double common[2] = {lull_random_normal(random, 1.0, job->common_noise),
                                  lull_random_normal(random, 1.0, job->common_noise)};
        double sum[2] = {0};

        for (uint32_t i = 0; i < job->ranks; i++) {
            const double reference =
                job->iteration_ms[i] * common[0] * lull_random_normal(random, 1.0, job->own_noise);
            const double candidate = job->iteration_ms[i] * common[1] * (1.0 + job->slowdown[i]) *
                                     lull_random_normal(random, 1.0, job->own_noise);

            lull_joint_guard_add(&joint, i, reference, candidate);
            sum[0] += reference;
            sum[1] += candidate;
        }
        lull_joint_guard_add_mean(&joint, sum[0] / job->ranks, sum[1] / job->ranks);
        verdict =
            job->is_mean_only ? lull_guard_verdict(&joint.mean) : lull_joint_guard_verdict(&joint);
    }
    return verdict;
}

static double share_passed(const struct job *job, uint32_t trials, uint64_t seed)
{
    struct lull_random random;
    uint32_t passed = 0;

    lull_random_init(&random, seed);
    for (uint32_t i = 0; i < trials; i++)
        passed += try_job(job, &random) == LULL_VERDICT_NOT_DEGRADED;
    return (double)passed / trials;
}

/* Of ranks with times and noise of their own, one is slowed by just what is allowed. */
static void test_a_single_slowed_rank_is_not_hidden_by_the_mean(void **state)
{
    enum { TRIALS = 3000 };
    const double margin = 3.0 * sqrt(0.05 * 0.95 / TRIALS);

    (void)state;
    for (uint32_t ranks = 2; ranks <= 16; ranks *= 2) {
        for (uint32_t noise = 0; noise < 3; noise++) {
            struct job job = {.ranks = ranks, .own_noise = 0.0005 * (1 + 4 * noise)};
            double passed;

            for (uint32_t i = 0; i < ranks; i++)
                job.iteration_ms[i] = 100.0 + 20.0 * i;
            job.slowdown[ranks / 2] = usual.tolerance_ratio;
            passed = share_passed(&job, TRIALS, 10 * ranks + noise);
            print_message("%u ranks, noise %.4f: passed %.4f\n", ranks, job.own_noise, passed);
            assert_true(passed <= 0.05 + margin);
            job.is_mean_only = true;
            if (noise == 0)
                assert_true(share_passed(&job, TRIALS, ranks) > 0.5); /* what it is here for */
        }
    }
}

/* The same slowdown with the same times: no noise tells the ranks apart, the slowdown does. */
static void test_ranks_of_like_speed_are_told_apart_by_the_slowdown(void **state)
{
    struct job job = {.ranks = 4, .own_noise = 0.0005, .slowdown = {0.0, 0.0, 0.02, 0.0}};

    (void)state;
    for (uint32_t i = 0; i < job.ranks; i++)
        job.iteration_ms[i] = 100.0;
    assert_true(share_passed(&job, 2000, 7) < 0.02);
}

static void test_coupled_ranks_are_judged_by_their_mean(void **state)
{
    struct job job = {.ranks = 8, .common_noise = 0.004};

    (void)state;
    for (uint32_t i = 0; i < job.ranks; i++)
        job.iteration_ms[i] = 100.0;
    /* The noise of a rank's own: when it notices that an iteration is over. */
    for (uint32_t noise = 1; noise <= 5; noise++) {
        double joint;
        double mean;

        job.own_noise = 0.0004 * noise;
        job.is_mean_only = false;
        joint = share_passed(&job, 2000, noise);
        job.is_mean_only = true;
        mean = share_passed(&job, 2000, noise);
        print_message("coupled, noise %.4f: passed %.3f, by the mean alone %.3f\n", job.own_noise,
                      joint, mean);
        assert_true(joint > mean - 0.03);
    }
}

/* Looking at many ranks does not refuse what is harmless. */
static void test_many_harmless_ranks_pass(void **state)
{
    struct job job = {.ranks = 16, .own_noise = 0.001};
    double passed;

    (void)state;
    for (uint32_t i = 0; i < job.ranks; i++)
        job.iteration_ms[i] = 50.0 + 10.0 * i;
    passed = share_passed(&job, 2000, 5);
    print_message("16 harmless ranks: passed %.4f\n", passed);
    assert_true(passed > 0.97);
}

static void test_a_rank_without_a_verdict_is_waited_for_unless_it_has_left(void **state)
{
    struct lull_joint_guard joint;

    (void)state;
    lull_joint_guard_init(&joint, &usual, 3);
    lull_joint_guard_leave(&joint, 2);
    for (uint32_t i = 0; i < 10; i++) {
        lull_joint_guard_add(&joint, 0, 100.0 + 0.01 * i, 100.0);
        assert_int_equal(lull_joint_guard_verdict(&joint), LULL_VERDICT_UNDECIDED);
    }
    lull_joint_guard_part(&joint);
    assert_int_equal(lull_joint_guard_verdict(&joint), LULL_VERDICT_UNDECIDED);
    for (uint32_t i = 0; i < 10; i++)
        lull_joint_guard_add(&joint, 1, 300.0 + 0.01 * i, 300.0);
    assert_int_equal(lull_joint_guard_verdict(&joint), LULL_VERDICT_NOT_DEGRADED);
    assert_false(lull_joint_guard_is_coupled(&joint));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_single_slowed_rank_is_not_hidden_by_the_mean),
        cmocka_unit_test(test_ranks_of_like_speed_are_told_apart_by_the_slowdown),
        cmocka_unit_test(test_coupled_ranks_are_judged_by_their_mean),
        cmocka_unit_test(test_many_harmless_ranks_pass),
        cmocka_unit_test(test_a_rank_without_a_verdict_is_waited_for_unless_it_has_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
