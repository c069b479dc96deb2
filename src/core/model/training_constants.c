/*
 * What hardware and software of published training runs can do. Peaks and bandwidths are of data
 * sheets. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "core/model/training.h"
#include "core/stats/student.h"

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
     .node_w = 1850.0},
    {.name = "B200",
     .flops = {2250e12, 4500e12},
     .memory_bytes_s = 8.0e12,
     .memory_ratio = 0.7,
     .attention_ratio = 0.4,
     .kernel_s = 5e-6,
     .inside = {2000, 1.0 / 700.0},
     .between = {4000, 1.0 / 45.0},
     .node_gpus = 8,
     .node_w = NAN},
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
const uint32_t lull_training_gpu_count =
    sizeof(lull_training_gpus) / sizeof(lull_training_gpus[0]);

const struct lull_training_software lull_training_softwares[] = {
    {"megatron-2022", 0.858, 0.0, 4, "Korthikanti et al., MLSys'23, table 5: 22B and 175B"},
    {"megatron-2021", 0.834, 0.0, 1, "Narayanan et al., SC'21, table 1: 39B"},
    {"mt-nlg", 0.602, 0.0, 1, "Smith et al., arXiv 2201.11990: 530B on 2240 GPUs"},
    {"nemo-v4.1", 0.756, 0.0, 1, "MLPerf training v4.1: GPT-3 on 256 GPUs"},
    {"nemo-v4.0", 0.714, 0.0, 1, "nemo-v4.1, slower by what one node's Llama-2 LoRA was in v4.0"},
    {"nemo-v3.1", 0.594, 0.13, 1, "MLPerf training v3.1: GPT-3 on 512 GPUs"},
    {"nemo-lora-v4.1", 0.730, 0.13, 1, "MLPerf training v4.1: Llama-2 70B LoRA on 8 GPUs"},
    {"nemo-lora-v4.0", 0.689, 0.13, 1, "MLPerf training v4.0, power runs: Llama-2 70B LoRA on 8 GPUs"},
    {"torchtitan", 0.450, 0.0, 1, "torchtitan, December 2024: Llama-3.1 8B on 8 GPUs of 500 W"},
    {"torchtitan-compiled", 0.531, 0.0, 1, "the same, torch.compile"},
    {"torchtitan-compiled-fp8", 0.492, 0.0, 1, "the same, torch.compile and fp8"},
    {"meta-llama-3", 0.753, 0.0, 1, "The Llama 3 herd of models: 405B on 8192 GPUs"},
    {"megatron-2024", 0.614, 0.0, 1, "Megatron-LM, README of 2024: 177B on 96 GPUs"},
    {"llm-foundry-a100", 0.771, 0.0, 4, "llm-foundry's benchmarks: 1.3B, 7B, 30B, and 13B of 32768 tokens"},
    {"llm-foundry-h100", 0.592, 0.0, 4, "llm-foundry's benchmarks: 1.3B, 7B, 30B, and 13B of 16384 tokens"},
    {"mlperf-bert", 0.783, 0.0, 1, "MLPerf training v4.1: BERT on 8 GPUs"},
    {"deeplearningexamples-bert", 0.723, 0.0, 1, "DeepLearningExamples: BERT-large phase 1 on 1 GPU"},
    {"mlperf-resnet", 0.532, 0.0, 1, "MLPerf training v4.0: ResNet-50 on 8 GPUs"},
    {"deeplearningexamples-resnet-a100", 0.514, 0.0, 1, "DeepLearningExamples: ResNet-50 on 1 A100"},
    {"deeplearningexamples-resnet-v100", 0.684, 0.0, 1, "DeepLearningExamples: ResNet-50 on 1 V100"},
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

/*
 * Of tools/calibrate-training on data/training_anchors.json: twelve anchors of three kinds of
 * software that have four each, each predicted by the others of its kind, are off by 0.0372 in
 * log(step), root mean square, which is sqrt(1 + 1/3) times the error of one anchor.
 */
static const double log_error = 0.0322;
static const double degrees = 9.0;

double lull_training_factor(double confidence_ratio, uint32_t anchors)
{
    return exp(log_error * sqrt(1.0 + 1.0 / anchors) *
               lull_student_quantile(0.5 + confidence_ratio / 2.0, degrees));
}
