/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/play/pipeline_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum {
    KEY_PIPELINE = 2000,
    KEY_STAGES,
    KEY_MICROBATCHES,
    KEY_REPLICAS,
    KEY_FORWARD,
    KEY_BACKWARD,
    KEY_WEIGHTS,
    KEY_LATENCY,
    KEY_REDUCE,
    KEY_OPTIMIZER,
    KEY_KERNELS,
    KEY_SECTIONS,
    KEY_STRAGGLER,
    KEY_MEASURE,
};

static const struct argp_option options[] = {
    {"pipeline", KEY_PIPELINE, "SCHEDULE", 0, "gpipe, 1f1b, interleaved:V[,G] or envpipe[:R]", 0},
    {"stages", KEY_STAGES, "N", 0, "Stages (4)", 0},
    {"microbatches", KEY_MICROBATCHES, "M", 0, "Micro-batches per iteration (16)", 0},
    {"replicas", KEY_REPLICAS, "D", 0, "Data-parallel copies of the pipeline (1)", 0},
    {"forward-ms", KEY_FORWARD, "MS", 0, "A stage's forward at the highest clock (20)", 0},
    {"backward-ms", KEY_BACKWARD, "MS", 0, "Its backward (40)", 0},
    {"stage-weights", KEY_WEIGHTS, "W,W,...", 0,
     "Factor on both, per stage; the last one holds for the rest (1)", 0},
    {"latency-ms", KEY_LATENCY, "MS", 0, "A transfer between stages (0.5)", 0},
    {"reduce-ms", KEY_REDUCE, "MS", 0, "The gradients' all-reduce between copies (20)", 0},
    {"optimizer-ms", KEY_OPTIMIZER, "MS", 0, "The optimizer; 0: none (10)", 0},
    {"kernels", KEY_KERNELS, "FORWARD,BACKWARD", 0,
     "Kernel profiles of the GPU model (training,training)", 0},
    {"sections", KEY_SECTIONS, NULL, 0,
     "Announce forward and backward through liblull, as a program does that synchronises there", 0},
    {"straggler", KEY_STRAGGLER, "RANK,FACTOR[,FROM[,TO]]", 0,
     "A rank that computes longer by FACTOR, from iteration FROM (0) on, before TO (the end)", 0},
    {"measure", KEY_MEASURE, "FILE", 0,
     "Instead of playing: what a sweep of --model's clocks (--stride, --heat-w) would measure of "
     "the operations, as a profile for lull plan",
     0},
    {0},
};

static int parse_ms(const char *text, bool may_be_zero, double *ms_out)
{
    double ms;

    if (lull_text_parse_number(text, &ms) < 0 || ms < 0 || ms > 1e6 || (ms <= 0 && !may_be_zero))
        return -EINVAL;
    *ms_out = ms;
    return 0;
}

static int parse_kernels(const char *text, struct lull_play_pipeline_options *pipeline)
{
    char *comma;

    if (strlen(text) >= sizeof(pipeline->kernels))
        return -EINVAL;
    snprintf(pipeline->kernels, sizeof(pipeline->kernels), "%s", text);
    comma = strchr(pipeline->kernels, ',');
    if (comma == NULL)
        return -EINVAL;
    *comma = '\0';
    pipeline->pipeline.forward_kernels = pipeline->kernels;
    pipeline->pipeline.backward_kernels = comma + 1;
    return 0;
}

static int parse_time(int key, const char *text, struct lull_play_pipeline *pipeline)
{
    switch (key) {
    case KEY_FORWARD:
        return parse_ms(text, false, &pipeline->forward_ms);
    case KEY_BACKWARD:
        return parse_ms(text, false, &pipeline->backward_ms);
    case KEY_LATENCY:
        return parse_ms(text, false, &pipeline->latency_ms);
    case KEY_REDUCE:
        return parse_ms(text, false, &pipeline->reduce_ms);
    default:
        return parse_ms(text, true, &pipeline->optimizer_ms);
    }
}

static int parse_straggler(const char *text, struct lull_play_straggler *straggler)
{
    char copy[96];
    char *rest = NULL;
    const char *words[4];
    int64_t numbers[3] = {0, 0, INT32_MAX}; /* rank, from, to */
    uint32_t count = 0;

    if (strlen(text) >= sizeof(copy))
        return -EINVAL;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *word = strtok_r(copy, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        if (count == 4)
            return -EINVAL;
        words[count++] = word;
    }
    if (count < 2 || lull_text_parse_number(words[1], &straggler->factor) < 0 ||
        !(straggler->factor > 0 && straggler->factor <= 100) ||
        lull_text_parse_int(words[0], 0, LULL_PLAY_RANKS - 1, &numbers[0]) < 0)
        return -EINVAL;
    for (uint32_t i = 2; i < count; i++)
        if (lull_text_parse_int(words[i], 0, INT32_MAX, &numbers[i - 1]) < 0)
            return -EINVAL;
    straggler->rank = (uint32_t)numbers[0];
    straggler->from = (uint64_t)numbers[1];
    straggler->to = (uint64_t)numbers[2];
    return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct lull_play_pipeline_options *input = state->input;
    struct lull_play_pipeline *pipeline = &input->pipeline;
    int result = 0;

    switch (key) {
    case KEY_PIPELINE:
        input->is_given = true;
        pipeline->schedule = arg;
        break;
    case KEY_STAGES:
        result = lull_text_parse_int(arg, 1, LULL_PLAY_RANKS, &pipeline->stages);
        break;
    case KEY_MICROBATCHES:
        result = lull_text_parse_int(arg, 1, 4096, &pipeline->microbatches);
        break;
    case KEY_REPLICAS:
        result = lull_text_parse_int(arg, 1, LULL_PLAY_RANKS, &pipeline->replicas);
        break;
    case KEY_FORWARD:
    case KEY_BACKWARD:
    case KEY_LATENCY:
    case KEY_REDUCE:
    case KEY_OPTIMIZER:
        result = parse_time(key, arg, pipeline);
        break;
    case KEY_WEIGHTS:
        result = lull_play_pipeline_parse_weights(arg, pipeline->weights);
        break;
    case KEY_KERNELS:
        result = parse_kernels(arg, input);
        break;
    case KEY_SECTIONS:
        pipeline->announces = true;
        break;
    case KEY_STRAGGLER:
        result = parse_straggler(arg, &pipeline->straggler);
        break;
    case KEY_MEASURE:
        input->measure = arg;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (result < 0)
        argp_error(state, "%s: not a usable value", arg);
    return 0;
}

const struct argp lull_play_pipeline_argp = {.options = options, .parser = parse_option};
