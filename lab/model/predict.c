/*
 * lull model predict: time, power and energy of kernels at any clock, from fitted models.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lab/commands.h"
#include "cli/shared/command.h"
#include "lab/trace/document.h"
#include "lab/model/grids.h"
#include "lab/model/predict_report.h"
#include "lab/model/report.h"

struct predict_arguments {
    const char *set;
    const char *kernel;
    const char *probes;
    uint32_t sm_mhz;  /* 0: all clocks that were measured */
    uint32_t mem_mhz; /* 0: the highest */
    double slowdown_ratio;
    bool is_json;
};

static const struct lull_option rows[] = {
    LULL_VALUE("set", "NAME", TEXT, struct predict_arguments, set,
               "Take this GPU or set of the file, as lull model fit names it.",
               .otherwise = "the only one"),
    LULL_VALUE(
        "kernel", "NAME", TEXT, struct predict_arguments, kernel,
        "Predict this kernel of the file, app,arg,cuda_kernel, or an unambiguous prefix of that.",
        .otherwise = "all kernels, a line each", .excludes = "probes"),
    LULL_VALUE("probes", "FILE", TEXT, struct predict_arguments, probes,
               "Predict the kernels of this table, each measured at one to five clocks.",
               .hint = LULL_OPTION_FILE,
               .more = "Good probes are the lowest, the middle and the highest clock."),
    LULL_VALUE("sm-clock", "MHZ", WHOLE, struct predict_arguments, sm_mhz, "Predict this SM clock.",
               .least = 1, .most = 1e6, .otherwise = "all that were measured"),
    LULL_VALUE("mem-clock", "MHZ", WHOLE, struct predict_arguments, mem_mhz,
               "Predict this memory clock.", .least = 1, .most = 1e6,
               .otherwise = "those that were measured; the highest with --sm-clock"),
    LULL_VALUE("slowdown", "RATIO", RATIO, struct predict_arguments, slowdown_ratio,
               "How much slower than at the base the clock of least energy may be.",
               .default_value = "5%", .is_slowdown = true),
    LULL_JSON_ROW(struct predict_arguments, is_json),
    {0},
};

/* ---- which set, which kernels -------------------------------------------------------------- */

static const struct lull_model_set *model_predict_find_set(const struct lull_model_sets *sets,
                                                           const char *name, struct lull_error *err)
{
    if (name == NULL && sets->count == 1)
        return &sets->all[0];
    for (size_t i = 0; name != NULL && i < sets->count; i++)
        if (strcmp(lull_model_set_name(sets->all[i].gpu, sets->all[i].set).text, name) == 0 ||
            strcmp(sets->all[i].gpu, name) == 0)
            return &sets->all[i];
    lull_error_set(err, -EINVAL, "%s %s%sgive --set with one of %zu, such as %s",
                   name == NULL ? "the file has several sets;" : "the file has no set",
                   name == NULL ? "" : lull_printable(name).text, name == NULL ? "" : "; ",
                   sets->count, lull_model_set_name(sets->all[0].gpu, sets->all[0].set).text);
    return NULL;
}

static int model_predict_add_kernel(struct lull_prediction_list *list,
                                    const struct lull_fitted_kernel *kernel,
                                    const struct lull_kernel_name *name)
{
    if (lull_array_grow(&list->kernels, list->count, sizeof(*list->kernels)) < 0 ||
        lull_array_grow(&list->names, list->count, sizeof(*list->names)) < 0)
        return -ENOMEM;
    list->kernels[list->count] = *kernel;
    list->names[list->count++] = *name;
    return 0;
}

static int take_known(const struct lull_model_set *set, const char *wanted,
                      struct lull_prediction_list *list, struct lull_error *err)
{
    const size_t size = wanted != NULL ? strlen(wanted) : 0;

    for (uint32_t k = 0; k < set->device.kernel_count; k++)
        if (wanted == NULL || strncmp(set->kernel_names[k].text, wanted, size) == 0) {
            if (model_predict_add_kernel(list, &set->device.kernels[k], &set->kernel_names[k]) < 0)
                return lull_error_set(err, -ENOMEM, "not enough memory for the kernels");
        }
    if (list->count == 0)
        return lull_error_set(err, -EINVAL,
                              "no kernel's name begins with \"%s\"; the first of %u "
                              "is \"%s\"",
                              lull_printable(wanted).text, set->device.kernel_count,
                              lull_printable(set->kernel_names[0].text).text);
    return 0;
}

/* The rows of a probed kernel, which need not follow each other in the file. */
struct probed {
    struct lull_fitted_point points[LULL_GRID_PROBES];
    uint32_t count;
};

static int model_predict_collect(const char *path, const struct lull_kernel_set *from,
                                 uint32_t kernel, const char *name, struct probed *probed_out,
                                 struct lull_error *err)
{
    probed_out->count = 0;
    for (size_t i = 0; i < from->row_count; i++) {
        const struct lull_grid_row *const row = &from->rows[i];
        const uint32_t at = probed_out->count;

        if (row->kernel != kernel || !row->is_valid)
            continue;
        if (at == LULL_GRID_PROBES)
            return lull_error_set(err, LULL_E_FORMAT,
                                  "%s: \"%s\" has more than %d rows; keep the "
                                  "lowest, the middle and the highest clocks, or fit a model of "
                                  "its own",
                                  path, lull_printable(name).text, LULL_GRID_PROBES);
        probed_out->points[at] =
            (struct lull_fitted_point){row->sm_mhz, row->mem_mhz, row->time_ms, row->power_w};
        probed_out->count++;
    }
    return 0;
}

static bool is_first_of_kernel(const struct lull_kernel_set *from, size_t row)
{
    for (size_t i = 0; i < row; i++)
        if (from->rows[i].kernel == from->rows[row].kernel)
            return false;
    return true;
}

static int probe_set(const char *path, const struct lull_kernel_table *table,
                     const struct lull_kernel_set *from, const struct lull_model_set *set,
                     struct lull_prediction_list *list, struct lull_error *err)
{
    for (size_t i = 0; i < from->row_count; i++) {
        const struct lull_kernel_name name = lull_kernel_table_name(table, from->rows[i].kernel);
        struct lull_fitted_kernel kernel;
        struct probed probed;
        int rc;

        if (!is_first_of_kernel(from, i))
            continue;
        rc = model_predict_collect(path, from, from->rows[i].kernel, name.text, &probed, err);
        if (rc < 0)
            return rc;
        if (probed.count == 0)
            continue;
        lull_fitted_probe(&set->device, probed.points, probed.count, &kernel);
        if (model_predict_add_kernel(list, &kernel, &name) < 0)
            return lull_error_set(err, -ENOMEM, "%s: not enough memory for its kernels", path);
    }
    return 0;
}

static int take_probed(const char *path, const struct lull_model_set *set,
                       struct lull_prediction_list *list, struct lull_error *err)
{
    struct lull_kernel_table table;
    int rc = lull_kernel_table_read(path, &table, err);

    for (size_t i = 0; i < table.count && rc == 0; i++)
        rc = probe_set(path, &table, &table.sets[i], set, list, err);
    if (rc == 0 && list->count == 0)
        rc = lull_error_set(err, LULL_E_FORMAT, "%s: no row is valid", path);
    lull_kernel_table_fini(&table);
    return rc;
}

/* ---- which clocks -------------------------------------------------------------------------- */

static int take_clocks(const struct predict_arguments *arguments,
                       const struct lull_fitted_device *device, struct lull_prediction_list *list,
                       struct lull_error *err)
{
    const struct lull_grid_point *const last = &device->points[device->point_count - 1];

    list->sm_mhz = arguments->sm_mhz;
    list->mem_mhz = arguments->mem_mhz;
    if (list->sm_mhz > 0.0 && list->mem_mhz == 0.0)
        list->mem_mhz = last->mem_mhz;
    if (list->sm_mhz == 0.0 && list->mem_mhz == 0.0)
        return 0;
    if (list->sm_mhz == 0.0)
        return lull_error_set(err, -EINVAL, "--mem-clock needs --sm-clock");
    if (!lull_fitted_covers(device, list->sm_mhz, list->mem_mhz))
        return lull_error_set(err, -EINVAL,
                              "%g/%g MHz is not within what was measured, from %g to "
                              "%g MHz at %g MHz of memory; beyond that nothing is known",
                              list->sm_mhz, list->mem_mhz, device->points[0].sm_mhz, last->sm_mhz,
                              last->mem_mhz);
    return 0;
}

/* ---- the command --------------------------------------------------------------------------- */

static int model_predict_all(const struct predict_arguments *arguments,
                             const struct lull_model_sets *sets, struct lull_error *err)
{
    const struct lull_model_set *const set = model_predict_find_set(sets, arguments->set, err);
    struct lull_prediction_list list = {.set = set, .slowdown_ratio = arguments->slowdown_ratio};
    int rc = set != NULL ? take_clocks(arguments, &set->device, &list, err) : -EINVAL;

    if (rc == 0 && arguments->probes != NULL)
        rc = take_probed(arguments->probes, set, &list, err);
    else if (rc == 0)
        rc = take_known(set, arguments->kernel, &list, err);
    if (rc == 0 && arguments->is_json)
        rc = lull_predictions_print_json(&list);
    else if (rc == 0)
        lull_predictions_print(&list);
    free(list.kernels);
    free(list.names);
    return rc;
}

static int model_predict_command(void *options, const struct lull_operands *operands)
{
    struct lull_model_sets sets = {0};
    struct lull_error err = {0};
    int rc = lull_model_sets_read(operands->words[0], &sets, &err);

    if (rc == 0)
        rc = model_predict_all(options, &sets, &err);
    lull_model_sets_fini(&sets);
    if (rc < 0 && err.code != 0)
        return lull_cli_fail("model predict", &err);
    return rc < 0 ? LULL_EXIT_FAILED : LULL_EXIT_OK;
}

const struct lull_program_command lull_model_predict_command = {
    .name = "model predict",
    .summary = "predict time, power and energy of kernels at any clock",
    .arguments = "MODEL",
    .about = "Predicts, from what `lull model fit` has written, what kernels take and draw at "
             "clocks, with 95 % intervals, and which clock costs the least energy. Kernels that "
             "are not in the file are predicted from a few probes. Requires no GPU and no root.",
    .after = "Examples:\n"
             "  lull model predict a100.json\n"
             "  lull model predict --kernel gemm --sm-clock 1200 a100.json\n"
             "  lull model predict --probes mine.csv --slowdown 1% a100.json",
    .tables = {{rows, 0}},
    .operands = {.least = 1,
                 .most = 1,
                 .missing = "no model given; create one with lull model fit"},
    .size = sizeof(struct predict_arguments),
    .run = model_predict_command,
};
