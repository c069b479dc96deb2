/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "cli/play/pipeline.h"
#include "cli/play/profile.h"
#include "cli/play/server/server.h"
#include "cli/play/source.h"
#include "cli/trace_notes.h"
#include "emulator/oracle_play.h"
#include "emulator/player/run.h"

/* The fields that the options of a pipeline fill. */
struct pipeline_arguments {
    struct lull_play_pipeline pipeline;
    bool is_given;       /* --schedule was given */
    const char *measure; /* the file for a profile, which is written instead of playing; null: the
                            pipeline is played */
    char kernels[64];    /* the text that pipeline.forward_kernels and backward_kernels point to */
};

struct play_arguments {
    struct lull_play_source source;
    struct pipeline_arguments pipeline;
    struct lull_play_server server;
    uint64_t iterations;
    double seconds; /* 0: iterations count */
    bool is_json;
    /* The following members are for the oracle and for --measure. */
    bool is_oracle;
    const struct lull_gpu_model *model;
    double call_ms; /* below 0: the model's latencies */
    double settle_ms;
    double tolerance_ratio;
    double heat_w;
    uint32_t stride;
};

/* ---- the command line --------------------------------------------------------------------- */

static const struct lull_option rows[] = {
    LULL_PLAY_PRESET_ROW(struct play_arguments, source.preset),
    LULL_PLAY_RANKS_ROW(struct play_arguments, source.ranks),
    LULL_CLI_COMM_KERNELS_ROW(struct play_arguments, source.kernels_text),
    LULL_VALUE("iterations", "N", WHOLE, struct play_arguments, iterations,
               "Play at least this many iterations, in whole periods.", .least = 1,
               .most = INT32_MAX, .default_value = "50", .excludes = "seconds"),
    LULL_VALUE("seconds", "S", NUMBER, struct play_arguments, seconds,
               "Play as many periods as take this long at the highest clock.", .is_open = true),
    LULL_VALUE("jitter", "RATIO", RATIO, struct play_arguments, source.jitter_ratio,
               "How much the length of a rank's computation varies between periods.",
               .otherwise = "the preset's own; traces have none"),
    LULL_JSON_ROW(struct play_arguments, is_json),
    LULL_GROUP("Upper bounds on savings, in virtual time"),
    LULL_FLAG(
        "oracle", struct play_arguments, is_oracle,
        "Compute the savings of perfect foresight instead of playing. Needs no emulated node.",
        .excludes = "measure",
        .more =
            "It prints time and energy of a period at the highest clock; with each gap (a time "
            "without a compute kernel on a GPU) at its best clock, switched to at once; the same "
            "with the driver's latencies, where gaps that do not pay stay high; and at the best "
            "steady clock."),
    LULL_CLI_MODEL_ROW(struct play_arguments, model, "The GPU model of all ranks.",
                       .default_value = "A100-SXM4-40GB", .needs = "oracle|measure"),
    LULL_CLI_TOLERANCE_ROW(struct play_arguments, tolerance_ratio, .needs = "oracle"),
    LULL_CLI_CALL_SETTLE_ROW(struct play_arguments, call_ms, .needs = "oracle"),
    LULL_VALUE("heat-w", "W", NUMBER, struct play_arguments, heat_w,
               "Keep the GPUs at the temperature that a job of this power leaves.", .is_open = true,
               .otherwise = "each run's own equilibrium", .needs = "oracle|measure"),
    LULL_VALUE("stride", "N", WHOLE, struct play_arguments, stride, "Try every Nth clock only.",
               .least = 1, .most = 512, .default_value = "3", .needs = "oracle|measure"),
    {0},
};

/* Parses weights such as "1,1,1,1.07"; the last one holds for all stages that follow. */
static int parse_weights(const char *text, void *place, struct lull_error *err)
{
    double *const weights = place;
    double parsed[LULL_PLAY_RANKS];
    char *const copy = strdup(text);
    char *rest = NULL;
    uint32_t count = 0;
    int result = copy == NULL ? -ENOMEM : 0;

    (void)err;
    for (char *word = copy == NULL ? NULL : strtok_r(copy, ",", &rest); word != NULL && result == 0;
         word = strtok_r(NULL, ",", &rest))
        if (count == LULL_PLAY_RANKS || lull_text_parse_number(word, &parsed[count]) < 0 ||
            !(parsed[count++] > 0))
            result = -EINVAL;
    free(copy);
    if (result < 0 || count == 0)
        return -EINVAL;
    for (uint32_t i = 0; i < LULL_PLAY_RANKS; i++)
        weights[i] = parsed[i < count ? i : count - 1];
    return 0;
}

static int parse_kernels(const char *text, void *place, struct lull_error *err)
{
    struct pipeline_arguments *const options = place;
    char *comma;

    (void)err;
    if (strlen(text) >= sizeof(options->kernels))
        return -EINVAL;
    snprintf(options->kernels, sizeof(options->kernels), "%s", text);
    comma = strchr(options->kernels, ',');
    if (comma == NULL)
        return -EINVAL;
    *comma = '\0';
    options->pipeline.forward_kernels = options->kernels;
    options->pipeline.backward_kernels = comma + 1;
    return 0;
}

static const struct lull_option pipeline_rows[] = {
    LULL_GROUP("A pipeline-parallel job, with a rank for each stage"),
    LULL_VALUE("schedule", "NAME", TEXT, struct pipeline_arguments, pipeline.schedule,
               "Play a pipeline in this order: gpipe, 1f1b, interleaved:V[,G], envpipe[:R], zb-h1 "
               "or zbv.",
               LULL_GIVEN(struct pipeline_arguments, is_given), .excludes = "preset"),
    LULL_VALUE("stages", "N", WHOLE, struct pipeline_arguments, pipeline.stages,
               "The number of stages of the pipeline.", .least = 1, .most = LULL_PLAY_RANKS,
               .default_value = "4", .needs = "schedule"),
    LULL_VALUE("microbatches", "M", WHOLE, struct pipeline_arguments, pipeline.microbatches,
               "The number of micro-batches in an iteration of the pipeline.", .least = 1,
               .most = 4096, .default_value = "16", .needs = "schedule"),
    LULL_VALUE(
        "replicas", "D", WHOLE, struct pipeline_arguments, pipeline.replicas,
        "The number of data-parallel copies of the pipeline; stages times copies are 16 at most.",
        .least = 1, .most = LULL_PLAY_RANKS, .default_value = "1", .needs = "schedule"),
    LULL_VALUE("forward-ms", "MS", NUMBER, struct pipeline_arguments, pipeline.forward_ms,
               "How long a stage's forward takes at the highest clock.", .most = 1e6,
               .is_open = true, .default_value = "20", .needs = "schedule"),
    LULL_VALUE("backward-ms", "MS", NUMBER, struct pipeline_arguments, pipeline.backward_ms,
               "How long a stage's backward takes at the highest clock.", .most = 1e6,
               .is_open = true, .default_value = "40", .needs = "schedule"),
    LULL_VALUE("stage-weights", "W,W,...", OWN, struct pipeline_arguments, pipeline.weights,
               "How much longer or shorter both are on each stage; the last number holds for the "
               "stages that follow.",
               .parse = parse_weights, .expected = "at most 16 numbers above 0, such as 1,1,1,1.07",
               .default_value = "1", .needs = "schedule"),
    LULL_VALUE("latency-ms", "MS", NUMBER, struct pipeline_arguments, pipeline.latency_ms,
               "How long a transfer between stages takes.", .most = 1e6, .is_open = true,
               .default_value = "0.5", .needs = "schedule"),
    LULL_VALUE("reduce-ms", "MS", NUMBER, struct pipeline_arguments, pipeline.reduce_ms,
               "How long the all-reduce of gradients between the copies takes.", .most = 1e6,
               .is_open = true, .default_value = "20", .needs = "schedule"),
    LULL_VALUE("optimizer-ms", "MS", NUMBER, struct pipeline_arguments, pipeline.optimizer_ms,
               "How long the optimizer takes; 0: there is none.", .most = 1e6,
               .default_value = "10", .needs = "schedule"),
    {.name = "kernels",
     .value = "FORWARD,BACKWARD",
     .type = LULL_OPTION_OWN,
     .parse = parse_kernels,
     .expected = "two kernel profiles of the GPU model, such as training,training",
     .default_value = "training,training",
     .needs = "schedule",
     .help = "What kind of kernels run: two kernel profiles of the GPU model."},
    LULL_FLAG("sections", struct pipeline_arguments, pipeline.announces,
              "Announce forward and backward through liblull, as a program does that synchronises "
              "with its GPU there.",
              .needs = "schedule", .more = "Megatron-LM does so behind its transfers."),
    LULL_VALUE("straggler", "RANK,FACTOR[,FROM[,TO]]", OWN, struct pipeline_arguments,
               pipeline.straggler,
               "One rank computes FACTOR times as long, from iteration FROM on, until before TO.",
               .parse = lull_play_parse_straggler, .expected = lull_play_straggler_expected,
               .needs = "schedule",
               .more = "Without them it does so from the first iteration to the last."),
    LULL_VALUE(
        "measure", "FILE", TEXT, struct pipeline_arguments, measure,
        "Instead of playing, write the profile that a sweep over the clocks of --model would "
        "measure, for `lull plan`.",
        .hint = LULL_OPTION_FILE, .needs = "schedule",
        .more =
            "It goes down to half the highest clock; --stride and --heat-w count. Printed is what "
            "a stage draws that waits for another one."),
    {0},
};

/* ---- what was played ---------------------------------------------------------------------- */

static void print_outcomes_json(const struct lull_play *play,
                                const struct lull_play_outcome *outcomes)
{
    printf("{\"ranks\": [");
    for (uint32_t rank = 0; rank < play->rank_count; rank++) {
        const struct lull_play_outcome *outcome = &outcomes[rank];

        printf("%s\n  {\"rank\": %u, \"iterations\": %" PRIu64 ", \"iteration_ms\": %.6f, "
               "\"iteration_p50_ms\": %.6f, \"iteration_p99_ms\": %.6f, \"span_ms\": %.6f, "
               "\"energy_j\": %.6f, \"compute_ops\": %" PRIu64 ", \"compute_ops_low\": %" PRIu64
               ", \"iterations_low\": %" PRIu64 "}",
               rank > 0 ? "," : "", rank, outcome->iterations, outcome->iteration_mean_ms,
               outcome->iteration_p50_ms, outcome->iteration_p99_ms, outcome->span_ms,
               outcome->energy_j, outcome->compute_ops, outcome->compute_ops_low,
               outcome->iterations_low);
    }
    printf("\n]}\n");
}

static void print_outcomes(const struct lull_play *play, const struct lull_play_outcome *outcomes)
{
    printf("rank iterations   mean ms    p50 ms    p99 ms   energy J  iterations with compute on "
           "a lowered clock\n");
    for (uint32_t rank = 0; rank < play->rank_count; rank++) {
        const struct lull_play_outcome *outcome = &outcomes[rank];

        printf("%4u %10" PRIu64 " %9.2f %9.2f %9.2f %10.1f  %" PRIu64 "\n", rank,
               outcome->iterations, outcome->iteration_mean_ms, outcome->iteration_p50_ms,
               outcome->iteration_p99_ms, outcome->energy_j, outcome->iterations_low);
    }
}

static int play_command_main(const struct play_arguments *arguments, const struct lull_play *play,
                             struct lull_error *err)
{
    const struct lull_play_length length = {
        .iterations = arguments->seconds > 0 ? 0 : arguments->iterations,
        .seconds = arguments->seconds,
    };
    struct lull_play_outcome outcomes[LULL_PLAY_RANKS];
    const int result = lull_play_run(play, &length, outcomes, err);

    if (result < 0)
        return result;
    if (arguments->is_json)
        print_outcomes_json(play, outcomes);
    else
        print_outcomes(play, outcomes);
    return 0;
}

/* ---- the oracle --------------------------------------------------------------------------- */

static void print_outcome_json(const char *name, const struct lull_oracle_outcome *outcome,
                               const char *end)
{
    printf("  \"%s\": {\"time_ms\": %.6f, \"energy_j\": %.6f, \"slowdown_ratio\": %.6f, "
           "\"saving_ratio\": %.6f}%s\n",
           name, outcome->time_s * 1e3, outcome->energy_j, outcome->slowdown_ratio,
           outcome->saving_ratio, end);
}

static void print_answer_json(const struct lull_oracle_play_answer *answer)
{
    printf("{\n  \"period_ms\": %.6f,\n  \"gap_ratio\": %.6f,\n  \"gaps\": %u,\n"
           "  \"ideal_lowered\": %u,\n  \"real_lowered\": %u,\n  \"steady_mhz\": %.1f,\n",
           answer->period_s * 1e3, answer->gap_ratio, answer->gaps, answer->ideal_lowered,
           answer->real_lowered, answer->steady_mhz);
    print_outcome_json("reference", &answer->reference, ",");
    print_outcome_json("ideal", &answer->ideal, ",");
    print_outcome_json("real", &answer->real, ",");
    print_outcome_json("steady", &answer->steady, "");
    printf("}\n");
}

static void play_command_print_outcome(const char *name, const struct lull_oracle_outcome *outcome,
                                       const char *remark)
{
    printf("%-10s %10.2f ms %10.2f J   saves %6.2f %%, slower by %6.2f %%  %s\n", name,
           outcome->time_s * 1e3, outcome->energy_j, outcome->saving_ratio * 100,
           outcome->slowdown_ratio * 100, remark);
}

static void play_command_print_answer(const struct lull_oracle_play_answer *answer)
{
    char remark[64];

    printf("%u gaps without compute, %.1f %% of the time\n", answer->gaps, answer->gap_ratio * 100);
    play_command_print_outcome("highest", &answer->reference, "");
    snprintf(remark, sizeof(remark), "%u gaps lowered", answer->ideal_lowered);
    play_command_print_outcome("no latency", &answer->ideal, remark);
    snprintf(remark, sizeof(remark), "%u gaps lowered", answer->real_lowered);
    play_command_print_outcome("latency", &answer->real, remark);
    snprintf(remark, sizeof(remark), "at %.0f MHz", answer->steady_mhz);
    play_command_print_outcome("steady", &answer->steady, remark);
}

static int play_command_query(const struct play_arguments *arguments, const struct lull_play *play,
                              struct lull_error *err)
{
    struct lull_progress watch = lull_progress_begin();
    const struct lull_oracle_play_question question = {
        .play = play,
        .model = arguments->model,
        .call_ms = arguments->call_ms,
        .settle_ms = arguments->settle_ms,
        .tolerance_ratio = arguments->tolerance_ratio,
        .heat_w = arguments->heat_w,
        .stride = arguments->stride,
        .watch = lull_cli_show_oracle,
        .watch_context = &watch,
    };
    struct lull_oracle_play_answer answer;
    const int result = lull_oracle_ask_play(&question, &answer, err);

    lull_progress_end(&watch);
    if (result < 0)
        return result;
    if (arguments->is_json)
        print_answer_json(&answer);
    else
        play_command_print_answer(&answer);
    return 0;
}

/* ---- the command -------------------------------------------------------------------------- */

static int play_command_measure(const struct play_arguments *arguments, struct lull_error *err)
{
    const struct lull_play_profile_question question = {
        .pipeline = &arguments->pipeline.pipeline,
        .model = arguments->model,
        .heat_w = arguments->heat_w,
        .stride = arguments->stride,
    };
    double blocking_w;
    const int result =
        lull_play_profile_write(&question, arguments->pipeline.measure, &blocking_w, err);

    if (result == 0)
        printf(arguments->is_json ? "{\"blocking_w\": %.3f}\n"
                                  : "a stage that waits for another one draws %.1f W\n",
               blocking_w);
    return result;
}

static int open_play(const struct play_arguments *arguments, struct lull_play **play_out,
                     struct lull_error *err)
{
    int result;

    if (!arguments->pipeline.is_given)
        return lull_play_source_open(&arguments->source, play_out, err);
    result = lull_play_pipeline_create(&arguments->pipeline.pipeline, play_out, err);
    if (result == 0 && arguments->source.jitter_ratio >= 0)
        (*play_out)->jitter_ratio = arguments->source.jitter_ratio;
    return result;
}

static int play_or_ask(const struct play_arguments *arguments, struct lull_error *err)
{
    struct lull_play *play = NULL;
    int result = open_play(arguments, &play, err);

    if (result == 0)
        result = arguments->is_oracle ? play_command_query(arguments, play, err)
                                      : play_command_main(arguments, play, err);
    lull_play_destroy(play);
    return result;
}

static void play_command_prepare(void *options)
{
    struct play_arguments *const arguments = options;

    arguments->source.command = "play";
    arguments->source.jitter_ratio = -1.0;
    arguments->call_ms = -1.0;
}

static int play_command_check(void *options, const struct lull_operands *traces,
                              struct lull_error *err)
{
    struct play_arguments *const arguments = options;

    arguments->source.traces = traces->words;
    arguments->source.trace_count = traces->count;
    if ((arguments->source.preset != NULL) + (traces->count != 0) + arguments->pipeline.is_given +
            (arguments->server.llm != NULL) !=
        1)
        return lull_error_set(err, -EINVAL, "give one of: traces, --preset, --schedule, --server");
    return lull_play_server_check(&arguments->server, err);
}

static int play_command_run_child(void *options, const struct lull_operands *operands)
{
    const struct play_arguments *const arguments = options;
    struct lull_error err = {0};
    int result;

    (void)operands;
    if (arguments->pipeline.measure != NULL)
        result = play_command_measure(arguments, &err);
    else if (arguments->server.llm != NULL)
        result = lull_play_server_run(&arguments->server, arguments->is_json, &err);
    else
        result = play_or_ask(arguments, &err);
    return result < 0 ? lull_cli_fail("play", &err) : LULL_EXIT_OK;
}

const struct lull_program_command lull_play_command = {
    .name = "play",
    .summary = "play a distributed job or an inference server on the emulated node",
    .arguments = "[TRACE...]",
    .about = "Plays a distributed job, recorded by the PyTorch profiler, a preset or a pipeline, "
             "or an inference server, on the emulated node: lull emulate SPEC -- lull play ...",
    .print_after = lull_play_print_presets,
    .tables = {{rows, 0},
               {pipeline_rows, offsetof(struct play_arguments, pipeline)},
               {lull_play_server_rows, offsetof(struct play_arguments, server)}},
    .operands = {.most = UINT32_MAX},
    .size = sizeof(struct play_arguments),
    .prepare = play_command_prepare,
    .check = play_command_check,
    .run = play_command_run_child,
};
