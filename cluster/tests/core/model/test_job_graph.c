/*
 * List schedules of a job's tasks: against the best schedule of tiny graphs, found by trying all
 * orders; and against invariants of every schedule. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "critical_path.h"
#include "cluster/core/model/job_graph.h"
#include "core/stats/random.h"

enum { MAX = 7, SLOTS = 64, RESOURCES = 3 };

static int64_t duration_ns[512];
static int64_t begin_ns[512];

static void add_resource(struct lull_job_graph *graph, uint32_t units, enum lull_job_order order)
{
    const struct lull_job_resource resource = {units, order};

    assert_true(lull_job_graph_add_resource(graph, &resource) >= 0);
}

static uint32_t add(struct lull_job_graph *graph, enum lull_job_task_kind kind, uint32_t resource,
                    int64_t time_ns)
{
    const struct lull_job_task task = {kind, resource, resource, time_ns, 0};
    const int64_t at = lull_job_graph_add(graph, &task);

    assert_true(at >= 0);
    duration_ns[at] = time_ns;
    return (uint32_t)at;
}

/* ---- the best of all orders --------------------------------------------------------------- */

struct search {
    const struct lull_job_graph *graph;
    uint8_t used[RESOURCES][SLOTS];
    int64_t end[MAX];
    bool is_placed[MAX];
    int64_t best;
};

static bool is_ready(const struct search *search, uint32_t task)
{
    for (size_t i = 0; i < search->graph->edge_count; i++)
        if (search->graph->edges[i].to == task && !search->is_placed[search->graph->edges[i].from])
            return false;
    return !search->is_placed[task];
}

static int64_t earliest(const struct search *search, uint32_t task)
{
    const struct lull_job_task *asked = &search->graph->tasks[task];
    int64_t at = 0;

    for (size_t i = 0; i < search->graph->edge_count; i++)
        if (search->graph->edges[i].to == task && search->end[search->graph->edges[i].from] > at)
            at = search->end[search->graph->edges[i].from];
    for (int64_t t = at; t < at + asked->time_ns; t++)
        if (search->used[asked->resource][t] == search->graph->resources[asked->resource].units)
            at = t + 1;
    return at;
}

static void try_orders(struct search *search, size_t placed, int64_t makespan)
{
    if (makespan >= search->best)
        return;
    if (placed == search->graph->task_count) {
        search->best = makespan;
        return;
    }
    for (uint32_t task = 0; task < search->graph->task_count; task++) {
        if (!is_ready(search, task))
            continue;

        const struct lull_job_task *asked = &search->graph->tasks[task];
        const int64_t at = earliest(search, task);

        search->is_placed[task] = true;
        search->end[task] = at + asked->time_ns;
        for (int64_t t = at; t < search->end[task]; t++)
            search->used[asked->resource][t]++;
        try_orders(search, placed + 1, search->end[task] > makespan ? search->end[task] : makespan);
        for (int64_t t = at; t < search->end[task]; t++)
            search->used[asked->resource][t]--;
        search->is_placed[task] = false;
    }
}

static int64_t find_best(const struct lull_job_graph *graph)
{
    struct search search = {.graph = graph, .best = INT64_MAX};

    try_orders(&search, 0, 0);
    return search.best;
}

/* ---- invariants of schedules -------------------------------------------------------------- */

static void check_schedule(const struct lull_job_graph *graph, int64_t makespan)
{
    int64_t last = 0;

    for (size_t i = 0; i < graph->edge_count; i++) {
        const struct lull_job_edge *edge = &graph->edges[i];

        assert_true(begin_ns[edge->to] >= begin_ns[edge->from] + duration_ns[edge->from]);
    }
    for (size_t i = 0; i < graph->task_count; i++) {
        uint32_t beside = 0;

        for (size_t k = 0; k < graph->task_count; k++)
            beside += graph->tasks[k].resource == graph->tasks[i].resource &&
                      begin_ns[k] <= begin_ns[i] && begin_ns[i] < begin_ns[k] + duration_ns[k];
        assert_true(beside <= graph->resources[graph->tasks[i].resource].units);
        if (begin_ns[i] + duration_ns[i] > last)
            last = begin_ns[i] + duration_ns[i];
    }
    assert_int_equal(last, makespan);
}

static void draw(struct lull_random *random, struct lull_job_graph *graph, uint32_t edges)
{
    const uint32_t count = 2 + (uint32_t)lull_random_below(random, MAX - 1);

    *graph = (struct lull_job_graph){0};
    for (uint32_t i = 0; i < RESOURCES; i++)
        add_resource(graph, 1 + (uint32_t)lull_random_below(random, 2),
                     i == 2 ? LULL_JOB_SHORTEST_FIRST : LULL_JOB_BY_RANK);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t resource = (uint32_t)lull_random_below(random, RESOURCES);

        add(graph, resource == 2 ? LULL_JOB_TRANSFER : LULL_JOB_COMPUTE, resource,
            1 + (int64_t)lull_random_below(random, 5));
    }
    for (uint32_t i = 0; i < edges; i++) {
        const uint32_t to = 1 + (uint32_t)lull_random_below(random, count - 1);

        assert_int_equal(lull_job_graph_connect(graph, (uint32_t)lull_random_below(random, to), to),
                         0);
    }
    assert_int_equal(lull_job_graph_finish(graph, NULL), 0);
}

static void test_against_all_orders(void **state)
{
    struct lull_random random;
    uint32_t best = 0;

    (void)state;
    lull_random_init(&random, 3);
    for (uint32_t round = 0; round < 400; round++) {
        struct lull_job_graph graph;

        draw(&random, &graph, (uint32_t)lull_random_below(&random, 9));

        const int64_t got = lull_job_graph_schedule(&graph, duration_ns, begin_ns);
        const int64_t wanted = find_best(&graph);

        check_schedule(&graph, got);
        assert_true(got >= wanted);
        assert_true(wanted >= critical_path(&graph, duration_ns));
        best += got == wanted;
        lull_job_graph_fini(&graph);
    }
    print_message("the best in %u of 400\n", best);
    assert_true(best >= 360);
}

/* Graham: at most 2 - 1/m times the best on m equal machines, with and without edges. */
static void test_equal_machines(void **state)
{
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 5);
    for (uint32_t round = 0; round < 400; round++) {
        const uint32_t machines = 1 + (uint32_t)lull_random_below(&random, 3);
        const uint32_t count = 2 + (uint32_t)lull_random_below(&random, MAX - 1);
        struct lull_job_graph graph;

        graph = (struct lull_job_graph){0};
        add_resource(&graph, machines, LULL_JOB_BY_RANK);
        for (uint32_t i = 0; i < count; i++)
            add(&graph, LULL_JOB_COMPUTE, 0, 1 + (int64_t)lull_random_below(&random, 7));
        for (uint32_t i = 1; round % 2 == 1 && i < count; i++)
            lull_job_graph_connect(&graph, (uint32_t)lull_random_below(&random, i), i);
        assert_int_equal(lull_job_graph_finish(&graph, NULL), 0);

        const int64_t got = lull_job_graph_schedule(&graph, duration_ns, begin_ns);
        const int64_t best = find_best(&graph);

        check_schedule(&graph, got);
        assert_true(got >= best && got * machines <= (2 * machines - 1) * best);
        lull_job_graph_fini(&graph);
    }
}

static void test_chain(void **state)
{
    struct lull_job_graph graph;
    struct lull_job_usage usage[3];
    int64_t sum = 0;

    (void)state;
    graph = (struct lull_job_graph){0};
    for (uint32_t i = 0; i < 3; i++)
        add_resource(&graph, 1, LULL_JOB_BY_RANK);
    for (uint32_t i = 0; i < 300; i++) {
        add(&graph, LULL_JOB_COMPUTE, i % 3, i);
        sum += i;
        if (i > 0)
            assert_int_equal(lull_job_graph_connect(&graph, i - 1, i), 0);
    }
    assert_int_equal(lull_job_graph_finish(&graph, NULL), 0);
    assert_int_equal(lull_job_graph_schedule(&graph, duration_ns, begin_ns), sum);
    assert_int_equal(lull_job_graph_usage(&graph, duration_ns, begin_ns, sum, usage), 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(usage[i].exposed_ns, 0);
        assert_int_equal(usage[i].compute_ns + usage[i].bubble_ns, sum);
    }
    assert_int_equal(usage[0].compute_ns + usage[1].compute_ns + usage[2].compute_ns, sum);
    lull_job_graph_fini(&graph);
}

/* A gradient in two buckets: the first moves beside the second's computation, the rest shows. */
static void test_exposed_communication(void **state)
{
    const struct lull_job_task transfer = {LULL_JOB_TRANSFER, 1, 0, 30, 0};
    struct lull_job_graph graph;
    struct lull_job_usage usage[2];

    (void)state;
    graph = (struct lull_job_graph){0};
    add_resource(&graph, 1, LULL_JOB_BY_RANK);
    add_resource(&graph, 1, LULL_JOB_SHORTEST_FIRST);
    add(&graph, LULL_JOB_COMPUTE, 0, 20);
    add(&graph, LULL_JOB_COMPUTE, 0, 20);
    assert_int_equal(lull_job_graph_add(&graph, &transfer), 2);
    assert_int_equal(lull_job_graph_add(&graph, &transfer), 3);
    duration_ns[2] = duration_ns[3] = 30;
    lull_job_graph_connect(&graph, 0, 1);
    lull_job_graph_connect(&graph, 0, 2);
    lull_job_graph_connect(&graph, 1, 3);
    assert_int_equal(lull_job_graph_finish(&graph, NULL), 0);
    assert_int_equal(lull_job_graph_schedule(&graph, duration_ns, begin_ns), 80);
    assert_int_equal(lull_job_graph_usage(&graph, duration_ns, begin_ns, 80, usage), 0);
    assert_int_equal(usage[0].compute_ns, 40);
    assert_int_equal(usage[0].exposed_ns, 40);
    assert_int_equal(usage[0].bubble_ns, 0);
    lull_job_graph_fini(&graph);
}

static void test_shortest_transfer_first(void **state)
{
    struct lull_job_graph graph;

    (void)state;
    graph = (struct lull_job_graph){0};
    add_resource(&graph, 1, LULL_JOB_SHORTEST_FIRST);
    add(&graph, LULL_JOB_TRANSFER, 0, 30);
    add(&graph, LULL_JOB_TRANSFER, 0, 10);
    add(&graph, LULL_JOB_TRANSFER, 0, 10);
    assert_int_equal(lull_job_graph_finish(&graph, NULL), 0);
    assert_int_equal(lull_job_graph_schedule(&graph, duration_ns, begin_ns), 50);
    assert_true(begin_ns[1] == 0 && begin_ns[2] == 10 && begin_ns[0] == 20);
    lull_job_graph_fini(&graph);
}

static void test_refused(void **state)
{
    const struct lull_job_task nowhere = {.resource = 1};
    const struct lull_job_task negative = {.time_ns = -1};
    const struct lull_job_resource none = {0};
    struct lull_job_graph graph;
    struct lull_error err = {0};

    (void)state;
    graph = (struct lull_job_graph){0};
    assert_int_equal(lull_job_graph_finish(&graph, &err), -EINVAL);
    add_resource(&graph, 1, LULL_JOB_BY_RANK);
    assert_int_equal(lull_job_graph_add_resource(&graph, &none), -EINVAL);
    assert_int_equal(lull_job_graph_add(&graph, &nowhere), -EINVAL);
    assert_int_equal(lull_job_graph_add(&graph, &negative), -EINVAL);
    add(&graph, LULL_JOB_COMPUTE, 0, 1);
    add(&graph, LULL_JOB_COMPUTE, 0, 1);
    assert_int_equal(lull_job_graph_connect(&graph, 0, 2), -EINVAL);
    assert_int_equal(lull_job_graph_connect(&graph, 0, 1), 0);
    assert_int_equal(lull_job_graph_connect(&graph, 1, 0), 0);
    assert_int_equal(lull_job_graph_finish(&graph, &err), -ELOOP);
    assert_non_null(strstr(err.text, "waits for itself"));
    lull_job_graph_fini(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_all_orders),
        cmocka_unit_test(test_equal_machines),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_exposed_communication),
        cmocka_unit_test(test_shortest_transfer_first),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
