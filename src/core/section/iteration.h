/*
 * Finds the iteration of a job from the repeating sequence of its communication calls, with no
 * help from the program.
 *
 * Each call is a symbol: its signature (core/section/call.h). For every candidate period p the
 * finder keeps the run of p: how many symbols in a row equal the one p places before.
 *
 * Evidence. A run of LULL_ITERATION_REPEATS * p symbols is evidence for p: the smallest p with
 * evidence that is not blocked and not a multiple of a period of the same symbols is FOUND. So a
 * clean repetition is found with the last symbol of its (1 + LULL_ITERATION_REPEATS)th period.
 *
 * Blocks. A run with evidence that breaks may be the end of an inner loop (AAAAAAB), which must not
 * be taken for the iteration twice: p is blocked until a run of it is longer than every one that
 * broke. With two exceptions:
 *   - The run was so long that a loop around it would exceed LULL_ITERATION_MAX_PERIOD (run + p >=
 *     LULL_ITERATION_MAX_PERIOD): then the break was an interruption and blocks nothing. Hence a
 *     blocked period is found after at most LULL_ITERATION_MAX_PERIOD symbols of clean repetition.
 *   - Runs of p broke at another length than the longest before LULL_ITERATION_IRREGULAR times
 *     with no longer period found meanwhile: then the breaks are irregular interruptions, and
 *     blocks of p are void. Finding a longer period takes them for its inner loops again.
 *
 * Memory. The last period whose break was one of the two exceptions is remembered. When its symbols
 * have come once again, whole and in order from any phase, it is FOUND without further evidence:
 * an extra call (checkpoint, evaluation) costs one iteration. A longer period found by evidence
 * forgets a memory that came from irregular breaks: it was an inner loop.
 *
 * Phase. Position 0 is the start of the lexicographically least rotation of the period, so that all
 * ranks with the same symbols number their positions alike, wherever they joined.
 *
 * A found period is followed symbol by symbol; the first symbol that differs ends it: DEVIATED, or
 * FOUND if another period has its evidence at that very symbol (the loop around an inner one).
 *
 * Pure. One thread at a time. A symbol costs O(LULL_ITERATION_MAX_PERIOD), O(1) after the first
 * LULL_ITERATION_MAX_PERIOD symbols of following.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_ITERATION_H
#define LULL_CORE_SECTION_ITERATION_H

#include <stdint.h>

enum {
    LULL_ITERATION_MAX_PERIOD = 2048,
    LULL_ITERATION_REPEATS = 2, /* repetitions after the first occurrence */
    LULL_ITERATION_IRREGULAR = 8,
};

struct lull_iteration_finder; /* opaque: some 100 KiB */

enum lull_iteration_event {
    LULL_ITERATION_SEARCHING, /* no period is known */
    LULL_ITERATION_FOUND,     /* a period, new or resumed; an earlier one no longer holds */
    LULL_ITERATION_FOLLOWING, /* as predicted */
    LULL_ITERATION_DEVIATED,  /* not as predicted: searching again */
};

struct lull_iteration_state {
    enum lull_iteration_event event;
    uint32_t period;   /* symbols per iteration; 0 while searching and when deviated */
    uint32_t position; /* of the symbol just pushed, 0..period-1; 0 without a period */
    uint64_t symbols;  /* pushed in all */
};

/* null: out of memory. */
struct lull_iteration_finder *lull_iteration_finder_create(void);
void lull_iteration_finder_destroy(struct lull_iteration_finder *finder);

/* The symbols that follow are of another kind than those before: neither evidence nor blocks stay,
 * only the memory does. */
void lull_iteration_forget_runs(struct lull_iteration_finder *finder);

/* Takes the next symbol of the sequence. */
struct lull_iteration_state lull_iteration_push(struct lull_iteration_finder *finder,
                                                uint64_t symbol);

#endif
