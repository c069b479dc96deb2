/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/solver/solve_ilp.h"

#include <coin/Cbc_C_Interface.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void ilp_load(Cbc_Model *model, const struct lull_time_indexed *program,
                     const struct lull_ilp_options *options)
{
    Cbc_loadProblem(model, program->columns, program->rows, program->begin, program->row,
                    program->value, NULL, NULL, program->cost, program->row_low, program->row_high);
    for (int i = 0; i < program->columns; i++) {
        Cbc_setColUpper(model, i, 1.0);
        Cbc_setInteger(model, i);
    }
    Cbc_setLogLevel(model, 0);
    /* The gap is not given as a fraction: the cost of rejecting jobs is subtracted from the
     * solver's objective, so a fraction of it has no meaning. */
    Cbc_setAllowableFractionGap(model, 0.0);
    Cbc_setAllowableGap(model, options->gap_j / program->scale_j);
    Cbc_setMaximumSeconds(model, options->time_limit_s);
}

/* CBC prints on standard output whatever its log level is. */
static void solve_quietly(Cbc_Model *model)
{
    int kept, nowhere;

    fflush(stdout);
    kept = dup(STDOUT_FILENO);
    nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (kept >= 0 && nowhere >= 0)
        dup2(nowhere, STDOUT_FILENO);
    Cbc_solve(model);
    fflush(stdout);
    if (kept >= 0 && nowhere >= 0)
        dup2(kept, STDOUT_FILENO);
    if (kept >= 0)
        close(kept);
    if (nowhere >= 0)
        close(nowhere);
}

/* Takes the solver's schedule. x is not read where there are no columns, which the solver cannot
 * handle: then all jobs that may be left out are. */
static int take_schedule(const struct lull_time_indexed *program, const double *x,
                         struct lull_ilp_result *result, struct lull_error *err)
{
    int why;

    for (size_t i = 0; i < program->problem->job_count; i++)
        result->choices[i].point = LULL_SLOT_REJECTED;
    for (int i = 0; i < program->columns; i++) {
        const struct lull_time_indexed_column *column = &program->column[i];

        if (x[i] > 0.5)
            result->choices[column->job] =
                (struct lull_slot_choice){.point = column->point, .start = column->start};
    }
    why = lull_slot_cost(program->problem, result->choices, &result->schedule_j);
    if (why == -ENOMEM)
        return why;
    if (why < 0)
        return lull_error_set(err, LULL_E_FORMAT, "the solver's schedule does not fit");
    result->has_schedule = true;
    return 0;
}

static int ilp_check_status(Cbc_Model *model, const struct lull_time_indexed *program,
                            struct lull_ilp_result *result, struct lull_error *err)
{
    const double *x = Cbc_bestSolution(model);
    double bound_j;

    if (Cbc_isAbandoned(model))
        return lull_error_set(err, LULL_E_FORMAT, "the integer solver gave up on this problem");
    result->is_infeasible = Cbc_isProvenInfeasible(model) && x == NULL;
    result->is_optimal = Cbc_isProvenOptimal(model) && x != NULL;
    bound_j = Cbc_getBestPossibleObjValue(model) * program->scale_j;
    result->bound_j = bound_j - fabs(bound_j) * LULL_ILP_MARGIN_RATIO + program->constant_j;
    return x != NULL ? take_schedule(program, x, result, err) : 0;
}

static int ilp_solve(Cbc_Model *model, const struct lull_time_indexed *program,
                     const struct lull_ilp_options *options, struct lull_ilp_result *result,
                     struct lull_error *err)
{
    if (program->columns == 0) {
        result->is_optimal = true;
        result->bound_j = program->constant_j;
        return take_schedule(program, NULL, result, err);
    }
    ilp_load(model, program, options);
    solve_quietly(model);
    return ilp_check_status(model, program, result, err);
}

int lull_solve_ilp(const struct lull_time_indexed *program, const struct lull_ilp_options *options,
                   struct lull_ilp_result *result_out, struct lull_error *err)
{
    Cbc_Model *model = Cbc_newModel();
    int result = -ENOMEM;

    *result_out = (struct lull_ilp_result){
        .choices = calloc(program->problem->job_count + 1, sizeof(*result_out->choices))};
    if (model != NULL && result_out->choices != NULL)
        result = ilp_solve(model, program, options, result_out, err);
    if (model != NULL)
        Cbc_deleteModel(model);
    if (result == -ENOMEM)
        lull_error_set(err, result, "no memory for the integer program");
    if (result < 0)
        lull_ilp_result_fini(result_out);
    return result;
}

void lull_ilp_result_fini(struct lull_ilp_result *result)
{
    free(result->choices);
    *result = (struct lull_ilp_result){0};
}
