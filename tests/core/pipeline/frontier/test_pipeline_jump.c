/*
 * Jumps to a time against the way there by points: the same energy, and a conserved flow that
 * proves it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/frontier/state.h"
#include "../pipeline_case.h"
#include "../../property.h"

enum { CASES = 400 };

static const struct pipeline_case_random size = {.ops = 40, .points = 8, .devices = 5};

/* What the windows of the potentials cost, blocking aside. */
static double windows_nj(const struct lull_frontier_network *network)
{
    double energy_nj = 0.0;

    for (uint32_t i = 0; i < network->op_count; i++)
        energy_nj += lull_curve_energy_nj(
            &network->curves.all[network->ops[i].curve], network->curves.unit_w,
            network->potential[2 * (size_t)i + 1] - network->potential[2 * (size_t)i]);
    return energy_nj;
}

/* What the flow proves for a time: no plan as fast costs less. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
