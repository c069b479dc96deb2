/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/trace/document.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_string.h"

enum { FORMAT_VERSION = 2, DOCUMENT_BYTES = 256 << 20 };

void lull_model_sets_fini(struct lull_model_sets *sets)
{
    for (size_t i = 0; i < sets->count; i++) {
        lull_fitted_fini(&sets->all[i].device);
        free(sets->all[i].kernel_names);
    }
    free(sets->all);
    *sets = (struct lull_model_sets){0};
}

/* ---- writing ------------------------------------------------------------------------------- */

static json_t *model_document_number(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *model_document_errors_json(const struct lull_fitted_errors *errors)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "time_log_ratio",
                     model_document_number(errors->time.floor), "time_per_doubt_ratio",
                     model_document_number(errors->time.slope), "power_log_ratio",
                     model_document_number(errors->power.floor), "energy_log_ratio",
                     model_document_number(errors->energy.floor), "energy_per_doubt_ratio",
                     model_document_number(errors->energy.slope));
}

static json_t *values_json(const double *values, uint32_t count)
{
    json_t *const array = json_array();

    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(array, json_real(values[i]));
    return array;
}

/* Shapes that together contribute less than this share of the kernel's time are ignored. */
static const double min_share = 1e-9;

static json_t *shapes_json(const struct lull_time_model *time)
{
    json_t *const array = json_array();
    double sum = time->fixed_ms;

    for (uint32_t shape = 0; shape < LULL_TIME_SHAPES; shape++)
        sum += time->scale_ms[shape];
    for (uint32_t shape = 0; shape < LULL_TIME_SHAPES; shape++)
        if (time->scale_ms[shape] > min_share * sum)
            json_array_append_new(array,
                                  json_pack("[I, f]", (json_int_t)shape, time->scale_ms[shape]));
    return array;
}

static json_t *power_json(const struct lull_fitted_kernel *kernel)
{
    if (!kernel->has_power)
        return json_null();
    return json_pack("{s:f, s:f, s:f}", "fixed_w", kernel->power.fixed_w, "memory_w",
                     kernel->power.memory_w, "dynamic_w", kernel->power.dynamic_w);
}

static json_t *model_document_kernel_json(const struct lull_model_set *set, uint32_t index)
{
    const struct lull_fitted_kernel *const kernel = &set->device.kernels[index];
    const uint32_t points = set->device.point_count;

    return json_pack("{s:o, s:f, s:o, s:o, s:o, s:o}", "name",
                     lull_json_string(set->kernel_names[index].text), "fixed_ms",
                     kernel->time.fixed_ms, "shapes_ms", shapes_json(&kernel->time), "power",
                     power_json(kernel), "time_left_log_ratio",
                     values_json(kernel->time_left, points), "power_left_log_ratio",
                     kernel->has_power ? values_json(kernel->power_left, points) : json_null());
}

static json_t *model_document_points_json(const struct lull_fitted_device *device)
{
    json_t *const array = json_array();

    for (uint32_t i = 0; i < device->point_count; i++)
        json_array_append_new(
            array, json_pack("{s:f, s:f, s:f}", "sm_mhz", device->points[i].sm_mhz, "mem_mhz",
                             device->points[i].mem_mhz, "rise_ratio", device->curve.rise[i]));
    return array;
}

static json_t *model_document_set_json(const struct lull_model_set *set)
{
    json_t *const kernels = json_array();

    for (uint32_t k = 0; k < set->device.kernel_count; k++)
        json_array_append_new(kernels, model_document_kernel_json(set, k));
    return json_pack("{s:o, s:o, s:I, s:b, s:o, s:o, s:o, s:o}", "gpu", lull_json_string(set->gpu),
                     "set", lull_json_string(set->set), "base", (json_int_t)set->device.base,
                     "has_curve", set->device.has_curve, "known_errors",
                     model_document_errors_json(&set->device.known), "probed_errors",
                     model_document_errors_json(&set->device.probed), "points",
                     model_document_points_json(&set->device), "kernels", kernels);
}

json_t *lull_model_document_make(const struct lull_model_sets *sets, const char *source)
{
    json_t *const array = json_array();

    for (size_t i = 0; i < sets->count; i++)
        json_array_append_new(array, model_document_set_json(&sets->all[i]));
    return json_pack("{s:i, s:s, s:o, s:f, s:o}", "model_version", FORMAT_VERSION, "lull_version",
                     LULL_VERSION, "source", lull_json_string_or_null(source), "confidence_ratio",
                     LULL_ERROR_CONFIDENCE, "sets", array);
}

/* ---- reading ------------------------------------------------------------------------------- */

/* The set that is being read, and its file, for messages. */
struct model_field {
    const char *file;
    size_t set;
    struct lull_error *err;
};

static int model_document_refuse(const struct model_field *place, const char *field,
                                 const char *what)
{
    return lull_error_set(place->err, LULL_E_FORMAT, "%s: set %zu: %s: %s; fit the model again",
                          place->file, place->set + 1, field, what);
}

/* Reads a number from least to most; null is NAN where that is allowed. */
static int model_document_read_number(const struct model_field *place, const json_t *object,
                                      const char *field, double least, double most,
                                      bool may_be_null, double *value_out)
{
    const json_t *const value = json_object_get(object, field);

    *value_out = json_is_number(value) ? json_number_value(value) : NAN;
    if (may_be_null && json_is_null(value))
        return 0;
    if (!(*value_out >= least && *value_out <= most))
        return model_document_refuse(place, field, "not a number in its range");
    return 0;
}

static int model_document_read_name(const struct model_field *place, const json_t *object,
                                    const char *field, char *name_out, size_t size)
{
    const char *const text = json_string_value(json_object_get(object, field));

    if (text != NULL && strlen(text) < size) {
        memcpy(name_out, text, strlen(text) + 1);
        return 0;
    }
    return model_document_refuse(place, field, "not a name, or too long");
}

static int read_errors(const struct model_field *place, const json_t *object, const char *field,
                       struct lull_fitted_errors *errors_out)
{
    const json_t *const errors = json_object_get(object, field);
    int rc = json_is_object(errors) ? 0 : model_document_refuse(place, field, "missing");

    if (rc == 0)
        rc = model_document_read_number(place, errors, "time_log_ratio", 0.0, 10.0, true,
                                        &errors_out->time.floor);
    if (rc == 0)
        rc = model_document_read_number(place, errors, "time_per_doubt_ratio", 0.0, 1e3, true,
                                        &errors_out->time.slope);
    if (rc == 0)
        rc = model_document_read_number(place, errors, "power_log_ratio", 0.0, 10.0, true,
                                        &errors_out->power.floor);
    if (rc == 0)
        rc = model_document_read_number(place, errors, "energy_log_ratio", 0.0, 20.0, true,
                                        &errors_out->energy.floor);
    if (rc == 0)
        rc = model_document_read_number(place, errors, "energy_per_doubt_ratio", 0.0, 1e3, true,
                                        &errors_out->energy.slope);
    return rc;
}

static bool is_behind(const struct lull_grid_point *before, const struct lull_grid_point *point)
{
    return point->sm_mhz > before->sm_mhz ||
           (point->sm_mhz == before->sm_mhz && point->mem_mhz > before->mem_mhz);
}

static int model_document_read_point(const struct model_field *place, const json_t *object,
                                     struct lull_fitted_device *device)
{
    const uint32_t at = device->point_count++;
    struct lull_grid_point *const point = &device->points[at];
    int rc = model_document_read_number(place, object, "sm_mhz", 1.0, 1e6, false, &point->sm_mhz);

    if (rc == 0)
        rc = model_document_read_number(place, object, "mem_mhz", 1.0, 1e6, false, &point->mem_mhz);
    if (rc == 0)
        rc = model_document_read_number(place, object, "rise_ratio", 0.0, 1.0, false,
                                        &device->curve.rise[at]);
    if (rc == 0 && at > 0 && !is_behind(&device->points[at - 1], point))
        rc = model_document_refuse(place, "points", "not in the order of their clocks");
    return rc;
}

static int model_document_read_points(const struct model_field *place, const json_t *object,
                                      struct lull_fitted_device *device)
{
    const json_t *const points = json_object_get(object, "points");
    const size_t count = json_array_size(points);
    double base = 0.0;
    int rc;

    if (count < 2 || count > LULL_GRID_POINTS)
        return model_document_refuse(place, "points", "not 2 to 256 operating points");
    device->points = calloc(count, sizeof(*device->points));
    if (device->points == NULL)
        return lull_error_set(place->err, -ENOMEM, "%s: not enough memory for it", place->file);
    rc = model_document_read_number(place, object, "base", 0.0, (double)(count - 1), false, &base);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = model_document_read_point(place, json_array_get(points, i), device);
    if (rc < 0)
        return rc;
    device->base = (uint32_t)base;
    for (uint32_t i = 0; i < device->point_count; i++) {
        device->points[i].sm_ratio = device->points[i].sm_mhz / device->points[device->base].sm_mhz;
        device->points[i].mem_ratio =
            device->points[i].mem_mhz / device->points[device->base].mem_mhz;
    }
    return 0;
}

static int read_shapes(const struct model_field *place, const json_t *object,
                       struct lull_time_model *time_out)
{
    const json_t *const shapes = json_object_get(object, "shapes_ms");
    size_t i;
    const json_t *pair;
    double sum;
    int rc =
        model_document_read_number(place, object, "fixed_ms", 0.0, 1e9, false, &time_out->fixed_ms);

    if (rc < 0)
        return rc;
    sum = time_out->fixed_ms;
    json_array_foreach((json_t *)shapes, i, pair)
    {
        const json_int_t shape = json_integer_value(json_array_get(pair, 0));
        const double scale_ms = json_number_value(json_array_get(pair, 1));

        if (shape < 0 || shape >= LULL_TIME_SHAPES || !(scale_ms >= 0.0 && scale_ms <= 1e9))
            return model_document_refuse(place, "shapes_ms",
                                         "not pairs of a shape and milliseconds");
        time_out->scale_ms[shape] = scale_ms;
        sum += scale_ms;
    }
    return sum > 0.0 ? 0 : model_document_refuse(place, "shapes_ms", "the kernel takes no time");
}

static int model_document_read_power(const struct model_field *place, const json_t *object,
                                     struct lull_fitted_kernel *kernel)
{
    const json_t *const power = json_object_get(object, "power");
    struct lull_power_model *const model = &kernel->power;
    int rc;

    if (json_is_null(power))
        return 0;
    kernel->has_power = true;
    rc = model_document_read_number(place, power, "fixed_w", 0.0, 1e6, false, &model->fixed_w);
    if (rc == 0)
        rc =
            model_document_read_number(place, power, "memory_w", 0.0, 1e6, false, &model->memory_w);
    if (rc == 0)
        rc = model_document_read_number(place, power, "dynamic_w", 0.0, 1e6, false,
                                        &model->dynamic_w);
    return rc;
}

static int read_left(const struct model_field *place, const json_t *object, const char *field,
                     uint32_t count, double **left_out)
{
    const json_t *const values = json_object_get(object, field);

    if (count == 0 || json_array_size(values) != count)
        return model_document_refuse(place, field, "not a number for each operating point");
    *left_out = malloc(count * sizeof(**left_out));
    if (*left_out == NULL)
        return lull_error_set(place->err, -ENOMEM, "%s: not enough memory for it", place->file);
    for (uint32_t i = 0; i < count; i++) {
        const json_t *const value = json_array_get(values, i);

        (*left_out)[i] = json_is_number(value) ? json_number_value(value) : NAN;
        if (!(fabs((*left_out)[i]) <= 20.0))
            return model_document_refuse(place, field, "not a number in its range");
    }
    return 0;
}

static int read_kernel(const struct model_field *place, const json_t *object,
                       struct lull_model_set *set)
{
    struct lull_fitted_device *const device = &set->device;
    const uint32_t at = device->kernel_count++;
    struct lull_fitted_kernel *const kernel = &device->kernels[at];
    int rc = model_document_read_name(place, object, "name", set->kernel_names[at].text,
                                      sizeof(set->kernel_names[at].text));

    if (rc == 0)
        rc = read_shapes(place, object, &kernel->time);
    if (rc == 0)
        rc = model_document_read_power(place, object, kernel);
    if (rc == 0)
        rc = read_left(place, object, "time_left_log_ratio", device->point_count,
                       &kernel->time_left);
    if (rc == 0 && kernel->has_power)
        rc = read_left(place, object, "power_left_log_ratio", device->point_count,
                       &kernel->power_left);
    return rc;
}

static int read_kernels(const struct model_field *place, const json_t *object,
                        struct lull_model_set *set)
{
    const json_t *const kernels = json_object_get(object, "kernels");
    const size_t count = json_array_size(kernels);
    int rc = 0;

    if (count < 1 || count > LULL_GRID_KERNELS)
        return model_document_refuse(place, "kernels", "not 1 to 256 kernels");
    set->device.kernels = calloc(count, sizeof(*set->device.kernels));
    set->kernel_names = calloc(count, sizeof(*set->kernel_names));
    if (set->device.kernels == NULL || set->kernel_names == NULL)
        return lull_error_set(place->err, -ENOMEM, "%s: not enough memory for it", place->file);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = read_kernel(place, json_array_get(kernels, i), set);
    return rc;
}

static int read_set(const struct model_field *place, const json_t *object,
                    struct lull_model_set *set)
{
    int rc = model_document_read_name(place, object, "gpu", set->gpu, sizeof(set->gpu));

    if (rc == 0)
        rc = model_document_read_name(place, object, "set", set->set, sizeof(set->set));
    if (rc == 0)
        rc = read_errors(place, object, "known_errors", &set->device.known);
    if (rc == 0)
        rc = read_errors(place, object, "probed_errors", &set->device.probed);
    if (rc == 0)
        rc = model_document_read_points(place, object, &set->device);
    set->device.has_curve = json_is_true(json_object_get(object, "has_curve"));
    return rc == 0 ? read_kernels(place, object, set) : rc;
}

int lull_model_document_parse(const char *text, size_t size, const char *name,
                              struct lull_model_sets *sets_out, struct lull_error *err)
{
    struct model_field place = {.file = name, .err = err};
    json_error_t why;
    json_t *const root = json_loadb(text, size, 0, &why);
    const json_t *const array = json_object_get(root, "sets");
    const size_t count = json_array_size(array);
    int rc = 0;

    *sets_out = (struct lull_model_sets){0};
    if (root == NULL)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: line %d: %s; give a file that `lull model "
                              "fit` has written",
                              name, why.line, why.text);
    if (json_integer_value(json_object_get(root, "model_version")) != FORMAT_VERSION ||
        count == 0) {
        rc = lull_error_set(err, LULL_E_FORMAT,
                            "%s: not a model of version %d; give a file that "
                            "`lull model fit` has written",
                            name, FORMAT_VERSION);
        goto free_root;
    }
    sets_out->all = calloc(count, sizeof(*sets_out->all));
    if (sets_out->all == NULL) {
        rc = lull_error_set(err, -ENOMEM, "%s: not enough memory for it", name);
        goto free_root;
    }
    for (; rc == 0 && place.set < count; place.set++) {
        sets_out->count++;
        rc = read_set(&place, json_array_get(array, place.set), &sets_out->all[place.set]);
    }
free_root:
    json_decref(root);
    if (rc < 0)
        lull_model_sets_fini(sets_out);
    return rc;
}

int lull_model_sets_read(const char *path, struct lull_model_sets *sets_out, struct lull_error *err)
{
    char *text = NULL;
    size_t size;
    int rc = lull_file_read(path, DOCUMENT_BYTES, &text, &size, err);

    *sets_out = (struct lull_model_sets){0};
    if (rc == 0)
        rc = lull_model_document_parse(text, size, path, sets_out, err);
    free(text);
    return rc;
}
