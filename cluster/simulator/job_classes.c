/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/simulator/job_classes.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

/* The model of GPU on which the kernels were measured. */
#define MEASURED_ON "A100-SXM4-40GB"
/* The model of GPU whose ports represent those of types with unknown ports. */
#define TRAINED_ON "A100-SXM4-80GB"

const struct lull_job_class lull_job_classes[LULL_JOB_CLASSES] = {
    {.name = "compute",
     .what = "dense matrix products: transformers",
     .parts = {{"llm_fwd", "llm_gemm", 1.0 / 3.0}, {"llm_bwd", "llm_gemm", 2.0 / 3.0}},
     .sync_ratio = {0.115, 0.62},
     .read_mb_s = 1.0},
    {.name = "vision",
     .what = "convolutions, memory and matrix products in turn",
     .parts = {{"training", NULL, 1.0}},
     .sync_ratio = {0.07, 0.35},
     .read_mb_s = 284.0},
    {.name = "memory",
     .what = "bound by memory: embeddings, recurrent networks",
     .parts = {{"lbm", NULL, 1.0}},
     .sync_ratio = {0.05, 0.46},
     .read_mb_s = 10.0},
    {.name = "host",
     .what = "waits for the host: input, environments, small batches",
     .parts = {{"host_bound", NULL, 1.0}},
     .sync_ratio = {0.10, 0.74}},
};

static const struct {
    const char *begin;
    const char *name; /* of the class */
} models[] = {
    {"bert", "compute"},     {"gpt", "compute"},       {"transformer", "compute"},
    {"llama", "compute"},    {"alexnet", "vision"},    {"cifar", "vision"},
    {"cyclegan", "vision"},  {"imagenet", "vision"},   {"inception", "vision"},
    {"mobilenet", "vision"}, {"resnet", "vision"},     {"vgg", "vision"},
    {"yolo", "vision"},      {"deepspeech", "memory"}, {"lm (", "memory"},
    {"lstm", "memory"},      {"ncf", "memory"},        {"recommendation", "memory"},
    {"a3c", "host"},
};

uint32_t lull_job_class_find(const char *name)
{
    uint32_t found = 0;

    while (found < LULL_JOB_CLASSES && strcmp(lull_job_classes[found].name, name) != 0)
        found++;
    return found;
}

uint32_t lull_job_class_of(const char *model)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        if (strncasecmp(model, models[i].begin, strlen(models[i].begin)) == 0)
            return lull_job_class_find(models[i].name);
    return LULL_JOB_CLASSES;
}

uint32_t lull_job_class_draw(struct lull_random *random)
{
    return (uint32_t)lull_random_below(random, LULL_JOB_CLASSES);
}

/* ---- kernels ------------------------------------------------------------------------------ */

static const struct lull_device_curve *measured_on(void)
{
    return lull_device_curve_find(MEASURED_ON, sizeof(MEASURED_ON) - 1);
}

/* The model's own kernel; else the A100's, with its power scaled as that of a kernel that was
 * measured on both. */
static struct lull_device_kernel job_classes_take_kernel(const struct lull_device_curve *model,
                                                         const char *name, const char *like)
{
    const struct lull_device_kernel *own = lull_device_curve_kernel(model, name);

    if (own == NULL)
        own = lull_device_curve_kernel(model, like);
    if (own != NULL)
        return *own;

    const char *common = "training";

    if (lull_device_curve_kernel(model, common) == NULL)
        common = "llm_fwd";

    const struct lull_device_kernel *both = lull_device_curve_kernel(model, common);
    const struct lull_device_kernel *beside = lull_device_curve_kernel(measured_on(), common);

    assert(both != NULL); /* data/gpu_models.json: each model has one of them */

    struct lull_device_kernel kernel = *lull_device_curve_kernel(measured_on(), name);

    kernel.base_w *= both->base_w / beside->base_w;
    kernel.slope_w *= both->slope_w / beside->slope_w;
    return kernel;
}

void lull_job_class_work(uint32_t job_class, const struct lull_device_curve *model,
                         enum lull_job_network network, struct lull_job_work *work_out)
{
    const struct lull_job_class *asked = &lull_job_classes[job_class];

    *work_out = (struct lull_job_work){.sync_ratio = asked->sync_ratio[network]};
    for (uint32_t i = 0; i < LULL_JOB_MAX_PARTS && asked->parts[i].kernel != NULL; i++)
        work_out->parts[work_out->part_count++] = (struct lull_job_part){
            .kernel = job_classes_take_kernel(model, asked->parts[i].kernel, asked->parts[i].like),
            .share_ratio = asked->parts[i].share_ratio,
        };
}

/* ---- clocks ------------------------------------------------------------------------------- */

static double link_gbs(const struct lull_device_curve *model, enum lull_job_network network)
{
    const double ethernet_gbs = 25.0 / 8.0;

    return network == LULL_JOB_NVLINK ? model->link_gbs : fmin(ethernet_gbs, model->link_gbs);
}

void lull_job_model_fill(const struct lull_device_curve *model, enum lull_job_network network,
                         struct lull_job_model *job_model_out)
{
    const uint32_t channels = network == LULL_JOB_NVLINK ? 16 : 4;
    const double gbs = link_gbs(model, network);
    const double best_gbs = lull_device_transfer_gbs(model, gbs, channels, model->sm_max_mhz);
    const uint32_t count = lull_device_clocks(model, job_model_out->clocks);

    for (uint32_t i = 0; i < count; i++) {
        const double mhz = job_model_out->clocks[i].mhz;
        const double rate_gbs = lull_device_transfer_gbs(model, gbs, channels, mhz);

        job_model_out->transfers[i] = (struct lull_job_transfer){
            .rate_ratio = rate_gbs / best_gbs,
            .watts = lull_device_transfer_w(model, rate_gbs, channels, mhz),
        };
    }
    job_model_out->gpu = (struct lull_job_gpu){
        .clocks = job_model_out->clocks,
        .transfers = job_model_out->transfers,
        .clock_count = count,
        .limit_w = model->limit_default_w * model->limit_settle_ratio,
    };
}

/* ---- types of GPU ------------------------------------------------------------------------- */

/* Data sheets: a P100 of 250 W; one of the two GPUs of a K80 of 300 W. Idle power is nominal. */
static const struct lull_job_type boards[] = {
    {.name = "P100-PCIE-16GB", .memory_mib = 16384, .limit_w = 250.0, .idle_w = 26.0},
    {.name = "K80-12GB", .memory_mib = 12288, .limit_w = 150.0, .idle_w = 26.0},
};

int lull_job_type_find(const char *name, uint32_t length, struct lull_job_type *type_out)
{
    const struct lull_device_curve *model = lull_device_curve_find(name, length);

    if (model != NULL) {
        *type_out = (struct lull_job_type){model->name, model, model->memory_mib,
                                           model->limit_default_w, model->idle_w};
        return 0;
    }
    for (size_t i = 0; i < sizeof(boards) / sizeof(boards[0]); i++) {
        if (strlen(boards[i].name) != length || strncasecmp(boards[i].name, name, length) != 0)
            continue;
        *type_out = boards[i];
        return 0;
    }
    return -ENOENT;
}

const struct lull_training_gpu *lull_job_type_training(const struct lull_job_type *type)
{
    for (uint32_t i = 0; i < lull_training_gpu_count; i++) {
        const char *const name = lull_training_gpus[i].name;
        const char *const memory = strrchr(name, '-');

        /* Boards that differ in memory only are alike. */
        if (strcmp(type->name, name) == 0 ||
            (memory != NULL && memory[1] >= '0' && memory[1] <= '9' &&
             strncmp(type->name, name, (size_t)(memory + 1 - name)) == 0))
            return &lull_training_gpus[i];
    }
    return NULL;
}

struct lull_job_links lull_job_type_links(const struct lull_job_type *type,
                                          enum lull_job_network network)
{
    const struct lull_training_gpu *gpu = lull_job_type_training(type);
    const double ethernet_gbs = 25.0 / 8.0;
    struct lull_job_links links;

    if (gpu == NULL) /* of the nearest: an A100's ports, and the type's own links */
        gpu = lull_training_gpu_find(TRAINED_ON);
    links = (struct lull_job_links){gpu->inside, gpu->between};
    if (network == LULL_JOB_ETHERNET)
        links.between.ns_per_byte = 1.0 / ethernet_gbs;
    if (type->model == NULL)
        links.inside = links.between;
    else
        links.inside.ns_per_byte = 1.0 / type->model->link_gbs;
    return links;
}

uint32_t lull_job_type_tempo(const struct lull_job_type *type, uint32_t job_class,
                             enum lull_job_network network, struct lull_job_tempo *tempo_out)
{
    const struct lull_device_curve *model = type->model;
    struct lull_job_model curves;
    struct lull_job_work work;

    if (model == NULL)
        model = measured_on();
    lull_job_model_fill(model, network, &curves);
    lull_job_class_work(job_class, model, network, &work);
    lull_job_tempo(&curves.gpu, &work, tempo_out);
    if (type->model != NULL)
        return curves.gpu.clock_count;
    tempo_out[0].sm_mhz = 0;
    tempo_out[0].compute_w *= type->limit_w / model->limit_default_w;
    tempo_out[0].transfer_w *= type->limit_w / model->limit_default_w;
    tempo_out[0].waiting_w *= type->limit_w / model->limit_default_w;
    return 1;
}

/* The parts of computation follow each other within microseconds, so that the board's limit holds
 * their mean power, not that of each: they are one kernel. */
uint32_t lull_job_training_tempo(const struct lull_job_type *type,
                                 const struct lull_training_time *time, bool is_backward,
                                 enum lull_job_network network, struct lull_job_tempo *tempo_out)
{
    const double busy_s = time->matrix_s + time->memory_s;
    const double memory_ratio = busy_s > 0.0 ? time->memory_s / busy_s : 0.0;
    const struct lull_device_kernel matrix =
        job_classes_take_kernel(type->model, is_backward ? "llm_bwd" : "llm_fwd", "llm_gemm");
    const struct lull_device_kernel copy = job_classes_take_kernel(type->model, "stream", NULL);
    struct lull_job_work work = {.part_count = 1, .host_ratio = 1.0};
    struct lull_job_model curves;

    if (busy_s > 0.0) {
        work.host_ratio = time->fixed_s / (busy_s + time->fixed_s);
        work.parts[0] = (struct lull_job_part){
            .kernel = {.base_w = matrix.base_w + memory_ratio * (copy.base_w - matrix.base_w),
                       .slope_w = matrix.slope_w + memory_ratio * (copy.slope_w - matrix.slope_w),
                       .memory_ratio = memory_ratio},
            .share_ratio = 1.0 - work.host_ratio,
        };
    }
    lull_job_model_fill(type->model, network, &curves);
    lull_job_tempo(&curves.gpu, &work, tempo_out);
    return curves.gpu.clock_count;
}
