/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/json_string.h"
#include "core/pipeline/schedule/schedule.h"
#include "lab/reproduce/command.h"
#include "lab/reproduce/envpipe/planner.h"
#include "trace/pipeline_profile.h"

enum { ROWS = 4, STAGES = 8 };

/* The publication counts a pipeline of ten times as many layers on eight GPUs for each stage; the
 * profiles hold the time of a tenth of the layers and the energy of one GPU. */
static const double layers_ratio = 10.0;
static const double gpus_per_stage = 8.0;

/* Relative difference of energies from which the command fails: the published ones have nine
 * digits. */
static const double most_difference = 1e-8;

struct published {
    uint32_t microbatches;
    double time_s;
    double energy_j;
};

/* sosp24_data/emulation/envpipe_result.csv of ml-energy/zeus, branch kronos, commit 38cb3f9. */
static const struct envpipe_gpu {
    const char *title;
    double blocking_w; /* of one GPU */
    struct published rows[ROWS];
} gpus[] = {
    {"A100-SXM",
     83.64,
     {{12, 28.365, 503607.718},
      {24, 46.712, 968871.603},
      {48, 83.406, 1899399.374},
      {96, 156.794, 3760454.915}}},
    {"A40",
     70.38,
     {{12, 75.463, 893872.742},
      {24, 123.658, 1702218.570},
      {48, 220.046, 3319080.689},
      {96, 412.824, 6552804.926}}},
};

static const char *const gpu_names[] = {"a100", "a40", NULL};

struct envpipe_options {
    uint32_t gpu;
    bool is_json;
};

struct reproduced {
    uint32_t steps;
    double time_s;
    double energy_j;
};

/* ---- one row ------------------------------------------------------------------------------ */

static int plan_graph(const struct lull_pipeline_problem *problem, struct reproduced *row_out)
{
    uint32_t *const point = malloc(problem->graph->op_count * sizeof(*point));
    struct lull_pipeline_cost cost;
    int rc = -ENOMEM;

    if (point == NULL)
        return -ENOMEM;
    rc = lull_envpipe_plan(problem, point, &row_out->steps);
    if (rc == 0) {
        cost = lull_pipeline_plan_cost(problem, point, 0);
        row_out->time_s = layers_ratio * (double)cost.time_ns * 1e-9;
        row_out->energy_j = layers_ratio * gpus_per_stage * cost.energy_j;
        rc = cost.time_ns < 0 ? -ENOMEM : 0;
    }
    free(point);
    return rc;
}

static int reproduce_row(const struct lull_pipeline_profile *measured,
                         const struct envpipe_gpu *gpu, uint32_t microbatches,
                         struct reproduced *row_out, struct lull_error *err)
{
    const struct lull_pipeline_schedule schedule = {.family = LULL_PIPELINE_1F1B, .chunks = 1};
    const struct lull_pipeline_shape shape = {
        .devices = STAGES, .microbatches = microbatches, .replicas = {.count = 1}};
    struct lull_pipeline_profile fitted;
    struct lull_pipeline_graph graph;
    double blocking_w[STAGES];
    int rc = lull_pipeline_schedule_build(&schedule, &shape, measured, &fitted, &graph, err);

    if (rc < 0)
        return rc;
    for (int stage = 0; stage < STAGES; stage++)
        blocking_w[stage] = gpu->blocking_w;
    rc = plan_graph(&(struct lull_pipeline_problem){&fitted, &graph, blocking_w}, row_out);
    lull_pipeline_graph_fini(&graph);
    lull_pipeline_profile_fini(&fitted);
    return rc < 0 ? lull_error_set(err, rc, "not enough memory for the plan") : 0;
}

static double difference(const struct reproduced *row, const struct published *published)
{
    return fabs(row->energy_j / published->energy_j - 1.0);
}

/* ---- output ------------------------------------------------------------------------------- */

static void print_text(const struct envpipe_gpu *gpu, const struct reproduced *rows)
{
    printf("EnvPipe's plans for GPT-3 175B on %s, %d stages of %g GPUs, 1F1B\n\n"
           "micro-batches  steps     time s  published       energy J      published\n",
           gpu->title, STAGES, gpus_per_stage);
    for (int i = 0; i < ROWS; i++)
        printf("%13u %6u %10.3f %10.3f %14.3f %14.3f\n", gpu->rows[i].microbatches, rows[i].steps,
               rows[i].time_s, gpu->rows[i].time_s, rows[i].energy_j, gpu->rows[i].energy_j);
}

static int print_json(const struct envpipe_gpu *gpu, const struct reproduced *rows)
{
    json_t *const list = json_array();
    json_t *const document = json_pack("{s:s, s:o}", "gpu", gpu->title, "rows", list);
    int rc;

    for (int i = 0; i < ROWS; i++)
        json_array_append_new(list, json_pack("{s:I, s:I, s:f, s:f, s:f, s:f}", "microbatches",
                                              (json_int_t)gpu->rows[i].microbatches, "steps",
                                              (json_int_t)rows[i].steps, "time_s", rows[i].time_s,
                                              "published_time_s", gpu->rows[i].time_s, "energy_j",
                                              rows[i].energy_j, "published_energy_j",
                                              gpu->rows[i].energy_j));
    rc = json_dumpf(document, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(document);
    return rc;
}

/* ---- the command line --------------------------------------------------------------------- */

static const struct lull_option rows[] = {
    LULL_VALUE("gpu", NULL, WORD, struct envpipe_options, gpu,
               "The GPU that the profile was measured on.", .words = gpu_names,
               .default_value = "a100"),
    LULL_JSON_ROW(struct envpipe_options, is_json),
    {0},
};

static int reproduce(const struct envpipe_options *options, const char *path,
                     struct lull_error *err)
{
    const struct envpipe_gpu *const gpu = &gpus[options->gpu];
    struct lull_pipeline_profile measured;
    struct reproduced results[ROWS] = {{0}};
    int rc = lull_pipeline_profile_read(path, &measured, NULL, err);

    if (rc < 0)
        return rc;
    for (int i = 0; i < ROWS && rc == 0; i++)
        rc = reproduce_row(&measured, gpu, gpu->rows[i].microbatches, &results[i], err);
    lull_pipeline_profile_fini(&measured);
    if (rc < 0)
        return rc;
    if (!options->is_json)
        print_text(gpu, results);
    else if (print_json(gpu, results) < 0)
        return lull_error_set(err, -EIO, "cannot write to standard output");
    for (int i = 0; i < ROWS; i++)
        if (difference(&results[i], &gpu->rows[i]) > most_difference)
            return lull_error_set(err, -EDOM,
                                  "%s: the energy of %u micro-batches differs from the published "
                                  "one by more than 1e-8; give the profile of the %s, and --gpu",
                                  path, gpu->rows[i].microbatches, gpu->title);
    return 0;
}

static int envpipe_command_run(void *options, const struct lull_operands *operands)
{
    struct lull_error err = {0};
    const int rc = reproduce(options, operands->words[0], &err);

    return rc < 0 ? lull_program_fail("lull-reproduce envpipe", &err) : LULL_EXIT_OK;
}

const struct lull_program_command lull_envpipe_command = {
    .name = "envpipe",
    .summary = "EnvPipe's plans of a pipeline, on published profiles (ATC 2023)",
    .arguments = "PROFILE.csv",
    .about = "Plans GPT-3's pipeline with EnvPipe's rules, and prints time and energy beside those "
             "that the authors of Perseus published for EnvPipe.",
    .tables = {{rows, 0}},
    .operands = {.least = 1, .most = 1, .missing = "give the profile of the stages"},
    .size = sizeof(struct envpipe_options),
    .run = envpipe_command_run,
};
