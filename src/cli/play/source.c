/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/play/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/minmax.h"
#include "base/text.h"
#include "cli/trace_notes.h"
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

/* ---- communicators: one per rank and communication stream, as far as there are enough ---- */

struct streams {
    uint32_t most; /* that the rank may have */
    uint32_t count;
    int64_t streams[LULL_PLAY_STREAMS];
    int64_t ends_ns[LULL_PLAY_STREAMS]; /* of the last kernel of each */
    uint32_t communicators[LULL_PLAY_STREAMS];
};

static struct streams begin_streams(const struct lull_play *play)
{
    const uint32_t share = LULL_PLAY_COMMUNICATORS / play->rank_count;
    struct streams streams = {.most = lull_min_u32(share, LULL_PLAY_STREAMS)};

    if (streams.most == 0)
        streams.most = 1;
    return streams;
}

/* Returns the place of a stream; of one that has none, the place that has been free for longest. */
static uint32_t play_source_place_of(const struct streams *known, int64_t stream)
{
    uint32_t oldest = 0;

    for (uint32_t i = 0; i < known->count; i++) {
        if (known->streams[i] == stream)
            return i;
        if (known->ends_ns[i] < known->ends_ns[oldest])
            oldest = i;
    }
    return known->count < known->most ? known->count : oldest;
}

static int communicator_of(struct lull_play *play, uint32_t rank,
                           const struct lull_trace_kernel *kernel, struct streams *known,
                           struct lull_error *err)
{
    const uint32_t place = play_source_place_of(known, kernel->stream);
    char name[32];
    int result;

    if (place == known->count) {
        snprintf(name, sizeof(name), "rank %u stream %" PRId64, rank, kernel->stream);
        result = lull_play_add_communicator(play, name, UINT32_C(1) << rank, err);
        if (result < 0)
            return result;
        known->communicators[known->count++] = (uint32_t)result;
        known->ends_ns[place] = kernel->end_ns;
    }
    known->streams[place] = kernel->stream;
    known->ends_ns[place] = lull_later_ns(known->ends_ns[place], kernel->end_ns);
    return (int)known->communicators[place];
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
    communicator = communicator_of(play, rank, kernel, streams, err);
    kernel_out->communicator = (uint32_t)communicator;
    return communicator < 0 ? communicator : 0;
}

/* Returns the pause between the last kernel of a replay and the first one of the next: by how much
 * the marked iterations are longer than their kernels together, at least a tenth of a millisecond.
 */
static int64_t pause_of(const struct lull_trace *trace, int64_t begin_ns, int64_t end_ns)
{
    const int64_t min_ns = INT64_C(100000);
    int64_t pause_ns = 0;

    if (trace->step_count > 0)
        pause_ns = trace->steps[trace->step_count - 1].end_ns - trace->steps[0].begin_ns -
                   (end_ns - begin_ns);
    return pause_ns > min_ns ? pause_ns : min_ns;
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

/* Adds one GPU of a trace. */
static int play_source_add_gpu(struct lull_play *play, uint32_t rank,
                               const struct lull_trace *trace, const char *path,
                               struct lull_error *err)
{
    struct lull_play_kernel *kernels = calloc(trace->kernel_count, sizeof(*kernels));
    int64_t *steps_ns = steps_of(trace, trace->kernels[0].begin_ns);
    struct lull_play_trace_options options = {.profile = "training",
                                              .link_gbs = link_gbs,
                                              .channels = link_channels,
                                              .steps_ns = steps_ns,
                                              .step_count =
                                                  trace->step_count > 0 ? trace->step_count : 1};
    struct streams streams = begin_streams(play);
    int64_t end_ns = 0;
    int result = 0;

    if (kernels == NULL || steps_ns == NULL)
        result = lull_error_set(err, -ENOMEM, "%s: not enough memory to play it", path);
    for (size_t i = 0; i < trace->kernel_count && result == 0; i++) {
        result = convert_kernel(play, rank, trace, &trace->kernels[i], &streams, &kernels[i], err);
        end_ns = lull_later_ns(trace->kernels[i].end_ns, end_ns);
    }
    if (result == 0) {
        options.pause_ns = pause_of(trace, trace->kernels[0].begin_ns, end_ns);
        result = lull_play_add_trace(play, rank, kernels, trace->kernel_count, &options, err);
    }
    free(steps_ns);
    free(kernels);
    return result;
}

/* One GPU of one of the traces. */
struct recorded {
    uint32_t file;
    uint32_t gpu;
};

/* The traces that are played, as they were read. */
struct recordings {
    struct lull_trace *traces; /* one per file; without kernels where it is left out */
    uint32_t trace_count;
    struct recorded *gpus;
    size_t gpu_count;
};

static int list_gpus(const struct lull_play_source *source, uint32_t file,
                     struct recordings *recordings, struct lull_error *err)
{
    const struct lull_trace *const trace = &recordings->traces[file];
    const char *const path = source->traces[file];

    if (trace->timeline != NULL || trace->recording != NULL)
        return lull_error_set(
            err, -EINVAL, "%s: this is %s, which has no kernels to play; see lull analyze", path,
            trace->timeline != NULL ? "a timeline of operations" : "a recording of lull run");
    lull_cli_note_loss(source->command, path, trace);
    if (trace->kernel_count == 0 && source->trace_count > 1)
        fprintf(stderr, "lull %s: %s: no GPU kernels, so it is skipped: %s\n", source->command,
                path, trace->contents);
    else if (trace->kernel_count == 0)
        return lull_error_set(err, -EINVAL, "%s: no GPU kernels: %s", path, trace->contents);
    for (uint32_t i = 0; i < trace->gpu_count; i++) {
        const struct recorded gpu = {file, i};
        const int result = lull_array_grow(&recordings->gpus, recordings->gpu_count, sizeof(gpu));

        if (result < 0)
            return lull_error_set(err, result, "%s: not enough memory to play it", path);
        recordings->gpus[recordings->gpu_count++] = gpu;
    }
    return 0;
}

static int read_traces(const struct lull_play_source *source, const regex_t *communicates,
                       struct recordings *recordings, struct lull_error *err)
{
    const struct lull_trace_options options = {.communicates = communicates};
    int result = 0;

    recordings->traces = calloc(source->trace_count, sizeof(*recordings->traces));
    if (recordings->traces == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for %u traces", source->trace_count);
    for (uint32_t i = 0; i < source->trace_count && result == 0; i++) {
        result = lull_trace_read(source->traces[i], &options, &recordings->traces[i], err);
        if (result < 0)
            break;
        recordings->trace_count++;
        result = list_gpus(source, i, recordings, err);
    }
    if (result == 0 && recordings->gpu_count == 0)
        result = lull_error_set(err, -EINVAL, "none of these files has GPU kernels");
    return result;
}

static void free_traces(struct recordings *recordings)
{
    for (uint32_t i = 0; i < recordings->trace_count; i++)
        lull_trace_fini(&recordings->traces[i]);
    free(recordings->traces);
    free(recordings->gpus);
}

static int play_traces(const struct lull_play_source *source, const struct recordings *recordings,
                       struct lull_play **play_out, struct lull_error *err)
{
    const uint32_t ranks = source->ranks > 0 ? source->ranks : (uint32_t)recordings->gpu_count;
    struct lull_play *play;
    int result = lull_play_create(ranks, &play, err);

    if (result < 0)
        return result;
    for (uint32_t rank = 0; rank < ranks && result == 0; rank++) {
        const struct recorded *const of = &recordings->gpus[rank % recordings->gpu_count];
        const struct lull_trace one = lull_trace_of_gpu(&recordings->traces[of->file], of->gpu);

        if (play->product[0] == '\0')
            snprintf(play->product, sizeof(play->product), "%s", one.gpu);
        result = play_source_add_gpu(play, rank, &one, source->traces[of->file], err);
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

static int open_traces(const struct lull_play_source *source, struct lull_play **play_out,
                       struct lull_error *err)
{
    struct recordings recordings = {0};
    regex_t kernels;
    int result = 0;

    if (source->kernels_text != NULL)
        result = lull_cli_compile_kernels(source->kernels_text, &kernels, err);
    if (result < 0)
        return result;
    result = read_traces(source, source->kernels_text != NULL ? &kernels : NULL, &recordings, err);
    if (result == 0)
        result = play_traces(source, &recordings, play_out, err);
    free_traces(&recordings);
    if (source->kernels_text != NULL)
        regfree(&kernels);
    return result;
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
