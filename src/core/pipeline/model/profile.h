/*
 * Profile: what each class of pipeline operation takes at each clock. A class is one instruction
 * (forward, backward, ...) of one stage; all operations of a class cost the same. An operation of
 * fixed length (a collective, the optimizer) is a class with a single operating point.
 *
 * Times are integer nanoseconds and energies integer nanojoules, as measured: no curve is fitted. A
 * device that waits inside the iteration draws its *blocking* power; what an operating point costs
 * beyond waiting is its *effective* energy, energy - blocking power * time (reference: Perseus,
 * SOSP'24).
 *
 * Pure. Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_MODEL_PROFILE_H
#define LULL_CORE_PIPELINE_MODEL_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { LULL_PIPELINE_MAX_OPTIONS = 512 };
/*
 * The limits of one operating point are 100 s and 10 MJ. So the longest path of
 * LULL_PIPELINE_MAX_OPS operations (graph.h) stays within int64_t; energies are summed as double.
 */
#define LULL_PIPELINE_MAX_TIME_NS INT64_C(100000000000)
#define LULL_PIPELINE_MAX_ENERGY_NJ INT64_C(10000000000000000)

enum lull_pipeline_kind {
    LULL_PIPELINE_FORWARD,
    LULL_PIPELINE_BACKWARD,  /* input and weight gradients in one */
    LULL_PIPELINE_INPUT,     /* the gradient of the input alone */
    LULL_PIPELINE_WEIGHT,    /* the gradient of the weights alone */
    LULL_PIPELINE_OVERLAP,   /* a forward and a backward at once (DualPipe) */
    LULL_PIPELINE_FIXED,     /* nothing to choose: collectives, optimizer */
    LULL_PIPELINE_RECOMPUTE, /* a forward repeated ahead of the backward */
    LULL_PIPELINE_KINDS
};

struct lull_pipeline_point {
    int64_t time_ns;   /* > 0 */
    int64_t energy_nj; /* >= 0, of all GPUs of the stage */
    uint32_t sm_mhz;   /* 0: it has no clock (fixed) */
};

struct lull_pipeline_class {
    uint32_t stage;
    enum lull_pipeline_kind kind;
    uint32_t partner; /* the stage of an overlap's backward; else 0 */
    uint32_t
        copy; /* the data parallel copy that it was measured on; 0: all copies without their own */
    struct lull_pipeline_point *points; /* clocks descending, each once */
    size_t point_count;                 /* >= 1 */
};

struct lull_pipeline_profile {
    struct lull_pipeline_class *classes;
    size_t class_count;
};

/* The word that files use: "forward", "backward", "input", "weight", "overlap", "fixed",
 * "recompute". */
const char *lull_pipeline_kind_name(enum lull_pipeline_kind kind);

/* Error: -EINVAL the word is unknown; kind_out is then left unchanged. */
int lull_pipeline_kind_parse(const char *word, enum lull_pipeline_kind *kind_out);

void lull_pipeline_profile_init(struct lull_pipeline_profile *profile);
void lull_pipeline_profile_fini(struct lull_pipeline_profile *profile);

/*
 * Adds a measured operating point, in any order; the class comes into being with its first one.
 * copy: the data parallel copy that was measured; 0: all copies without classes of their own.
 * Errors, with the values in the text: -EINVAL a time that is not positive, a negative energy,
 * either beyond its limit, or more than LULL_PIPELINE_MAX_OPTIONS; -EEXIST the class has this clock
 * already; -ENOMEM.
 */
int lull_pipeline_profile_add(struct lull_pipeline_profile *profile, uint32_t copy, uint32_t stage,
                              enum lull_pipeline_kind kind, uint32_t partner,
                              const struct lull_pipeline_point *point, struct lull_error *err);

/* The first operating point whose clock is not above mhz; point_count if all are. O(log n). */
size_t lull_pipeline_first_not_above(const struct lull_pipeline_class *operations, uint32_t mhz);

/* The operating point of a class at this very clock, UINT32_MAX if there is none. O(log n). */
uint32_t lull_pipeline_point_at(const struct lull_pipeline_class *operations, uint32_t mhz);

/* The index of a class, -ENOENT if there is none. */
int lull_pipeline_profile_find(const struct lull_pipeline_profile *profile, uint32_t copy,
                               uint32_t stage, enum lull_pipeline_kind kind, uint32_t partner);

/* The number of stages that a profile has classes of: the last one's number + 1; 0: no classes. */
uint32_t lull_pipeline_profile_stages(const struct lull_pipeline_profile *profile);

/*
 * Lists the operating points that a planner may choose, the fastest first: effective energy falls
 * strictly as time grows. Of two operating points of equal time and effective energy it takes the
 * one with the higher clock. With hull, it lists only the corners of their lower convex hull (the
 * relaxation's). blocking_w >= 0 is that of the whole stage. chosen_out receives indices into the
 * class's operating points, and has room for point_count. Returns their number, at least 1. O(n log
 * n).
 */
size_t lull_pipeline_pareto(const struct lull_pipeline_class *operations, double blocking_w,
                            bool hull, uint32_t *chosen_out);

/*
 * Cost of an operating point beyond waiting for the same time, nJ; it may be negative. blocking_w
 * >= 0. Watts times nanoseconds are nanojoules.
 */
static inline double lull_pipeline_effective_nj(const struct lull_pipeline_point *point,
                                                double blocking_w)
{
    return (double)point->energy_nj - blocking_w * (double)point->time_ns;
}

/* The operating point with the highest clock: clocks descend. */
enum { LULL_PIPELINE_HIGHEST = 0 };

#endif
