/*
 * Nodes of one job, each with a controller of its own: they descend in the same iterations, apply
 * the agreed clocks, and raise them when messages stop arriving. Against simulated jobs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/section/agreement.h"
#include "core/stats/random.h"
#include "job_sim.h"

enum { NODES = 2, MAX_WORDS = 64 };

/* Two nodes, and between them a network that delays, loses and repeats. Clocks: see mhz_of. */
struct network {
    struct job_sim_nodes nodes;
    struct lull_random random;
    struct lull_agreement *agreements[NODES];
    struct lull_proposal proposals[NODES];
    uint64_t lowered_since[NODES]; /* iteration from which the kept point holds */
    bool is_cut;
    int64_t cut_at_ns; /* from then on nothing arrives; 0 never */
    uint32_t word_count;
    struct {
        int64_t arrives_ns;
        struct lull_proposal proposal;
    } words[MAX_WORDS];
};

static uint32_t mhz_of(uint32_t point)
{
    return point == 0 ? LULL_AGREEMENT_REFERENCE : 2000 - 10 * point;
}

static void propose(struct network *network, uint32_t node)
{
    const struct lull_controller *controller = network->nodes.controllers[node];
    const struct lull_track *track = lull_controller_look_gpu(controller, 0).track;
    struct lull_proposal *proposal = &network->proposals[node];
    const struct lull_controller_view now = lull_controller_look(controller);

    proposal->node = node;
    proposal->nodes = NODES;
    proposal->incarnation = 1;
    proposal->sequence++;
    proposal->structure =
        lull_track_phase(track) == LULL_TRACK_KNOWN ? lull_track_period(track) : 0;
    proposal->window_iterations = lull_controller_window(controller);
    proposal->entry_count = now.target_count;
    for (uint32_t i = 0; i < now.target_count; i++) {
        const struct lull_descent *descent = &now.targets[i].descent;

        if (proposal->entries[i].kept_mhz != mhz_of(descent->good))
            network->lowered_since[node] = lull_track_iteration(track) + 4;
        proposal->entries[i] = (struct lull_proposal_entry){
            .signature = now.targets[i].signature,
            .from_iteration = network->lowered_since[node],
            .kept_mhz = mhz_of(descent->good),
            .refused_mhz = descent->bad < descent->count ? mhz_of(descent->bad) : 0,
            .settled = now.targets[i].settled,
        };
    }
}

static void send(struct network *network, const struct lull_proposal *proposal, int64_t now_ns)
{
    const uint64_t copies = lull_random_below(&network->random, 3);

    for (uint64_t i = 0; i < copies && network->word_count < MAX_WORDS; i++) {
        network->words[network->word_count].arrives_ns =
            now_ns + (int64_t)lull_random_below(&network->random, 300000000);
        network->words[network->word_count++].proposal = *proposal;
    }
}

static void receive(struct network *network, int64_t now_ns)
{
    for (uint32_t i = 0; i < network->word_count;) {
        if (network->words[i].arrives_ns > now_ns) {
            i++;
            continue;
        }
        if (!network->is_cut)
            lull_agreement_take(network->agreements[1 - network->words[i].proposal.node],
                                &network->words[i].proposal, now_ns);
        network->words[i] = network->words[--network->word_count];
    }
}

static void apply(struct network *network, uint32_t node, int64_t now_ns)
{
    struct lull_controller *controller = network->nodes.controllers[node];
    struct lull_agreement *agreement = network->agreements[node];
    const struct lull_controller_view now = lull_controller_look(controller);

    for (uint32_t i = 0; i < now.target_count; i++) {
        const struct lull_agreement_clock clock =
            lull_agreement_clock(agreement, now.targets[i].signature, now_ns);

        lull_controller_agree(controller, i,
                              clock.mhz == LULL_AGREEMENT_REFERENCE ? 0 : (2000 - clock.mhz) / 10,
                              clock.from_iteration,
                              clock.refused_mhz == 0 ? now.targets[i].descent.count
                                                     : (2000 - clock.refused_mhz) / 10);
    }
    lull_controller_align(controller, lull_agreement_window(agreement));
    lull_controller_hold(controller,
                         lull_agreement_state(agreement, now_ns) != LULL_AGREEMENT_AGREED);
}

static void exchange(void *context, int64_t now_ns)
{
    struct network *network = context;

    network->is_cut = network->cut_at_ns != 0 && now_ns >= network->cut_at_ns;
    for (uint32_t i = 0; i < NODES; i++) {
        propose(network, i);
        lull_agreement_take(network->agreements[i], &network->proposals[i], now_ns);
        send(network, &network->proposals[i], now_ns);
    }
    receive(network, now_ns);
    for (uint32_t i = 0; i < NODES; i++)
        apply(network, i, now_ns);
}

static void connect(const struct job_sim_config *config, struct network *network, uint64_t seed)
{
    struct lull_controller_config control;
    struct job_sim_config of_node = *config;

    lull_controller_config_default(&control);
    control.together = true;
    of_node.gpus /= NODES;
    memset(network, 0, sizeof(*network));
    lull_random_init(&network->random, seed);
    network->nodes.node_count = NODES;
    network->nodes.exchange = exchange;
    network->nodes.context = network;
    for (uint32_t i = 0; i < NODES; i++) {
        network->nodes.controllers[i] = job_sim_create_controller(&of_node, &control);
        network->agreements[i] = lull_agreement_create(i, NODES, 2000000000);
    }
}

static void disconnect(struct network *network)
{
    for (uint32_t i = 0; i < NODES; i++) {
        lull_controller_destroy(network->nodes.controllers[i]);
        lull_agreement_destroy(network->agreements[i]);
    }
}

/* One collective over both nodes; the second one's GPUs need more clock for it. */
static void two_nodes(struct job_sim_config *config)
{
    job_sim_config_default(config);
    config->iterations = 1500;
    config->uneven = true;
    for (uint32_t i = 0; i < 4; i++) {
        config->compute_scale[i] = 1.0;
        config->own_knee[i] = i < 2 ? 60 : 25;
    }
}

static void test_nodes_descend_together_over_a_bad_network(void **state)
{
    struct job_sim_config config;
    struct job_sim_result unmanaged;

    (void)state;
    two_nodes(&config);
    job_sim_run(&config, NULL, &unmanaged);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct network network;
        struct job_sim_result managed;

        connect(&config, &network, seed);
        job_sim_run_nodes(&config, &network.nodes, &managed);
        print_message(
            "two nodes, seed %llu: slowdown %.2f %%, whole run %.2f %%, saving %.2f %%, "
            "last at point %u, settled after %llu and %llu\n",
            (unsigned long long)seed, job_sim_slowdown(&unmanaged, &managed) * 100.0,
            (managed.total_ms / unmanaged.total_ms - 1.0) * 100.0,
            job_sim_saving(&unmanaged, &managed) * 100.0, managed.last_ran_at,
            (unsigned long long)lull_controller_look(network.nodes.controllers[0]).settled_after,
            (unsigned long long)lull_controller_look(network.nodes.controllers[1]).settled_after);
        for (uint32_t i = 0; i < NODES; i++)
            assert_true(lull_controller_look(network.nodes.controllers[i]).has_settled);
        assert_in_range(managed.last_ran_at, 18, 27);
        assert_true(job_sim_slowdown(&unmanaged, &managed) < 0.01);
        assert_true(job_sim_saving(&unmanaged, &managed) > 0.05);
        disconnect(&network);
    }
}

static void test_a_cut_network_brings_both_nodes_up(void **state)
{
    struct job_sim_config config;
    struct job_sim_result managed;
    struct network network;
    uint32_t lowered = 0;

    (void)state;
    two_nodes(&config);
    connect(&config, &network, 1);
    network.cut_at_ns = 300000000000;
    job_sim_run_nodes(&config, &network.nodes, &managed);
    assert_int_equal(managed.last_ran_at, 0);
    for (uint32_t i = 1; i < config.points; i++)
        lowered += managed.ran_at[i];
    print_message("lowered in %u iterations, at the reference in %u\n", lowered, managed.ran_at[0]);
    assert_true(lowered > 100);
    /* From the cut, at iteration 600, and two seconds, of half a second each. */
    assert_true(managed.ran_at[0] >= config.iterations - 620);
    disconnect(&network);
}

/* Both nodes hold the job up alike after the change: one alone would see nothing of it. */
static void test_nodes_notice_together_that_the_job_has_changed(void **state)
{
    struct job_sim_config config;
    struct job_sim_result managed;
    struct network network;

    (void)state;
    job_sim_config_default(&config);
    config.knee_point = 50;
    config.knee_moves_at = 900;
    config.knee_after = 10;
    config.iterations = 5000;
    connect(&config, &network, 1);
    job_sim_run_nodes(&config, &network.nodes, &managed);
    print_message("last at point %u\n", managed.last_ran_at);
    assert_true(managed.ran_at[50] + managed.ran_at[51] + managed.ran_at[49] > 100);
    assert_in_range(managed.last_ran_at, 0, 12);
    disconnect(&network);
}

/* Plays another node that keeps 40 and has refused 55 and below. */
static void allow_less(void *context, int64_t now_ns)
{
    const struct job_sim_nodes *nodes = context;
    const uint32_t count = lull_controller_look(nodes->controllers[0]).target_count;

    (void)now_ns;
    if (count > 0)
        lull_controller_agree(nodes->controllers[0], count - 1, 40, 100, 55);
}

static void test_what_another_node_has_refused_is_not_even_tried(void **state)
{
    struct job_sim_config config;
    struct lull_controller_config control;
    struct job_sim_result managed;
    struct job_sim_nodes nodes = {.node_count = 1, .exchange = allow_less, .context = &nodes};
    const struct lull_target *target;

    (void)state;
    job_sim_config_default(&config);
    config.iterations = 700;
    lull_controller_config_default(&control);
    control.together = true;
    control.only_sections = true;
    nodes.controllers[0] = job_sim_create_controller(&config, &control);
    job_sim_run_nodes(&config, &nodes, &managed);
    target = lull_controller_look(nodes.controllers[0]).targets;
    assert_int_equal(lull_controller_look(nodes.controllers[0]).target_count, 1);
    assert_true(lull_controller_look(nodes.controllers[0]).has_settled);
    assert_int_equal(target->descent.good, 54);
    for (uint32_t i = 55; i < config.points; i++)
        assert_int_equal(managed.ran_at[i], 0);
    /* It has found 54 harmless, and applies what has been agreed. */
    assert_int_equal(managed.last_ran_at, 40);
    lull_controller_destroy(nodes.controllers[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_descend_together_over_a_bad_network),
        cmocka_unit_test(test_a_cut_network_brings_both_nodes_up),
        cmocka_unit_test(test_nodes_notice_together_that_the_job_has_changed),
        cmocka_unit_test(test_what_another_node_has_refused_is_not_even_tried),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
