/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/choice.h"
#include "cli/command.h"
#include "core/section/agreement.h"
#include "governor/plan/plan_runner.h"
#include "governor/run/run.h"

enum {
    KEY_TOLERANCE = 't',
    KEY_COMPARE = 'c',
    KEY_REPORT = 'r',
    KEY_QUIET = 'q',
    KEY_NO_DAEMON = 256,
    KEY_DESCENT,
    KEY_CONFIDENCE,
    KEY_EXPOSURE,
    KEY_TAIL,
    KEY_MARKERS,
    KEY_STEADY,
    KEY_TOGETHER,
    KEY_TOGETHER_KEY,
    KEY_NODE,
    KEY_PLAN,
    KEY_PIPELINE,
    KEY_MICROBATCHES,
    KEY_STAGES,
    KEY_PLANNER,
    KEY_PROFILING,
    KEY_BLOCKING,
    KEY_POWER_LIMIT,
    KEY_ETA,
    KEY_MAX_SLOWDOWN,
    KEY_CHOOSE,
    KEY_CLOCKS,
    KEY_AFRESH,
    KEY_LIMIT_STEP,
    KEY_SLICE,
};

static const struct argp_option options[] = {
    {"tolerance", KEY_TOLERANCE, "RATIO", 0, "Slowdown that is allowed (default 1%)", 0},
    {"tail-tolerance", KEY_TAIL, "RATIO", 0,
     "Also allow the 99 % quantile of iteration times (a token's latency) to grow by so much at "
     "most",
     0},
    {"confidence", KEY_CONFIDENCE, "RATIO", 0,
     "Confidence with which the slowdown stays under it (default 95%)", 0},
    {"compare", KEY_COMPARE, NULL, 0, "Run the command unmanaged first and compare", 0},
    {"report", KEY_REPORT, "DIR", 0, "Write report.json and trace.json there (default lull-report)",
     0},
    {"descent", KEY_DESCENT, "HOW", 0,
     "bisect (default), step (one clock at a time, as in the patent) or gallop", 0},
    {"exposure", KEY_EXPOSURE, NULL, 0,
     "Record compute kernels in short windows (CUPTI), to see what NCCL leaves exposed", 0},
    {"markers", KEY_MARKERS, NULL, 0,
     "Mark NCCL's collectives on their streams, for what its profiler plugin does not see", 0},
    {"steady", KEY_STEADY, "RATIO", 0,
     "One clock for all of the iteration instead of switching, slower by so much at most", 0},
    {"together", KEY_TOGETHER, "ENDPOINT", 0,
     "The job runs on several nodes with a lull on each: node 0 listens at ENDPOINT "
     "(tcp://HOST:PORT), the others connect to it",
     0},
    {"together-key", KEY_TOGETHER_KEY, "FILE", 0,
     "Key that all nodes of the job share; node 0 makes it if it is not there", 0},
    {"node", KEY_NODE, "I/N", 0,
     "Which node this is, from 0, and how many there are (default: as the launcher says)", 0},
    {"plan", KEY_PLAN, "FILE", 0,
     "Carry out a pipeline's plan, as lull plan --output writes it; given more than once: tried in "
     "turn until one is harmless",
     0},
    {"pipeline", KEY_PIPELINE, "SCHEDULE", 0,
     "Profile a pipeline while it runs, then plan its clocks and carry the plan out; needs "
     "--microbatches, and sections forward and backward",
     0},
    {"microbatches", KEY_MICROBATCHES, "M", 0, "Of the pipeline", 0},
    {"stages", KEY_STAGES, "S", 0, "Of the pipeline (as many as GPUs)", 0},
    {"planner", KEY_PLANNER, "NAME", 0, "frontier (default) or envpipe", 0},
    {"profiling", KEY_PROFILING, "HOW", 0,
     "search (default), or EnvPipe's sweep, three times as long; search:9 tries 9 clocks instead "
     "of 48",
     0},
    {"blocking-w", KEY_BLOCKING, "W", 0, "What a waiting GPU draws (85)", 0},
    {"power-limit", KEY_POWER_LIMIT, "auto|W", 0,
     "Instead of sections: hold this power limit, or find one: as stored for this program, else "
     "profiled while it runs",
     0},
    {"eta", KEY_ETA, "RATIO", 0, "Of the cost, eta E + (1 - eta) P T (0.5)", 0},
    {"max-slowdown", KEY_MAX_SLOWDOWN, "RATIO", 0,
     "As --choose slowdown=RATIO: least energy, slower by so much at most", 0},
    {"choose", KEY_CHOOSE, "AIM", 0, "What the limit is to be best at: " LULL_CLI_CHOICES, 0},
    {"clocks", KEY_CLOCKS, NULL, 0, "Search SM clocks under that limit as well", 0},
    {"profile-again", KEY_AFRESH, NULL, 0, "Do not use a stored profile", 0},
    {"limit-step-w", KEY_LIMIT_STEP, "W", 0, "Between power limits that are tried (25)", 0},
    {"slice-s", KEY_SLICE, "S", 0,
     "Seconds to measure each, down and up; those near the best for longer (5)", 0},
    {"no-daemon", KEY_NO_DAEMON, NULL, 0, "Drive the GPUs from this process, as root", 0},
    {"quiet", KEY_QUIET, NULL, 0, "No table and no progress; the report is still written", 0},
    {0},
};

static const char doc[] =
    "Runs COMMAND and lowers the clocks of its GPUs while it communicates, so far as it does not "
    "get "
    "slower.\v"
    "COMMAND is any command line, such as `mpirun -n 4 ./train`; it needs no change. Its exit "
    "status is returned. A failure of lull never fails the command: it then runs unmanaged.\n\n"
    "Examples:\n"
    "  lull run -- mpirun -n 4 ./train\n"
    "  lull run --compare --report out -- mpirun -n 4 ./train\n"
    "  lull emulate 4xA100-SXM4-40GB -- lull run --no-daemon -- mpirun -n 4 ./train";

static int parse_descent(const char *text, enum lull_descent_strategy *strategy_out)
{
    static const char *const names[] = {
        [LULL_DESCENT_STEP] = "step",
        [LULL_DESCENT_BISECT] = "bisect",
        [LULL_DESCENT_GALLOP] = "gallop",
    };

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            *strategy_out = (enum lull_descent_strategy)i;
            return 0;
        }
    }
    return -1;
}

/* search or sweep, with :CLOCKS behind it or not. */
static int parse_profiling(const char *text, struct lull_online_options *online)
{
    const size_t length = strcspn(text, ":");
    const bool is_search = strncmp(text, "search", length) == 0 && length == strlen("search");
    int64_t clocks = LULL_ONLINE_MOST_CLOCKS;

    if (!is_search && (strncmp(text, "sweep", length) != 0 || length != strlen("sweep")))
        return -1;
    if (text[length] == ':' &&
        lull_text_parse_int(text + length + 1, 2, LULL_ONLINE_MOST_CLOCKS, &clocks) < 0)
        return -1;
    online->method = is_search ? LULL_PROFILING_SEARCH : LULL_PROFILING_SWEEP;
    online->clocks = (uint32_t)clocks;
    return 0;
}

static error_t parse_pipeline_option(int key, char *arg, struct argp_state *state)
{
    struct lull_online_options *online = &((struct lull_run_options *)state->input)->online;
    int64_t number = 0;

    switch (key) {
    case KEY_PIPELINE:
        online->schedule = arg;
        break;
    case KEY_MICROBATCHES:
    case KEY_STAGES:
        if (lull_text_parse_int(arg, 1, 4096, &number) < 0)
            argp_error(state, "%s: give a number from 1 to 4096", arg);
        *(key == KEY_STAGES ? &online->stages : &online->microbatches) = (uint32_t)number;
        break;
    case KEY_PLANNER:
        if (strcmp(arg, "frontier") != 0 && strcmp(arg, "envpipe") != 0)
            argp_error(state, "--planner %s: give frontier or envpipe", arg);
        online->planner = arg[0] == 'f' ? LULL_ONLINE_FRONTIER : LULL_ONLINE_ENVPIPE;
        break;
    case KEY_PROFILING:
        if (parse_profiling(arg, online) < 0)
            argp_error(state,
                       "--profiling %s: give search or sweep, and how many clocks: search:%d", arg,
                       LULL_ONLINE_MOST_CLOCKS);
        break;
    case KEY_BLOCKING:
        if (lull_text_parse_number(arg, &online->blocking_w) < 0 || !(online->blocking_w > 0))
            argp_error(state, "--blocking-w %s: give watts", arg);
        break;
    case ARGP_KEY_END:
        if ((online->schedule != NULL) != (online->microbatches != 0))
            argp_error(state, "--pipeline and --microbatches go together");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static error_t parse_limit_option(int key, char *arg, struct argp_state *state)
{
    struct lull_run_options *run = state->input;
    struct lull_limits_options *limits = &run->limits;
    struct lull_job_selector *selector = &limits->search.selector;

    switch (key) {
    case KEY_POWER_LIMIT:
        limits->is_wanted = true;
        if (strcmp(arg, "auto") != 0 &&
            (lull_text_parse_number(arg, &limits->fixed_w) < 0 || !(limits->fixed_w > 0.0)))
            argp_error(state, "--power-limit %s: give auto or watts", arg);
        break;
    case KEY_ETA:
        selector->aim = LULL_JOB_COST;
        if (lull_text_parse_ratio(arg, &selector->price.eta_ratio) < 0)
            argp_error(state, "--eta %s: give a ratio from 0 to 1", arg);
        break;
    case KEY_MAX_SLOWDOWN:
        selector->aim = LULL_JOB_SLOWDOWN;
        if (lull_text_parse_ratio(arg, &selector->slowdown_ratio) < 0)
            argp_error(state, "--max-slowdown %s: give a ratio such as 5%% or 0.05", arg);
        break;
    case KEY_CHOOSE:
        if (lull_cli_parse_choice(arg, selector) < 0)
            argp_error(state, "--choose %s: give " LULL_CLI_CHOICES, arg);
        break;
    case KEY_CLOCKS:
        limits->clocks = true;
        break;
    case KEY_AFRESH:
        limits->afresh = true;
        break;
    case KEY_LIMIT_STEP:
        if (lull_text_parse_number(arg, &limits->step_w) < 0 || !(limits->step_w >= 1.0))
            argp_error(state, "--limit-step-w %s: give watts, at least 1", arg);
        break;
    case KEY_SLICE:
        if (lull_text_parse_number(arg, &limits->search.slice_s) < 0 ||
            !(limits->search.slice_s > 0.0))
            argp_error(state, "--slice-s %s: give seconds", arg);
        break;
    case ARGP_KEY_END:
        if (limits->is_wanted &&
            (run->plan_count > 0 || run->online.schedule != NULL || run->peers.endpoint != NULL))
            argp_error(state, "--power-limit goes without --plan, --pipeline and --together");
        return ARGP_ERR_UNKNOWN;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    static const char *plans[LULL_PLAN_RUNNER_MAX_PLANS];
    struct lull_run_options *run = state->input;

    switch (key) {
    case KEY_TOLERANCE:
        if (lull_text_parse_ratio(arg, &run->control.tolerance_ratio) < 0 ||
            run->control.tolerance_ratio <= 0.0)
            argp_error(state, "--tolerance %s: give a ratio such as 1%% or 0.01", arg);
        break;
    case KEY_TAIL:
        if (lull_text_parse_ratio(arg, &run->control.tail_tolerance_ratio) < 0 ||
            run->control.tail_tolerance_ratio <= 0.0)
            argp_error(state, "--tail-tolerance %s: give a ratio such as 5%% or 0.05", arg);
        break;
    case KEY_CONFIDENCE:
        if (lull_text_parse_ratio(arg, &run->control.confidence) < 0 ||
            run->control.confidence <= 0.5 || run->control.confidence >= 1.0)
            argp_error(state, "--confidence %s: give a ratio between 50%% and 100%%", arg);
        break;
    case KEY_COMPARE:
        run->compare = true;
        break;
    case KEY_REPORT:
        run->report = arg;
        break;
    case KEY_DESCENT:
        if (parse_descent(arg, &run->control.strategy) < 0)
            argp_error(state, "--descent %s: give bisect, step or gallop", arg);
        break;
    case KEY_EXPOSURE:
        run->exposure = true;
        break;
    case KEY_MARKERS:
        run->markers = true;
        break;
    case KEY_STEADY:
        run->control.only_steady = true;
        if (lull_text_parse_ratio(arg, &run->control.steady_tolerance_ratio) < 0 ||
            run->control.steady_tolerance_ratio <= 0.0)
            argp_error(state, "--steady %s: give a ratio such as 0.5%% or 0.005", arg);
        break;
    case KEY_TOGETHER:
        run->peers.endpoint = arg;
        break;
    case KEY_TOGETHER_KEY:
        run->peers.key_path = arg;
        break;
    case KEY_NODE:
        if (lull_nodes_parse(arg, &run->peers.nodes) < 0)
            argp_error(state, "--node %s: give the node and their number (at most %d), such as 0/2",
                       arg, LULL_AGREEMENT_MAX_NODES);
        break;
    case KEY_PLAN:
        if (run->plan_count == LULL_PLAN_RUNNER_MAX_PLANS)
            argp_error(state, "--plan: at most %d", LULL_PLAN_RUNNER_MAX_PLANS);
        plans[run->plan_count++] = arg;
        run->plans = plans;
        break;
    case KEY_NO_DAEMON:
        run->no_daemon = true;
        break;
    case KEY_QUIET:
        run->quiet = true;
        break;
    case ARGP_KEY_ARGS:
        run->command = state->argv + state->next;
        break;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no command; write it behind --, as in: lull run -- ./train");
        break;
    default:
        if (parse_limit_option(key, arg, state) == 0)
            return 0;
        return parse_pipeline_option(key, arg, state);
    }
    return 0;
}

int lull_run_main(int argc, char **argv)
{
    static const struct argp argp = {options, parse_option, "COMMAND [ARG...]", doc, NULL,
                                     NULL,    NULL};
    struct lull_run_options run = {
        .report = "lull-report",
        .runtime_dir = lull_cli_runtime_directory(),
        .online = {.method = LULL_PROFILING_SEARCH, .blocking_w = 85.0},
    };
    struct lull_error err = {0};
    int status = 0;

    lull_controller_config_default(&run.control);
    lull_limits_options_default(&run.limits);
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &run);
    if (lull_run(&run, &status, &err) < 0) {
        lull_cli_fail("run", &err);
        return LULL_EXIT_FAILED;
    }
    return status;
}
