/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cli/analyze/verdict.h"
#include "cli/simulate_report.h"
#include "core/section/controller/controller.h"
#include "governor/report/gain_text.h"

bool lull_simulate_is_within(const struct lull_simulate_results *results,
                             const struct lull_simulate_mode *mode)
{
    return mode->whole.slowdown_ratio <= results->tolerance_ratio &&
           mode->worst_ratio <= results->tolerance_ratio &&
           (!mode->has_settled_part || mode->settled.slowdown_ratio <= results->tolerance_ratio);
}

/* Reports which figure of auto is beyond the tolerance. */
static void write_failure(const struct lull_simulate_results *results, char *text, size_t size)
{
    const struct lull_simulate_mode *managed = &results->modes[LULL_SIMULATE_AUTO];
    const char *where = "at the worst moment of the run";
    double slowdown = managed->worst_ratio;

    if (managed->whole.slowdown_ratio > results->tolerance_ratio) {
        where = "over the whole run";
        slowdown = managed->whole.slowdown_ratio;
    } else if (managed->has_settled_part &&
               managed->settled.slowdown_ratio > results->tolerance_ratio) {
        where = "once settled";
        slowdown = managed->settled.slowdown_ratio;
    }
    snprintf(text, size,
             "slower than allowed: %.3g %% %s, %.3g %% allowed, on %s; do not run this job under "
             "lull",
             100.0 * slowdown, where, 100.0 * results->tolerance_ratio, results->model->name);
}

/* "8.0 % less energy, 0.8 % slower" */
static const char *write_change(const struct lull_course_change *change, char *text, size_t size)
{
    const double slowdown = 100.0 * change->slowdown_ratio;
    char slower[32] = "not slower";

    if (slowdown >= 0.05) /* half of the last printed digit */
        snprintf(slower, sizeof(slower), "%.1f %% slower", slowdown);
    snprintf(text, size, "%.1f %% %s energy, %s", 100.0 * fabs(change->saving_ratio),
             change->saving_ratio < 0.0 ? "more" : "less", slower);
    return text;
}

static void write_success(const struct lull_simulate_results *results, char *text, size_t size)
{
    const struct lull_simulate_mode *managed = &results->modes[LULL_SIMULATE_AUTO];
    const struct lull_course_change *const shown =
        managed->has_settled_part ? &managed->settled : &managed->whole;
    char slower[96];
    char whole[64];
    char search[112] = "";
    char option[32] = "";

    lull_gain_slowdown_text(shown->slowdown_ratio,
                            fmax(shown->slowdown_ratio, managed->worst_ratio),
                            results->tolerance_ratio, NULL, slower, sizeof(slower));
    if (managed->has_settled_part)
        snprintf(search, sizeof(search), " once settled; with the search %s",
                 write_change(&managed->whole, whole, sizeof(whole)));
    if (fabs(results->tolerance_ratio - LULL_VERDICT_TOLERANCE_RATIO) > 1e-9)
        snprintf(option, sizeof(option), " --tolerance %.3g%%", 100.0 * results->tolerance_ratio);
    snprintf(text, size,
             "saves %.1f %% of the energy, %s%s over all %" PRIu64
             " periods, on %s; run: lull run%s -- COMMAND",
             100.0 * shown->saving_ratio, slower, search, results->periods, results->model->name,
             option);
}

/* Says that the periods cannot carry a test to the tolerance, where that is so. */
static const char *describe_unevenness(const struct lull_simulate_results *results, char *text,
                                       size_t size)
{
    const double unevenness = results->modes[LULL_SIMULATE_AUTO].outcome.unevenness_ratio;

    if (unevenness <= LULL_UNEVEN_FACTOR * results->tolerance_ratio)
        return "";
    snprintf(text, size,
             ": its periods are too uneven to be tested to %.3g %%: on average %.0f %% longer than "
             "typical, without a rhythm",
             100.0 * results->tolerance_ratio, 100.0 * unevenness);
    return text;
}

const char *lull_simulate_verdict(const struct lull_simulate_results *results, char *text,
                                  size_t size)
{
    const struct lull_simulate_mode *managed = &results->modes[LULL_SIMULATE_AUTO];
    double saving = managed->whole.saving_ratio;
    char uneven[160];
    char change[64];

    if (managed->has_settled_part)
        saving = fmax(saving, managed->settled.saving_ratio);
    if (!lull_simulate_is_within(results, managed))
        write_failure(results, text, size);
    else if (managed->outcome.settled_in == 0)
        snprintf(text, size,
                 "still searching after %" PRIu64
                 " periods, so far %s, on %s%s; use more --periods",
                 results->periods, write_change(&managed->whole, change, sizeof(change)),
                 results->model->name, describe_unevenness(results, uneven, sizeof(uneven)));
    else if (!managed->outcome.keeps)
        snprintf(text, size,
                 "nothing to gain: no lower clock passed the test within %" PRIu64
                 " periods, on %s%s",
                 results->periods, results->model->name,
                 describe_unevenness(results, uneven, sizeof(uneven)));
    else if (saving < LULL_VERDICT_MIN_RATIO)
        snprintf(text, size, "nothing to gain: all levers together save %.1f %%, on %s",
                 100.0 * fmax(saving, 0.0), results->model->name);
    else
        write_success(results, text, size);
    return text;
}
