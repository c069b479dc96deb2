/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "base/json_string.h"
#include "cli/shared/command.h"
#include "cluster/cli/model_job/job.h"
#include "base/printable.h"

/* predicted / measured - 1; NAN: nothing was measured, or with another number of GPUs. */
static double job_model_error_of(const struct lull_model_job *job, double predicted,
                                 double measured)
{
    return measured > 0.0 && job->job.gpus == job->entry->job.gpus ? predicted / measured - 1.0
                                                                   : NAN;
}

/* ---- for users ------------------------------------------------------------------------------ */

static void print_number(double value, int width, int digits)
{
    if (isnan(value))
        printf(" %*s", width, "-");
    else
        printf(" %*.*f", width, digits, value);
}

static void job_model_print_point(const struct lull_model_job *job,
                                  const struct lull_model_job_point *point)
{
    printf(" %5u", point->sm_mhz);
    print_number(point->step_s, 9, 4);
    print_number(point->step_s / job->factor, 9, 4);
    print_number(point->step_s * job->factor, 9, 4);
    print_number(100.0 * point->exposed_ratio, 6, 1);
    print_number(100.0 * point->bubble_ratio, 6, 1);
    print_number(point->gpu_w, 6, 0);
    print_number(point->node_w, 6, 0);
    print_number(point->energy_j * 1e-3, 10, 1);
}

void lull_model_job_print(const struct lull_model_job *jobs, size_t count, double confidence_ratio)
{
    printf("%-28s %6s %5s %9s %9s %9s %6s %6s %6s %6s %10s %9s %6s  %s\n", "job", "GPUs", "MHz",
           "step s", "from", "to", "exp %", "bub %", "GPU W", "node W", "kJ a step", "measured",
           "off %", "");
    for (size_t i = 0; i < count; i++) {
        const struct lull_model_job *job = &jobs[i];

        printf("%-28s %6u", lull_printable(job->entry->name).text, job->job.gpus);
        job_model_print_point(job, &job->points[0]);
        print_number(job->entry->step_s > 0.0 ? job->entry->step_s : NAN, 9, 4);
        print_number(100.0 * job_model_error_of(job, job->points[0].step_s, job->entry->step_s), 6,
                     1);
        printf("  %s\n",
               job->is_fitted ? "fitted to itself" : lull_printable(job->entry->use).text);
        for (uint32_t p = 1; p < job->point_count; p++) {
            printf("%35s", "");
            job_model_print_point(job, &job->points[p]);
            putchar('\n');
        }
    }
    printf("from, to: the interval of the step, %g %%; exp, bub: exposed communication and "
           "waiting, of the step;\nkJ: of all GPUs. -: not known.\n",
           100.0 * confidence_ratio);
}

/* ---- the document --------------------------------------------------------------------------- */

static json_t *job_model_number(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *job_model_measured(double value)
{
    return value > 0.0 ? json_real(value) : json_null();
}

static json_t *job_model_point_json(const struct lull_model_job *job,
                                    const struct lull_model_job_point *point)
{
    return json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "sm_mhz", point->sm_mhz > 0 ? json_integer(point->sm_mhz) : json_null(),
                     "step_s", point->step_s, "step_low_s", point->step_s / job->factor,
                     "step_high_s", point->step_s * job->factor, "compute_ratio",
                     point->compute_ratio, "exposed_ratio", point->exposed_ratio, "bubble_ratio",
                     point->bubble_ratio, "gpu_w", job_model_number(point->gpu_w), "node_w",
                     job_model_number(point->node_w), "energy_j", job_model_number(point->energy_j),
                     "energy_low_j", job_model_number(point->energy_j / job->energy_factor),
                     "energy_high_j", job_model_number(point->energy_j * job->energy_factor),
                     "gpu_energy_j", job_model_number(point->gpu_w * point->step_s),
                     "node_energy_j", job_model_number(point->node_w * point->step_s));
}

static json_t *job_model_job_json(const struct lull_model_job *job)
{
    const struct lull_training_entry *entry = job->entry;
    const struct lull_model_job_point *highest = &job->points[0];
    json_t *const points = json_array();
    json_t *const bins = json_array();

    for (uint32_t i = 0; i < job->point_count; i++)
        json_array_append_new(points, job_model_point_json(job, &job->points[i]));
    for (int i = 0; i < LULL_MODEL_JOB_BINS; i++)
        json_array_append_new(bins, job_model_number(job->bins_w[i]));
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:f, s:b, s:f, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o}",
        "name", lull_json_string(entry->name), "gpu", lull_json_string(entry->gpu), "software",
        lull_json_string(entry->software), "use", lull_json_string(entry->use), "node_use",
        lull_json_string(entry->node_use), "gpus", (json_int_t)job->job.gpus, "copies",
        (json_int_t)job->step.copies, "matrix_ratio", job->job.matrix_ratio, "is_fitted",
        job->is_fitted, "gap_s", job->job.gap_s, "measured_step_s",
        job_model_measured(entry->step_s), "error_ratio",
        job_model_number(job_model_error_of(job, highest->step_s, entry->step_s)),
        "measured_node_w", job_model_measured(entry->node_w), "node_w_error_ratio",
        job_model_number(job_model_error_of(job, highest->node_w, entry->node_w)), "points", points,
        "node_w_in_step", bins, "why_null", lull_json_string_or_null(job->why_null));
}

int lull_model_job_print_json(const struct lull_model_job *jobs, size_t count,
                              double confidence_ratio, double meter_s)
{
    json_t *const array = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, job_model_job_json(&jobs[i]));
    return lull_cli_print_json(json_pack("{s:f, s:f, s:o}", "confidence_ratio", confidence_ratio,
                                         "meter_s", meter_s, "jobs", array),
                               0);
}
