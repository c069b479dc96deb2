/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/section/iteration.h"
#include "../property.h"

enum { MAX_LENGTH = 40000, CYCLES = 1 + LULL_ITERATION_REPEATS };

/* A sequence under construction and what the finder said to each of its symbols. */
struct sequence {
    uint32_t length;
    uint64_t symbols[MAX_LENGTH];
    struct lull_iteration_state states[MAX_LENGTH];
};

static struct sequence sequence;

static void add(uint64_t symbol)
{
    assert_true(sequence.length < MAX_LENGTH);
    sequence.symbols[sequence.length++] = symbol;
}

static void add_all(const uint64_t *symbols, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        add(symbols[i]);
}

/* n symbols of the repetition of a loop, starting at one of its places. */
static void add_loop(const uint64_t *loop, uint32_t period, uint32_t start, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        add(loop[(start + i) % period]);
}

/* Symbols that no loop of these tests has. */
static void add_garbage(struct lull_random *random, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        add(lull_random_next(random));
}

static void push_all(void)
{
    struct lull_iteration_finder *const finder = lull_iteration_finder_create();

    assert_non_null(finder);
    for (uint32_t i = 0; i < sequence.length; i++) {
        sequence.states[i] = lull_iteration_push(finder, sequence.symbols[i]);
        assert_true(sequence.states[i].symbols == i + 1);
    }
    lull_iteration_finder_destroy(finder);
}

static bool has_period(const uint64_t *symbols, uint32_t n, uint32_t period)
{
    for (uint32_t i = period; i < n; i++)
        if (symbols[i] != symbols[i - period])
            return false;
    return true;
}

/* The smallest period whose CYCLES repetitions end with symbol i; 0 if there is none. */
static uint32_t brute_force_period(uint32_t i)
{
    for (uint32_t p = 1; p <= LULL_ITERATION_MAX_PERIOD && CYCLES * p <= i + 1; p++)
        if (has_period(sequence.symbols + (i + 1 - CYCLES * p), CYCLES * p, p))
            return p;
    return 0;
}

/* The place of the first symbol from begin on that is found with this period; length if none. */
static uint32_t find_found(uint32_t begin, uint32_t period)
{
    uint32_t i = begin;

    while (i < sequence.length && !(sequence.states[i].event == LULL_ITERATION_FOUND &&
                                    sequence.states[i].period == period))
        i++;
    return i;
}

static uint32_t count_events(uint32_t begin, enum lull_iteration_event event)
{
    uint32_t n = 0;

    for (uint32_t i = begin; i < sequence.length; i++)
        n += sequence.states[i].event == event;
    return n;
}

static void random_loop(struct lull_random *random, uint64_t *loop, uint32_t period,
                        uint64_t alphabet)
{
    for (uint32_t i = 0; i < period; i++)
        loop[i] = lull_random_below(random, alphabet);
}

/* Every state that claims a period must be true of the symbols, whatever came before. */
static void check_claims(uint64_t seed)
{
    for (uint32_t i = 1; i < sequence.length; i++) {
        const struct lull_iteration_state *const now = &sequence.states[i];
        const struct lull_iteration_state *const last = now - 1;

        if (now->event == LULL_ITERATION_FOLLOWING) {
            holds(now->period == last->period, seed);
            holds(now->position == (last->position + 1) % now->period, seed);
            holds(sequence.symbols[i] == sequence.symbols[i - now->period], seed);
        }
        if (now->event == LULL_ITERATION_FOUND)
            holds(now->position < now->period && i + 1 >= now->period, seed);
        else if (now->event != LULL_ITERATION_FOLLOWING)
            holds(now->period == 0 && now->position == 0, seed);
        if (now->event == LULL_ITERATION_DEVIATED)
            holds(sequence.symbols[i] != sequence.symbols[i - last->period], seed);
        if (last->period != 0)
            holds(now->event != LULL_ITERATION_SEARCHING, seed);
    }
}

static void test_plain_periods_are_found_with_the_third_repetition(void **state)
{
    static uint64_t loop[300];

    (void)state;
    for (uint32_t period = 1; period <= 300; period++) {
        sequence.length = 0;
        for (uint32_t i = 0; i < period; i++)
            loop[i] = (uint64_t)i * i + 1;
        add_loop(loop, period, period / 3, 5 * period);
        push_all();
        check_claims(period);
        holds(find_found(0, period) == CYCLES * period - 1, period);
        holds(count_events(0, LULL_ITERATION_FOLLOWING) == 2 * period, period);
        holds(sequence.states[CYCLES * period - 1].position == (period / 3 + period - 1) % period,
              period);
    }
}

static void test_the_longest_period_is_found_and_longer_ones_are_not(void **state)
{
    static uint64_t loop[LULL_ITERATION_MAX_PERIOD + 1];

    (void)state;
    for (uint32_t extra = 0; extra <= 1; extra++) {
        const uint32_t period = LULL_ITERATION_MAX_PERIOD + extra;

        sequence.length = 0;
        for (uint32_t i = 0; i < period; i++)
            loop[i] = i;
        add_loop(loop, period, 0, 6 * period);
        push_all();
        check_claims(period);
        assert_int_equal(count_events(0, LULL_ITERATION_FOUND), 1 - extra);
        assert_int_equal(count_events(0, LULL_ITERATION_DEVIATED), 0);
    }
}

/* Small alphabets make inner loops by chance; the first find is brute force's. */
static void test_the_first_find_is_that_of_brute_force(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        static uint64_t loop[60];
        struct lull_random random;
        uint32_t i = 0;

        lull_random_init(&random, seed);
        const uint32_t period = 1 + (uint32_t)lull_random_below(&random, 60);
        random_loop(&random, loop, period, 2 + lull_random_below(&random, 20));
        sequence.length = 0;
        add_garbage(&random, lull_random_below(&random, 100));
        add_loop(loop, period, 0, 4 * period);
        push_all();
        check_claims(seed);
        while (sequence.states[i].event != LULL_ITERATION_FOUND)
            i++;
        holds(sequence.states[i].period == brute_force_period(i), seed);
        for (uint32_t before = 0; before < i; before++)
            holds(brute_force_period(before) == 0, seed);
    }
}

/* The smallest period of a whole loop: its own unless it repeats itself. */
static uint32_t primitive_period(const uint64_t *loop, uint32_t period)
{
    for (uint32_t p = 1; p < period; p++)
        if (period % p == 0 && has_period(loop, period, p))
            return p;
    return period;
}

static void test_loops_of_few_symbols_end_in_the_whole_loop(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        static uint64_t loop[80];
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t period = 1 + (uint32_t)lull_random_below(&random, 80);
        const uint32_t garbage = (uint32_t)lull_random_below(&random, 50);
        random_loop(&random, loop, period, 2 + lull_random_below(&random, 3));
        sequence.length = 0;
        add_garbage(&random, garbage);
        add_loop(loop, period, 0, 12 * period);
        push_all();
        check_claims(seed);
        /* Evidence after three periods; an inner loop in the way ends within one more. */
        const uint32_t found = find_found(garbage, primitive_period(loop, period));
        holds(found <= garbage + (CYCLES + 1) * period, seed);
        for (uint32_t i = found + 1; i < sequence.length; i++)
            holds(sequence.states[i].event == LULL_ITERATION_FOLLOWING, seed);
    }
}

/* A loop with an inner part repeated several times and then others, on three levels. */
static uint32_t nested_loop(struct lull_random *random, uint64_t *loop)
{
    uint32_t n = 0;

    for (uint64_t outer = 1 + lull_random_below(random, 4); outer > 0; outer--) {
        const uint64_t first = lull_random_below(random, 1000);
        const uint32_t inner = 1 + (uint32_t)lull_random_below(random, 6);
        const uint64_t times = 1 + lull_random_below(random, 12);

        for (uint64_t i = 0; i < times; i++)
            for (uint32_t j = 0; j < inner; j++)
                loop[n++] = first + j;
        for (uint64_t i = lull_random_below(random, 5); i > 0; i--)
            loop[n++] = 2000 + lull_random_below(random, 1000);
    }
    return n;
}

static void test_nested_loops_end_in_the_outermost(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        static uint64_t loop[400];
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t period = nested_loop(&random, loop);
        const uint32_t start = (uint32_t)lull_random_below(&random, period);
        sequence.length = 0;
        add_loop(loop, period, start, 8 * period);
        push_all();
        check_claims(seed);
        const uint32_t found = find_found(0, primitive_period(loop, period));
        holds(found <= (CYCLES + 1) * period, seed);
        for (uint32_t i = found + 1; i < sequence.length; i++)
            holds(sequence.states[i].event == LULL_ITERATION_FOLLOWING, seed);
    }
}

static void test_an_inner_loop_is_taken_for_the_iteration_once(void **state)
{
    static const uint64_t loop[] = {7, 7, 7, 7, 7, 7, 9};

    (void)state;
    sequence.length = 0;
    add_loop(loop, 7, 0, 70);
    push_all();
    assert_int_equal(find_found(0, 1), 2);
    assert_int_equal(find_found(3, 1), sequence.length);
    assert_int_equal(find_found(0, 7), 20);
    assert_int_equal(count_events(0, LULL_ITERATION_FOUND), 2);
}

static void test_all_rotations_number_positions_alike(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        static uint64_t loop[40];
        uint32_t places[40];
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t period = 1 + (uint32_t)lull_random_below(&random, 40);
        random_loop(&random, loop, period, 1000);
        for (uint32_t start = 0; start < period; start++) {
            sequence.length = 0;
            add_garbage(&random, lull_random_below(&random, 10));
            const uint32_t garbage = sequence.length;
            add_loop(loop, period, start, 5 * period);
            push_all();
            const uint32_t last = sequence.length - 1;
            const uint32_t place = (start + last - garbage) % period;
            const uint32_t zero =
                (place + period - sequence.states[last].position % period) % period;
            holds(sequence.states[last].period == period, seed);
            places[start] = zero;
            holds(places[start] == places[0], seed);
        }
    }
}

static void test_position_zero_starts_the_least_rotation(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        static uint64_t loop[30];
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t wanted = 1 + (uint32_t)lull_random_below(&random, 30);
        random_loop(&random, loop, wanted, 3);
        const uint32_t period = primitive_period(loop, wanted);
        sequence.length = 0;
        add_loop(loop, period, 0, 9 * period);
        push_all();
        const uint32_t last = sequence.length - 1;
        holds(sequence.states[last].period == period, seed);
        /* The last symbol is the loop's last: position 0 is at this place of the loop. */
        const uint32_t zero = (2 * period - 1 - sequence.states[last].position) % period;
        for (uint32_t start = 0; start < period; start++) {
            for (uint32_t i = 0; i < period; i++) {
                const uint64_t ours = loop[(zero + i) % period];
                const uint64_t other = loop[(start + i) % period];

                holds(ours <= other, seed);
                if (ours != other)
                    break;
            }
        }
    }
}

static void test_an_extra_call_costs_one_iteration(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        static uint64_t loop[200];
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t period = 1 + (uint32_t)lull_random_below(&random, 200);
        const uint32_t extra = 1 + (uint32_t)lull_random_below(&random, 5);
        const uint32_t clean = LULL_ITERATION_MAX_PERIOD + CYCLES * period;
        const uint32_t start = (uint32_t)lull_random_below(&random, period);
        random_loop(&random, loop, period, UINT64_MAX);
        sequence.length = 0;
        add_loop(loop, period, 0, clean);
        add_garbage(&random, extra);
        /* Resumes anywhere: calls may be missing as well. */
        add_loop(loop, period, start, 2 * period);
        add_garbage(&random, extra);
        add_loop(loop, period, 0, 2 * period);
        push_all();
        check_claims(seed);
        holds(sequence.states[clean].event == LULL_ITERATION_DEVIATED, seed);
        holds(find_found(clean, period) == clean + extra + period - 1, seed);
        const uint32_t second = clean + extra + 2 * period;
        holds(sequence.states[second].event == LULL_ITERATION_DEVIATED, seed);
        holds(find_found(second, period) == second + extra + period - 1, seed);
    }
}

/* An evaluation that is itself a loop is followed, and does not displace the memory. */
static void test_the_iteration_resumes_after_an_evaluation(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        static uint64_t loop[200], other[20];
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t period = 2 + (uint32_t)lull_random_below(&random, 199);
        const uint32_t next = 2 + (uint32_t)lull_random_below(&random, 19);
        const uint32_t clean = LULL_ITERATION_MAX_PERIOD + CYCLES * period;
        const uint32_t evaluation = next * (5 + (uint32_t)lull_random_below(&random, 20));
        random_loop(&random, loop, period, UINT64_MAX);
        random_loop(&random, other, next, UINT64_MAX);
        sequence.length = 0;
        for (uint32_t i = 0; i < 3; i++) {
            add_loop(loop, period, 0, clean);
            add_loop(other, next, 0, evaluation);
        }
        push_all();
        check_claims(seed);
        holds(find_found(clean, next) == clean + CYCLES * next - 1, seed);
        const uint32_t back = clean + evaluation;
        holds(find_found(back, period) == back + period - 1, seed);
        holds(find_found(2 * back, period) == 2 * back + period - 1, seed);
    }
}

/* Each phase displaces the memory of the one before; a long one is never blocked. */
static void test_long_phases_are_found_again_by_evidence(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        static uint64_t loops[2][200];
        uint32_t periods[2];
        struct lull_random random;

        lull_random_init(&random, seed);
        for (uint32_t i = 0; i < 2; i++) {
            periods[i] = 2 + (uint32_t)lull_random_below(&random, 199);
            random_loop(&random, loops[i], periods[i], UINT64_MAX);
        }
        sequence.length = 0;
        for (uint32_t i = 0; i < 4; i++)
            for (uint32_t part = 0; part < 2; part++) {
                const uint32_t period = periods[i % 2];

                add_loop(loops[i % 2], period, 0, LULL_ITERATION_MAX_PERIOD + CYCLES * period);
                add_garbage(&random, 1);
            }
        push_all();
        check_claims(seed);
        for (uint32_t i = 0, at = 0; i < 4; i++) {
            const uint32_t period = periods[i % 2];

            holds(find_found(at, period) == at + CYCLES * period - 1, seed);
            at += LULL_ITERATION_MAX_PERIOD + CYCLES * period + 1;
            holds(find_found(at, period) == at + period - 1, seed);
            at += LULL_ITERATION_MAX_PERIOD + CYCLES * period + 1;
        }
    }
}

static void test_inner_loops_stay_quiet_after_an_interruption(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        static uint64_t loop[400];
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t wanted = nested_loop(&random, loop);
        const uint32_t period = primitive_period(loop, wanted);
        const uint32_t clean = LULL_ITERATION_MAX_PERIOD + (CYCLES + 2) * period;
        sequence.length = 0;
        add_loop(loop, period, 0, clean);
        add_garbage(&random, 1);
        add_loop(loop, period, clean % period, 2 * period);
        push_all();
        check_claims(seed);
        holds(sequence.states[clean].event == LULL_ITERATION_DEVIATED, seed);
        for (uint32_t i = clean + 1; i < clean + period; i++)
            holds(sequence.states[i].event == LULL_ITERATION_SEARCHING, seed);
        holds(find_found(clean, period) == clean + period, seed);
    }
}

static void test_another_loop_is_found_after_a_deviation(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        static uint64_t loop[200], other[200];
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t period = 2 + (uint32_t)lull_random_below(&random, 199);
        const uint32_t next = 2 + (uint32_t)lull_random_below(&random, 199);
        const uint32_t times = CYCLES + (uint32_t)lull_random_below(&random, 20);
        random_loop(&random, loop, period, UINT64_MAX);
        random_loop(&random, other, next, UINT64_MAX);
        sequence.length = 0;
        add_loop(loop, period, 0, times * period);
        add_loop(other, next, 0, 5 * next);
        push_all();
        check_claims(seed);
        holds(sequence.states[times * period].event == LULL_ITERATION_DEVIATED, seed);
        holds(find_found(times * period, next) == times * period + CYCLES * next - 1, seed);
    }
}

static void test_the_same_loop_is_found_after_a_short_run_broke(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        static uint64_t loop[400];
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t period = 2 + (uint32_t)lull_random_below(&random, 399);
        const uint32_t clean = CYCLES * period + (uint32_t)lull_random_below(&random, 2000);
        random_loop(&random, loop, period, UINT64_MAX);
        sequence.length = 0;
        add_loop(loop, period, 0, clean);
        add_garbage(&random, 1);
        add_loop(loop, period, 0, LULL_ITERATION_MAX_PERIOD + CYCLES * period);
        push_all();
        check_claims(seed);
        /* One symbol more than the run that broke; or at once if it was not an inner loop. */
        const bool blocks = clean < LULL_ITERATION_MAX_PERIOD;
        holds(find_found(clean, period) == clean + 1 + (blocks ? clean : period - 1), seed);
    }
}

static void test_irregular_interruptions_stop_blocking(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        static uint64_t loop[20];
        struct lull_random random;
        uint32_t following = 0;

        lull_random_init(&random, seed);
        const uint32_t period = 5 + (uint32_t)lull_random_below(&random, 16);
        random_loop(&random, loop, period, UINT64_MAX);
        sequence.length = 0;
        for (uint32_t i = 0; i < 60; i++) {
            add_loop(loop, period, 0, (20 + (uint32_t)lull_random_below(&random, 10)) * period);
            add_garbage(&random, 1);
        }
        push_all();
        check_claims(seed);
        const uint32_t half = sequence.length / 2;
        for (uint32_t i = half; i < sequence.length; i++)
            following += sequence.states[i].event == LULL_ITERATION_FOLLOWING;
        holds(following > (sequence.length - half) * 9 / 10, seed);
    }
}

static void test_regular_extra_calls_belong_to_a_longer_iteration(void **state)
{
    static uint64_t loop[10 * 20 + 1];

    (void)state;
    for (uint32_t i = 0; i < 200; i++)
        loop[i] = i % 10;
    loop[200] = 999;
    sequence.length = 0;
    add_loop(loop, 201, 0, 201 * 10);
    push_all();
    check_claims(0);
    assert_true(find_found(0, 201) <= 4 * 201);
    assert_int_equal(count_events(4 * 201, LULL_ITERATION_DEVIATED), 0);
}

static void test_sequences_without_a_period_find_none(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct lull_random random;

        lull_random_init(&random, seed);
        sequence.length = 0;
        for (uint32_t i = 0; i < 20000; i++)
            add(lull_random_below(&random, 10000));
        push_all();
        check_claims(seed);
        holds(count_events(0, LULL_ITERATION_FOUND) == 0, seed);
    }
}

static void test_any_sequence_keeps_the_claims_true(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 25; seed++) {
        static uint64_t loop[100];
        struct lull_random random;

        lull_random_init(&random, seed);
        sequence.length = 0;
        while (sequence.length < 8000) {
            const uint32_t period = 1 + (uint32_t)lull_random_below(&random, 100);

            random_loop(&random, loop, period, 1 + lull_random_below(&random, 4));
            for (uint64_t i = lull_random_below(&random, 5); i > 0; i--) {
                add_loop(loop, period, 0, (uint32_t)lull_random_below(&random, 6 * period));
                add_all(loop, (uint32_t)lull_random_below(&random, period));
            }
        }
        push_all();
        check_claims(seed);
    }
}

static double push_ns(void)
{
    struct timespec begin, end;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    push_all();
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
           sequence.length;
}

/* Printed, not asserted: the machine is not ours. */
static void test_cost_per_symbol(void **state)
{
    static uint64_t loop[LULL_ITERATION_MAX_PERIOD];
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 1);
    sequence.length = 0;
    add_garbage(&random, MAX_LENGTH);
    print_message("searching, all symbols differ: %.0f ns/symbol\n", push_ns());
    sequence.length = 0;
    for (uint32_t i = 0; i < MAX_LENGTH; i++)
        add(lull_random_below(&random, 2));
    print_message("searching, two symbols at random: %.0f ns/symbol\n", push_ns());
    sequence.length = 0;
    while (sequence.length < MAX_LENGTH) {
        /* The inner loop is blocked for nearly as long as can be. */
        for (uint32_t i = 0; i < 1900 && sequence.length < MAX_LENGTH; i++)
            add(1);
        if (sequence.length < MAX_LENGTH)
            add(lull_random_next(&random));
    }
    print_message("searching, a blocked inner loop: %.0f ns/symbol\n", push_ns());
    sequence.length = 0;
    random_loop(&random, loop, 50, UINT64_MAX);
    add_loop(loop, 50, 0, MAX_LENGTH);
    print_message("following: %.0f ns/symbol\n", push_ns());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_periods_are_found_with_the_third_repetition),
        cmocka_unit_test(test_the_longest_period_is_found_and_longer_ones_are_not),
        cmocka_unit_test(test_the_first_find_is_that_of_brute_force),
        cmocka_unit_test(test_loops_of_few_symbols_end_in_the_whole_loop),
        cmocka_unit_test(test_nested_loops_end_in_the_outermost),
        cmocka_unit_test(test_an_inner_loop_is_taken_for_the_iteration_once),
        cmocka_unit_test(test_all_rotations_number_positions_alike),
        cmocka_unit_test(test_position_zero_starts_the_least_rotation),
        cmocka_unit_test(test_an_extra_call_costs_one_iteration),
        cmocka_unit_test(test_the_iteration_resumes_after_an_evaluation),
        cmocka_unit_test(test_long_phases_are_found_again_by_evidence),
        cmocka_unit_test(test_inner_loops_stay_quiet_after_an_interruption),
        cmocka_unit_test(test_another_loop_is_found_after_a_deviation),
        cmocka_unit_test(test_the_same_loop_is_found_after_a_short_run_broke),
        cmocka_unit_test(test_irregular_interruptions_stop_blocking),
        cmocka_unit_test(test_regular_extra_calls_belong_to_a_longer_iteration),
        cmocka_unit_test(test_sequences_without_a_period_find_none),
        cmocka_unit_test(test_any_sequence_keeps_the_claims_true),
        cmocka_unit_test(test_cost_per_symbol),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
