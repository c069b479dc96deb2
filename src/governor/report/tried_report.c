/* Reports the result of each point that trials compared with the reference: of the job, of one GPU
 * alone (its valley), and of a lever. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"

/* Says the clock of a point on a GPU, MHz; points are of the first GPU's clock list. */
static uint32_t tried_report_mhz_of(const struct lull_report *report, uint32_t gpu, uint32_t point)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    const struct lull_target *steady = lull_controller_look(controller).steady;
    const struct lull_device_info *info = lull_control_info(report->managed, gpu);

    if (steady != NULL)
        point = lull_controller_point_on(controller, gpu, steady, point);
    return point < info->sm_clock_count ? info->sm_clocks_mhz[point] : 0;
}

static bool tried_report_is_kept(const struct lull_run_frontier *frontier,
                                 const struct lull_job_frontier_tried *tried)
{
    return tried->point == frontier->kept_point && tried->others == frontier->kept_others &&
           (tried->point > 0 || tried->others != 0);
}

static json_t *tried_json(const struct lull_report *report, uint32_t gpu,
                          const struct lull_job_frontier_tried *tried)
{
    const bool is_believed = lull_energy_report_doubt(report) == NULL;
    json_t *object = json_object();

    lull_field_integer(object, "sm_mhz", tried_report_mhz_of(report, gpu, tried->point));
    lull_field_boolean(object, "has_sections", tried->others != 0);
    lull_field_boolean(object, "kept", tried_report_is_kept(report->frontier, tried));
    lull_field_integer(object, "pairs", tried->pairs);
    lull_field_number(object, "slowdown_ratio", tried->slowdown_ratio);
    lull_field_number(object, "slowdown_half_width_ratio", tried->slowdown_half_ratio);
    lull_field_known(object, "saving_ratio", tried->saving_ratio, is_believed);
    lull_field_known(object, "saving_low_ratio", tried->low_ratio, is_believed);
    lull_field_known(object, "saving_high_ratio", tried->high_ratio, is_believed);
    return object;
}

json_t *lull_tried_report_json(const struct lull_report *report)
{
    json_t *array = json_array();

    if (report->frontier == NULL || report->limits != NULL || report->runner != NULL)
        return array;
    for (uint32_t i = 0; i < report->frontier->tried_count; i++)
        json_array_append_new(array, tried_json(report, 0, &report->frontier->tried[i]));
    return array;
}

void lull_tried_report_frontier(const struct lull_report *report,
                                const struct lull_report_gain *gain,
                                struct lull_job_frontier_point *points_out)
{
    const struct lull_run_frontier *const frontier = report->frontier;
    const char *const doubt = lull_energy_report_doubt(report);
    const struct lull_job_frontier_tried kept = {.others = frontier->kept_others,
                                                 .point = frontier->kept_point,
                                                 .saving_ratio = gain->saving_ratio,
                                                 .low_ratio = gain->low_ratio,
                                                 .high_ratio = gain->high_ratio};

    memcpy(points_out, frontier->points, sizeof(frontier->points));
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS && doubt != NULL; b++)
        points_out[b].reason = doubt;
    if (doubt == NULL && report->limits == NULL && report->runner == NULL &&
        tried_report_is_kept(frontier, &kept))
        lull_job_frontier_include(
            &kept, frontier->is_proven ? report->tolerance_ratio : (double)INFINITY, points_out);
}

/* A valley is one curve. It uses the points tried with the clocks accepted for sections and gaps,
 * or, without such clocks, the points tried with no section lowered. */
json_t *lull_valley_report_json(const struct lull_report *report, uint32_t gpu)
{
    struct lull_job_frontier_tried tried[LULL_JOB_FRONTIER_SETTINGS];
    json_t *array = json_array();
    uint32_t count;

    if (report->frontier == NULL || report->limits != NULL || report->runner != NULL)
        return array;
    count = lull_run_frontier_of_gpu(report->managed, gpu, tried);
    for (uint32_t i = 0; i < count; i++)
        if (tried[i].others == report->frontier->kept_others && isfinite(tried[i].saving_ratio))
            json_array_append_new(array, tried_json(report, gpu, &tried[i]));
    return array;
}

struct lull_report_gain lull_tried_report_gain(const struct lull_report *report)
{
    const struct lull_whole_slowdown whole =
        lull_controller_look(lull_control_controller(report->managed)).whole;
    struct lull_report_gain gain = lull_report_no_gain(NULL);
    const struct lull_job_frontier_tried *kept = NULL;

    gain.slowdown_ratio = whole.ratio;
    gain.slowdown_upper_ratio = whole.upper_ratio;
    gain.allowed_ratio = report->tolerance_ratio;
    if (!isfinite(whole.ratio) || !isfinite(whole.upper_ratio))
        gain.slowdown_reason = "too few iterations ran at the highest clocks";
    if (report->frontier != NULL)
        kept = lull_run_frontier_find(report->frontier, report->frontier->kept_point,
                                      report->frontier->kept_others);
    if (kept == NULL) {
        gain.saving_reason =
            "no trial has compared the energy at the accepted clocks; use --compare";
    } else if (!isfinite(kept->saving_ratio)) {
        gain.saving_reason = "the blocks of the trials are too short for the GPUs' sensors, or "
                             "their counters were not read";
    } else {
        gain.basis = "pairs of blocks of iterations within this run";
        gain.saving_ratio = kept->saving_ratio;
        gain.low_ratio = kept->low_ratio;
        gain.high_ratio = kept->high_ratio;
    }
    return gain;
}

/* ---- levers ------------------------------------------------------------------------------ */

static double tried_report_saving_at(const struct lull_run_frontier *frontier, uint32_t point,
                                     uint64_t others)
{
    const struct lull_job_frontier_tried *tried = lull_run_frontier_find(frontier, point, others);

    if (point == 0 && others == 0)
        return 0.0;
    return tried != NULL ? tried->saving_ratio : (double)NAN;
}

/* The controller searches sections first and then the steady point, so the
 * steady point's saving is that of all levers together less that of the
 * others. */
double lull_tried_report_lever(const struct lull_report *report, bool is_steady, bool is_only,
                               const char **reason_out)
{
    const struct lull_run_frontier *frontier = report->frontier;
    double others;
    double saving;

    *reason_out = "no trial has compared the energy with this lever alone and without it";
    if (frontier == NULL || report->limits != NULL || report->runner != NULL)
        return (double)NAN;
    others = tried_report_saving_at(frontier, 0, frontier->kept_others);
    saving = tried_report_saving_at(frontier, frontier->kept_point, frontier->kept_others) - others;
    if (!is_steady)
        saving = others;
    if (!is_steady && !is_only) {
        *reason_out = "it was compared only together with other levers";
        return (double)NAN;
    }
    if (isfinite(saving))
        *reason_out = NULL;
    return saving;
}
