/*
 * lull model evaluate: how well the models of time and power predict measured kernels.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/model/report.h"

struct evaluate_arguments {
    bool is_json;
};

static const struct lull_option rows[] = {
    LULL_JSON_ROW(struct evaluate_arguments, is_json),
    {0},
};

/* How much slower than the base the second pick may be. */
static const double slowdown_ratio = 0.05;

/*
 * The clocks against which savings are counted, where these are not the highest that were measured:
 * the bases of published measurements (NV-DVFS-Benchmark).
 */
static const struct {
    const char *gpu;
    double sm_mhz;
    double mem_mhz;
} bases[] = {{"gtx1080ti", 1800.0, 5000.0}};

static int refuse(const char *path, const struct lull_kernel_set *set, int most, const char *what,
                  struct lull_error *err)
{
    return lull_error_set(err, LULL_E_FORMAT,
                          "%s: %s has more than %d %s; divide it by the column set", path,
                          lull_model_set_name(set).text, most, what);
}

/* Makes the grid of a set. A set in which kernels share no points has none, which is no error. */
static int make_grid(const char *path, struct lull_evaluated_set *set, struct lull_error *err)
{
    double sm_mhz = 0.0, mem_mhz = 0.0;

    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++)
        if (strcmp(set->set->gpu, bases[i].gpu) == 0) {
            sm_mhz = bases[i].sm_mhz;
            mem_mhz = bases[i].mem_mhz;
        }
    switch (lull_grid_make(set->set->rows, set->set->row_count, sm_mhz, mem_mhz, &set->grid)) {
    case LULL_GRID_MADE:
        set->has_grid = true;
        return 0;
    case LULL_GRID_NO_POINTS:
        return 0;
    case LULL_GRID_TOO_MANY_POINTS:
        return refuse(path, set->set, LULL_GRID_POINTS, "operating points", err);
    case LULL_GRID_TOO_MANY_KERNELS:
        return refuse(path, set->set, LULL_GRID_KERNELS, "kernels", err);
    case LULL_GRID_NO_MEMORY:
        break;
    }
    return lull_error_set(err, -ENOMEM, "%s: there is no memory for its kernels", path);
}

static int evaluate_set(const char *path, struct lull_evaluated_set *set, struct lull_error *err)
{
    int rc;

    set->evaluation = (struct lull_evaluation){.time_error = NAN,
                                               .time_alone_error = NAN,
                                               .power_error = NAN,
                                               .power_ends_error = NAN,
                                               .pick = {NAN, NAN, NAN, 0},
                                               .pick_within = {NAN, NAN, NAN, 0}};
    rc = make_grid(path, set, err);
    if (rc < 0 || !set->has_grid)
        return rc;
    if (lull_evaluate(&set->grid, slowdown_ratio, &set->evaluation) < 0)
        return lull_error_set(err, -ENOMEM, "%s: there is no memory for its models", path);
    return 0;
}

static int evaluate(const char *path, const struct lull_kernel_table *table, bool is_json,
                    struct lull_error *err)
{
    struct lull_evaluated_set *const sets = calloc(table->count, sizeof(*sets));
    int rc = 0;

    if (sets == NULL)
        return lull_error_set(err, -ENOMEM, "%s: there is no memory for its sets", path);
    for (size_t i = 0; i < table->count && rc == 0; i++) {
        sets[i].set = &table->sets[i];
        rc = evaluate_set(path, &sets[i], err);
    }
    if (rc == 0 && is_json)
        rc = lull_model_report_print_json(sets, table->count);
    else if (rc == 0)
        lull_model_report_print(sets, table->count);
    for (size_t i = 0; i < table->count; i++)
        lull_grid_fini(&sets[i].grid);
    free(sets);
    return rc;
}

static int run(void *options, const struct lull_operands *operands)
{
    const struct evaluate_arguments *const arguments = options;
    const char *const path = operands->words[0];
    struct lull_kernel_table table;
    struct lull_error err = {0};
    int rc = lull_kernel_table_read(path, &table, &err);

    if (rc < 0)
        return lull_cli_fail("model evaluate", &err);
    rc = evaluate(path, &table, arguments->is_json, &err);
    lull_kernel_table_fini(&table);
    if (rc < 0 && err.code != 0)
        return lull_cli_fail("model evaluate", &err);
    return rc < 0 ? LULL_EXIT_FAILED : LULL_EXIT_OK;
}

const struct lull_program_command lull_model_evaluate_command = {
    .name = "model evaluate",
    .summary = "tell how well time and power of measured kernels are predicted",
    .arguments = "KERNELS",
    .about = "Reads kernels that were measured at several clocks, predicts each from a few of its "
             "points, and tells how far time and power are off at the others, and how much of the "
             "possible saving the predicted clock realises. KERNELS is a table (CSV), plain or "
             "gzip; - is standard input. Neither a GPU nor root is needed.",
    .after = "Examples:\n"
             "  lull model evaluate kernels.csv.gz\n"
             "  lull model evaluate --json kernels.csv",
    .tables = {{rows, 0}},
    .operands = {.least = 1,
                 .most = 1,
                 .missing = "there is no table; give a CSV file with the columns gpu, set, app, "
                            "arg, cuda_kernel, core_mhz, mem_mhz, time_ms and power_w"},
    .size = sizeof(struct evaluate_arguments),
    .run = run,
};
