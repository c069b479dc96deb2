/*
 * Gap map: the times at which a GPU computes nothing, learnt once and afterwards derived from its
 * communication alone.
 *
 * When communication runs on the GPU (NCCL), its kernels say when they begin and end, but not
 * whether computation runs beside them; and when the host is late the GPU idles with no kernel at
 * all. Recording every compute kernel all the time costs too much. So the map requests a window in
 * which both are reported, finds the iteration from the repeating sequence of communication kernels
 * (kernel_order.h: in the order in which the host enqueued them, however they race on the GPU), and
 * learns for each gap in the computation at what distance from which edge of a communication kernel
 * it begins and ends. From then on it needs the communication kernels only, and emits each gap as a
 * call: a section without computation, exposed from end to end.
 *
 * A gap is emitted from the latest begin to the earliest end that it had in the recorded
 * iterations, so that every gap was one in each recorded iteration. If every other iteration
 * differs (accumulation, a recorded job of two iterations), two iterations count as one.
 *
 * If computation cannot be recorded, or no process answers, the map is blind: communication kernels
 * are passed on as they are, as calls that may hide computation. Once two of them run beside each
 * other, their order no longer shows the iteration. The map learns nevertheless: it treats the time
 * that they cover together as a gap, which may hide computation too.
 *
 * If there is no gap, and the order of the kernels does not show the iteration (they run beside
 * each other, or are alike so that only their times differ), one of them represents a gap, once per
 * iteration.
 *
 * Pure; create/destroy; one thread at a time. Times: int64_t ns of one monotonic clock.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_GAPS_GAP_MAP_H
#define LULL_CORE_SECTION_GAPS_GAP_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/section/call.h"

enum {
    LULL_GAP_MAP_PERIODS = 6,   /* iterations that a window records */
    LULL_GAP_MAP_MAX_GAPS = 64, /* the longest are kept */
    LULL_GAP_MAP_ATTEMPTS = 6,  /* windows that may fail before the map becomes blind */
};

/* Time after the end of a window for which its computation is awaited, in addition to some
 * iterations. If it can be recorded, it is reported within tens of milliseconds. */
#define LULL_GAP_MAP_PATIENCE_NS INT64_C(2000000000)

enum lull_gap_map_phase {
    LULL_GAP_MAP_SEARCHING, /* for the iteration */
    LULL_GAP_MAP_RECORDING, /* requests reports of computation */
    LULL_GAP_MAP_KNOWN,     /* emits gaps */
    LULL_GAP_MAP_BLIND,     /* passes communication kernels on */
};

/* A gap as it was learnt. */
struct lull_mapped_gap {
    double length_ms;      /* emitted length, mean over the window */
    double exposed_ms;     /* the part of it beside a communication kernel; the rest is idle */
    struct lull_call call; /* the call emitted at its start, except for the time */
};

struct lull_gap_map;

/* blind: computation will never be reported. null: not enough memory. */
struct lull_gap_map *lull_gap_map_create(bool blind);
void lull_gap_map_destroy(struct lull_gap_map *map);

/* A communication kernel begins or ends on the GPU. In the order of their times, which need not be
 * that of edge->order. */
void lull_gap_map_take_communication(struct lull_gap_map *map, const struct lull_call *edge);

/* A run of compute kernels without a relevant break. Call it in the order of their starts. */
void lull_gap_map_take_compute(struct lull_gap_map *map, int64_t begin_ns, int64_t end_ns);

/* Every run of computation that began before this time has been reported. */
void lull_gap_map_take_complete(struct lull_gap_map *map, int64_t until_ns);

/* Computation cannot be recorded any more. Unless the map is known, it is blind from now on. */
void lull_gap_map_compute_unavailable(struct lull_gap_map *map);

/*
 * The next call due at now_ns, if there is one: the starts and ends of gaps alternate, in the order
 * of the iteration, none left out. A deviation of the communication breaks off the iteration: it
 * shows as a call of LULL_CALL_BREAK.
 */
bool lull_gap_map_poll(struct lull_gap_map *map, int64_t now_ns, struct lull_call *call_out);

/* Latest time of the next poll; INT64_MAX: only after the next edge. */
int64_t lull_gap_map_wake_ns(const struct lull_gap_map *map);

/*
 * From now on computation runs at this steady point; 0: at the highest clock, as in the window.
 * The time that a point adds to computation shows in the communication after it. Until it has been
 * measured it is assumed to be proportional to the point.
 */
void lull_gap_map_set_steady(struct lull_gap_map *map, uint32_t point);

enum lull_gap_map_phase lull_gap_map_phase(const struct lull_gap_map *map);

/* Gaps in the order of the iteration; none unless known. Valid until the next take. */
const struct lull_mapped_gap *lull_gap_map_gaps(const struct lull_gap_map *map,
                                                uint32_t *count_out);

/* Returns whether computation is not reported, so that gaps may hide it. */
bool lull_gap_map_is_blind(const struct lull_gap_map *map);

/* Returns whether computation is to be reported now. */
bool lull_gap_map_wants_compute(const struct lull_gap_map *map);

/* Iterations of the job that one pass through the gaps covers: 1 or 2; 0 unless known. */
uint32_t lull_gap_map_fold(const struct lull_gap_map *map);

#endif
