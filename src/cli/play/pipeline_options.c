/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/play/pipeline_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* "1,1,1,1.07": the last one holds for all stages behind it. */
static int parse_weights(const char *text, void *place, struct lull_error *err)
{
    double *const weights = place;
    double parsed[LULL_PLAY_RANKS];
    char *const copy = strdup(text);
    char *rest = NULL;
    uint32_t count = 0;
    int result = copy == NULL ? -ENOMEM : 0;

    (void)err;
    for (char *word = copy == NULL ? NULL : strtok_r(copy, ",", &rest); word != NULL && result == 0;
         word = strtok_r(NULL, ",", &rest))
        if (count == LULL_PLAY_RANKS || lull_text_parse_number(word, &parsed[count]) < 0 ||
            !(parsed[count++] > 0))
            result = -EINVAL;
    free(copy);
    if (result < 0 || count == 0)
        return -EINVAL;
    for (uint32_t i = 0; i < LULL_PLAY_RANKS; i++)
        weights[i] = parsed[i < count ? i : count - 1];
    return 0;
}

static int parse_kernels(const char *text, void *place, struct lull_error *err)
{
    struct lull_play_pipeline_options *const options = place;
    char *comma;

    (void)err;
    if (strlen(text) >= sizeof(options->kernels))
        return -EINVAL;
    snprintf(options->kernels, sizeof(options->kernels), "%s", text);
    comma = strchr(options->kernels, ',');
    if (comma == NULL)
        return -EINVAL;
    *comma = '\0';
    options->pipeline.forward_kernels = options->kernels;
    options->pipeline.backward_kernels = comma + 1;
    return 0;
}

static int parse_straggler(const char *text, void *place, struct lull_error *err)
{
    struct lull_play_straggler *const straggler = place;
    char copy[96];
    char *rest = NULL;
    const char *words[4];
    int64_t numbers[3] = {0, 0, INT32_MAX}; /* rank, from, to */
    uint32_t count = 0;

    (void)err;
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

const struct lull_option lull_play_pipeline_rows[] = {
    LULL_GROUP("A pipeline-parallel job, with a rank for each stage"),
    LULL_VALUE("schedule", "NAME", TEXT, struct lull_play_pipeline_options, pipeline.schedule,
               "Play a pipeline in this order: gpipe, 1f1b, interleaved:V[,G], envpipe[:R], zb-h1 "
               "or zbv.",
               .aliases = "pipeline", LULL_GIVEN(struct lull_play_pipeline_options, is_given),
               .excludes = "preset"),
    LULL_VALUE("stages", "S", WHOLE, struct lull_play_pipeline_options, pipeline.stages,
               "The number of stages of the pipeline.", .least = 1, .most = LULL_PLAY_RANKS,
               .usual = "4", .needs = "schedule"),
    LULL_VALUE("microbatches", "M", WHOLE, struct lull_play_pipeline_options, pipeline.microbatches,
               "The number of micro-batches in an iteration of the pipeline.", .least = 1,
               .most = 4096, .usual = "16", .needs = "schedule"),
    LULL_VALUE(
        "replicas", "D", WHOLE, struct lull_play_pipeline_options, pipeline.replicas,
        "The number of data-parallel copies of the pipeline; stages times copies are 16 at most.",
        .least = 1, .most = LULL_PLAY_RANKS, .usual = "1", .needs = "schedule"),
    LULL_VALUE("forward-ms", "MS", NUMBER, struct lull_play_pipeline_options, pipeline.forward_ms,
               "How long a stage's forward takes at the highest clock.", .most = 1e6,
               .is_open = true, .usual = "20", .needs = "schedule"),
    LULL_VALUE("backward-ms", "MS", NUMBER, struct lull_play_pipeline_options, pipeline.backward_ms,
               "How long a stage's backward takes at the highest clock.", .most = 1e6,
               .is_open = true, .usual = "40", .needs = "schedule"),
    LULL_VALUE("stage-weights", "W,W,...", OWN, struct lull_play_pipeline_options, pipeline.weights,
               "How much longer or shorter both are on each stage; the last number holds for the "
               "stages that follow.",
               .parse = parse_weights, .expected = "at most 16 numbers above 0, such as 1,1,1,1.07",
               .usual = "1", .needs = "schedule"),
    LULL_VALUE("latency-ms", "MS", NUMBER, struct lull_play_pipeline_options, pipeline.latency_ms,
               "How long a transfer between stages takes.", .most = 1e6, .is_open = true,
               .usual = "0.5", .needs = "schedule"),
    LULL_VALUE("reduce-ms", "MS", NUMBER, struct lull_play_pipeline_options, pipeline.reduce_ms,
               "How long the all-reduce of gradients between the copies takes.", .most = 1e6,
               .is_open = true, .usual = "20", .needs = "schedule"),
    LULL_VALUE("optimizer-ms", "MS", NUMBER, struct lull_play_pipeline_options,
               pipeline.optimizer_ms, "How long the optimizer takes; 0: there is none.",
               .most = 1e6, .usual = "10", .needs = "schedule"),
    {.name = "kernels",
     .value = "FORWARD,BACKWARD",
     .type = LULL_OPTION_OWN,
     .parse = parse_kernels,
     .expected = "two kernel profiles of the GPU model, such as training,training",
     .usual = "training,training",
     .needs = "schedule",
     .help = "What kind of kernels run: two kernel profiles of the GPU model."},
    LULL_FLAG("sections", struct lull_play_pipeline_options, pipeline.announces,
              "Announce forward and backward through liblull, as a program does that synchronises "
              "with its GPU there.",
              .needs = "schedule", .more = "Megatron-LM does so behind its transfers."),
    LULL_VALUE("straggler", "RANK,FACTOR[,FROM[,TO]]", OWN, struct lull_play_pipeline_options,
               pipeline.straggler,
               "One rank computes FACTOR times as long, from iteration FROM on, until before TO.",
               .parse = parse_straggler,
               .expected = "a rank and a factor, and from which iteration to which: 2,1.25,10,20",
               .needs = "schedule",
               .more = "Without them it does so from the first iteration to the last."),
    LULL_VALUE(
        "measure", "FILE", TEXT, struct lull_play_pipeline_options, measure,
        "Instead of playing, write the profile that a sweep over the clocks of --model would "
        "measure, for `lull plan`.",
        .hint = LULL_OPTION_FILE, .needs = "schedule",
        .more =
            "It goes down to half the highest clock; --stride and --heat-w count. Printed is what "
            "a stage draws that waits for another one."),
    {0},
};
