/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/analyze/verdict.h"

#include <math.h>
#include <stdio.h>

enum { RANGE_BYTES = 48 };

/* "11 to 13 %", or "11 %" where both are the same; "about 12 % (11 to 13)" where it is known. */
static const char *analyze_verdict_write_range(const struct lull_analyze_verdict *verdict,
                                               char *text)
{
    const double least = rint(100.0 * verdict->min_ratio);
    const double most = rint(100.0 * verdict->max_ratio);

    if (most > least && isfinite(verdict->likely_ratio))
        snprintf(text, RANGE_BYTES, "about %.0f %% (%.0f to %.0f)", 100.0 * verdict->likely_ratio,
                 least, most);
    else if (most > least)
        snprintf(text, RANGE_BYTES, "%.0f to %.0f %%", least, most);
    else
        snprintf(text, RANGE_BYTES, "%.0f %%", most);
    return text;
}

const char *lull_analyze_verdict_write(const struct lull_analyze_verdict *verdict, char *text,
                                       size_t size)
{
    const double tolerance = 100.0 * verdict->tolerance_ratio;
    char range[RANGE_BYTES];
    char option[32] = "";

    if (fabs(verdict->tolerance_ratio - LULL_VERDICT_TOLERANCE_RATIO) > 1e-9)
        snprintf(option, sizeof(option), " --tolerance %.3g%%", tolerance);

    if (verdict->max_ratio < LULL_VERDICT_MIN_RATIO)
        snprintf(text, size,
                 "nothing to gain: the GPU computes %.0f %% of the time, and all levers together "
                 "would save %.1f %% of the energy at most %.3g %% slower; try a larger "
                 "--tolerance",
                 100.0 * verdict->compute_ratio, 100.0 * fmax(verdict->max_ratio, 0.0), tolerance);
    else
        snprintf(
            text, size,
            "saves %s of the energy, at most %.3g %% slower: %s%s%s; run: lull run%s -- COMMAND",
            analyze_verdict_write_range(verdict, range), tolerance, verdict->levers,
            verdict->gaps_ratio < LULL_VERDICT_MIN_RATIO ? " (nothing to gain in gaps)" : "",
            verdict->is_of_run ? ", once settled" : "", option);
    return text;
}
