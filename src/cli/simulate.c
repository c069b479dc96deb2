/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/text.h"
#include "cli/cluster/cluster.h"
#include "cli/command.h"
#include "cli/play/source.h"
#include "emulator/oracle_play.h"
#include "simulator/node.h"

enum { KEY_PRESET = 256, KEY_GPU, KEY_LATENCY, KEY_PERIODS, KEY_TOLERANCE, KEY_SEED };

struct arguments {
    struct lull_play_source source;
    int64_t ranks;
    int64_t periods;
    struct lull_gpu_model model;
    double call_ms; /* below 0: the model's latencies */
    double settle_ms;
    double tolerance_ratio;
    int64_t seed;
    bool is_json;
};

static const struct argp_option options[] = {
    {"preset", KEY_PRESET, "NAME", 0, "Instead of traces: a kind of job, see lull play --help", 0},
    {"ranks", 'n', "R", 0, "GPUs, one rank each (one per trace)", 0},
    {"gpu", KEY_GPU, "MODEL", 0, "GPU model (A100-SXM4-40GB)", 0},
    {"switch-ms", KEY_LATENCY, "CALL,SETTLE", 0,
     "How long a driver call takes and how long the clock takes to settle (the model's)", 0},
    {"periods", KEY_PERIODS, "N", 0, "How often the job's period is played (400)", 0},
    {"tolerance", KEY_TOLERANCE, "RATIO", 0, "Slowdown that is allowed (1%)", 0},
    {"seed", KEY_SEED, "N", 0, "Of the driver's latencies (1)", 0},
    {"json", 'j', NULL, 0, "Print one JSON document", 0},
    {0},
};

static int parse_model(const char *text, struct arguments *arguments)
{
    const struct lull_gpu_model *model = lull_gpu_model_find(text, (uint32_t)strlen(text));

    if (model == NULL)
        return -EINVAL;
    arguments->model = *model;
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
    case 'n':
        result = lull_text_parse_int(arg, 1, LULL_PLAY_RANKS, &arguments->ranks);
        break;
    case KEY_GPU:
        result = parse_model(arg, arguments);
        break;
    case KEY_LATENCY:
        result = lull_cli_parse_latency(arg, &arguments->call_ms, &arguments->settle_ms);
        break;
    case KEY_PERIODS:
        result = lull_text_parse_int(arg, 20, 1000000, &arguments->periods);
        break;
    case KEY_TOLERANCE:
        result = lull_text_parse_ratio(arg, &arguments->tolerance_ratio);
        break;
    case KEY_SEED:
        result = lull_text_parse_int(arg, 0, INT64_MAX, &arguments->seed);
        break;
    case 'j':
        arguments->is_json = true;
        break;
    case ARGP_KEY_ARGS:
        arguments->source.traces = state->argv + state->next;
        arguments->source.trace_count = (uint32_t)(state->argc - state->next);
        break;
    case ARGP_KEY_END:
        if ((arguments->source.preset == NULL) == (arguments->source.trace_count == 0))
            argp_error(state, "give traces or --preset");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (result < 0)
        argp_error(state, "%s: not a usable value", arg);
    return 0;
}

/* ---- what is compared -------------------------------------------------------------------- */

enum { HIGHEST, REACTIVE, FEED_FORWARD, STEADY, POLICIES };

static const char *const policy_names[POLICIES] = {"highest", "reactive", "feed_forward",
                                                  "steady"};

struct results {
    struct lull_simulation_outcome outcomes[POLICIES];
    struct lull_oracle_play_answer oracle;
};

static double saving(const struct results *results, int policy)
{
    return 1.0 - results->outcomes[policy].energy_j / results->outcomes[HIGHEST].energy_j;
}

static double slowdown(const struct results *results, int policy)
{
    return results->outcomes[policy].period_ms / results->outcomes[HIGHEST].period_ms - 1.0;
}

/* Under the rule that Lull keeps: computation begins low in at most one iteration of a hundred. */
static int ask_oracle(const struct arguments *arguments, const struct lull_play *play,
                      struct lull_oracle_play_answer *answer_out, struct lull_error *err)
{
    const struct lull_oracle_play_question question = {
        .play = play,
        .model = &arguments->model,
        .call_ms = arguments->call_ms,
        .settle_ms = arguments->settle_ms,
        .tolerance_ratio = arguments->tolerance_ratio,
        .late_iterations_ratio = 0.01,
        .stride = 3,
    };

    return lull_oracle_ask_play(&question, answer_out, err);
}

static int simulate(const struct arguments *arguments, const struct lull_play *play,
                    struct results *results_out, struct lull_error *err)
{
    struct lull_simulation_options simulation = {
        .play = play,
        .model = &arguments->model,
        .periods = (uint64_t)arguments->periods,
        .measured = (uint64_t)arguments->periods / 4,
        .exposure = true,
        .seed = (uint64_t)arguments->seed,
    };
    int result = ask_oracle(arguments, play, &results_out->oracle, err);

    lull_controller_config_default(&simulation.control);
    simulation.control.tolerance_ratio = arguments->tolerance_ratio;
    simulation.control.steady_tolerance_ratio = arguments->tolerance_ratio;
    for (int policy = 0; policy < POLICIES && result == 0; policy++) {
        simulation.managed = policy != HIGHEST;
        simulation.control.reactive = policy == REACTIVE;
        simulation.control.only_steady = policy == STEADY;
        result = lull_simulate_node(&simulation, &results_out->outcomes[policy], err);
    }
    return result;
}

/* ---- output ------------------------------------------------------------------------------ */

static void print_table(const struct results *results)
{
    printf("%-14s %12s %12s %9s %9s %8s %8s %9s\n", "", "ms/period", "J/period", "saves", "slower",
           "low", "settled", "clock");
    for (int policy = 0; policy < POLICIES; policy++) {
        const struct lull_simulation_outcome *outcome = &results->outcomes[policy];

        printf("%-14s %12.2f %12.2f %8.2f%% %8.2f%% %7.2f%% %8" PRIu64 " %5.0f%s\n",
               policy_names[policy], outcome->period_ms, outcome->energy_j,
               saving(results, policy) * 100.0, slowdown(results, policy) * 100.0,
               outcome->late_ratio * 100.0, outcome->settled_in, outcome->point_mhz,
               outcome->is_steady ? " steady" : "");
    }
    printf("%-14s %12s %12s %8.2f%% %8.2f%%\n", "oracle", "", "",
           results->oracle.real.saving_ratio * 100.0, results->oracle.real.slowdown_ratio * 100.0);
    printf("%-14s %12s %12s %8.2f%%\n", "no latency", "", "",
           results->oracle.ideal.saving_ratio * 100.0);
}

static json_t *policy_json(const struct results *results, int policy)
{
    const struct lull_simulation_outcome *outcome = &results->outcomes[policy];

    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:b, s:f, s:I}", "period_ms",
                     outcome->period_ms, "energy_j", outcome->energy_j, "saving_ratio",
                     saving(results, policy), "slowdown_ratio", slowdown(results, policy),
                     "low_iterations_ratio", outcome->late_ratio, "driver_calls",
                     (json_int_t)outcome->calls, "settled_in_period",
                     (json_int_t)outcome->settled_in, "is_steady", outcome->is_steady, "sm_mhz",
                     outcome->point_mhz, "switched_sections", (json_int_t)outcome->switched);
}

static void print_json(const struct results *results)
{
    json_t *root = json_object();

    for (int policy = 0; policy < POLICIES; policy++)
        json_object_set_new(root, policy_names[policy], policy_json(results, policy));
    json_object_set_new(root, "oracle",
                        json_pack("{s:f, s:f, s:f, s:f, s:f}", "saving_ratio",
                                  results->oracle.real.saving_ratio, "slowdown_ratio",
                                  results->oracle.real.slowdown_ratio, "ideal_saving_ratio",
                                  results->oracle.ideal.saving_ratio, "steady_saving_ratio",
                                  results->oracle.steady.saving_ratio, "gap_ratio",
                                  results->oracle.gap_ratio));
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    printf("\n");
    json_decref(root);
}

/* A constant latency instead of the model's spread. */
static void fix_latency(struct arguments *arguments)
{
    if (arguments->call_ms < 0)
        return;
    lull_gpu_model_fix_latency(&arguments->model, arguments->call_ms, arguments->settle_ms);
}

int lull_simulate_main(int argc, char **argv)
{
    static const struct argp parser = {
        options, parse_option, "[TRACE...]",
        "Plays a recorded job, or a preset, in virtual time on emulated GPUs: at the highest "
        "clock, with clocks that react to its gaps, and with clocks that are ahead of them; beside "
        "it the oracle, which knows everything beforehand.\n\n"
        "lull simulate cluster --help: many jobs on a cluster.",
        NULL, NULL, NULL};
    struct arguments arguments = {
        .source = {.jitter_ratio = -1},
        .periods = 400,
        .call_ms = -1,
        .settle_ms = -1,
        .tolerance_ratio = 0.01,
        .seed = 1,
    };
    struct lull_play *play = NULL;
    struct lull_error err = {0};
    struct results results;
    int result;

    if (argc >= 2 && strcmp(argv[1], "cluster") == 0)
        return lull_cluster_main(argc - 1, argv + 1);
    parse_model("A100-SXM4-40GB", &arguments);
    argp_parse(&parser, argc, argv, 0, NULL, &arguments);
    fix_latency(&arguments);
    arguments.source.ranks = (uint32_t)arguments.ranks;
    result = lull_play_source_open(&arguments.source, &play, &err);
    if (result == 0)
        result = simulate(&arguments, play, &results, &err);
    lull_play_destroy(play);
    if (result < 0)
        return lull_cli_fail("simulate", &err);
    if (arguments.is_json)
        print_json(&results);
    else
        print_table(&results);
    return LULL_EXIT_OK;
}
