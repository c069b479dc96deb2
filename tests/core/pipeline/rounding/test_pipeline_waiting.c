/*
 * Waiting: against every choice for every gap, tick by tick; no operation is delayed, no change of
 * clock too soon after another.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/rounding/waiting.h"
#include "../pipeline_case.h"
#include "../../property.h"

enum { MOST_OPS = 40, MAX_POINTS = 4, TICK_NS = 1000000 };

static void draw_points(struct lull_random *random, struct lull_pipeline_waiting_point *points,
                        size_t count)
{
    for (size_t i = 0; i < count; i++)
        points[i] = (struct lull_pipeline_waiting_point){
            .sm_mhz = 300,
            .power_w = 100.0 * lull_random_uniform(random),
            .down_ns = (int64_t)lull_random_below(random, 15) * TICK_NS,
            .up_ns = (int64_t)lull_random_below(random, 15) * TICK_NS,
            .switch_j = lull_random_below(random, 2) == 0 ? 0.0 : lull_random_uniform(random)};
}

/* The saving of a gap at a point, ms by ms: the device is low from the end of the lowering until it
 * is woken. */
static double saved_by_ticks(const struct lull_pipeline_waiting_point *point, double blocking_w,
                             int64_t begin_ns, int64_t end_ns)
{
    double saved_j = -point->switch_j;

    for (int64_t now_ns = begin_ns; now_ns < end_ns; now_ns += TICK_NS)
        if (now_ns >= begin_ns + point->down_ns && now_ns < end_ns - point->up_ns)
            saved_j += (blocking_w - point->power_w) * 1e-3;
    return saved_j;
}

/* The best that a gap can save, at any point or at none. */
static double best_of_gap(const struct lull_pipeline_waiting_point *points, size_t count,
                          double blocking_w, int64_t begin_ns, int64_t end_ns)
{
    double best_j = 0.0;

    for (size_t i = 0; i < count; i++)
        if (end_ns - begin_ns > points[i].down_ns + points[i].up_ns)
            best_j = fmax(best_j, saved_by_ticks(&points[i], blocking_w, begin_ns, end_ns));
    return best_j;
}

static uint32_t clock_of(const struct pipeline_case *it, const uint32_t *option, uint32_t op)
{
    return it->profile.classes[it->graph.ops[op].class_index].points[option[op]].sm_mhz;
}

/* Compares the changes of every wait with all others of its device: those of the
 * plan, those of other waits, and the same changes an iteration earlier and later. */
static void check_dwell(const struct pipeline_case *it,
                        const struct lull_pipeline_timeline *timeline,
                        const struct lull_pipeline_wait *waits, size_t count, uint64_t seed)
{
    for (uint32_t device = 0; device < it->graph.device_count; device++) {
        int64_t reported_ns[3 * MOST_OPS + 8];
        bool is_wait[3 * MOST_OPS + 8];
        size_t reported = 0;
        uint32_t mhz = 0;

        for (int round = 0; round < 2; round++) { /* the first finds the clock at its end */
            int64_t free_ns = 0;

            for (uint32_t k = it->graph.first_on[device]; k < it->graph.first_on[device + 1]; k++) {
                uint32_t op = it->graph.on_device[k];
                uint32_t next = clock_of(it, timeline->point, op);
                bool replaced = false;

                for (size_t i = 0; i < count; i++)
                    replaced = replaced || waits[i].before_op == op;
                if (round == 1 && next > 0 && next != mhz && !replaced) {
                    is_wait[reported] = false;
                    reported_ns[reported++] = free_ns;
                }
                mhz = next > 0 ? next : mhz;
                free_ns = timeline->end_ns[op];
            }
        }
        for (size_t i = 0; i < count; i++)
            if (waits[i].device == device) {
                is_wait[reported] = is_wait[reported + 1] = true;
                reported_ns[reported++] = waits[i].begin_ns;
                reported_ns[reported++] = waits[i].wake_ns;
            }
        for (size_t a = 0; a < reported; a++)
            for (size_t b = 0; b < reported && is_wait[a]; b++)
                for (int64_t later = -1; later <= 1; later++)
                    holds((a == b && later == 0) ||
                              llabs(reported_ns[b] + later * timeline->period_ns -
                                    reported_ns[a]) >= timeline->dwell_ns,
                          seed);
    }
}

static void check(uint64_t seed, double *share_sum)
{
    const struct pipeline_case_random size = {MOST_OPS, 4, 4};
    struct lull_pipeline_waiting_point points[MAX_POINTS];
    struct lull_pipeline_wait waits[MOST_OPS + 4];
    int64_t duration_ns[MOST_OPS];
    int64_t begin_ns[MOST_OPS];
    int64_t end_ns[MOST_OPS];
    uint32_t option[MOST_OPS];
    struct lull_pipeline_timeline timeline = {option, begin_ns, end_ns, 0, 0};
    struct lull_random random;
    struct pipeline_case it;
    const struct lull_pipeline_graph *graph = &it.graph;
    double expected_j = 0.0;
    double saved_j = -1.0;
    double sum_j = 0.0;
    int64_t period_ns;
    size_t points_drawn;
    size_t count;

    lull_random_init(&random, seed);
    pipeline_case_draw(&it, &random, &size);
    points_drawn = (size_t)lull_random_below(&random, MAX_POINTS + 1);
    draw_points(&random, points, points_drawn);
    for (size_t op = 0; op < graph->op_count; op++)
        duration_ns[op] = (int64_t)(1 + lull_random_below(&random, 40)) * TICK_NS;
    for (size_t i = 0; i < graph->edge_count; i++)
        it.graph.edges[i].latency_ns -= it.graph.edges[i].latency_ns % TICK_NS;
    period_ns = lull_pipeline_earliest(graph, duration_ns, begin_ns) +
                (int64_t)lull_random_below(&random, 60) * TICK_NS;
    for (size_t op = 0; op < graph->op_count; op++)
        end_ns[op] = begin_ns[op] + duration_ns[op];
    for (size_t op = 0; op < graph->op_count; op++)
        option[op] = (uint32_t)lull_random_below(
            &random, it.profile.classes[graph->ops[op].class_index].point_count);
    timeline.period_ns = period_ns;
    if (lull_random_below(&random, 2) == 0)
        timeline.dwell_ns = (int64_t)lull_random_below(&random, 60) * TICK_NS;
    count = lull_pipeline_waiting(&it.problem, points, points_drawn, &timeline, waits, &saved_j);
    check_dwell(&it, &timeline, waits, count, seed);
    for (uint32_t device = 0; device < graph->device_count; device++) {
        int64_t free_ns = 0;

        for (uint32_t k = graph->first_on[device]; k < graph->first_on[device + 1]; k++) {
            uint32_t op = graph->on_device[k];

            expected_j +=
                best_of_gap(points, points_drawn, it.blocking_w[device], free_ns, begin_ns[op]);
            free_ns = end_ns[op];
        }
        expected_j += best_of_gap(points, points_drawn, it.blocking_w[device], free_ns, period_ns);
    }
    for (size_t i = 0; i < count; i++) {
        const struct lull_pipeline_waiting_point *point = &points[waits[i].point];
        int64_t next_ns =
            waits[i].before_op == UINT32_MAX ? period_ns : begin_ns[waits[i].before_op];

        holds(waits[i].saved_j > 0.0, seed);
        holds(waits[i].wake_ns + point->up_ns <= next_ns, seed);
        holds(waits[i].begin_ns + point->down_ns <= waits[i].wake_ns, seed);
        for (size_t op = 0; op < graph->op_count; op++)
            holds(graph->ops[op].device != waits[i].device || end_ns[op] <= waits[i].begin_ns ||
                      begin_ns[op] >= waits[i].end_ns,
                  seed);
        sum_j += waits[i].saved_j;
    }
    assert_near(saved_j, sum_j, 1e-9);
    if (timeline.dwell_ns == 0)
        assert_near(saved_j, expected_j, 1e-6);
    holds(saved_j <= expected_j + 1e-6, seed);
    *share_sum += count > 0 ? 1.0 : 0.0;
    pipeline_case_fini(&it);
}

static void test_every_gap(void **state)
{
    double with_waits = 0.0;

    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++)
        check(seed, &with_waits);
    printf("%.0f of 2000 timelines have a gap that pays\n", with_waits);
    assert_true(with_waits >= 500.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_gap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
