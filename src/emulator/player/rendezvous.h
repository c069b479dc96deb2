/*
 * Meeting point of the ranks of a play: each one stores its start, and the last one to arrive reads
 * those of all.
 *
 * The memory may be shared between processes. The rank that comes last has to release the others;
 * none of them continues before, so a place is never used twice at a time and needs no lock.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PLAYER_RENDEZVOUS_H
#define LULL_EMULATOR_PLAYER_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emulator/player/play.h"

/* The ranks that may continue, and from when: the work numbers of all ranks that have met. */
struct lull_play_release {
    int64_t at_ns; /* the virtual time at which the last of them began */
    uint32_t count;
    struct {
        uint32_t rank;
        uint64_t number;
    } members[LULL_PLAY_RANKS];
};

/* The number of bytes that the meetings of a finished play need; the caller zeroes them before use.
 */
size_t lull_play_rendezvouss_size(const struct lull_play *play);

/*
 * A rank's work of that number, an operation that meets others, has started. True: it was the last;
 * release_out has the ranks that may continue (including this rank).
 */
bool lull_play_join(void *collectives, const struct lull_play *play, uint32_t rank, uint64_t number,
                    int64_t begin_ns, struct lull_play_release *release_out);

#endif
