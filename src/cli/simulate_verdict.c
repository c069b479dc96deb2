/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cli/analyze/verdict.h"
#include "cli/simulate_report.h"
#include "core/section/controller/controller.h"

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
             "slower than the tolerance: %.3g %% %s, permitted %.3g %%, on %s; do not run this job "
             "under lull",
             100.0 * slowdown, where, 100.0 * results->tolerance_ratio, results->model->name);
}

static void write_success(const struct lull_simulate_results *results, char *text, size_t size)
{
    const struct lull_simulate_mode *managed = &results->modes[LULL_SIMULATE_AUTO];
    char settled[80] = "";
    char option[32] = "";

    if (managed->has_settled_part)
        snprintf(settled, sizeof(settled), ", %.1f %% for %.2f %% once settled",
                 100.0 * managed->settled.saving_ratio, 100.0 * managed->settled.slowdown_ratio);
    if (fabs(results->tolerance_ratio - LULL_VERDICT_TOLERANCE_RATIO) > 1e-9)
        snprintf(option, sizeof(option), " --tolerance %.3g%%", 100.0 * results->tolerance_ratio);
    snprintf(text, size,
             "saves %.1f %% for %.2f %% of time over all %" PRIu64
             " periods%s, on %s; run: lull run%s -- COMMAND",
             100.0 * managed->whole.saving_ratio, 100.0 * managed->whole.slowdown_ratio,
             results->periods, settled, results->model->name, option);
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

    if (managed->has_settled_part)
        saving = fmax(saving, managed->settled.saving_ratio);
    if (!lull_simulate_is_within(results, managed))
        write_failure(results, text, size);
    else if (managed->outcome.settled_in == 0)
        snprintf(
            text, size,
            "still searching after %" PRIu64
            " periods, with %.1f %% saved for %.2f %% of time so far, on %s%s; use more --periods",
            results->periods, 100.0 * managed->whole.saving_ratio,
            100.0 * managed->whole.slowdown_ratio, results->model->name,
            describe_unevenness(results, uneven, sizeof(uneven)));
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
