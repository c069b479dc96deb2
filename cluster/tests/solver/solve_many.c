/*
 * Many small problems in one process, which under a sanitizer costs more than solving them. For
 * each file a line: feasible (0 or 1), bound_j, lp_j, columns, and with --ilp schedule_j,
 * ilp_bound_j and whether that is optimal.
 *
 * usage: solve_many [--ilp] INSTANCE...
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cluster/solver/solve_ilp.h"
#include "cluster/solver/solve_lp.h"
#include "cluster/trace/slot_file.h"

static int fail(const struct lull_error *err)
{
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

static int solve(const struct lull_time_indexed *program, bool is_integer, struct lull_error *err)
{
    const struct lull_ilp_options options = {.time_limit_s = 60.0};
    struct lull_ilp_result ilp = {0};
    struct lull_lp_result lp;
    int result = lull_solve_lp(program, 60.0, &lp, err);

    if (result == 0 && is_integer && !lp.is_infeasible)
        result = lull_solve_ilp(program, &options, &ilp, err);
    if (result < 0) {
        lull_lp_result_fini(&lp);
        return result;
    }
    if (lp.is_infeasible || ilp.is_infeasible)
        printf("0\n");
    else
        printf("1 %.17g %.17g %d %.17g %.17g %d\n", lp.bound_j, lp.objective_j, program->columns,
               ilp.schedule_j, ilp.bound_j, ilp.is_optimal);
    lull_lp_result_fini(&lp);
    lull_ilp_result_fini(&ilp);
    return 0;
}

static int solve_file(const char *path, bool is_integer)
{
    struct lull_error err = {0};
    struct lull_slot_file file;
    struct lull_time_indexed program;
    int result = lull_slot_file_read(path, &file, &err);

    if (result < 0 && strstr(err.text, "no mode fits") != NULL) {
        printf("0\n");
        return 0;
    }
    if (result < 0)
        return fail(&err);
    result = lull_time_indexed_create(&file.problem, &program, &err);
    if (result == 0) {
        result = solve(&program, is_integer, &err);
        lull_time_indexed_fini(&program);
    }
    lull_slot_file_fini(&file);
    return result < 0 ? fail(&err) : 0;
}

int main(int argc, char **argv)
{
    const bool is_integer = argc > 1 && strcmp(argv[1], "--ilp") == 0;

    for (int i = is_integer ? 2 : 1; i < argc; i++)
        if (solve_file(argv[i], is_integer) != 0)
            return 1;
    return 0;
}
