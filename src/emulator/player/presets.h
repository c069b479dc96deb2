/*
 * Plays of well-known kinds of jobs, with the proportions of compute and communication that have
 * been published for them. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PLAYER_PRESETS_H
#define LULL_EMULATOR_PLAYER_PRESETS_H

#include "emulator/player/play.h"

struct lull_play_preset {
    const char *name;
    const char *what;
    const char *source; /* source of the proportions; [guess] marks guesses */
    uint32_t ranks;     /* the number of ranks, unless the caller wants another */
    /* Share of an iteration at the highest clock with a communication kernel on a GPU, mean over
     * the ranks; a kernel that spins counts. */
    double communication_min_ratio;
    double communication_max_ratio;
    int (*build)(struct lull_play *play, struct lull_error *err);
};

extern const struct lull_play_preset lull_play_presets[];
extern const uint32_t lull_play_preset_count;

/* The preset of that name; NULL: there is none. */
const struct lull_play_preset *lull_play_find_preset(const char *name);

/*
 * Builds and finishes a play; ranks 0: the preset's own number. Errors: -EINVAL a number of ranks
 * that the preset cannot have; -ENOMEM.
 */
int lull_play_preset_create(const struct lull_play_preset *preset, uint32_t ranks,
                            struct lull_play **play_out, struct lull_error *err);

#endif
