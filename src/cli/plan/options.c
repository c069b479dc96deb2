/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/options.h"

#include <argp.h>
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "cli/command.h"
#include "core/pipeline/schedule/schedule.h"

enum {
    KEY_PROFILE = 256,
    KEY_SCHEDULE,
    KEY_STAGES,
    KEY_MICROBATCHES,
    KEY_GRAPH,
    KEY_BLOCKING,
    KEY_LATENCY,
    KEY_REPLICAS,
    KEY_REPLICA_PROFILE,
    KEY_SYNC,
    KEY_MEMORY,
    KEY_DEADLINE,
    KEY_SLOWDOWN,
    KEY_FRONTIER,
    KEY_STRAGGLER,
    KEY_PLANNER,
    KEY_SWITCH,
    KEY_FEED_FORWARD,
    KEY_DRIVER,
    KEY_NODES,
    KEY_DWELL,
    KEY_WAITING,
    KEY_WAKE,
    KEY_SVG,
    KEY_OUTPUT,
    KEY_PERSEUS,
    KEY_VERIFY,
};

static const double most_ms = 1e8; /* a day */

static const struct argp_option option_rows[] = {
    {NULL, 0, NULL, 0, "The pipeline:", 1},
    {"profile", KEY_PROFILE, "FILE", 0,
     "Measured times and energies: stage,instruction,frequency,time,energy (MHz, s, J)", 1},
    {"schedule", KEY_SCHEDULE, "NAME", 0,
     "1f1b (the default), gpipe, interleaved:V, envpipe, zb-h1, zbv, dualpipev, ...; best: the "
     "order "
     "of least energy",
     1},
    {"memory", KEY_MEMORY, "N", 0,
     "With --schedule best: micro-batches that a stage has room for, one number or one per stage",
     1},
    {"stages", KEY_STAGES, "S", 0, "Stages of the pipeline, each one device", 1},
    {"microbatches", KEY_MICROBATCHES, "M", 0, "Micro-batches of an iteration", 1},
    {"graph", KEY_GRAPH, "FILE", 0,
     "Instead of a schedule: a CSV of torch.distributed.pipelining, or operations as JSON lines",
     1},
    {"blocking-w", KEY_BLOCKING, "W", 0,
     "Power of a waiting stage, as the profile counts energy: one number, one per stage, or a GPU "
     "model such as 8xA40 (85)",
     1},
    {"latency-ms", KEY_LATENCY, "MS", 0, "Of a transfer between stages (0)", 1},
    {"replicas", KEY_REPLICAS, "D", 0, "Data parallel copies of the pipeline (1)", 1},
    {"replica-profile", KEY_REPLICA_PROFILE, "FILE", 0,
     "Profile of the second copy, if it is not as the first; given again: of the next one", 1},
    {"sync-ms", KEY_SYNC, "MS", 0,
     "How long the copies of a stage synchronise in the end, gradients above all: one number, or "
     "one "
     "per stage (0)",
     1},
    {NULL, 0, NULL, 0, "What is wanted, one of:", 2},
    {"frontier", KEY_FRONTIER, NULL, 0,
     "All plans worth having (the default); some of them, evenly over time, of a long pipeline", 2},
    {"slowdown", KEY_SLOWDOWN, "RATIO", 0,
     "The plan of least energy that is at most so much slower than all at the highest clock: 0%",
     2},
    {"deadline-ms", KEY_DEADLINE, "MS", 0, "The plan of least energy that holds this time", 2},
    {"straggler-ms", KEY_STRAGGLER, "MS", 0,
     "The same where somebody else takes this long, so that waiting is paid for anyway", 2},
    {NULL, 0, NULL, 0, "How:", 3},
    {"planner", KEY_PLANNER, "NAME", 0,
     "frontier (the default), or envpipe, envpipe:greedy, envpipe:envelope, envpipe:uniform", 3},
    {"switch-ms", KEY_SWITCH, "DOWN,UP", 0,
     "Until a lower and a higher clock hold, in the worst case (0,0)", 3},
    {"feed-forward", KEY_FEED_FORWARD, "MS", 0,
     "Raisings are asked for ahead by UP of --switch-ms, as lull run does: a higher clock then "
     "holds "
     "so long before it is needed, no operation begins below its clock, and a lower one comes DOWN "
     "late",
     3},
    {"driver-ms", KEY_DRIVER, "MS", 0,
     "With --feed-forward: each change keeps its node's driver busy for so long, which serves one "
     "after the other (0: all at once)",
     3},
    {"nodes", KEY_NODES, "N", 0,
     "That the devices are on, as many on each, in the order of ranks (1)", 3},
    {"min-dwell-ms", KEY_DWELL, "MS", 0, "Between two changes of a device's clock (0)", 3},
    {"waiting-w", KEY_WAITING, "MHZ:W,...", 0,
     "Clocks that a stage may wait at, and its power there; or a GPU model such as 8xH100-SXM5", 3},
    {"wake-ms", KEY_WAKE, "DOWN,UP", 0,
     "Until a waiting stage draws that power, and until it is awake again (as --switch-ms)", 3},
    {NULL, 0, NULL, 0, "Output:", 4},
    {"json", 'j', NULL, 0, "Print one JSON document", 4},
    {"svg", KEY_SVG, "FILE", 0, "Draw all at the highest clock and the plan over time", 4},
    {"output", KEY_OUTPUT, "FILE", 0, "Write the plan with the proof of its bound", 4},
    {"perseus", KEY_PERSEUS, "FILE", 0, "Write the plan as Perseus reads it", 4},
    {"verify", KEY_VERIFY, "PLAN", 0, "Replay a plan that --output wrote; 1 if it does not hold",
     4},
    {0},
};

static int parse_ms(const char *text, double least_ms, double *value_out)
{
    double value;

    if (lull_text_parse_number(text, &value) < 0 || !(value >= least_ms && value <= most_ms))
        return -EINVAL;
    *value_out = value;
    return 0;
}

static int parse_planner(const char *text, struct lull_plan_options *options)
{
    static const struct {
        const char *name;
        enum lull_plan_planner planner;
        enum lull_envpipe_method method;
    } planners[] = {
        {"frontier", LULL_PLAN_FRONTIER, LULL_ENVPIPE_BALANCED},
        {"envpipe", LULL_PLAN_ENVPIPE, LULL_ENVPIPE_BALANCED},
        {"envpipe:balanced", LULL_PLAN_ENVPIPE, LULL_ENVPIPE_BALANCED},
        {"envpipe:greedy", LULL_PLAN_ENVPIPE, LULL_ENVPIPE_GREEDY},
        {"envpipe:envelope", LULL_PLAN_ENVPIPE, LULL_ENVPIPE_ENVELOPE},
        {"envpipe:uniform", LULL_PLAN_ENVPIPE, LULL_ENVPIPE_UNIFORM},
    };

    for (size_t i = 0; i < sizeof(planners) / sizeof(planners[0]); i++)
        if (strcmp(text, planners[i].name) == 0) {
            options->planner = planners[i].planner;
            options->method = planners[i].method;
            return 0;
        }
    return -EINVAL;
}

static int parse_options(int key, char *arg, struct lull_plan_arguments *arguments)
{
    const double least_ms = 1e-6;

    switch (key) {
    case KEY_DEADLINE:
        return parse_ms(arg, least_ms, &arguments->deadline_ms);
    case KEY_SLOWDOWN:
        return lull_text_parse_ratio(arg, &arguments->slowdown_ratio);
    case KEY_STRAGGLER:
        return parse_ms(arg, least_ms, &arguments->straggler_ms);
    case KEY_PLANNER:
        return parse_planner(arg, &arguments->options);
    case KEY_SWITCH:
        return lull_cli_parse_latency(arg, &arguments->down_ms, &arguments->up_ms);
    case KEY_FEED_FORWARD:
        return parse_ms(arg, 0.0, &arguments->early_ms);
    case KEY_DRIVER:
        return parse_ms(arg, 0.0, &arguments->driver_ms);
    case KEY_NODES:
        return lull_text_parse_int(arg, 1, LULL_PIPELINE_MAX_DRIVERS, &arguments->nodes);
    case KEY_DWELL:
        return parse_ms(arg, 0.0, &arguments->dwell_ms);
    case KEY_WAITING:
        arguments->waiting = arg;
        return 0;
    case KEY_MEMORY:
        arguments->memory = arg;
        return 0;
    case KEY_WAKE:
        return lull_cli_parse_latency(arg, &arguments->fall_ms, &arguments->wake_ms);
    default:
        return 1;
    }
}

static int parse_source(int key, char *arg, struct lull_plan_source *source)
{
    switch (key) {
    case KEY_PROFILE:
        source->profile = arg;
        return 0;
    case KEY_SCHEDULE:
        source->schedule = arg;
        return 0;
    case KEY_GRAPH:
        source->graph = arg;
        return 0;
    case KEY_BLOCKING:
        source->blocking = arg;
        return 0;
    case KEY_STAGES:
        return lull_text_parse_int(arg, 1, LULL_PIPELINE_MAX_STAGES, &source->stages);
    case KEY_MICROBATCHES:
        return lull_text_parse_int(arg, 1, LULL_PIPELINE_MAX_MICROBATCHES, &source->microbatches);
    case KEY_REPLICAS:
        return lull_text_parse_int(arg, 1, LULL_PIPELINE_MAX_STAGES, &source->replicas);
    case KEY_REPLICA_PROFILE:
        if (source->copy_count == LULL_PLAN_COPY_PROFILES)
            return -E2BIG;
        source->copies[source->copy_count++] = arg;
        return 0;
    case KEY_LATENCY:
        return parse_ms(arg, 0.0, &source->latency_ms);
    case KEY_SYNC:
        source->sync = arg;
        return 0;
    default:
        return 1;
    }
}

static int parse_output(int key, char *arg, struct lull_plan_arguments *arguments)
{
    switch (key) {
    case KEY_FRONTIER:
        arguments->is_frontier = true;
        return 0;
    case KEY_SVG:
        arguments->svg = arg;
        return 0;
    case KEY_OUTPUT:
        arguments->output = arg;
        return 0;
    case KEY_PERSEUS:
        arguments->perseus = arg;
        return 0;
    case KEY_VERIFY:
        arguments->verify = arg;
        return 0;
    case 'j':
        arguments->is_json = true;
        return 0;
    default:
        return 1;
    }
}

static bool is_single(const struct lull_plan_arguments *arguments)
{
    return arguments->deadline_ms > 0.0 || arguments->slowdown_ratio >= 0.0 ||
           arguments->straggler_ms > 0.0 || arguments->options.planner == LULL_PLAN_ENVPIPE;
}

bool lull_plan_is_best(const struct lull_plan_arguments *arguments)
{
    return arguments->source.schedule != NULL && strcmp(arguments->source.schedule, "best") == 0;
}

/* What does not go together, of the options for orders and gaps. */
static void check_orders(const struct lull_plan_arguments *arguments, struct argp_state *state)
{
    const bool has_time = arguments->deadline_ms > 0.0 || arguments->slowdown_ratio >= 0.0 ||
                          arguments->straggler_ms > 0.0;

    if (lull_plan_is_best(arguments) && !has_time)
        argp_error(state, "--schedule best compares orders at one time: choose it with "
                          "--slowdown 0%% or --deadline-ms");
    if (lull_plan_is_best(arguments) && arguments->options.planner == LULL_PLAN_ENVPIPE)
        argp_error(state, "--schedule best: EnvPipe's planner has an order of its own, "
                          "--schedule envpipe");
    if (!lull_plan_is_best(arguments) && arguments->memory != NULL)
        argp_error(state, "--memory: limits the choice of --schedule best");
    if (!is_single(arguments) && arguments->waiting != NULL)
        argp_error(state, "gaps are those of one plan: choose it with --slowdown 0%% or "
                          "--deadline-ms");
    if (arguments->waiting == NULL && arguments->wake_ms >= 0.0)
        argp_error(state, "--wake-ms: give the clocks for waiting with --waiting-w");
}

/* What does not go together. */
static void check(const struct lull_plan_arguments *arguments, struct argp_state *state)
{
    const struct lull_plan_source *const source = &arguments->source;
    const int wanted = (arguments->deadline_ms > 0.0) + (arguments->slowdown_ratio >= 0.0) +
                       (arguments->straggler_ms > 0.0) + arguments->is_frontier;

    if (arguments->verify != NULL)
        return;
    if (source->profile == NULL)
        argp_error(state, "give --profile FILE, or --verify PLAN");
    if (source->copy_count >= (uint64_t)source->replicas)
        argp_error(state,
                   "%u --replica-profile and the first one's are more than %d copies: see "
                   "--replicas",
                   source->copy_count, (int)source->replicas);
    if (source->graph != NULL && source->schedule != NULL)
        argp_error(state, "--graph has its own order: leave out --schedule");
    if (source->graph != NULL && (source->stages != 0 || source->microbatches != 0))
        argp_error(state, "--graph says how many stages and micro-batches there are");
    if (source->graph == NULL && (source->stages == 0 || source->microbatches == 0))
        argp_error(state, "give --stages S and --microbatches M, or --graph FILE");
    if (arguments->early_ms >= 0.0 && arguments->up_ms < arguments->early_ms)
        argp_error(state, "--feed-forward: a clock cannot hold earlier than it is asked for; give "
                          "--switch-ms DOWN,UP with UP at least as long");
    if (arguments->driver_ms > 0.0 && arguments->early_ms < 0.0)
        argp_error(state, "--driver-ms: calls queue ahead of operations; give --feed-forward MS");
    if (wanted > 1)
        argp_error(state, "choose one of --frontier, --slowdown, --deadline-ms and --straggler-ms");
    if (arguments->is_frontier && arguments->options.planner == LULL_PLAN_ENVPIPE)
        argp_error(state, "EnvPipe has one plan and no frontier: leave out --frontier");
    if (!is_single(arguments) &&
        (arguments->svg != NULL || arguments->output != NULL || arguments->perseus != NULL))
        argp_error(state, "a file holds one plan: choose it with --slowdown 0%% or --deadline-ms");
    check_orders(arguments, state);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct lull_plan_arguments *const arguments = state->input;
    int result;

    if (key == ARGP_KEY_ARG)
        argp_error(state, "%s: takes no arguments, only options", arg);
    if (key == ARGP_KEY_END)
        check(arguments, state);
    result = parse_source(key, arg, &arguments->source);
    if (result == 1)
        result = parse_options(key, arg, arguments);
    if (result == 1)
        result = parse_output(key, arg, arguments);
    if (result < 0 && key == KEY_PLANNER)
        argp_error(state,
                   "%s: no such planner; there are frontier, envpipe, envpipe:greedy, "
                   "envpipe:envelope and envpipe:uniform",
                   arg);
    else if (result < 0)
        argp_error(state, "%s: not a usable value", arg);
    return result == 1 ? ARGP_ERR_UNKNOWN : 0;
}

static const struct argp parser = {
    .options = option_rows,
    .parser = parse_option,
    .args_doc = "--profile FILE --stages S --microbatches M\n--verify PLAN",
    .doc = "Plans the clocks of a pipeline's operations: the same iteration time, or a chosen one, "
           "with the least energy.\v"
           "Times and energies are as measured, nothing is fitted; every plan stands beside the "
           "energy below which no plan as fast can lie, proven by a flow. man lull-plan tells "
           "more.",
};

void lull_plan_parse(int argc, char **argv, struct lull_plan_arguments *arguments_out)
{
    *arguments_out = (struct lull_plan_arguments){.source.replicas = 1,
                                                  .slowdown_ratio = -1.0,
                                                  .early_ms = -1.0,
                                                  .wake_ms = -1.0,
                                                  .nodes = 1};
    argp_parse(&parser, argc, argv, 0, NULL, arguments_out);
    if (arguments_out->source.schedule == NULL && arguments_out->source.graph == NULL)
        arguments_out->source.schedule = "1f1b";
}
