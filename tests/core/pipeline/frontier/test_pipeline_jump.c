/*
 * Jumps to a time against moves by points: the same energy, and a conserved flow that
 * proves it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/frontier/state.h"

#include <errno.h>
#include <unistd.h>

#include "../pipeline_case.h"
#include "../../property.h"

enum { CASES = 400 };

static const struct pipeline_case_random size = {.ops = 40, .points = 8, .devices = 5};

/* Returns the energy of the windows of the potentials, without blocking. */
static double windows_nj(const struct lull_frontier_network *network)
{
    double energy_nj = 0.0;

    for (uint32_t i = 0; i < network->op_count; i++)
        energy_nj += lull_curve_energy_nj(
            &network->curves.all[network->ops[i].curve], network->curves.unit_w,
            network->potential[2 * (size_t)i + 1] - network->potential[2 * (size_t)i]);
    return energy_nj;
}

/* Returns the bound that the flow proves for a time: no plan as fast takes less energy. */
static double proof_nj(const struct lull_frontier_network *network, int64_t time_ns)
{
    double sum = -(double)network->value * (double)time_ns;
    double energy_nj = 0.0;

    for (uint32_t i = 0; i < network->op_count; i++) {
        const struct lull_frontier_curve *const curve = &network->curves.all[network->ops[i].curve];
        double least = INFINITY;

        for (uint32_t k = 0; k <= curve->steps; k++)
            least = fmin(least,
                         lull_curve_energy_nj(curve, network->curves.unit_w, curve->length_ns[k]) +
                             (double)network->ops[i].flow * network->curves.unit_w *
                                 (double)curve->length_ns[k]);
        energy_nj += least;
    }
    for (size_t i = 0; i < network->graph->edge_count; i++)
        energy_nj += (double)network->edges[i].flow * network->curves.unit_w *
                     (double)network->edges[i].latency_ns;
    return energy_nj + sum * network->curves.unit_w;
}

/* Nothing is lost on the way: what comes into an operation is what flows through it and out. */
static void check_conserved(const struct lull_frontier_network *network, uint64_t seed)
{
    int64_t value = 0;

    for (uint32_t i = 0; i < network->op_count; i++) {
        const struct lull_frontier_flow_op *const op = &network->ops[i];
        int64_t in = 0;
        int64_t out = 0;

        for (uint32_t k = op->first_in; k < op[1].first_in; k++)
            in += network->edges[network->in_edges[k]].flow;
        for (uint32_t k = op->first_out; k < op[1].first_out; k++)
            out += network->edges[k].flow;
        holds(op->flow >= 0, seed);
        if (op->first_in < op[1].first_in)
            holds(in == op->flow, seed);
        else
            value += op->flow;
        if (op->first_out < op[1].first_out)
            holds(out == op->flow, seed);
    }
    holds(value == network->value, seed);
}

/* Two floating-point sums of the same integers. */
static bool is_same(double is, double should_be)
{
    return fabs(is - should_be) <= 1e-9 * fabs(should_be) + 1.0;
}

/* A time between the ends of the frontier; every fourth one is the fast end. */
static int64_t draw_time(const struct lull_frontier_point *slow,
                         const struct lull_frontier_point *fast, struct lull_random *random)
{
    const double share = lull_random_uniform(random);

    if (lull_random_uniform(random) < 0.25)
        return fast->time_ns;
    return fast->time_ns + (int64_t)(share * (double)(slow->time_ns - fast->time_ns));
}

/* The network has jumped: it must stand where the frontier goes by points. */
static void check_place(const struct lull_frontier_network *network, struct lull_frontier *walked,
                        int64_t time_ns, uint64_t seed)
{
    const double energy_nj = windows_nj(network);

    holds(network->time_ns <= time_ns, seed);
    check_conserved(network, seed);
    holds(lull_frontier_seek(walked, time_ns) == 0, seed);
    holds(is_same(energy_nj, windows_nj(lull_frontier_network(walked))), seed);
    holds(is_same(proof_nj(network, time_ns), energy_nj), seed);
}

static void check_jumps(const struct pipeline_case *it, struct lull_random *random, uint64_t seed)
{
    struct lull_frontier *const walked = lull_frontier_create(&it->problem, NULL);
    struct lull_frontier_network network;
    struct lull_frontier_point slow;
    struct lull_frontier_point fast;
    int64_t time_ns;
    int64_t least;

    assert_non_null(walked);
    slow = lull_frontier_here(walked);
    while (lull_frontier_next(walked, &fast) == 1)
        ;
    fast = lull_frontier_here(walked);
    time_ns = draw_time(&slow, &fast, random);
    assert_int_equal(lull_network_init(&network, &it->problem, NULL), 0);
    holds(lull_network_jump(&network, time_ns, 0) == 0, seed);
    check_place(&network, walked, time_ns, seed);
    least = (int64_t)(lull_random_uniform(random) * fast.slope_w / network.curves.unit_w);
    holds(lull_network_jump(&network, slow.time_ns, least) == 0, seed);
    holds(network.value >= least, seed);
    check_place(&network, walked, network.time_ns, seed);
    lull_network_fini(&network);
    lull_frontier_destroy(walked);
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct lull_random random;
        struct pipeline_case it;

        lull_random_init(&random, seed);
        pipeline_case_draw(&it, &random, &size);
        check_jumps(&it, &random, seed);
        pipeline_case_fini(&it);
    }
}

/* The least energy at a time, on the line between the points that have been passed. */
static double energy_at_j(const struct lull_frontier *walked, int64_t time_ns)
{
    size_t count;
    const struct lull_frontier_point *const points = lull_frontier_points(walked, &count);
    size_t i = 1;

    while (i + 1 < count && points[i].time_ns > time_ns)
        i++;
    return points[i].energy_j + (points[i - 1].energy_j - points[i].energy_j) *
                                    (double)(time_ns - points[i].time_ns) /
                                    (double)(points[i - 1].time_ns - points[i].time_ns);
}

static void check_here(const struct lull_frontier *moved, const struct lull_frontier *walked,
                       int64_t time_ns, uint64_t seed)
{
    const struct lull_frontier_point here = lull_frontier_here(moved);
    const double min_j = energy_at_j(walked, time_ns);
    size_t passed;
    size_t all;

    (void)lull_frontier_points(moved, &passed);
    (void)lull_frontier_points(walked, &all);
    holds(passed < all / 2, seed); /* it has jumped */
    holds(here.time_ns == time_ns, seed);
    holds(fabs(here.energy_j / min_j - 1.0) < 1e-9, seed);
}

/* 1F1B of eight stages that all differ, with many clocks: so many points that a move along them
 * becomes a jump. */
static void draw_many_points(struct pipeline_case *it, struct lull_random *random)
{
    char path[] = "/tmp/lull-jump-XXXXXX";
    const int descriptor = mkstemp(path);
    FILE *const file = fdopen(descriptor, "w");

    assert_non_null(file);
    for (uint32_t i = 0; i < 16; i++) {
        const double length_s = 0.03 + 0.03 * lull_random_uniform(random);

        for (uint32_t mhz = 240; mhz <= 1410; mhz += 15) {
            const double ratio = mhz / 1410.0;
            const double time_s =
                length_s * (0.2 + 0.8 / ratio) * (1.0 + 0.003 * lull_random_uniform(random));

            fprintf(file, "%u,%s,%u,%.9f,%.9f\n", i / 2, i % 2 == 0 ? "forward" : "backward", mhz,
                    time_s, time_s * (100.0 + 230.0 * pow(ratio, 2.5)));
        }
    }
    assert_int_equal(fclose(file), 0);
    assert_true(pipeline_case_1f1b(it, path, 8, 64, PIPELINE_CASE_A100_W));
    assert_int_equal(unlink(path), 0);
}

/* A long move ends where all points lead to: at a deadline, and at the least energy before one. */
static void test_long_moves(void **state)
{
    const uint64_t seed = 1;
    struct lull_frontier_point fast;
    struct lull_frontier *walked;
    struct lull_frontier *moved;
    struct lull_random random;
    struct pipeline_case it;
    int64_t cheapest_ns;

    (void)state;
    lull_random_init(&random, seed);
    draw_many_points(&it, &random);
    walked = lull_frontier_create(&it.problem, NULL);
    moved = lull_frontier_create(&it.problem, NULL);
    assert_non_null(walked);
    assert_non_null(moved);
    assert_int_equal(lull_frontier_seek_cheapest(walked), 0);
    cheapest_ns = lull_frontier_here(walked).time_ns;
    while (lull_frontier_next(walked, &fast) == 1)
        ;
    assert_int_equal(lull_frontier_seek(moved, fast.time_ns), 0);
    check_here(moved, walked, fast.time_ns, seed);
    lull_frontier_destroy(moved);
    moved = lull_frontier_create(&it.problem, NULL);
    assert_non_null(moved);
    assert_int_equal(lull_frontier_seek_cheapest_within(moved, INT64_MAX), 0);
    check_here(moved, walked, cheapest_ns, seed);
    assert_int_equal(lull_frontier_seek_cheapest_within(moved, fast.time_ns - 1), -ERANGE);
    lull_frontier_destroy(moved);
    lull_frontier_destroy(walked);
    pipeline_case_fini(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_long_moves)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
