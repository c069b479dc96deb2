/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/training/training_power.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The step in so many parts, of which a bin of the meter is made. */
enum { FINE = 4096 };

/* Activity of a device in each part: the share of the part in which it computes, the share in which
 * a transfer of it is under way, and the power of its computation, W. */
struct power_fine {
    double *compute_ratio; /* [device * FINE + part] */
    double *transfer_ratio;
    double *compute_w;
};

static void step_power_spread(double *parts, double weight, double begin, double end)
{
    for (uint32_t part = (uint32_t)begin; part < FINE && part < end; part++)
        parts[part] += weight * (fmin(end, part + 1.0) - fmax(begin, part));
}

static void step_power_fill_fine(const struct lull_job_graph *graph, uint32_t devices,
                                 const struct lull_job_tempo *tempo, const int64_t *duration_ns,
                                 const int64_t *begin_ns, int64_t step_ns, struct power_fine *fine)
{
    const double scale = (double)FINE / (double)step_ns;

    for (size_t i = 0; i < graph->task_count; i++) {
        const struct lull_job_task *task = &graph->tasks[i];
        const double begin = (double)begin_ns[i] * scale;
        const double end = (double)(begin_ns[i] + duration_ns[i]) * scale;
        const size_t at = (size_t)task->device * FINE;

        if (task->device >= devices)
            continue;
        if (task->kind == LULL_JOB_COMPUTE) {
            step_power_spread(&fine->compute_ratio[at], 1.0, begin, end);
            step_power_spread(&fine->compute_w[at], tempo[task->work].compute_w, begin, end);
        } else {
            step_power_spread(&fine->transfer_ratio[at], 1.0, begin, end);
        }
    }
}

/* The power of a GPU in a part, mean over the devices. Within a part,
 * transfers are assumed to overlap with computation as much as possible. */
static double part_w(const struct power_fine *fine, uint32_t devices,
                     const struct lull_job_tempo *tempo, uint32_t part)
{
    double watts = 0.0;

    for (uint32_t d = 0; d < devices; d++) {
        const size_t at = (size_t)d * FINE + part;
        const double free_ratio = fmax(1.0 - fine->compute_ratio[at], 0.0);
        const double exposed_ratio = fmin(fine->transfer_ratio[at], free_ratio);

        watts += fine->compute_w[at] + exposed_ratio * tempo->transfer_w +
                 (free_ratio - exposed_ratio) * tempo->waiting_w;
    }
    return watts / devices;
}

/* The mean of the parts from begin to end, of a step that repeats; behind_w[i]: the sum of all
 * before part i. */
static double sum_until(const double *behind_w, double at)
{
    const double steps = floor(at / FINE);
    const double rest = at - steps * FINE;
    const uint32_t part = (uint32_t)fmin(rest, FINE - 1.0);

    return steps * behind_w[FINE] + behind_w[part] +
           (rest - part) * (behind_w[part + 1] - behind_w[part]);
}

static void step_power_meter(const double *behind_w, double window, uint32_t bins,
                             double *watts_out)
{
    enum { SAMPLES = 64 };

    for (uint32_t bin = 0; bin < bins; bin++) {
        const double width = (double)FINE / bins;
        double sum = 0.0;

        if (window <= 0.0) {
            watts_out[bin] =
                (sum_until(behind_w, (bin + 1.0) * width) - sum_until(behind_w, bin * width)) /
                width;
            continue;
        }
        for (int i = 0; i < SAMPLES; i++) {
            const double at = (bin + (i + 0.5) / SAMPLES) * width;

            sum += (sum_until(behind_w, at) - sum_until(behind_w, at - window)) / window;
        }
        watts_out[bin] = sum / SAMPLES;
    }
}

int lull_training_power(const struct lull_job_graph *graph, uint32_t devices,
                        const struct lull_job_tempo *tempo, int64_t window_ns, uint32_t bins,
                        double *watts_out)
{
    int64_t *duration_ns = malloc(graph->task_count * sizeof(*duration_ns));
    int64_t *begin_ns = malloc(graph->task_count * sizeof(*begin_ns));
    double *parts = calloc((size_t)devices * FINE, 3 * sizeof(*parts));
    double behind_w[FINE + 1] = {0.0};
    int64_t step_ns = -ENOMEM;

    if (duration_ns != NULL && begin_ns != NULL && parts != NULL) {
        lull_job_graph_durations(graph, tempo, duration_ns);
        step_ns = lull_job_graph_schedule(graph, duration_ns, begin_ns);
    }
    if (step_ns > 0) {
        struct power_fine fine = {parts, parts + (size_t)devices * FINE,
                                  parts + 2 * (size_t)devices * FINE};

        step_power_fill_fine(graph, devices, tempo, duration_ns, begin_ns, step_ns, &fine);
        for (uint32_t part = 0; part < FINE; part++)
            behind_w[part + 1] = behind_w[part] + part_w(&fine, devices, tempo, part);
        step_power_meter(behind_w, (double)window_ns * FINE / (double)step_ns, bins, watts_out);
    }
    free(duration_ns);
    free(begin_ns);
    free(parts);
    return step_ns < 0 ? -ENOMEM : 0;
}
