/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "cli/plan/output.h"
#include "cli/plan/report.h"
#include "cli/plan/solve.h"
#include "cli/plan/task.h"
#include "cli/plan/verify.h"
#include "core/pipeline/schedule/schedule.h"

struct plan_arguments {
    struct lull_plan_source source;
    struct lull_plan_options options;
    bool is_frontier;
    double deadline_ms;    /* 0: not given */
    double slowdown_ratio; /* below 0: not given */
    double straggler_ms;   /* 0: not given */
    double down_ms;
    double up_ms;
    double early_ms;  /* below 0: not fed forward */
    double driver_ms; /* time that a call occupies the driver shared by a node's devices; 0: none */
    int64_t nodes;
    double dwell_ms;
    double fall_ms; /* until a clock for waiting holds; used where wake_ms is given */
    double wake_ms; /* until the device is awake again; below 0: both as switching */
    const char *waiting;
    const char *memory;
    bool is_json;
    const char *svg;
    const char *output;
    const char *perseus;
    const char *verify;
};

/* ---- the command line --------------------------------------------------------------------- */

#define MAX_MS 1e8  /* a day */
#define MIN_MS 1e-6 /* an ns */

#define FLAG(NAME, FIELD, HELP, ...)                                                               \
    LULL_FLAG(NAME, struct plan_arguments, FIELD, HELP, __VA_ARGS__)
#define VALUE(NAME, UNIT, TYPE, FIELD, HELP, ...)                                                  \
    LULL_VALUE(NAME, UNIT, TYPE, struct plan_arguments, FIELD, HELP, __VA_ARGS__)
#define OPEN(NAME, FIELD, HELP, ...)                                                               \
    VALUE(NAME, "FILE", TEXT, FIELD, HELP, .hint = LULL_OPTION_FILE, __VA_ARGS__)

static int parse_copy(const char *text, void *arguments, struct lull_error *err)
{
    struct lull_plan_source *const source = &((struct plan_arguments *)arguments)->source;

    if (source->copy_count == LULL_PLAN_COPY_PROFILES)
        return lull_error_set(err, -E2BIG, "there may be %d of them at most",
                              LULL_PLAN_COPY_PROFILES);
    source->copies[source->copy_count++] = text;
    return 0;
}

static const struct lull_option rows[] = {
    LULL_GROUP("The pipeline"),
    OPEN("profile", source.profile,
         "Measured times and energies, a CSV: stage,instruction,frequency,time,energy (MHz, s, J).",
         .more =
             "Instructions are forward and backward, or input and weight where the backward is "
             "split; - is standard input. A profile of other than S stages serves too: its last "
             "stage is the last one, stage i before it takes the profile's stage i, or its last "
             "but one."),
    VALUE("schedule", "NAME", TEXT, source.schedule,
          "The order of operations: 1f1b, 1f1b-recompute, gpipe, interleaved:V[,G], envpipe[:R], "
          "zb-h1, zbv or dualpipev; or best, that of least energy.",
          .otherwise = "1f1b", .excludes = "graph",
          .more = "best is one of 1f1b, gpipe, zb-h1 (where both parts of a backward are in the "
                  "profile) and 1f1b with more forwards of warm-up (envpipe:R0,R1,...), at the "
                  "requested time and within --memory. All take the same time; with --slowdown it "
                  "counts from 1f1b at the highest clocks."),
    VALUE("memory", "N[,N...]", TEXT, memory,
          "How many micro-batches a stage has room for, each from its forward to its backward: one "
          "number, or one for each stage.",
          .otherwise = "no limit", .needs = "schedule=best"),
    VALUE("stages", "N", WHOLE, source.stages,
          "The number of stages of the pipeline, each one device.", .least = 1,
          .most = LULL_PIPELINE_MAX_STAGES, .excludes = "graph"),
    VALUE("microbatches", "M", WHOLE, source.microbatches,
          "The number of micro-batches in an iteration of the pipeline.", .least = 1,
          .most = LULL_PIPELINE_MAX_MICROBATCHES, .excludes = "graph"),
    OPEN("graph", source.graph,
         "Instead of schedule, stages and micro-batches: a CSV of torch.distributed.pipelining "
         "(compute_only or compute_comms), or a graph of operations as JSON lines."),
    VALUE("blocking-w", "W", TEXT, source.blocking,
          "Power of a stage while it waits for another one.", .otherwise = "85",
          .more = "Of as many GPUs as the profile counts energy for: one number, one for each "
                  "stage with commas between, or a GPU model whose blocking power was measured "
                  "(A100-SXM4-80GB, A40; 8xA40 for stages of eight)."),
    VALUE("latency-ms", "MS", NUMBER, source.latency_ms,
          "How long a transfer between stages takes.", .most = MAX_MS, .default_value = "0"),
    VALUE("replicas", "D", WHOLE, source.replicas,
          "Data parallel copies of the pipeline, which share one iteration time.", .least = 1,
          .most = LULL_PIPELINE_MAX_STAGES, .default_value = "1"),
    LULL_OWN("replica-profile", "FILE", parse_copy,
             "The profile of the second copy, if it is not as the first; given again, of the next "
             "one.",
             .hint = LULL_OPTION_FILE, .needs = "replicas",
             .more = "Each has as many stages as --profile. Copies without one are as the first. "
                     "The plan's deadline holds for all: faster copies take the time that the "
                     "slowest leaves them."),
    VALUE("sync-ms", "MS[,MS...]", TEXT, source.sync,
          "How long the copies of a stage synchronise in the end, gradients above all: one number, "
          "or one for each stage.",
          .otherwise = "0",
          .more = "It begins when that stage has ended in every copy, at blocking power."),

    LULL_GROUP("Goal, one of"),
    FLAG("frontier", is_frontier,
         "All efficient plans, from the shortest time to the least energy. The default without any "
         "of these options.",
         .excludes = "slowdown|deadline-ms|straggler-ms",
         .more = "Where these are too many, some of them, evenly over time: up to as many as have "
                 "eight million operations together, but up to 32 in any case. "
                 "Each is a plan of real clocks with its own bound."),
    VALUE("slowdown", "RATIO", RATIO, slowdown_ratio,
          "The plan of least energy that is at most this much slower than all operations at the "
          "highest clock.",
          .is_slowdown = true, .excludes = "deadline-ms|straggler-ms"),
    VALUE("deadline-ms", "MS", NUMBER, deadline_ms,
          "The plan of least energy that takes no longer than this.", .least = MIN_MS,
          .most = MAX_MS, .excludes = "straggler-ms"),
    VALUE("straggler-ms", "MS", NUMBER, straggler_ms,
          "The plan of least energy where another pipeline of the job takes this long, so that "
          "waiting for it is paid for in any case.",
          .least = MIN_MS, .most = MAX_MS,
          .more = "The plan's time is the lesser of this and of the time beyond which no operation "
                  "saves anything by being slower; energies are those of an iteration that takes "
                  "as long as the straggler."),

    LULL_GROUP("How it is planned"),
    VALUE("switch-ms", "DOWN,UP", OWN, down_ms,
          "Worst-case time until a lower and a higher clock take effect.",
          .parse = lull_cli_parse_times, .expected = LULL_CLI_TIMES, .default_value = "0,0",
          .more = "An operation that begins before that runs at the slower of both clocks, and the "
                  "plan keeps its time all the same."),
    VALUE("feed-forward", "MS", NUMBER, early_ms,
          "Request each raising UP of --switch-ms ahead, as lull run does, so that the higher "
          "clock holds this long before it is needed.",
          .most = MAX_MS,
          .more =
              "A lowering is requested when the operation before ends, and holds DOWN later. So "
              "no operation begins below its clock and switching takes no time. It takes "
              "energy, which counts in the plan's; a lowering that would have to be taken back "
              "first is left out."),
    VALUE("driver-ms", "MS", NUMBER, driver_ms,
          "How long each change of a clock keeps the driver of its node busy, which serves one "
          "after the other.",
          .most = MAX_MS, .default_value = "0", .needs = "feed-forward",
          .more = "The plan requests no more than can be served in time. 0: all at once."),
    VALUE("nodes", "N", WHOLE, nodes,
          "How many nodes the devices are on, as many on each, in the order of the job's ranks.",
          .least = 1, .most = LULL_PIPELINE_MAX_DRIVERS, .default_value = "1",
          .needs = "driver-ms"),
    VALUE("min-dwell-ms", "MS", NUMBER, dwell_ms,
          "The least time between two changes of a device's clock.", .most = MAX_MS,
          .default_value = "0"),
    VALUE("waiting-w", "MHZ:W[:MS],...", TEXT, waiting,
          "Clocks that a stage may wait at and its power there; or a GPU model such as "
          "8xH100-SXM5.",
          .more = "Power is of as many GPUs as for --blocking-w; MS is how long it takes until the "
                  "stage is awake again, where that is not what --wake-ms says: "
                  "210:60,1050:64:3. Models whose power at the lowest clock was measured while a "
                  "job waits are A100-SXM4-40GB, A100-SXM4-80GB, H100-SXM5 and H200-SXM. Each gap "
                  "of the plan gets the clock that saves most, or none; the stage is woken so "
                  "early that no operation is late. What it saves stands beside the plan's energy, "
                  "which, like the bound, counts blocking power. For one plan, not for the "
                  "frontier."),
    VALUE("wake-ms", "DOWN,UP", OWN, fall_ms,
          "How long it takes until a waiting stage draws that power, and until it is awake again.",
          .parse = lull_cli_parse_times, .expected = LULL_CLI_TIMES, .otherwise = "as --switch-ms",
          .needs = "waiting-w"),

    LULL_GROUP("Output"),
    LULL_JSON_ROW(struct plan_arguments, is_json),
    OPEN("svg", svg, "Draw all at the highest clock and the plan over time.",
         .more = "Rows are stages, operations are coloured by clock, one critical path is "
                 "outlined, grey is where a stage waits, blue where it does so at a clock of its "
                 "own. Pipelines of more than 6000 operations are drawn in mean clocks of "
                 "neighbouring operations."),
    OPEN("output", output,
         "Write the plan with the options that it was made from and the flow that proves its "
         "bound."),
    OPEN("perseus", perseus,
         "Write the plan as Perseus and lowtime do: a list in Python of ('forward', MHz) for each "
         "stage."),
    VALUE("verify", "PLAN", TEXT, verify,
          "Replay a plan that --output wrote; the status is 1 if it does not hold.",
          .hint = LULL_OPTION_FILE,
          .excludes = "schedule|stages|microbatches|graph|frontier|slowdown|deadline-ms|"
                      "straggler-ms|svg|output|perseus",
          .more = "Times and energy come from the measured options, the bound from the flow. With "
                  "--profile, from that profile's numbers instead of those in the plan."),
    {0},
};

static void plan_command_prepare(void *options)
{
    struct plan_arguments *const arguments = options;

    arguments->slowdown_ratio = -1.0;
    arguments->early_ms = -1.0;
    arguments->wake_ms = -1.0;
}

static bool has_time(const struct plan_arguments *arguments)
{
    return arguments->deadline_ms > 0.0 || arguments->slowdown_ratio >= 0.0 ||
           arguments->straggler_ms > 0.0;
}

/* Returns whether the order is to be chosen. */
static bool is_best(const struct plan_arguments *arguments)
{
    return arguments->source.schedule != NULL && strcmp(arguments->source.schedule, "best") == 0;
}

/* Reports missing options in the order in which a new user would give them. */
static int check_source(struct lull_plan_source *source, struct lull_error *err)
{
    if (source->profile == NULL)
        return lull_error_set(err, -EINVAL, "give --profile FILE, or --verify PLAN");
    if (source->copy_count >= (uint64_t)source->replicas)
        return lull_error_set(err, -EINVAL,
                              "%u --replica-profile and the first one's are more than %d copies: "
                              "see --replicas",
                              source->copy_count, (int)source->replicas);
    if (source->graph != NULL)
        return 0;
    if (source->stages == 0 || source->microbatches == 0)
        return lull_error_set(err, -EINVAL,
                              "give --stages N and --microbatches M, or --graph FILE");
    if (source->schedule == NULL)
        source->schedule = "1f1b";
    return 0;
}

static int plan_command_check_order(const struct plan_arguments *arguments, struct lull_error *err)
{
    if (is_best(arguments) && !has_time(arguments))
        return lull_error_set(err, -EINVAL,
                              "--schedule best compares orders at one time: choose it with "
                              "--slowdown 0%% or --deadline-ms");
    return 0;
}

/* Checks what no single option can know: which of them request one plan, and which for the
 * frontier. */
static int plan_command_check(void *options, const struct lull_operands *operands,
                              struct lull_error *err)
{
    struct plan_arguments *const arguments = options;
    const bool is_single = has_time(arguments);
    int rc;

    (void)operands;
    if (arguments->verify != NULL)
        return 0;
    rc = check_source(&arguments->source, err);
    if (rc < 0)
        return rc;
    if (arguments->early_ms >= 0.0 && arguments->up_ms < arguments->early_ms)
        return lull_error_set(err, -EINVAL,
                              "--feed-forward: a clock cannot hold earlier than it is requested; "
                              "give --switch-ms DOWN,UP with UP at least as long");
    if (!is_single &&
        (arguments->svg != NULL || arguments->output != NULL || arguments->perseus != NULL))
        return lull_error_set(err, -EINVAL,
                              "a file holds one plan: choose it with --slowdown 0%% or "
                              "--deadline-ms");
    if (!is_single && arguments->waiting != NULL)
        return lull_error_set(err, -EINVAL,
                              "gaps are those of one plan: choose it with --slowdown 0%% or "
                              "--deadline-ms");
    return plan_command_check_order(arguments, err);
}

/* ---- planning ----------------------------------------------------------------------------- */

static int set_waiting(struct plan_arguments *arguments, struct lull_error *err)
{
    double down_ms = arguments->down_ms;
    double up_ms = arguments->up_ms;

    if (arguments->waiting == NULL)
        return 0;
    if (arguments->wake_ms >= 0.0) {
        down_ms = arguments->fall_ms;
        up_ms = arguments->wake_ms;
    }
    return lull_plan_waiting_parse(arguments->waiting, down_ms, up_ms, &arguments->options.waiting,
                                   err);
}

/* A time that was printed has to be taken back, so that it is rounded and not cut off. */
static int64_t nearest_ns(double ms)
{
    return llround(ms * 1e6);
}

/* Sets what the user wants of the plan; a slowdown counts from this task's highest clocks. */
static void set_options(const struct lull_plan_task *task, struct plan_arguments *arguments)
{
    struct lull_plan_options *const options = &arguments->options;

    options->switching.down_ns = lull_ns_from_ms(arguments->down_ms);
    options->switching.up_ns = lull_ns_from_ms(arguments->up_ms);
    options->switching.is_fed_forward = arguments->early_ms >= 0.0;
    options->switching.early_ns =
        options->switching.is_fed_forward ? lull_ns_from_ms(arguments->early_ms) : 0;
    options->switching.call_ns = lull_ns_from_ms(arguments->driver_ms);
    options->switching.drivers = arguments->driver_ms > 0.0 ? (uint32_t)arguments->nodes : 0;
    options->switching.dwell_ns = lull_ns_from_ms(arguments->dwell_ms);
    options->straggler_ns = nearest_ns(arguments->straggler_ms);
    options->deadline_ns = nearest_ns(arguments->deadline_ms);
    if (arguments->slowdown_ratio >= 0.0)
        options->deadline_ns = task->all_max.time_ns +
                               (int64_t)((double)task->all_max.time_ns * arguments->slowdown_ratio);
    if (options->straggler_ns > 0)
        options->deadline_ns = options->straggler_ns;
}

/* Files are written before anything is printed, so that printed results are always in the files. */
static int plan_command_write_files(const struct plan_arguments *arguments,
                                    const struct lull_plan_task *task,
                                    const struct lull_plan_result *result, struct lull_error *err)
{
    const struct lull_plan_single *const single = result->single;
    int code = 0;

    if (arguments->output != NULL)
        code = lull_plan_write(arguments->output, task, &arguments->options, single, err);
    if (code == 0 && arguments->perseus != NULL)
        code = lull_plan_write_perseus(arguments->perseus, task, single, err);
    if (code == 0 && arguments->svg != NULL)
        code = lull_plan_write_picture(arguments->svg, task, &arguments->options, single, err);
    return code;
}

static int plan_command_print(const struct plan_arguments *arguments,
                              const struct lull_plan_task *task,
                              const struct lull_plan_result *result, struct lull_error *err)
{
    if (!arguments->is_json)
        lull_plan_print_text(task, &arguments->options, result);
    else if (lull_plan_print_json(task, &arguments->options, result) < 0)
        return lull_error_set(err, -EIO, "cannot write to standard output");
    return 0;
}

/* Names the order of --schedule best, and the deadline at which it is the best. */
static int choose_order(struct plan_arguments *arguments, const struct lull_plan_profiles *profiles,
                        struct lull_plan_orders *orders, struct lull_error *err)
{
    const struct lull_plan_orders_options options = {
        .memory = arguments->memory,
        .deadline_ns = nearest_ns(arguments->deadline_ms),
        .straggler_ns = nearest_ns(arguments->straggler_ms),
        .slowdown_ratio = arguments->slowdown_ratio};
    const int code = lull_plan_orders_choose(&arguments->source, profiles, &options, orders, err);

    if (code < 0)
        return code;
    arguments->source.schedule = orders->name;
    arguments->options.orders = orders;
    return 0;
}

static int plan_command_build(struct plan_arguments *arguments,
                              const struct lull_plan_profiles *profiles,
                              struct lull_plan_orders *orders, struct lull_plan_task *task,
                              struct lull_error *err)
{
    int code;

    if (is_best(arguments)) {
        code = choose_order(arguments, profiles, orders, err);
        if (code < 0)
            return code;
    }
    code = lull_plan_task_init(&arguments->source, profiles, task, err);
    if (code < 0)
        return code;
    set_options(task, arguments);
    if (arguments->options.orders != NULL)
        arguments->options.deadline_ns = orders->deadline_ns;
    return 0;
}

static int plan_command_solve(const struct plan_arguments *arguments,
                              const struct lull_plan_task *task, struct lull_error *err)
{
    struct lull_plan_result result;
    int code = lull_plan_solve(task, &arguments->options, &result, err);

    if (code < 0)
        return code;
    code = plan_command_write_files(arguments, task, &result, err);
    if (code == 0)
        code = plan_command_print(arguments, task, &result, err);
    lull_plan_result_fini(&result);
    return code;
}

static int plan_command_compute(struct plan_arguments *arguments, struct lull_error *err)
{
    struct lull_plan_profiles profiles;
    struct lull_plan_orders orders = {0};
    struct lull_plan_task task;
    int code = set_waiting(arguments, err);

    if (code < 0)
        return code;
    code = lull_plan_profiles_read(&arguments->source, &profiles, err);
    if (code < 0)
        return code;
    code = plan_command_build(arguments, &profiles, &orders, &task, err);
    if (code == 0) {
        code = plan_command_solve(arguments, &task, err);
        lull_plan_task_fini(&task);
    }
    lull_plan_profiles_fini(&profiles);
    return code;
}

static int plan_command_run(void *options, const struct lull_operands *operands)
{
    struct plan_arguments *const arguments = options;
    struct lull_error err = {0};
    int result;

    (void)operands;
    if (arguments->verify != NULL)
        result = lull_plan_verify(arguments->verify, arguments->source.profile, arguments->is_json,
                                  &err);
    else
        result = plan_command_compute(arguments, &err);
    if (result >= 0)
        return result;
    result = lull_cli_fail("plan", &err);
    return err.code == LULL_E_FORMAT ? LULL_EXIT_FAILED : result; /* a file, not the usage */
}

const struct lull_program_command lull_plan_command = {
    .name = "plan",
    .summary = "plan the clocks of a pipeline: the same time, the least energy",
    .about =
        "Plans the clocks of a pipeline's operations: the same iteration time, or a chosen one, "
        "with the least energy. Times and energies are the measured ones, without a fitted model. "
        "Each plan comes with a proven lower bound on the energy of all plans that are as fast.",
    .after = "Examples:\n"
             "  lull plan --profile gpt3.csv --stages 8 --microbatches 32 --blocking-w 83.64\n"
             "  lull plan --profile gpt3.csv --stages 8 --microbatches 32 --slowdown 0% --output "
             "plan.json\n"
             "  lull plan --verify plan.json",
    .tables = {{rows, 0}},
    .size = sizeof(struct plan_arguments),
    .prepare = plan_command_prepare,
    .check = plan_command_check,
    .run = plan_command_run,
};
