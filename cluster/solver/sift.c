/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/solver/sift.h"

#include <errno.h>
#include <stdlib.h>

/* The first round takes the best columns, this many for each job on average; later rounds add only
   columns whose reduced cost is below 0 by more than the solver's tolerance. */
enum { FIRST_PER_JOB = 12, MAX_ROUNDS = 60 };

static const double tolerance = 1e-9;

struct sift {
    const struct lull_time_indexed *program;
    double *dual;    /* [row] */
    double *reduced; /* [column] */
    bool *is_in;     /* [column] */
    /* Columns to add to the model, in the form that the solver takes. */
    int *begin;
    int *row;
    double *value;
    double *cost;
    int batch;
};

/* ---- reduced costs ------------------------------------------------------------------------ */

/* What a column would change in the objective if it came into the basis: below 0, it improves it.
 */
static double reduced_cost(const struct lull_time_indexed *program, int column, const double *dual)
{
    double cost = program->cost[column];

    for (int i = program->begin[column]; i < program->begin[column + 1]; i++)
        cost -= program->value[i] * dual[program->row[i]];
    return cost;
}

/* Duals of rows from prices; a job's own is what its best column then costs, or 0 if it may be left
   out and that is better. */
static void sift_take_prices(struct sift *sift, const double *gpu_j, const double *cap_j)
{
    const struct lull_time_indexed *program = sift->program;
    const struct lull_slot_problem *problem = program->problem;

    for (uint32_t i = 0; i <= problem->type_count; i++)
        for (uint32_t t = 0; t < problem->slots; t++) {
            const size_t at = (size_t)i * problem->slots + t;

            if (program->row_of[at] >= 0)
                sift->dual[program->row_of[at]] =
                    -(i < problem->type_count ? gpu_j[at] : cap_j[t]) / program->scale_j;
        }
    for (size_t i = 0; i < problem->job_count; i++)
        sift->dual[i] = isinf(problem->jobs[i].reject_j) ? HUGE_VAL : 0.0;
    for (int c = 0; c < program->columns; c++) {
        const int job = program->row[program->begin[c]];
        const double own = sift->dual[job];
        double cost;

        sift->dual[job] = 0.0;
        cost = reduced_cost(program, c, sift->dual);
        sift->dual[job] = fmin(own, cost);
    }
    for (int c = 0; c < program->columns; c++)
        sift->reduced[c] = reduced_cost(program, c, sift->dual);
}

static int sift_compare(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Finds the reduced cost below which the columns of the first round lie. -ENOMEM. */
static int choose_limit(const struct sift *sift, double *limit_out)
{
    const size_t columns = (size_t)sift->program->columns;
    const size_t wanted = FIRST_PER_JOB * sift->program->problem->job_count;
    double *sorted = malloc((columns + 1) * sizeof(*sorted));

    if (sorted == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < columns; i++)
        sorted[i] = sift->reduced[i];
    qsort(sorted, columns, sizeof(*sorted), sift_compare);
    *limit_out = fmax(tolerance, sorted[wanted < columns ? wanted : columns - 1]);
    free(sorted);
    return 0;
}

/* ---- batches ------------------------------------------------------------------------------ */

/* Gathers the columns that are not in the model yet and whose reduced costs are below the limit. */
static void sift_gather(struct sift *sift, double limit)
{
    const struct lull_time_indexed *program = sift->program;
    int entries = 0;

    sift->batch = 0;
    for (int c = 0; c < program->columns; c++) {
        if (sift->is_in[c] || sift->reduced[c] > limit)
            continue;
        sift->is_in[c] = true;
        sift->begin[sift->batch] = entries;
        sift->cost[sift->batch++] = program->cost[c];
        for (int i = program->begin[c]; i < program->begin[c + 1]; i++) {
            sift->row[entries] = program->row[i];
            sift->value[entries++] = program->value[i];
        }
    }
    sift->begin[sift->batch] = entries;
}

static int sift_make_room(struct sift *sift)
{
    const struct lull_time_indexed *program = sift->program;
    const size_t columns = (size_t)program->columns + 1;
    const size_t entries = (size_t)program->begin[program->columns] + 1;

    sift->dual = calloc((size_t)program->rows + 1, sizeof(*sift->dual));
    sift->reduced = calloc(columns, sizeof(*sift->reduced));
    sift->is_in = calloc(columns, sizeof(*sift->is_in));
    sift->begin = calloc(columns, sizeof(*sift->begin));
    sift->cost = calloc(columns, sizeof(*sift->cost));
    sift->row = calloc(entries, sizeof(*sift->row));
    sift->value = calloc(entries, sizeof(*sift->value));
    if (sift->dual == NULL || sift->reduced == NULL || sift->is_in == NULL || sift->begin == NULL ||
        sift->cost == NULL || sift->row == NULL || sift->value == NULL)
        return -ENOMEM;
    return 0;
}

static void sift_release(struct sift *sift)
{
    free(sift->dual);
    free(sift->reduced);
    free(sift->is_in);
    free(sift->begin);
    free(sift->cost);
    free(sift->row);
    free(sift->value);
}

/* ---- rounds ------------------------------------------------------------------------------- */

/* Solves again and again with the columns that the last duals request. Returns 1 once no column
 * is left to add, which is the optimum of the whole program; 0: not reached. */
static int add_what_is_missing(struct sift *sift, Clp_Simplex *model)
{
    for (int round = 0; round < MAX_ROUNDS && Clp_status(model) == 0; round++) {
        const double *dual = Clp_dualRowSolution(model);

        for (int c = 0; c < sift->program->columns; c++)
            sift->reduced[c] = reduced_cost(sift->program, c, dual);
        sift_gather(sift, -tolerance);
        if (sift->batch == 0)
            return 1;
        Clp_addColumns(model, sift->batch, NULL, NULL, sift->cost, sift->begin, sift->row,
                       sift->value);
        Clp_primal(model, 0);
    }
    return 0;
}

int lull_sift(Clp_Simplex *model, const struct lull_time_indexed *program, const double *gpu_j,
              const double *cap_j)
{
    struct sift sift = {.program = program};
    double limit;
    int result = sift_make_room(&sift);

    if (result == 0) {
        sift_take_prices(&sift, gpu_j, cap_j);
        result = choose_limit(&sift, &limit);
    }
    if (result == 0) {
        sift_gather(&sift, limit);
        Clp_loadProblem(model, sift.batch, program->rows, sift.begin, sift.row, sift.value, NULL,
                        NULL, sift.cost, program->row_low, program->row_high);
        Clp_initialBarrierSolve(model);
        result = add_what_is_missing(&sift, model);
    }
    sift_release(&sift);
    return result;
}
