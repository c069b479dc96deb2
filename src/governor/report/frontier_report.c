/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/frontier_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "governor/report/report_fields.h"

static bool frontier_report_is_known(const struct lull_job_frontier_point *point)
{
    return point->reason == NULL;
}

/* "at 0.2 % slowdown: 4.1 % saved (3.8 to 4.9, predicted)" */
static int frontier_report_write_point(const struct lull_job_frontier_point *point, char *text,
                                       size_t size)
{
    char interval[64] = "no interval";

    if (isfinite(point->low_ratio) && isfinite(point->high_ratio))
        snprintf(interval, sizeof(interval), "%.1f to %.1f", 100.0 * point->low_ratio,
                 100.0 * point->high_ratio);
    return snprintf(text, size, "at %.3g %% slowdown: %.1f %% saved (%s%s)",
                    100.0 * point->slowdown_ratio, 100.0 * point->saving_ratio, interval,
                    point->is_measured ? "" : ", predicted");
}

const char *lull_job_frontier_report_text(const struct lull_job_frontier_point *points, char *text,
                                          size_t size)
{
    const char *reason = NULL;
    size_t length = 0;

    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS && length < size; b++) {
        if (!frontier_report_is_known(&points[b])) {
            reason = points[b].reason;
            continue;
        }
        length += (size_t)snprintf(text + length, size - length, "%s", length > 0 ? "; " : "");
        if (length < size)
            length += (size_t)frontier_report_write_point(&points[b], text + length, size - length);
    }
    if (reason != NULL && length < size)
        snprintf(text + length, size - length, "%sother tolerances: no data; %s",
                 length > 0 ? "; " : "", reason);
    return text;
}

json_t *lull_job_frontier_report_json(const struct lull_job_frontier_point *points)
{
    json_t *array = json_array();

    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++) {
        const struct lull_job_frontier_point *point = &points[b];
        json_t *object = json_object();

        lull_field_number(object, "slowdown_ratio", point->slowdown_ratio);
        lull_field_known(object, "saving_ratio", point->saving_ratio,
                         frontier_report_is_known(point));
        lull_field_known(object, "low_ratio", point->low_ratio, frontier_report_is_known(point));
        lull_field_known(object, "high_ratio", point->high_ratio, frontier_report_is_known(point));
        if (frontier_report_is_known(point))
            lull_field_text(object, "source", point->is_measured ? "measured" : "predicted");
        else
            lull_field_json(object, "source", json_null());
        lull_field_text(object, "reason", point->reason);
        json_array_append_new(array, object);
    }
    return array;
}
