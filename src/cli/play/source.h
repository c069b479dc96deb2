/*
 * Input of `lull play` and `lull simulate`: a preset, or recorded traces, one rank each. Threads:
 * any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAY_SOURCE_H
#define LULL_CLI_PLAY_SOURCE_H

#include "cli/shared/command.h"
#include "emulator/player/play.h"

struct lull_play_source {
    const char *command; /* its name, for messages on standard error */
    const char *preset;  /* null: traces are played */
    char *const *traces; /* files */
    uint32_t trace_count;
    const char *kernels_text; /* of --comm-kernels; null: not given */
    uint32_t ranks; /* 0: as many as the preset has, or GPUs the traces have; if there are more
                       ranks than GPUs, several ranks play one of them */
    double
        jitter_ratio; /* of computation between iterations; below 0: the preset's, of traces none */
    struct lull_play_straggler straggler; /* factor 0: there is none */
};

/*
 * Builds and finishes it. Traces keep the gaps between their kernels; each communication stream is
 * a communicator of its own, as in PyTorch, as long as there are enough. It waits for no other
 * rank: the recorded length includes the waiting. Of several traces, those without kernels are left
 * out; what is left out is reported on standard error. The play's product is the first GPU that a
 * trace names. Errors: -EINVAL an unknown preset, or no trace with kernels; those of
 * lull_trace_read(). A straggler that is none of the ranks: -EINVAL.
 */
int lull_play_source_open(const struct lull_play_source *source, struct lull_play **play_out,
                          struct lull_error *err);

/* Returns the name of the index-th preset for completion; null behind the last. */
const char *lull_play_preset_name(uint32_t index);

/* Parses RANK,FACTOR[,FROM[,TO]] into the struct lull_play_straggler at place; -EINVAL: it is not
 * that, but is to be what lull_play_straggler_expected says. Fit for an option's row. */
int lull_play_parse_straggler(const char *text, void *place, struct lull_error *err);
extern const char lull_play_straggler_expected[];

/* Prints the list of presets that stands below the help. */
void lull_play_print_presets(FILE *out);

#define LULL_PLAY_PRESET_ROW(OBJECT, FIELD)                                                        \
    LULL_VALUE("preset", "NAME", TEXT, OBJECT, FIELD,                                              \
               "Play a kind of job instead of traces; `lull help play` lists them.",               \
               .word_at = lull_play_preset_name)

#define LULL_PLAY_RANKS_ROW(OBJECT, FIELD)                                                         \
    LULL_VALUE("ranks", "R", WHOLE, OBJECT, FIELD,                                                 \
               "How many ranks there are, each with a GPU; traces are used in turn.",              \
               .letter = 'n', .least = 1, .most = LULL_PLAY_RANKS,                                 \
               .otherwise = "the preset's own number, or one per trace")

#endif
