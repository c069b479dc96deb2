/*
 * The gap map's state, shared by its two files and nobody else:
 *   gap_map.c        following: communication kernels in, calls out
 *   gap_map_learn.c  a recorded window becomes gaps and the edges that announce them
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_GAP_MAP_STATE_H
#define LULL_CORE_SECTION_GAP_MAP_STATE_H

#include "core/section/gap_map.h"

#define LULL_GAP_MAP_NEVER INT64_MAX
#define LULL_GAP_MAP_NO_PERIOD UINT32_MAX

enum { LULL_GAP_MAP_READY = 64 };

struct lull_run {
    int64_t begin_ns;
    int64_t end_ns;
};

/* The window. Edge 2 i is the begin, 2 i + 1 the end of the kernel at position i. */
struct lull_gap_record {
    uint32_t period;   /* under way; LULL_GAP_MAP_NO_PERIOD before the first boundary */
    uint64_t first;    /* iteration of its first period */
    bool is_full;      /* the boundary after the last period has been seen */
    int64_t *edges_ns; /* [LULL_GAP_MAP_PERIODS + 1][2 * period]; 0: not seen */
    struct lull_run *runs; /* of computation, in time order, with gaps worth mentioning between */
    uint32_t run_count;
    uint32_t run_capacity;
};

/* Which edges of the pass announce a gap's begin and end, and how long before. */
struct lull_gap_plan {
    uint32_t begin_edge;
    uint32_t end_edge;
    int64_t begin_offset_ns;
    int64_t end_offset_ns;
    int64_t begin_due_ns; /* LULL_GAP_MAP_NEVER: not announced */
    int64_t end_due_ns;
};

struct lull_gap_map {
    enum lull_gap_map_phase phase;
    struct lull_iteration_finder *finder;
    uint32_t period;   /* kernels per iteration */
    uint32_t position; /* of the kernel under way */
    bool is_within;    /* its position is known */
    uint64_t iteration; /* counts boundaries */
    uint32_t depth;    /* kernels that run beside each other */
    int64_t outermost_ns; /* begin of the first of them */
    uint32_t attempts;
    struct lull_gap_record record;
    struct lull_call *kernels; /* [period] begins, as recorded */
    uint32_t fold;
    uint32_t gap_count;
    struct lull_mapped_gap gaps[LULL_GAP_MAP_MAX_GAPS];
    struct lull_gap_plan plans[LULL_GAP_MAP_MAX_GAPS];
    uint32_t next; /* gap to emit, or being emitted */
    bool is_open;  /* its begin has been emitted */
    int64_t last_ns;
    uint32_t ready_first;
    uint32_t ready_count;
    struct lull_call ready[LULL_GAP_MAP_READY];
};

static inline int64_t *lull_gap_map_edge(const struct lull_gap_map *map, uint32_t period,
                                         uint32_t edge)
{
    return &map->record.edges_ns[(size_t)period * 2 * map->period + edge];
}

/* Opens a window for the period found; blind if there is no memory or too many have failed. */
void lull_gap_map_start_window(struct lull_gap_map *map);

/* Starts to emit the gaps that begin after the present position. */
void lull_gap_map_take_up(struct lull_gap_map *map);

#endif
