/* SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/batch/batch.h"
#include "cli/batch/replay.h"
#include "cli/command.h"

enum {
    KEY_TRAIN = 256,
    KEY_POWER,
    KEY_DATASET,
    KEY_GPU,
    KEY_ETA,
    KEY_BETA,
    KEY_GOLDEN,
    KEY_WINDOW,
    KEY_SEEDS,
    KEY_FIRST,
    KEY_TARGET,
    KEY_MOST,
    KEY_DEFAULT,
    KEY_RECURRENCES,
    KEY_THEN,
    KEY_SVG
};

struct arguments {
    const char *train;
    const char *power;
    const char *dataset;
    const char *gpu;
    const char *golden;
    const char *svg;
    double eta_ratio;
    double beta_ratio;
    int64_t window; /* below 0: as each policy has it */
    int64_t seeds;
    int64_t first_seed;
    int64_t recurrences; /* 0: as many as were published */
    bool has_target;
    double targets[LULL_COMPARISON_PHASES]; /* the first, and those of --then */
    uint32_t target_count;
    int64_t max_epochs;   /* 0: the job's */
    int64_t default_size; /* 0: the job's */
    bool is_json;
};

static const struct argp_option options[] = {
    {"train", KEY_TRAIN, "FILE", 0, "Recorded training: epochs to the target (CSV)", 0},
    {"power", KEY_POWER, "FILE", 0, "Recorded time and power per epoch and power limit (CSV)", 0},
    {"dataset", KEY_DATASET, "NAME", 0,
     "Job: cifar100, imagenet, squad, librispeech, movielens-1m or sentiment140", 0},
    {"gpu", KEY_GPU, "NAME", 0, "What GPU the power was recorded on; a label of the output", 0},
    {"eta", KEY_ETA, "RATIO", 0, "Weight of energy against time (0.5)", 0},
    {"beta", KEY_BETA, "X", 0, "Runs stop at X times the least cost; inf: never (2)", 0},
    {"window", KEY_WINDOW, "N", 0,
     "Last results of each size that count, 0: all (20; with --golden 0)", 0},
    {"golden", KEY_GOLDEN, "FILE", 0,
     "Take a recorded series again, each random draw from FILE; status 1 if a step differs", 0},
    {"seeds", KEY_SEEDS, "N", 0, "Series to play, one seed each (30)", 0},
    {"first-seed", KEY_FIRST, "N", 0, "The first seed (1)", 0},
    {"recurrences", KEY_RECURRENCES, "N", 0,
     "Recurrences of each target (twice the sizes times the limits)", 0},
    {"target", KEY_TARGET, "X", 0, "Target metric (the job's)", 0},
    {"then", KEY_THEN, "X", 0, "Then the job drifts to target X; may be given again", 0},
    {"max-epochs", KEY_MOST, "N", 0, "Epochs after which a run has failed (the job's)", 0},
    {"default-size", KEY_DEFAULT, "N", 0, "Batch size that the job uses today (the job's)", 0},
    {"svg", KEY_SVG, "FILE", 0, "Draw the cost over the recurrences", 0},
    {"json", 'j', NULL, 0, "Print one JSON document", 0},
    {0},
};

static int parse_beta(const char *text, double *beta_out)
{
    double beta = INFINITY;

    if (strcmp(text, "inf") != 0 && lull_text_parse_number(text, &beta) < 0)
        return -EINVAL;
    if (!(beta >= 1.0))
        return -EINVAL;
    *beta_out = beta;
    return 0;
}

static int parse_target(const char *text, bool is_first, struct arguments *arguments)
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

static int parse_value(int key, char *arg, struct arguments *arguments)
{
    switch (key) {
    case KEY_ETA:
        return lull_text_parse_ratio(arg, &arguments->eta_ratio);
    case KEY_BETA:
        return parse_beta(arg, &arguments->beta_ratio);
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

static void check_arguments(const struct arguments *arguments, struct argp_state *state)
{
    if (arguments->train == NULL || arguments->power == NULL || arguments->dataset == NULL)
        argp_error(state, "give --train, --power and --dataset");
    if (lull_batch_trace_find_job(arguments->dataset) == NULL)
        argp_error(state, "%s: no known job; see --help", arguments->dataset);
    if (arguments->golden != NULL && (arguments->target_count > 1 || arguments->svg != NULL))
        argp_error(state, "--golden goes with neither --then nor --svg");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct arguments *arguments = state->input;
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
        argp_error(state, "%s: this command takes no arguments", arg);
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
        argp_error(state, "%s: not a usable value", arg);
    return 0;
}

/* ---- traces ------------------------------------------------------------------------------- */

static int read_trace(const struct arguments *arguments, uint32_t index,
                      struct lull_batch_trace **trace_out, struct lull_error *err)
{
    struct lull_batch_trace_job job = *lull_batch_trace_find_job(arguments->dataset);

    if (index > 0 || arguments->has_target)
        job.target = arguments->targets[index];
    if (arguments->max_epochs > 0)
        job.max_epochs = (uint32_t)arguments->max_epochs;
    if (arguments->default_size > 0)
        job.default_size = (uint32_t)arguments->default_size;
    return lull_batch_trace_read(&job, arguments->train, arguments->power, trace_out, err);
}

/* ---- golden ------------------------------------------------------------------------------- */

static void print_verdict(const struct lull_golden_verdict *verdict, bool is_json)
{
    if (is_json) {
        printf("{\"steps\": %u, \"mismatches\": %u, \"max_relative_error\": %.3g}\n",
               verdict->steps, verdict->mismatches, verdict->max_relative_error);
        return;
    }
    printf("%u steps, %u mismatches, largest relative error %.3g\n", verdict->steps,
           verdict->mismatches, verdict->max_relative_error);
    if (verdict->mismatches > 0)
        printf("first: step %u, %s\n", verdict->first_mismatch, verdict->first_what);
}

static int check_golden(const struct arguments *arguments, const struct lull_batch_trace *trace,
                        struct lull_error *err)
{
    const struct lull_golden_setting setting = {
        .eta_ratio = arguments->eta_ratio,
        .beta_ratio = arguments->beta_ratio,
        .window = arguments->window < 0 ? 0 : (uint32_t)arguments->window,
    };
    struct lull_golden_verdict verdict;
    struct lull_lines *lines = NULL;
    int rc = lull_lines_open(arguments->golden, &lines, err);

    if (rc == 0)
        rc = lull_golden_check(trace, &setting, lines, &verdict, err);
    lull_lines_close(lines);
    if (rc < 0)
        return lull_cli_fail("batch replay", err);
    print_verdict(&verdict, arguments->is_json);
    return verdict.mismatches > 0 ? LULL_EXIT_FAILED : LULL_EXIT_OK;
}

/* ---- seeds -------------------------------------------------------------------------------- */

static void fill_policies(const struct arguments *arguments, struct lull_replay *replay)
{
    static const char *const names[LULL_REPLAY_POLICIES] = {"zeus", "zeus_window", "lull"};
    const uint32_t zeus_window = 10;

    for (int i = 0; i < LULL_REPLAY_POLICIES; i++) {
        struct lull_batch_config *config = &replay->policies[i].config;

        replay->policies[i].name = names[i];
        lull_batch_config_default(config);
        config->beta_ratio = arguments->beta_ratio;
        if (i < 2)
            lull_batch_config_publish(config);
        if (i == 1)
            config->window = zeus_window;
        if (i == 2 && arguments->window >= 0)
            config->window = (uint32_t)arguments->window;
    }
}

static void show_progress(int64_t begun_ns, const char *name, uint32_t done, uint32_t all)
{
    const int64_t patience_ns = 2 * LULL_NS_PER_S;

    if (lull_now_ns() - begun_ns < patience_ns || !isatty(STDERR_FILENO))
        return;
    if (done == all)
        fprintf(stderr, "\r\033[K");
    else
        fprintf(stderr, "\r%s: %u of %u seeds", name, done, all);
}

static int play_policy(struct lull_replay *replay, struct lull_replay_policy *policy,
                       struct lull_error *err)
{
    const int64_t begun_ns = lull_now_ns();

    policy->outcomes = calloc(replay->seed_count, sizeof(*policy->outcomes));
    policy->cost_by_recurrence =
        calloc(replay->comparison.recurrences, sizeof(*policy->cost_by_recurrence));
    if (policy->outcomes == NULL || policy->cost_by_recurrence == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %u seeds", replay->seed_count);
    for (uint32_t i = 0; i < replay->seed_count; i++) {
        const int rc =
            lull_comparison_play(&replay->comparison, &policy->config, replay->first_seed + i,
                                 policy->cost_by_recurrence, &policy->outcomes[i], err);

        if (rc < 0)
            return rc;
        show_progress(begun_ns, policy->name, i + 1, replay->seed_count);
    }
    return 0;
}

static int print_json(const struct lull_replay *replay, struct lull_error *err)
{
    json_t *root = lull_replay_json(replay);
    int rc = 0;

    if (root == NULL || json_dumpf(root, stdout, JSON_INDENT(2)) < 0)
        rc = lull_error_set(err, -ENOMEM, "the JSON document could not be written");
    else
        putchar('\n');
    json_decref(root);
    return rc;
}

static int play_seeds(const struct arguments *arguments, const struct lull_recurrence_phase *phases,
                      struct lull_error *err)
{
    struct lull_replay replay = {
        .gpu = arguments->gpu,
        .beta_ratio = arguments->beta_ratio,
        .first_seed = (uint64_t)arguments->first_seed,
        .seed_count = (uint32_t)arguments->seeds,
    };
    int rc = lull_comparison_init(&replay.comparison, phases, arguments->target_count,
                                  arguments->eta_ratio, err);

    fill_policies(arguments, &replay);
    for (int i = 0; i < LULL_REPLAY_POLICIES && rc == 0; i++)
        rc = play_policy(&replay, &replay.policies[i], err);
    if (rc == 0 && arguments->svg != NULL)
        rc = lull_replay_picture_write(arguments->svg, &replay, err);
    if (rc == 0 && arguments->is_json)
        rc = print_json(&replay, err);
    else if (rc == 0)
        lull_replay_print(&replay, stdout);
    for (int i = 0; i < LULL_REPLAY_POLICIES; i++) {
        free(replay.policies[i].outcomes);
        free(replay.policies[i].cost_by_recurrence);
    }
    return rc < 0 ? lull_cli_fail("batch replay", err) : LULL_EXIT_OK;
}

static int replay_traces(const struct arguments *arguments, struct lull_batch_trace **traces,
                         struct lull_error *err)
{
    struct lull_recurrence_phase phases[LULL_COMPARISON_PHASES];

    for (uint32_t i = 0; i < arguments->target_count; i++) {
        const int rc = read_trace(arguments, i, &traces[i], err);

        if (rc < 0)
            return lull_cli_fail("batch replay", err);
        phases[i].trace = traces[i];
        phases[i].recurrences = arguments->recurrences > 0 ? (uint32_t)arguments->recurrences
                                                           : lull_recurrence_count(traces[i]);
    }
    if (arguments->golden != NULL)
        return check_golden(arguments, traces[0], err);
    return play_seeds(arguments, phases, err);
}

int lull_batch_replay_main(int argc, char **argv)
{
    const struct argp parser = {
        .options = options,
        .parser = parse_option,
        .doc =
            "Holds the batch-size search against recorded training: what Zeus's policy and Lull's "
            "save on the same draws, or a recorded series step by step.",
    };
    struct arguments arguments = {
        .eta_ratio = 0.5,
        .beta_ratio = 2.0,
        .window = -1,
        .seeds = 30,
        .first_seed = 1,
        .target_count = 1,
        .gpu = "",
    };
    struct lull_batch_trace *traces[LULL_COMPARISON_PHASES] = {NULL};
    struct lull_error err = {0};
    int status;

    argp_parse(&parser, argc, argv, 0, NULL, &arguments);
    status = replay_traces(&arguments, traces, &err);
    for (uint32_t i = 0; i < LULL_COMPARISON_PHASES; i++)
        lull_batch_trace_destroy(traces[i]);
    return status;
}
