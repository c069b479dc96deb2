/*
 * Reservations on nodes against brute force: free GPUs by node and second. Also the first waiting
 * job that is short enough, against a linear search. SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/core/model/calendar.h"
#include "cluster/core/model/job.h"
#include "cluster/core/policy/waiting.h"
#include "tests/core/property.h"

enum { NODES = 10, POOLS = 2, TYPES = 2, HORIZON = 400, MAX = 60, SEEDS = 300, STEPS = 80 };

static struct lull_cluster_node nodes[NODES];
static const struct lull_cluster_type types[TYPES] = {{.name = "A"}, {.name = "B"}};
static const struct lull_cluster cluster = {types, TYPES, nodes, NODES, POOLS};
static uint32_t free_gpus[NODES][HORIZON + MAX];

struct reservation {
    struct lull_cluster_share shares[NODES];
    size_t count;
    int64_t from, until;
};

static uint32_t least_free(uint32_t node, int64_t from, int64_t until)
{
    uint32_t least = UINT32_MAX;

    for (int64_t at = from; at < until; at++)
        least = free_gpus[node][at] < least ? free_gpus[node][at] : least;
    return least;
}

static uint32_t max_gpus(const struct lull_calendar_request *request)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < NODES; i++)
        if (nodes[i].pool == request->pool && nodes[i].type == request->type &&
            nodes[i].gpus > most)
            most = nodes[i].gpus;
    return most;
}

static bool is_possible_at(const struct lull_calendar_request *request, int64_t at)
{
    const uint32_t most = max_gpus(request);
    const uint32_t whole = most > 0 && request->gpus > most ? request->gpus / most : 0;
    const uint32_t rest = whole > 0 ? request->gpus % most : request->gpus;
    uint32_t wholes = 0;
    uint32_t rests = 0;

    for (uint32_t i = 0; i < NODES; i++) {
        const uint32_t free = least_free(i, at, at + request->time_ns);

        if (nodes[i].pool != request->pool || nodes[i].type != request->type)
            continue;
        wholes += free >= most;
        rests += free >= rest;
    }
    return wholes >= whole && (rest == 0 || rests > whole);
}

static void check_found(const struct lull_calendar_request *request, int64_t now, int64_t found,
                        const struct reservation *got, uint64_t seed)
{
    uint32_t gpus = 0;

    for (int64_t at = now; at < HORIZON; at++) {
        if (!is_possible_at(request, at))
            continue;
        holds(found == at, seed);
        break;
    }
    if (found == LULL_CLUSTER_NEVER) {
        holds(max_gpus(request) == 0 || !is_possible_at(request, HORIZON - 1), seed);
        return;
    }
    for (size_t i = 0; i < got->count; i++) {
        const struct lull_cluster_share *share = &got->shares[i];

        holds(nodes[share->node].pool == request->pool && nodes[share->node].type == request->type,
              seed);
        holds(least_free(share->node, found, found + request->time_ns) >= share->gpus, seed);
        for (size_t other = 0; other < i; other++)
            holds(got->shares[other].node != share->node, seed);
        gpus += share->gpus;
    }
    holds(gpus == request->gpus, seed);
}

static void book(const struct reservation *it, int sign)
{
    for (size_t i = 0; i < it->count; i++)
        for (int64_t at = it->from; at < it->until; at++)
            free_gpus[it->shares[i].node][at] += (uint32_t)sign * it->shares[i].gpus;
}

static void run_case(uint64_t seed)
{
    static struct reservation kept[STEPS];
    struct lull_calendar *calendar = NULL;
    struct lull_random random;
    size_t count = 0;
    int64_t now = 0;

    lull_random_init(&random, seed);
    for (uint32_t i = 0; i < NODES; i++) {
        nodes[i] = (struct lull_cluster_node){.pool = (uint32_t)lull_random_below(&random, POOLS),
                                              .type = (uint32_t)lull_random_below(&random, TYPES),
                                              .gpus = seed % 3 == 0 && i % 2 == 0 ? 2 : 4};
        for (size_t at = 0; at < HORIZON + MAX; at++)
            free_gpus[i][at] = nodes[i].gpus;
    }
    assert_int_equal(lull_calendar_create(&cluster, &calendar), 0);
    for (int step = 0; step < STEPS; step++) {
        const struct lull_calendar_request request = {
            .pool = (uint32_t)lull_random_below(&random, POOLS),
            .type = (uint32_t)lull_random_below(&random, TYPES),
            .gpus = 1 + (uint32_t)lull_random_below(&random, 11),
            .time_ns = 1 + (int64_t)lull_random_below(&random, 20),
        };
        struct reservation *const it = &kept[count];

        now += (int64_t)lull_random_below(&random, 3);
        it->from = lull_calendar_find(calendar, &request, now, LULL_CLUSTER_NEVER, NULL, it->shares,
                                      &it->count);
        check_found(&request, now, it->from, it, seed);
        if (it->from == LULL_CLUSTER_NEVER || it->from + request.time_ns >= HORIZON)
            continue;
        it->until = it->from + request.time_ns;
        book(it, -1);
        assert_int_equal(lull_calendar_add(calendar, it->shares, it->count, it->from, it->until),
                         0);
        count++;
        if (lull_random_below(&random, 3) == 0) {
            const size_t gone = lull_random_below(&random, count);

            /* A booking that has begun is removed from now on only: its past stays. */
            if (kept[gone].from < now)
                kept[gone].from = now < kept[gone].until ? now : kept[gone].until;
            book(&kept[gone], 1);
            if (kept[gone].from < kept[gone].until)
                assert_int_equal(lull_calendar_remove(calendar, kept[gone].shares, kept[gone].count,
                                                      kept[gone].from, kept[gone].until),
                                 0);
            kept[gone] = kept[--count];
        }
    }
    lull_calendar_destroy(calendar);
}

static void test_earliest_times(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_case(seed);
}

static void test_first_that_is_short_enough(void **state)
{
    enum { JOBS = 200 };

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct lull_waiting waiting = {0};
        int64_t times[JOBS];
        struct lull_random random;

        lull_random_init(&random, seed);
        for (uint32_t job = 0; job < JOBS; job++) {
            const uint32_t gone = (uint32_t)lull_random_below(&random, job + 1);
            const uint32_t after = (uint32_t)lull_random_below(&random, job + 2) - 1;
            const int64_t most = (int64_t)lull_random_below(&random, 60);
            uint32_t first = after + 1;

            times[job] = 1 + (int64_t)lull_random_below(&random, 50);
            assert_int_equal(lull_waiting_add(&waiting, job, times[job]), 0);
            if (lull_random_below(&random, 2) == 0 && times[gone] < INT64_MAX) {
                lull_waiting_remove(&waiting, gone);
                times[gone] = INT64_MAX;
            } else if (times[gone] == INT64_MAX && lull_random_below(&random, 4) == 0) {
                times[gone] = 1 + (int64_t)lull_random_below(&random, 50);
                assert_int_equal(lull_waiting_add(&waiting, gone, times[gone]), 0);
            }
            while (first <= job && times[first] > most)
                first++;
            holds(lull_waiting_first(&waiting, after, most) ==
                      (first <= job ? first : LULL_WAITING_NONE),
                  seed);
        }
        lull_waiting_fini(&waiting);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_earliest_times),
        cmocka_unit_test(test_first_that_is_short_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
