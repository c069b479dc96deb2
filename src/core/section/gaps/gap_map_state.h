/*
 * The gap map's state, private to its files. Calls go down this list only:
 *   gap_map.c          following: communication kernels in, calls out
 *   gap_map_learn.c    a recorded window becomes gaps and the edges that announce them
 *   gap_map_compute.c  the computation of a window, reported or guessed
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_GAPS_GAP_MAP_STATE_H
#define LULL_CORE_SECTION_GAPS_GAP_MAP_STATE_H

#include "core/section/gaps/gap_map.h"
#include "core/section/kernel_order.h"

#define LULL_GAP_MAP_NEVER INT64_MAX

enum { LULL_GAP_MAP_READY = 64 };

struct lull_run {
    int64_t begin_ns;
    int64_t end_ns;
};

/* The recorded window. Edge 2 i is the start, 2 i + 1 the end of the kernel at position i. */
struct lull_gap_record {
    int64_t first; /* iteration of its first period */
    uint32_t seen; /* edges; all of its periods and the first after them make it full */
    bool is_full;
    int64_t full_ns;       /* the time of the latest of these */
    int64_t *edges_ns;     /* [LULL_GAP_MAP_PERIODS + 1][2 * period]; 0: it was not seen */
    struct lull_run *runs; /* of computation, in time order; breaks too short to count are closed */
    uint32_t run_count;
    uint32_t run_capacity;
};

/* A time that a steady point stretches. */
struct lull_stretch {
    int64_t typical_ns; /* at the highest clock... */
    int64_t added_ns;   /* ...and how much longer it is at the steady point */
    int64_t from_ns;    /* when it began; 0: it is not under way */
};

/* Edges of the pass that announce a gap's begin and end, and their distances from these. */
struct lull_gap_plan {
    uint32_t begin_edge;
    uint32_t end_edge;
    int64_t begin_offset_ns;
    int64_t end_offset_ns;
    int64_t announced_ns; /* when the begin edge comes, counted from the first edge of the pass */
    uint32_t next_edge;   /* the first after the gap's begin */
    bool is_hidden;       /* the gap begins beside a kernel, so that edge does not show when */
    struct lull_stretch until_next; /* from the begin edge to the next one; so late it begins */
    int64_t begin_due_ns;           /* LULL_GAP_MAP_NEVER: it has not been announced */
    int64_t end_due_ns;
};

struct lull_gap_map {
    enum lull_gap_map_phase phase;
    bool is_blind;     /* computation is not reported: communication is taken for a gap */
    bool has_given_up; /* the map is blind, and kernels are passed on as they come permanently */
    uint32_t depth;    /* number of kernels that were passed on and have not ended */
    struct lull_call passed; /* the last of them that began */
    struct lull_kernel_order *order;
    uint32_t period;           /* kernels per iteration */
    struct lull_standing last; /* of the edge that came last */
    bool last_is_begin;
    uint32_t attempts;
    struct lull_gap_record record;
    struct lull_call *kernels; /* [period] begins, as recorded */
    uint32_t fold;
    int64_t pass_ns; /* length of a pass, as recorded */
    uint32_t gap_count;
    struct lull_mapped_gap gaps[LULL_GAP_MAP_MAX_GAPS];
    struct lull_gap_plan plans[LULL_GAP_MAP_MAX_GAPS];
    uint32_t steady;          /* the point at which computation runs now... */
    uint32_t slowed;          /* ...and ran last when it was not the highest */
    int64_t steady_from_ns;   /* since when it does so in whole passes */
    struct lull_stretch pass; /* of the whole */
    uint32_t next;            /* gap to emit, or being emitted */
    bool is_open;             /* its start has been emitted */
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

/* The window is full and, unless the map is blind, all computation in it has been reported: finds
 * fold, pass, gaps and plans in it. There may be no gap; but where kernels race, or are alike, one
 * of them represents it. */
void lull_gap_map_plan_gaps(struct lull_gap_map *map);

/* Adds a run of computation to the window; false: no memory, or more runs than a window holds. */
bool lull_gap_map_add_run(struct lull_gap_map *map, int64_t begin_ns, int64_t end_ns);

/* Takes whatever lies between communication for computation. The window must be full. */
void lull_gap_map_guess_compute(struct lull_gap_map *map);

/* A recorded time, counted from the first edge of the pass that the gaps were taken from, modulo
 * the length of a pass. */
int64_t lull_gap_map_in_pass_ns(const struct lull_gap_map *map, int64_t recorded_ns);

#endif
