/* SPDX-License-Identifier: Apache-2.0 */
#include "../property.h"

#include "core/switching/pair_schedule.h"

/* Properties of a pair, found by going through its iterations. */
struct found_pair {
    uint64_t begin;
    uint64_t length;          /* of each block */
    uint32_t reference_block; /* its number */
};

/* Goes through one pair from *iteration on, checks what holds for each of them, and leaves
 * *iteration and *was_candidate as the next one needs them. */
static struct found_pair walk_pair(const struct lull_pair_schedule *schedule, uint32_t pair,
                                   uint64_t *iteration, bool *was_candidate, uint64_t seed)
{
    const uint32_t blocks = schedule->candidate_blocks + 1;
    struct found_pair found = {.begin = *iteration, .reference_block = blocks};
    uint64_t all = 0;
    uint64_t lowered = 0;
    uint64_t changed_at = UINT64_MAX;

    while (!lull_pair_slot(schedule, *iteration + all).pair_ends)
        all++;
    all++;
    holds(all % blocks == 0, seed);
    found.length = all / blocks;
    for (uint64_t i = 0; i < all; i++, ++*iteration) {
        const struct lull_pair_slot slot = lull_pair_slot(schedule, *iteration);
        const uint32_t block = (uint32_t)(i / found.length);

        holds(slot.pair == pair && slot.offset == *iteration, seed);
        holds(slot.pair_ends == (i == all - 1), seed);
        holds(slot.lowered == lowered, seed);
        lowered += slot.candidate;
        if (!slot.candidate) {
            /* One block and no more. */
            holds(found.reference_block == blocks || found.reference_block == block, seed);
            found.reference_block = block;
        }
        if (i % found.length != 0)
            holds(slot.candidate == *was_candidate, seed);
        changed_at = slot.candidate != *was_candidate ? i : changed_at;
        holds(slot.measured == (changed_at == UINT64_MAX || i - changed_at > schedule->washout ||
                                i / found.length != changed_at / found.length),
              seed);
        holds(slot.block == block, seed);
        *was_candidate = slot.candidate;
    }
    holds(found.reference_block < blocks, seed);
    return found;
}

static void test_the_slots_follow_the_definition(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        bool was_candidate = false; /* before the first pair the job runs at the reference */
        uint64_t iteration = 0;
        uint64_t first_length = 0;
        struct lull_random random;
        struct lull_pair_schedule schedule = {.washout = (uint32_t)(seed % 4)};

        lull_random_init(&random, seed);
        schedule.block_iterations = 1 + (uint32_t)lull_random_below(&random, 20);
        schedule.candidate_blocks =
            seed % 2 == 0 ? 1 : 1 + (uint32_t)lull_random_below(&random, 20);
        schedule.seed = lull_random_next(&random);
        for (uint32_t pair = 0; pair < 40; pair++) {
            const struct found_pair found =
                walk_pair(&schedule, pair, &iteration, &was_candidate, seed);
            const uint64_t shorter = (uint64_t)schedule.block_iterations + schedule.washout + 1;

            holds(lull_pair_schedule_begin(&schedule, pair) == found.begin, seed);
            holds(found.length == shorter || found.length == shorter + 1, seed);
            /* Of two pairs one is longer. */
            if (pair % 2 == 1)
                holds(found.length + first_length == 2 * shorter + 1, seed);
            first_length = found.length;
            if (pair % 2 == 1)
                holds(iteration == (pair + 1) / 2 * lull_pair_schedule_round(&schedule), seed);
        }
    }
}

/* A long job and a long block: nothing overflows, and a number is all that a slot depends on. */
static void test_slots_are_found_far_away(void **state)
{
    const struct lull_pair_schedule schedule = {4000000000U, 4000000000U, 3};
    const uint64_t far = lull_pair_schedule_round(&schedule);
    const struct lull_pair_schedule typical = {5, 1, 3};

    (void)state;
    assert_true(far == UINT64_C(4000000001) * UINT64_C(8000000003));
    assert_int_equal(lull_pair_slot(&schedule, far % UINT64_C(1000000007)).pair, 0);
    for (uint32_t pair = 4000000000U; pair < 4000000009U; pair++) {
        const uint64_t begin = lull_pair_schedule_begin(&typical, pair);

        assert_int_equal(lull_pair_slot(&typical, begin).pair, pair);
        assert_int_equal(lull_pair_slot(&typical, begin - 1).pair, pair - 1);
        assert_true(lull_pair_slot(&typical, begin - 1).pair_ends);
    }
}

static uint32_t reference_of(const struct lull_pair_schedule *schedule, uint32_t pair)
{
    const uint64_t begin = lull_pair_schedule_begin(schedule, pair);
    const uint64_t length =
        (lull_pair_schedule_begin(schedule, pair + 1) - begin) / (schedule->candidate_blocks + 1);

    for (uint32_t block = 0; block <= schedule->candidate_blocks; block++)
        if (!lull_pair_slot(schedule, begin + block * length).candidate)
            return block;
    fail();
    return 0;
}

static bool is_longer(const struct lull_pair_schedule *schedule, uint32_t pair)
{
    const uint64_t length =
        lull_pair_schedule_begin(schedule, pair + 1) - lull_pair_schedule_begin(schedule, pair);

    return length == (schedule->candidate_blocks + 1) * ((uint64_t)schedule->block_iterations + 2);
}

/* Counted so often of so many tosses whose chance is this; four standard errors. */
#define is_fair(count, tosses, chance)                                                             \
    assert_near((count) / (double)(tosses), chance,                                                \
                4.0 * sqrt((chance) * (1.0 - (chance)) / (tosses)))

static void test_coins_are_fair_and_know_nothing_of_each_other(void **state)
{
    enum { PAIRS = 4000 };

    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        const struct lull_pair_schedule schedule = {5, 1, seed};
        /* Those of the next trial, of the same one put off, and of another job. */
        const struct lull_pair_schedule others[3] = {
            {5, 1, seed + (UINT64_C(1) << 32)}, {5, 1, seed + 1}, {5, 1, ~seed}};
        uint32_t first = 0;
        uint32_t repeated = 0;
        uint32_t longer = 0;
        uint32_t longer_repeated = 0;
        uint32_t first_and_longer = 0;
        uint32_t alike[3] = {0};

        for (uint32_t pair = 0; pair < PAIRS; pair++) {
            const bool is_first = reference_of(&schedule, pair) == 0;

            first += is_first;
            repeated += is_first == (reference_of(&schedule, pair + 1) == 0);
            longer += is_longer(&schedule, 2 * pair);
            longer_repeated += is_longer(&schedule, 2 * pair) == is_longer(&schedule, 2 * pair + 2);
            first_and_longer += is_first == is_longer(&schedule, pair);
            for (uint32_t i = 0; i < 3; i++)
                alike[i] += is_first == (reference_of(&others[i], pair) == 0);
        }
        is_fair(first, PAIRS, 0.5);
        is_fair(repeated, PAIRS, 0.5);
        is_fair(longer, PAIRS, 0.5);
        is_fair(longer_repeated, PAIRS, 0.5);
        is_fair(first_and_longer, PAIRS, 0.5);
        for (uint32_t i = 0; i < 3; i++)
            is_fair(alike[i], PAIRS, 0.5);
    }
}

static void test_every_block_of_a_watch_is_as_often_the_reference(void **state)
{
    enum { PAIRS = 5000, BLOCKS = 9 };
    const struct lull_pair_schedule schedule = {3, BLOCKS - 1, 77};
    uint32_t counts[BLOCKS] = {0};

    (void)state;
    for (uint32_t pair = 0; pair < PAIRS; pair++)
        counts[reference_of(&schedule, pair)]++;
    for (uint32_t block = 0; block < BLOCKS; block++)
        is_fair(counts[block], PAIRS, 1.0 / BLOCKS);
}

/* A pair's measured iterations of each side, and how many of them an event every `period`
 * iterations has met. */
static double event_difference(const struct lull_pair_schedule *schedule, uint32_t pair,
                               uint64_t period, uint64_t phase)
{
    const uint64_t end = lull_pair_schedule_begin(schedule, pair + 1);
    double iterations[2] = {0.0, 0.0};
    double events[2] = {0.0, 0.0};

    for (uint64_t i = lull_pair_schedule_begin(schedule, pair); i < end; i++) {
        const struct lull_pair_slot slot = lull_pair_slot(schedule, i);

        if (!slot.measured)
            continue;
        iterations[slot.candidate] += 1.0;
        events[slot.candidate] += i % period == phase;
    }
    return events[1] / iterations[1] - events[0] / iterations[0];
}

/* Whatever comes every so many iterations meets both sides alike, in step with the pairs or not. */
static void test_periodic_events_meet_both_sides_alike(void **state)
{
    static const uint32_t lengths[] = {1, 5, 9};
    enum { PAIRS = 600 };

    (void)state;
    for (uint32_t l = 0; l < 3; l++)
        for (uint64_t period = 2; period <= 46; period++) {
            const struct lull_pair_schedule schedule = {lengths[l], 1, period};
            double sum = 0.0;
            double squares = 0.0;

            for (uint32_t pair = 0; pair < PAIRS; pair++) {
                const double difference = event_difference(&schedule, pair, period, period / 3);

                sum += difference;
                squares += difference * difference;
            }
            holds(fabs(sum) <= 4.5 * sqrt(squares), period);
        }
}

/* An event in step with pairs of one length would meet one place of one block of every pair. */
static void test_no_event_falls_on_the_same_place_of_all_blocks(void **state)
{
    enum { PAIRS = 1000 };

    (void)state;
    for (uint32_t block = 1; block <= 12; block++)
        for (uint64_t period = block + 1; period <= 4 * (block + 2); period++) {
            const struct lull_pair_schedule schedule = {block, 1, period};
            uint32_t places[64] = {0};
            uint32_t events = 0;
            uint32_t most = 0;

            for (uint32_t pair = 0; pair < PAIRS; pair++) {
                const uint64_t begin = lull_pair_schedule_begin(&schedule, pair);
                const uint64_t length = lull_pair_schedule_begin(&schedule, pair + 1) - begin;

                for (uint64_t i = 0; i < length; i++) {
                    if ((begin + i) % period != 0)
                        continue;
                    events++;
                    places[i]++;
                }
            }
            for (uint32_t i = 0; i < 64; i++)
                most = places[i] > most ? places[i] : most;
            /* Lengths repeat after a round of two pairs, so that in each an event of that period
             * has one of two places only. */
            if (period != lull_pair_schedule_round(&schedule))
                holds(most <= 0.6 * events, period);
        }
}

/* Nodes of one job have to agree on the coins, whichever build each of them runs. */
static void test_the_coins_of_a_seed_are_what_they_were(void **state)
{
    const struct lull_pair_schedule schedules[2] = {{3, 1, 5}, {2, 6, UINT64_C(0x123456789abcdef)}};
    static const uint64_t expected[2] = {UINT64_C(0x33204e85f8a7764d),
                                         UINT64_C(0x532cbdd88794af20)};

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t digest = UINT64_C(14695981039346656037);

        for (uint64_t iteration = 0; iteration < 2000; iteration++) {
            const struct lull_pair_slot slot = lull_pair_slot(&schedules[i], iteration);

            digest ^= slot.pair * 4 + slot.candidate * 2 + slot.measured;
            digest *= UINT64_C(1099511628211);
        }
        if (digest != expected[i])
            fail_msg("%016" PRIx64 ", and was %016" PRIx64, digest, expected[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_slots_follow_the_definition),
        cmocka_unit_test(test_slots_are_found_far_away),
        cmocka_unit_test(test_coins_are_fair_and_know_nothing_of_each_other),
        cmocka_unit_test(test_every_block_of_a_watch_is_as_often_the_reference),
        cmocka_unit_test(test_periodic_events_meet_both_sides_alike),
        cmocka_unit_test(test_no_event_falls_on_the_same_place_of_all_blocks),
        cmocka_unit_test(test_the_coins_of_a_seed_are_what_they_were),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
