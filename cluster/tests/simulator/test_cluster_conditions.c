/*
 * Nodes that fail, are turned off and are kept under a power cap, jobs that share links and a
 * storage, around all policies: jobs are never lost, power is that of the running jobs, caps hold,
 * and the additional time of a job equals the effect of sharing.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/core/property.h"
#include "cluster_case.h"
#include "cluster/core/policy/ranked.h"

enum { SEEDS = 300 };

static struct lull_cluster_run *run_case(struct cluster_case *it,
                                         const struct lull_cluster_policy_ops *policy,
                                         const struct lull_cluster_conditions *conditions,
                                         uint64_t seed)
{
    struct lull_cluster_run *run = NULL;
    struct lull_error err = {0};

    if (lull_cluster_simulate(&it->cluster, &it->jobs, policy, conditions, &run, &err) < 0)
        fail_msg("seed %" PRIu64 ", %s: %s", seed, policy->name, err.text);
    return run;
}

/* ---- invariants of every run ----------------------------------------------------------------- */

static bool was_down(const struct cluster_case *it, const struct lull_cluster_stretch *stretch,
                     uint32_t node)
{
    for (size_t i = 0; i < it->failure_count; i++)
        if (it->failures[i].node == node && it->failures[i].from_ns < stretch->end_ns &&
            it->failures[i].to_ns > stretch->begin_ns)
            return true;
    return false;
}

/* GPUs of a node that run jobs just after a time. */
static uint32_t busy_at(const struct lull_cluster_stretches *all, uint32_t node, int64_t at_ns)
{
    uint32_t gpus = 0;

    for (size_t i = 0; i < all->count; i++)
        for (uint32_t k = 0; k < all->all[i].share_count; k++)
            if (all->all[i].shares[k].node == node && all->all[i].begin_ns <= at_ns &&
                all->all[i].end_ns > at_ns)
                gpus += all->all[i].shares[k].gpus;
    return gpus;
}

static void check_places(const struct cluster_case *it, const struct lull_cluster_run *run,
                         bool has_failures, uint64_t seed)
{
    const struct lull_cluster_stretches *all = lull_cluster_run_stretches(run);

    for (size_t i = 0; i < all->count; i++)
        for (uint32_t k = 0; k < all->all[i].share_count; k++) {
            const struct lull_cluster_share *share = &all->all[i].shares[k];

            holds(busy_at(all, share->node, all->all[i].begin_ns) <= it->nodes[share->node].gpus,
                  seed);
            holds(!has_failures || !was_down(it, &all->all[i], share->node), seed);
        }
}

/* Of running jobs, which then take the time of no one operating point. */
static bool changes_clocks(const struct lull_cluster_policy_ops *policy)
{
    return policy == lull_cluster_policy_find("hdf") ||
           policy == lull_cluster_policy_find("powerflow");
}

/* Each job has run for all of its work, or was rejected. */
static void check_work(const struct cluster_case *it, const struct lull_cluster_run *run,
                       uint64_t seed)
{
    const struct lull_cluster_stretches *all = lull_cluster_run_stretches(run);

    for (uint32_t job = 0; job < it->jobs.count; job++) {
        const struct lull_cluster_outcome *outcome = &lull_cluster_run_outcomes(run)[job];
        double done_ratio = 0.0;

        holds(outcome->fate != LULL_CLUSTER_WAITED || it->is_mixed, seed);
        if (outcome->fate != LULL_CLUSTER_DONE)
            continue;
        for (size_t i = 0; i < all->count; i++)
            if (all->all[i].job == job)
                done_ratio += (double)(all->all[i].end_ns - all->all[i].begin_ns) /
                              (double)it->points[job][all->all[i].point].time_ns;
        /* The loss by failures and the time of restarts after preemptions are added. */
        holds(done_ratio >= 1.0 - 1e-8, seed);
        if (outcome->failures + outcome->preemptions == 0)
            holds(done_ratio <= 1.0 + 1e-8, seed);
        holds((outcome->failures == 0) <= (outcome->lost_ns == 0), seed);
    }
}

struct total {
    double part_j[LULL_POWER_PARTS];
    double most_w; /* peaks of jobs */
};

static double now_w(double w[2][LULL_POWER_PARTS], double peak_ratio)
{
    double sum_w = 0.0;

    for (int type = 0; type < 2; type++)
        sum_w += w[type][LULL_POWER_JOBS] * peak_ratio + w[type][LULL_POWER_IDLE] +
                 w[type][LULL_POWER_TURN_ON];
    return sum_w;
}

/* The integral of the points. */
static struct total integrate(const struct lull_power_meter *meter, double peak_ratio)
{
    struct total total = {0};
    double w[2][LULL_POWER_PARTS] = {0};
    size_t count;
    const struct lull_power_point *points = lull_power_meter_points(meter, &count);

    for (size_t i = 0; i < count; i++) {
        const int64_t to_ns =
            i + 1 < count ? points[i + 1].time_ns : lull_power_meter_marked_ns(meter);

        memcpy(w[points[i].type], points[i].w, sizeof(w[0]));
        total.part_j[LULL_POWER_TURN_ON] += points[i].at_once_j;
        for (int type = 0; type < 2; type++)
            for (int part = 0; part < LULL_POWER_PARTS; part++)
                total.part_j[part] += w[type][part] * (double)(to_ns - points[i].time_ns) * 1e-9;
        if (to_ns > points[i].time_ns)
            total.most_w = fmax(total.most_w, now_w(w, peak_ratio));
    }
    return total;
}

static void check_energy(const struct cluster_case *it, const struct lull_cluster_run *run,
                         uint64_t seed)
{
    const struct lull_power_meter *meter = lull_cluster_run_meter(run);
    const struct lull_cluster_stretches *all = lull_cluster_run_stretches(run);
    const struct total total = integrate(meter, 1.0);
    double run_j, idle_j;
    double stretch_j = 0.0;

    lull_cluster_run_energy(run, &run_j, &idle_j);
    for (int part = 0; part < LULL_POWER_PARTS; part++) {
        double metered_j = 0.0;

        for (uint32_t type = 0; type < it->cluster.type_count; type++)
            metered_j += lull_power_meter_j(meter, type, (enum lull_power_part)part);
        holds(fabs(metered_j - total.part_j[part]) <= 1e-9 * (metered_j + 1.0), seed);
    }
    holds(fabs(run_j - total.part_j[LULL_POWER_JOBS]) <= 1e-9 * (run_j + 1.0), seed);
    for (size_t i = 0; i < all->count; i++)
        stretch_j += all->all[i].energy_j;
    holds(fabs(run_j - stretch_j) <= 1e-9 * (run_j + 1.0), seed);
}

/* All nodes are on: a GPU that is not busy is idle. */
static void check_idle(const struct cluster_case *it, const struct lull_cluster_run *run,
                       uint64_t seed)
{
    const struct lull_cluster_stretches *all = lull_cluster_run_stretches(run);
    const int64_t end_ns = lull_power_meter_marked_ns(lull_cluster_run_meter(run));
    double expected_j = case_idle_w(&it->cluster) * (double)end_ns * 1e-9;
    double run_j, idle_j;

    for (size_t i = 0; i < all->count; i++) {
        const struct lull_cluster_point *point = &it->points[all->all[i].job][all->all[i].point];

        expected_j -= it->types[point->type].idle_w * point->gpus *
                      (double)(all->all[i].end_ns - all->all[i].begin_ns) * 1e-9;
    }
    lull_cluster_run_energy(run, &run_j, &idle_j);
    holds(fabs(idle_j - expected_j) <= 1e-9 * (expected_j + idle_j + 1.0), seed);
}

static void check_run(struct cluster_case *it, const struct lull_cluster_policy_ops *policy,
                      const struct lull_cluster_conditions *conditions, uint64_t seed)
{
    struct lull_cluster_run *run = run_case(it, policy, conditions, seed);

    check_places(it, run, conditions->failure_count > 0, seed);
    check_work(it, run, seed);
    check_energy(it, run, seed);
    if (conditions->failure_count == 0 && !conditions->turns_nodes_off)
        check_idle(it, run, seed);
    lull_cluster_run_destroy(run);
}

static void test_failures_and_nodes_that_are_off(void **state)
{
    static struct cluster_case it;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (const struct lull_cluster_policy_ops *const *policy = lull_cluster_policy_all();
             *policy != NULL; policy++) {
            struct lull_cluster_conditions conditions = {.keeps_power = true,
                                                         .turns_nodes_off = seed % 4 / 2 == 1};

            case_draw(&it, seed);
            assert_int_equal(lull_cluster_failures_order(it.failures, it.failure_count,
                                                         it.cluster.node_count, NULL),
                             0);
            conditions.failures = it.failures;
            conditions.failure_count = seed % 2 == 1 ? it.failure_count : 0;
            check_run(&it, *policy, &conditions, seed);
        }
}

/* ---- caps ----------------------------------------------------------------------------------- */

/* The most that a node draws, jobs at their peaks; idle GPUs of nodes that are on counted. */
static void check_node_cap(const struct cluster_case *it, const struct lull_cluster_run *run,
                           const struct lull_power_cap *cap, uint64_t seed)
{
    const struct lull_cluster_stretches *all = lull_cluster_run_stretches(run);

    for (size_t at = 0; at < all->count; at++)
        for (uint32_t node = 0; node < it->cluster.node_count; node++) {
            double w = it->types[it->nodes[node].type].idle_w *
                       (it->nodes[node].gpus - busy_at(all, node, all->all[at].begin_ns));

            for (size_t i = 0; i < all->count; i++) {
                const struct lull_cluster_stretch *stretch = &all->all[i];
                const struct lull_cluster_point *point = &it->points[stretch->job][stretch->point];

                for (uint32_t k = 0; k < stretch->share_count; k++)
                    if (stretch->shares[k].node == node &&
                        stretch->begin_ns <= all->all[at].begin_ns &&
                        stretch->end_ns > all->all[at].begin_ns)
                        w += point->energy_j / ((double)point->time_ns * 1e-9) / point->gpus *
                             cap->peak_ratio * stretch->shares[k].gpus;
            }
            holds(w <= cap->node_w * (1.0 + 1e-8), seed);
        }
}

/* The cap does not apply to turning on in no time. */
static void check_cap(struct cluster_case *it, const struct lull_cluster_policy_ops *policy,
                      struct lull_cluster_conditions *conditions, uint64_t seed)
{
    const struct lull_power_cap *cap = &conditions->cap;
    struct lull_cluster_run *run = run_case(it, policy, conditions, seed);
    const struct total total = integrate(lull_cluster_run_meter(run), cap->peak_ratio);

    if (cap->cluster_w > 0.0)
        holds(total.most_w <= cap->cluster_w * (1.0 + 1e-8), seed);
    /* Stretches know the clock that they began with. */
    if (cap->node_w > 0.0 && !changes_clocks(policy))
        check_node_cap(it, run, cap, seed);
    check_places(it, run, conditions->failure_count > 0, seed);
    check_work(it, run, seed);
    lull_cluster_run_destroy(run);
}

static void test_caps_hold(void **state)
{
    static struct cluster_case it;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (const struct lull_cluster_policy_ops *const *policy = lull_cluster_policy_all();
             *policy != NULL; policy++) {
            struct lull_random random;
            struct lull_cluster_conditions conditions = {.keeps_power = true,
                                                         .turns_nodes_off = seed % 3 == 1};

            lull_random_init(&random, seed);
            case_draw(&it, seed);
            assert_int_equal(lull_cluster_failures_order(it.failures, it.failure_count,
                                                         it.cluster.node_count, NULL),
                             0);
            conditions.failures = it.failures;
            conditions.failure_count = seed % 2 == 1 ? it.failure_count : 0;
            conditions.cap.peak_ratio = 1.0 + 0.1 * lull_random_uniform(&random);
            if (seed % 5 != 0)
                conditions.cap.cluster_w =
                    case_least_cap_w(&it.cluster, conditions.turns_nodes_off) *
                    (1.0 + 2.0 * lull_random_uniform(&random));
            if (seed % 5 == 0 || seed % 7 == 0)
                conditions.cap.node_w = 330.0 + 900.0 * lull_random_uniform(&random);
            check_cap(&it, *policy, &conditions, seed);
        }
}

/* ---- links and a storage that are shared ------------------------------------------------------
 */

static void draw_sharing(struct cluster_case *it, struct lull_random *random,
                         struct lull_contention_rules *rules)
{
    *rules = (struct lull_contention_rules){
        .shares_links = lull_random_below(random, 4) > 0,
        .uplink_links = lull_random_below(random, 2) ? 0.2 + lull_random_uniform(random) : 0.0,
        .storage_mb_s = lull_random_below(random, 2) ? 300.0 : 0.0,
    };
    for (uint32_t i = 0; i < it->cluster.node_count; i++)
        it->nodes[i].rack = i / 3;
    for (uint32_t job = 0; job < it->jobs.count; job++)
        for (uint32_t i = 0; i < it->all[job].point_count; i++) {
            struct lull_cluster_point *const point = &it->points[job][i];

            point->exposed_ratio = (float)(0.8 * lull_random_uniform(random));
            point->read_mb_s = (float)(100.0 * lull_random_uniform(random));
            point->waiting_w = (float)(100.0 * point->gpus * lull_random_uniform(random));
        }
}

/* Of one that began once and never changed its clock, how long it would have run alone. */
static void check_sharing(const struct cluster_case *it, const struct lull_cluster_run *run,
                          uint64_t seed)
{
    const struct lull_cluster_stretches *all = lull_cluster_run_stretches(run);

    for (size_t i = 0; i < all->count; i++) {
        const struct lull_cluster_stretch *stretch = &all->all[i];
        const struct lull_cluster_outcome *outcome = &lull_cluster_run_outcomes(run)[stretch->job];
        const struct lull_cluster_point *point = &it->points[stretch->job][stretch->point];
        const double alone_s = (double)point->time_ns * 1e-9;
        const double longer_s = (double)outcome->shared_ns * 1e-9;

        if (outcome->fate != LULL_CLUSTER_DONE || stretch->begin_ns != outcome->start_ns ||
            stretch->end_ns != outcome->end_ns)
            continue;
        assert_near((double)(stretch->end_ns - stretch->begin_ns) * 1e-9, alone_s + longer_s,
                    1e-6 * (alone_s + longer_s));
        assert_near(stretch->energy_j, point->energy_j + point->waiting_w * longer_s,
                    1e-6 * stretch->energy_j);
    }
    for (uint32_t job = 0; job < it->jobs.count; job++)
        holds(lull_cluster_run_outcomes(run)[job].fate != LULL_CLUSTER_WAITED || it->is_mixed,
              seed);
}

/* Paces found again for those that ran from a time on. */
static void replay_from(const struct cluster_case *it, const struct lull_cluster_run *run,
                        const struct lull_contention_rules *rules, int64_t from_ns, int64_t to_ns,
                        double *shared)
{
    const struct lull_cluster_stretches *all = lull_cluster_run_stretches(run);
    struct lull_contention *contention;
    const uint32_t *reported;

    assert_int_equal(lull_contention_create(&it->cluster, rules, &contention), 0);
    for (size_t i = 0; i < all->count; i++)
        if (all->all[i].begin_ns <= from_ns && all->all[i].end_ns >= to_ns)
            assert_int_equal(lull_contention_add(contention, all->all[i].job,
                                                 &it->points[all->all[i].job][all->all[i].point],
                                                 all->all[i].shares, all->all[i].share_count),
                             0);
    lull_contention_update(contention, &reported);
    for (size_t i = 0; i < all->count; i++)
        if (all->all[i].begin_ns <= from_ns && all->all[i].end_ns >= to_ns)
            shared[all->all[i].job] += (double)(to_ns - from_ns) * 1e-9 *
                                       (1.0 - lull_contention_pace(contention, all->all[i].job));
    lull_contention_destroy(contention);
}

/* Returns the total run time of a job, s, and the number of operating points that it ran in. */
static double ran_s(const struct lull_cluster_stretches *all, uint32_t job, uint32_t *points_out)
{
    uint32_t seen = 0;
    double sum_s = 0.0;

    for (size_t i = 0; i < all->count; i++)
        if (all->all[i].job == job) {
            sum_s += (double)(all->all[i].end_ns - all->all[i].begin_ns) * 1e-9;
            seen |= 1U << all->all[i].point;
        }
    *points_out = (uint32_t)__builtin_popcount(seen);
    return sum_s;
}

/* The time lost by sharing, job by job, from the stretches; after a restart no job is slower. */
static void check_shared(const struct cluster_case *it, const struct lull_cluster_run *run,
                         const struct lull_contention_rules *rules)
{
    const struct lull_cluster_stretches *all = lull_cluster_run_stretches(run);
    double replayed[CASE_MOST_JOBS] = {0};
    struct lull_cluster_event *events;
    size_t count;

    assert_int_equal(lull_cluster_stretches_events(all, &events, &count), 0);
    for (size_t i = 0; i + 1 < count; i++)
        if (events[i + 1].time_ns > events[i].time_ns)
            replay_from(it, run, rules, events[i].time_ns, events[i + 1].time_ns, replayed);
    free(events);
    for (uint32_t job = 0; job < it->jobs.count; job++) {
        const struct lull_cluster_outcome *outcome = &lull_cluster_run_outcomes(run)[job];
        const struct lull_cluster_point *point = &it->points[job][outcome->point];
        const double got_s = (double)outcome->shared_ns * 1e-9;
        uint32_t points;
        const double run_s = ran_s(all, job, &points);

        if (outcome->preemptions == 0)
            assert_near(got_s, replayed[job], 1e-5 * (1.0 + run_s));
        if (outcome->preemptions == 1 && points == 1 && outcome->fate == LULL_CLUSTER_DONE)
            assert_near(run_s - got_s - (double)point->time_ns * 1e-9,
                        (double)lull_cluster_restart_ns(point->gpus) * 1e-9, 1e-6 * run_s);
    }
}

static double shared_s(const struct cluster_case *it, const struct lull_cluster_run *run)
{
    double sum_s = 0.0;

    for (uint32_t job = 0; job < it->jobs.count; job++)
        sum_s += (double)lull_cluster_run_outcomes(run)[job].shared_ns * 1e-9;
    return sum_s;
}

static void test_sharing(void **state)
{
    static struct cluster_case it;
    double sum_s = 0.0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (const struct lull_cluster_policy_ops *const *policy = lull_cluster_policy_all();
             *policy != NULL; policy++) {
            struct lull_cluster_conditions conditions = {.keeps_power = true,
                                                         .turns_nodes_off = seed % 4 / 2 == 1};
            struct lull_cluster_run *run;
            struct lull_random random;

            lull_random_init(&random, seed);
            case_draw(&it, seed);
            draw_sharing(&it, &random, &conditions.contention);
            if (seed % 3 == 0)
                conditions.cap = (struct lull_power_cap){
                    .cluster_w = 2.0 * case_least_cap_w(&it.cluster, true), .peak_ratio = 1.05};
            run = run_case(&it, *policy, &conditions, seed);
            check_places(&it, run, false, seed);
            check_energy(&it, run, seed);
            if (!conditions.turns_nodes_off)
                check_idle(&it, run, seed);
            check_sharing(&it, run, seed);
            if (conditions.cap.cluster_w > 0.0)
                holds(integrate(lull_cluster_run_meter(run), 1.05).most_w <=
                          conditions.cap.cluster_w * (1.0 + 1e-8),
                      seed);
            if (seed % 5 == 0)
                check_shared(&it, run, &conditions.contention);
            sum_s += shared_s(&it, run);
            lull_cluster_run_destroy(run);
        }
    assert_true(sum_s > 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failures_and_nodes_that_are_off),
        cmocka_unit_test(test_caps_hold),
        cmocka_unit_test(test_sharing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
