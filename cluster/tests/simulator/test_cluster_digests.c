/*
 * Seeded clusters under every policy: who ran when and where, and what it drew, is what it was.
 * What it should be like is for the other tests; this one notices that any of it has changed.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "tests/core/digest.h"
#include "cluster_case.h"
#include "policy_spy.h"

static struct spy_case spied_case;
static struct spy_log spied;
static struct cluster_case under_conditions;

/* Light and heavy, of one type or two, elastic, with deadlines and weights. */
static struct spy_options options_of(uint64_t seed)
{
    return (struct spy_options){
        .types = 1 + (uint32_t)(seed % 2),
        .pools = 1 + (uint32_t)(seed / 2 % 2),
        .nodes = seed % 3 == 0 ? 4 : 12,
        .node_gpus = seed % 5 == 0 ? 1 : 4,
        .jobs = 48,
        .most_gpus = seed % 5 == 0 ? 1 : 10,
        .clocks = 1 + (uint32_t)(seed / 2 % 3),
        .elastic = seed % 4 == 3 ? 2 : 1,
        .is_preemptible = seed % 3 != 1,
        .has_deadlines = seed % 4 < 2,
        .has_weights = seed % 6 == 0,
        .most_s = seed % 11 == 0 ? 20 : 4000,
        .span_s = 500 + 1500 * (int64_t)(seed % 12),
    };
}

static void digest_choices(struct digest *digest, const struct lull_cluster_policy_ops *policy,
                           uint64_t seed)
{
    const struct spy_options options = options_of(seed);

    spy_make(&spied_case, &options, seed);
    lull_cluster_run_destroy(spy_run(&spied_case, policy, NULL, &spied));
    for (size_t i = 0; i < spied.count; i++) {
        const struct spy_event *event = &spied.events[i];

        digest_add(digest, (double)event->at_ns * 1e-9);
        digest_add(digest, (double)event->kind + 4.0 * event->job + 500.0 * event->point);
        for (uint32_t k = 0; k < event->share_count; k++)
            digest_add(digest, event->shares[k].node + 100.0 * event->shares[k].gpus);
    }
}

static void digest_outcomes(struct digest *digest, const struct lull_cluster_run *run, size_t jobs)
{
    for (size_t i = 0; i < jobs; i++) {
        const struct lull_cluster_outcome *outcome = &lull_cluster_run_outcomes(run)[i];

        digest_add(digest,
                   (double)outcome->fate + 10.0 * outcome->point + 100.0 * outcome->preemptions);
        digest_add(digest, (double)outcome->start_ns * 1e-9);
        digest_add(digest, (double)outcome->end_ns * 1e-9);
        digest_add(digest, (double)outcome->lost_ns * 1e-9 + outcome->failures);
        for (uint32_t k = 0; k < outcome->share_count; k++)
            digest_add(digest, outcome->shares[k].node + 100.0 * outcome->shares[k].gpus);
    }
}

static void digest_conditions(struct digest *digest, const struct lull_cluster_policy_ops *policy,
                              uint64_t seed)
{
    struct lull_cluster_conditions conditions = {.turns_nodes_off = seed % 3 > 0};
    struct cluster_case *it = &under_conditions;
    struct lull_cluster_run *run = NULL;
    struct lull_error err = {0};
    double run_j;
    double idle_j;

    case_draw(it, seed);
    assert_int_equal(
        lull_cluster_failures_order(it->failures, it->failure_count, it->cluster.node_count, NULL),
        0);
    conditions.failures = it->failures;
    conditions.failure_count = seed % 2 == 1 ? it->failure_count : 0;
    if (seed % 4 >= 2) {
        conditions.cap.peak_ratio = 1.05;
        conditions.cap.cluster_w =
            case_least_cap_w(&it->cluster, conditions.turns_nodes_off) + 900.0 * (double)(seed % 5);
        conditions.cap.node_w = seed % 3 == 0 ? 1100.0 : 0.0;
    }
    if (lull_cluster_simulate(&it->cluster, &it->jobs, policy, &conditions, &run, &err) < 0) {
        digest_add(digest, err.code);
        return;
    }
    digest_outcomes(digest, run, it->jobs.count);
    lull_cluster_run_energy(run, &run_j, &idle_j);
    digest_add(digest, run_j);
    digest_add(digest, idle_j);
    digest_add(digest, lull_cluster_run_turn_on_j(run));
    digest_add(digest, (double)lull_cluster_run_nodes(run).turn_offs);
    lull_cluster_run_destroy(run);
}

static const struct {
    const char *policy;
    double choices, conditions;
} expected[] = {
    {"fifo", 51207.087653478447, 19928.019944884236},
    {"edf", 51051.472045196271, 19440.943144676712},
    {"sjf", 50658.898150038505, 19521.034511968897},
    {"lpt", 51426.532013602337, 20047.179848925538},
    {"backfill", 50987.513344091232, 20183.454936051174},
    {"backfill-conservative", 51069.123671203699, 20242.733172757435},
    {"greedy-energy", 52396.413328050832, 20568.202473009282},
    {"srtf", 59337.070712591463, 20292.27890221513},
    {"srsf", 58625.985301736822, 20254.910247288339},
    {"hdf", 63291.943203984505, 21165.05570125984},
    {"powerflow", 64704.38808460506, 21173.107693119182},
    {"pd-rats", 51196.775682134037, 20169.529127090387},
};

static double expected_of(const char *policy, bool under)
{
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        if (strcmp(expected[i].policy, policy) == 0)
            return under ? expected[i].conditions : expected[i].choices;
    return 0.0;
}

static void policies_choose_as_they_did(void **state)
{
    char name[64];

    (void)state;
    for (const struct lull_cluster_policy_ops *const *policy = lull_cluster_policy_all();
         *policy != NULL && !(*policy)->needs_value; policy++) {
        struct digest choices = {0};
        struct digest conditions = {0};

        for (uint64_t seed = 1; seed <= 20; seed++) {
            digest_choices(&choices, *policy, seed);
            digest_conditions(&conditions, *policy, seed);
        }
        snprintf(name, sizeof(name), "choices of %s", (*policy)->name);
        digest_check(&choices, name, expected_of((*policy)->name, false));
        snprintf(name, sizeof(name), "conditions of %s", (*policy)->name);
        digest_check(&conditions, name, expected_of((*policy)->name, true));
    }
}

/* Jobs that are clocked up again while another waits for watts. */
static void watts_are_kept_for_who_waits_as_they_were(void **state)
{
    const struct lull_cluster_policy_ops *const policy = lull_cluster_policy_find("powerflow");
    struct digest digest = {0};

    (void)state;
    assert_non_null(policy);
    for (uint64_t seed = 142; seed <= 143; seed++)
        digest_conditions(&digest, policy, seed);
    digest_check(&digest, "powerflow under a cap", 2832.1481131331857);
}

/* The rules that promise GPUs at posted prices, for jobs that have a value; some are worth less
 * than they draw. */
static void valued_jobs_are_chosen_as_they_were(void **state)
{
    static const struct {
        const char *policy;
        double expected;
    } valued[] = {{"pd-rats", 60694.014180646838}, {"pd-rats-safe", 73483.396383601474}};

    (void)state;
    for (size_t p = 0; p < sizeof(valued) / sizeof(valued[0]); p++) {
        const struct lull_cluster_policy_ops *const policy =
            lull_cluster_policy_find(valued[p].policy);
        struct digest digest = {0};

        assert_non_null(policy);
        for (uint64_t seed = 1; seed <= 40; seed++) {
            const struct spy_options options = options_of(seed);
            struct lull_cluster_run *run = NULL;

            spy_make(&spied_case, &options, seed);
            for (size_t i = 0; i < spied_case.jobs.count; i++)
                spied_case.all[i].value_j =
                    (0.5 + 0.25 * (double)((seed + i) % 17)) * spied_case.points[i][0].energy_j;
            assert_int_equal(lull_cluster_simulate(&spied_case.cluster, &spied_case.jobs, policy,
                                                   NULL, &run, NULL),
                             0);
            digest_outcomes(&digest, run, spied_case.jobs.count);
            lull_cluster_run_destroy(run);
        }
        digest_check(&digest, valued[p].policy, valued[p].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_choose_as_they_did),
        cmocka_unit_test(watts_are_kept_for_who_waits_as_they_were),
        cmocka_unit_test(valued_jobs_are_chosen_as_they_were),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
