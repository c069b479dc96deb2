/*
 * lull model evaluate: how well the models of time and power predict measured kernels.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "lab/commands.h"
#include "cli/shared/command.h"
#include "lab/model/grids.h"
#include "lab/model/report.h"

struct evaluate_arguments {
    bool is_json;
};

static const struct lull_option rows[] = {
    LULL_JSON_ROW(struct evaluate_arguments, is_json),
    {0},
};

/* Limit of the slowdown of the second pick relative to the base. */
static const double slowdown_ratio = 0.05;

static int evaluate_set(const char *path, struct lull_evaluated_set *set, struct lull_error *err)
{
    int rc;

    set->evaluation = (struct lull_evaluation){.time_error = NAN,
                                               .power_error = NAN,
                                               .power_ends_error = NAN,
                                               .prior = {0, NAN, NAN, NAN, NAN},
                                               .online = {NAN, NAN, NAN, NAN, NAN},
                                               .pick = {NAN, NAN, NAN, 0},
                                               .pick_within = {NAN, NAN, NAN, 0}};
    rc = lull_model_make_grid(path, set->set, &set->has_grid, &set->grid, err);
    if (rc < 0 || !set->has_grid)
        return rc;
    if (lull_evaluate(&set->grid, slowdown_ratio, &set->evaluation) < 0)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory for its models", path);
    return 0;
}

static int evaluate_models(const char *path, const struct lull_kernel_table *table, bool is_json,
                           struct lull_error *err)
{
    struct lull_evaluated_set *const sets = calloc(table->count, sizeof(*sets));
    int rc = 0;

    if (sets == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory for its sets", path);
    for (size_t i = 0; i < table->count && rc == 0; i++) {
        sets[i].set = &table->sets[i];
        rc = evaluate_set(path, &sets[i], err);
    }
    if (rc == 0 && is_json)
        rc = lull_model_report_print_json(sets, table->count);
    else if (rc == 0)
        lull_model_report_print(sets, table->count);
    lull_model_report_unclocked(path, table);
    for (size_t i = 0; i < table->count; i++)
        lull_grid_fini(&sets[i].grid);
    free(sets);
    return rc;
}

static int evaluate_command(void *options, const struct lull_operands *operands)
{
    const struct evaluate_arguments *const arguments = options;
    const char *const path = operands->words[0];
    struct lull_kernel_table table;
    struct lull_error err = {0};
    int rc = lull_kernel_table_read(path, &table, &err);

    if (rc < 0)
        return lull_cli_fail("model evaluate", &err);
    rc = evaluate_models(path, &table, arguments->is_json, &err);
    lull_kernel_table_fini(&table);
    if (rc < 0 && err.code != 0)
        return lull_cli_fail("model evaluate", &err);
    return rc < 0 ? LULL_EXIT_FAILED : LULL_EXIT_OK;
}

const struct lull_program_command lull_model_evaluate_command = {
    .name = "model evaluate",
    .summary = "report the errors of predicted time and power of measured kernels",
    .arguments = "KERNELS",
    .about = "Reads kernels that were measured at several clocks, predicts each from a few of its "
             "points, and reports the errors of time and power at the others and the share of the "
             "possible saving that the predicted clock achieves. KERNELS is a table (CSV), plain "
             "or gzip; - is standard input. Requires no GPU and no root.",
    .after = "Examples:\n"
             "  lull model evaluate kernels.csv.gz\n"
             "  lull model evaluate --json kernels.csv",
    .tables = {{rows, 0}},
    .operands = {.least = 1,
                 .most = 1,
                 .missing = "no table given; pass a CSV file with the columns gpu, set, app, arg, "
                            "cuda_kernel, core_mhz, mem_mhz, time_ms and power_w"},
    .size = sizeof(struct evaluate_arguments),
    .run = evaluate_command,
};
