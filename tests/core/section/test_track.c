/* SPDX-License-Identifier: Apache-2.0 */
#include "../property.h"

#include "core/section/track.h"

enum { ROUNDS = 60, MAX_CALLS = 3 };

/* Rounds of the same calls, of 1 ms each, with these gaps before the calls of round k % repeats. */
struct loop {
    uint32_t calls;
    uint32_t repeats;
    double gap_ms[4][MAX_CALLS];
    double noise_ms;
};

struct seen {
    uint32_t period;
    double iteration_ms;
    double spread_ms;
};

static void play_round(struct lull_track *track, const struct loop *loop, uint32_t round,
                       struct lull_random *random, int64_t *now_ns)
{
    for (uint32_t i = 0; i < loop->calls; i++) {
        const double gap_ms = loop->gap_ms[round % loop->repeats][i];
        struct lull_call call = {.bytes = (uint64_t)1 << i, .peer = -1, .operation = 1};

        *now_ns += (int64_t)(1e6 * fmax(0.01, lull_random_normal(random, gap_ms, loop->noise_ms)));
        call.begin = true;
        call.time_ns = *now_ns;
        lull_track_take(track, &call);
        *now_ns += 1000000;
        call.begin = false;
        call.time_ns = *now_ns;
        lull_track_take(track, &call);
    }
}

static struct seen play(const struct loop *loop, uint64_t seed)
{
    struct lull_track *const track = lull_track_create(true);
    const struct lull_moments *iteration_ms;
    struct lull_random random;
    struct seen seen;
    int64_t now_ns = 1000;

    assert_non_null(track);
    lull_random_init(&random, seed);
    for (uint32_t round = 0; round < ROUNDS; round++)
        play_round(track, loop, round, &random, &now_ns);
    holds(lull_track_phase(track) == LULL_TRACK_KNOWN, seed);
    iteration_ms = lull_track_iteration_ms(track);
    seen = (struct seen){lull_track_period(track), iteration_ms->mean,
                         sqrt(lull_moments_variance(iteration_ms))};
    lull_track_destroy(track);
    return seen;
}

/* Computation of 40 ms takes 5 ms more at a steady point: forecasts at the reference know nothing
 * of it, and a point twice as low is taken to add twice as much. */
static void test_a_steady_point_stretches_what_lies_between_sections(void **state)
{
    const struct loop typical = {2, 1, {{40.0, 20.0}}, 0.0};
    const struct loop slowed = {2, 1, {{45.0, 20.0}}, 0.0};
    struct lull_track *const track = lull_track_create(true);
    struct lull_random random;
    int64_t now_ns = 1000;
    uint32_t count;

    (void)state;
    lull_random_init(&random, 1);
    for (uint32_t round = 0; round < ROUNDS; round++)
        play_round(track, &typical, round, &random, &now_ns);
    lull_track_set_steady(track, 10);
    for (uint32_t round = 0; round < 10; round++)
        play_round(track, &slowed, round, &random, &now_ns);
    assert_true(fabs(lull_track_sections(track, &count)[0].stretch_ms - 5.0) < 0.01);
    assert_int_equal(count, 2);
    assert_true(fabs(lull_track_sections(track, &count)[1].stretch_ms) < 0.01);
    assert_true(fabs(lull_quantile_get(&lull_track_sections(track, &count)[0].recent_gap, 0.5) -
                     40.0) < 0.01);
    lull_track_set_steady(track, 0);
    play_round(track, &typical, 0, &random, &now_ns);
    lull_track_set_steady(track, 20);
    assert_true(fabs(lull_track_sections(track, &count)[0].stretch_ms - 10.0) < 0.02);
    lull_track_destroy(track);
}

static void test_rounds_that_repeat_together_are_one_iteration(void **state)
{
    const struct loop pair = {1, 2, {{240.0}, {8.0}}, 1.0};
    const struct loop triple = {2, 3, {{40.0, 5.0}, {40.0, 30.0}, {80.0, 5.0}}, 1.0};

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct seen seen = play(&pair, seed);

        holds(seen.period == 2, seed);
        holds(fabs(seen.iteration_ms - 250.0) < 1.0 && seen.spread_ms < 3.0, seed);
        seen = play(&triple, seed);
        holds(seen.period == 6, seed);
        holds(fabs(seen.iteration_ms - 206.0) < 2.5 && seen.spread_ms < 5.0, seed);
    }
}

/* Two calls of 100 ms with next to nothing between them, but for 30 ms in every fourth round. */
static void test_a_busy_host_parts_no_section(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 4; first++) {
        struct lull_track *const track = lull_track_create(true);
        int64_t now_ns = 1000;
        uint32_t sections;

        assert_non_null(track);
        for (uint32_t edge = 0; edge < 4 * ROUNDS; edge++) {
            const uint32_t round = edge / 4;
            const struct lull_call call = {.bytes = (uint64_t)1 << edge % 4 / 2,
                                           .peer = -1,
                                           .operation = 1,
                                           .begin = edge % 2 == 0,
                                           .time_ns = now_ns};

            lull_track_take(track, &call);
            if (edge % 4 == 1)
                now_ns += round % 4 == first ? 30000000 : 100000;
            else
                now_ns += edge % 4 == 3 ? 200000000 : 100000000;
        }
        holds(lull_track_phase(track) == LULL_TRACK_KNOWN, first);
        holds(lull_track_sections(track, &sections)->calls == 2, first);
        holds(sections == 1, first);
        lull_track_destroy(track);
    }
}

static void test_noise_alone_joins_no_rounds(void **state)
{
    const struct loop steady = {2, 1, {{100.0, 5.0}}, 1.0};
    const struct loop noisy = {1, 1, {{100.0}}, 30.0};
    uint32_t joined = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        holds(play(&steady, seed).period == 2, seed);
        joined += play(&noisy, seed).period != 1;
    }
    assert_true(joined < 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds_that_repeat_together_are_one_iteration),
        cmocka_unit_test(test_a_steady_point_stretches_what_lies_between_sections),
        cmocka_unit_test(test_a_busy_host_parts_no_section),
        cmocka_unit_test(test_noise_alone_joins_no_rounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
