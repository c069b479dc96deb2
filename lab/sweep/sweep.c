/* lull sweep: measures kernels over operating points, and processes the measurements.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/json_string.h"
#include "lab/commands.h"
#include "cli/shared/command.h"
#include "lab/sweep/files.h"
#include "lab/sweep/run.h"
#include "lab/trace/sweep_table.h"

struct sweep_arguments {
    struct lull_sweep_requests requests;
    const char *grid;
    const char *output;
    double window_s;
    double window_max_s;
    double interval_ratio;
    uint32_t launches;
    uint32_t refreshes;
    bool is_suite;
    bool is_merge;
    bool is_validate;
    bool is_plot;
    bool is_json;
};

#define OBJECT struct sweep_arguments

static const struct lull_option rows[] = {
    LULL_VALUE("grid", "AXES", TEXT, OBJECT, grid,
               "The grid of operating points: sm=N spreads N SM clocks evenly, sm=all takes each, "
               "sm=1410/1200/900 those, sm=auto five and then those around each kernel's optimum; "
               "limit=N or limit=400/300 adds power limits below the one that is set.",
               .default_value = "sm=5",
               .more = "Axes are separated by commas. The highest SM clock is "
                       "always among them. mem stands for the memory clock, which "
                       "Lull does not set: mem=all is the one in force."),
    LULL_VALUE("gpu", "N", WHOLE, OBJECT, requests.gpu,
               "Measure this GPU, as `lull gpus` numbers it.", .letter = 'g',
               .most = LULL_DEVICE_MAX_GPUS - 1, .default_value = "0"),
    LULL_VALUE("output", "FILE", TEXT, OBJECT, output,
               "Write the rows into this file, and a description of the sweep into FILE.json.",
               .hint = LULL_OPTION_FILE,
               .more = "The short form is -o. With --plot it is the directory."),
    LULL_FLAG(
        "resume", OBJECT, requests.is_resuming,
        "Continue the sweep in FILE. At most the row that was being written is measured again."),
    LULL_FLAG("suite", OBJECT, is_suite,
              "Measure the built-in kernels instead of a command; a FILE describes others."),
    LULL_VALUE("repeats", "N", WHOLE, OBJECT, requests.repeats,
               "Number of measurements of each point.", .least = 1, .most = LULL_SWEEP_REPEATS,
               .default_value = "3", .more = "If they differ by more than 3 %, one more is made."),
    LULL_SEED_ROW(OBJECT, requests.seed, "Seed of the order of measurement."),
    LULL_VALUE("window", "S", NUMBER, OBJECT, window_s, "Minimum time to measure a point.",
               .least = 0.01, .most = 1e5, .default_value = "2"),
    LULL_VALUE(
        "window-most", "S", NUMBER, OBJECT, window_max_s,
        "Maximum time to measure a point that scatters. Runs of a command are always complete.",
        .least = 0.01, .most = 1e5, .default_value = "12"),
    LULL_VALUE("interval", "RATIO", RATIO, OBJECT, interval_ratio,
               "A point is measured well enough when the 95 % intervals of its time and power are "
               "within this of the mean, to either side.",
               .default_value = "0.5%"),
    LULL_VALUE("launches", "N", WHOLE, OBJECT, launches,
               "Launches that a point needs, at least; a row with fewer is marked.", .least = 1,
               .most = 1000000, .otherwise = "20; 1 of a command"),
    LULL_VALUE("refreshes", "N", WHOLE, OBJECT, refreshes,
               "Refreshes of the energy counter that a point needs, at least; a row with fewer is "
               "marked.",
               .least = 1, .most = 1000000, .default_value = "20"),
    LULL_VALUE("idle", "S", NUMBER, OBJECT, requests.protocol.idle_s,
               "Time to measure the idle GPU at the start.", .least = 0.1, .most = 1e5,
               .default_value = "10"),
    LULL_VALUE("soak", "S", NUMBER, OBJECT, requests.protocol.soak_s,
               "Time to run a kernel at its point before it is measured: temperature, and with it "
               "leakage, follows power in about twenty seconds.",
               .most = 1e5, .default_value = "5", .more = "Commands are measured at once."),
    LULL_VALUE("warm-up", "S", NUMBER, OBJECT, requests.protocol.warm_max_s,
               "Warm the GPU up until its temperature has stayed within 1 degree for 30 s, for at "
               "most this long; 0: do not warm up.",
               .most = 1e5, .default_value = "300"),
    LULL_FLAG("merge", OBJECT, is_merge, "Join the datasets IN... into OUT."),
    LULL_FLAG(
        "validate", OBJECT, is_validate,
        "Check a dataset: its columns, its sidecar, and the plausibility of its times and powers."),
    LULL_FLAG("plot", OBJECT, is_plot,
              "Draw a dataset into a directory (-o): the energy of each kernel over the clock, and "
              "each kernel's dependence on the clock."),
    LULL_JSON_ROW(OBJECT, is_json),
    LULL_QUIET_ROW(OBJECT, requests.is_quiet),
    LULL_CLI_NO_DAEMON_ROW(OBJECT, requests.no_daemon),
    LULL_CLI_RUNTIME_DIR_ROW(OBJECT, requests.runtime_dir),
    {0},
};

/* ---- options ------------------------------------------------------------------------------- */

static void sweep_command_prepare(void *options)
{
    struct sweep_arguments *const arguments = options;

    arguments->requests.axes = lull_sweep_axes_default;
    arguments->requests.protocol.warm_s = 30.0;
}

/* At most one of three flags selects an operation on files. */
static int check_files(const struct sweep_arguments *arguments,
                       const struct lull_operands *operands, struct lull_error *err)
{
    if (arguments->is_merge + arguments->is_validate + arguments->is_plot > 1 ||
        arguments->is_suite || operands->command != NULL)
        return lull_error_set(err, -EINVAL, "--merge, --validate and --plot take no command");
    if (arguments->is_merge && operands->count < 2)
        return lull_error_set(err, -EINVAL, "--merge needs OUT and at least one IN");
    if (!arguments->is_merge && operands->count != 1)
        return lull_error_set(err, -EINVAL, "give one dataset");
    if (arguments->is_plot && arguments->output == NULL)
        return lull_error_set(err, -EINVAL, "--plot needs a directory: --output DIR");
    return 0;
}

static int check_sweep(struct sweep_arguments *arguments, const struct lull_operands *operands,
                       struct lull_error *err)
{
    if (arguments->is_suite == (operands->command != NULL))
        return lull_error_set(
            err, -EINVAL,
            "give a command, as in: lull sweep --output FILE.csv -- ./bench, or --suite");
    if (operands->count > (arguments->is_suite ? 1 : 0))
        return lull_error_set(err, -EINVAL, "%s: nothing is known to do with it",
                              operands->words[arguments->is_suite ? 1 : 0]);
    if (arguments->output == NULL)
        return lull_error_set(err, -EINVAL, "missing --output FILE.csv");
    if (arguments->window_max_s < arguments->window_s)
        return lull_error_set(err, -EINVAL, "--window-most is less than --window");
    if (arguments->grid == NULL)
        return 0;
    return lull_sweep_axes_parse(arguments->grid, &arguments->requests.axes, err);
}

static int sweep_command_check(void *options, const struct lull_operands *operands,
                               struct lull_error *err)
{
    struct sweep_arguments *const arguments = options;

    if (arguments->is_merge || arguments->is_validate || arguments->is_plot)
        return check_files(arguments, operands, err);
    return check_sweep(arguments, operands, err);
}

/* ---- a sweep ------------------------------------------------------------------------------- */

static json_t *outcome_json(const struct sweep_arguments *arguments,
                            const struct lull_sweep_outcome *outcome)
{
    json_t *const marks = json_object();

    for (uint32_t i = 0; i < LULL_SWEEP_MARKS; i++)
        json_object_set_new(marks, lull_sweep_mark_name(i), json_integer(outcome->marks[i]));
    return json_pack("{s:o, s:I, s:I, s:o, s:i}", "file", lull_json_string(arguments->output),
                     "rows", (json_int_t)outcome->rows, "marked_rows", (json_int_t)outcome->marked,
                     "marks", marks, "left_out_kernels", (int)outcome->left_out);
}

static void sweep_command_print_outcome(const struct sweep_arguments *arguments,
                                        const struct lull_sweep_outcome *outcome)
{
    printf("%s: %" PRIu64 " rows", arguments->output, outcome->rows);
    if (outcome->marked > 0)
        printf(", %" PRIu64 " of them marked as not valid:", outcome->marked);
    for (uint32_t i = 0; i < LULL_SWEEP_MARKS; i++)
        if (outcome->marks[i] > 0)
            printf(" %s %u", lull_sweep_mark_name(i), outcome->marks[i]);
    printf("\n");
}

/* Marks caused by a window that is too short for this GPU, and the remedy. */
static void sweep_command_advise(const struct lull_sweep_outcome *outcome)
{
    if (outcome->marks[0] > 0)
        fprintf(stderr, "lull sweep: requested clocks were not in force; see the columns "
                        "sm_set_mhz and sm_mhz\n");
    if (outcome->marks[3] > 0)
        fprintf(stderr, "lull sweep: windows were too short for their launches or for the energy "
                        "counter; try a longer --window-most\n");
}

static void sweep_command_complete(struct sweep_arguments *arguments,
                                   const struct lull_operands *operands)
{
    struct lull_sweep_requests *const requests = &arguments->requests;
    const bool is_command = operands->command != NULL;

    requests->path = arguments->output;
    requests->command = operands->command;
    requests->suite_file = arguments->is_suite && operands->count > 0 ? operands->words[0] : NULL;
    if (arguments->launches == 0)
        arguments->launches = is_command ? 1 : 20;
    requests->protocol.rules = (struct lull_sweep_rules){
        .min_s = arguments->window_s,
        .max_s = arguments->window_max_s,
        .min_launches = arguments->launches,
        .min_refreshes = arguments->refreshes,
        .interval_ratio = arguments->interval_ratio,
        .noise_ratio = 0.02,
        .counter_ratio = is_command ? 0.15 : 0.05,
        .clock_ratio = 0.03,
    };
}

static int run_sweep(struct sweep_arguments *arguments, const struct lull_operands *operands)
{
    struct lull_sweep_outcome outcome;
    struct lull_stop_signals stop;
    struct lull_error err = {0};
    int result;

    sweep_command_complete(arguments, operands);
    lull_stop_signals_begin(&stop);
    result = lull_sweep(&arguments->requests, &stop, &outcome, &err);
    if (result == 0 && arguments->is_json)
        lull_cli_print_json(outcome_json(arguments, &outcome), 0);
    else if (result == 0)
        sweep_command_print_outcome(arguments, &outcome);
    if (result == 0)
        sweep_command_advise(&outcome);
    else
        lull_cli_fail("sweep", &err);
    if (result < 0 && outcome.rows > 0)
        fprintf(stderr, "lull sweep: %s has %" PRIu64 " rows; continue with --resume\n",
                arguments->output, outcome.rows);
    if (stop.stopped_by != 0)
        return 128 + stop.stopped_by;
    return result < 0 ? (int)lull_error_exit_status(result) : LULL_EXIT_OK;
}

static int sweep_command_run(void *options, const struct lull_operands *operands)
{
    struct sweep_arguments *const arguments = options;
    struct lull_error err = {0};
    uint64_t count = 0;
    int result;

    if (arguments->is_merge) {
        result = lull_sweep_merge(operands->words[0], operands->words + 1, operands->count - 1,
                                  &count, &err);
        if (result == 0)
            printf("%s: %" PRIu64 " rows\n", operands->words[0], count);
    } else if (arguments->is_validate) {
        result = lull_sweep_validate(operands->words[0], arguments->is_json, &err);
        if (result == 1)
            return LULL_EXIT_FAILED;
    } else if (arguments->is_plot) {
        result = lull_sweep_plot(operands->words[0], arguments->output, &err);
    } else {
        return run_sweep(arguments, operands);
    }
    return result < 0 ? lull_cli_fail("sweep", &err) : LULL_EXIT_OK;
}

const struct lull_program_command lull_sweep_command = {
    .name = "sweep",
    .summary = "measure time, power and energy over clocks and power limits",
    .arguments = "--output FILE -- COMMAND [ARG...]",
    .about = "Measures how long COMMAND takes and what the GPU draws meanwhile, at each operating "
             "point of a grid, and writes a row for each point and repeat. With --suite it "
             "measures the built-in kernels instead. Rows with a problem (a clock that was not in "
             "force, heat, a power limit, a failed counter) are marked. The GPU must be free; its "
             "clocks are always restored. --merge, --validate and --plot work on datasets.",
    .after = "Examples:\n"
             "  lull sweep --output bench.csv -- ./bench\n"
             "  lull sweep --suite --grid sm=auto,limit=3 --gpu 1 --output suite.csv\n"
             "  lull sweep --suite --grid sm=auto,limit=3 --gpu 1 --output suite.csv --resume\n"
             "  lull sweep --validate suite.csv\n"
             "  lull sweep --plot suite.csv --output pictures\n"
             "  lull sweep --merge all.csv suite.csv bench.csv",
    .tables = {{rows, 0}},
    .operands = {.most = 1024, .takes_command = true},
    .size = sizeof(struct sweep_arguments),
    .prepare = sweep_command_prepare,
    .check = sweep_command_check,
    .run = sweep_command_run,
};
