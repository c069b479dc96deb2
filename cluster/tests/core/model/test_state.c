/*
 * Free GPUs and consolidated placement against linear searches over all nodes.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/core/model/job.h"
#include "cluster/core/model/placement.h"
#include "core/stats/random.h"

enum { NODES = 150, POOLS = 3, TYPES = 2, RACKS = 5, STEPS = 4000, MAX_JOBS = 64 };

static struct lull_cluster_node nodes[NODES];
static const struct lull_cluster_type types[TYPES] = {{.name = "A"}, {.name = "B"}};
static const struct lull_cluster cluster = {types, TYPES, nodes, NODES, POOLS};

static uint32_t node_gpus(uint32_t pool, uint32_t type)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < NODES; i++)
        if (nodes[i].pool == pool && nodes[i].type == type && nodes[i].gpus > most)
            most = nodes[i].gpus;
    return most;
}

/* The node of least or most free GPUs, of equals the first, among those with at least gpus. */
static uint32_t extreme(const uint32_t *free, uint32_t pool, uint32_t type, uint32_t gpus,
                        bool wants_most)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < NODES; i++)
        if (nodes[i].pool == pool && nodes[i].type == type && free[i] >= gpus &&
            (best == UINT32_MAX || (wants_most ? free[i] > free[best] : free[i] < free[best])))
            best = i;
    return best;
}

static uint32_t whole_of(const uint32_t *free, uint32_t pool, uint32_t type, uint32_t rack)
{
    uint32_t whole = 0;

    for (uint32_t i = 0; i < NODES; i++)
        whole += nodes[i].pool == pool && nodes[i].type == type && nodes[i].rack == rack &&
                 free[i] == node_gpus(pool, type);
    return whole;
}

/* The rack of which to take so many whole nodes, or as many as there are; RACKS: none. */
static uint32_t next_rack(const uint32_t *free, uint32_t pool, uint32_t type, uint32_t wanted)
{
    uint32_t fits = RACKS;
    uint32_t fullest = RACKS;

    for (uint32_t rack = RACKS; rack-- > 0;) {
        const uint32_t whole = whole_of(free, pool, type, rack);

        if (whole >= wanted && (fits == RACKS || whole <= whole_of(free, pool, type, fits)))
            fits = rack;
        if (whole > 0 && (fullest == RACKS || whole >= whole_of(free, pool, type, fullest)))
            fullest = rack;
    }
    return fits < RACKS ? fits : fullest;
}

/* Returns whether one of the shares is in the node's rack. */
static bool is_near(const struct lull_cluster_share *shares, size_t count, uint32_t node)
{
    for (size_t i = 0; i < count; i++)
        if (nodes[shares[i].node].rack == nodes[node].rack)
            return true;
    return false;
}

static uint32_t place_rest(const uint32_t *free, uint32_t pool, uint32_t type, uint32_t gpus,
                           const struct lull_cluster_share *shares, size_t count)
{
    uint32_t near[NODES];
    uint32_t node;

    for (uint32_t i = 0; i < NODES; i++)
        near[i] = is_near(shares, count, i) ? free[i] : 0;
    node = extreme(near, pool, type, gpus, true);
    return node != UINT32_MAX ? node : extreme(free, pool, type, gpus, true);
}

/* The rule as documented, on a copy. */
static size_t place_slowly(const uint32_t *free_now, uint32_t pool, uint32_t type, uint32_t gpus,
                           struct lull_cluster_share *shares)
{
    const uint32_t most = node_gpus(pool, type);
    uint32_t free[NODES];
    uint32_t whole;
    size_t count = 0;
    uint32_t node;

    memcpy(free, free_now, sizeof(free));
    if (most == 0)
        return 0;
    whole = gpus > most ? gpus / most : 0;
    while (whole > 0) {
        const uint32_t rack = next_rack(free, pool, type, whole);

        if (rack == RACKS)
            return 0;
        for (uint32_t i = 0; i < NODES && whole > 0; i++)
            if (nodes[i].pool == pool && nodes[i].type == type && nodes[i].rack == rack &&
                free[i] == most) {
                shares[count++] = (struct lull_cluster_share){i, most};
                free[i] = 0;
                whole--;
            }
    }
    gpus -= (uint32_t)count * most;
    if (gpus == 0)
        return count;
    node = count > 0 ? place_rest(free, pool, type, gpus, shares, count)
                     : extreme(free, pool, type, gpus, false);
    if (node == UINT32_MAX)
        return 0;
    shares[count++] = (struct lull_cluster_share){node, gpus};
    return count;
}

struct gang {
    struct lull_cluster_share shares[NODES];
    size_t count;
};

static void compare(const struct lull_cluster_state *state, const uint32_t *free,
                    struct lull_random *random, struct gang *gang)
{
    const uint32_t pool = (uint32_t)lull_random_below(random, POOLS);
    const uint32_t type = (uint32_t)lull_random_below(random, TYPES);
    const uint32_t gpus =
        1 + (uint32_t)lull_random_below(random, lull_random_below(random, 2) ? 8 : 60);
    struct lull_cluster_share expected[NODES];
    const size_t count = place_slowly(free, pool, type, gpus, expected);

    gang->count = lull_cluster_place_consolidated(state, pool, type, gpus, gang->shares);
    assert_int_equal(gang->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(gang->shares[i].node, expected[i].node);
        assert_int_equal(gang->shares[i].gpus, expected[i].gpus);
    }
}

static void check_counts(const struct lull_cluster_state *state, const uint32_t *free)
{
    for (uint32_t pool = 0; pool < POOLS; pool++)
        for (uint32_t type = 0; type < TYPES; type++) {
            uint64_t sum = 0;

            for (uint32_t i = 0; i < NODES; i++)
                sum += nodes[i].pool == pool && nodes[i].type == type ? free[i] : 0;
            assert_int_equal(lull_cluster_state_free_of(state, pool, type), sum);
        }
}

/* Computes the GPUs of each node that may be given to jobs, as a policy sees them. */
static void look(const uint32_t *free, const enum lull_cluster_power *power, uint32_t *seen)
{
    for (uint32_t i = 0; i < NODES; i++)
        seen[i] = power[i] == LULL_CLUSTER_ON ? free[i] : 0;
}

static void check_node(const struct lull_cluster_state *state, const uint32_t *free,
                       const enum lull_cluster_power *power, uint32_t node)
{
    assert_int_equal(lull_cluster_state_power(state, node), power[node]);
    assert_int_equal(lull_cluster_state_is_idle(state, node),
                     power[node] == LULL_CLUSTER_ON && free[node] == nodes[node].gpus);
}

/* Nodes change their power at any time, with gangs on them or not. */
static void come_and_go(uint64_t seed, uint32_t racks)
{
    enum lull_cluster_power power[NODES] = {LULL_CLUSTER_ON};
    uint32_t seen[NODES];
    static struct gang gangs[MAX_JOBS];
    struct lull_cluster_state *state;
    struct lull_random random;
    uint32_t free[NODES];
    size_t running = 0;

    lull_random_init(&random, seed);
    for (uint32_t i = 0; i < NODES; i++) {
        nodes[i] = (struct lull_cluster_node){.pool = (uint32_t)lull_random_below(&random, POOLS),
                                              .type = (uint32_t)lull_random_below(&random, TYPES),
                                              .gpus = lull_random_below(&random, 4) ? 8 : 4,
                                              .rack = (uint32_t)lull_random_below(&random, racks)};
        free[i] = nodes[i].gpus;
    }
    assert_int_equal(lull_cluster_check(&cluster, NULL), 0);
    assert_int_equal(lull_cluster_state_create(&cluster, &state), 0);
    for (int step = 0; step < STEPS; step++) {
        const uint32_t changed = (uint32_t)lull_random_below(&random, NODES);

        power[changed] =
            lull_random_below(&random, 4) ? LULL_CLUSTER_ON : (enum lull_cluster_power)(step % 4);
        lull_cluster_state_set_power(state, changed, power[changed]);
        check_node(state, free, power, changed);
        look(free, power, seen);
        if (running == MAX_JOBS || (running > 0 && lull_random_below(&random, 3) == 0)) {
            const size_t leaving = lull_random_below(&random, running);

            lull_cluster_state_give(state, gangs[leaving].shares, gangs[leaving].count);
            for (size_t i = 0; i < gangs[leaving].count; i++)
                free[gangs[leaving].shares[i].node] += gangs[leaving].shares[i].gpus;
            gangs[leaving] = gangs[--running];
        } else {
            compare(state, seen, &random, &gangs[running]);
            lull_cluster_state_take(state, gangs[running].shares, gangs[running].count);
            for (size_t i = 0; i < gangs[running].count; i++)
                free[gangs[running].shares[i].node] -= gangs[running].shares[i].gpus;
            running += gangs[running].count > 0;
        }
        look(free, power, seen);
        check_counts(state, seen);
    }
    lull_cluster_state_destroy(state);
}

static void test_gangs_come_and_go(void **context)
{
    (void)context;
    come_and_go(1, 1);
    come_and_go(2, RACKS);
}

static void test_bad_clusters(void **context)
{
    struct lull_cluster bad = cluster;

    (void)context;
    bad.node_count = 0;
    assert_int_equal(lull_cluster_check(&bad, NULL), -EINVAL);
    bad = cluster;
    bad.pool_count = 1;
    assert_int_equal(lull_cluster_check(&bad, NULL), -EINVAL);
    bad = cluster;
    nodes[7].gpus = 0;
    assert_int_equal(lull_cluster_check(&bad, NULL), -EINVAL);
}

/* A type of unknown memory holds every job. */
static void test_who_has_memory(void **context)
{
    static const struct {
        uint32_t type_mib, job_mib;
        bool has;
    } cases[] = {{0, 0, true}, {0, 81920, true}, {40960, 40960, true}, {40960, 40961, false}};

    (void)context;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct lull_cluster_type type = {.memory_mib = cases[i].type_mib};
        const struct lull_cluster_job job = {.memory_mib = cases[i].job_mib};

        assert_int_equal(lull_cluster_has_memory(&job, &type), cases[i].has);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gangs_come_and_go),
        cmocka_unit_test(test_bad_clusters),
        cmocka_unit_test(test_who_has_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
