/*
 * Files of `lull model fit`: refused with a message, or a model that predicts
 * finite values at all its points; writing and reading it again gives the same
 * model.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/trace/document.h"
#include "lab/core/online.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static void check_range(const struct lull_fitted_range *range)
{
    require(range->value > 0.0 && isfinite(range->value));
    require(isnan(range->low) || (range->low <= range->value && range->value <= range->high));
}

static void check_pick(const struct lull_fitted_device *device,
                       const struct lull_fitted_kernel *kernel)
{
    const struct lull_online_search search = {device->points, device->point_count, device->base,
                                              INFINITY};
    struct lull_online_best found;

    lull_online_pick(device, kernel, &search, &found);
    require(found.best < device->point_count);
    require(isnan(found.low_mhz) || found.low_mhz <= found.high_mhz);
}

static void check_set(const struct lull_model_set *set)
{
    const struct lull_fitted_device *const device = &set->device;

    require(device->point_count >= 2 && device->base < device->point_count);
    for (uint32_t k = 0; k < device->kernel_count; k++) {
        const struct lull_fitted_kernel *const kernel = &device->kernels[k];

        for (uint32_t i = 0; i < device->point_count; i++) {
            const struct lull_fitted_prediction predicted = lull_fitted_predict(
                device, kernel, device->points[i].sm_mhz, device->points[i].mem_mhz);

            check_range(&predicted.time_ms);
            if (kernel->has_power)
                check_range(&predicted.power_w);
        }
        if (kernel->has_power)
            check_pick(device, kernel);
    }
}

/* As `lull model predict` reads what was written of it. */
static void check_again(const struct lull_model_sets *sets)
{
    json_t *const document = lull_model_document_make(sets, "input");
    char *const text = json_dumps(document, 0);
    struct lull_model_sets again;
    struct lull_error err = {0};

    /* A name that is not UTF-8 is not read in the first place, so that all of it can be written. */
    require(text != NULL);
    require(lull_model_document_parse(text, strlen(text), "again", &again, &err) == 0);
    require(again.count == sets->count);
    lull_model_sets_fini(&again);
    free(text);
    json_decref(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_model_sets sets;
    struct lull_error err = {0};

    if (lull_model_document_parse((const char *)data, size, "input", &sets, &err) < 0) {
        require(err.text[0] != '\0' && sets.all == NULL);
        return 0;
    }
    for (size_t i = 0; i < sets.count; i++)
        check_set(&sets.all[i]);
    check_again(&sets);
    lull_model_sets_fini(&sets);
    return 0;
}
