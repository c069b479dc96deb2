/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/play/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "emulator/player/presets.h"
#include "emulator/player/trace.h"
#include "trace/trace.h"

/* The network of recorded jobs is assumed: how long a transfer takes at the highest clock comes
 * from the trace. */
static const double link_gbs = 25.0;
static const uint32_t link_channels = 4;

static enum lull_play_function function_of(const char *operation)
{
    static const struct {
        const char *operation;
        enum lull_play_function function;
    } functions[] = {
        {"allreduce", LULL_PLAY_ALL_REDUCE},          {"allgather", LULL_PLAY_ALL_GATHER},
        {"reduce_scatter", LULL_PLAY_REDUCE_SCATTER}, {"alltoall", LULL_PLAY_ALL_TO_ALL},
        {"broadcast", LULL_PLAY_BROADCAST},
    };

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (strcmp(operation, functions[i].operation) == 0)
            return functions[i].function;
    return LULL_PLAY_SEND_RECV;
}

/* ---- communicators: one per rank and communication stream -------------------------------- */

struct streams {
    uint32_t count;
    int64_t streams[LULL_PLAY_STREAMS];
    uint32_t communicators[LULL_PLAY_STREAMS];
};

static int communicator_of(struct lull_play *play, uint32_t rank, int64_t stream,
                           struct streams *known, struct lull_error *err)
{
    char name[32];
    int result;

    for (uint32_t i = 0; i < known->count; i++)
        if (known->streams[i] == stream)
            return (int)known->communicators[i];
    if (known->count == LULL_PLAY_STREAMS)
        return lull_error_set(
            err, -EINVAL, "rank %u communicates on more than %d streams, which cannot be played",
            rank, LULL_PLAY_STREAMS);
    snprintf(name, sizeof(name), "rank %u stream %" PRId64, rank, stream);
    result = lull_play_add_communicator(play, name, UINT32_C(1) << rank, err);
    if (result < 0)
        return result;
    known->streams[known->count] = stream;
    known->communicators[known->count++] = (uint32_t)result;
    return result;
}

/* ---- traces ------------------------------------------------------------------------------ */

static int convert_kernel(struct lull_play *play, uint32_t rank, const struct lull_trace *trace,
                          const struct lull_trace_kernel *kernel, struct streams *streams,
                          struct lull_play_kernel *kernel_out, struct lull_error *err)
{
    const struct lull_trace_launch *launch = lull_trace_find_launch(trace, kernel->correlation);
    int communicator = 0;

    *kernel_out = (struct lull_play_kernel){
        .begin_ns = kernel->begin_ns,
        .end_ns = kernel->end_ns,
        .launch_ns = launch == NULL ? -1 : launch->begin_ns,
        .bytes = kernel->bytes > 0 ? (uint64_t)kernel->bytes : 0,
        .stream = (uint32_t)kernel->stream,
        .is_communication = kernel->operation != NULL,
    };
    if (kernel->operation == NULL)
        return 0;
    kernel_out->function = function_of(kernel->operation);
    communicator = communicator_of(play, rank, kernel->stream, streams, err);
    kernel_out->communicator = (uint32_t)communicator;
    return communicator < 0 ? communicator : 0;
}

/* Returns the pause between the last kernel of a replay and the first one of the next: by how much
 * the marked iterations are longer than their kernels together, at least a tenth of a millisecond.
 */
static int64_t pause_of(const struct lull_trace *trace, int64_t begin_ns, int64_t end_ns)
{
    const int64_t least_ns = INT64_C(100000);
    int64_t pause_ns = 0;

    if (trace->step_count > 0)
        pause_ns = trace->steps[trace->step_count - 1].end_ns - trace->steps[0].begin_ns -
                   (end_ns - begin_ns);
    return pause_ns > least_ns ? pause_ns : least_ns;
}

/* Returns when iterations begin: at the marks, except that the first one begins with the first
 * kernel. */
static int64_t *steps_of(const struct lull_trace *trace, int64_t begin_ns)
{
    int64_t *steps_ns = calloc(trace->step_count + 1, sizeof(*steps_ns));

    if (steps_ns == NULL)
        return NULL;
    for (size_t i = 0; i < trace->step_count; i++)
        steps_ns[i] = trace->steps[i].begin_ns;
    if (trace->step_count == 0 || steps_ns[0] < begin_ns)
        steps_ns[0] = begin_ns;
    return steps_ns;
}

static int add_trace(struct lull_play *play, uint32_t rank, const struct lull_trace *trace,
                     const char *path, struct lull_error *err)
{
    struct lull_play_kernel *kernels = calloc(trace->kernel_count + 1, sizeof(*kernels));
    int64_t *steps_ns =
        trace->kernel_count == 0 ? NULL : steps_of(trace, trace->kernels[0].begin_ns);
    struct lull_play_trace_options options = {.profile = "training",
                                              .link_gbs = link_gbs,
                                              .channels = link_channels,
                                              .steps_ns = steps_ns,
                                              .step_count =
                                                  trace->step_count > 0 ? trace->step_count : 1};
    struct streams streams = {0};
    int64_t end_ns = 0;
    int result = 0;

    if (trace->timeline != NULL)
        result =
            lull_error_set(err, -EINVAL,
                           "%s: this is a timeline of operations, which has no kernels to play; "
                           "see lull analyze",
                           path);
    else if (trace->kernel_count == 0)
        result = lull_error_set(
            err, -EINVAL, "%s: the trace has no GPU kernels; record it with CUDA activities", path);
    else if (kernels == NULL || steps_ns == NULL)
        result = lull_error_set(err, -ENOMEM, "%s: there is no memory to play it", path);
    for (size_t i = 0; i < trace->kernel_count && result == 0; i++) {
        result = convert_kernel(play, rank, trace, &trace->kernels[i], &streams, &kernels[i], err);
        end_ns = trace->kernels[i].end_ns > end_ns ? trace->kernels[i].end_ns : end_ns;
    }
    if (result == 0) {
        options.pause_ns = pause_of(trace, trace->kernels[0].begin_ns, end_ns);
        result = lull_play_add_trace(play, rank, kernels, trace->kernel_count, &options, err);
    }
    free(steps_ns);
    free(kernels);
    return result;
}

static int open_traces(const struct lull_play_source *source, struct lull_play **play_out,
                       struct lull_error *err)
{
    const uint32_t ranks = source->ranks > 0 ? source->ranks : source->trace_count;
    struct lull_play *play;
    int result = lull_play_create(ranks, &play, err);

    if (result < 0)
        return result;
    for (uint32_t rank = 0; rank < ranks && result == 0; rank++) {
        const char *path = source->traces[rank % source->trace_count];
        struct lull_trace trace;

        result = lull_trace_read(path, NULL, &trace, err);
        if (result < 0)
            break;
        result = add_trace(play, rank, &trace, path, err);
        lull_trace_fini(&trace);
    }
    if (result == 0)
        result = lull_play_finish(play, err);
    if (result < 0) {
        lull_play_destroy(play);
        return result;
    }
    *play_out = play;
    return 0;
}

const char *lull_play_preset_name(uint32_t index)
{
    return index < lull_play_preset_count ? lull_play_presets[index].name : NULL;
}

const char lull_play_straggler_expected[] =
    "a rank and a factor, and from which iteration to which: 2,1.25,10,20";

int lull_play_parse_straggler(const char *text, void *place, struct lull_error *err)
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

void lull_play_print_presets(FILE *out)
{
    fprintf(out, "\nPresets:\n");
    for (uint32_t i = 0; i < lull_play_preset_count; i++)
        fprintf(out, "  %-14s %s (%u ranks)\n", lull_play_presets[i].name,
                lull_play_presets[i].what, lull_play_presets[i].ranks);
}

int lull_play_source_open(const struct lull_play_source *source, struct lull_play **play_out,
                          struct lull_error *err)
{
    const struct lull_play_preset *preset;
    int result;

    if (source->preset == NULL) {
        result = open_traces(source, play_out, err);
    } else {
        preset = lull_play_find_preset(source->preset);
        result = preset == NULL
                     ? lull_error_set(err, -EINVAL, "%s: no such preset; see lull play --help",
                                      source->preset)
                     : lull_play_preset_create(preset, source->ranks, play_out, err);
    }
    if (result < 0)
        return result;
    if (source->jitter_ratio >= 0.0)
        (*play_out)->jitter_ratio = source->jitter_ratio;
    if (source->straggler.factor > 0.0 && source->straggler.rank >= (*play_out)->rank_count) {
        result = lull_error_set(err, -EINVAL, "straggler: there is no rank %u among %u ranks",
                                source->straggler.rank, (*play_out)->rank_count);
        lull_play_destroy(*play_out);
        *play_out = NULL;
        return result;
    }
    (*play_out)->straggler = source->straggler;
    return 0;
}
