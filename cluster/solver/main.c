/*
 * lull-bound computes a lower bound on the cost of any schedule of jobs on a cluster, with all jobs
 * known in advance. It is a separate program because CLP and CBC (EPL) must not be in one process
 * with GPL libraries, which other programs of Lull link. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/program.h"
#include "base/progress.h"
#include "cluster/solver/report.h"

/* ---- progress, on a terminal -------------------------------------------------------------- */

static volatile sig_atomic_t seconds;

/* Writes how long it has been solving. It is a signal handler, which may not use stdio, so that it
 * puts the digits into the text itself. */
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
        lull_progress_draw("%s", "");
}

/* ---- the work ----------------------------------------------------------------------------- */

/* Finds a bound by prices alone, and keeps it if it is higher than the current one. */
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

static int bound_solve(struct lull_bound_run *run, struct lull_error *err)
{
    struct lull_ilp_options integer = {.time_limit_s = run->options->time_limit_s};
    int result;

    if (run->options->is_by_prices)
        return solve_by_prices(run, err);
    result = lull_time_indexed_create(&run->file.problem, &run->program, err);
    /* A program that is too large is bounded by prices instead, unless a schedule was requested. */
    if (result == -E2BIG && !run->options->is_integer)
        return solve_by_prices(run, err);
    if (result < 0)
        return result;
    if (!run->options->is_integer && lull_time_indexed_is_slow(&run->program))
        return solve_by_prices(run, err);
    result = lull_solve_lp(&run->program, run->options->time_limit_s, &run->lp, err);
    if (result < 0 || run->lp.is_infeasible)
        return result;
    /* Prices may prove more than a solver that was stopped early. */
    if (!run->lp.is_optimal)
        result = solve_by_prices(run, err);
    if (result < 0 || !run->options->is_integer)
        return result;
    integer.gap_j = run->options->gap_ratio * fabs(run->lp.bound_j);
    return lull_solve_ilp(&run->program, &integer, &run->ilp, err);
}

static int bound_run_file(const char *path, struct lull_bound_run *run, struct lull_error *err)
{
    int result = lull_slot_file_read(path, &run->file, err);

    if (result < 0)
        return result;
    start_progress();
    result = bound_solve(run, err);
    stop_progress();
    if (result < 0)
        return result;
    result = lull_bound_write(run, err);
    if (result < 0)
        return result;
    return lull_bound_print(run, err);
}

/* ---- the command line --------------------------------------------------------------------- */

static const struct lull_option rows[] = {
    LULL_FLAG("ilp", struct lull_bound_options, is_integer,
              "Look for a whole schedule too, by the integer program.",
              .more = "It is checked, and its cost is recomputed. The integer solver's own bound "
                      "is printed as well, lowered by 1e-6 of its size. It is higher than the "
                      "proven bound, but depends on the solver."),
    LULL_VALUE("gap", "RATIO", RATIO, struct lull_bound_options, gap_ratio,
               "Be content with a schedule that costs at most this much more than the best.",
               .default_value = "0%", .needs = "ilp"),
    LULL_FLAG("fast", struct lull_bound_options, is_by_prices,
              "Do not solve the linear program; report the best bound that a price ascent proves.",
              .excludes = "ilp",
              .more = "Prices are raised where slots are too full and lowered where they are not. "
                      "This is also the fallback if the program is too large (1.5 million columns) "
                      "or the time limit stops the solver."),
    LULL_VALUE("time-limit", "S", NUMBER, struct lull_bound_options, time_limit_s,
               "Stop each solver after this many seconds of processor time.", .is_open = true,
               .default_value = "600"),
    LULL_VALUE("prices", "FILE", TEXT, struct lull_bound_options, prices_out,
               "Write the price of a GPU of each type in each slot, in J, as CSV.",
               .hint = LULL_OPTION_FILE,
               .more = "Columns: slot, one for each type, and with a power cap cap_w, of a watt."),
    LULL_VALUE("schedule", "FILE", TEXT, struct lull_bound_options, schedule_out,
               "Write the schedule (CSV).", .hint = LULL_OPTION_FILE, .needs = "ilp",
               .more = "Columns: job, type, gpus, start, slots, mode. Modes are numbered from 0, "
                       "without dropped ones. Excluded jobs are not listed."),
    LULL_JSON_ROW(struct lull_bound_options, is_json),
    {0},
};

static int bound_run(void *options, const struct lull_operands *operands)
{
    struct lull_bound_run run = {.options = options};
    struct lull_error err = {0};
    const int result = bound_run_file(operands->words[0], &run, &err);

    lull_ilp_result_fini(&run.ilp);
    lull_lp_result_fini(&run.lp);
    lull_time_indexed_fini(&run.program);
    lull_slot_file_fini(&run.file);
    return result < 0 ? lull_program_fail("lull-bound", &err) : LULL_EXIT_OK;
}

int main(int argc, char **argv)
{
    static const struct lull_program_command command = {
        .name = "lull-bound",
        .summary = "compute a lower bound on the cost of any schedule",
        .arguments = "INSTANCE",
        .about = "Computes a lower bound on the cost of any schedule of jobs on a cluster, with "
                 "full knowledge of the jobs. It solves the time-indexed linear program, whose "
                 "bound is verified from its prices, and the integer program. INSTANCE is a file "
                 "of JSON lines, plain or gzip (see lull-bound(1)); - is standard input.",
        .tables = {{rows, 0}},
        .operands = {.least = 1,
                     .most = 1,
                     .missing = "missing instance file, or - for standard input"},
        .size = sizeof(struct lull_bound_options),
        .run = bound_run,
    };
    static const struct lull_program_command *const commands[] = {&command, NULL};
    static const struct lull_program program = {
        .name = "lull-bound", .version = LULL_VERSION, .commands = commands};

    return lull_program_main(&program, argc, argv);
}
