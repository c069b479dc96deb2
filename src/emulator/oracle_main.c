/*
 * lull-oracle: prints as JSON what lowering the clock in a collective could save at best, or what
 * each power limit makes of a job.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/program.h"
#include "emulator/oracle.h"
#include "emulator/oracle_limits.h"

enum { MAX_LIMITS = 512 };

struct oracle_main_request {
    struct lull_oracle_job job;
    double step_w; /* distance of power limits; 0: the clocks of the collective are swept */
    double wait_ms;
    uint64_t seed;
};

static int parse_model(const char *text, void *model, struct lull_error *err)
{
    const struct lull_gpu_model *const found = lull_gpu_model_find(text, (uint32_t)strlen(text));

    if (found == NULL)
        return lull_error_set(err, -EINVAL, "there is no such GPU model");
    *(const struct lull_gpu_model **)model = found;
    return 0;
}

#define VALUE(NAME, UNIT, TYPE, FIELD, HELP, ...)                                                  \
    LULL_VALUE(NAME, UNIT, TYPE, struct oracle_main_request, FIELD, HELP, __VA_ARGS__)

static const struct lull_option rows[] = {
    VALUE("model", "MODEL", OWN, job.model, "The GPU model.", .parse = parse_model,
          .default_value = "A100-SXM4-40GB"),
    VALUE("gpus", "N", WHOLE, job.gpus, "GPUs of the node.", .least = 1, .most = 1024,
          .default_value = "1"),
    VALUE("compute-ms", "MS", NUMBER, job.compute_ms,
          "How long an iteration computes at the highest clock.", .default_value = "100"),
    VALUE("profile", "NAME", TEXT, job.profile, "The kernel profile of the model.",
          .otherwise = "its first"),
    VALUE("bytes", "N", NUMBER, job.bytes, "Bytes that each GPU moves in an iteration.",
          .default_value = "2.3e9"),
    VALUE("link-gbs", "GB/S", NUMBER, job.link_gbs, "Bandwidth of the link.",
          .default_value = "23"),
    VALUE("channels", "N", WHOLE, job.channels, "SMs that drive the link.", .least = 1,
          .most = 1024, .default_value = "4"),
    VALUE("tolerance", "RATIO", RATIO, job.tolerance_ratio,
          "How much slower the job may become, on average.", .default_value = "1%"),
    VALUE("heat-w", "W", NUMBER, job.heat_w,
          "GPUs are throughout as warm as a job of this many watts leaves them.",
          .otherwise = "each point's own equilibrium"),
    VALUE("limit-step-w", "W", NUMBER, step_w,
          "Print instead the settled time and energy of an iteration at each power limit, this "
          "far apart.",
          .least = 1.0),
    VALUE("wait-ms", "MS", NUMBER, wait_ms, "How long no kernel runs in each iteration.",
          .default_value = "0", .needs = "limit-step-w"),
    VALUE("seed", "N", WHOLE, seed, "Seed of the units, as for lull emulate; 0: nominal ones.",
          .default_value = "0", .needs = "limit-step-w"),
    {0},
};

static void oracle_command_print_outcome(const char *name,
                                         const struct lull_oracle_outcome *outcome, const char *end)
{
    printf("\"%s\": {\"time_ms\": %.4f, \"energy_j\": %.4f, \"slowdown_ratio\": %.6f, "
           "\"saving_ratio\": %.6f}%s",
           name, outcome->time_s * 1e3, outcome->energy_j, outcome->slowdown_ratio,
           outcome->saving_ratio, end);
}

static void oracle_command_print_answer(const struct lull_oracle_job *job,
                                        const struct lull_oracle_answer *answer)
{
    static const char *const ways[LULL_ORACLE_WAYS] = {"ideal", "real", "steady"};
    const struct lull_oracle_point *points = answer->points;

    printf("{\n  \"model\": \"%s\",\n  \"gpus\": %u,\n  \"tolerance_ratio\": %.6f,\n"
           "  \"compute_ms\": %.4f,\n  \"transfer_ms\": %.4f,\n  ",
           job->model->name, job->gpus, job->tolerance_ratio, answer->compute_s * 1e3,
           answer->transfer_s * 1e3);
    oracle_command_print_outcome("reference", &answer->reference, ",\n");
    for (uint32_t way = 0; way < LULL_ORACLE_WAYS; way++) {
        const struct lull_oracle_point *best = &points[answer->best[way]];

        printf("  \"best_%s\": {\"sm_mhz\": %.1f, ", ways[way], best->mhz);
        oracle_command_print_outcome("outcome", &best->outcomes[way], "},\n");
    }
    printf("  \"sweep\": [");
    for (uint32_t i = 0; i < answer->count; i++) {
        printf("%s\n    {\"sm_mhz\": %.1f, ", i > 0 ? "," : "", points[i].mhz);
        for (uint32_t way = 0; way < LULL_ORACLE_WAYS; way++)
            oracle_command_print_outcome(ways[way], &points[i].outcomes[way],
                                         way + 1 < LULL_ORACLE_WAYS ? ", " : "}");
    }
    printf("\n  ]\n}\n");
}

static int oracle_command_print_clocks(const struct lull_oracle_job *job, struct lull_error *err)
{
    static struct lull_oracle_answer answer;
    const int result = lull_oracle_ask(job, &answer, err);

    if (result < 0)
        return result;
    oracle_command_print_answer(job, &answer);
    return 0;
}

/* Prints the limits from the highest down; the lowest one is always among them. */
static int print_limits(const struct oracle_main_request *request, struct lull_error *err)
{
    const struct lull_gpu_model *model = request->job.model;
    const struct lull_oracle_limit_job job = {
        .model = model,
        .gpus = request->job.gpus,
        .seed = request->seed,
        .compute_ms = request->job.compute_ms,
        .wait_ms = request->wait_ms,
        .profile = request->job.profile,
    };
    struct lull_oracle_limit limits[MAX_LIMITS];
    uint32_t count = 0;
    int result;

    for (double limit_w = model->limit_max_w;
         limit_w > model->limit_min_w && count < MAX_LIMITS - 1; limit_w -= request->step_w)
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

static int oracle_command_run(void *options, const struct lull_operands *operands)
{
    const struct oracle_main_request *const request = options;
    struct lull_error err = {0};
    int result;

    (void)operands;
    if (request->step_w > 0.0)
        result = print_limits(request, &err);
    else
        result = oracle_command_print_clocks(&request->job, &err);
    return result < 0 ? lull_program_fail("lull-oracle", &err) : LULL_EXIT_OK;
}

int main(int argc, char **argv)
{
    static const struct lull_program_command command = {
        .name = "lull-oracle",
        .summary = "compute the best possible savings of clocks and power limits",
        .about = "Prints the best possible saving of lower clocks in a collective, or the effect "
                 "of power limits on a job.",
        .tables = {{rows, 0}},
        .size = sizeof(struct oracle_main_request),
        .run = oracle_command_run,
    };
    static const struct lull_program_command *const commands[] = {&command, NULL};
    static const struct lull_program program = {
        .name = "lull-oracle", .version = LULL_VERSION, .commands = commands};

    return lull_program_main(&program, argc, argv);
}
