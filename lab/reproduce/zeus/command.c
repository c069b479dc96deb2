/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "base/progress.h"
#include "lab/reproduce/command.h"
#include "lab/reproduce/zeus/replay.h"
#include "simulator/summary.h"

struct zeus_options {
    const char *train;
    const char *power;
    const char *dataset;
    const char *gpu;
    const char *golden;
    const char *svg;
    double eta_ratio;
    double beta_ratio;
    bool has_window;
    uint32_t window; /* if it is not given, each policy keeps its own */
    uint32_t seeds;
    uint64_t first_seed;
    uint32_t recurrences; /* 0: as in the published simulator */
    bool has_target;
    double targets[LULL_COMPARISON_PHASES]; /* of --target, then those of --then */
    uint32_t target_count;
    uint32_t max_epochs;   /* 0: the job's */
    uint32_t default_size; /* 0: the job's */
    bool is_json;
};

/* ---- traces ------------------------------------------------------------------------------- */

static int zeus_command_read_trace(const struct zeus_options *arguments, uint32_t index,
                                   struct lull_batch_trace **trace_out, struct lull_error *err)
{
    struct lull_batch_trace_job job = *lull_batch_trace_find_job(arguments->dataset);

    if (index > 0 || arguments->has_target)
        job.target = arguments->targets[index];
    if (arguments->max_epochs > 0)
        job.max_epochs = arguments->max_epochs;
    if (arguments->default_size > 0)
        job.default_size = arguments->default_size;
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

static int check_golden(const struct zeus_options *arguments, const struct lull_batch_trace *trace,
                        struct lull_error *err)
{
    const struct lull_golden_setting setting = {
        .eta_ratio = arguments->eta_ratio,
        .beta_ratio = arguments->beta_ratio,
        .window = arguments->window,
    };
    struct lull_golden_verdict verdict = {0};
    struct lull_lines *lines = NULL;
    int rc = lull_lines_open(arguments->golden, &lines, err);

    if (rc == 0)
        rc = lull_golden_check(trace, &setting, lines, &verdict, err);
    lull_lines_close(lines);
    if (rc < 0)
        return rc;
    print_verdict(&verdict, arguments->is_json);
    return verdict.mismatches > 0 ? LULL_EXIT_FAILED : LULL_EXIT_OK;
}

/* ---- seeds -------------------------------------------------------------------------------- */

static void fill_policies(const struct zeus_options *arguments, struct lull_replay *replay)
{
    static const char *const names[LULL_REPLAY_POLICIES] = {"zeus", "zeus_window", "lull"};
    const uint32_t zeus_window = 10;

    for (int i = 0; i < LULL_REPLAY_POLICIES; i++) {
        struct lull_zeus_config *config = &replay->policies[i].config;

        replay->policies[i].name = names[i];
        lull_zeus_config_default(config, i < 2);
        config->batch.beta_ratio = arguments->beta_ratio;
        if (i == 1)
            config->batch.window = zeus_window;
        if (i == 2 && arguments->has_window)
            config->batch.window = arguments->window;
    }
}

static int play_policy(struct lull_replay *replay, struct lull_replay_policy *policy,
                       struct lull_error *err)
{
    struct lull_progress progress = lull_progress_begin();
    int rc = 0;

    policy->outcomes = calloc(replay->seed_count, sizeof(*policy->outcomes));
    policy->cost_by_recurrence =
        calloc(replay->comparison.recurrences, sizeof(*policy->cost_by_recurrence));
    if (policy->outcomes == NULL || policy->cost_by_recurrence == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for %u seeds", replay->seed_count);
    for (uint32_t i = 0; i < replay->seed_count && rc == 0; i++) {
        rc = lull_comparison_play(&replay->comparison, &policy->config, replay->first_seed + i,
                                  policy->cost_by_recurrence, &policy->outcomes[i], err);
        if (lull_progress_is_due(&progress))
            lull_progress_draw("%s: %u of %u seeds", policy->name, i + 1, replay->seed_count);
    }
    lull_progress_end(&progress);
    return rc;
}

/* Prints the comparison for users, or as one JSON document. Errors: -ENOMEM. */
static int zeus_command_print(const struct lull_replay *replay, bool is_json,
                              struct lull_error *err)
{
    if (!is_json) {
        lull_replay_print(replay, stdout);
        return 0;
    }
    if (lull_cluster_print_json(lull_replay_json(replay)) < 0)
        return lull_error_set(err, -ENOMEM, "the JSON document could not be written");
    return 0;
}

static int play_seeds(const struct zeus_options *arguments,
                      const struct lull_recurrence_phase *phases, struct lull_error *err)
{
    struct lull_replay replay = {
        .gpu = arguments->gpu,
        .beta_ratio = arguments->beta_ratio,
        .first_seed = arguments->first_seed,
        .seed_count = arguments->seeds,
    };
    int rc = lull_comparison_init(&replay.comparison, phases, arguments->target_count,
                                  arguments->eta_ratio, err);

    fill_policies(arguments, &replay);
    for (int i = 0; i < LULL_REPLAY_POLICIES && rc == 0; i++)
        rc = play_policy(&replay, &replay.policies[i], err);
    if (rc == 0 && arguments->svg != NULL)
        rc = lull_replay_picture_write(arguments->svg, &replay, err);
    if (rc == 0)
        rc = zeus_command_print(&replay, arguments->is_json, err);
    for (int i = 0; i < LULL_REPLAY_POLICIES; i++) {
        free(replay.policies[i].outcomes);
        free(replay.policies[i].cost_by_recurrence);
    }
    return rc;
}

static int replay_traces(const struct zeus_options *arguments, struct lull_batch_trace **traces,
                         struct lull_error *err)
{
    struct lull_recurrence_phase phases[LULL_COMPARISON_PHASES];

    for (uint32_t i = 0; i < arguments->target_count; i++) {
        const int rc = zeus_command_read_trace(arguments, i, &traces[i], err);

        if (rc < 0)
            return rc;
        phases[i].trace = traces[i];
        phases[i].recurrences = arguments->recurrences;
        if (arguments->recurrences == 0)
            phases[i].recurrences = lull_recurrence_count(traces[i]);
    }
    if (arguments->golden != NULL)
        return check_golden(arguments, traces[0], err);
    return play_seeds(arguments, phases, err);
}

/* ---- the command line --------------------------------------------------------------------- */

static int zeus_command_parse_beta(const char *text, void *beta_ratio, struct lull_error *err)
{
    (void)err;
    return lull_text_parse_at_least(text, 1.0, beta_ratio);
}

static int parse_then(const char *text, void *place, struct lull_error *err)
{
    struct zeus_options *const options = place;

    if (options->target_count == LULL_COMPARISON_PHASES)
        return lull_error_set(err, -E2BIG, "a job drifts %d times at most",
                              LULL_COMPARISON_PHASES - 1);
    if (lull_text_parse_number(text, &options->targets[options->target_count]) < 0)
        return -EINVAL;
    options->target_count++;
    return 0;
}

static const char *const datasets[] = {"cifar100",     "imagenet",     "squad", "librispeech",
                                       "movielens-1m", "sentiment140", NULL};

static const struct lull_option rows[] = {
    LULL_VALUE("train", "FILE", TEXT, struct zeus_options, train,
               "Recorded training: after how many epochs a repetition reached a target (CSV).",
               .hint = LULL_OPTION_FILE, .is_required = true,
               .more = "Columns: dataset, network, batch_size, optimizer, learning_rate, run, "
                       "target_metric and target_epoch (nan: never)."),
    LULL_VALUE("power", "FILE", TEXT, struct zeus_options, power,
               "Recorded time and power of an epoch at each power limit (CSV).",
               .hint = LULL_OPTION_FILE, .is_required = true,
               .more = "Columns: dataset, network, batch_size, optimizer, power_limit (W), "
                       "time_per_epoch (s) and average_power (W)."),
    LULL_VALUE("dataset", "NAME", TEXT, struct zeus_options, dataset,
               "The job: cifar100, imagenet, squad, librispeech, movielens-1m or sentiment140.",
               .words = datasets, .is_required = true,
               .more = "Each has the network, optimizer, target, most epochs and default size of "
                       "the Zeus paper."),
    LULL_VALUE("gpu", "NAME", TEXT, struct zeus_options, gpu,
               "The GPU that the power was recorded on: a label of the output.",
               .default_value = ""),
    LULL_VALUE("eta", "RATIO", RATIO, struct zeus_options, eta_ratio,
               "The weight of energy against time; 1: only energy, 0: only time.",
               .default_value = "0.5"),
    LULL_VALUE("beta", "X", OWN, struct zeus_options, beta_ratio,
               "Stop a run that costs X times the least cost that is known; inf: never.",
               .parse = zeus_command_parse_beta, .expected = "a number from 1 on, or inf",
               .default_value = "2"),
    LULL_VALUE("window", "N", WHOLE, struct zeus_options, window,
               "Only the last N results of each size count; 0: all of them.",
               LULL_GIVEN(struct zeus_options, has_window), .most = 1000000,
               .otherwise = "20 for Lull's policy, 0 with --golden"),
    LULL_VALUE("golden", "FILE", TEXT, struct zeus_options, golden,
               "Take a recorded series of Zeus's policy again, each random draw from FILE, and "
               "compare every decision and number (1e-9 relative).",
               .hint = LULL_OPTION_FILE, .excludes = "then|svg",
               .more = "It prints how many steps differ; the status is 1 if any does."),
    LULL_VALUE("seeds", "N", WHOLE, struct zeus_options, seeds, "Play N series, one seed each.",
               .least = 1, .most = 100000, .default_value = "30"),
    LULL_VALUE("first-seed", "N", WHOLE, struct zeus_options, first_seed,
               "Seed of the first series.", .most = 0x1p62, .default_value = "1"),
    LULL_VALUE("recurrences", "N", WHOLE, struct zeus_options, recurrences,
               "How often the job recurs at each target.", .least = 1, .most = 100000,
               .otherwise = "twice the number of sizes times that of limits"),
    LULL_VALUE("target", "X", NUMBER, struct zeus_options, targets[0],
               "Another target metric than the job's.", LULL_GIVEN(struct zeus_options, has_target),
               .least = -INFINITY, .expected = "a number"),
    LULL_OWN("then", "X", parse_then,
             "Then the job drifts to target X; may be given up to seven times.",
             .expected = "a number"),
    LULL_VALUE("max-epochs", "N", WHOLE, struct zeus_options, max_epochs,
               "A run has failed after N epochs.", .least = 1, .most = 1000000,
               .otherwise = "the job's"),
    LULL_VALUE("default-size", "N", WHOLE, struct zeus_options, default_size,
               "The batch size that the job uses today.", .least = 1, .otherwise = "the job's"),
    LULL_VALUE("svg", "FILE", TEXT, struct zeus_options, svg,
               "Draw the mean cost over the recurrences, beside an oracle.",
               .hint = LULL_OPTION_FILE),
    LULL_JSON_ROW(struct zeus_options, is_json),
    {0},
};

_Static_assert(LULL_COMPARISON_PHASES == 8, "the help of --then names the number less one");

static void zeus_command_prepare(void *options)
{
    ((struct zeus_options *)options)->target_count = 1;
}

static int zeus_command_run(void *options, const struct lull_operands *operands)
{
    struct lull_batch_trace *traces[LULL_COMPARISON_PHASES] = {NULL};
    struct lull_error err = {0};
    const int rc = replay_traces(options, traces, &err);

    (void)operands;
    for (uint32_t i = 0; i < LULL_COMPARISON_PHASES; i++)
        lull_batch_trace_destroy(traces[i]);
    return rc < 0 ? lull_program_fail("lull-reproduce zeus", &err) : rc;
}

const struct lull_program_command lull_zeus_command = {
    .name = "zeus",
    .summary = "the search for a batch size, on recorded training (NSDI 2023)",
    .about = "Holds the search for a batch size against recorded training: what Zeus's policy and "
             "Lull's save on the same draws, or a recorded series step by step.",
    .tables = {{rows, 0}},
    .size = sizeof(struct zeus_options),
    .prepare = zeus_command_prepare,
    .run = zeus_command_run,
};
