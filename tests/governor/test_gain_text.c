/*
 * Sentences about random figures are parsed, and their claims are compared with the figures: a
 * saving only where the interval is above 0, "not slower" only where the bound is within what is
 * allowed, and printed figures that support the claim beside them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "../core/property.h"
#include "governor/report/gain_text.h"

enum { DRAWS = 200000 };

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* ---- figures ----------------------------------------------------------------------------- */

/* A ratio as runs have them: often near 0 or near a border, at times unknown or without end. */
static double draw_ratio(struct lull_random *random, double border)
{
    const double size = pow(10.0, -1.0 - 4.0 * lull_random_uniform(random));
    const double sign = lull_random_uniform(random) < 0.4 ? -1.0 : 1.0;

    switch ((int)(lull_random_uniform(random) * 8.0)) {
    case 0:
        return border + 0.01 * sign * size;
    case 1:
        return border;
    default:
        return sign * size;
    }
}

/* No figure of a run is known to a millionth of a percent. */
static double coarse(double ratio)
{
    return round(ratio * 1e7) / 1e7;
}

static double spoil(struct lull_random *random, double ratio, double unbounded)
{
    const double draw = lull_random_uniform(random);

    if (draw < 0.05)
        return (double)NAN;
    return draw < 0.1 ? unbounded : ratio;
}

/* ---- savings ----------------------------------------------------------------------------- */

static void check_saving(double saving, double low, double high)
{
    const bool is_proven = isfinite(saving) && low > 0.0 && !isnan(high);
    const bool is_more = isfinite(saving) && high < 0.0 && !isnan(low);
    char text[256];
    double shown;
    double shown_low;
    double shown_high;
    int count;

    lull_gain_saving_text(saving, low, high, "no counter", text, sizeof(text));
    assert_int_equal(begins(text, "saving not known (no counter)"), !isfinite(saving));
    assert_int_equal(begins(text, "used ") && strstr(text, " more energy") != NULL, is_more);
    /* A sign may be read either way, so there is none. */
    assert_null(strstr(text, " -"));
    assert_null(strstr(text, "(-"));
    assert_int_equal(begins(text, "saved ") && !begins(text, "saved about"), is_proven);
    if (begins(text, "saved about"))
        assert_true(saving > 0.0 && (isnan(low) || isnan(high)));
    if (!begins(text, "saved ") || begins(text, "saved about"))
        return;
    count = sscanf(text, "saved %lf %% (%lf to %lf", &shown, &shown_low, &shown_high);

    assert_true(count >= 2 && shown_low > 0.0 && shown >= shown_low);
    assert_true(fabs(shown_low - 100.0 * low) <= 0.0501 && fabs(shown - 100.0 * saving) <= 0.0501);
    assert_true(count == 3 || !isfinite(high));
}

static void savings_are_claimed_where_they_are_proven(void **state)
{
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 20261128);
    for (int i = 0; i < DRAWS; i++) {
        const double saving = draw_ratio(&random, 0.0);
        const double low = saving - fabs(draw_ratio(&random, fabs(saving)));
        const double high = saving + fabs(draw_ratio(&random, fabs(saving)));

        check_saving(spoil(&random, coarse(saving), NAN), spoil(&random, coarse(low), -INFINITY),
                     spoil(&random, coarse(high), INFINITY));
    }
}

/* ---- slowdowns --------------------------------------------------------------------------- */

/* Reads a bound back: it must be on the same side of what is allowed, and no less than it is. */
static void check_bound(const char *text, double upper, double allowed)
{
    const char *const at = strstr(text, "at most ");
    double shown;

    assert_int_equal(at != NULL, isfinite(upper));
    if (at == NULL)
        return;
    assert_int_equal(sscanf(at, "at most %lf", &shown), 1);
    assert_true(shown >= 100.0 * upper - 1e-5);
    if (isfinite(allowed))
        assert_int_equal(shown > 100.0 * allowed + 1e-9, upper > allowed);
}

static void check_slowdown(double slowdown, double upper, double allowed)
{
    char text[256];
    const char *number;
    double shown;

    lull_gain_slowdown_text(slowdown, upper, allowed, "one run", text, sizeof(text));
    if (!isfinite(slowdown)) {
        assert_string_equal(text, "slowdown not known (one run)");
        return;
    }
    assert_int_equal(begins(text, "slower than allowed"), slowdown > allowed);
    if (strstr(text, "not slower") != NULL)
        assert_true(isfinite(upper) && upper <= allowed && slowdown < 0.001 && isfinite(allowed));
    if (!begins(text, "slower than allowed"))
        assert_int_equal(begins(text, "slowdown not proven"), isfinite(upper) && upper > allowed);
    check_bound(text, upper, allowed);
    number = strpbrk(text, ":");
    number = number != NULL ? number + 2 : text;
    if (strstr(number, "% slower") == NULL && !begins(text, "slower than allowed"))
        return;
    assert_int_equal(sscanf(number, "%lf", &shown), 1);
    assert_true(fabs(shown - 100.0 * slowdown) <= 0.0501);
    if (isfinite(allowed))
        assert_int_equal(shown > 100.0 * allowed + 1e-9, slowdown > allowed);
}

static void slowdowns_are_claimed_where_they_are_bounded(void **state)
{
    static const double allowances[] = {0.0, 0.0005, 0.002, 0.0025, 0.01, 0.03, NAN, INFINITY};
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 20261129);
    for (int i = 0; i < DRAWS; i++) {
        const double allowed = allowances[i % 8];
        const double border = isfinite(allowed) ? allowed : 0.01;
        const double slowdown = draw_ratio(&random, border);
        const double upper = fmax(slowdown, draw_ratio(&random, border));

        check_slowdown(spoil(&random, coarse(slowdown), NAN),
                       spoil(&random, coarse(upper), INFINITY), allowed);
    }
}

/* ---- as people read them ----------------------------------------------------------------- */

static void expect_saving(double saving, double low, double high, const char *sentence)
{
    char text[256];

    assert_string_equal(
        lull_gain_saving_text(saving, low, high, "GPU 5 was lost", text, sizeof(text)), sentence);
}

static void expect_slowdown(double slowdown, double upper, double allowed, const char *sentence)
{
    char text[256];

    assert_string_equal(
        lull_gain_slowdown_text(slowdown, upper, allowed, "one run", text, sizeof(text)), sentence);
}

static void sentences(void **state)
{
    (void)state;
    expect_saving(-0.051, -0.305, 0.203,
                  "saving not proven: 5.1 % more energy per iteration (from 30.5 % more to 20.3 % "
                  "less)");
    expect_saving(0.02, -0.01, 0.05,
                  "saving not proven: 2.0 % less energy per iteration (from 1.0 % more to 5.0 % "
                  "less)");
    expect_saving(-0.02, NAN, NAN, "saving not proven: about 2.0 % more energy per iteration");
    expect_saving(0.114, 0.108, 0.12, "saved 11.4 % (10.8 to 12.0) of the energy per iteration");
    expect_saving(0.02, 0.0001, 0.04, "saved 2.00 % (0.01 to 4.00) of the energy per iteration");
    expect_saving(-0.05, -0.06, -0.04, "used 5.0 % (4.0 to 6.0) more energy per iteration");
    expect_saving(0.04, NAN, NAN, "saved about 4.0 % of the energy per iteration");
    expect_saving(0.04, 0.02, INFINITY, "saved 4.0 % (2.0 or more) of the energy per iteration");
    expect_saving(NAN, NAN, NAN, "saving not known (GPU 5 was lost)");
    expect_slowdown(-0.002, 0.07, 0.01,
                    "slowdown not proven to be within 1 %: no slowdown measured, at most 7.0 %");
    expect_slowdown(0.003, 0.0102, 0.01,
                    "slowdown not proven to be within 1 %: 0.3 % slower, at most 1.1 %");
    expect_slowdown(0.0104, 0.02, 0.01,
                    "slower than allowed: 1.04 % (at most 2.00 %), 1 % allowed");
    expect_slowdown(-0.01, -0.002, 0.01, "not slower (at most 0.0 %)");
    expect_slowdown(0.002, 0.00694, 0.01, "0.2 % slower (at most 0.7 %)");
    expect_slowdown(0.0, INFINITY, 0.01, "no slowdown measured (no bound known)");
    expect_slowdown(0.0, 0.07, NAN, "no slowdown measured (at most 7.0 %)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(savings_are_claimed_where_they_are_proven),
        cmocka_unit_test(slowdowns_are_claimed_where_they_are_bounded),
        cmocka_unit_test(sentences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
