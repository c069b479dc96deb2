/*
 * The swing limit in virtual time: which levers are given up, when and in which order, and when
 * they are restored. SPDX-License-Identifier: Apache-2.0
 */
#include "core/energy/swing_limit.h"

#include "base/clock.h"

#include "../property.h"

#include <stdio.h>

enum { CASES = 300 };

static const double allowed = 0.05;

struct node {
    struct lull_swing_limit limit;
    struct lull_random random;
    int64_t now_ns;
    uint32_t readings;
    double noise_w;
    uint32_t changes; /* of what is given up */
};

static struct node start(void)
{
    struct node node = {.noise_w = 1.0};

    lull_swing_limit_init(&node.limit, allowed);
    lull_random_init(&node.random, 7);
    return node;
}

/* Reads a node whose power goes up and down by swing_w five times in two seconds, for so long. */
static void read_for(struct node *node, enum lull_swing_side side, double seconds, double swing_w,
                     const struct lull_swing_levers *levers)
{
    for (int i = 0; i < (int)(seconds * 10.0 + 0.5); i++) {
        const double noise_w = lull_random_normal(&node->random, 0.0, node->noise_w);

        node->now_ns += 100 * LULL_NS_PER_MS;
        node->changes += lull_swing_limit_take(
            &node->limit, side, node->now_ns,
            1000.0 - (node->readings++ % 4 < 2 ? swing_w : 0.0) + noise_w, levers);
    }
}

static const struct lull_swing_levers both = {.gaps = true, .deepest = 5};

static void assert_cut(const struct node *node, bool gaps, uint32_t halvings)
{
    assert_int_equal(node->limit.cut.gaps, gaps);
    assert_int_equal(node->limit.cut.halvings, halvings);
}

static void gaps_are_given_up_before_sections(void **state)
{
    struct node node = start();
    uint32_t halvings = 0;

    (void)state;
    read_for(&node, LULL_SWING_REFERENCE, 10.1, 300.0, &both);
    read_for(&node, LULL_SWING_MANAGED, 6.2, 360.0, &both);
    assert_cut(&node, true, 0);
    assert_true(node.limit.finding.length_s == 1.0);
    assert_float_equal(node.limit.finding.managed.peak_to_peak_w.mean, 360.0, 10.0);
    assert_float_equal(node.limit.finding.reference.peak_to_peak_w.mean, 300.0, 10.0);
    /* 5 points, 2, 1, none: three halvings, and then nothing is left. */
    for (; halvings < 3; halvings++) {
        assert_cut(&node, true, halvings);
        read_for(&node, LULL_SWING_MANAGED, 6.1, 360.0, &both);
    }
    read_for(&node, LULL_SWING_MANAGED, 30.0, 360.0, &both);
    assert_cut(&node, true, 3);
    assert_int_equal(node.changes, 4);
}

static void what_is_not_wider_stays(void **state)
{
    struct node node = start();

    (void)state;
    read_for(&node, LULL_SWING_REFERENCE, 10.1, 300.0, &both);
    read_for(&node, LULL_SWING_MANAGED, 300.0, 310.0, &both);
    assert_int_equal(node.changes, 0);
    assert_true(node.limit.finding.length_s == 0.0);
}

/* If no swing is wider, repeated checks must rarely find a wider one by chance. */
static void chance_gives_up_little(void **state)
{
    uint32_t given_up = 0;

    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct node node = start();

        node.limit.allowed_ratio = 0.0;
        lull_random_init(&node.random, seed);
        node.noise_w = 20.0;
        read_for(&node, LULL_SWING_REFERENCE, 60.1, 300.0, &both);
        read_for(&node, LULL_SWING_MANAGED, 55.0, 300.0, &both);
        given_up += node.changes > 0;
    }
    printf("given up by chance within a minute: %u of %d\n", given_up, CASES);
    assert_true(given_up < 0.18 * CASES);
}

static void without_levers_nothing_is_given_up(void **state)
{
    const struct lull_swing_levers none = {0};
    struct node node = start();

    (void)state;
    read_for(&node, LULL_SWING_REFERENCE, 10.1, 300.0, &none);
    read_for(&node, LULL_SWING_MANAGED, 60.0, 500.0, &none);
    assert_int_equal(node.changes, 0);
}

static void too_few_pieces_tell_nothing(void **state)
{
    struct node node = start();
    double length_s;

    (void)state;
    read_for(&node, LULL_SWING_REFERENCE, 5.9, 300.0, &both);
    read_for(&node, LULL_SWING_MANAGED, 60.0, 600.0, &both);
    assert_null(lull_swing_limit_known(&node.limit, &length_s));
    assert_int_equal(node.changes, 0);
    /* Blocks shorter than a second never make a piece. */
    for (int i = 0; i < 100; i++) {
        read_for(&node, LULL_SWING_REFERENCE, 0.9, 300.0, &both);
        read_for(&node, LULL_SWING_MANAGED, 0.9, 600.0, &both);
    }
    assert_null(lull_swing_limit_known(&node.limit, &length_s));
    assert_int_equal(node.changes, 0);
}

/* The first reading of a side is of both, and one that comes late leaves a hole. */
static void pieces_are_of_one_side_and_whole(void **state)
{
    struct node node = start();

    (void)state;
    read_for(&node, LULL_SWING_REFERENCE, 1.1, 300.0, &both);
    assert_int_equal(node.limit.pieces[0].reference.mean_w.count, 1);
    read_for(&node, LULL_SWING_MANAGED, 1.0, 300.0, &both);
    assert_int_equal(node.limit.pieces[0].managed.mean_w.count, 0);
    read_for(&node, LULL_SWING_MANAGED, 0.1, 300.0, &both);
    assert_int_equal(node.limit.pieces[0].managed.mean_w.count, 1);
    read_for(&node, LULL_SWING_MANAGED, 0.5, 300.0, &both);
    node.now_ns += 80 * LULL_NS_PER_MS;
    read_for(&node, LULL_SWING_MANAGED, 1.0, 300.0, &both);
    assert_int_equal(node.limit.pieces[0].managed.mean_w.count, 1);
    read_for(&node, LULL_SWING_NEITHER, 10.0, 300.0, &both);
    assert_int_equal(node.limit.pieces[0].managed.mean_w.count, 1);
    assert_int_equal(node.limit.pieces[0].reference.mean_w.count, 1);
}

static void what_was_given_up_comes_back_ever_more_rarely(void **state)
{
    const struct lull_swing_levers gaps = {.gaps = true};
    struct node node = start();
    double given_up_s = 0.0;

    (void)state;
    read_for(&node, LULL_SWING_REFERENCE, 10.1, 300.0, &gaps);
    /* Swings are wide whenever gaps are lowered: 60, 120, 240 s without them. */
    for (int i = 0; i < 4600; i++) {
        read_for(&node, LULL_SWING_MANAGED, 0.1, node.limit.cut.gaps ? 300.0 : 360.0, &gaps);
        given_up_s += node.limit.cut.gaps ? 0.1 : 0.0;
    }
    assert_float_equal(given_up_s, 60.0 + 120.0 + 240.0, 30.0);
    assert_in_range(node.changes, 6, 7);
}

static void other_points_admit_everything(void **state)
{
    struct node node = start();

    (void)state;
    read_for(&node, LULL_SWING_REFERENCE, 10.1, 300.0, &both);
    read_for(&node, LULL_SWING_MANAGED, 14.0, 360.0, &both);
    assert_cut(&node, true, 1);
    lull_swing_limit_renew(&node.limit);
    assert_cut(&node, false, 0);
    assert_int_equal(node.limit.pieces[0].managed.mean_w.count, 0);
    assert_true(node.limit.pieces[0].reference.mean_w.count >= 10);
}

/* Point by point what halving means, and that undoing is the reverse of deepening. */
static void cuts_keep_their_promise(void **state)
{
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 11);
    for (int i = 0; i < CASES; i++) {
        const uint32_t steady = (uint32_t)(lull_random_uniform(&random) * 40.0);
        const uint32_t point = (uint32_t)(lull_random_uniform(&random) * 80.0);
        const struct lull_swing_levers levers = {
            .gaps = lull_random_uniform(&random) < 0.5,
            .deepest = point > steady ? point - steady : 0,
        };
        struct lull_swing_cut cut = {0};
        uint32_t expected = levers.deepest;
        uint32_t steps = 0;

        if (levers.gaps) {
            assert_true(lull_swing_cut_deepen(&cut, &levers));
            steps++;
            assert_true(cut.gaps && cut.halvings == 0);
            assert_int_equal(lull_swing_cut_point(&cut, true, steady, point),
                             point < steady ? point : steady);
        }
        assert_int_equal(lull_swing_cut_point(&cut, false, steady, point), point);
        for (; lull_swing_cut_deepen(&cut, &levers); steps++) {
            expected /= 2;
            assert_int_equal(lull_swing_cut_point(&cut, false, steady, point),
                             point > steady ? steady + expected : point);
        }
        assert_int_equal(expected, 0);
        for (; lull_swing_cut_undo(&cut); steps--)
            assert_true(steps > 0);
        assert_int_equal(steps, 0);
        assert_true(!cut.gaps && cut.halvings == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_are_given_up_before_sections),
        cmocka_unit_test(what_is_not_wider_stays),
        cmocka_unit_test(chance_gives_up_little),
        cmocka_unit_test(without_levers_nothing_is_given_up),
        cmocka_unit_test(too_few_pieces_tell_nothing),
        cmocka_unit_test(pieces_are_of_one_side_and_whole),
        cmocka_unit_test(what_was_given_up_comes_back_ever_more_rarely),
        cmocka_unit_test(other_points_admit_everything),
        cmocka_unit_test(cuts_keep_their_promise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
