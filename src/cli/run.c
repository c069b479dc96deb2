/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "base/process.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/managed_run.h"
#include "cli/serving_options.h"
#include "cli/shared/command.h"
#include "cli/report/page.h"
#include "core/section/agreement.h"
#include "core/stats/random.h"
#include "governor/plan/plan_runner.h"
#include "governor/run/run.h"
#include "governor/run/run_comparison.h"
#include "governor/serving/metrics_address.h"

/* The words of --exposure, by their index. */
enum exposure { EXPOSURE_YES, EXPOSURE_NO };

struct run_arguments {
    struct lull_run_options run;
    const char *plans[LULL_PLAN_RUNNER_MAX_PLANS];
    enum exposure exposure;
    bool has_choice;
    bool has_eta;
    bool has_report;
    struct lull_energy_price given;          /* by options */
    char report[LULL_RUN_REPORT_SIZE];       /* default path of the report */
    char secret[LULL_JOB_SECRET_DIGITS + 2]; /* with room to see that it is too long */
    char metrics[LULL_METRICS_URL_BYTES];    /* address guessed from the command */
    bool is_json;
};

/* ---- values -------------------------------------------------------------------------------- */

static int parse_node(const char *text, void *nodes, struct lull_error *err)
{
    (void)err;
    return lull_nodes_parse(text, nodes);
}

static int parse_plan(const char *text, void *place, struct lull_error *err)
{
    struct run_arguments *const arguments = place;

    if (arguments->run.plan_count == LULL_PLAN_RUNNER_MAX_PLANS)
        return lull_error_set(err, -EINVAL, "give %d plans at most", LULL_PLAN_RUNNER_MAX_PLANS);
    arguments->plans[arguments->run.plan_count++] = text;
    return 0;
}

static int parse_power_limit(const char *text, void *place, struct lull_error *err)
{
    struct lull_limits_options *const limits = place;

    (void)err;
    limits->is_wanted = true;
    limits->fixed_w = 0.0; /* of the variable, or of an option before */
    if (strcmp(text, "auto") == 0)
        return 0;
    if (lull_text_parse_number(text, &limits->fixed_w) < 0 || !(limits->fixed_w > 0.0))
        return -EINVAL;
    return 0;
}

/* Parses "search" or "sweep", with or without a number of clocks behind it (":9"). */
static int parse_profiling(const char *text, void *place, struct lull_error *err)
{
    struct lull_online_options *const online = place;
    const size_t length = strcspn(text, ":");
    const bool is_search = strncmp(text, "search", length) == 0 && length == strlen("search");
    int64_t clocks = LULL_ONLINE_MAX_CLOCKS;

    (void)err;
    if (!is_search && (strncmp(text, "sweep", length) != 0 || length != strlen("sweep")))
        return -EINVAL;
    if (text[length] == ':' &&
        lull_text_parse_int(text + length + 1, 2, LULL_ONLINE_MAX_CLOCKS, &clocks) < 0)
        return -EINVAL;
    online->method = is_search ? LULL_PROFILING_SEARCH : LULL_PROFILING_SWEEP;
    online->clocks = (uint32_t)clocks;
    return 0;
}

static int parse_price(const char *text, void *place, struct lull_error *err)
{
    struct run_arguments *const arguments = place;

    if (lull_energy_price_parse_money(text, &arguments->given) == 0)
        return 0;
    return lull_error_set(err, -EINVAL, "--price-per-kwh needs " LULL_ENERGY_PRICE_EXPECTED);
}

static int parse_co2(const char *text, void *place, struct lull_error *err)
{
    struct run_arguments *const arguments = place;

    if (lull_energy_price_parse_co2(text, &arguments->given) == 0)
        return 0;
    return lull_error_set(err, -EINVAL,
                          "--co2-g-per-kwh needs grams per kilowatt hour, such as 380");
}

/* Parses a time with a unit, such as 5min; 0 needs none. */
static int parse_hang_after(const char *text, void *place, struct lull_error *err)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"s", 1.0}, {"min", 60.0}, {"h", 3600.0}};
    struct run_arguments *const arguments = place;
    const size_t length = strspn(text, "0123456789.");
    char number[32];
    double value;

    (void)err;
    if (length == 0 || length >= sizeof(number))
        return -EINVAL;
    snprintf(number, sizeof(number), "%.*s", (int)length, text);
    if (lull_text_parse_number(number, &value) < 0)
        return -EINVAL;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(text + length, units[i].unit) == 0) {
            arguments->run.hang_after_s = value * units[i].seconds;
            return arguments->run.hang_after_s <= 1e6 ? 0 : -EINVAL;
        }
    arguments->run.hang_after_s = 0.0;
    return text[length] == '\0' && value == 0.0 ? 0 : -EINVAL;
}

/* ---- options ------------------------------------------------------------------------------- */

static const char *const yes_or_no[] = {[EXPOSURE_YES] = "yes", [EXPOSURE_NO] = "no", NULL};
static const char *const progress_words[] = {[LULL_RUN_PROGRESS_AUTO] = "auto",
                                             [LULL_RUN_PROGRESS_NONE] = "none",
                                             [LULL_RUN_PROGRESS_LINE] = "line",
                                             [LULL_RUN_PROGRESS_LOG] = "log",
                                             NULL};
static const char *const descents[] = {[LULL_DESCENT_STEP] = "step",
                                       [LULL_DESCENT_BISECT] = "bisect",
                                       [LULL_DESCENT_GALLOP] = "gallop",
                                       NULL};
static const char *const power_limits[] = {"auto", NULL};
static const char *const profilings[] = {"search", "sweep", NULL};

static const struct lull_option rows[] = {
    LULL_CLI_TOLERANCE_ROW(struct run_arguments, run.control.tolerance_ratio, .is_open = true,
                           .environment = "LULL_TOLERANCE",
                           .more = "With --power-limit auto, the limit with the lowest energy "
                                   "within this slowdown is chosen."),
    LULL_FLAG(
        "compare", struct run_arguments, run.compare,
        "Run the command twice, first without Lull, and report the difference.", .letter = 'c',
        .more =
            "One run of each kind gives no run-to-run bound: see --compare-pairs and COMPARISONS."),
    LULL_VALUE("compare-pairs", "N", WHOLE, struct run_arguments, run.compare_pairs,
               "Number of runs of each kind made by --compare.", .least = 1,
               .most = LULL_RUN_COMPARISON_MAX_PAIRS, .default_value = "1", .needs = "compare",
               .more = "With 2 or more, slowdown and saving have run-to-run bounds. Use 3 or more: "
                       "the bounds of 2 are very wide."),
    LULL_VALUE("swing", "RATIO", RATIO, struct run_arguments, run.control.swing_ratio,
               "How much more than without Lull the power of the job's GPUs may fluctuate before "
               "fewer gaps and sections are lowered.",
               .is_slowdown = true, .default_value = "5%",
               .more = "The report has the peak-to-peak power and the share above 0.1 Hz, with and "
                       "without Lull. See SWINGS."),
    LULL_VALUE("swing-bound", "RATIO", RATIO, struct run_arguments, run.swing_bound_ratio,
               "Keep the power swings of the job's GPUs (0.5 to 5 Hz, what readings show) below "
               "this share of their mean power, by the driver's power smoothing.",
               .excludes = "plan|schedule|together|power-limit|slo", .otherwise = "not bounded",
               .more = "Adds at most 5 % of energy. Where that does not suffice, or smoothing is "
                       "missing or not permitted, Lull says so. See SWINGS."),
    LULL_VALUE("report", "DIR", TEXT, struct run_arguments, run.report,
               "Write report.json and trace.json into this directory.", .letter = 'o',
               .hint = LULL_OPTION_FOLDER, LULL_GIVEN(struct run_arguments, has_report),
               .otherwise = "a new folder in lull-report, named by the time",
               .more =
                   "Also writes report.html, see lull-report(1). trace.json is a timeline for "
                   "ui.perfetto.dev or chrome://tracing. An existing report in DIR is replaced."),
    LULL_VALUE("scalars", "DIR", TEXT, struct run_arguments, run.scalars,
               "Write numbers of the run to this directory once a second: an event file for "
               "TensorBoard, and scalars.jsonl with a line of JSON per second.",
               .hint = LULL_OPTION_FOLDER, .otherwise = "none are written",
               .more = "New rows are appended to existing files. With --compare each run has its "
                       "own subdirectory. See SCALARS."),
    LULL_OWN("price-per-kwh", "PRICE", parse_price,
             "Price of a kilowatt hour, such as 0.30EUR, for the run's cost in the report.",
             .otherwise = "the value in lull.conf(5); otherwise cost is not computed"),
    LULL_OWN("co2-g-per-kwh", "G", parse_co2,
             "Grams of carbon dioxide per kilowatt hour, such as 380.",
             .otherwise = "the value in lull.conf(5); otherwise not computed"),
    LULL_FLAG("json", struct run_arguments, is_json,
              "At the end, print report.json, and only that, on standard output.", .letter = 'j',
              .more = "The command's standard output is then redirected to standard error."),
    LULL_QUIET_ROW(struct run_arguments, run.quiet),
    LULL_VALUE("progress", NULL, WORD, struct run_arguments, run.progress,
               "Where to show progress: none, line (the terminal's title), or log (lines on "
               "standard error).",
               .words = progress_words, .default_value = "auto",
               .more = "auto: line on a terminal that shows a title, log if standard error is not "
                       "a terminal. See PROGRESS."),
    LULL_OWN("hang-after", "TIME", parse_hang_after,
             "Report that the job hangs if ranks have been in a collective for this long, while no "
             "rank completed any communication. 0: never.",
             .default_value = "5min", .expected = "a time such as 30s, 5min or 1h, or 0",
             .more = "The report names the rank that is missing; the job is not stopped. Set it "
                     "above the longest checkpoint or evaluation. See HANGS."),
    LULL_FLAG(
        "verbose", struct run_arguments, run.verbose,
        "At the end, also print the tables of the report: energy, sections, levers, steps of the "
        "clock searches.",
        .letter = 'v', .excludes = "quiet"),
    LULL_CLI_NO_DAEMON_ROW(struct run_arguments, run.no_daemon),
    LULL_CLI_RUNTIME_DIR_ROW(struct run_arguments, run.runtime_dir),

    LULL_GROUP("Clock search"),
    LULL_VALUE("confidence", "RATIO", RATIO, struct run_arguments, run.control.confidence,
               "Confidence level over all clocks tried in a run that no clock slower than "
               "--tolerance passes the guard's proof.",
               .least = 0.5, .most = 0.999999, .is_open = true, .default_value = "95%"),
    LULL_VALUE(
        "seed", "N", WHOLE, struct run_arguments, run.control.seed,
        "Seed of the coins that order the iterations at lower clocks; on several nodes the same "
        "on each. The report has the seed of a run.",
        .least = 1, .most = (double)LULL_SEED_MAX, .otherwise = "another one in each run"),
    LULL_VALUE("tail-tolerance", "RATIO", RATIO, struct run_arguments,
               run.control.tail_tolerance_ratio,
               "How much longer the slowest of a hundred iterations may become, in addition to the "
               "average. For inference, where an iteration is a token.",
               .is_slowdown = true, .is_open = true, .otherwise = "only the average is tested",
               .more = "Each compared block then has at least 100 iterations."),
    LULL_VALUE("steady", "RATIO", RATIO, struct run_arguments, run.control.steady_tolerance_ratio,
               "Use one clock for the whole iteration, estimated to be at most this much slower, "
               "and do not switch clocks within it.",
               LULL_GIVEN(struct run_arguments, run.control.only_steady), .is_slowdown = true,
               .is_open = true,
               .more = "The guard tests --tolerance. Without this option Lull searches a steady "
                       "clock together with lower clocks of sections."),
    LULL_VALUE("exposure", NULL, WORD, struct run_arguments, exposure,
               "Record compute kernels for some iterations (CUPTI), so that all gaps between them "
               "can be lowered, not only those seen in the calls of NCCL.",
               .words = yes_or_no, .default_value = "yes", .is_bare_allowed = true,
               .more = "Not used if CUPTI is missing or in use by another profiler, or if no gaps "
                       "are lowered: with --steady, a power limit or a plan."),
    LULL_FLAG("markers", struct run_arguments, run.markers,
              "Mark begin and end of NCCL collectives on their streams, for collectives that "
              "NCCL's profiler plugin does not report.",
              .more = "A preloaded library adds memory writes before and after them."),
    LULL_VALUE(
        "descent", NULL, WORD, struct run_arguments, run.control.strategy,
        "Search method for the lowest clock: by bisection, clock by clock, or in growing steps.",
        .words = descents, .default_value = "bisect"),

    LULL_GROUP("A power limit instead of clocks"),
    LULL_VALUE("power-limit", "auto|W", OWN, struct run_arguments, run.limits,
               "Set this power limit on each GPU, or search for the best one.",
               .parse = parse_power_limit, .words = power_limits,
               .expected = "auto, or watts above 0", .excludes = "plan|schedule|together",
               .environment = "LULL_POWER_LIMIT",
               .more = "auto uses the limit stored for this command line, or else measures limits "
                       "while the command runs: see POWER LIMITS."),
    LULL_CLI_CHOOSE_ROW(
        struct run_arguments, run.limits.search.selector,
        "Goal of the limit search: " LULL_CLI_CHOICES ".",
        LULL_GIVEN(struct run_arguments, has_choice), .needs = "power-limit",
        .otherwise = "slowdown, by --tolerance",
        .more = "Default: the lowest energy within --tolerance. Goals that trade more time for "
                "energy, such as cost, must be requested. edp is the energy-delay product; "
                "slowdown=5% is the lowest energy at most 5 % slower than the highest limit."),
    LULL_CLI_ETA_ROW(struct run_arguments, run.limits.search.selector.price.eta_ratio,
                     LULL_GIVEN(struct run_arguments, has_eta), .default_value = "0.5",
                     .needs = "power-limit"),
    LULL_FLAG("clocks", struct run_arguments, run.limits.clocks,
              "Search SM clocks under the best limit as well.", .needs = "power-limit=auto",
              .more =
                  "A fixed clock uses less energy than a clock that oscillates at a power limit."),
    LULL_FLAG("profile-again", struct run_arguments, run.limits.afresh,
              "Measure even if measurements of this command line are stored.",
              .needs = "power-limit=auto"),
    LULL_VALUE("limit-step-w", "W", NUMBER, struct run_arguments, run.limits.step_w,
               "Distance between tried power limits.", .least = 1.0, .default_value = "25",
               .needs = "power-limit=auto"),
    LULL_VALUE("slice-s", "S", NUMBER, struct run_arguments, run.limits.search.slice_s,
               "Measuring time per limit.", .is_open = true, .default_value = "5",
               .needs = "power-limit=auto",
               .more = "Half of it is used on the way down, half on the way up. Limits near the "
                       "best are measured again within 100 s in total."),

    LULL_GROUP("An inference server under a latency objective"),
    LULL_CLI_SLO_ROW(struct run_arguments, run.serving,
                     .excludes = "plan|schedule|together|power-limit|compare|launcher-fd",
                     .otherwise = "iterations are managed"),
    LULL_CLI_METRICS_ROW(struct run_arguments, run.serving.metrics, .needs = "slo"),
    LULL_CLI_METRIC_NAMES_ROW(struct run_arguments, run.serving.metric_names, .needs = "metrics"),

    LULL_GROUP("Pipeline-parallel jobs"),
    LULL_OWN(
        "plan", "FILE", parse_plan,
        "Execute a plan written by `lull plan --output`. If given more than once, the plans are "
        "tried in order until one passes the guard.",
        .hint = LULL_OPTION_FILE, .excludes = "schedule",
        .more = "Ranks must stand in Megatron's and DeepSpeed's order (tensor, data, pipeline) and "
                "have RANK and WORLD_SIZE in their environment, as torchrun does: see PLANS."),
    LULL_VALUE("schedule", "NAME", TEXT, struct run_arguments, run.online.schedule,
               "Profile a pipeline with this schedule, such as 1f1b, while it runs, then plan its "
               "clocks and execute the plan.",
               .needs = "microbatches",
               .more = "The program must announce sections forward and backward. While profiling, "
                       "all GPUs stay at one clock for whole iterations. The profile is written to "
                       "profile.csv in the report's directory, in the format of `lull plan`."),
    LULL_VALUE("microbatches", "M", WHOLE, struct run_arguments, run.online.microbatches,
               "The number of micro-batches in an iteration of the pipeline.", .least = 1,
               .most = 4096, .needs = "schedule"),
    LULL_VALUE("stages", "N", WHOLE, struct run_arguments, run.online.stages,
               "The number of stages of the pipeline.", .least = 1, .most = 4096,
               .otherwise = "the number of GPUs", .needs = "schedule"),
    LULL_VALUE("profiling", "search|sweep[:N]", OWN, struct run_arguments, run.online,
               "Which clocks are profiled: some, then those around the least energy, or all, "
               "which takes three times as long; N: at most this many (48).",
               .parse = parse_profiling, .words = profilings,
               .expected = "search or sweep, or how many clocks as well: search:9 (2 to 48)",
               .default_value = "search", .needs = "schedule",
               .more = "Clocks are spread evenly from the highest to half of it."),
    LULL_VALUE("blocking-w", "W", NUMBER, struct run_arguments, run.online.blocking_w,
               "Power of a GPU while it waits for another stage.", .is_open = true,
               .default_value = "85", .needs = "schedule"),

    LULL_GROUP("For programs that start jobs"),
    LULL_VALUE("launcher-fd", "FD", WHOLE, struct run_arguments, run.launcher_fd,
               "Do not start COMMAND; the process at the other end of this socket starts it.",
               LULL_GIVEN(struct run_arguments, run.has_launcher), .least = 3, .most = 1048576,
               .excludes = "compare", .otherwise = "COMMAND is started here",
               .more = "COMMAND determines the required probes. See LAUNCHERS."),

    LULL_GROUP("Jobs on several nodes, with a `lull run` on each"),
    LULL_VALUE("together", "ENDPOINT", TEXT, struct run_arguments, run.peers.endpoint,
               "Agree with the other nodes on clocks: node 0 listens at ENDPOINT "
               "(tcp://HOST:PORT), the others connect to it.",
               .more = "HOST may be * at node 0. Needs --together-key: see NODES."),
    LULL_VALUE("together-key", "FILE", TEXT, struct run_arguments, run.peers.key_path,
               "Key shared by all nodes of the job; node 0 creates it if it is missing.",
               .hint = LULL_OPTION_FILE, .needs = "together",
               .more = "Its mode must be 0600; a key that others can read is rejected. Store it on "
                       "a shared file system, or copy it first. Alternatively, set "
                       "LULL_TOGETHER_KEY to the key itself, 64 hexadecimal digits, on all nodes; "
                       "the variable is hidden from the command."),
    LULL_VALUE("node", "I/N", OWN, struct run_arguments, run.peers.nodes,
               "Number of this node, from 0, and the number of nodes.", .parse = parse_node,
               .expected = "the node and their number, at most 64, such as 0/2",
               .otherwise = "set by the launcher", .needs = "together",
               .more = "Launchers that set it: Slurm (SLURM_NODEID, SLURM_STEP_NUM_NODES or "
                       "SLURM_NNODES), Open MPI (OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE), "
                       "PMI and PMIx (PMI_RANK, PMI_SIZE)."),
    LULL_VALUE("alone-after", "S", NUMBER, struct run_arguments, run.peers.patience_s,
               "Manage the node alone if the nodes have not agreed after this time.",
               .least = 0.001, .most = 1e6, .default_value = "60", .needs = "together",
               .more = "The time starts when this node has found its iteration. Nodes do not agree "
                       "while one sends nothing or sees a different iteration."),
    {0},
};

_Static_assert(LULL_AGREEMENT_MAX_NODES == 64 && LULL_ONLINE_MAX_CLOCKS == 48,
               "the help of --node and --profiling names these numbers");

static void run_command_prepare(void *options)
{
    struct run_arguments *const arguments = options;

    lull_controller_config_default(&arguments->run.control);
    lull_limits_options_default(&arguments->run.limits);
    lull_serving_options_default(&arguments->run.serving);
    arguments->run.plans = arguments->plans;
}

/* Finds the address of the metrics in the command, where the user gives none. */
static void find_metrics(struct run_arguments *arguments)
{
    char assumed[LULL_METRICS_ASSUMED_BYTES];
    struct lull_error err = {0};

    if (!arguments->run.serving.has_objective)
        return;
    if (arguments->run.serving.metrics != NULL) {
        if (strcmp(arguments->run.serving.metrics, "none") == 0)
            arguments->run.serving.metrics = NULL;
        return;
    }
    if (lull_metrics_address_guess(arguments->run.command, arguments->metrics, assumed, &err) < 0) {
        /* The run itself reports an objective without metrics. */
        if (err.code != -ENOENT)
            lull_log(LULL_LOG_WARNING, "run", "%s", err.text);
        return;
    }
    arguments->run.serving.metrics = arguments->metrics;
    lull_log(LULL_LOG_WARNING, "run", "%s", assumed);
}

static int run_command_check(void *options, const struct lull_operands *operands,
                             struct lull_error *err)
{
    struct run_arguments *const arguments = options;
    struct lull_job_selector *const selector = &arguments->run.limits.search.selector;

    /* The options exclude each other already; this limit is the variable's. */
    if (arguments->run.limits.is_wanted &&
        (arguments->run.plan_count > 0 || arguments->run.online.schedule != NULL ||
         arguments->run.peers.endpoint != NULL))
        return lull_error_set(err, -EINVAL,
                              "LULL_POWER_LIMIT is set, and a power limit excludes --plan, "
                              "--schedule and --together: unset it or leave them out");
    arguments->run.command = operands->command;
    arguments->run.serving.is_wanted = arguments->run.serving.has_objective;
    arguments->run.serving.has_probes = true;
    find_metrics(arguments);
    arguments->run.exposure =
        arguments->exposure == EXPOSURE_YES && !arguments->run.control.only_steady &&
        !arguments->run.serving.is_wanted && !arguments->run.limits.is_wanted &&
        arguments->run.plan_count == 0 && arguments->run.online.schedule == NULL;
    /* --tolerance bounds the slowdown by power limits as well, unless they are chosen otherwise. */
    if (!arguments->has_choice) {
        selector->aim = LULL_JOB_SLOWDOWN;
        selector->slowdown_ratio = arguments->run.control.tolerance_ratio;
    }
    if (arguments->has_eta && selector->aim != LULL_JOB_COST)
        return lull_error_set(err, -EINVAL,
                              "--eta weighs energy against time in the cost, which may exceed "
                              "--tolerance: give --choose cost as well");
    return 0;
}

/* Neither the job nor a later reader of this process' environment may see the key. */
static void take_secret(struct run_arguments *arguments)
{
    char *const text = getenv("LULL_TOGETHER_KEY");

    if (text == NULL)
        return;
    snprintf(arguments->secret, sizeof(arguments->secret), "%s", text);
    arguments->run.peers.secret = arguments->secret;
    explicit_bzero(text, strlen(text));
    unsetenv("LULL_TOGETHER_KEY");
}

/* ---- a process that may open few files ----------------------------------------------------- */

/* A run on 4 emulated GPUs has 38 descriptors open. */
enum { MIN_DESCRIPTORS = 64 };

/* Becomes the command, which then runs as if Lull was not there, unless a launcher starts it.
 * Returns only if that fails. */
static int become_command(const struct run_arguments *arguments, struct lull_error *err)
{
    char *const *const command = arguments->run.command;

    if (arguments->run.launcher_fd != 0)
        return lull_error_set(err, -EMFILE,
                              "fewer than %d files can be opened; raise the limit with ulimit -n",
                              MIN_DESCRIPTORS);
    lull_log(
        LULL_LOG_WARNING, "run",
        "the command runs unmanaged and there is no report: fewer than %d files can be opened; "
        "raise the limit with ulimit -n",
        MIN_DESCRIPTORS);
    if (arguments->is_json)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    signal(SIGPIPE, SIG_DFL);
    execvp(command[0], command);
    return lull_error_set(err, -errno, "cannot start %s: %s; check the command after --",
                          command[0], strerror(errno));
}

static int run_command_main(void *options, const struct lull_operands *operands)
{
    struct run_arguments *const arguments = options;
    struct lull_error err = {0};
    struct lull_managed_run_terms terms;
    int status = 0;
    int rc;

    (void)operands;
    take_secret(arguments);
    if (!lull_process_has_descriptors(MIN_DESCRIPTORS)) {
        become_command(arguments, &err);
        return lull_cli_fail_to_start("run", &err);
    }
    terms = (struct lull_managed_run_terms){
        .price = arguments->given,
        .report = arguments->has_report ? NULL : arguments->report,
        .is_json = arguments->is_json,
    };
    rc = lull_managed_run(&arguments->run, &terms, &status, &err);
    if (rc == -EINVAL)
        return lull_cli_fail("run", &err);
    return rc < 0 ? lull_cli_fail_to_start("run", &err) : status;
}

const struct lull_program_command lull_run_command = {
    .name = "run",
    .summary = "run a command and lower its GPUs' clocks where it does not need them",
    .arguments = "-- COMMAND [ARG...]",
    .about = "Runs COMMAND, any command line such as `mpirun -n 4 ./train`, and lowers the clocks "
             "of its GPUs while it communicates, as far as it does not become slower. COMMAND "
             "needs no change. Its exit status is returned. A failure of lull never fails it: it "
             "then runs unmanaged.",
    .after = "Examples:\n"
             "  lull run -- mpirun -n 4 ./train\n"
             "  lull run --compare --report out -- mpirun -n 4 ./train\n"
             "  lull emulate 4xA100-SXM4-40GB -- lull run --no-daemon -- mpirun -n 4 ./train",
    .tables = {{rows, 0}},
    .operands = {.takes_command = true,
                 .needs_command = true,
                 .missing = "missing command; put it after --, as in: lull run -- ./train"},
    .size = sizeof(struct run_arguments),
    .returns_jobs_status = true,
    .prepare = run_command_prepare,
    .check = run_command_check,
    .run = run_command_main,
};
