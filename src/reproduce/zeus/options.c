/* SPDX-License-Identifier: Apache-2.0 */
#include "reproduce/zeus/options.h"

#include <argp.h>
#include <errno.h>
#include <string.h>

#include "base/text.h"

enum {
    KEY_TRAIN = 256,
    KEY_POWER,
    KEY_DATASET,
    KEY_GPU,
    KEY_GOLDEN,
    KEY_WINDOW,
    KEY_SEEDS,
    KEY_FIRST,
    KEY_TARGET,
    KEY_MOST,
    KEY_DEFAULT,
    KEY_RECURRENCES,
    KEY_THEN,
    KEY_SVG,
    KEY_ETA,
    KEY_BETA
};

static const struct argp_option options[] = {
    {"train", KEY_TRAIN, "FILE", 0, "Recorded training: epochs to the target (CSV)", 0},
    {"power", KEY_POWER, "FILE", 0, "Recorded time and power per epoch and power limit (CSV)", 0},
    {"dataset", KEY_DATASET, "NAME", 0,
     "Job: cifar100, imagenet, squad, librispeech, movielens-1m or sentiment140", 0},
    {"gpu", KEY_GPU, "NAME", 0, "The GPU that the power was recorded on; a label of the output", 0},
    {"eta", KEY_ETA, "RATIO", 0, "Weight of energy against time (0.5)", 0},
    {"beta", KEY_BETA, "X", 0, "Runs stop at X times the least cost; inf: never (2)", 0},
    {"window", KEY_WINDOW, "N", 0,
     "Only the last N results of each size count, 0: all (20; with --golden 0)", 0},
    {"golden", KEY_GOLDEN, "FILE", 0,
     "Take a recorded series again, each random draw from FILE; status 1 if a step differs", 0},
    {"seeds", KEY_SEEDS, "N", 0, "Play N series, one seed each (30)", 0},
    {"first-seed", KEY_FIRST, "N", 0, "Seed of the first series (1)", 0},
    {"recurrences", KEY_RECURRENCES, "N", 0,
     "Recurrences of each target (twice the sizes times the limits)", 0},
    {"target", KEY_TARGET, "X", 0, "Another target metric than the job's", 0},
    {"then", KEY_THEN, "X", 0, "Then the job drifts to target X; may be given again", 0},
    {"max-epochs", KEY_MOST, "N", 0, "A run has failed after N epochs (the job's)", 0},
    {"default-size", KEY_DEFAULT, "N", 0, "Batch size that the job uses today (the job's)", 0},
    {"svg", KEY_SVG, "FILE", 0, "Draw the cost over the recurrences", 0},
    {"json", 'j', NULL, 0, "Print one JSON document", 0},
    {0},
};

static int parse_target(const char *text, bool is_first, struct lull_replay_options *arguments)
{
    double target;

    if (lull_text_parse_number(text, &target) < 0)
        return -EINVAL;
    if (is_first) {
        arguments->targets[0] = target;
        arguments->has_target = true;
        return 0;
    }
    if (arguments->target_count == LULL_COMPARISON_PHASES)
        return -E2BIG;
    arguments->targets[arguments->target_count++] = target;
    return 0;
}

static int parse_value(int key, char *arg, struct lull_replay_options *arguments)
{
    switch (key) {
    case KEY_ETA:
        return lull_text_parse_ratio(arg, &arguments->eta_ratio);
    case KEY_BETA:
        return lull_text_parse_at_least(arg, 1.0, &arguments->beta_ratio);
    case KEY_WINDOW:
        return lull_text_parse_int(arg, 0, 1000000, &arguments->window);
    case KEY_SEEDS:
        return lull_text_parse_int(arg, 1, 100000, &arguments->seeds);
    case KEY_FIRST:
        return lull_text_parse_int(arg, 0, INT64_MAX / 2, &arguments->first_seed);
    case KEY_RECURRENCES:
        return lull_text_parse_int(arg, 1, 100000, &arguments->recurrences);
    case KEY_TARGET:
    case KEY_THEN:
        return parse_target(arg, key == KEY_TARGET, arguments);
    case KEY_MOST:
        return lull_text_parse_int(arg, 1, 1000000, &arguments->max_epochs);
    case KEY_DEFAULT:
        return lull_text_parse_int(arg, 1, UINT32_MAX, &arguments->default_size);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void check_arguments(const struct lull_replay_options *arguments, struct argp_state *state)
{
    if (arguments->train == NULL || arguments->power == NULL || arguments->dataset == NULL)
        argp_error(state, "give --train, --power and --dataset");
    if (lull_batch_trace_find_job(arguments->dataset) == NULL)
        argp_error(state, "there is no recorded job %s; see --help", arguments->dataset);
    if (arguments->golden != NULL && (arguments->target_count > 1 || arguments->svg != NULL))
        argp_error(state, "--golden goes with neither --then nor --svg");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct lull_replay_options *arguments = state->input;
    int result;

    switch (key) {
    case KEY_TRAIN:
        arguments->train = arg;
        return 0;
    case KEY_POWER:
        arguments->power = arg;
        return 0;
    case KEY_DATASET:
        arguments->dataset = arg;
        return 0;
    case KEY_GPU:
        arguments->gpu = arg;
        return 0;
    case KEY_GOLDEN:
        arguments->golden = arg;
        return 0;
    case KEY_SVG:
        arguments->svg = arg;
        return 0;
    case 'j':
        arguments->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "%s: this command takes options only", arg);
        return 0;
    case ARGP_KEY_END:
        check_arguments(arguments, state);
        return 0;
    default:
        break;
    }
    result = parse_value(key, arg, arguments);
    if (result == ARGP_ERR_UNKNOWN)
        return ARGP_ERR_UNKNOWN;
    if (result < 0)
        argp_error(state, "%s is not a usable value", arg);
    return 0;
}

void lull_replay_options_parse(int argc, char **argv, struct lull_replay_options *options_out)
{
    const struct argp parser = {
        .options = options,
        .parser = parse_option,
        .doc =
            "Holds the batch-size search against recorded training: what Zeus's policy and Lull's "
            "save on the same draws, or a recorded series step by step.",
    };

    *options_out = (struct lull_replay_options){
        .gpu = "",
        .eta_ratio = 0.5,
        .beta_ratio = 2.0,
        .window = -1,
        .seeds = 30,
        .first_seed = 1,
        .target_count = 1,
    };
    argp_parse(&parser, argc, argv, 0, NULL, options_out);
}
