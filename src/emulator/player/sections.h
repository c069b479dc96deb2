/*
 * The player's calls into liblull, through its public C API as a program makes them: which part of
 * the program its GPU is at. Caller's storage; zero-initialised tells nobody.
 * Threads: one, the process's first. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PLAYER_SECTIONS_H
#define LULL_EMULATOR_PLAYER_SECTIONS_H

#include <stdbool.h>

struct lull_play_sections {
    void (*begin)(const char *name);
    void (*end)(const char *name);
};

/* Loads Lull's own liblull.so; where it is not, sections are not told. */
void lull_play_sections_open(struct lull_play_sections *sections);

/* The section begins or ends now; a name of NULL is ignored. */
void lull_play_sections_tell(const struct lull_play_sections *sections, const char *name,
                             bool is_end);

#endif
