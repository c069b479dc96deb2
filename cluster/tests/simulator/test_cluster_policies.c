/*
 * Properties of every policy, on random clusters, gangs, operating
 * points and deadlines; and further guarantees of some policies. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/core/model/placement.h"
#include "policy_spy.h"

enum { SEEDS = 120 };

static struct spy_case it;
static struct spy_log spied, again;

/* From one pool of one type to two of two, light and heavy. */
static struct spy_options options_of(uint64_t seed)
{
    return (struct spy_options){
        .types = 1 + (uint32_t)(seed % 2),
        .pools = 1 + (uint32_t)(seed / 2 % 2),
        .nodes = seed % 3 == 0 ? 4 : 12,
        .node_gpus = seed % 5 == 0 ? 1 : 4,
        .jobs = 48,
        .max_gpus = seed % 5 == 0 ? 1 : 10,
        .clocks = 1 + (uint32_t)(seed / 4 % 3),
        .elastic = seed % 7 == 0 ? 2 : 1,
        .is_preemptible = seed % 3 != 1,
        .has_deadlines = seed % 4 < 2,
        .has_weights = seed % 6 == 0,
        .max_s = seed % 11 == 0 ? 20 : 4000,
        .span_s = 500 + 400 * (int64_t)(seed % 50),
    };
}

static const struct lull_cluster_policy_ops *const *all(void)
{
    return lull_cluster_policy_all();
}

/* ---- all ------------------------------------------------------------------------------------ */

static void test_jobs_and_gpus(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct spy_options options = options_of(seed);

        spy_make(&it, &options, seed);
        for (size_t i = 0; all()[i] != NULL; i++) {
            struct lull_cluster_run *run = spy_run(&it, all()[i], NULL, &spied);
            struct lull_cluster_run *twin = spy_run(&it, all()[i], NULL, &again);

            spy_check(&it, run, &spied);
            holds(spied.count == again.count && memcmp(spied.events, again.events,
                                                       spied.count * sizeof(spied.events[0])) == 0,
                  seed);
            lull_cluster_run_destroy(run);
            lull_cluster_run_destroy(twin);
        }
    }
}

/* At either end of the knob, too. */
static void test_parameters(void **state)
{
    (void)state;
    for (size_t i = 0; all()[i] != NULL; i++) {
        const struct lull_cluster_policy_ops *ops = all()[i];
        struct lull_cluster_policy_ops set;
        struct lull_error err;

        if (ops->parameter == NULL) {
            assert_int_equal(lull_cluster_policy_set(ops, 1.0, &set, &err), -EINVAL);
            continue;
        }
        assert_int_equal(lull_cluster_policy_set(ops, ops->parameter->most * 1.01, &set, &err),
                         -EINVAL);
        assert_int_equal(lull_cluster_policy_set(ops, ops->parameter->least - 1.0, &set, &err),
                         -EINVAL);
        for (uint64_t seed = 1; seed <= SEEDS / 4; seed++) {
            const struct spy_options options = options_of(seed);

            spy_make(&it, &options, seed);
            for (int most = 0; most < 2; most++) {
                struct lull_cluster_run *run;

                assert_int_equal(
                    lull_cluster_policy_set(
                        ops, most ? ops->parameter->most : ops->parameter->least, &set, NULL),
                    0);
                run = spy_run(&it, &set, NULL, &spied);
                spy_check(&it, run, &spied);
                lull_cluster_run_destroy(run);
            }
        }
    }
}

/* ---- work conservation ---------------------------------------------------------------------- */

static uint64_t gpus_of[4]; /* [pool * types + type] */

static void count_gpus(void)
{
    memset(gpus_of, 0, sizeof(gpus_of));
    for (uint32_t i = 0; i < it.cluster.node_count; i++)
        gpus_of[it.nodes[i].pool * it.cluster.type_count + it.nodes[i].type] += it.nodes[i].gpus;
}

static bool fits(const struct lull_cluster_state *state, uint32_t job)
{
    struct lull_cluster_share shares[SPY_NODES];

    for (uint32_t type = 0; type < it.cluster.type_count; type++) {
        const uint32_t point = lull_cluster_first_point(&it.all[job], type, &it.cluster, gpus_of);

        if (point < it.all[job].point_count &&
            lull_cluster_place_consolidated(state, it.all[job].pool, type,
                                            it.points[job][point].gpus, shares) > 0)
            return true;
    }
    return false;
}

static void nobody_fits(const struct spy_case *unused, const struct spy_log *log,
                        const struct lull_cluster_state *state, int64_t now_ns,
                        const bool *is_waiting)
{
    (void)unused;
    (void)log;
    (void)now_ns;
    for (uint32_t job = 0; job < it.jobs.count; job++)
        holds(!is_waiting[job] || !fits(state, job), it.seed);
}

static void test_work_conservation(void **state)
{
    const struct lull_cluster_policy_ops *const ranked[] = {
        lull_cluster_policy_find("srtf"), lull_cluster_policy_find("srsf"),
        lull_cluster_policy_find("hdf"), lull_cluster_policy_find("powerflow")};

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct spy_options options = options_of(seed);

        spy_make(&it, &options, seed);
        count_gpus();
        for (size_t i = 0; i < 4; i++)
            /* One that was dispatched to a type waits for it. */
            if (options.types == 1 || ranked[i]->name[0] != 'h')
                lull_cluster_run_destroy(spy_run(&it, ranked[i], nobody_fits, &spied));
    }
}

/* ---- EASY ----------------------------------------------------------------------------------- */

static int64_t bound_ns[SPY_JOBS]; /* by when a job that was first had to start */

static bool has_room(const uint32_t *free, uint32_t pool, uint32_t type, uint32_t gpus)
{
    const uint32_t node_gpus = it.nodes[0].gpus;
    uint32_t whole = 0;
    uint32_t rest = 0;

    for (uint32_t i = 0; i < it.cluster.node_count; i++) {
        if (it.nodes[i].pool != pool || it.nodes[i].type != type)
            continue;
        whole += free[i] == node_gpus;
        rest += gpus % node_gpus > 0 && free[i] >= gpus % node_gpus;
    }
    if (gpus < node_gpus)
        return rest > 0;
    return whole >= gpus / node_gpus && (gpus % node_gpus == 0 || rest > gpus / node_gpus);
}

/* The time at which a job would fit on a type if no other job were started. */
static int64_t earliest_ns(const struct spy_log *log, uint32_t job, uint32_t type, int64_t now_ns)
{
    const uint32_t point = lull_cluster_first_point(&it.all[job], type, &it.cluster, gpus_of);
    uint32_t free[SPY_NODES];
    int64_t at_ns = now_ns;

    if (point == it.all[job].point_count)
        return LULL_CLUSTER_NEVER;
    for (;;) {
        int64_t next_ns = LULL_CLUSTER_NEVER;

        for (uint32_t i = 0; i < it.cluster.node_count; i++)
            free[i] = it.nodes[i].gpus;
        for (size_t i = 0; i < log->count; i++) {
            const struct spy_event *event = &log->events[i];
            const int64_t end_ns = event->at_ns + it.points[event->job][event->point].time_ns;

            if (event->kind != SPY_START || end_ns <= at_ns)
                continue;
            next_ns = end_ns < next_ns ? end_ns : next_ns;
            for (uint32_t share = 0; share < event->share_count; share++)
                free[event->shares[share].node] -= event->shares[share].gpus;
        }
        if (has_room(free, it.all[job].pool, type, it.points[job][point].gpus))
            return at_ns;
        at_ns = next_ns;
    }
}

static void note_heads(const struct spy_case *unused, const struct spy_log *log,
                       const struct lull_cluster_state *state, int64_t now_ns,
                       const bool *is_waiting)
{
    (void)unused;
    for (uint32_t pool = 0; pool < it.cluster.pool_count; pool++) {
        uint32_t job = 0;

        while (job < it.jobs.count && (!is_waiting[job] || it.all[job].pool != pool))
            job++;
        if (job == it.jobs.count)
            continue;
        holds(!fits(state, job), it.seed);
        for (uint32_t type = 0; type < it.cluster.type_count; type++) {
            const int64_t its_ns = earliest_ns(log, job, type, now_ns);

            bound_ns[job] = its_ns < bound_ns[job] ? its_ns : bound_ns[job];
        }
    }
}

/* Nothing that is started while a job is first delays it. */
static void test_backfill_never_delays_the_first(void **state)
{
    size_t filled = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct spy_options options = options_of(seed);
        struct lull_cluster_run *run;

        spy_make(&it, &options, seed);
        count_gpus();
        for (size_t i = 0; i < SPY_JOBS; i++)
            bound_ns[i] = LULL_CLUSTER_NEVER;
        run = spy_run(&it, lull_cluster_policy_find("backfill"), note_heads, &spied);
        for (size_t i = 0; i < spied.count; i++) {
            const struct spy_event *event = &spied.events[i];

            if (event->kind != SPY_START)
                continue;
            holds(event->at_ns <= bound_ns[event->job], seed);
            for (size_t before = 0; before < i; before++)
                filled += spied.events[before].kind == SPY_START &&
                          it.all[spied.events[before].job].pool == it.all[event->job].pool &&
                          spied.events[before].job > event->job;
        }
        lull_cluster_run_destroy(run);
    }
    assert_true(filled > 1000);
}

/* ---- deadlines ------------------------------------------------------------------------------ */

/* A job that is not reported late beforehand is not late. Repairing helps. */
static void test_greedy_energy_announces_misses(void **state)
{
    size_t late = 0;
    size_t in_time = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 2 * SEEDS; seed += 4) {
        struct spy_options options = options_of(seed);
        struct lull_cluster_run *run;

        options.has_deadlines = true;
        spy_make(&it, &options, seed);
        run = spy_run(&it, lull_cluster_policy_find("greedy-energy"), NULL, &spied);
        for (uint32_t job = 0; job < it.jobs.count; job++) {
            const struct lull_cluster_outcome *outcome = &lull_cluster_run_outcomes(run)[job];
            const bool is_late = outcome->end_ns > it.all[job].deadline_ns;

            if (outcome->fate != LULL_CLUSTER_DONE)
                continue;
            holds(is_late == (strstr(outcome->reason, "late") != NULL), seed);
            late += is_late;
            in_time += it.all[job].deadline_ns != LULL_CLUSTER_NEVER && !is_late;
        }
        lull_cluster_run_destroy(run);
    }
    assert_true(late > 20 && in_time > 500);
}

static void check_memory(const struct lull_cluster_policy_ops *policy)
{
    size_t before = 0;

    for (int i = 0; i < 110; i++) {
        struct lull_cluster_policy *made = NULL;

        if (i == 10)
            before = heap_bytes();
        assert_int_equal(lull_cluster_policy_create(policy, &it.cluster, &it.jobs, &made), 0);
        assert_int_equal(policy->calls->arrive(made, 0, it.all[0].arrival_ns), 0);
        policy->calls->destroy(made);
    }
    if (heap_bytes() > before + 4000)
        fail_msg("%s has lost %zu bytes", policy->name, heap_bytes() - before);
}

static void test_no_memory_is_lost(void **state)
{
    (void)state;
    for (int is_preemptible = 0; is_preemptible < 2; is_preemptible++) {
        struct spy_options options = options_of(1);

        options.is_preemptible = is_preemptible != 0;
        spy_make(&it, &options, 1);
        for (const struct lull_cluster_policy_ops *const *policy = all(); *policy != NULL; policy++)
            check_memory(*policy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs_and_gpus),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_no_memory_is_lost),
        cmocka_unit_test(test_work_conservation),
        cmocka_unit_test(test_backfill_never_delays_the_first),
        cmocka_unit_test(test_greedy_energy_announces_misses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
