/*
 * Dwell: the worst-case timeline against a simulation in small steps; plans of tiny graphs against
 * all plans, judged from that timeline alone. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/switching/switching.h"
#include "switching_oracle.h"
#include "../pipeline_case.h"
#include "../../property.h"

enum { MOST_OPS = 8, MAX_DEVICES = 3, TICK_NS = 10000, CASES = 400 };

/* Returns the time of an operation at a clock. If it has no such point, the next one below counts,
 * or the lowest. */
static double time_at(const struct pipeline_case *it, uint32_t op, uint32_t mhz)
{
    const struct lull_pipeline_class *class = &it->profile.classes[it->graph.ops[op].class_index];

    for (size_t i = 0; i < class->point_count; i++)
        if (class->points[i].sm_mhz <= mhz)
            return (double)class->points[i].time_ns;
    return (double)class->points[class->point_count - 1].time_ns;
}

struct simulated {
    uint32_t next; /* place in on_device */
    bool busy;
    double done;      /* of the operation it is busy with */
    uint32_t low_mhz; /* until settled_ns */
    uint32_t mhz;
    int64_t settled_ns;
};

/* A device without work: tells the clock of its next operation. */
static void tell(const struct pipeline_case *it, const struct lull_pipeline_switching *switching,
                 const uint32_t *point, struct simulated *device, int64_t now_ns, uint32_t last)
{
    uint32_t mhz;
    uint32_t low;

    if (device->next == last)
        return;
    mhz = dwell_point_of(it, point, it->graph.on_device[device->next])->sm_mhz;
    if (mhz == 0 || mhz == device->mhz)
        return;
    low = device->mhz;
    if (now_ns < device->settled_ns && device->low_mhz < low)
        low = device->low_mhz;
    device->settled_ns = now_ns + (mhz > low ? switching->up_ns : switching->down_ns);
    device->low_mhz = mhz < low ? mhz : low;
    device->mhz = mhz;
}

static bool may_begin(const struct pipeline_case *it, uint32_t op, const int64_t *end_ns,
                      int64_t now_ns)
{
    for (size_t k = 0; k < it->graph.edge_count; k++) {
        const struct lull_pipeline_edge *edge = &it->graph.edges[k];

        if (edge->to == op &&
            (end_ns[edge->from] < 0 || end_ns[edge->from] + edge->latency_ns > now_ns))
            return false;
    }
    return true;
}

/* Returns the share of an operation that is done in a tick, at the present clock. */
static double progress(const struct pipeline_case *it, const uint32_t *point, uint32_t op,
                       const struct simulated *device, int64_t now_ns)
{
    const struct lull_pipeline_point *at = dwell_point_of(it, point, op);
    double time_ns = (double)at->time_ns;

    if (now_ns < device->settled_ns && at->sm_mhz > 0)
        time_ns = fmax(time_ns, time_at(it, op, device->low_mhz));
    return TICK_NS / time_ns;
}

static int64_t simulate(const struct pipeline_case *it,
                        const struct lull_pipeline_switching *switching, const uint32_t *point,
                        int64_t *end_ns)
{
    const struct lull_pipeline_graph *graph = &it->graph;
    struct simulated devices[MAX_DEVICES] = {0};
    size_t left = graph->op_count;
    int64_t now_ns = 0;

    for (size_t op = 0; op < graph->op_count; op++)
        end_ns[op] = -1;
    for (uint32_t i = 0; i < graph->device_count; i++) {
        devices[i].next = graph->first_on[i];
        devices[i].mhz = dwell_last_mhz(it, point, i);
        tell(it, switching, point, &devices[i], 0, graph->first_on[i + 1]);
    }
    for (; left > 0; now_ns += TICK_NS)
        for (uint32_t i = 0; i < graph->device_count; i++) {
            struct simulated *device = &devices[i];
            uint32_t op;

            if (device->next == graph->first_on[i + 1])
                continue;
            op = graph->on_device[device->next];
            if (!device->busy && !may_begin(it, op, end_ns, now_ns))
                continue;
            device->busy = true;
            device->done += progress(it, point, op, device, now_ns);
            if (device->done < 1.0)
                continue;
            end_ns[op] = now_ns + TICK_NS;
            *device = (struct simulated){device->next + 1, false,       0.0,
                                         device->low_mhz,  device->mhz, device->settled_ns};
            tell(it, switching, point, device, end_ns[op], graph->first_on[i + 1]);
            left--;
        }
    return now_ns;
}

static void draw(struct lull_random *random, struct pipeline_case *it,
                 struct lull_pipeline_switching *switching)
{
    const struct pipeline_case_random size = {7, 3, MAX_DEVICES};

    pipeline_case_draw(it, random, &size);
    *switching = (struct lull_pipeline_switching){
        .down_ns = (int64_t)lull_random_below(random, 20000000),
        .up_ns = (int64_t)lull_random_below(random, 20000000),
        .dwell_ns =
            lull_random_below(random, 3) == 0 ? 0 : (int64_t)lull_random_below(random, 120000000),
        .switch_j = lull_random_below(random, 2) == 0 ? 0.0 : 0.5 * lull_random_uniform(random),
        .is_fed_forward = lull_random_below(random, 2) == 0,
        .early_ns = (int64_t)lull_random_below(random, 1000000)};
}

static void test_timeline(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct lull_pipeline_switching switching;
        uint32_t point[MOST_OPS];
        int64_t begin_ns[MOST_OPS];
        int64_t end_ns[MOST_OPS];
        int64_t simulated_ns[MOST_OPS];
        struct lull_random random;
        struct pipeline_case it;
        int64_t margin_ns;

        lull_random_init(&random, seed);
        draw(&random, &it, &switching);
        switching.is_fed_forward = false;
        for (uint32_t op = 0; op < it.graph.op_count; op++)
            point[op] = (uint32_t)lull_random_below(
                &random, it.profile.classes[it.graph.ops[op].class_index].point_count);
        lull_pipeline_switching_timeline(&it.problem, &switching, point, begin_ns, end_ns);
        simulate(&it, &switching, point, simulated_ns);
        margin_ns = 3 * TICK_NS * (int64_t)it.graph.op_count;
        for (size_t op = 0; op < it.graph.op_count; op++)
            holds(llabs(end_ns[op] - simulated_ns[op]) <= margin_ns, seed);
        pipeline_case_fini(&it);
    }
}

/* ---- fed forward ------------------------------------------------------------------------- */

enum { ROUNDS = 4, FINE_NS = 2000, FED_CASES = 60 };

/* An operation's turn in one of several iterations, one behind the other. */
struct turn {
    uint32_t op;
    int64_t begin_ns;
    int64_t end_ns;
};

static uint32_t list_turns(const struct pipeline_case *it, const uint32_t *point,
                           const int64_t *end_ns, int64_t period_ns, uint32_t device,
                           struct turn *turns)
{
    uint32_t count = 0;

    for (int64_t round = 0; round < ROUNDS; round++)
        for (uint32_t k = it->graph.first_on[device]; k < it->graph.first_on[device + 1]; k++) {
            const uint32_t op = it->graph.on_device[k];
            const int64_t end = end_ns[op] + round * period_ns;

            turns[count++] = (struct turn){op, end - dwell_point_of(it, point, op)->time_ns, end};
        }
    return count;
}

/* Returns whether an operation ahead that is above this clock is so near that its raising comes
 * first. */
static bool is_soon_raised(const struct pipeline_case *it,
                           const struct lull_pipeline_switching *switching, const uint32_t *point,
                           const struct turn *turns, uint32_t next, uint32_t count, int64_t now_ns)
{
    const uint32_t mhz = dwell_point_of(it, point, turns[next].op)->sm_mhz;

    while (next < count && dwell_point_of(it, point, turns[next].op)->sm_mhz <= mhz)
        next++;
    return next < count && turns[next].begin_ns - switching->up_ns - now_ns < switching->down_ns;
}

static double effective_j(const struct pipeline_case *it, uint32_t op, uint32_t mhz)
{
    const struct lull_pipeline_class *class = &it->profile.classes[it->graph.ops[op].class_index];
    size_t i = 0;

    while (i + 1 < class->point_count && class->points[i].sm_mhz > mhz)
        i++;
    return 1e-9 * ((double)class->points[i].energy_nj -
                   it->blocking_w[it->graph.ops[op].device] * (double)class->points[i].time_ns);
}

/* An operation in small steps, at whatever clock there is; *end_out: when it really ends. */
static double run_turn(const struct pipeline_case *it, const struct turn *turn, uint32_t own,
                       uint32_t held, int64_t held_until_ns, uint32_t next, int64_t raised_ns,
                       int64_t *end_out)
{
    double left = 1.0;
    double sum_j = 0.0;

    *end_out = turn->begin_ns;
    while (left > 0.0) {
        const uint32_t mhz = held > own && *end_out < held_until_ns ? held
                             : next > own && *end_out >= raised_ns  ? next
                                                                    : own;
        const double done = fmin(FINE_NS / time_at(it, turn->op, mhz), left);

        left -= done;
        sum_j += done * effective_j(it, turn->op, mhz);
        *end_out += FINE_NS;
    }
    return sum_j;
}

/* Of the second iteration. */
static double more_of_device(const struct pipeline_case *it,
                             const struct lull_pipeline_switching *switching, const uint32_t *point,
                             const struct turn *turns, uint32_t count)
{
    uint32_t asked = 2000;
    uint32_t held = 0;
    int64_t held_until_ns = 0;
    int64_t end_ns = turns[0].end_ns;
    double more_j = 0.0;

    for (uint32_t i = 1; i <= 2 * (count / ROUNDS); i++) {
        const uint32_t op = turns[i].op;
        const uint32_t own = dwell_point_of(it, point, op)->sm_mhz;
        const uint32_t next = dwell_point_of(it, point, turns[i + 1].op)->sm_mhz;
        double used_j;

        if (own == 0) {
            end_ns = turns[i].end_ns;
            continue;
        }
        if (own > asked) {
            asked = own;
        } else if (own < asked && !is_soon_raised(it, switching, point, turns, i, count, end_ns)) {
            held = asked;
            held_until_ns = end_ns + switching->down_ns;
            asked = own;
        }
        used_j = run_turn(it, &turns[i], asked, held, held_until_ns, next,
                          turns[i + 1].begin_ns - switching->early_ns, &end_ns);
        if (i >= count / ROUNDS + 1)
            more_j += used_j - effective_j(it, op, own);
    }
    return more_j;
}

/* No operation begins below its clock; what that needs besides, against small steps. */
static void test_fed_forward(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= FED_CASES; seed++) {
        struct lull_pipeline_switching switching;
        uint32_t point[MOST_OPS];
        int64_t end_ns[MOST_OPS];
        struct turn turns[ROUNDS * MOST_OPS + 1];
        struct lull_random random;
        struct pipeline_case it;
        double more_j = 0.0;
        int64_t time_ns;

        lull_random_init(&random, seed);
        draw(&random, &it, &switching);
        switching.is_fed_forward = true;
        switching.early_ns = (int64_t)lull_random_below(&random, 1000000);
        for (uint32_t op = 0; op < it.graph.op_count; op++)
            point[op] = (uint32_t)lull_random_below(
                &random, it.profile.classes[it.graph.ops[op].class_index].point_count);
        time_ns = lull_pipeline_switching_timeline(&it.problem, &switching, point, NULL, end_ns);
        holds(time_ns == lull_pipeline_plan_cost(&it.problem, point, 0).time_ns, seed);
        for (uint32_t device = 0; device < it.graph.device_count; device++) {
            const uint32_t count = list_turns(&it, point, end_ns, time_ns, device, turns);

            if (count > 0)
                more_j += more_of_device(&it, &switching, point, turns, count);
        }
        holds(fabs(lull_pipeline_switching_energy_j(&it.problem, &switching, point) - more_j) <
                  0.005 * (double)it.graph.op_count,
              seed);
        pipeline_case_fini(&it);
    }
}

struct tally {
    unsigned found;
    unsigned missed;
    unsigned best;
    double sum;
    double worst;
};

static void check_plan(const struct pipeline_case *it,
                       const struct lull_pipeline_switching *switching, int64_t deadline_ns,
                       struct lull_random *random, uint64_t seed, struct tally *tally)
{
    struct lull_pipeline_switching_report report;
    uint32_t point[MOST_OPS];
    uint32_t before[MOST_OPS];
    struct lull_error err;
    double best_j = dwell_best_of_all(it, switching, deadline_ns);
    size_t changes;
    int rc;

    for (uint32_t op = 0; op < it->graph.op_count; op++)
        point[op] = (uint32_t)lull_random_below(
            random, it->profile.classes[it->graph.ops[op].class_index].point_count);
    memcpy(before, point, sizeof(before));
    rc = lull_pipeline_switching(&it->problem, switching, deadline_ns, false, point, &report, &err);
    if (rc == -ERANGE) {
        holds(memcmp(before, point, it->graph.op_count * sizeof(*point)) == 0, seed);
        tally->missed += isfinite(best_j) ? 1 : 0;
        return;
    }
    holds(rc == 0, seed);
    holds(dwell_is_good(it, switching, point, deadline_ns, &changes), seed);
    holds(changes == report.switches_after, seed);
    holds(report.time_ns <= deadline_ns, seed);
    holds(dwell_cost_j(it, switching, point, deadline_ns, changes) >= best_j - 1e-9, seed);
    tally->found++;
    tally->best += dwell_cost_j(it, switching, point, deadline_ns, changes) <= best_j + 1e-6;
    best_j = dwell_cost_j(it, switching, point, deadline_ns, changes) / best_j - 1.0;
    tally->sum += 100.0 * best_j;
    tally->worst = fmax(tally->worst, 100.0 * best_j);
}

static void test_all_plans(void **state)
{
    struct tally tally = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct lull_pipeline_switching switching;
        uint32_t highest[MOST_OPS];
        struct lull_random random;
        struct pipeline_case it;
        int64_t fastest_ns;

        lull_random_init(&random, seed);
        draw(&random, &it, &switching);
        lull_pipeline_plan_highest(&it.problem, highest);
        fastest_ns = lull_pipeline_plan_cost(&it.problem, highest, 0).time_ns;
        for (int64_t percent = 95; percent <= 125; percent += 10)
            check_plan(&it, &switching, fastest_ns * percent / 100, &random, seed, &tally);
        pipeline_case_fini(&it);
    }
    printf("%u plans, %u of them the best, above it by mean %.3f %%, worst %.2f %%; %u missed\n",
           tally.found, tally.best, tally.sum / tally.found, tally.worst, tally.missed);
    assert_true(tally.best * 10 >= tally.found * 9);
    assert_true(tally.missed * 50 <= tally.found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeline),
        cmocka_unit_test(test_fed_forward),
        cmocka_unit_test(test_all_plans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
