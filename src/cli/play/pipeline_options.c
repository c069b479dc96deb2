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
    {.type = LULL_OPTION_GROUP, .help = "A pipeline-parallel job, with a rank for each stage"},
    {.name = "schedule",
     .aliases = "pipeline",
     .value = "NAME",
     .type = LULL_OPTION_TEXT,
     LULL_INTO(struct lull_play_pipeline_options, pipeline.schedule),
     LULL_GIVEN(struct lull_play_pipeline_options, is_given),
     .excludes = "preset",
     .help = "Play a pipeline in this order: gpipe, 1f1b, interleaved:V[,G], envpipe[:R], zb-h1 "
             "or zbv."},
    {.name = "stages",
     .value = "S",
     .type = LULL_OPTION_WHOLE,
     LULL_INTO(struct lull_play_pipeline_options, pipeline.stages),
     .least = 1,
     .most = LULL_PLAY_RANKS,
     .usual = "4",
     .needs = "schedule",
     .help = "The number of stages of the pipeline."},
    {.name = "microbatches",
     .value = "M",
     .type = LULL_OPTION_WHOLE,
     LULL_INTO(struct lull_play_pipeline_options, pipeline.microbatches),
     .least = 1,
     .most = 4096,
     .usual = "16",
     .needs = "schedule",
     .help = "The number of micro-batches in an iteration of the pipeline."},
    {.name = "replicas",
     .value = "D",
     .type = LULL_OPTION_WHOLE,
     LULL_INTO(struct lull_play_pipeline_options, pipeline.replicas),
     .least = 1,
     .most = LULL_PLAY_RANKS,
     .usual = "1",
     .needs = "schedule",
     .help = "The number of data-parallel copies of the pipeline; stages times copies are 16 at most."},
    {.name = "forward-ms",
     .value = "MS",
     .type = LULL_OPTION_NUMBER,
     LULL_INTO(struct lull_play_pipeline_options, pipeline.forward_ms),
     .most = 1e6,
     .is_open = true,
     .usual = "20",
     .needs = "schedule",
     .help = "How long a stage's forward takes at the highest clock."},
    {.name = "backward-ms",
     .value = "MS",
     .type = LULL_OPTION_NUMBER,
     LULL_INTO(struct lull_play_pipeline_options, pipeline.backward_ms),
     .most = 1e6,
     .is_open = true,
     .usual = "40",
     .needs = "schedule",
     .help = "How long a stage's backward takes at the highest clock."},
    {.name = "stage-weights",
     .value = "W,W,...",
     .type = LULL_OPTION_OWN,
     LULL_INTO(struct lull_play_pipeline_options, pipeline.weights),
     .parse = parse_weights,
     .expected = "at most 16 numbers above 0, such as 1,1,1,1.07",
     .usual = "1",
     .needs = "schedule",
     .help = "How much longer or shorter both are on each stage; the last number holds for the "
             "stages that follow."},
    {.name = "latency-ms",
     .value = "MS",
     .type = LULL_OPTION_NUMBER,
     LULL_INTO(struct lull_play_pipeline_options, pipeline.latency_ms),
     .most = 1e6,
     .is_open = true,
     .usual = "0.5",
     .needs = "schedule",
     .help = "How long a transfer between stages takes."},
    {.name = "reduce-ms",
     .value = "MS",
     .type = LULL_OPTION_NUMBER,
     LULL_INTO(struct lull_play_pipeline_options, pipeline.reduce_ms),
     .most = 1e6,
     .is_open = true,
     .usual = "20",
     .needs = "schedule",
     .help = "How long the all-reduce of gradients between the copies takes."},
    {.name = "optimizer-ms",
     .value = "MS",
     .type = LULL_OPTION_NUMBER,
     LULL_INTO(struct lull_play_pipeline_options, pipeline.optimizer_ms),
     .most = 1e6,
     .usual = "10",
     .needs = "schedule",
     .help = "How long the optimizer takes; 0: there is none."},
    {.name = "kernels",
     .value = "FORWARD,BACKWARD",
     .type = LULL_OPTION_OWN,
     .parse = parse_kernels,
     .expected = "two kernel profiles of the GPU model, such as training,training",
     .usual = "training,training",
     .needs = "schedule",
     .help = "What kind of kernels run: two kernel profiles of the GPU model."},
    {.name = "sections",
     .type = LULL_OPTION_FLAG,
     LULL_INTO(struct lull_play_pipeline_options, pipeline.announces),
     .needs = "schedule",
     .help = "Announce forward and backward through liblull, as a program does that synchronises "
             "with its GPU there.",
     .more = "Megatron-LM does so behind its transfers."},
    {.name = "straggler",
     .value = "RANK,FACTOR[,FROM[,TO]]",
     .type = LULL_OPTION_OWN,
     LULL_INTO(struct lull_play_pipeline_options, pipeline.straggler),
     .parse = parse_straggler,
     .expected = "a rank and a factor, and from which iteration to which: 2,1.25,10,20",
     .needs = "schedule",
     .help = "One rank computes FACTOR times as long, from iteration FROM on, until before TO.",
     .more = "Without them it does so from the first iteration to the last."},
    {.name = "measure",
     .value = "FILE",
     .type = LULL_OPTION_TEXT,
     .hint = LULL_OPTION_FILE,
     LULL_INTO(struct lull_play_pipeline_options, measure),
     .needs = "schedule",
     .help = "Instead of playing, write the profile that a sweep over the clocks of --model would "
             "measure, for `lull plan`.",
     .more = "It goes down to half the highest clock; --stride and --heat-w count. Printed is what "
             "a stage draws that waits for another one."},
    {0},
};
