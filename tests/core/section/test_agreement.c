/*
 * The agreement under a bad network: proposals in any order, lost, repeated and late; nodes that
 * die and nodes that contradict each other. The expected results are computed from the log of
 * delivered proposals, with separate code. SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/section/agreement.h"
#include "core/section/controller/controller.h"
#include "core/stats/random.h"
#include "../property.h"

enum { MAX_NODES = 5, SECTIONS = 3, STEPS = 400, MAX_LOG = 4096, CLOCKS = 8, MAX_DELAY = 6 };

static const int64_t silence = 20; /* steps */

static uint32_t mhz_of(uint64_t clock)
{
    return 200 + 100 * (uint32_t)clock;
}

/* ---- a node, and a network that loses, repeats and delays ---------------------------------- */

struct speaker {
    struct lull_proposal now;
    bool dead;
};

struct letter {
    int64_t arrives;
    struct lull_proposal proposal;
};

struct world {
    struct lull_random random;
    uint32_t nodes;
    int64_t now;
    struct speaker speakers[MAX_NODES];
    struct lull_agreement *agreement; /* of node 0 */
    uint32_t letter_count;
    struct letter letters[MAX_LOG];
    uint32_t taken_count;
    struct letter taken[MAX_LOG];                    /* arrived at node 0; own ones included */
    int64_t refused_at[MAX_NODES][SECTIONS][CLOCKS]; /* 0 never */
};

static uint64_t below(struct world *world, uint64_t bound)
{
    return lull_random_below(&world->random, bound);
}

/* A node finds a clock harmless, or refuses one; what it has refused it never keeps. */
static void change_mind(struct world *world, uint32_t node)
{
    const uint64_t section = below(world, SECTIONS);
    const uint64_t clock = below(world, CLOCKS);
    struct lull_proposal_entry *entry = &world->speakers[node].now.entries[section];

    if (below(world, 4) == 0) {
        if (mhz_of(clock) > entry->refused_mhz)
            entry->refused_mhz = mhz_of(clock);
        if (entry->kept_mhz <= entry->refused_mhz)
            entry->kept_mhz = LULL_AGREEMENT_REFERENCE;
        for (uint64_t i = 0; mhz_of(i) <= entry->refused_mhz; i++)
            if (world->refused_at[node][section][i] == 0)
                world->refused_at[node][section][i] = world->now;
    } else if (mhz_of(clock) > entry->refused_mhz) {
        entry->kept_mhz = mhz_of(clock);
        entry->from_iteration = (uint64_t)world->now + below(world, 5);
    }
}

static void deliver(struct world *world, const struct lull_proposal *proposal)
{
    lull_agreement_take(world->agreement, proposal, world->now);
    world->taken[world->taken_count++] = (struct letter){world->now, *proposal};
}

static void speak(struct world *world, uint32_t node)
{
    struct lull_proposal *proposal = &world->speakers[node].now;
    const uint64_t copies = below(world, 4); /* none: lost */

    proposal->sequence++;
    if (node == 0) {
        deliver(world, proposal);
        return;
    }
    for (uint64_t i = 0; i < copies && world->letter_count < MAX_LOG; i++)
        world->letters[world->letter_count++] =
            (struct letter){world->now + (int64_t)below(world, MAX_DELAY), *proposal};
}

static void carry(struct world *world)
{
    for (uint32_t i = 0; i < world->letter_count;) {
        if (world->letters[i].arrives > world->now || world->taken_count == MAX_LOG) {
            i++;
            continue;
        }
        deliver(world, &world->letters[i].proposal);
        world->letters[i] = world->letters[--world->letter_count];
    }
}

static void begin(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    lull_random_init(&world->random, seed);
    world->nodes = 1 + (uint32_t)below(world, MAX_NODES);
    world->agreement = lull_agreement_create(0, world->nodes, silence);
    assert_non_null(world->agreement);
    for (uint32_t i = 0; i < world->nodes; i++) {
        world->speakers[i].now = (struct lull_proposal){
            .node = i,
            .nodes = world->nodes,
            .incarnation = 1,
            .structure = 7,
            .window_iterations = 5 + i,
            .entry_count = SECTIONS,
        };
        for (uint32_t j = 0; j < SECTIONS; j++)
            world->speakers[i].now.entries[j] = (struct lull_proposal_entry){
                .signature = j + 1, .kept_mhz = LULL_AGREEMENT_REFERENCE};
    }
}

static void step(struct world *world)
{
    world->now++;
    for (uint32_t i = 0; i < world->nodes; i++) {
        if (world->speakers[i].dead || below(world, 2) == 0)
            continue;
        if (below(world, 8) == 0)
            change_mind(world, i);
        speak(world, i);
    }
    carry(world);
}

/* ---- the oracle -------------------------------------------------------------------------- */

static const struct letter *latest_of(const struct world *world, uint32_t node)
{
    const struct letter *latest = NULL;

    for (uint32_t i = 0; i < world->taken_count; i++)
        if (world->taken[i].proposal.node == node &&
            (latest == NULL || world->taken[i].proposal.sequence > latest->proposal.sequence))
            latest = &world->taken[i];
    return latest;
}

/* The clock that the rules request, from the log alone. */
static uint32_t oracle_mhz(const struct world *world, uint32_t section)
{
    uint32_t mhz = 0;

    for (uint32_t i = 0; i < world->nodes; i++) {
        const struct letter *latest = latest_of(world, i);

        if (latest == NULL || (i != 0 && world->now - latest->arrives > silence))
            return LULL_AGREEMENT_REFERENCE;
        if (latest->proposal.entries[section].kept_mhz > mhz)
            mhz = latest->proposal.entries[section].kept_mhz;
    }
    for (uint32_t i = 0; i < world->taken_count; i++)
        if (world->taken[i].proposal.entries[section].refused_mhz >= mhz)
            return LULL_AGREEMENT_REFERENCE;
    return mhz;
}

static void test_a_bad_network_never_lowers_below_a_refusal(void **state)
{
    uint32_t lowered = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct world *world = malloc(sizeof(*world));

        assert_non_null(world);
        begin(world, seed);
        while (world->now < STEPS) {
            step(world);
            if (below(world, 500) == 0)
                world->speakers[world->nodes - 1].dead = world->nodes > 1;
            for (uint32_t i = 0; i < SECTIONS; i++) {
                const struct lull_agreement_clock clock =
                    lull_agreement_clock(world->agreement, i + 1, world->now);

                holds(clock.mhz == oracle_mhz(world, i), seed);
                lowered += clock.mhz != LULL_AGREEMENT_REFERENCE;
                /* An old refusal is respected, even if every message about it was lost. */
                for (uint32_t node = 0; node < world->nodes; node++)
                    for (uint32_t k = 0; k < CLOCKS; k++)
                        if (world->refused_at[node][i][k] != 0 && !world->speakers[node].dead &&
                            world->now - world->refused_at[node][i][k] > silence + MAX_DELAY)
                            holds(clock.mhz > mhz_of(k), seed);
            }
        }
        lull_agreement_destroy(world->agreement);
        free(world);
    }
    print_message("lowered in %u of %u\n", lowered, 60 * STEPS * SECTIONS);
    assert_true(lowered > 60 * STEPS * SECTIONS / 20);
}

static struct lull_proposal proposal_of(uint32_t node, uint64_t sequence, uint32_t kept,
                                        uint32_t refused)
{
    return (struct lull_proposal){
        .node = node,
        .nodes = 2,
        .incarnation = 1,
        .sequence = sequence,
        .structure = 7,
        .entry_count = 1,
        .entries = {{.signature = 1, .kept_mhz = kept, .refused_mhz = refused, .settled = 1}},
    };
}

static void test_any_order_gives_the_same_answer(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct lull_agreement *ordered = lull_agreement_create(0, 2, 1000);
        struct lull_agreement *shuffled = lull_agreement_create(0, 2, 1000);
        struct lull_proposal proposals[24];
        struct lull_random random;

        lull_random_init(&random, seed);
        for (uint32_t i = 0; i < 24; i++) {
            proposals[i] =
                proposal_of(i % 2, i, 400 + 100 * (uint32_t)lull_random_below(&random, 9),
                            100 * (uint32_t)lull_random_below(&random, 5));
            lull_agreement_take(ordered, &proposals[i], 0);
        }
        for (uint32_t i = 24; i > 0; i--) {
            const uint64_t pick = lull_random_below(&random, i);

            lull_agreement_take(shuffled, &proposals[pick], 0);
            lull_agreement_take(shuffled, &proposals[pick], 0);
            proposals[pick] = proposals[i - 1];
        }
        holds(lull_agreement_clock(ordered, 1, 0).mhz == lull_agreement_clock(shuffled, 1, 0).mhz,
              seed);
        holds(lull_agreement_clock(ordered, 1, 0).refused_mhz ==
                  lull_agreement_clock(shuffled, 1, 0).refused_mhz,
              seed);
        lull_agreement_destroy(ordered);
        lull_agreement_destroy(shuffled);
    }
}

/* A governor that starts again after its wall clock has jumped back is heard once the one before is
 * silent, and not while it speaks: then the message is an old one. */
static void test_f22_a_governor_whose_clock_has_jumped_back(void **state)
{
    struct lull_agreement *agreement = lull_agreement_create(0, 2, 1000);
    struct lull_proposal proposal = proposal_of(1, 5, 700, 0);

    (void)state;
    proposal.incarnation = 1000;
    assert_true(lull_agreement_take(agreement, &proposal, 0));
    proposal.incarnation = 900;
    proposal.sequence = 1;
    assert_false(lull_agreement_take(agreement, &proposal, 1000));
    assert_true(lull_agreement_take(agreement, &proposal, 1001));
    proposal.sequence = 2;
    assert_true(lull_agreement_take(agreement, &proposal, 1002));
    lull_agreement_destroy(agreement);
}

/* Two nodes that have agreed on 700 MHz. */
static struct lull_agreement *agreed(void)
{
    struct lull_agreement *agreement = lull_agreement_create(0, 2, 1000);
    struct lull_proposal mine = proposal_of(0, 1, 600, 0);
    struct lull_proposal other = proposal_of(1, 1, 700, 0);

    assert_int_equal(lull_agreement_state(agreement, 0), LULL_AGREEMENT_WAITING);
    mine.entries[0].from_iteration = 90;
    other.entries[0].from_iteration = 120;
    assert_true(lull_agreement_take(agreement, &mine, 0));
    assert_int_equal(lull_agreement_clock(agreement, 1, 0).mhz, LULL_AGREEMENT_REFERENCE);
    assert_true(lull_agreement_take(agreement, &other, 0));
    assert_false(lull_agreement_take(agreement, &other, 900));
    assert_int_equal(lull_agreement_clock(agreement, 1, 0).mhz, 700);
    assert_int_equal(lull_agreement_clock(agreement, 1, 0).from_iteration, 120);
    assert_int_equal(lull_agreement_clock(agreement, 2, 0).mhz, LULL_AGREEMENT_REFERENCE);
    assert_int_equal(lull_agreement_received(agreement), 2);
    return agreement;
}

static void test_a_dead_node_brings_all_to_the_reference(void **state)
{
    struct lull_agreement *agreement = agreed();

    (void)state;
    assert_int_equal(lull_agreement_state(agreement, 1000), LULL_AGREEMENT_AGREED);
    assert_int_equal(lull_agreement_state(agreement, 1001), LULL_AGREEMENT_SILENT);
    assert_int_equal(lull_agreement_clock(agreement, 1, 1001).mhz, LULL_AGREEMENT_REFERENCE);
    lull_agreement_destroy(agreement);
}

static void test_a_node_that_takes_its_leave_is_not_waited_for(void **state)
{
    struct lull_agreement *agreement = agreed();
    struct lull_proposal leaving = proposal_of(1, 2, 700, 0);

    (void)state;
    leaving.leaving = 1;
    lull_agreement_take(agreement, &leaving, 10);
    assert_int_equal(lull_agreement_clock(agreement, 1, 1000000).mhz, 700);
    lull_agreement_destroy(agreement);
}

static void test_other_iterations_or_numbers_are_no_agreement(void **state)
{
    struct lull_agreement *agreement = agreed();
    struct lull_proposal other = proposal_of(1, 2, 700, 0);

    (void)state;
    other.structure = 8;
    lull_agreement_take(agreement, &other, 1);
    assert_int_equal(lull_agreement_state(agreement, 1), LULL_AGREEMENT_DIFFERENT);
    other = proposal_of(1, 3, 700, 0);
    other.nodes = 3;
    lull_agreement_take(agreement, &other, 1);
    assert_int_equal(lull_agreement_state(agreement, 1), LULL_AGREEMENT_DIFFERENT);
    other = proposal_of(1, 4, 700, 0);
    other.structure = 0; /* it has lost its iteration and searches again */
    lull_agreement_take(agreement, &other, 1);
    assert_int_equal(lull_agreement_state(agreement, 1), LULL_AGREEMENT_WAITING);
    other = proposal_of(2, 5, 700, 0);
    assert_false(lull_agreement_take(agreement, &other, 1));
    lull_agreement_destroy(agreement);
}

static void test_a_refusal_outlives_a_change_of_mind(void **state)
{
    struct lull_agreement *agreement = agreed();
    struct lull_proposal refusing = proposal_of(1, 2, 900, 800);
    struct lull_proposal forgetting = proposal_of(1, 3, 700, 0);

    (void)state;
    lull_agreement_take(agreement, &forgetting, 1);
    lull_agreement_take(agreement, &refusing, 1); /* old, but it has refused */
    assert_int_equal(lull_agreement_clock(agreement, 1, 1).mhz, LULL_AGREEMENT_REFERENCE);
    assert_int_equal(lull_agreement_clock(agreement, 1, 1).refused_mhz, 800);
    forgetting = proposal_of(1, 4, 900, 0);
    lull_agreement_take(agreement, &forgetting, 1);
    assert_int_equal(lull_agreement_clock(agreement, 1, 1).mhz, 900);
    lull_agreement_destroy(agreement);
}

static void test_more_refusals_than_can_be_remembered_lower_nothing(void **state)
{
    struct lull_agreement *agreement = agreed();

    (void)state;
    for (uint32_t i = 0; i <= LULL_AGREEMENT_MAX_REFUSALS; i++) {
        struct lull_proposal refusing = proposal_of(1, 2 + i, 700, 300);

        refusing.entry_count = 2;
        refusing.entries[1] = refusing.entries[0];
        refusing.entries[1].refused_mhz = 0;
        refusing.entries[0].signature = 1000 + i;
        lull_agreement_take(agreement, &refusing, 1);
        if (i < LULL_AGREEMENT_MAX_REFUSALS)
            assert_int_equal(lull_agreement_clock(agreement, 1, 1).mhz, 700);
    }
    assert_int_equal(lull_agreement_clock(agreement, 1, 1).mhz, LULL_AGREEMENT_REFERENCE);
    lull_agreement_destroy(agreement);
}

/* Every way of not coming together, and of having come together once. Patience is 60, and counts
 * from 10, when node 0 first knows its iteration. */
static void test_nodes_that_do_not_come_together(void **state)
{
    static const struct {
        uint64_t structure; /* of the other node; 7 is this one's */
        uint32_t leaving;
        bool is_heard;
        bool is_hopeless;
    } rows[] = {
        {7, 0, false, true}, {8, 0, true, true},  {0, 0, true, true},
        {7, 1, true, true},  {7, 0, true, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lull_agreement *agreement = lull_agreement_create(0, 2, 5);
        struct lull_proposal mine = proposal_of(0, 1, 700, 0);
        struct lull_proposal other = proposal_of(1, 1, 700, 0);

        mine.structure = 0;
        lull_agreement_take(agreement, &mine, 0);
        assert_false(lull_agreement_is_hopeless(agreement, 1000, 60));
        mine.structure = 7;
        mine.sequence = 2;
        lull_agreement_take(agreement, &mine, 10);
        other.structure = rows[i].structure;
        other.leaving = rows[i].leaving;
        if (rows[i].is_heard)
            lull_agreement_take(agreement, &other, 20);
        mine.sequence = 3;
        lull_agreement_take(agreement, &mine, 30);
        assert_false(lull_agreement_is_hopeless(agreement, 70, 60));
        assert_int_equal(lull_agreement_is_hopeless(agreement, 71, 60), rows[i].is_hopeless);
        /* A node that has agreed once is awaited. */
        if (!rows[i].is_hopeless)
            assert_int_equal(lull_agreement_state(agreement, 71), LULL_AGREEMENT_SILENT);
        lull_agreement_destroy(agreement);
    }
}

/* Nodes draw the same coins without another message, and other coins in each run. */
static void test_coins_come_from_the_first_node(void **state)
{
    const uint32_t points[] = {4};
    struct lull_agreement *agreement = lull_agreement_create(1, 2, silence);

    (void)state;
    for (uint32_t node = 0; node < 2; node++) {
        const struct lull_proposal proposal = {
            .node = node, .nodes = 2, .incarnation = 70 + node, .sequence = 1, .structure = 1};

        assert_true(lull_agreement_take(agreement, &proposal, 1));
    }
    assert_int_equal(lull_agreement_seed(agreement), 70);
    for (uint64_t given = 0; given <= 5; given += 5) {
        struct lull_controller_config config;
        struct lull_controller *controller;

        lull_controller_config_default(&config);
        config.together = true;
        config.seed = given;
        controller = lull_controller_create(&config, 1, points);
        lull_controller_share_seed(controller, lull_agreement_seed(agreement));
        assert_int_equal(lull_controller_look(controller).seed,
                         given != 0 ? given : lull_seed_from(70));
        lull_controller_destroy(controller);
    }
    lull_agreement_destroy(agreement);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bad_network_never_lowers_below_a_refusal),
        cmocka_unit_test(test_any_order_gives_the_same_answer),
        cmocka_unit_test(test_f22_a_governor_whose_clock_has_jumped_back),
        cmocka_unit_test(test_a_dead_node_brings_all_to_the_reference),
        cmocka_unit_test(test_a_node_that_takes_its_leave_is_not_waited_for),
        cmocka_unit_test(test_other_iterations_or_numbers_are_no_agreement),
        cmocka_unit_test(test_nodes_that_do_not_come_together),
        cmocka_unit_test(test_a_refusal_outlives_a_change_of_mind),
        cmocka_unit_test(test_more_refusals_than_can_be_remembered_lower_nothing),
        cmocka_unit_test(test_coins_come_from_the_first_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
