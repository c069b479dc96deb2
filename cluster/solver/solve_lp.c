/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/solver/solve_lp.h"

#include <coin/Clp_C_Interface.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cluster/solver/sift.h"
#include "cluster/core/bound/dual_bound.h"
#include "cluster/core/bound/dual_search.h"

enum { CLP_OPTIMAL = 0, CLP_INFEASIBLE = 1, CLP_STOPPED = 3 };

/* Programs with fewer columns than FEW go to the simplex method at once, those with MANY are solved
   by parts. */
enum { FEW_COLUMNS = 2000, MANY_COLUMNS = 5000 };

/* ---- by prices ---------------------------------------------------------------------------- */

/* Steps after which an ascent stops in any case: 3000 jobs in 864 slots
   (cluster/bench/bench_bound.py) take about as many. */
enum { MAX_STEPS = 3400 };
static const double coarse_ratio = 1e-3;

static int make_result(const struct lull_slot_problem *problem, struct lull_lp_result *result_out)
{
    *result_out = (struct lull_lp_result){
        .objective_j = (double)NAN,
        .gpu_j = calloc((size_t)problem->type_count * problem->slots, sizeof(double)),
        .cap_j = calloc(problem->slots, sizeof(double)),
    };
    return result_out->gpu_j != NULL && result_out->cap_j != NULL ? 0 : -ENOMEM;
}

/* Returns whether the ascent has used up its processor time. */
static bool is_time_over(void *user)
{
    const clock_t *until = user;

    return clock() > *until;
}

static int lp_ascend(const struct lull_slot_problem *problem, double fine_ratio,
                     double time_limit_s, struct lull_lp_result *result)
{
    clock_t until = clock() + (clock_t)(fmin(time_limit_s, 1e5) * CLOCKS_PER_SEC);
    const struct lull_price_ascent ascent = {
        .achieved = (double)INFINITY,
        .fine_ratio = fine_ratio,
        .steps = MAX_STEPS,
        .is_over = is_time_over,
        .user = &until,
    };
    const size_t gpu_cells = (size_t)problem->type_count * problem->slots;
    const size_t cells = lull_dual_cells(problem);
    double *prices_j = calloc(cells, sizeof(*prices_j));
    int rc = -ENOMEM;

    if (prices_j != NULL)
        rc = lull_dual_search(problem, &ascent, prices_j, &result->bound_j);
    if (rc == 0) {
        memcpy(result->gpu_j, prices_j, gpu_cells * sizeof(*prices_j));
        memcpy(result->cap_j, prices_j + gpu_cells, (cells - gpu_cells) * sizeof(*prices_j));
    }
    free(prices_j);
    return rc;
}

int lull_solve_prices(const struct lull_slot_problem *problem, double fine_ratio,
                      double time_limit_s, struct lull_lp_result *result_out,
                      struct lull_error *err)
{
    int rc = make_result(problem, result_out);

    if (rc == 0)
        rc = lp_ascend(problem, fine_ratio, time_limit_s, result_out);
    if (rc < 0) {
        lull_lp_result_fini(result_out);
        lull_error_set(err, rc, "no memory for prices of %u slots", problem->slots);
    }
    return rc;
}

void lull_lp_result_fini(struct lull_lp_result *result)
{
    free(result->gpu_j);
    free(result->cap_j);
    *result = (struct lull_lp_result){0};
}

/* ---- by the solver ------------------------------------------------------------------------ */

static Clp_Simplex *new_model(double time_limit_s)
{
    Clp_Simplex *model = Clp_newModel();

    if (model == NULL)
        return NULL;
    Clp_setLogLevel(model, 0);
    Clp_setPrimalTolerance(model, 1e-9);
    Clp_setDualTolerance(model, 1e-9);
    Clp_setMaximumSeconds(model, time_limit_s);
    return model;
}

/*
 * Solves with all columns at once. The interior-point method with crossover is several times faster
 * than simplex here (500 jobs in 288 slots: 1.1 s against 7 s). If it does not end with an optimum,
 * simplex is run.
 */
static void lp_optimise(Clp_Simplex *model, const struct lull_time_indexed *program)
{
    Clp_loadProblem(model, program->columns, program->rows, program->begin, program->row,
                    program->value, NULL, NULL, program->cost, program->row_low, program->row_high);
    if (program->columns >= FEW_COLUMNS) {
        Clp_initialBarrierSolve(model);
        if (Clp_status(model) == CLP_OPTIMAL || Clp_status(model) == CLP_STOPPED)
            return;
    }
    Clp_initialSolve(model);
}

/* Solves the program by parts. Returns 1 if the model is solved then, 0 if not, or -ENOMEM. */
static int lp_sift(Clp_Simplex *model, const struct lull_time_indexed *program, double time_limit_s)
{
    struct lull_lp_result start;
    int result = lull_solve_prices(program->problem, coarse_ratio, time_limit_s, &start, NULL);

    if (result < 0)
        return result;
    result = lull_sift(model, program, start.gpu_j, start.cap_j);
    lull_lp_result_fini(&start);
    return result;
}

/* Makes prices of the duals of rows: in a least-cost program those of upper limits are <= 0. */
static void lp_take_prices(const struct lull_time_indexed *program, const double *duals,
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

static int lp_check_status(Clp_Simplex *model, const struct lull_time_indexed *program,
                           struct lull_lp_result *result)
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
        return 0; /* the solver gave up; prices still prove a bound */
    }
    result->objective_j = Clp_objectiveValue(model) * program->scale_j + program->constant_j;
    lp_take_prices(program, Clp_dualRowSolution(model), result);
    return lull_dual_bound(program->problem, &prices, &result->bound_j, NULL);
}

static int lp_solve(const struct lull_time_indexed *program, double time_limit_s,
                    struct lull_lp_result *result)
{
    Clp_Simplex *model = new_model(time_limit_s);
    int is_solved = 0;
    int rc;

    if (model == NULL)
        return -ENOMEM;
    if (program->columns >= MANY_COLUMNS) {
        is_solved = lp_sift(model, program, time_limit_s);
        /* Where sifting does not get to the optimum, the whole program is solved with a new model.
         */
        if (is_solved <= 0)
            Clp_deleteModel(model);
        if (is_solved < 0)
            return is_solved;
        if (is_solved == 0)
            model = new_model(time_limit_s);
        if (model == NULL)
            return -ENOMEM;
    }
    if (!is_solved)
        lp_optimise(model, program);
    rc = lp_check_status(model, program, result);
    Clp_deleteModel(model);
    return rc;
}

/* ---- in a process of its own --------------------------------------------------------------- */

/* The answer that the solver's process writes to shared memory. */
struct lp_answer {
    bool is_whole; /* set last; false: the process ended before */
    int rc;
    bool is_infeasible;
    bool is_optimal;
    double objective_j;
    double bound_j;
    double prices_j[]; /* of GPUs, then of the cap */
};

/* The solver may print where its result belongs, and may not apply its time limit. */
static void lp_add_bounds(double time_limit_s)
{
    const rlim_t max_s = (rlim_t)fmin(2.0 * time_limit_s + 10.0, 1e6);
    const struct rlimit limit = {max_s, max_s};
    const struct rlimit no_core = {0, 0};
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (nowhere >= 0) {
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
    }
    setrlimit(RLIMIT_CPU, &limit);
    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void lp_write_answer(const struct lull_time_indexed *program, double time_limit_s,
                            struct lull_lp_result *result, struct lp_answer *answer_out)
{
    const size_t slots = program->problem->slots;
    const size_t cells = program->problem->type_count * slots;

    lp_add_bounds(time_limit_s);
    answer_out->rc = lp_solve(program, time_limit_s, result);
    answer_out->is_infeasible = result->is_infeasible;
    answer_out->is_optimal = result->is_optimal;
    answer_out->objective_j = result->objective_j;
    answer_out->bound_j = result->bound_j;
    memcpy(answer_out->prices_j, result->gpu_j, cells * sizeof(double));
    memcpy(answer_out->prices_j + cells, result->cap_j, slots * sizeof(double));
    answer_out->is_whole = true;
}

static void lp_read_answer(const struct lull_time_indexed *program, const struct lp_answer *answer,
                           struct lull_lp_result *result)
{
    const size_t slots = program->problem->slots;
    const size_t cells = program->problem->type_count * slots;

    result->is_infeasible = answer->is_infeasible;
    result->is_optimal = answer->is_optimal;
    result->objective_j = answer->objective_j;
    result->bound_j = answer->bound_j;
    memcpy(result->gpu_j, answer->prices_j, cells * sizeof(double));
    memcpy(result->cap_j, answer->prices_j + cells, slots * sizeof(double));
}

/* CLP calls abort() on some programs. Its process then ends without an answer, and the result stays
 * one that proves nothing. */
static int solve_apart(const struct lull_time_indexed *program, double time_limit_s,
                       struct lull_lp_result *result)
{
    const struct lull_slot_problem *problem = program->problem;
    const size_t size = sizeof(struct lp_answer) +
                        ((size_t)problem->type_count + 1) * problem->slots * sizeof(double);
    struct lp_answer *const shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child;
    int rc = 0;

    if (shared == MAP_FAILED)
        return -ENOMEM;
    fflush(NULL);
    child = fork();
    if (child == 0) {
        lp_write_answer(program, time_limit_s, result, shared);
        _exit(0);
    }
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    if (child < 0) {
        rc = -errno;
    } else if (shared->is_whole) {
        rc = shared->rc;
        lp_read_answer(program, shared, result);
    }
    munmap(shared, size);
    return rc;
}

int lull_solve_lp(const struct lull_time_indexed *program, double time_limit_s,
                  struct lull_lp_result *result_out, struct lull_error *err)
{
    int result = make_result(program->problem, result_out);

    result_out->bound_j = -(double)INFINITY;
    if (result == 0)
        result = solve_apart(program, time_limit_s, result_out);
    if (result < 0) {
        lull_error_set(err, result, "no memory or no process for the linear program: %s",
                       strerror(-result));
        lull_lp_result_fini(result_out);
    }
    return result;
}
