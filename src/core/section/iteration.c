/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/iteration.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"

enum { MAX_PERIOD = LULL_ITERATION_MAX_PERIOD, REPEATS = LULL_ITERATION_REPEATS };

/* A period with its symbols from position 0 on. */
struct pattern {
    uint32_t period; /* 0: none */
    uint64_t symbols[MAX_PERIOD];
};

struct lull_iteration_finder {
    uint64_t symbols;
    uint32_t position;      /* of the last symbol, while following */
    uint32_t followed;      /* symbols since the period was found, up to MAX_PERIOD */
    uint32_t held;          /* symbols in history */
    struct pattern current; /* followed now */
    struct pattern memory;  /* that may be resumed */
    uint64_t memory_sum;    /* over the remembered symbols, in any order */
    uint64_t recent_sum;    /* over the last memory.period symbols or the fewer that count */
    uint32_t recent;        /* number of those symbols */
    uint32_t runs[MAX_PERIOD + 1];
    uint32_t needs[MAX_PERIOD + 1];   /* the run that finds this period */
    uint32_t longest[MAX_PERIOD + 1]; /* broken run with evidence; 0: none */
    uint8_t irregular[MAX_PERIOD + 1];
    uint64_t history[2 * MAX_PERIOD]; /* the newest last; moved down when full */
};

struct lull_iteration_finder *lull_iteration_finder_create(void)
{
    struct lull_iteration_finder *const finder = calloc(1, sizeof(*finder));

    if (finder != NULL)
        lull_iteration_forget_runs(finder);
    return finder;
}

void lull_iteration_forget_runs(struct lull_iteration_finder *finder)
{
    memset(finder->runs, 0, sizeof(finder->runs));
    memset(finder->longest, 0, sizeof(finder->longest));
    memset(finder->irregular, 0, sizeof(finder->irregular));
    for (uint32_t p = 1; p <= MAX_PERIOD; p++)
        finder->needs[p] = REPEATS * p;
}

void lull_iteration_finder_destroy(struct lull_iteration_finder *finder)
{
    free(finder);
}

static void set_need(struct lull_iteration_finder *finder, uint32_t p)
{
    const uint32_t evidence = REPEATS * p;
    const bool blocks = finder->irregular[p] < LULL_ITERATION_IRREGULAR;

    finder->needs[p] = evidence;
    if (blocks)
        finder->needs[p] = lull_max_u32(finder->longest[p] + 1, evidence);
}

/* True if the break of this run of p was an interruption rather than the end of an inner loop. */
static bool is_interruption(const struct lull_iteration_finder *finder, uint32_t p, uint32_t run)
{
    assert(p <= MAX_PERIOD);
    return run + p >= MAX_PERIOD || finder->irregular[p] >= LULL_ITERATION_IRREGULAR;
}

/*
 * Takes note of a broken run of p with evidence (header: blocks). Within a longer period that is
 * being followed, breaks of p are its inner loops' and nothing irregular.
 */
static void note_break(struct lull_iteration_finder *finder, uint32_t p, uint32_t run)
{
    if (run + p >= MAX_PERIOD)
        return;
    if (finder->longest[p] != 0 && finder->longest[p] != run && finder->current.period <= p &&
        finder->irregular[p] < LULL_ITERATION_IRREGULAR)
        finder->irregular[p]++;
    if (run > finder->longest[p])
        finder->longest[p] = run;
    set_need(finder, p);
}

/* True if the last p symbols repeat nothing shorter. */
static bool is_primitive(const struct lull_iteration_finder *finder, uint32_t p)
{
    for (uint32_t q = 1; q <= p / 2; q++)
        if (p % q == 0 && finder->runs[q] >= p - q)
            return false;
    return true;
}

/* Extends or breaks the run of every p; returns the smallest p that is found, or 0. */
static uint32_t update_runs(struct lull_iteration_finder *finder, uint64_t symbol)
{
    const uint64_t *const end = finder->history + finder->held;
    const uint32_t periods = lull_min_u32(finder->held, MAX_PERIOD);
    uint32_t found = 0;

    for (uint32_t p = 1; p <= periods; p++) {
        const uint32_t run = finder->runs[p];

        if (*(end - p) == symbol) {
            finder->runs[p] = run + 1;
            if (run + 1 >= finder->needs[p] && found == 0 && is_primitive(finder, p))
                found = p;
        } else if (run != 0) {
            finder->runs[p] = 0;
            if (run >= REPEATS * p)
                note_break(finder, p, run);
        }
    }
    return found;
}

static void append_history(struct lull_iteration_finder *finder, uint64_t symbol)
{
    if (finder->held == 2 * MAX_PERIOD) {
        memmove(finder->history, finder->history + MAX_PERIOD,
                MAX_PERIOD * sizeof(*finder->history));
        finder->held = MAX_PERIOD;
    }
    assert(finder->held < 2 * MAX_PERIOD);
    finder->history[finder->held++] = symbol;
}

/* Spreads a symbol so that sums distinguish multisets of symbols (Stafford's mix 13). */
static uint64_t iteration_finder_mix(uint64_t symbol)
{
    symbol = (symbol ^ (symbol >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    symbol = (symbol ^ (symbol >> 27)) * UINT64_C(0x94d049bb133111eb);
    return symbol ^ (symbol >> 31);
}

/* Moves the window of the memory's length on to the newest symbol, already in history. */
static void update_recent(struct lull_iteration_finder *finder)
{
    const uint64_t *const newest = finder->history + finder->held - 1;
    const uint32_t period = finder->memory.period;

    if (period == 0)
        return;
    finder->recent_sum += iteration_finder_mix(*newest);
    if (finder->recent == period)
        finder->recent_sum -= iteration_finder_mix(*(newest - period));
    else
        finder->recent++;
}

/* Start of the lexicographically least rotation of text[0..n-1], which is primitive. */
static uint32_t least_rotation(const uint64_t *text, uint32_t n)
{
    uint32_t best = 0, rival = 1, same = 0;

    /* Two starts compete; the loser and all starts inside what it matched are out. */
    while (best < n && rival < n && same < n) {
        const uint64_t a = text[(best + same) % n];
        const uint64_t b = text[(rival + same) % n];

        if (a == b) {
            same++;
            continue;
        }
        if (a > b)
            best += same + 1;
        else
            rival += same + 1;
        if (best == rival)
            rival++;
        same = 0;
    }
    return lull_min_u32(best, rival);
}

/* Takes the last period symbols as the pattern to follow. */
static void iteration_finder_follow(struct lull_iteration_finder *finder, uint32_t period)
{
    const uint64_t *const last = finder->history + finder->held - period;
    const uint32_t start = least_rotation(last, period);
    struct pattern *const pattern = &finder->current;

    assert(period >= 1 && period <= MAX_PERIOD && period <= finder->held && start < period);
    pattern->period = period;
    memcpy(pattern->symbols, last + start, (period - start) * sizeof(*last));
    memcpy(pattern->symbols + (period - start), last, start * sizeof(*last));
    finder->position = (period - 1 - start) % period;
    finder->followed = 0;
}

/* Follows the remembered pattern if it has just come once as a whole. */
static bool iteration_finder_resume(struct lull_iteration_finder *finder)
{
    const struct pattern *const memory = &finder->memory;

    if (memory->period == 0 || finder->recent < memory->period ||
        finder->recent_sum != finder->memory_sum)
        return false;
    iteration_finder_follow(finder, memory->period);
    if (memcmp(finder->current.symbols, memory->symbols,
               memory->period * sizeof(*memory->symbols)) == 0)
        return true;
    finder->current.period = 0;
    return false;
}

/* Keeps the pattern that was followed until just now; its symbols count again from the newest on.
 */
static void iteration_finder_remember(struct lull_iteration_finder *finder)
{
    const uint32_t period = finder->current.period;

    assert(period >= 1 && period <= MAX_PERIOD);
    finder->memory.period = period;
    memcpy(finder->memory.symbols, finder->current.symbols,
           period * sizeof(*finder->memory.symbols));
    finder->memory_sum = 0;
    for (uint32_t i = 0; i < period; i++)
        finder->memory_sum += iteration_finder_mix(finder->memory.symbols[i]);
    finder->recent = 0;
    finder->recent_sum = 0;
}

/* A longer period explains the breaks of the shorter ones: they are inner loops. */
static void reinstate_blocks(struct lull_iteration_finder *finder, uint32_t period)
{
    if (finder->memory.period < period &&
        finder->irregular[finder->memory.period] >= LULL_ITERATION_IRREGULAR)
        finder->memory.period = 0;
    for (uint32_t p = 1; p < period; p++) {
        finder->irregular[p] = 0;
        set_need(finder, p);
    }
}

static struct lull_iteration_state
iteration_finder_state(const struct lull_iteration_finder *finder, enum lull_iteration_event event)
{
    return (struct lull_iteration_state){
        .event = event,
        .period = finder->current.period,
        .position = finder->current.period == 0 ? 0 : finder->position,
        .symbols = finder->symbols,
    };
}

/* Resumes an interrupted pattern, takes the found period (0: none), or searches on. The newest
 * symbol must be in place. */
static struct lull_iteration_state iteration_finder_search(struct lull_iteration_finder *finder,
                                                           uint32_t found,
                                                           enum lull_iteration_event otherwise)
{
    finder->current.period = 0;
    if (iteration_finder_resume(finder))
        return iteration_finder_state(finder, LULL_ITERATION_FOUND);
    if (found == 0)
        return iteration_finder_state(finder, otherwise);
    iteration_finder_follow(finder, found);
    reinstate_blocks(finder, found);
    return iteration_finder_state(finder, LULL_ITERATION_FOUND);
}

/* The symbol fits the pattern. The runs continue until no loop around it could be an iteration. */
static struct lull_iteration_state iteration_finder_continue(struct lull_iteration_finder *finder,
                                                             uint64_t symbol)
{
    finder->position = (finder->position + 1) % finder->current.period;
    if (finder->followed < MAX_PERIOD) {
        finder->followed++;
        update_runs(finder, symbol);
    }
    append_history(finder, symbol);
    update_recent(finder);
    return iteration_finder_state(finder, LULL_ITERATION_FOLLOWING);
}

static struct lull_iteration_state iteration_finder_deviate(struct lull_iteration_finder *finder,
                                                            uint64_t symbol)
{
    const uint32_t period = finder->current.period;
    uint32_t found = 0;

    /* Runs are not counted beyond this many symbols. */
    const bool is_long = finder->followed == MAX_PERIOD;

    if (is_interruption(finder, period, is_long ? MAX_PERIOD : finder->runs[period]))
        iteration_finder_remember(finder);
    if (is_long)
        memset(finder->runs, 0, sizeof(finder->runs));
    else
        found = update_runs(finder, symbol);
    append_history(finder, symbol);
    update_recent(finder);
    return iteration_finder_search(finder, found, LULL_ITERATION_DEVIATED);
}

struct lull_iteration_state lull_iteration_push(struct lull_iteration_finder *finder,
                                                uint64_t symbol)
{
    const struct pattern *const current = &finder->current;

    finder->symbols++;
    if (current->period != 0) {
        const uint32_t next = (finder->position + 1) % current->period;

        if (current->symbols[next] != symbol)
            return iteration_finder_deviate(finder, symbol);
        return iteration_finder_continue(finder, symbol);
    }
    const uint32_t found = update_runs(finder, symbol);
    append_history(finder, symbol);
    update_recent(finder);
    return iteration_finder_search(finder, found, LULL_ITERATION_SEARCHING);
}
