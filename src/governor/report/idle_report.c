/* Idle phases at the lowest clock, over the GPUs of a run. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/minmax.h"
#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"

struct lull_idle_totals lull_idle_report_totals(const struct lull_report *report)
{
    struct lull_idle_totals totals = {.most = -1};
    double most_s = 0.0;

    for (uint32_t i = 0; report->managed != NULL && i < lull_control_gpu_count(report->managed);
         i++) {
        const struct lull_idle_phase *const idle = lull_control_idle(report->managed, i);

        totals.phases += idle->phases;
        totals.low_s += idle->low_s;
        totals.saved_j += idle->saved_j;
        totals.cost_s = fmax(totals.cost_s, idle->spent_s);
        if (idle->low_s <= most_s)
            continue;
        most_s = idle->low_s;
        totals.most = (int32_t)i;
    }
    return totals;
}

/* Energy within idle phases is subtracted directly: no trial compares clocks there. */
json_t *lull_idle_report_json(const struct lull_report *report)
{
    const struct lull_idle_totals totals = lull_idle_report_totals(report);
    const uint32_t gpu = (uint32_t)(totals.most < 0 ? 0 : totals.most);
    const struct lull_device_info *const info = lull_control_info(report->managed, gpu);
    const bool is_used = totals.phases > 0;
    json_t *object = json_object();

    lull_field_text(object, "lever", "idle phases");
    lull_field_text(object, "name", "no event and no kernel, without repetition");
    lull_field_integer(object, "gpu", lull_control_gpu(report->managed, gpu)->device);
    lull_field_json(object, "sm_mhz",
                    is_used ? json_integer(info->sm_clocks_mhz[info->sm_clock_count - 1])
                            : json_null());
    lull_field_json(object, "below_ratio", json_null());
    lull_field_json(object, "descent", json_null());
    lull_field_text(object, "verdict", is_used ? "lowered" : "not lowered");
    lull_field_text(object, "reason",
                    is_used ? "raisings cost at most 0.2 % of the time, and at most a fifth of "
                              "the tolerance"
                            : "no GPU was idle for long enough");
    lull_field_json(object, "saving_ratio", json_null());
    lull_field_text(object, "saving_reason",
                    is_used ? "saved_j has the energy" : "it is not lowered");
    lull_field_integer(object, "phases", totals.phases);
    lull_field_number(object, "low_s", totals.low_s);
    lull_field_known(object, "saved_j", totals.saved_j, is_used && totals.saved_j > 0.0);
    lull_field_number(object, "cost_s", totals.cost_s);
    return object;
}

void lull_idle_report_print(const struct lull_report *report, FILE *out)
{
    const struct lull_idle_totals totals = lull_idle_report_totals(report);

    if (totals.phases == 0)
        return;
    fprintf(out,
            "  idle phases: %u, %.1f s at the lowest clock, about %.0f J saved; raisings cost "
            "about %.2f s\n",
            totals.phases, totals.low_s, totals.saved_j, totals.cost_s);
}
