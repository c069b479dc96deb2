/*
 * Tuned PD-RATS and its certificate, compared with the linear
 * program on problems of other seeds than those used for tuning. cluster/bench/bench_pd_rats.c has
 * all of them. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cluster/core/policy/single.h"
#include "online_judge.h"

enum { FIRST_SEED = 2000 };

static struct online_verdict judge(enum online_family family, double load_ratio, uint64_t seed)
{
    struct online_case *it = online_case_draw(family, load_ratio, seed);
    struct online_verdict verdict;

    assert_non_null(it);
    verdict = online_judge(it);
    online_case_destroy(it);
    return verdict;
}

/* Against the linear program: 1.10 on average and 1.35 at worst; the certificate above it, by 5 %
 * on average at most. */
static void test_near_the_linear_program(void **state)
{
    static const double loads[] = {0.5, 1.0, 2.0};
    double sum = 0.0;
    double certificates = 0.0;
    int count = 0;

    (void)state;
    for (int family = 0; family < ONLINE_TAIL; family++)
        for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
            const struct online_verdict verdict =
                judge((enum online_family)family, loads[i], FIRST_SEED + (uint64_t)family);

            assert_true(verdict.is_sound);
            assert_true(verdict.tuned_j <= verdict.optimum_j * (1.0 + 1e-7));
            assert_true(verdict.optimum_j <= 1.35 * verdict.tuned_j);
            assert_true(verdict.certified_j >= verdict.optimum_j * (1.0 - 1e-7));
            sum += verdict.optimum_j / verdict.tuned_j;
            certificates += verdict.certified_j / verdict.optimum_j;
            count++;
        }
    assert_true(sum / count <= 1.10);
    assert_true(certificates / count <= 1.05);
}

/* The same again, and again without regard to what ran before. */
static void test_deterministic(void **state)
{
    const struct online_verdict first = judge(ONLINE_TYPES, 1.0, FIRST_SEED);
    const struct online_verdict again = judge(ONLINE_TYPES, 1.0, FIRST_SEED);

    (void)state;
    assert_true(first.is_sound);
    assert_true(first.tuned_j == again.tuned_j);
    assert_true(first.certified_j == again.certified_j);
}

/* Two jobs of one GPU: ranked only if both may be preempted and both have to run, which the reason
 * of the first one's start tells. */
static void test_who_is_ranked(void **state)
{
    static const struct lull_cluster_type type = {.name = "A", .idle_w = 50.0};
    static const struct lull_cluster_node node = {.gpus = 2};
    static const struct lull_cluster cluster = {&type, 1, &node, 1, 1};
    static const struct lull_cluster_point point = {
        .gpus = 1, .time_ns = 1000000000, .energy_j = 200.0};
    static const struct {
        bool is_preemptible[2];
        double value_j[2];
        bool is_ranked;
    } cases[] = {
        {{true, true}, {0.0, 0.0}, true},   {{false, true}, {0.0, 0.0}, false},
        {{true, false}, {0.0, 0.0}, false}, {{true, true}, {1e6, 0.0}, false},
        {{true, true}, {0.0, 1e6}, false},
    };
    struct lull_cluster_state *cluster_state;

    (void)state;
    assert_int_equal(lull_cluster_state_create(&cluster, &cluster_state), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_cluster_job all[2];
        struct lull_cluster_share share;
        struct lull_cluster_decision decision = {.shares = &share};
        struct lull_cluster_policy *policy;
        const struct lull_cluster_jobs jobs = {all, 2};

        for (size_t j = 0; j < 2; j++)
            all[j] = (struct lull_cluster_job){.deadline_ns = LULL_CLUSTER_NEVER,
                                               .weight = 1.0,
                                               .is_preemptible = cases[i].is_preemptible[j],
                                               .value_j = cases[i].value_j[j],
                                               .point_count = 1,
                                               .points = &point};
        assert_int_equal(lull_pd_rats_calls.create(&cluster, &jobs, NULL, 1.0, &policy), 0);
        assert_false(lull_pd_rats_calls.decide(policy, cluster_state, 0, &decision));
        assert_int_equal(lull_pd_rats_calls.arrive(policy, 0, 0), 0);
        assert_true(lull_pd_rats_calls.decide(policy, cluster_state, 0, &decision));
        assert_int_equal(decision.act, LULL_CLUSTER_START);
        if ((decision.reason == lull_pd_rats_ranking.reason) != cases[i].is_ranked)
            fail_msg("case %zu: %s", i, decision.reason);
        lull_pd_rats_calls.destroy(policy);
    }
    lull_cluster_state_destroy(cluster_state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_ranked),
        cmocka_unit_test(test_near_the_linear_program),
        cmocka_unit_test(test_deterministic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
