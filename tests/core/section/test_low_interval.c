/*
 * Spans at a low clock against a record of the same time, millisecond by
 * millisecond; outcomes of changes are reported late, as in a real run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../property.h"

#include "core/section/gaps/gap_choice.h"

enum { LENGTH = 2000, MAX_SPANS = LENGTH / 8 };

enum what { GAP_BEGINS, GAP_ENDS, LOWERED, RAISED };

struct reported {
    int64_t received_ns;
    enum what what;
    int64_t at_ns;
};

struct story {
    int gap_of[LENGTH]; /* number of the gap that is on; 0 none */
    struct reported reported[4 * MAX_SPANS];
    uint32_t count;
    uint32_t late; /* spans that are low outside one gap */
};

static void tell(struct story *story, int64_t received_ns, enum what what, int64_t at_ns)
{
    uint32_t place = story->count++;

    /* As heard; of the same time as they happened. */
    while (place > 0 && story->reported[place - 1].received_ns > received_ns) {
        story->reported[place] = story->reported[place - 1];
        place--;
    }
    story->reported[place] = (struct reported){received_ns, what, at_ns};
}

static bool is_within_one_gap(const struct story *story, int64_t from_ns, int64_t to_ns)
{
    for (int64_t t = from_ns; t < to_ns; t++)
        if (story->gap_of[t] == 0 || story->gap_of[t] != story->gap_of[from_ns])
            return false;
    return true;
}

/* Gaps with computation between them; in most one lowering, now and then early or raised late. */
static void make_story(struct story *story, struct lull_random *random)
{
    int64_t now_ns = 0;
    int64_t reported_ns = 0; /* outcomes are reported in the order of their changes */

    *story = (struct story){0};
    for (int gap = 1; now_ns < LENGTH - 100; gap++) {
        const int64_t begin_ns = now_ns + 5 + (int64_t)lull_random_below(random, 10);
        const int64_t end_ns = begin_ns + 20 + (int64_t)lull_random_below(random, 20);
        const int64_t high_ns = end_ns - 8 + (int64_t)lull_random_below(random, 12);
        /* Some are overtaken: they would have had effect after the raising. */
        const int64_t low_ns = lull_random_below(random, 8) == 0
                                   ? high_ns + (int64_t)lull_random_below(random, 5)
                                   : begin_ns - 2 + (int64_t)lull_random_below(random, 8);
        const int64_t read_ns = low_ns > reported_ns ? low_ns : reported_ns;
        const int64_t received_ns = (high_ns > reported_ns ? high_ns : reported_ns) +
                                    (int64_t)lull_random_below(random, 30);

        for (int64_t t = begin_ns; t < end_ns; t++)
            story->gap_of[t] = gap;
        tell(story, begin_ns, GAP_BEGINS, begin_ns);
        tell(story, end_ns, GAP_ENDS, end_ns);
        if (lull_random_below(random, 4) != 0) {
            /* Raised before it was read back: both are reported together. */
            tell(story,
                 low_ns >= high_ns || lull_random_below(random, 2) != 0 ? received_ns : read_ns,
                 LOWERED, low_ns);
            tell(story, received_ns, RAISED, high_ns);
            reported_ns = received_ns;
        }
        now_ns = end_ns;
    }
    for (int64_t t = now_ns; t < LENGTH; t++)
        story->gap_of[t] = 0;
}

static void count_late(struct story *story)
{
    int64_t from_ns = 0;

    for (uint32_t i = 0; i < story->count; i++) {
        if (story->reported[i].what == LOWERED)
            from_ns = story->reported[i].at_ns;
        if (story->reported[i].what == RAISED)
            story->late += !is_within_one_gap(story, from_ns, story->reported[i].at_ns);
    }
}

static void test_equals_the_picture(void **state)
{
    struct lull_random random;
    uint32_t late = 0;

    (void)state;
    lull_random_init(&random, 11);
    for (int round = 0; round < 500; round++) {
        struct story story;
        struct lull_low_interval span = {0};
        uint32_t found = 0;

        make_story(&story, &random);
        count_late(&story);
        for (uint32_t i = 0; i < story.count; i++) {
            const struct reported *reported = &story.reported[i];

            if (reported->what == GAP_BEGINS)
                lull_low_interval_gap_begins(&span, reported->at_ns);
            else if (reported->what == GAP_ENDS)
                lull_low_interval_gap_ends(&span, reported->at_ns);
            else if (reported->what == LOWERED)
                lull_low_interval_lowered(&span, reported->at_ns);
            else
                found += lull_low_interval_raised(&span, reported->at_ns);
        }
        assert_int_equal(found, story.late);
        late += story.late;
    }
    assert_true(late > 500);
}

/* Heard of after the gap's end, and yet in time. */
static void test_what_is_heard_late_was_not_late(void **state)
{
    struct lull_low_interval span = {0};

    (void)state;
    lull_low_interval_gap_begins(&span, 100);
    lull_low_interval_gap_ends(&span, 150);
    lull_low_interval_lowered(&span, 110);
    assert_false(lull_low_interval_raised(&span, 140));
    lull_low_interval_gap_begins(&span, 200);
    lull_low_interval_lowered(&span, 210);
    lull_low_interval_lowered(&span, 220);
    lull_low_interval_gap_ends(&span, 250);
    assert_true(lull_low_interval_raised(&span, 251));
    assert_false(lull_low_interval_raised(&span, 260));
}

/* The raising came first: its low time belongs to no interval. */
static void test_what_was_never_low_was_not_late(void **state)
{
    struct lull_low_interval span = {0};

    (void)state;
    lull_low_interval_gap_begins(&span, 100);
    lull_low_interval_gap_ends(&span, 120);
    lull_low_interval_lowered(&span, 140);
    assert_false(lull_low_interval_raised(&span, 135));
    lull_low_interval_lowered(&span, 140);
    assert_true(lull_low_interval_raised(&span, 141));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_picture),
        cmocka_unit_test(test_what_is_heard_late_was_not_late),
        cmocka_unit_test(test_what_was_never_low_was_not_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
