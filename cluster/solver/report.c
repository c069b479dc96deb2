/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/solver/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/file.h"

/* ---- reports -------------------------------------------------------------------------------- */

struct values {
    size_t count; /* jobs that may be left out */
    double sum_j; /* what leaving them all out costs */
};

static struct values add_values(const struct lull_slot_problem *problem)
{
    struct values values = {0};

    for (size_t i = 0; i < problem->job_count; i++) {
        if (isinf(problem->jobs[i].reject_j))
            continue;
        values.count++;
        values.sum_j += problem->jobs[i].reject_j;
    }
    return values;
}

static bool is_infeasible(const struct lull_bound_run *run)
{
    return run->lp.is_infeasible || run->ilp.is_infeasible;
}

/* The schedule's distance above the proven bound, as a share of its cost. 1e-300 only avoids a
 * division by 0. */
static double bound_report_gap_ratio(const struct lull_bound_run *run)
{
    const double above_j = run->ilp.schedule_j - run->lp.bound_j;

    return above_j > 0.0 ? above_j / fmax(fabs(run->ilp.schedule_j), 1e-300) : 0.0;
}

static void bound_report_print(const struct lull_bound_run *run)
{
    const struct lull_slot_problem *problem = &run->file.problem;
    const struct values values = add_values(problem);

    printf("jobs      %zu, of which %zu may be left out; %u slots, %u types of GPU\n",
           problem->job_count, values.count, problem->slots, problem->type_count);
    if (run->file.dropped > 0)
        printf("dropped   %zu modes that do not fit\n", run->file.dropped);
    if (run->program.problem == NULL)
        printf("program   none (%s)\n", run->options->is_by_prices ? "--fast" : "too large");
    else
        printf("program   %d columns, %d rows\n", run->program.columns, run->program.rows);
    if (is_infeasible(run)) {
        printf("bound     none: no schedule runs all jobs that have to run\n");
        return;
    }
    printf("bound     %.9g J, proven; ", run->lp.bound_j);
    if (run->lp.is_optimal)
        printf("the linear program's optimum is %.9g J\n", run->lp.objective_j);
    else
        printf("%s\n", run->is_by_prices ? "the best that prices were found to prove"
                                         : "the solver was stopped at the time limit or gave up");
    if (values.count > 0 && values.count == problem->job_count)
        printf("saved     at most %.9g J of %.9g J that leaving jobs out would cost\n",
               values.sum_j - run->lp.bound_j, values.sum_j);
    if (!run->options->is_integer)
        return;
    if (run->ilp.has_schedule)
        printf("schedule  %.9g J, %.3g %% above the bound%s\n", run->ilp.schedule_j,
               100.0 * bound_report_gap_ratio(run),
               run->ilp.is_optimal ? "" : " (stopped at the time limit)");
    else
        printf("schedule  none found within the time limit\n");
    printf("integer   no schedule below %.9g J, says the solver\n", run->ilp.bound_j);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static int add_integer(const struct lull_bound_run *run, json_t *root)
{
    int result = json_object_set_new(root, "ilp_bound_j", json_real(run->ilp.bound_j));

    result |= json_object_set_new(root, "ilp_optimal", json_boolean(run->ilp.is_optimal));
    if (run->ilp.has_schedule) {
        result |= json_object_set_new(root, "schedule_j", json_real(run->ilp.schedule_j));
        result |= json_object_set_new(root, "gap_ratio", json_real(bound_report_gap_ratio(run)));
    }
    return result;
}

static int add_bounds(const struct lull_bound_run *run, json_t *root)
{
    const struct values values = add_values(&run->file.problem);
    int result = json_object_set_new(root, "bound_j", json_real(run->lp.bound_j));

    if (run->lp.is_optimal)
        result |= json_object_set_new(root, "lp_j", json_real(run->lp.objective_j));
    result |= json_object_set_new(root, "lp_optimal", json_boolean(run->lp.is_optimal));
    result |= json_object_set_new(root, "value_j", json_real(values.sum_j));
    if (run->options->is_integer)
        result |= add_integer(run, root);
    return result;
}

static int bound_report_print_json(const struct lull_bound_run *run)
{
    const struct lull_slot_problem *problem = &run->file.problem;
    json_t *root = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "jobs", (json_int_t)problem->job_count, "slots",
        (json_int_t)problem->slots, "types", (json_int_t)problem->type_count, "dropped_modes",
        (json_int_t)run->file.dropped, "columns", (json_int_t)run->program.columns, "rows",
        (json_int_t)run->program.rows, "feasible", (int)!is_infeasible(run));
    int result = root == NULL ? -1 : 0;

    if (result == 0 && !is_infeasible(run))
        result = add_bounds(run, root);
    if (result == 0)
        result = json_dumpf(root, stdout, JSON_INDENT(2));
    if (result == 0)
        putchar('\n');
    json_decref(root);
    return result == 0 ? 0 : -ENOMEM;
}

int lull_bound_print(const struct lull_bound_run *run, struct lull_error *err)
{
    if (run->options->is_json) {
        if (bound_report_print_json(run) < 0)
            return lull_error_set(err, -ENOMEM, "no memory for the result");
    } else {
        bound_report_print(run);
    }
    return 0;
}

/* ---- files -------------------------------------------------------------------------------- */

static int write_prices(const void *context, FILE *out)
{
    const struct lull_bound_run *const run = context;
    const struct lull_slot_problem *problem = &run->file.problem;
    const bool is_capped = problem->cap_w != LULL_SLOTS_UNCAPPED;

    fputs("slot", out);
    for (uint32_t i = 0; i < problem->type_count; i++)
        fprintf(out, ",%s", lull_slot_file_type(&run->file, i));
    fputs(is_capped ? ",cap_w\n" : "\n", out);
    for (uint32_t t = 0; t < problem->slots; t++) {
        fprintf(out, "%u", t);
        for (uint32_t i = 0; i < problem->type_count; i++)
            fprintf(out, ",%.17g", run->lp.gpu_j[(size_t)i * problem->slots + t]);
        if (is_capped)
            fprintf(out, ",%.17g", run->lp.cap_j[t]);
        fputc('\n', out);
    }
    return 0;
}

static int write_schedule(const void *context, FILE *out)
{
    const struct lull_bound_run *const run = context;
    const struct lull_slot_problem *problem = &run->file.problem;

    fputs("job,type,gpus,start,slots,mode\n", out);
    for (size_t i = 0; i < problem->job_count && run->ilp.has_schedule; i++) {
        const struct lull_slot_choice choice = run->ilp.choices[i];
        const struct lull_slot_point *point;

        if (choice.point == LULL_SLOT_REJECTED)
            continue;
        point = &problem->jobs[i].points[choice.point];
        fprintf(out, "%s,%s,%u,%u,%u,%u\n", lull_slot_file_job(&run->file, i),
                lull_slot_file_type(&run->file, point->type), point->gpus, choice.start,
                point->slots, choice.point);
    }
    return 0;
}

int lull_bound_write(const struct lull_bound_run *run, struct lull_error *err)
{
    int result = 0;

    if (run->options->prices_out != NULL && !is_infeasible(run))
        result = lull_file_write_with(run->options->prices_out, write_prices, run, err);
    if (result == 0 && run->options->schedule_out != NULL && run->ilp.has_schedule)
        result = lull_file_write_with(run->options->schedule_out, write_schedule, run, err);
    return result;
}
