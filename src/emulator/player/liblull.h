/*
 * Lull's own liblull.so.0, for players that report what they do. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PLAYER_LIBLULL_H
#define LULL_EMULATOR_PLAYER_LIBLULL_H

/* Loads it, for the rest of the process, and writes the address of a function to *function_out; or
 * NULL without it. */
void lull_play_find_liblull(const char *name, void *function_out);

#endif
