/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/gain_text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* A slowdown below half of the last printed digit counts as none. */
static const double shown_ratio = 0.0005;

enum { MAX_DECIMALS = 6 };

/* ---- figures ----------------------------------------------------------------------------- */

static double gain_text_rounded(double ratio, int decimals)
{
    const double scale = pow(10.0, decimals + 2);

    return round(ratio * scale) / scale;
}

/* A bound must not be printed as less than it is. */
static double rounded_up(double ratio, int decimals)
{
    const double scale = pow(10.0, decimals + 2);

    return ceil(ratio * scale - 1e-6) / scale;
}

/* The fewest decimals of a percentage with which the printed interval still proves the same
 * claim. */
static int saving_decimals(double saving, double low, double high)
{
    const enum lull_gain_saving claim = lull_gain_judge_saving(saving, low, high);
    int decimals = 1;

    while (decimals < MAX_DECIMALS &&
           lull_gain_judge_saving(gain_text_rounded(saving, decimals),
                                  gain_text_rounded(low, decimals),
                                  gain_text_rounded(high, decimals)) != claim)
        decimals++;
    return decimals;
}

static int slowdown_decimals(double slowdown, double upper, double allowed)
{
    const enum lull_gain_slowdown claim = lull_gain_judge_slowdown(slowdown, upper, allowed);
    int decimals = 1;

    while (decimals < MAX_DECIMALS &&
           lull_gain_judge_slowdown(gain_text_rounded(slowdown, decimals),
                                    rounded_up(upper, decimals), allowed) != claim)
        decimals++;
    return decimals;
}

/* ---- the saving -------------------------------------------------------------------------- */

/* Writes an interval in percent. */
static void gain_text_write_range(double low, double high, int decimals, char *text, size_t size)
{
    const double low_percent = 100.0 * gain_text_rounded(low, decimals);
    const double high_percent = 100.0 * gain_text_rounded(high, decimals);

    if (isfinite(low) && isfinite(high))
        snprintf(text, size, "%.*f to %.*f", decimals, low_percent, decimals, high_percent);
    else if (isfinite(low))
        snprintf(text, size, "%.*f or more", decimals, low_percent);
    else
        snprintf(text, size, "%.*f or less", decimals, high_percent);
}

static const char *gain_text_direction(double saving_ratio)
{
    return saving_ratio < 0.0 ? "more" : "less";
}

/* Writes an end of an interval that has a saving and a loss: "30.5 % more". */
static void gain_text_write_end(double ratio, int decimals, char *text, size_t size)
{
    snprintf(text, size, "%.*f %% %s", decimals, 100.0 * fabs(gain_text_rounded(ratio, decimals)),
             gain_text_direction(ratio));
}

/* Writes a saving or a loss without a sign. A reader may take "-5 %" for either. */
static void gain_text_write_change(double saving, double low, double high, int decimals, char *text,
                                   size_t size)
{
    const bool is_loss = saving < 0.0;
    const double percent = 100.0 * fabs(gain_text_rounded(saving, decimals));
    const char *const direction = gain_text_direction(saving);
    char first[64];
    char last[64];

    if (low > 0.0 || high < 0.0) {
        if (is_loss)
            gain_text_write_range(-high, -low, decimals, first, sizeof(first));
        else
            gain_text_write_range(low, high, decimals, first, sizeof(first));
        snprintf(text, size, "%.*f %% (%s) %s energy per iteration", decimals, percent, first,
                 direction);
        return;
    }
    gain_text_write_end(low, decimals, first, sizeof(first));
    gain_text_write_end(high, decimals, last, sizeof(last));
    if (isfinite(low) && isfinite(high))
        snprintf(text, size, "%.*f %% %s energy per iteration (from %s to %s)", decimals, percent,
                 direction, first, last);
    else
        snprintf(text, size, "about %.*f %% %s energy per iteration", decimals, percent, direction);
}

const char *lull_gain_change_text(double saving_ratio, double low_ratio, double high_ratio,
                                  char *text, size_t size)
{
    gain_text_write_change(saving_ratio, low_ratio, high_ratio,
                           saving_decimals(saving_ratio, low_ratio, high_ratio), text, size);
    return text;
}

const char *lull_gain_saving_text(double saving_ratio, double low_ratio, double high_ratio,
                                  const char *reason, char *text, size_t size)
{
    const int decimals = saving_decimals(saving_ratio, low_ratio, high_ratio);
    const double percent = 100.0 * gain_text_rounded(saving_ratio, decimals);
    char range[96];
    char change[192];

    gain_text_write_change(saving_ratio, low_ratio, high_ratio, decimals, change, sizeof(change));
    switch (lull_gain_judge_saving(saving_ratio, low_ratio, high_ratio)) {
    case LULL_GAIN_SAVING_PROVEN:
        gain_text_write_range(low_ratio, high_ratio, decimals, range, sizeof(range));
        snprintf(text, size, "saved %.*f %% (%s) of the energy per iteration", decimals, percent,
                 range);
        break;
    case LULL_GAIN_SAVING_ESTIMATED: /* "about": no interval is known */
        snprintf(text, size, "saved about %.*f %% of the energy per iteration", decimals, percent);
        break;
    case LULL_GAIN_SAVING_NEGATIVE:
        snprintf(text, size, "used %s", change);
        break;
    case LULL_GAIN_SAVING_UNPROVEN:
        snprintf(text, size, "saving not proven: %s", change);
        break;
    default:
        snprintf(text, size, "saving not known (%s)", reason != NULL ? reason : "not measured");
    }
    return text;
}

/* ---- the slowdown ------------------------------------------------------------------------ */

/* Writes the measured slowdown. Only a bound within a promise proves that a run is not slower. */
static void write_measured(double slowdown, enum lull_gain_slowdown claim, double allowed,
                           int decimals, char *text, size_t size)
{
    const double percent = 100.0 * gain_text_rounded(slowdown, decimals);

    if (claim == LULL_GAIN_SLOWDOWN_ABOVE)
        snprintf(text, size, "slower than allowed: %.*f %%", decimals, percent);
    else if (slowdown >= shown_ratio)
        snprintf(text, size, "%.*f %% slower", decimals, percent);
    else if (claim == LULL_GAIN_SLOWDOWN_WITHIN && isfinite(allowed))
        snprintf(text, size, "not slower");
    else
        snprintf(text, size, "no slowdown measured");
}

const char *lull_gain_slowdown_text(double slowdown_ratio, double upper_ratio, double allowed_ratio,
                                    const char *reason, char *text, size_t size)
{
    const enum lull_gain_slowdown claim =
        lull_gain_judge_slowdown(slowdown_ratio, upper_ratio, allowed_ratio);
    const int decimals = slowdown_decimals(slowdown_ratio, upper_ratio, allowed_ratio);
    const double upper = 100.0 * fmax(rounded_up(upper_ratio, decimals), 0.0);
    char bound[48] = "no bound known";
    char measured[48];

    if (isfinite(upper_ratio))
        snprintf(bound, sizeof(bound), "at most %.*f %%", decimals, upper);
    write_measured(slowdown_ratio, claim, allowed_ratio, decimals, measured, sizeof(measured));
    switch (claim) {
    case LULL_GAIN_SLOWDOWN_WITHIN:
    case LULL_GAIN_SLOWDOWN_UNBOUNDED:
        snprintf(text, size, "%s (%s)", measured, bound);
        break;
    case LULL_GAIN_SLOWDOWN_UNPROVEN:
        snprintf(text, size, "slowdown not proven to be within %.6g %%: %s, %s",
                 100.0 * allowed_ratio, measured, bound);
        break;
    case LULL_GAIN_SLOWDOWN_ABOVE:
        snprintf(text, size, "%s (%s), %.6g %% allowed", measured, bound, 100.0 * allowed_ratio);
        break;
    default:
        snprintf(text, size, "slowdown not known (%s)", reason != NULL ? reason : "not measured");
    }
    return text;
}

/* ---- words of documents ------------------------------------------------------------------ */

const char *lull_gain_saving_word(enum lull_gain_saving claim)
{
    static const char *const words[] = {
        [LULL_GAIN_SAVING_UNKNOWN] = NULL,           [LULL_GAIN_SAVING_PROVEN] = "proven",
        [LULL_GAIN_SAVING_ESTIMATED] = "estimated",  [LULL_GAIN_SAVING_UNPROVEN] = "not proven",
        [LULL_GAIN_SAVING_NEGATIVE] = "more energy",
    };

    return words[claim];
}

const char *lull_gain_slowdown_word(enum lull_gain_slowdown claim)
{
    static const char *const words[] = {
        [LULL_GAIN_SLOWDOWN_UNKNOWN] = NULL,         [LULL_GAIN_SLOWDOWN_WITHIN] = "within",
        [LULL_GAIN_SLOWDOWN_UNBOUNDED] = "no bound", [LULL_GAIN_SLOWDOWN_UNPROVEN] = "not proven",
        [LULL_GAIN_SLOWDOWN_ABOVE] = "above",
    };

    return words[claim];
}
