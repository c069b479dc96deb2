/*
 * Plans and their single driver, against a driver that is simulated in small
 * steps and shares no code with the queue for which the plans were made. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <stdlib.h>

#include "core/pipeline/rounding/driver_calls.h"
#include "pipe_sim.h"
#include "../../property.h"

static const int64_t ms_ns = 1000000;

enum { MAX = 4096 };

/* A change of a device's clock, in the iterations one after the other. */
struct change {
    uint32_t device;
    bool is_raising;
    int64_t want_ns; /* latest begin of a raising, earliest one of a lowering */
    bool is_begun;
    int64_t begun_ns;
};

struct world {
    struct change changes[MAX]; /* of a device in their order */
    uint32_t count;
    uint32_t by_want[MAX];
    uint32_t raisings;
};

static uint32_t mhz_of(const struct lull_pipeline_problem *problem, const uint32_t *point,
                       uint32_t op)
{
    return lull_pipeline_class_of(problem, op)->points[point[op]].sm_mhz;
}

/* Lists the changes that three iterations of a plan request, one behind the other, each as long as
 * the plan. */
static void ask(struct world *world, const struct lull_pipeline_problem *problem,
                const struct lull_pipeline_switching *switching, const uint32_t *point)
{
    const struct lull_pipeline_graph *graph = problem->graph;
    int64_t *begin_ns = calloc(graph->op_count, sizeof(*begin_ns));
    int64_t *end_ns = calloc(graph->op_count, sizeof(*end_ns));
    const int64_t period_ns =
        lull_pipeline_switching_timeline(problem, switching, point, begin_ns, end_ns);

    world->count = 0;
    for (uint32_t device = 0; device < graph->device_count; device++) {
        const uint32_t first = graph->first_on[device];
        const uint32_t ops = graph->first_on[device + 1] - first;

        for (uint32_t i = 1; i < 3 * ops; i++) {
            const uint32_t before = graph->on_device[first + (i - 1) % ops];
            const uint32_t op = graph->on_device[first + i % ops];
            const bool is_raising = mhz_of(problem, point, op) > mhz_of(problem, point, before);

            if (mhz_of(problem, point, op) == mhz_of(problem, point, before))
                continue;
            assert_true(world->count < MAX);
            world->changes[world->count++] = (struct change){
                .device = device,
                .is_raising = is_raising,
                .want_ns = is_raising ? begin_ns[op] + i / ops * period_ns - switching->up_ns
                                      : end_ns[before] + (i - 1) / ops * period_ns,
            };
        }
    }
    free(begin_ns);
    free(end_ns);
}

/* Raisings by when they are wanted. */
static void sort_raisings(struct world *world)
{
    world->raisings = 0;
    for (uint32_t i = 0; i < world->count; i++) {
        uint32_t place = world->raisings;

        if (!world->changes[i].is_raising)
            continue;
        for (; place > 0 &&
               world->changes[world->by_want[place - 1]].want_ns > world->changes[i].want_ns;
             place--)
            world->by_want[place] = world->by_want[place - 1];
        world->by_want[place] = i;
        world->raisings++;
    }
}

/* With a driver that is free only then some raising is late, however they are ordered. */
static bool is_too_late(const struct world *world, int64_t free_ns, int64_t call_ns)
{
    for (uint32_t i = 0; i < world->raisings; i++) {
        const struct change *raising = &world->changes[world->by_want[i]];

        if (raising->is_begun)
            continue;
        if (free_ns > raising->want_ns)
            return true;
        free_ns += call_ns;
    }
    return false;
}

static struct change *most_urgent(struct world *world, bool is_raising, int64_t now_ns)
{
    struct change *best = NULL;

    for (uint32_t i = 0; i < world->count; i++) {
        struct change *change = &world->changes[i];

        if (change->is_begun || change->is_raising != is_raising ||
            (!is_raising && change->want_ns > now_ns))
            continue;
        if (best == NULL || change->want_ns < best->want_ns)
            best = change;
    }
    return best;
}

/* A raising goes when the driver could serve no other call before; else a lowering that waits. */
static void serve(struct world *world, int64_t call_ns)
{
    const int64_t step_ns = ms_ns / 10;
    int64_t until_ns = 0;
    int64_t free_ns = INT64_MIN;

    sort_raisings(world);
    for (uint32_t i = 0; i < world->count; i++)
        until_ns = world->changes[i].want_ns > until_ns ? world->changes[i].want_ns : until_ns;
    for (int64_t now_ns = -100 * call_ns; now_ns <= until_ns + 100 * call_ns; now_ns += step_ns) {
        struct change *change;

        if (now_ns < free_ns)
            continue;
        change = is_too_late(world, now_ns + step_ns, call_ns) ? most_urgent(world, true, now_ns)
                 : is_too_late(world, now_ns + call_ns, call_ns)
                     ? NULL
                     : most_urgent(world, false, now_ns);
        if (change == NULL)
            continue;
        change->is_begun = true;
        change->begun_ns = now_ns;
        free_ns = now_ns + call_ns;
    }
}

/* No raising ends late; every lowering goes before the device's next change. */
static bool is_served(const struct world *world, int64_t call_ns)
{
    const int64_t slack_ns = ms_ns;

    for (uint32_t i = 0; i < world->count; i++) {
        const struct change *change = &world->changes[i];

        if (change->is_raising &&
            (!change->is_begun || change->begun_ns > change->want_ns + slack_ns))
            return false;
        if (!change->is_raising && i + 1 < world->count && change[1].device == change->device &&
            change[1].is_begun &&
            (!change->is_begun || change->begun_ns + call_ns > change[1].begun_ns + slack_ns))
            return false;
    }
    return true;
}

/* Random plans, made deliverable: no clock becomes lower, and all calls are served in time. */
static void test_what_a_plan_asks_for_is_served(void **state)
{
    static struct world world;
    struct lull_random random;
    uint32_t left_out = 0;

    (void)state;
    lull_random_init(&random, 3);
    for (int i = 0; i < 12; i++) {
        struct pipe_sim_config job;
        struct lull_pipeline_switching switching = {.is_fed_forward = true, .drivers = 1};
        const struct lull_pipeline_problem *problem;
        struct pipe_sim *sim;
        uint32_t *point;
        uint32_t *given;

        pipe_sim_config_default(&job);
        job.devices = 2 + (uint32_t)lull_random_below(&random, 5);
        job.replicas = 1 + (uint32_t)lull_random_below(&random, 2);
        job.microbatches = job.devices + (uint32_t)lull_random_below(&random, 4);
        sim = pipe_sim_create(&job);
        problem = pipe_sim_problem(sim);
        point = calloc(problem->graph->op_count, sizeof(*point));
        given = calloc(problem->graph->op_count, sizeof(*given));
        switching.call_ns = (int64_t)(1 + lull_random_below(&random, 40)) * ms_ns;
        switching.up_ns = switching.call_ns + (int64_t)lull_random_below(&random, 20) * ms_ns;
        switching.down_ns = 10 * ms_ns;
        for (size_t op = 0; op < problem->graph->op_count; op++)
            point[op] = given[op] =
                lull_random_below(&random, 3) == 0 ? (uint32_t)lull_random_below(&random, 6) : 0;
        assert_int_equal(lull_pipeline_queue_deliver(problem, &switching, point), 0);
        for (size_t op = 0; op < problem->graph->op_count; op++) {
            holds(point[op] <= given[op], i);
            left_out += point[op] < given[op];
        }
        ask(&world, problem, &switching, point);
        serve(&world, switching.call_ns);
        holds(is_served(&world, switching.call_ns), i);
        free(point);
        free(given);
        pipe_sim_destroy(sim);
    }
    assert_true(left_out > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_a_plan_asks_for_is_served)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
