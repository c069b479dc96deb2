/*
 * lull-bound: what any schedule of jobs on a cluster costs at least, all known in advance. A
 * program of its own: CLP and CBC (EPL) must not share one with GPL libraries, which others of Lull
 * link. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "bound/report.h"

/* ---- progress, on a terminal -------------------------------------------------------------- */

static volatile sig_atomic_t seconds;

static void on_second(int signal_number)
{
    char text[] = "\rlull-bound: solving, 000000 s ";
    int rest = (int)++seconds;
    ssize_t written;

    (void)signal_number;
    if (rest < 2)
        return;
    for (char *digit = strchr(text, 's') + 14; rest > 0 && *digit == '0'; digit--, rest /= 10)
        *digit = (char)('0' + rest % 10);
    written = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)written;
}

static void start_progress(void)
{
    const struct sigaction action = {.sa_handler = on_second, .sa_flags = SA_RESTART};
    const struct itimerval every = {{1, 0}, {1, 0}};

    if (!isatty(STDERR_FILENO) || sigaction(SIGALRM, &action, NULL) < 0)
        return;
    setitimer(ITIMER_REAL, &every, NULL);
}

static void stop_progress(void)
{
    const struct itimerval never = {0};

    setitimer(ITIMER_REAL, &never, NULL);
    if (seconds >= 2)
        fputs("\r\033[K", stderr);
}

/* ---- the work ----------------------------------------------------------------------------- */

/* Finds a bound by prices alone, and keeps it if it is higher than the one that is there. */
static int solve_by_prices(struct lull_bound_run *run, struct lull_error *err)
{
    struct lull_lp_result found;
    const int result = lull_solve_prices(&run->file.problem, LULL_PRICES_FINE_RATIO,
                                         run->options->time_limit_s, &found, err);

    if (result < 0)
        return result;
    if (run->lp.gpu_j != NULL && found.bound_j <= run->lp.bound_j) {
        lull_lp_result_fini(&found);
        return 0;
    }
    lull_lp_result_fini(&run->lp);
    run->lp = found;
    run->is_by_prices = true;
    return 0;
}

static int solve(struct lull_bound_run *run, struct lull_error *err)
{
    struct lull_ilp_options integer = {.time_limit_s = run->options->time_limit_s};
    int result;

    if (run->options->is_by_prices)
        return solve_by_prices(run, err);
    result = lull_time_indexed_create(&run->file.problem, &run->program, err);
    if (result == -E2BIG && !run->options->is_integer)
        return solve_by_prices(run, err);
    if (result < 0)
        return result;
    result = lull_solve_lp(&run->program, run->options->time_limit_s, &run->lp, err);
    if (result < 0 || run->lp.is_infeasible)
        return result;
    if (!run->lp.is_optimal)
        result = solve_by_prices(run, err);
    if (result < 0 || !run->options->is_integer)
        return result;
    integer.gap_j = run->options->gap_ratio * fabs(run->lp.bound_j);
    return lull_solve_ilp(&run->program, &integer, &run->ilp, err);
}

static int work(struct lull_bound_run *run, struct lull_error *err)
{
    int result = lull_slot_file_read(run->options->path, &run->file, err);

    if (result < 0)
        return result;
    start_progress();
    result = solve(run, err);
    stop_progress();
    if (result < 0)
        return result;
    result = lull_bound_write(run, err);
    if (result < 0)
        return result;
    return lull_bound_print(run, err);
}

int main(int argc, char **argv)
{
    struct lull_bound_options options;
    struct lull_bound_run run = {.options = &options};
    struct lull_error err = {0};
    int result;

    lull_bound_options_parse(argc, argv, &options);
    result = work(&run, &err);
    lull_ilp_result_fini(&run.ilp);
    lull_lp_result_fini(&run.lp);
    lull_time_indexed_fini(&run.program);
    lull_slot_file_fini(&run.file);
    if (result == 0 && fflush(stdout) == 0)
        return LULL_EXIT_OK;
    fprintf(stderr, "lull-bound: %s\n", result < 0 ? err.text : "the result could not be written");
    return result < 0 ? (int)lull_error_exit_status(result) : LULL_EXIT_FAILED;
}
