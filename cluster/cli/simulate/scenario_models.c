/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/scenario_models.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/printable.h"

/* ---- one kernel on one type --------------------------------------------------------------- */

/* Returns whether a set of the document was measured on a type: its GPU is the type's name, whole
 * or as far as a dash, or a product of the type's curves. */
static bool is_of_type(const struct lull_model_set *set, const struct lull_job_type *type)
{
    const size_t length = strlen(set->gpu);
    const char *borrower;
    const struct lull_device_curve *const curve = lull_device_curve_of_product(set->gpu, &borrower);

    if (strncasecmp(set->gpu, type->name, length) == 0 &&
        (type->name[length] == '\0' || type->name[length] == '-'))
        return true;
    return curve != NULL && curve == type->model && borrower == NULL;
}

/* Writes the clocks of a type that are within what was measured, the highest first; of a board
 * without curves those that were measured. Returns how many. */
static uint32_t scenario_model_clocks_of(const struct lull_fitted_device *device,
                                         const struct lull_job_type *type, double *mhz_out)
{
    struct lull_device_clock clocks[LULL_DEVICE_CURVE_CLOCKS];
    const double mem_mhz = device->points[device->point_count - 1].mem_mhz;
    const uint32_t all = type->model != NULL ? lull_device_clocks(type->model, clocks) : 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < all; i++)
        if (lull_fitted_covers(device, clocks[i].mhz, mem_mhz))
            mhz_out[count++] = clocks[i].mhz;
    for (uint32_t i = device->point_count; all == 0 && i-- > 0;)
        if (device->points[i].mem_mhz == mem_mhz && count < LULL_JOB_MAX_CLOCKS)
            mhz_out[count++] = device->points[i].sm_mhz;
    return count;
}

static void scenario_model_predict(const struct lull_model_set *set, uint32_t kernel,
                                   const struct lull_job_type *type,
                                   struct lull_scenario_fitted *model_out)
{
    const struct lull_fitted_device *const device = &set->device;
    const double mem_mhz = device->points[device->point_count - 1].mem_mhz;
    double mhz[LULL_JOB_MAX_CLOCKS];
    double highest_ms = 0.0;

    model_out->name = set->kernel_names[kernel].text;
    model_out->clock_count = scenario_model_clocks_of(device, type, mhz);
    for (uint32_t i = 0; i < model_out->clock_count; i++) {
        const struct lull_fitted_prediction at =
            lull_fitted_predict(device, &device->kernels[kernel], mhz[i], mem_mhz);
        const double waiting_w = type->model != NULL
                                     ? lull_device_clock_at(type->model, mhz[i]).waiting_w
                                     : type->idle_w;

        if (i == 0)
            highest_ms = at.time_ms.value;
        model_out->tempo[i] = (struct lull_job_tempo){
            .sm_mhz = (uint32_t)lround(mhz[i]),
            .compute_ratio = at.time_ms.value / highest_ms,
            .compute_w = at.power_w.value,
            .transfer_ratio = 1.0,
            .transfer_w = waiting_w,
            .waiting_w = waiting_w,
        };
    }
}

/* ---- all of a document -------------------------------------------------------------------- */

static int add_set(struct lull_scenario_models *models, const struct lull_model_set *set,
                   const struct lull_job_type *type, uint32_t number)
{
    for (uint32_t k = 0; k < set->device.kernel_count; k++) {
        if (!set->device.kernels[k].has_power)
            continue;
        if (lull_array_grow(&models->all, models->count, sizeof(*models->all)) < 0)
            return -ENOMEM;
        scenario_model_predict(set, k, type, &models->all[models->count]);
        models->all[models->count].type = number;
        models->count += models->all[models->count].clock_count > 0;
    }
    return 0;
}

int lull_scenario_models_read(struct lull_scenario_models *models, const char *path,
                              const struct lull_job_type *types, uint32_t type_count,
                              struct lull_error *err)
{
    int rc;

    *models = (struct lull_scenario_models){.path = path};
    rc = lull_model_sets_read(path, &models->sets, err);
    if (rc < 0)
        return rc;
    for (size_t s = 0; s < models->sets.count; s++)
        for (uint32_t type = 0; type < type_count; type++)
            if (is_of_type(&models->sets.all[s], &types[type]) &&
                add_set(models, &models->sets.all[s], &types[type], type) < 0)
                return lull_error_set(err, -ENOMEM, "%s: no memory for its models", path);
    if (models->count == 0)
        return lull_error_set(err, -EINVAL,
                              "%s: nothing in it has power and was measured on a type of "
                              "--gpu-types; the first of its GPUs is \"%s\"",
                              path, lull_printable(models->sets.all[0].gpu).text);
    return 0;
}

void lull_scenario_models_fini(struct lull_scenario_models *models)
{
    free(models->all);
    lull_model_sets_fini(&models->sets);
    *models = (struct lull_scenario_models){0};
}

/* ---- a job -------------------------------------------------------------------------------- */

/* Returns whether a model's name begins with a job's, in which a slash is a comma of the model's:
 * a table of jobs has its own commas. */
static bool begins_with(const char *name, const char *job)
{
    size_t i = 0;

    while (job[i] != '\0' && (name[i] == job[i] || (name[i] == ',' && job[i] == '/')))
        i++;
    return job[i] == '\0' && (name[i] == '\0' || name[i] == ',');
}

int lull_scenario_models_find(const struct lull_scenario_models *models, uint32_t type,
                              const char *job, const struct lull_scenario_fitted **found_out,
                              struct lull_error *err)
{
    const struct lull_scenario_fitted *other = NULL;
    const size_t length = job != NULL ? strlen(job) : 0;

    *found_out = NULL;
    for (size_t i = 0; i < models->count && length > 0; i++) {
        const struct lull_scenario_fitted *const model = &models->all[i];

        if (model->type != type || !begins_with(model->name, job))
            continue;
        if (model->name[length] == '\0') {
            *found_out = model;
            return 0;
        }
        other = *found_out != NULL ? *found_out : other;
        *found_out = model;
    }
    if (other != NULL)
        return lull_error_set(err, -EINVAL,
                              "%s: a job's model \"%s\" may be \"%s\" or \"%s\" there; name one "
                              "of them as a whole",
                              models->path, lull_printable(job).text,
                              lull_printable(other->name).text,
                              lull_printable((*found_out)->name).text);
    return 0;
}
