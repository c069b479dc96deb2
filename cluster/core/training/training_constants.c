/*
 * Rates of hardware and software of published training runs. data/training_anchors.json has the
 * published steps, and those that calibrated a constant (docs/research/composition.md).
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "cluster/core/training/training.h"
#include "core/stats/student.h"

/*
 * Peaks and memory_bytes_s are of data sheets. memory_ratio, attention_ratio and kernel_s of A100
 * and H100 are rounded from a search for the least scatter of matrix_ratio over the calibrated
 * anchors of megatron-2022 and llm-foundry (0.66, 0.47 and 0.39; kernel_s reached its bound of 8 us
 * and is set to the time of small kernels); those of the others are guesses. Links within a node
 * are the bus bandwidths of data/gpu_models.json (the B200's is a guess), between nodes 90 % of
 * each GPU's port of 200 or 400 Gbit/s; latencies of a step are nominal. node_w is the power
 * without GPUs of one 8xH100 node of MLPerf v4.0's power runs in Llama-2 LoRA.
 */
const struct lull_training_gpu lull_training_gpus[] = {
    {.name = "A100-SXM4-80GB",
     .flops = {312e12, 0.0},
     .memory_bytes_s = 2.0e12,
     .memory_ratio = 0.7,
     .attention_ratio = 0.5,
     .kernel_s = 5e-6,
     .inside = {2000, 1.0 / 230.0},
     .between = {4000, 1.0 / 22.5},
     .node_gpus = 8,
     .node_w = NAN},
    {.name = "H100-SXM5",
     .flops = {989e12, 1979e12},
     .memory_bytes_s = 3.35e12,
     .memory_ratio = 0.7,
     .attention_ratio = 0.4,
     .kernel_s = 5e-6,
     .inside = {2000, 1.0 / 360.0},
     .between = {4000, 1.0 / 45.0},
     .node_gpus = 8,
     .node_w = 1805.0},
    {.name = "B200",
     .flops = {2250e12, 4500e12},
     .memory_bytes_s = 8.0e12,
     .memory_ratio = 0.7,
     .attention_ratio = 0.4,
     .kernel_s = 5e-6,
     .inside = {2000, 1.0 / 700.0},
     .between = {4000, 1.0 / 45.0},
     .node_gpus = 8,
     .node_w = NAN,
     .is_power_guessed = true},
    {.name = "V100-SXM2-16GB",
     .flops = {125e12, 0.0},
     .memory_bytes_s = 0.9e12,
     .memory_ratio = 0.7,
     .attention_ratio = 0.5,
     .kernel_s = 5e-6,
     .inside = {2000, 1.0 / 130.0},
     .between = {4000, 1.0 / 10.5},
     .node_gpus = 8,
     .node_w = NAN},
};
const uint32_t lull_training_gpu_count = sizeof(lull_training_gpus) / sizeof(lull_training_gpus[0]);

/* Of tools/calibrate-training. gap_s is the time outside the step's timer in the GPT-3 run of
 * MLPerf v4.0, for steps that were derived from throughput. */
const struct lull_training_software lull_training_softwares[] = {
    {"megatron-2022", 0.858, 0.0, "Korthikanti et al., MLSys'23, table 5: 22B and 175B"},
    {"megatron-2021", 0.834, 0.0, "Narayanan et al., SC'21, table 1: 39B"},
    {"mt-nlg", 0.602, 0.0, "Smith et al., arXiv 2201.11990: 530B on 2240 GPUs"},
    {"nemo-v4.1", 0.756, 0.0, "MLPerf training v4.1: GPT-3 on 256 GPUs"},
    {"nemo-v4.0", 0.714, 0.0, "nemo-v4.1, slower by what one node's Llama-2 LoRA was in v4.0"},
    {"nemo-v3.1", 0.594, 0.13, "MLPerf training v3.1: GPT-3 on 512 GPUs"},
    {"nemo-lora-v4.1", 0.730, 0.13, "MLPerf training v4.1: Llama-2 70B LoRA on 8 GPUs"},
    {"nemo-lora-v4.0", 0.689, 0.13, "MLPerf training v4.0, power runs: Llama-2 70B LoRA on 8 GPUs"},
    {"torchtitan", 0.450, 0.0, "torchtitan, December 2024: Llama-3.1 8B on 8 GPUs of 500 W"},
    {"torchtitan-compiled", 0.531, 0.0, "the same, torch.compile"},
    {"torchtitan-compiled-fp8", 0.492, 0.0, "the same, torch.compile and fp8"},
    {"meta-llama-3", 0.753, 0.0, "The Llama 3 herd of models: 405B on 8192 GPUs"},
    {"megatron-2024", 0.614, 0.0, "Megatron-LM, README of 2024: 177B on 96 GPUs"},
    {"llm-foundry-a100", 0.771, 0.0,
     "llm-foundry's benchmarks: 1.3B, 7B, 30B, and 13B of 32768 tokens"},
    {"llm-foundry-h100", 0.592, 0.0,
     "llm-foundry's benchmarks: 1.3B, 7B, 30B, and 13B of 16384 tokens"},
    {"mlperf-bert", 0.783, 0.0, "MLPerf training v4.1: BERT on 8 GPUs"},
    {"deeplearningexamples-bert", 0.723, 0.0, "DeepLearningExamples: BERT-large phase 1 on 1 GPU"},
    {"mlperf-resnet", 0.532, 0.0, "MLPerf training v4.0: ResNet-50 on 8 GPUs"},
    {"deeplearningexamples-resnet-a100", 0.514, 0.0, "DeepLearningExamples: ResNet-50 on 1 A100"},
    {"deeplearningexamples-resnet-v100", 0.684, 0.0, "DeepLearningExamples: ResNet-50 on 1 V100"},
};
const uint32_t lull_training_software_count =
    sizeof(lull_training_softwares) / sizeof(lull_training_softwares[0]);

const struct lull_training_gpu *lull_training_gpu_find(const char *name)
{
    for (uint32_t i = 0; i < lull_training_gpu_count; i++)
        if (strcmp(lull_training_gpus[i].name, name) == 0)
            return &lull_training_gpus[i];
    return NULL;
}

const struct lull_training_software *lull_training_software_find(const char *name)
{
    for (uint32_t i = 0; i < lull_training_software_count; i++)
        if (strcmp(lull_training_softwares[i].name, name) == 0)
            return &lull_training_softwares[i];
    return NULL;
}

/* Of tools/calibrate-training on data/training_anchors.json: |log(predicted / measured)| of the
 * anchors whose use is "interval", which no constant uses; ascending. */
static const double log_errors[] = {
    0.0047, 0.0098, 0.0152, 0.0216, 0.0242, 0.0266, 0.0302, 0.0317, 0.0361, 0.0417,
    0.0427, 0.0529, 0.0559, 0.0573, 0.0587, 0.0595, 0.0609, 0.0612, 0.0704, 0.0785,
    0.0837, 0.0840, 0.0934, 0.0944, 0.0962, 0.1072, 0.1227, 0.1732, 0.3339, 0.5960,
};

/* The same for log(predicted / measured) of the power of a node: root mean square of three values.
 */
static const double log_power_error = 0.052;
static const double power_errors = 3.0;

static double log_factor(double confidence_ratio)
{
    const size_t count = sizeof(log_errors) / sizeof(log_errors[0]);
    const double place = ceil(confidence_ratio * (double)(count + 1)) - 1.0;

    return log_errors[(size_t)fmin(fmax(place, 0.0), (double)count - 1.0)];
}

double lull_training_factor(double confidence_ratio)
{
    return exp(log_factor(confidence_ratio));
}

double lull_training_energy_factor(double confidence_ratio)
{
    const double t = lull_student_quantile(0.5 + confidence_ratio / 2.0, power_errors);

    return exp(hypot(log_factor(confidence_ratio), t * log_power_error));
}
