/*
 * lull model fit: models of time and power of measured kernels, for lull model predict.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "lab/commands.h"
#include "cli/shared/command.h"
#include "lab/trace/document.h"
#include "lab/model/grids.h"
#include "lab/model/report.h"

struct fit_arguments {
    const char *output;
};

static const struct lull_option rows[] = {
    LULL_VALUE("output", "FILE", TEXT, struct fit_arguments, output, "Write the models here.",
               .hint = LULL_OPTION_FILE, .is_required = true, .more = "The short form is -o."),
    {0},
};

static int fit_set(const char *path, const struct lull_kernel_table *table,
                   const struct lull_kernel_set *from, struct lull_model_sets *sets,
                   struct lull_error *err)
{
    struct lull_model_set *const set = &sets->all[sets->count];
    struct lull_grid grid;
    bool has_grid;
    int rc = lull_model_make_grid(path, from, &has_grid, &grid, err);

    if (rc < 0)
        return rc;
    if (!has_grid) {
        fprintf(stderr,
                "%s: %s is left out: no two operating points were measured of most "
                "kernels\n",
                path, lull_model_set_name(from->gpu, from->set).text);
        return 0;
    }
    sets->count++;
    memcpy(set->gpu, from->gpu, sizeof(set->gpu));
    memcpy(set->set, from->set, sizeof(set->set));
    set->kernel_names = calloc(grid.kernel_count, sizeof(*set->kernel_names));
    if (set->kernel_names != NULL && lull_fitted_make(&grid, &set->device) == 0)
        for (uint32_t k = 0; k < grid.kernel_count; k++)
            set->kernel_names[k] = lull_kernel_table_name(table, grid.kernels[k]);
    else
        rc = lull_error_set(err, -ENOMEM, "%s: not enough memory for its models", path);
    lull_grid_fini(&grid);
    return rc;
}

static void model_fit_print_error(double error)
{
    if (isnan(error))
        printf(" %9s", "-");
    else
        printf(" %9.2f", 100.0 * (exp(error) - 1.0));
}

static void print_errors(const struct lull_fitted_errors *errors)
{
    model_fit_print_error(errors->time.floor);
    model_fit_print_error(errors->power.floor);
    model_fit_print_error(errors->energy.floor);
}

static void model_fit_print(const struct lull_model_sets *sets)
{
    printf("%-28s %7s %6s  %-29s  %-29s\n", "95 % within, %", "kernels", "points",
           "known: time, power, energy", "probed: time, power, energy");
    for (size_t i = 0; i < sets->count; i++) {
        const struct lull_model_set *const set = &sets->all[i];

        printf("%-28s %7u %6u ", lull_model_set_name(set->gpu, set->set).text,
               set->device.kernel_count, set->device.point_count);
        print_errors(&set->device.known);
        putchar(' ');
        print_errors(&set->device.probed);
        putchar('\n');
    }
    printf(
        "known: a kernel of the file at a clock that was left out; probed: another kernel, from "
        "the ends and the middle\nof the clocks, where all forms of its time agree; where they do "
        "not, its intervals are wider. -: nothing\ncould be left out, so that predictions "
        "have no interval.\n");
}

static int write_document(const char *path, const char *source, const struct lull_model_sets *sets,
                          struct lull_error *err)
{
    json_t *const document = lull_model_document_make(sets, source);
    char *const text = document != NULL ? json_dumps(document, JSON_COMPACT) : NULL;
    int rc;

    if (text == NULL)
        rc = lull_error_set(err, -ENOMEM, "%s: not enough memory to write it", path);
    else
        rc = lull_file_write_atomic(path, text, strlen(text), 0644, err);
    free(text);
    json_decref(document);
    return rc;
}

static int model_fit_all(const char *path, const char *output,
                         const struct lull_kernel_table *table, struct lull_error *err)
{
    struct lull_model_sets sets = {.all = calloc(table->count, sizeof(*sets.all))};
    int rc = 0;

    if (sets.all == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory for its sets", path);
    for (size_t i = 0; i < table->count && rc == 0; i++)
        rc = fit_set(path, table, &table->sets[i], &sets, err);
    lull_model_report_unclocked(path, table);
    if (rc == 0 && sets.count == 0)
        rc = lull_error_set(err, LULL_E_FORMAT,
                            "%s: there is nothing to fit: measure the kernels "
                            "of a set at the same operating points",
                            path);
    if (rc == 0)
        rc = write_document(output, path, &sets, err);
    if (rc == 0)
        model_fit_print(&sets);
    lull_model_sets_fini(&sets);
    return rc;
}

static int model_fit_command(void *options, const struct lull_operands *operands)
{
    const struct fit_arguments *const arguments = options;
    const char *const path = operands->words[0];
    struct lull_kernel_table table;
    struct lull_error err = {0};
    int rc = lull_kernel_table_read(path, &table, &err);

    if (rc < 0)
        return lull_cli_fail("model fit", &err);
    rc = model_fit_all(path, arguments->output, &table, &err);
    lull_kernel_table_fini(&table);
    return rc < 0 ? lull_cli_fail("model fit", &err) : LULL_EXIT_OK;
}

const struct lull_program_command lull_model_fit_command = {
    .name = "model fit",
    .summary = "fit models of time and power to measured kernels",
    .arguments = "KERNELS",
    .about = "Reads kernels that were measured at several clocks, fits models of their time and "
             "power and of the device, and reports their errors on unseen data, from which `lull "
             "model predict` derives its intervals. KERNELS is a table (CSV), plain or gzip, such "
             "as `lull sweep` writes; - is standard input. Requires no GPU and no root.",
    .after = "Examples:\n"
             "  lull model fit --output a100.json sweep.csv\n"
             "  lull model predict --kernel gemm_tf32 a100.json",
    .tables = {{rows, 0}},
    .operands = {.least = 1,
                 .most = 1,
                 .missing = "no table given; pass a CSV file such as lull sweep writes"},
    .size = sizeof(struct fit_arguments),
    .run = model_fit_command,
};
