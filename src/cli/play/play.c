/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/play/play.h"

#include <argp.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/play/pipeline_options.h"
#include "cli/play/profile.h"
#include "cli/play/source.h"
#include "emulator/oracle_play.h"
#include "emulator/play/presets.h"
#include "emulator/play/run.h"

struct arguments {
    struct lull_play_source source;
    struct lull_play_pipeline_options pipeline;
    int64_t ranks;
    int64_t iterations;
    double seconds;
    bool is_json;
    /* The oracle's. */
    bool is_oracle;
    const struct lull_gpu_model *model;
    double call_ms;
    double settle_ms;
    double tolerance_ratio;
    double heat_w;
    int64_t stride;
};

enum {
    KEY_PRESET = 1000,
    KEY_RANKS,
    KEY_ITERATIONS,
    KEY_SECONDS,
    KEY_JITTER,
    KEY_ORACLE,
    KEY_MODEL,
    KEY_SWITCH,
    KEY_TOLERANCE,
    KEY_HEAT,
    KEY_STRIDE,
};

static const struct argp_option options[] = {
    {"preset", KEY_PRESET, "NAME", 0, "Kind of job; see below", 0},
    {"ranks", KEY_RANKS, "R", 0, "Ranks, one GPU each (the preset's own number)", 0},
    {"iterations", KEY_ITERATIONS, "N", 0, "Iterations at least, in whole periods (50)", 0},
    {"seconds", KEY_SECONDS, "S", 0, "Instead: so long at the highest clock", 0},
    {"jitter", KEY_JITTER, "RATIO", 0, "Spread of computation between iterations (the preset's)",
     0},
    {"json", 'j', NULL, 0, "Print one JSON document", 0},
    {NULL, 0, NULL, 0, "What could be saved at best, in virtual time:", 1},
    {"oracle", KEY_ORACLE, NULL, 0, "Ask the oracle instead of playing; needs no emulated node", 1},
    {"model", KEY_MODEL, "NAME", 0, "GPU model (A100-SXM4-40GB)", 1},
    {"switch-ms", KEY_SWITCH, "CALL,SETTLE", 0,
     "How long a driver call takes and how long the clock takes to settle (the model's)", 1},
    {"tolerance", KEY_TOLERANCE, "RATIO", 0, "Largest slowdown (1%)", 1},
    {"heat-w", KEY_HEAT, "W", 0,
     "Temperature that a job of so many watts leaves, throughout (each run's own equilibrium)", 1},
    {"stride", KEY_STRIDE, "N", 0, "Try every Nth clock (3)", 1},
    {0},
};

static int parse_positive(const char *text, double *value_out)
{
    return lull_text_parse_number(text, value_out) < 0 || !(*value_out > 0) ? -1 : 0;
}

static error_t parse_oracle_option(int key, char *arg, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    int result = 0;

    switch (key) {
    case KEY_ORACLE:
        arguments->is_oracle = true;
        break;
    case KEY_MODEL:
        arguments->model = lull_gpu_model_find(arg, (uint32_t)strlen(arg));
        if (arguments->model == NULL)
            argp_error(state, "%s: unknown GPU model", arg);
        break;
    case KEY_SWITCH:
        result = lull_cli_parse_latency(arg, &arguments->call_ms, &arguments->settle_ms);
        break;
    case KEY_TOLERANCE:
        result = lull_text_parse_ratio(arg, &arguments->tolerance_ratio);
        break;
    case KEY_HEAT:
        result = parse_positive(arg, &arguments->heat_w);
        break;
    case KEY_STRIDE:
        result = lull_text_parse_int(arg, 1, 512, &arguments->stride);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (result < 0)
        argp_error(state, "%s: not a usable value", arg);
    return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    int result = 0;

    switch (key) {
    case KEY_PRESET:
        arguments->source.preset = arg;
        break;
    case KEY_RANKS:
        result = lull_text_parse_int(arg, 1, LULL_PLAY_RANKS, &arguments->ranks);
        break;
    case KEY_ITERATIONS:
        result = lull_text_parse_int(arg, 1, INT32_MAX, &arguments->iterations);
        break;
    case KEY_SECONDS:
        result = parse_positive(arg, &arguments->seconds);
        break;
    case KEY_JITTER:
        result = lull_text_parse_ratio(arg, &arguments->source.jitter_ratio);
        break;
    case 'j':
        arguments->is_json = true;
        break;
    case ARGP_KEY_ARGS:
        arguments->source.traces = state->argv + state->next;
        arguments->source.trace_count = (uint32_t)(state->argc - state->next);
        break;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &arguments->pipeline;
        break;
    case ARGP_KEY_END:
        if ((arguments->source.preset != NULL) + (arguments->source.trace_count != 0) +
                arguments->pipeline.is_given !=
            1)
            argp_error(state, "give traces, --preset or --pipeline");
        if (arguments->pipeline.measure != NULL && !arguments->pipeline.is_given)
            argp_error(state, "--measure needs --pipeline");
        if (arguments->iterations > 0 && arguments->seconds > 0)
            argp_error(state, "--iterations and --seconds exclude each other");
        break;
    default:
        return parse_oracle_option(key, arg, state);
    }
    if (result < 0)
        argp_error(state, "%s: not a usable value", arg);
    return 0;
}

/* ---- the presets, for --help ---- */

static char *list_presets(int key, const char *text, void *input)
{
    char *list = NULL;
    size_t size = 0;
    FILE *file;

    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)text;
    file = open_memstream(&list, &size);
    if (file == NULL)
        return (char *)text;
    fprintf(file, "Presets:\n");
    for (uint32_t i = 0; i < lull_play_preset_count; i++)
        fprintf(file, "  %-14s %s (%u ranks)\n", lull_play_presets[i].name,
                lull_play_presets[i].what, lull_play_presets[i].ranks);
    fclose(file);
    return list;
}

/* ---- what was played ---- */

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

static int run(const struct arguments *arguments, const struct lull_play *play,
               struct lull_error *err)
{
    const int64_t usual_iterations = 50;
    const struct lull_play_length length = {
        .iterations = arguments->seconds > 0      ? 0
                      : arguments->iterations > 0 ? (uint64_t)arguments->iterations
                                                  : (uint64_t)usual_iterations,
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

/* ---- the oracle ---- */

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

static void print_outcome(const char *name, const struct lull_oracle_outcome *outcome,
                          const char *remark)
{
    printf("%-10s %10.2f ms %10.2f J   saves %6.2f %%, slower by %6.2f %%  %s\n", name,
           outcome->time_s * 1e3, outcome->energy_j, outcome->saving_ratio * 100,
           outcome->slowdown_ratio * 100, remark);
}

static void print_answer(const struct lull_oracle_play_answer *answer)
{
    char remark[64];

    printf("%u gaps without compute, %.1f %% of the time\n", answer->gaps, answer->gap_ratio * 100);
    print_outcome("highest", &answer->reference, "");
    snprintf(remark, sizeof(remark), "%u gaps lowered", answer->ideal_lowered);
    print_outcome("no latency", &answer->ideal, remark);
    snprintf(remark, sizeof(remark), "%u gaps lowered", answer->real_lowered);
    print_outcome("latency", &answer->real, remark);
    snprintf(remark, sizeof(remark), "at %.0f MHz", answer->steady_mhz);
    print_outcome("steady", &answer->steady, remark);
}

static int ask(const struct arguments *arguments, const struct lull_play *play,
               struct lull_error *err)
{
    const struct lull_oracle_play_question question = {
        .play = play,
        .model = arguments->model,
        .call_ms = arguments->call_ms,
        .settle_ms = arguments->settle_ms,
        .tolerance_ratio = arguments->tolerance_ratio,
        .heat_w = arguments->heat_w,
        .stride = (uint32_t)arguments->stride,
    };
    struct lull_oracle_play_answer answer;
    const int result = lull_oracle_ask_play(&question, &answer, err);

    if (result < 0)
        return result;
    if (arguments->is_json)
        print_answer_json(&answer);
    else
        print_answer(&answer);
    return 0;
}

/* ---- all together ---- */

static int measure(const struct arguments *arguments, struct lull_error *err)
{
    const struct lull_play_profile_question question = {
        .pipeline = &arguments->pipeline.pipeline,
        .model = arguments->model,
        .heat_w = arguments->heat_w,
        .stride = (uint32_t)arguments->stride,
    };
    double blocking_w;
    const int result =
        lull_play_profile_write(&question, arguments->pipeline.measure, &blocking_w, err);

    if (result == 0)
        printf(arguments->is_json ? "{\"blocking_w\": %.3f}\n"
                                  : "waiting for another stage draws %.1f W\n",
               blocking_w);
    return result;
}

static int open_play(const struct arguments *arguments, struct lull_play **play_out,
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

static int play_or_ask(const struct arguments *arguments, struct lull_error *err)
{
    struct lull_play *play = NULL;
    int result = open_play(arguments, &play, err);

    if (result == 0)
        result = arguments->is_oracle ? ask(arguments, play, err) : run(arguments, play, err);
    lull_play_destroy(play);
    return result;
}

int lull_play_main(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&lull_play_pipeline_argp, 0, "A pipeline-parallel job, one rank per stage:", 2}, {0}};
    static const struct argp parser = {
        .children = children,
        .options = options,
        .parser = parse_option,
        .args_doc = "[TRACE...]",
        .doc =
            "Plays a distributed job, recorded by the PyTorch profiler, a preset or a pipeline, on "
            "the emulated node: lull emulate SPEC -- lull play ...\v",
        .help_filter = list_presets,
    };
    struct arguments arguments = {
        .source = {.jitter_ratio = -1},
        .model = lull_gpu_model_find("A100-SXM4-40GB", 14),
        .call_ms = -1,
        .settle_ms = -1,
        .tolerance_ratio = 0.01,
        .stride = 3,
    };
    struct lull_error err = {0};
    int result;

    lull_play_pipeline_default(&arguments.pipeline.pipeline);
    argp_parse(&parser, argc, argv, 0, NULL, &arguments);
    arguments.source.ranks = (uint32_t)arguments.ranks;
    result = arguments.pipeline.measure != NULL ? measure(&arguments, &err)
                                                : play_or_ask(&arguments, &err);
    return result < 0 ? lull_cli_fail("play", &err) : LULL_EXIT_OK;
}
