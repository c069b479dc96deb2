/*
 * Finds the iteration of a job from the repeating sequence of its communication calls, with no
 * help from the program.
 *
 * Each call is a symbol (core/section/section.h: its signature). The finder keeps, for every
 * candidate period p, how many symbols in a row equal the one p places before. A period is found
 * when its run covers LULL_ITERATION_REPEATS further repetitions and beats every run of that p
 * that was ever broken, so that an inner loop (AAAAAAB) is not taken for the iteration twice.
 * The smallest such period wins. The phase is canonical: position 0 is the start of the
 * lexicographically least rotation (Booth 1980), so that all ranks with the same sequence
 * number their positions alike.
 *
 * A found period is followed symbol by symbol; the first symbol that differs is a deviation: the
 * finder forgets the period and searches again. Pure; O(LULL_ITERATION_MAX_PERIOD) per symbol
 * while searching, O(1) while following.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_ITERATION_H
#define LULL_CORE_SECTION_ITERATION_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LULL_ITERATION_MAX_PERIOD = 2048,
    LULL_ITERATION_REPEATS = 2, /* repetitions after the first occurrence */
};

struct lull_iteration_finder; /* opaque: some 100 KiB */

enum lull_iteration_event {
    LULL_ITERATION_SEARCHING, /* no period yet */
    LULL_ITERATION_FOUND,     /* this symbol completed the evidence: period and position are valid */
    LULL_ITERATION_FOLLOWING, /* as predicted; position is that of this symbol */
    LULL_ITERATION_DEVIATED,  /* not as predicted: searching again */
};

struct lull_iteration_state {
    enum lull_iteration_event event;
    uint32_t period;   /* symbols per iteration; 0 while searching */
    uint32_t position; /* of the symbol just pushed, 0..period-1 */
    uint64_t symbols;  /* pushed in all */
};

/* NULL: no memory. */
struct lull_iteration_finder *lull_iteration_finder_create(void);
void lull_iteration_finder_destroy(struct lull_iteration_finder *finder);

/* Takes the next symbol of the sequence. */
struct lull_iteration_state lull_iteration_push(struct lull_iteration_finder *finder,
                                                uint64_t symbol);

#endif
