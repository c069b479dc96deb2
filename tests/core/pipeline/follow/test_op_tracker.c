/*
 * Op trackers against simulated jobs with a known course, in virtual time: for
 * any schedule, joining at any time, from sections or from transfers alone.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>
#include <stdlib.h>

#include "core/pipeline/follow/sequence_locator.h"
#include "core/pipeline/follow/op_tracker.h"
#include "pipe_sim.h"
#include "../../property.h"

static struct pipe_sim_result follow(const struct pipe_sim_config *config)
{
    struct pipe_sim *sim = pipe_sim_create(config);
    struct pipe_sim_result result;

    assert_non_null(sim);
    pipe_sim_run(sim, NULL, &result);
    pipe_sim_destroy(sim);
    return result;
}

static struct pipe_sim_config random_job(struct lull_random *random, bool sees_transfers)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "envpipe"};
    struct pipe_sim_config config;

    pipe_sim_config_default(&config);
    config.schedule = schedules[lull_random_below(random, 3)];
    config.devices = 2 + (uint32_t)lull_random_below(random, 7);
    config.microbatches = config.devices + 1 + (uint32_t)lull_random_below(random, 12);
    config.forward_ms = 20 + 60 * lull_random_uniform(random);
    config.backward_ms = config.forward_ms * (1.2 + lull_random_uniform(random));
    config.last_ratio = 0.9 + 0.3 * lull_random_uniform(random);
    config.latency_ms = 0.5 + 3 * lull_random_uniform(random);
    config.joins_ms = 2000 * lull_random_uniform(random);
    config.iterations = 12;
    config.sees_transfers = sees_transfers;
    config.seed = lull_random_next(random);
    return config;
}

static void test_sections_are_followed_exactly(void **state)
{
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 7);
    for (int i = 0; i < 40; i++) {
        const struct pipe_sim_config config = random_job(&random, false);
        const struct pipe_sim_result result = follow(&config);

        holds(result.wrong == 0, config.seed);
        holds(result.worst_edge_ms < 0.3, config.seed);
        holds(result.edges > 4 * 2 * 2 * config.microbatches * config.devices, config.seed);
    }
}

static void test_transfers_are_enough(void **state)
{
    struct lull_random random;
    uint64_t edges = 0;
    uint64_t wrong = 0;

    (void)state;
    lull_random_init(&random, 8);
    for (int i = 0; i < 60; i++) {
        const struct pipe_sim_config config = random_job(&random, true);
        const struct pipe_sim_result result = follow(&config);

        holds(result.edges > 3 * 2 * 2 * config.microbatches * config.devices, config.seed);
        holds(result.wrong * 100 <= result.edges * 3, config.seed);
        edges += result.edges;
        wrong += result.wrong;
    }
    /* Operation 0 of the first stage begins unseen, with the optimizer; nothing else is wrong. */
    holds(wrong * 100 < edges, 8);
}

static void test_cycle_finds_its_place_and_notices_deviations(void **state)
{
    static const uint32_t symbols[] = {0, 0, 1, 0, 1, 1};
    struct lull_sequence_locator *cycle = lull_sequence_locator_create(symbols, 6);
    uint32_t place = LULL_SEQUENCE_LOCATOR_UNKNOWN;

    (void)state;
    for (uint32_t i = 3; i < 40; i++) {
        place = lull_sequence_locator_take(cycle, symbols[i % 6], 1);
        /* Joined in the middle: a whole round and the next first one. */
        assert_true(i < 12 ? place == LULL_SEQUENCE_LOCATOR_UNKNOWN : place == i % 6);
    }
    assert_int_equal(lull_sequence_locator_take(cycle, 1 - symbols[40 % 6], 1),
                     LULL_SEQUENCE_LOCATOR_UNKNOWN);
    lull_sequence_locator_destroy(cycle);
}

static void test_cycle_tells_equal_rotations_apart_by_the_pause(void **state)
{
    static const uint32_t symbols[] = {0, 1, 0, 1, 0, 1, 0, 1};
    struct lull_sequence_locator *cycle = lull_sequence_locator_create(symbols, 8);
    uint32_t place = LULL_SEQUENCE_LOCATOR_UNKNOWN;

    (void)state;
    for (uint32_t i = 5; i < 60; i++)
        place = lull_sequence_locator_take(cycle, symbols[i % 8], i % 8 == 0 ? 30 : 2 + i % 3);
    assert_int_equal(place, 59 % 8);
    /* Somebody was asleep for an iteration's half: the longest pause is elsewhere from now on. */
    for (uint32_t i = 60; i < 120; i++)
        place = lull_sequence_locator_take(cycle, symbols[i % 8], i % 8 == 4 ? 30 : 2 + i % 3);
    assert_int_equal(place, (119 - 4) % 8);
    lull_sequence_locator_destroy(cycle);
}

/* Every event of a round counts; where half a round is a rotation too, only pauses tell. */
static void test_a_whole_round_is_awaited(void **state)
{
    static const uint32_t once[] = {0, 1, 1};
    static const uint32_t twice[] = {0, 1, 2, 0, 1, 2};
    static const uint32_t streams[][4] = {{0, 1, 1, 0}, {1, 1, 1, 0}, {0, 0, 1, 0}, {0, 1, 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        struct lull_sequence_locator *cycle = lull_sequence_locator_create(once, 3);
        uint32_t place = 0;

        for (uint32_t event = 0; event < 4; event++)
            place = lull_sequence_locator_take(cycle, streams[i][event], 1);
        assert_int_equal(place, i == 0 ? 0 : LULL_SEQUENCE_LOCATOR_UNKNOWN);
        lull_sequence_locator_destroy(cycle);
    }
    for (uint32_t offset = 0; offset < 2; offset++) {
        struct lull_sequence_locator *cycle = lull_sequence_locator_create(twice, 6);
        uint32_t first = 0;

        while (lull_sequence_locator_take(cycle, first % 3, first % 6 == 3 * offset ? 99 : 20) != 0)
            assert_in_range(first++, 0, 99);
        assert_int_equal(first, 12 + 3 * offset);
        lull_sequence_locator_destroy(cycle);
    }
}

/* The pause before the first place has to be longer than a twentieth above every other, in both
 * rounds; how long it was before the first event of all is not asked. */
static void test_a_pause_must_be_clearly_the_longest(void **state)
{
    static const uint32_t symbols[] = {0, 1, 0, 1};
    static const struct {
        int64_t even_ns[5]; /* before the first, third, ... event; 1 ns before the others */
        bool is_found;
    } cases[] = {
        {{0, 20, 30, 20, 30}, true},  {{9999, 20, 30, 20, 30}, true},
        {{0, 20, 22, 20, 30}, true},  {{0, 20, 21, 20, 30}, false},
        {{0, 20, 30, 20, 22}, true},  {{0, 20, 30, 20, 21}, false},
        {{0, 30, 30, 20, 40}, false}, {{0, 20, 40, 30, 30}, false},
        {{0, 40, 30, 20, 30}, false}, {{9999, 20, 10, 20, 30}, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_sequence_locator *cycle = lull_sequence_locator_create(symbols, 4);
        uint32_t place = 0;

        for (uint32_t event = 0; event < 9; event++) {
            assert_true(event == 0 || place == LULL_SEQUENCE_LOCATOR_UNKNOWN);
            place = lull_sequence_locator_take(cycle, symbols[event % 4],
                                               event % 2 == 0 ? cases[i].even_ns[event / 2] : 1);
        }
        if (place != (cases[i].is_found ? 0 : LULL_SEQUENCE_LOCATOR_UNKNOWN))
            fail_msg("case %zu: place %u", i, place);
        lull_sequence_locator_destroy(cycle);
    }
}

/* A place is given up after two rounds in a row whose longest pause was elsewhere, not after two
 * with a round between them, and not where another pause is as long. */
static void test_a_place_is_given_up_after_two_rounds(void **state)
{
    static const uint32_t symbols[] = {0, 1, 0, 1};
    static const struct {
        int64_t first_ns[4]; /* before the first event of a round; others 20 ns */
        uint32_t known;      /* rounds begun at a known place */
    } cases[] = {{{20, 20, 20, 20}, 4},
                 {{19, 20, 19, 20}, 4},
                 {{19, 19, 20, 20}, 1},
                 {{20, 19, 19, 20}, 2},
                 {{40, 30, 25, 20}, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_sequence_locator *cycle = lull_sequence_locator_create(symbols, 4);
        uint32_t known = 0;

        for (uint32_t event = 0; event < 12; event++)
            lull_sequence_locator_take(cycle, symbols[event % 4], event % 4 == 0 ? 99 : 20);
        for (uint32_t event = 0; event < 16; event++) {
            /* A pause before an odd place is ignored, because that place cannot be the first one.
             */
            const int64_t others_ns = event % 2 == 0 ? 20 : 50;
            const int64_t pause_ns = event % 4 == 0 ? cases[i].first_ns[event / 4] : others_ns;

            known += lull_sequence_locator_take(cycle, symbols[event % 4], pause_ns) == 0;
        }
        if (known != cases[i].known)
            fail_msg("case %zu: %u rounds", i, known);
        lull_sequence_locator_destroy(cycle);
    }
}

static void test_nonsense_is_survived(void **state)
{
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 9);
    for (int round = 0; round < 200; round++) {
        struct lull_op_tracker_op ops[12];
        const uint32_t count = 1 + (uint32_t)lull_random_below(&random, 12);
        struct lull_op_tracker *tracker;
        struct lull_op_tracker_edge edge;

        for (uint32_t i = 0; i < count; i++)
            ops[i] = (struct lull_op_tracker_op){
                .is_backward = lull_random_below(&random, 2) != 0,
                .receives_from = lull_random_below(&random, 3) == 0 ? 1 : LULL_OP_TRACKER_NONE,
                .sends_to = lull_random_below(&random, 3) == 0 ? 2 : LULL_OP_TRACKER_NONE,
                .length_ns = 1000,
            };
        tracker = lull_op_tracker_create(ops, count);
        for (int64_t now_ns = 1; now_ns < 400000; now_ns += 997) {
            if (round % 2 == 0)
                lull_op_tracker_take_transfer(tracker, (uint32_t)lull_random_below(&random, 3),
                                              lull_random_below(&random, 2) != 0,
                                              lull_random_below(&random, 2) != 0, now_ns);
            else
                lull_op_tracker_take_section(tracker, lull_random_below(&random, 2) != 0,
                                             lull_random_below(&random, 2) != 0, now_ns);
            while (lull_op_tracker_poll(tracker, now_ns, &edge))
                assert_true(edge.is_lost || edge.op < count);
        }
        lull_op_tracker_destroy(tracker);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cycle_finds_its_place_and_notices_deviations),
        cmocka_unit_test(test_cycle_tells_equal_rotations_apart_by_the_pause),
        cmocka_unit_test(test_a_whole_round_is_awaited),
        cmocka_unit_test(test_a_pause_must_be_clearly_the_longest),
        cmocka_unit_test(test_a_place_is_given_up_after_two_rounds),
        cmocka_unit_test(test_nonsense_is_survived),
        cmocka_unit_test(test_sections_are_followed_exactly),
        cmocka_unit_test(test_transfers_are_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
