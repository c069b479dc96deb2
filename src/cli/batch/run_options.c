/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/batch/run_options.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/batch/weights.h"

enum {
    KEY_JOB = 256,
    KEY_SIZES,
    KEY_DEFAULT,
    KEY_METRIC,
    KEY_TARGET,
    KEY_LOWER,
    KEY_EPOCHS,
    KEY_SEED,
    KEY_RATE,
    KEY_RULE,
    KEY_GRACE,
    KEY_TRIES,
    KEY_STORE,
};

static const struct argp_option options[] = {
    {"job", KEY_JOB, "NAME", 0, "What the runs of this job are known by", 0},
    {"sizes", KEY_SIZES, "N,N,...", 0, "Batch sizes to choose from, ascending", 0},
    {"default-size", KEY_DEFAULT, "N", 0, "What the job uses today (the first of --sizes)", 0},
    {"metric", KEY_METRIC, "REGEX", 0,
     "POSIX extended; its one group is the metric in a line of output", 0},
    {"target", KEY_TARGET, "X", 0, "The run is done when the metric is X or better", 0},
    {"lower-is-better", KEY_LOWER, NULL, 0, "Of the metric, as of a loss", 0},
    {"epochs-max", KEY_EPOCHS, "N", 0, "Stop after the metric was seen N times (never)", 0},
    LULL_BATCH_WEIGHT_OPTIONS,
    {"seed", KEY_SEED, "N", 0, "Of the search's random draws (follows from NAME)", 0},
    {"lr", KEY_RATE, "X", 0, "Learning rate at the default size; {lr} becomes the scaled one", 0},
    {"lr-rule", KEY_RULE, "HOW", 0,
     "sqrt (of the batch size, for Adam) or linear (for SGD): how {lr} follows it", 0},
    {"grace", KEY_GRACE, "S", 0, "Between SIGTERM and SIGKILL when a run is stopped (30)", 0},
    {"tries", KEY_TRIES, "N", 0, "Repeat a run that missed the target, N runs at most (3)", 0},
    {"store", KEY_STORE, "WHERE", 0,
     "Directory, or postgresql://... to share a job between nodes (default: $LULL_BATCH_STORE or "
     "the state directory)",
     0},
    {"quiet", 'q', NULL, 0, "Say nothing but warnings and errors", 0},
    {0},
};

static const char doc[] =
    "Runs COMMAND, a job that comes again and again, with the batch size that is thought best or "
    "worth a try, and learns from what it costs.\v"
    "In COMMAND {batch} becomes the batch size, {lr} the learning rate. Its output passes through "
    "unchanged. It is stopped when the metric reaches the target or its cost exceeds the bound; a "
    "run that missed the target is repeated.\n\n"
    "Example:\n"
    "  lull batch run --job nightly --sizes 32,64,128 --metric 'val_acc=([0-9.]+)' "
    "--target 0.93 -- python train.py --batch-size {batch}";

struct arguments {
    struct lull_batch_run_options *options;
    bool has_rule;
    bool has_seed;
};

static void parse_sizes(char *text, struct lull_batch_job *job, struct argp_state *state)
{
    char *rest = NULL;

    job->size_count = 0;
    for (char *word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        int64_t size;

        if (lull_text_parse_int(word, 1, UINT32_MAX, &size) < 0)
            argp_error(state, "--sizes: %s is no batch size", word);
        if (job->size_count == LULL_BATCH_SIZES)
            argp_error(state, "--sizes: %d at most", LULL_BATCH_SIZES);
        if (job->size_count > 0 && size == job->sizes[job->size_count - 1])
            argp_error(state, "--sizes: %s is there twice", word);
        if (job->size_count > 0 && size < job->sizes[job->size_count - 1])
            argp_error(state, "--sizes: give them ascending; %s comes after %u", word,
                       job->sizes[job->size_count - 1]);
        job->sizes[job->size_count++] = (uint32_t)size;
    }
    if (job->size_count == 0)
        argp_error(state, "--sizes: give at least one batch size");
}

static void parse_metric(const char *text, struct lull_batch_run_options *out,
                         struct argp_state *state)
{
    struct lull_metric *metric = NULL;
    struct lull_error err;

    if (lull_metric_create(text, &metric, &err) < 0)
        argp_error(state, "--metric: %s", err.text);
    out->pattern = text;
    out->attempt.metric = metric;
}

static int parse_number(const char *text, double least, double *value_out)
{
    double value;

    if (lull_text_parse_number(text, &value) < 0 || value < least)
        return -EINVAL;
    *value_out = value;
    return 0;
}

static int parse_value(int key, char *arg, struct arguments *arguments)
{
    struct lull_batch_run_options *out = arguments->options;
    int64_t number = 0;
    double value = 0.0;
    int result = 0;

    switch (key) {
    case KEY_DEFAULT:
        result = lull_text_parse_int(arg, 1, UINT32_MAX, &number);
        out->job.default_size = (uint32_t)number;
        return result;
    case KEY_TARGET:
        return lull_text_parse_number(arg, &out->attempt.target);
    case KEY_EPOCHS:
        result = lull_text_parse_int(arg, 1, UINT32_MAX, &number);
        out->attempt.max_epochs = (uint32_t)number;
        return result;
    case LULL_BATCH_KEY_ETA:
    case LULL_BATCH_KEY_BETA:
        return lull_batch_weights_parse(key, arg, &out->job.price.eta_ratio, &out->job.beta_ratio);
    case KEY_SEED:
        result = lull_text_parse_int(arg, 0, INT64_MAX, &number);
        out->job.seed = (uint64_t)number;
        arguments->has_seed = true;
        return result;
    case KEY_RATE:
        return parse_number(arg, 1e-300, &out->rate);
    case KEY_RULE:
        arguments->has_rule = true;
        out->rule = strcmp(arg, "linear") == 0 ? LULL_RATE_LINEAR : LULL_RATE_SQRT;
        return strcmp(arg, "linear") == 0 || strcmp(arg, "sqrt") == 0 ? 0 : -EINVAL;
    case KEY_GRACE:
        result = parse_number(arg, 0.0, &value);
        if (result == 0 && value > 86400.0)
            return -EINVAL;
        out->attempt.grace_ns = (int64_t)(value * 1e9);
        return result;
    case KEY_TRIES:
        return lull_text_parse_int(arg, 1, LULL_BATCH_TRIES, &out->tries);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void check_command(struct arguments *arguments, struct argp_state *state)
{
    const struct lull_batch_run_options *out = arguments->options;
    const bool has_place = lull_arguments_have(out->command, "{lr}");

    if (!lull_arguments_have(out->command, "{batch}"))
        argp_error(state, "the command nowhere says {batch}, the place of the batch size");
    if (has_place != isfinite(out->rate) || (has_place && !arguments->has_rule))
        argp_error(state, "{lr} in the command, --lr and --lr-rule go together");
}

static void check_arguments(struct arguments *arguments, struct argp_state *state)
{
    struct lull_batch_run_options *out = arguments->options;
    struct lull_batch_job *job = &out->job;
    bool has_default = false;

    if (out->command == NULL)
        argp_error(state, "no command; give it after --");
    if (job->name[0] == '\0' || job->size_count == 0 || out->pattern == NULL ||
        isnan(out->attempt.target))
        argp_error(state, "give --job, --sizes, --metric and --target");
    check_command(arguments, state);
    if (job->default_size == 0)
        job->default_size = job->sizes[0];
    for (size_t i = 0; i < job->size_count; i++)
        has_default |= job->sizes[i] == job->default_size;
    if (!has_default)
        argp_error(state, "--default-size: %u is not among --sizes", job->default_size);
    if (!arguments->has_seed)
        job->seed = lull_text_hash(job->name);
    out->store = lull_batch_store_location(out->store);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    struct lull_batch_run_options *out = arguments->options;
    int result;

    switch (key) {
    case KEY_JOB:
        if (arg[0] == '\0' || strlen(arg) >= sizeof(out->job.name))
            argp_error(state, "--job: give a name of 1 to %d bytes", LULL_BATCH_JOB_NAME_BYTES - 1);
        snprintf(out->job.name, sizeof(out->job.name), "%s", arg);
        return 0;
    case KEY_SIZES:
        parse_sizes(arg, &out->job, state);
        return 0;
    case KEY_METRIC:
        parse_metric(arg, out, state);
        return 0;
    case KEY_LOWER:
        out->attempt.is_lower_better = true;
        return 0;
    case KEY_STORE:
        out->store = arg;
        return 0;
    case 'q':
        out->is_quiet = true;
        return 0;
    case ARGP_KEY_ARGS:
        out->command = state->argv + state->next;
        return 0;
    case ARGP_KEY_END:
        check_arguments(arguments, state);
        return 0;
    default:
        break;
    }
    result = parse_value(key, arg, arguments);
    if (result != 0 && result != ARGP_ERR_UNKNOWN)
        argp_error(state, "%s: not a usable value", arg);
    return result;
}

const char *lull_batch_store_location(const char *given)
{
    const char *location = given != NULL ? given : getenv("LULL_BATCH_STORE");

    return location != NULL && location[0] != '\0' ? location : NULL;
}

void lull_batch_run_options_parse(int argc, char **argv, struct lull_batch_run_options *options_out)
{
    const struct argp parser = {
        .options = options, .parser = parse_option, .args_doc = "-- COMMAND", .doc = doc};
    struct arguments arguments = {.options = options_out};

    *options_out = (struct lull_batch_run_options){
        .job = {.price = {.eta_ratio = LULL_BATCH_ETA}, .beta_ratio = LULL_BATCH_BETA},
        .rate = NAN,
        .tries = 3,
        .attempt = {.target = NAN, .grace_ns = 30 * LULL_NS_PER_S},
    };
    argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &arguments);
}
