/* SPDX-License-Identifier: Apache-2.0 */
#include "bound/solve_lp.h"

#include <coin/Clp_C_Interface.h>
#include <errno.h>
#include <stdlib.h>

#include "core/cluster/dual_bound.h"

enum { CLP_OPTIMAL = 0, CLP_INFEASIBLE = 1, CLP_STOPPED = 3 };

/* Fewer columns than this go to the simplex method at once. */
enum { FEW_COLUMNS = 2000 };

static void load(Clp_Simplex *model, const struct lull_time_indexed *program, double time_limit_s)
{
    Clp_setLogLevel(model, 0);
    Clp_loadProblem(model, program->columns, program->rows, program->begin, program->row,
                    program->value, NULL, NULL, program->cost, program->row_low, program->row_high);
    Clp_setPrimalTolerance(model, 1e-9);
    Clp_setDualTolerance(model, 1e-9);
    Clp_setMaximumSeconds(model, time_limit_s);
}

/*
 * The interior-point method with crossover is several times faster than simplex here (500 jobs in
 * 288 slots: 1.1 s against 7 s). Where it does not end with an optimum, simplex has the last word.
 */
static void optimise(Clp_Simplex *model, const struct lull_time_indexed *program)
{
    if (program->columns >= FEW_COLUMNS) {
        Clp_initialBarrierSolve(model);
        if (Clp_status(model) == CLP_OPTIMAL || Clp_status(model) == CLP_STOPPED)
            return;
    }
    Clp_initialSolve(model);
}

/* Prices from the duals of rows: of a least-cost program, those of upper limits are <= 0. */
static void take_prices(const struct lull_time_indexed *program, const double *duals,
                        struct lull_lp_result *result)
{
    const struct lull_slot_problem *problem = program->problem;

    for (uint32_t i = 0; i <= problem->type_count; i++)
        for (uint32_t t = 0; t < problem->slots; t++) {
            const size_t at = (size_t)i * problem->slots + t;
            const int row = program->row_of[at];
            const double price_j = row < 0 ? 0.0 : fmax(0.0, -duals[row] * program->scale_j);

            if (i < problem->type_count)
                result->gpu_j[at] = price_j;
            else
                result->cap_j[t] = price_j;
        }
}

static int judge(Clp_Simplex *model, const struct lull_time_indexed *program,
                 struct lull_lp_result *result, struct lull_error *err)
{
    const struct lull_dual_prices prices = {result->gpu_j, result->cap_j};

    switch (Clp_status(model)) {
    case CLP_OPTIMAL:
        result->is_optimal = true;
        break;
    case CLP_INFEASIBLE:
        result->is_infeasible = true;
        return 0;
    case CLP_STOPPED:
        break;
    default:
        return lull_error_set(err, LULL_E_FORMAT,
                              "the solver gave up on this problem (numbers too far apart?)");
    }
    result->objective_j = Clp_objectiveValue(model) * program->scale_j + program->constant_j;
    take_prices(program, Clp_dualRowSolution(model), result);
    return lull_dual_bound(program->problem, &prices, &result->bound_j, NULL);
}

int lull_solve_lp(const struct lull_time_indexed *program, double time_limit_s,
                  struct lull_lp_result *result_out, struct lull_error *err)
{
    const struct lull_slot_problem *problem = program->problem;
    Clp_Simplex *model = Clp_newModel();
    int result = -ENOMEM;

    *result_out = (struct lull_lp_result){
        .gpu_j = calloc((size_t)problem->type_count * problem->slots, sizeof(double)),
        .cap_j = calloc(problem->slots, sizeof(double)),
    };
    if (model != NULL && result_out->gpu_j != NULL && result_out->cap_j != NULL) {
        load(model, program, time_limit_s);
        optimise(model, program);
        result = judge(model, program, result_out, err);
    }
    if (model != NULL)
        Clp_deleteModel(model);
    if (result == -ENOMEM)
        lull_error_set(err, result, "no memory for the linear program");
    if (result < 0)
        lull_lp_result_fini(result_out);
    return result;
}

void lull_lp_result_fini(struct lull_lp_result *result)
{
    free(result->gpu_j);
    free(result->cap_j);
    *result = (struct lull_lp_result){0};
}
