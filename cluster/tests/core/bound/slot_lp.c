/* SPDX-License-Identifier: Apache-2.0 */
#include "slot_lp.h"

#include <coin/Clp_C_Interface.h>
#include <math.h>
#include <stdlib.h>

struct program {
    CoinBigIndex *starts; /* [column + 1] */
    int *rows;
    double *values;
    double *worth; /* [column] */
    int columns;
};

static void count(const struct lull_slot_problem *problem, size_t *columns, size_t *elements)
{
    *columns = 0;
    *elements = 0;
    for (size_t j = 0; j < problem->job_count; j++)
        for (uint32_t m = 0; m < problem->jobs[j].point_count; m++) {
            const struct lull_slot_point *point = &problem->jobs[j].points[m];
            const size_t starts = point->last - point->first + 1;

            *columns += starts;
            *elements += starts * (point->slots + 1);
        }
}

static CoinBigIndex add_column(const struct lull_slot_problem *problem, size_t job,
                               const struct lull_slot_point *point, uint32_t start,
                               struct program *program, CoinBigIndex at)
{
    program->starts[program->columns] = at;
    program->worth[program->columns++] = -(point->cost_j + point->delay_j * (start - point->first));
    program->rows[at] = (int)job;
    program->values[at++] = 1.0;
    for (uint32_t i = 0; i < point->slots; i++) {
        program->rows[at] = (int)(problem->job_count + point->type * problem->slots + start + i);
        program->values[at++] = point->gpus;
    }
    return at;
}

static void fill(const struct lull_slot_problem *problem, struct program *program)
{
    CoinBigIndex at = 0;

    for (size_t j = 0; j < problem->job_count; j++)
        for (uint32_t m = 0; m < problem->jobs[j].point_count; m++) {
            const struct lull_slot_point *point = &problem->jobs[j].points[m];

            for (uint32_t start = point->first; start <= point->last; start++)
                at = add_column(problem, j, point, start, program, at);
        }
    program->starts[program->columns] = at;
}

static double solve(const struct lull_slot_problem *problem, const struct program *program,
                    double *duals_out)
{
    const int rows = (int)(problem->job_count + (size_t)problem->type_count * problem->slots);
    double *low = malloc((size_t)rows * sizeof(*low));
    double *high = malloc((size_t)rows * sizeof(*high));
    double *zero = calloc((size_t)program->columns + 1, sizeof(*zero));
    double *most = malloc(((size_t)program->columns + 1) * sizeof(*most));
    Clp_Simplex *model = Clp_newModel();
    double value;

    for (int i = 0; i < rows; i++) {
        const int slot = i - (int)problem->job_count;

        low[i] = -INFINITY;
        high[i] = slot < 0 ? 1.0 : problem->gpus[(uint32_t)slot / problem->slots];
    }
    for (int i = 0; i < program->columns; i++)
        most[i] = INFINITY;
    Clp_setLogLevel(model, 0);
    Clp_loadProblem(model, program->columns, rows, program->starts, program->rows, program->values,
                    zero, most, program->worth, low, high);
    Clp_setObjSense(model, -1.0);
    Clp_initialSolve(model);
    value = Clp_objectiveValue(model);
    for (int i = (int)problem->job_count; duals_out != NULL && i < rows; i++)
        duals_out[i - (int)problem->job_count] = fabs(Clp_dualRowSolution(model)[i]);
    Clp_deleteModel(model);
    free(low);
    free(high);
    free(zero);
    free(most);
    return value;
}

double slot_lp_welfare(const struct lull_slot_problem *problem, double *duals_out)
{
    struct program program = {0};
    size_t columns;
    size_t elements;
    double value;

    count(problem, &columns, &elements);
    program.starts = malloc((columns + 1) * sizeof(*program.starts));
    program.worth = malloc((columns + 1) * sizeof(*program.worth));
    program.rows = malloc((elements + 1) * sizeof(*program.rows));
    program.values = malloc((elements + 1) * sizeof(*program.values));
    fill(problem, &program);
    value = solve(problem, &program, duals_out);
    free(program.starts);
    free(program.worth);
    free(program.rows);
    free(program.values);
    return value;
}
