/* lull attach: lowers the clocks of GPUs on which a server runs already. SPDX-License-Identifier:
 * Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/managed_run.h"
#include "cli/serving_options.h"
#include "cli/shared/command.h"

/* Descriptors of a run on 4 emulated GPUs, and some more. */
enum { MIN_DESCRIPTORS = 64 };

/* Longest idle time before a GPU is parked that can be requested. */
static const double most_park_after_s = 3600.0;

struct attach_arguments {
    struct lull_run_options run;
    struct lull_energy_price given; /* by no option: all is read from lull.conf */
    bool has_report;
    bool is_json;
    char report[LULL_RUN_REPORT_SIZE]; /* default path of the report */
};

static int parse_park_after(const char *text, void *place, struct lull_error *err)
{
    const char *unit;
    double value;
    double seconds;

    (void)err;
    if (lull_text_parse_prefix(text, &value, &unit) < 0)
        return -EINVAL;
    if (strcmp(unit, "ms") == 0)
        seconds = value * 1e-3;
    else if (strcmp(unit, "s") == 0)
        seconds = value;
    else
        return -EINVAL;
    if (!(seconds >= 0.0 && seconds <= most_park_after_s))
        return -EINVAL;
    *(int64_t *)place = (int64_t)(seconds * 1e9);
    return 0;
}

static const struct lull_option rows[] = {
    LULL_VALUE("gpus", "LIST", TEXT, struct attach_arguments, run.gpus,
               "The GPUs to manage, by their numbers among the visible ones, such as 0-3 or 0,2.",
               .otherwise = "all of them",
               .more = "With --slo give the GPUs of one server: they all get the same clock."),
    LULL_CLI_SLO_ROW(struct attach_arguments, run.serving,
                     .otherwise = "GPUs are only parked while nothing runs on them"),
    LULL_CLI_METRICS_ROW(struct attach_arguments, run.serving.metrics),
    LULL_CLI_METRIC_NAMES_ROW(struct attach_arguments, run.serving.metric_names,
                              .needs = "metrics"),
    LULL_VALUE("wake-ms", "MS", TIME, struct attach_arguments, run.serving.wake_ns,
               "What the first work after an idle time may pay for the low clock.", .least = 0,
               .most = 10000, .default_value = "50",
               .more = "Idle GPUs get the lowest clock that keeps this bound: work is detected "
                       "within 0.12 s, and the clock is raised one driver call later."),
    LULL_VALUE("park-after", "TIME", OWN, struct attach_arguments, run.serving.park_after_ns,
               "Idle time after which a GPU is parked.", .parse = parse_park_after,
               .expected = "a time from 0 to 3600 s with its unit, such as 500ms or 2s",
               .default_value = "500ms"),
    LULL_VALUE("duration", "S", TIME, struct attach_arguments, run.duration_ns,
               "End after this time.", .least = 0.001, .most = 1e9,
               .otherwise = "with Ctrl-C, or 30 s after the server's processes have ended"),
    LULL_VALUE("report", "DIR", TEXT, struct attach_arguments, run.report,
               "Write report.json, report.html and trace.json into this directory.", .letter = 'o',
               .hint = LULL_OPTION_FOLDER, LULL_GIVEN(struct attach_arguments, has_report),
               .otherwise = "a new folder in lull-report, named by the time"),
    LULL_FLAG("json", struct attach_arguments, is_json,
              "At the end, print report.json, and only that, on standard output.", .letter = 'j'),
    LULL_QUIET_ROW(struct attach_arguments, run.quiet),
    LULL_CLI_NO_DAEMON_ROW(struct attach_arguments, run.no_daemon),
    LULL_CLI_RUNTIME_DIR_ROW(struct attach_arguments, run.runtime_dir),
    {0},
};

static void attach_prepare(void *options)
{
    static char *command[] = {"lull attach", NULL};
    struct attach_arguments *const arguments = options;

    lull_controller_config_default(&arguments->run.control);
    lull_limits_options_default(&arguments->run.limits);
    arguments->run.command = command;
    arguments->run.is_attached = true;
    arguments->run.serving.is_wanted = true;
    arguments->run.progress = LULL_RUN_PROGRESS_NONE;
}

static int attach_run(void *options, const struct lull_operands *operands)
{
    struct attach_arguments *const arguments = options;
    struct lull_error err = {0};
    struct lull_managed_run_terms terms;
    int status = 0;
    int rc;

    (void)operands;
    if (!lull_process_has_descriptors(MIN_DESCRIPTORS)) {
        lull_error_set(&err, -EMFILE,
                       "fewer than %d files can be opened; raise the limit with ulimit -n",
                       MIN_DESCRIPTORS);
        return lull_cli_fail("attach", &err);
    }
    terms = (struct lull_managed_run_terms){
        .price = arguments->given,
        .report = arguments->has_report ? NULL : arguments->report,
        .is_json = arguments->is_json,
    };
    rc = lull_managed_run(&arguments->run, &terms, &status, &err);
    if (rc == 0)
        return LULL_EXIT_OK;
    if (!arguments->has_report)
        rmdir(arguments->report); /* no report was written */
    return lull_cli_fail("attach", &err);
}

const struct lull_program_command lull_attach_command = {
    .name = "attach",
    .summary = "lower the clocks of GPUs on which a server runs already",
    .about =
        "Manages GPUs on which an inference server, or any program, runs already, until Ctrl-C, "
        "the server's end or --duration. Without --slo, GPUs on which nothing runs get a low clock "
        "(they are parked), and the highest one with the first work. With --slo and --metrics all "
        "GPUs of the server get a clock by its load: the least energy such that its requests meet "
        "the objective as often as at the highest clock.",
    .after = "Examples:\n"
             "  lull attach\n"
             "  lull attach --gpus 0-3 --slo ttft=500ms,tpot=50ms@p99 --metrics "
             "http://localhost:8000/metrics",
    .tables = {{rows, 0}},
    .size = sizeof(struct attach_arguments),
    .prepare = attach_prepare,
    .run = attach_run,
};
