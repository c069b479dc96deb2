/*
 * lull model job: step, energy and power of training jobs, composed of their parts.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cluster/cli/model_job/job.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cli/commands.h"
#include "cli/shared/command.h"
#include "base/printable.h"
#include "cluster/core/training/training_power.h"
#include "cluster/simulator/job_classes.h"

struct model_job_arguments {
    bool is_json;
    bool is_fit;
    uint32_t clocks;
    uint32_t gpus; /* 0: the value of the file */
    double confidence_ratio;
    int64_t meter_ns;
};

static const struct lull_option rows[] = {
    LULL_VALUE("clock-count", "N", WHOLE, struct model_job_arguments, clocks,
               "Predict at this many SM clocks, from the highest down to half of it.",
               .default_value = "1", .least = 1, .most = LULL_MODEL_JOB_CLOCKS),
    LULL_VALUE("gpu-count", "N", WHOLE, struct model_job_arguments, gpus,
               "Run each job on this many GPUs, with the same batch.", .least = 1, .most = 1 << 24,
               .otherwise = "the values in the file"),
    LULL_FLAG("fit", struct model_job_arguments, is_fit,
              "Take from each measured step how fast the job's software is.",
              .more = "Then the step at the highest clock is the measured one, and what is "
                      "predicted is other clocks, and with --gpu-count other numbers of GPUs."),
    LULL_VALUE("confidence", "RATIO", RATIO, struct model_job_arguments, confidence_ratio,
               "Confidence level of the step-time interval.", .default_value = "90%", .least = 0.1,
               .most = LULL_TRAINING_MAX_CONFIDENCE),
    LULL_VALUE("meter", "S", TIME, struct model_job_arguments, meter_ns,
               "Show power by the position in a step as a meter sees it that averages this long.",
               .default_value = "0", .least = 0, .most = 60),
    LULL_JSON_ROW(struct model_job_arguments, is_json),
    {0},
};

/* ---- parts of a job ------------------------------------------------------------------------- */

static int model_job_refuse(const struct lull_training_entry *entry, int code, const char *what,
                            struct lull_error *err)
{
    return lull_error_set(err, code, "job \"%s\": %s", lull_printable(entry->name).text, what);
}

/* Takes the constants of the job's software, or those that reproduce its measured step. */
static int take_software(const struct model_job_arguments *arguments,
                         const struct lull_training_gpu *gpu, struct lull_model_job *out,
                         struct lull_error *err)
{
    const struct lull_training_entry *entry = out->entry;
    const struct lull_training_software *software = NULL;
    struct lull_error why = {0};
    int rc;

    if (entry->software[0] != '\0') {
        software = lull_training_software_find(entry->software);
        if (software == NULL)
            return model_job_refuse(
                entry, LULL_E_FORMAT,
                "its software is not known; give matrix_ratio or measured_step_s instead", err);
        if (out->job.matrix_ratio <= 0.0)
            out->job.matrix_ratio = software->matrix_ratio;
        if (out->job.gap_s <= 0.0)
            out->job.gap_s = software->gap_s;
    }
    out->is_fitted = entry->step_s > 0.0 && (arguments->is_fit || out->job.matrix_ratio <= 0.0);
    if (!out->is_fitted && out->job.matrix_ratio <= 0.0)
        return model_job_refuse(entry, LULL_E_FORMAT,
                                "it has none of software, matrix_ratio and measured_step_s", err);
    if (!out->is_fitted)
        return 0;
    out->job.matrix_ratio = 1.0;
    rc = lull_training_fit(&out->job, gpu, entry->step_s, &out->job.matrix_ratio, &why);
    return rc < 0 ? model_job_refuse(entry, LULL_E_FORMAT, why.text, err) : 0;
}

/* The scaling of each kind of work over the clocks of the GPU: [clock][work]. Returns how many
 * clocks. */
static uint32_t fill_tempo(const struct lull_job_type *type, const struct lull_training_step *step,
                           struct lull_job_tempo (*tempo)[LULL_JOB_PARALLEL_WORKS])
{
    struct lull_job_tempo *const one = malloc(LULL_JOB_MAX_CLOCKS * sizeof(*one));
    uint32_t count = 0;

    for (int work = 0; one != NULL && work < LULL_JOB_PARALLEL_WORKS; work++) {
        count = lull_job_training_tempo(type, &step->works[work], work == LULL_JOB_BACKWARD_WORK,
                                        LULL_JOB_NVLINK, one);
        for (uint32_t i = 0; i < count; i++)
            tempo[i][work] = one[i];
    }
    free(one);
    return count;
}

/* ---- at a clock ----------------------------------------------------------------------------- */

static int model_job_add_point(struct lull_model_job *out, const struct lull_training_gpu *gpu,
                               const struct lull_job_graph *graph,
                               const struct lull_job_tempo *tempo, struct lull_error *err)
{
    struct lull_model_job_point *point = &out->points[out->point_count];
    const struct lull_job_parallel *parallel = &out->step.parallel;
    struct lull_job_iteration once;
    const int rc = lull_job_iterate(graph, parallel->pipeline,
                                    (uint64_t)parallel->data * parallel->tensor, tempo, &once);

    if (rc < 0)
        return model_job_refuse(out->entry, rc, "not enough memory for its tasks", err);
    *point = (struct lull_model_job_point){
        .sm_mhz = tempo->sm_mhz,
        .step_s = (double)once.time_ns * 1e-9,
        .compute_ratio = once.compute_ratio,
        .exposed_ratio = once.exposed_ratio,
        .bubble_ratio = once.bubble_ratio,
        .energy_j = once.energy_j,
    };
    point->gpu_w = point->energy_j / point->step_s / out->job.gpus;
    point->node_w = gpu->node_gpus * point->gpu_w + gpu->node_w;
    out->point_count++;
    return 0;
}

static int model_job_add_points(const struct model_job_arguments *arguments,
                                const struct lull_job_type *type,
                                const struct lull_training_gpu *gpu,
                                const struct lull_job_graph *graph, struct lull_model_job *out,
                                struct lull_error *err)
{
    struct lull_job_tempo(*tempo)[LULL_JOB_PARALLEL_WORKS] =
        calloc(LULL_JOB_MAX_CLOCKS, sizeof(*tempo));
    const uint32_t count = tempo != NULL ? fill_tempo(type, &out->step, tempo) : 0;
    uint32_t usable = 0;
    uint32_t clocks;
    int rc = count > 0
                 ? 0
                 : model_job_refuse(out->entry, -ENOMEM, "not enough memory for its clocks", err);

    while (usable < count && 2 * tempo[usable][0].sm_mhz >= tempo[0][0].sm_mhz)
        usable++;
    clocks = arguments->clocks < usable ? arguments->clocks : usable;
    for (uint32_t i = 0; i < clocks && rc == 0; i++)
        rc = model_job_add_point(out, gpu, graph,
                                 tempo[clocks > 1 ? i * (usable - 1) / (clocks - 1) : 0], err);
    if (rc == 0)
        rc = lull_training_power(graph, out->step.parallel.pipeline, tempo[0], arguments->meter_ns,
                                 LULL_MODEL_JOB_BINS, out->bins_w);
    for (int i = 0; i < LULL_MODEL_JOB_BINS; i++)
        out->bins_w[i] = out->bins_w[i] * gpu->node_gpus + gpu->node_w;
    free(tempo);
    return rc;
}

/* At the highest clock only, in time only. */
static int add_time(const struct lull_training_gpu *gpu, const struct lull_job_graph *graph,
                    struct lull_model_job *out, struct lull_error *err)
{
    static const struct lull_job_tempo highest = {.compute_ratio = 1.0, .transfer_ratio = 1.0};
    const struct lull_job_tempo tempo[LULL_JOB_PARALLEL_WORKS] = {highest, highest, highest};
    const int rc = model_job_add_point(out, gpu, graph, tempo, err);

    out->points[0].energy_j = out->points[0].gpu_w = out->points[0].node_w = NAN;
    for (int i = 0; i < LULL_MODEL_JOB_BINS; i++)
        out->bins_w[i] = NAN;
    return rc;
}

static int model_job_predict(const struct model_job_arguments *arguments,
                             const struct lull_training_entry *entry, struct lull_model_job *out,
                             struct lull_error *err)
{
    const struct lull_training_gpu *gpu = lull_training_gpu_find(entry->gpu);
    struct lull_error why = {0};
    struct lull_job_graph graph;
    struct lull_job_type type = {0};
    int rc = lull_job_type_find(entry->gpu, (uint32_t)strlen(entry->gpu), &type);

    *out = (struct lull_model_job){
        .entry = entry,
        .job = entry->job,
        .factor = lull_training_factor(arguments->confidence_ratio),
        .energy_factor = lull_training_energy_factor(arguments->confidence_ratio),
    };
    if (gpu == NULL && rc == 0) /* by an alias */
        gpu = lull_training_gpu_find(type.name);
    if (gpu == NULL)
        return model_job_refuse(
            entry, LULL_E_FORMAT,
            "its gpu is none of A100-SXM4-80GB, H100-SXM5, B200 and V100-SXM2-16GB", err);
    rc = take_software(arguments, gpu, out, err);
    if (rc < 0)
        return rc;
    if (arguments->gpus > 0)
        out->job.gpus = arguments->gpus;
    rc = lull_training_compose(&out->job, gpu, &out->step, &why);
    if (rc == 0)
        rc = lull_job_parallel_build(&out->step.parallel, &graph, &why);
    if (rc < 0)
        return model_job_refuse(entry, rc == -ENOMEM ? rc : LULL_E_FORMAT, why.text, err);
    if (type.model != NULL && !gpu->is_power_guessed) {
        rc = model_job_add_points(arguments, &type, gpu, &graph, out, err);
        if (isnan(gpu->node_w))
            out->why_null = "the power of a node without its GPUs is unknown for this GPU";
    } else {
        rc = add_time(gpu, &graph, out, err);
        out->why_null = "no power was measured over the clocks of this GPU";
    }
    lull_job_graph_fini(&graph);
    return rc;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int predict_all(const struct model_job_arguments *arguments,
                       const struct lull_training_jobs *jobs, struct lull_error *err)
{
    struct lull_model_job *const predicted = calloc(jobs->count, sizeof(*predicted));
    int rc = 0;

    if (predicted == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for %zu jobs", jobs->count);
    for (size_t i = 0; i < jobs->count && rc == 0; i++)
        rc = model_job_predict(arguments, &jobs->entries[i], &predicted[i], err);
    if (rc == 0 && arguments->is_json)
        rc = lull_model_job_print_json(predicted, jobs->count, arguments->confidence_ratio,
                                       (double)arguments->meter_ns * 1e-9);
    else if (rc == 0)
        lull_model_job_print(predicted, jobs->count, arguments->confidence_ratio);
    free(predicted);
    return rc;
}

static int model_job_command(void *options, const struct lull_operands *operands)
{
    struct lull_training_jobs jobs;
    struct lull_error err = {0};
    int rc = lull_training_jobs_read(operands->words[0], &jobs, &err);

    if (rc < 0)
        return lull_cli_fail("model job", &err);
    rc = predict_all(options, &jobs, &err);
    lull_training_jobs_fini(&jobs);
    if (rc < 0 && err.code != 0)
        return lull_cli_fail("model job", &err);
    return rc < 0 ? LULL_EXIT_FAILED : LULL_EXIT_OK;
}

const struct lull_program_command lull_model_job_command = {
    .name = "model job",
    .summary = "predict step, power and energy of training jobs at any clock and size",
    .arguments = "JOBS",
    .about = "Reads training jobs (model, layout, GPUs) and predicts the duration of a step with "
             "an interval, the shares of exposed communication and waiting, and the energy. JOBS "
             "is a JSON file; - is standard input. Requires no GPU and no root.",
    .after = "Examples:\n"
             "  lull model job data/training_anchors.json\n"
             "  lull model job --json --fit --clock-count 12 mine.json",
    .tables = {{rows, 0}},
    .operands = {.least = 1,
                 .most = 1,
                 .missing =
                     "there is no file of jobs; give a JSON file as lull-model-job(1) describes"},
    .size = sizeof(struct model_job_arguments),
    .run = model_job_command,
};
