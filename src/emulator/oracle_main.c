/*
 * lull-oracle: prints as JSON what lowering the clock in a collective could save at best, or what
 * each power limit makes of a job.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "emulator/oracle.h"
#include "emulator/oracle_limits.h"

enum {
    KEY_MODEL = 1000,
    KEY_GPUS,
    KEY_COMPUTE,
    KEY_PROFILE,
    KEY_BYTES,
    KEY_LINK,
    KEY_CHANNELS,
    KEY_TOLERANCE,
    KEY_HEAT,
    KEY_LIMITS,
    KEY_WAIT,
    KEY_SEED
};

static const struct argp_option options[] = {
    {"model", KEY_MODEL, "NAME", 0, "GPU model (A100-SXM4-40GB)", 0},
    {"gpus", KEY_GPUS, "N", 0, "GPUs of the node (1)", 0},
    {"compute-ms", KEY_COMPUTE, "MS", 0, "Compute per iteration at the highest clock (100)", 0},
    {"profile", KEY_PROFILE, "NAME", 0, "Kernel profile of the model", 0},
    {"bytes", KEY_BYTES, "N", 0, "Bytes that each GPU moves per iteration (2.3e9)", 0},
    {"link-gbs", KEY_LINK, "GBS", 0, "Bandwidth of the link, GB/s (23)", 0},
    {"channels", KEY_CHANNELS, "N", 0, "SMs that drive the link (4)", 0},
    {"tolerance", KEY_TOLERANCE, "RATIO", 0, "Largest slowdown, e.g. 1% (1%)", 0},
    {"heat-w", KEY_HEAT, "W", 0,
     "Keep the temperature that this many watts settle at (each clock's own equilibrium)", 0},
    {"limit-step-w", KEY_LIMITS, "W", 0,
     "Print settled time and energy of an iteration at power limits this many watts apart instead",
     0},
    {"wait-ms", KEY_WAIT, "MS", 0,
     "With --limit-step-w: the pause without a kernel in each iteration (0)", 0},
    {"seed", KEY_SEED, "N", 0,
     "With --limit-step-w: the seed of the units, as for lull emulate (0: nominal)", 0},
    {0},
};

enum { MOST_LIMITS = 512 };

struct oracle_main_request {
    struct lull_oracle_job job;
    double step_w; /* distance of power limits; 0: the clocks of the collective are swept */
    double wait_ms;
    int64_t seed;
};

static void read_number(const char *text, double *value_out, struct argp_state *state)
{
    if (lull_text_parse_number(text, value_out) < 0)
        argp_error(state, "%s: expected a number", text);
}

static void read_count(const char *text, uint32_t *value_out, struct argp_state *state)
{
    int64_t value = 0;

    if (lull_text_parse_int(text, 1, 1024, &value) < 0)
        argp_error(state, "%s: expected a whole number from 1", text);
    *value_out = (uint32_t)value;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct oracle_main_request *request = state->input;
    struct lull_oracle_job *job = &request->job;

    switch (key) {
    case KEY_MODEL:
        job->model = lull_gpu_model_find(arg, (uint32_t)strlen(arg));
        if (job->model == NULL)
            argp_error(state, "--model %s: unknown GPU model (data/gpu_models.json lists them)",
                       arg);
        return 0;
    case KEY_GPUS:
        read_count(arg, &job->gpus, state);
        return 0;
    case KEY_COMPUTE:
        read_number(arg, &job->compute_ms, state);
        return 0;
    case KEY_PROFILE:
        job->profile = arg;
        return 0;
    case KEY_BYTES:
        read_number(arg, &job->bytes, state);
        return 0;
    case KEY_LINK:
        read_number(arg, &job->link_gbs, state);
        return 0;
    case KEY_CHANNELS:
        read_count(arg, &job->channels, state);
        return 0;
    case KEY_TOLERANCE:
        if (lull_text_parse_ratio(arg, &job->tolerance_ratio) < 0)
            argp_error(state, "--tolerance %s: expected a ratio such as 1%%", arg);
        return 0;
    case KEY_HEAT:
        read_number(arg, &job->heat_w, state);
        return 0;
    case KEY_LIMITS:
        read_number(arg, &request->step_w, state);
        if (!(request->step_w >= 1.0))
            argp_error(state, "--limit-step-w %s: expected watts from 1", arg);
        return 0;
    case KEY_WAIT:
        read_number(arg, &request->wait_ms, state);
        return 0;
    case KEY_SEED:
        if (lull_text_parse_int(arg, 0, INT64_MAX, &request->seed) < 0)
            argp_error(state, "--seed %s: expected a whole number from 0", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_outcome(const char *name, const struct lull_oracle_outcome *outcome,
                          const char *end)
{
    printf("\"%s\": {\"time_ms\": %.4f, \"energy_j\": %.4f, \"slowdown_ratio\": %.6f, "
           "\"saving_ratio\": %.6f}%s",
           name, outcome->time_s * 1e3, outcome->energy_j, outcome->slowdown_ratio,
           outcome->saving_ratio, end);
}

static void print_best(const char *name, double mhz, const struct lull_oracle_outcome *outcome)
{
    printf("  \"best_%s\": {\"sm_mhz\": %.1f, ", name, mhz);
    print_outcome("outcome", outcome, "},\n");
}

static void print_answer(const struct lull_oracle_job *job, const struct lull_oracle_answer *answer)
{
    const struct lull_oracle_point *points = answer->points;

    printf("{\n  \"model\": \"%s\",\n  \"gpus\": %u,\n  \"tolerance_ratio\": %.6f,\n"
           "  \"compute_ms\": %.4f,\n  \"transfer_ms\": %.4f,\n  ",
           job->model->name, job->gpus, job->tolerance_ratio, answer->compute_s * 1e3,
           answer->transfer_s * 1e3);
    print_outcome("reference", &answer->reference, ",\n");
    print_best("ideal", points[answer->best_ideal].mhz, &points[answer->best_ideal].ideal);
    print_best("real", points[answer->best_real].mhz, &points[answer->best_real].real);
    print_best("steady", points[answer->best_steady].mhz, &points[answer->best_steady].steady);
    printf("  \"sweep\": [");
    for (uint32_t i = 0; i < answer->count; i++) {
        printf("%s\n    {\"sm_mhz\": %.1f, ", i > 0 ? "," : "", points[i].mhz);
        print_outcome("ideal", &points[i].ideal, ", ");
        print_outcome("real", &points[i].real, ", ");
        print_outcome("steady", &points[i].steady, "}");
    }
    printf("\n  ]\n}\n");
}

static int print_clocks(const struct lull_oracle_job *job, struct lull_error *err)
{
    static struct lull_oracle_answer answer;
    const int result = lull_oracle_ask(job, &answer, err);

    if (result < 0)
        return result;
    print_answer(job, &answer);
    return 0;
}

/* Prints the limits from the highest down; the lowest one is always among them. */
static int print_limits(const struct oracle_main_request *request, struct lull_error *err)
{
    const struct lull_gpu_model *model = request->job.model;
    const struct lull_oracle_limit_job job = {
        .model = model,
        .gpus = request->job.gpus,
        .seed = (uint64_t)request->seed,
        .compute_ms = request->job.compute_ms,
        .wait_ms = request->wait_ms,
        .profile = request->job.profile,
    };
    struct lull_oracle_limit limits[MOST_LIMITS];
    uint32_t count = 0;
    int result;

    for (double limit_w = model->limit_max_w;
         limit_w > model->limit_min_w && count < MOST_LIMITS - 1; limit_w -= request->step_w)
        limits[count++].limit_w = limit_w;
    limits[count++].limit_w = model->limit_min_w;
    result = lull_oracle_ask_limits(&job, limits, count, err);
    if (result < 0)
        return result;
    printf("{\n  \"model\": \"%s\",\n  \"gpus\": %u,\n  \"limits\": [", model->name, job.gpus);
    for (uint32_t i = 0; i < count; i++)
        printf(
            "%s\n    {\"limit_w\": %g, \"iteration_ms\": %.4f, \"energy_per_iteration_j\": %.4f}",
            i > 0 ? "," : "", limits[i].limit_w, limits[i].time_s * 1e3, limits[i].energy_j);
    printf("\n  ]\n}\n");
    return 0;
}

int main(int argc, char **argv)
{
    const struct argp parser = {
        .options = options,
        .parser = parse_option,
        .doc = "Prints what lowering the clock in a collective could save at best, or what power "
               "limits make of a job.",
    };
    struct oracle_main_request request = {.job = {
                                              .model = lull_gpu_model_find("A100-SXM4-40GB", 14),
                                              .gpus = 1,
                                              .compute_ms = 100,
                                              .bytes = 2.3e9,
                                              .link_gbs = 23,
                                              .channels = 4,
                                              .tolerance_ratio = 0.01,
                                          }};
    struct lull_error err = {0};
    int result;

    argp_err_exit_status = LULL_EXIT_USAGE;
    argp_parse(&parser, argc, argv, 0, NULL, &request);
    result = request.step_w > 0.0 ? print_limits(&request, &err) : print_clocks(&request.job, &err);
    if (result < 0) {
        fprintf(stderr, "error: %s\n", err.text);
        return (int)lull_error_exit_status(result);
    }
    return LULL_EXIT_OK;
}
