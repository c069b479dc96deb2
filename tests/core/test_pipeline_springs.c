/*
 * Springs of a beam: what they say is held is what is left when all free events of the network have
 * settled, found here by relaxing one event after the other; and smooth costs are what they claim.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/round/beam_state.h"
#include "core/pipeline/round/smooth.h"
#include "pipeline_case.h"
#include "property.h"

enum { CASES = 60, MOST_OPS = 24, NODES = 2 * MOST_OPS + 1, SWEEPS = 20000, ASKED = 3 };

/* A beam as far as springs look at it: turns in topological order, a slot for each operation. */
struct network {
    struct pipeline_case it;
    struct lull_pipeline_rounding *rounding;
    struct beam beam;
    double stiffness[MOST_OPS];
    uint32_t event[NODES]; /* found here, by painting over */
};

static void paint(struct network *network, uint32_t from, uint32_t to)
{
    const uint32_t old = network->event[from];
    const uint32_t new = network->event[to];

    for (uint32_t node = 0; node < NODES; node++)
        if (network->event[node] == old)
            network->event[node] = new;
}

static void fill_beam(struct network *network, struct lull_random *random)
{
    const struct lull_pipeline_rounding *rounding = network->rounding;
    const uint32_t count = rounding->count;
    struct beam *beam = &network->beam;

    beam->rounding = rounding;
    beam->slot_count = count;
    beam->turns = calloc(count, sizeof(*beam->turns));
    beam->slot = calloc(count, sizeof(*beam->slot));
    beam->last_use = calloc(count, sizeof(*beam->last_use));
    beam->guide_ns = calloc(count, sizeof(*beam->guide_ns));
    beam->in_price_w = calloc(rounding->first_in[count] + 1, sizeof(*beam->in_price_w));
    beam->springs.stiffness = calloc(count, sizeof(*beam->springs.stiffness));
    beam->springs.least_w = 1.0;
    for (uint32_t op = 0; op < count; op++) {
        beam->turns[op].op = beam->slot[op] = beam->last_use[op] = op;
        beam->guide_ns[op] = (int64_t)lull_random_below(random, 1000);
        if (lull_random_below(random, 4) > 0)
            network->stiffness[op] = 0.1 + 3.0 * lull_random_uniform(random);
        beam->springs.stiffness[op] = network->stiffness[op];
        for (uint32_t k = rounding->first_in[op]; k < rounding->first_in[op + 1]; k++) {
            beam->last_use[rounding->in[k].op] = op;
            beam->in_price_w[k] = (double)lull_random_below(random, 3);
        }
    }
}

/* Which begins and ends move as one, by their definition. */
static void tie(struct network *network)
{
    const struct lull_pipeline_rounding *rounding = network->rounding;

    for (uint32_t node = 0; node < NODES; node++)
        network->event[node] = node;
    for (uint32_t op = 0; op < rounding->count; op++) {
        for (uint32_t k = rounding->first_in[op]; k < rounding->first_in[op + 1]; k++)
            if (network->beam.in_price_w[k] > 1.0)
                paint(network, 2 * rounding->in[k].op + 1, 2 * op);
        if (rounding->first_out[op] == rounding->first_out[op + 1])
            paint(network, 2 * op + 1, 2 * rounding->count);
    }
}

/* Of all springs after a turn, some events held where they are: the others settle. */
static double settle(const struct network *network, uint32_t turn, const bool *is_held,
                     double *move_ns)
{
    const uint32_t count = network->rounding->count;
    double held_nj = 0.0;

    for (uint32_t sweep = 0; sweep < SWEEPS; sweep++) {
        double pull[NODES] = {0};
        double hold[NODES] = {0};
        double most = 0.0;

        for (uint32_t event = 0; event < NODES; event++) {
            if (is_held[event])
                continue;
            for (uint32_t op = turn + 1; op < count; op++)
                for (unsigned side = 0; side < 2; side++)
                    if (network->event[2 * op + side] == event) {
                        hold[event] += network->stiffness[op];
                        pull[event] +=
                            network->stiffness[op] * move_ns[network->event[2 * op + 1 - side]];
                    }
            if (hold[event] > 0.0) {
                most = fmax(most, fabs(pull[event] / hold[event] - move_ns[event]));
                move_ns[event] = pull[event] / hold[event];
            }
        }
        if (most < 1e-10)
            break;
    }
    for (uint32_t op = turn + 1; op < count; op++) {
        const double longer_ns =
            move_ns[network->event[2 * op + 1]] - move_ns[network->event[2 * op]];

        held_nj += 0.5 * network->stiffness[op] * longer_ns * longer_ns;
    }
    return held_nj;
}

/* What is held by these ends after a turn; its own operation's counts as well. */
static double ask_network(const struct network *network, uint32_t turn, const int64_t *ends_ns)
{
    const uint32_t still = network->event[2 * network->rounding->count];
    double move_ns[NODES] = {0};
    bool is_held[NODES] = {false};

    for (uint32_t op = 0; op <= turn; op++) {
        const uint32_t event = network->event[2 * op + 1];
        const double by_ns = (double)(ends_ns[op] - network->beam.guide_ns[op]);

        if (network->beam.last_use[op] <= turn || event == still)
            continue;
        move_ns[event] = is_held[event] ? fmax(move_ns[event], by_ns) : by_ns;
        is_held[event] = true;
    }
    is_held[still] = true;
    return settle(network, turn, is_held, move_ns);
}

static void draw_network(struct network *network, struct lull_random *random)
{
    const struct pipeline_case_random size = {MOST_OPS, 6, 3};

    *network = (struct network){0};
    pipeline_case_draw(&network->it, random, &size);
    assert_int_equal(lull_pipeline_rounding_create(&network->it.problem, &network->rounding), 0);
    fill_beam(network, random);
    tie(network);
}

static void free_network(struct network *network)
{
    struct beam *beam = &network->beam;

    lull_springs_destroy(&beam->springs);
    free(beam->turns);
    free(beam->slot);
    free(beam->last_use);
    free(beam->guide_ns);
    free(beam->in_price_w);
    lull_pipeline_rounding_destroy(network->rounding);
    pipeline_case_fini(&network->it);
}

static void test_what_springs_hold(void **state)
{
    unsigned asked = 0;
    unsigned more_than_none = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct lull_random random;
        struct network network;
        int64_t ends_ns[MOST_OPS];

        lull_random_init(&random, seed);
        draw_network(&network, &random);
        assert_int_equal(lull_springs_create(&network.beam.springs, &network.beam), 0);
        for (uint32_t turn = 0; turn < network.rounding->count; turn++) {
            lull_springs_turn(&network.beam.springs, &network.beam, turn);
            for (unsigned i = 0; i < ASKED; i++) {
                double expected_nj;
                double held_nj;

                for (uint32_t op = 0; op <= turn; op++)
                    ends_ns[op] = (int64_t)lull_random_below(&random, 1000);
                lull_springs_enter(&network.beam.springs, ends_ns);
                held_nj = lull_springs_held_nj(&network.beam.springs, ends_ns[turn]);
                expected_nj = ask_network(&network, turn, ends_ns);
                holds(fabs(held_nj - expected_nj) <= 1e-6 * (1.0 + expected_nj), seed);
                asked++;
                more_than_none += expected_nj > 1.0;
            }
        }
        free_network(&network);
    }
    printf("%u asked, %u of them held by springs\n", asked, more_than_none);
    assert_true(more_than_none * 4 > asked);
}

static void check_ladder(const struct lull_pipeline_rounding *rounding, const struct smooth *smooth,
                         uint32_t at, uint64_t seed)
{
    const struct ladder *ladder = &rounding->ladders[at];
    const struct lull_pipeline_class *fine = &smooth->profile.classes[at];
    const struct lull_pipeline_option *last = &fine->options[fine->option_count - 1];
    double price_w = INFINITY;

    holds(fine->options[0].time_ns == ladder->steps[0].time_ns, seed);
    holds(last->time_ns == ladder->steps[ladder->count - 1].time_ns, seed);
    for (size_t i = 1; i < fine->option_count; i++) {
        const double faster_nj =
            lull_pipeline_effective_nj(&fine->options[i - 1], ladder->blocking_w);
        const double slower_nj = lull_pipeline_effective_nj(&fine->options[i], ladder->blocking_w);
        const int64_t longer_ns = fine->options[i].time_ns - fine->options[i - 1].time_ns;

        holds(longer_ns > 0, seed);
        /* Energies are whole nanojoules. */
        holds((faster_nj - slower_nj) / (double)longer_ns <= price_w + 3.0 / (double)longer_ns,
              seed);
        price_w = (faster_nj - slower_nj) / (double)longer_ns;
        holds(lull_smooth_stiffness(smooth, at, (double)fine->options[i].time_ns) > 0.0, seed);
    }
}

/* As many seconds as the ladder has, prices that fall, and an operation is nowhere loose. */
static void test_smooth_costs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct lull_random random;
        struct network network;
        struct smooth smooth;

        lull_random_init(&random, seed);
        draw_network(&network, &random);
        assert_int_equal(lull_smooth_create(&smooth, network.rounding, 0.75), 0);
        for (uint32_t i = 0; i < network.rounding->ladder_count; i++)
            check_ladder(network.rounding, &smooth, i, seed);
        lull_smooth_destroy(&smooth);
        free_network(&network);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_springs_hold),
        cmocka_unit_test(test_smooth_costs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
