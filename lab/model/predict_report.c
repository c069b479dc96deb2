/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/model/predict_report.h"

#include <math.h>
#include <stdio.h>

#include "base/json_string.h"
#include "cli/shared/command.h"
#include "lab/model/report.h"
#include "lab/core/online.h"

/* The points to predict at: the one that was requested, or all of the device. */
static uint32_t predicted_count_points(const struct lull_prediction_list *list)
{
    return list->sm_mhz > 0.0 ? 1 : list->set->device.point_count;
}

static struct lull_grid_point predicted_point_of(const struct lull_prediction_list *list,
                                                 uint32_t index)
{
    if (list->sm_mhz > 0.0)
        return (struct lull_grid_point){.sm_mhz = list->sm_mhz, .mem_mhz = list->mem_mhz};
    return list->set->device.points[index];
}

static struct lull_fitted_prediction predicted_predict(const struct lull_prediction_list *list,
                                                       size_t kernel,
                                                       const struct lull_grid_point *point)
{
    return lull_fitted_predict(&list->set->device, &list->kernels[kernel], point->sm_mhz,
                               point->mem_mhz);
}

/* The clocks between those of the device, at the base's memory clock, are this far apart, as those
 * of current GPUs are. */
static const double step_mhz = 15.0;

/* Adds clocks from the device's highest down, and leaves room for its points. */
static uint32_t add_clocks_between(const struct lull_fitted_device *device,
                                   struct lull_grid_point *candidates, uint32_t count)
{
    const double low_mhz = device->points[0].sm_mhz;
    double mhz = device->points[device->point_count - 1].sm_mhz - step_mhz;

    for (; mhz > low_mhz && count < LULL_ONLINE_CANDIDATES; mhz -= step_mhz)
        candidates[count++] = (struct lull_grid_point){
            .sm_mhz = mhz, .mem_mhz = device->points[device->base].mem_mhz};
    return count;
}

/* A picked clock, its interval, and its predicted savings and slowdown against the base. */
struct picked {
    struct lull_grid_point point;
    struct lull_online_best found;
};

/* Picks among the points of the device; for a kernel that was not measured there, among the clocks
 * between them as well. */
static struct picked predicted_pick(const struct lull_prediction_list *list, size_t kernel,
                                    double slowdown)
{
    const struct lull_fitted_device *const device = &list->set->device;
    struct lull_grid_point candidates[LULL_ONLINE_CANDIDATES];
    struct lull_online_search search = {candidates, device->point_count, device->base, slowdown};
    struct picked picked;

    for (uint32_t i = 0; i < device->point_count; i++)
        candidates[i] = device->points[i];
    if (list->kernels[kernel].time_left == NULL)
        search.count = add_clocks_between(device, candidates, search.count);
    lull_online_pick(device, &list->kernels[kernel], &search, &picked.found);
    picked.point = candidates[picked.found.best];
    return picked;
}

/* ---- for users ----------------------------------------------------------------------------- */

static void predicted_print_range(const struct lull_fitted_range *range)
{
    if (isnan(range->value))
        printf("  %11s %-21s", "-", "");
    else if (isnan(range->low))
        printf("  %11.5g %-21s", range->value, "");
    else
        printf("  %11.5g (%9.5g to%9.5g)", range->value, range->low, range->high);
}

static void print_picked(const struct picked *picked)
{
    char range[32] = "";

    if (!isnan(picked->found.low_mhz))
        snprintf(range, sizeof(range), "%.0f to %.0f", picked->found.low_mhz,
                 picked->found.high_mhz);
    printf("  %5.0f/%-5.0f %-12s %6.1f %6.1f", picked->point.sm_mhz, picked->point.mem_mhz, range,
           100.0 * picked->found.saving_ratio, 100.0 * picked->found.slowdown_ratio);
}

static void predicted_print_points(const struct lull_prediction_list *list)
{
    printf("%-11s  %-33s  %-33s  %s\n", "MHz", "time of a launch, ms", "power, W",
           "energy of a launch, mJ");
    for (uint32_t i = 0; i < predicted_count_points(list); i++) {
        const struct lull_grid_point point = predicted_point_of(list, i);
        const struct lull_fitted_prediction predicted = predicted_predict(list, 0, &point);

        printf("%5.0f/%-5.0f", point.sm_mhz, point.mem_mhz);
        predicted_print_range(&predicted.time_ms);
        predicted_print_range(&predicted.power_w);
        predicted_print_range(&predicted.energy_mj);
        printf("%s\n", predicted.is_measured ? "  measured" : "");
    }
}

static void print_picks(const struct lull_prediction_list *list)
{
    printf("%-40s  %-11s %-12s %6s %6s  %-11s %-12s %6s %6s\n", "", "least MHz", "between", "saves",
           "slower", "within MHz", "between", "saves", "slower");
    for (size_t k = 0; k < list->count; k++) {
        struct picked picked;

        printf("%-40.40s", lull_printable(list->names[k].text).text);
        if (!list->kernels[k].has_power) {
            printf("  no power was measured\n");
            continue;
        }
        picked = predicted_pick(list, k, INFINITY);
        print_picked(&picked);
        picked = predicted_pick(list, k, list->slowdown_ratio);
        print_picked(&picked);
        putchar('\n');
    }
    printf("least: the SM/memory clock of least energy; within: at most %g %% slower; saves, "
           "slower: %%, against %.0f/%.0f MHz.\n",
           100.0 * list->slowdown_ratio, list->set->device.points[list->set->device.base].sm_mhz,
           list->set->device.points[list->set->device.base].mem_mhz);
}

static bool is_probed(const struct lull_prediction_list *list)
{
    return list->count > 0 && list->kernels[0].time_left == NULL;
}

/* Intervals of probed kernels are as good as the number of kernels that were left out. */
static bool is_confident(const struct lull_prediction_list *list)
{
    return !is_probed(list) || list->set->device.kernel_count >= LULL_ERROR_MIN_KERNELS;
}

/* Says how far the intervals of kernels can be trusted that were only probed. */
static void print_probed_caption(const struct lull_prediction_list *list)
{
    if (!is_probed(list))
        return;
    printf(
        "Clocks between the measured ones are picked as well; between: all clocks that may be the "
        "best one.\nIntervals are of a kernel about which nothing is known but its probes and "
        "the GPU: kernels of the file that\nare like it make them no narrower. ");
    if (is_confident(list))
        printf("They hold the truth 19 times of 20, as the kernels of the file do when\neach is "
               "left out; a kernel unlike all of them may be further off.\n");
    else
        printf("How often they hold the truth is unknown: they are the errors of\n%u kernels, "
               "each left out in turn, and 95 %% needs %d or more.\n",
               list->set->device.kernel_count, LULL_ERROR_MIN_KERNELS);
}

void lull_predictions_print(const struct lull_prediction_list *list)
{
    printf("%s\n", lull_model_set_name(list->set->gpu, list->set->set).text);
    if (list->count == 1)
        predicted_print_points(list);
    print_picks(list);
    print_probed_caption(list);
}

/* ---- the document -------------------------------------------------------------------------- */

static json_t *predicted_number(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *range_json(const struct lull_fitted_range *range)
{
    return json_pack("{s:o, s:o, s:o}", "value", predicted_number(range->value), "low",
                     predicted_number(range->low), "high", predicted_number(range->high));
}

static json_t *predicted_point_json(const struct lull_prediction_list *list, size_t kernel,
                                    uint32_t index)
{
    const struct lull_grid_point point = predicted_point_of(list, index);
    const struct lull_fitted_prediction predicted = predicted_predict(list, kernel, &point);

    return json_pack("{s:f, s:f, s:b, s:o, s:o, s:o}", "sm_mhz", point.sm_mhz, "mem_mhz",
                     point.mem_mhz, "is_measured", predicted.is_measured, "time_ms",
                     range_json(&predicted.time_ms), "power_w", range_json(&predicted.power_w),
                     "energy_mj", range_json(&predicted.energy_mj));
}

static json_t *picked_json(const struct lull_prediction_list *list, size_t kernel, double slowdown)
{
    struct picked picked;

    if (!list->kernels[kernel].has_power)
        return json_null();
    picked = predicted_pick(list, kernel, slowdown);
    return json_pack("{s:f, s:o, s:o, s:f, s:f, s:f}", "sm_mhz", picked.point.sm_mhz, "sm_low_mhz",
                     predicted_number(picked.found.low_mhz), "sm_high_mhz",
                     predicted_number(picked.found.high_mhz), "mem_mhz", picked.point.mem_mhz,
                     "saving_ratio", picked.found.saving_ratio, "slowdown_ratio",
                     picked.found.slowdown_ratio);
}

static json_t *predicted_kernel_json(const struct lull_prediction_list *list, size_t kernel)
{
    const struct lull_fitted_kernel *const fitted = &list->kernels[kernel];
    json_t *const points = json_array();

    for (uint32_t i = 0; i < predicted_count_points(list); i++)
        json_array_append_new(points, predicted_point_json(list, kernel, i));
    return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o}", "name",
                     lull_json_string(list->names[kernel].text), "is_known",
                     fitted->time_left != NULL, "points", points, "least_energy",
                     picked_json(list, kernel, INFINITY), "least_energy_within",
                     picked_json(list, kernel, list->slowdown_ratio), "why_null",
                     lull_json_string_or_null(fitted->has_power ? NULL : "no power was measured"));
}

int lull_predictions_print_json(const struct lull_prediction_list *list)
{
    json_t *const kernels = json_array();

    for (size_t k = 0; k < list->count; k++)
        json_array_append_new(kernels, predicted_kernel_json(list, k));
    return lull_cli_print_json(
        json_pack("{s:o, s:o, s:o, s:f, s:o}", "gpu", lull_json_string(list->set->gpu), "set",
                  lull_json_string(list->set->set), "confidence_ratio",
                  predicted_number(is_confident(list) ? LULL_ERROR_CONFIDENCE : NAN),
                  "slowdown_ratio", list->slowdown_ratio, "kernels", kernels),
        0);
}
