/*
 * The straggler detector sees in the iterations of one copy of a pipeline that some device or
 * another copy has become slower, by how much, and when that is over.
 *
 * There are two symptoms. *Late*: at the end of its iteration the copy waits for longer than
 * typical until the next one begins, because other copies are late. *Slow*: the operations of one
 * device take longer than typical at the clocks they have (heat, a power brake, another job). In
 * both cases the copy may take longer without slowing the job: Perseus's T_opt = min(T*,
 * T_straggler) (SOSP'24, section 4.3), found again with every change.
 *
 * The copy never becomes slower than the straggler makes it. The longer iteration that is requested
 * leaves a margin of waiting, because the end of the straggling shows as waiting that shrinks: one
 * iteration with less of it, or one device that has become faster, and the plan holds again at
 * once. If the waiting does not shrink although the copy takes longer, it was not waiting at all (a
 * longer optimizer, say): it becomes the typical and is never acted on again. After a straggler
 * that was over within a few iterations, the next one needs more evidence.
 *
 * The typical value of a quantity is the median of its latest ones if that is less than the typical
 * value so far; otherwise it rises slowly, by a hundredth of the difference at each quiet
 * iteration.
 *
 * Pure; create/destroy; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FOLLOW_STRAGGLER_DETECTOR_H
#define LULL_CORE_PIPELINE_FOLLOW_STRAGGLER_DETECTOR_H

#include <stdbool.h>
#include <stdint.h>

struct lull_straggler_detector_config {
    double margin_ratio; /* waiting that a stretch leaves, as a share of an iteration,
                          * (0, 0.1]; twice that much starts a stretch */
    uint32_t
        patience; /* consecutive iterations that must agree before anything is requested, >= 1 */
};

/* Sets a margin of 1 % and a patience of 2 iterations. */
void lull_straggler_detector_config_default(struct lull_straggler_detector_config *config);

enum lull_straggler_detector_kind {
    LULL_STRAGGLER_REFERENCE, /* at the highest clocks */
    LULL_STRAGGLER_PLANNED,   /* at the plan */
    LULL_STRAGGLER_STRETCHED, /* as was requested */
    LULL_STRAGGLER_MIXED      /* partly at the plan, partly as was requested */
};

/* A whole iteration of the copy. */
struct lull_straggler_detector_sample {
    enum lull_straggler_detector_kind kind;
    int64_t span_ns;        /* from its first operation's begin to its last one's end, > 0 */
    int64_t gap_ns;         /* from there to the next iteration's begin, >= 0 */
    const double *slowness; /* of every device: length of its operations, over what their clocks
                             * take by the profile, > 0; of a mixed iteration not read */
};

enum lull_straggler_detector_verdict {
    LULL_STRAGGLER_GO_ON,
    LULL_STRAGGLER_STRETCH, /* see lull_straggler_detector_request(), then lull_straggler_answer()
                             */
    LULL_STRAGGLER_RETURN   /* to the plan, at once */
};

struct lull_straggler_detector;

/* device_count >= 1. null: out of memory. */
struct lull_straggler_detector *
lull_straggler_detector_create(const struct lull_straggler_detector_config *config,
                               uint32_t device_count);
void lull_straggler_detector_destroy(struct lull_straggler_detector *straggler);

/* Takes a sample and says what to do. Samples come in the order of iterations; some may be missing.
 * O(devices). */
enum lull_straggler_detector_verdict
lull_straggler_detector_take(struct lull_straggler_detector *straggler,
                             const struct lull_straggler_detector_sample *sample);

/* Latest request: an iteration that is the returned time longer than the plan takes with such
 * devices, ns, >= 0. factor_out: slowdown factor of each device, >= 1. */
int64_t lull_straggler_detector_request(const struct lull_straggler_detector *straggler,
                                        double *factor_out);

/* Answers the request: whether the longer iteration is being run. If it
 * is not, because it would save nothing, it is requested again later. */
void lull_straggler_detector_answer(struct lull_straggler_detector *straggler, bool is_stretched);

/* Returns whether the iterations are stretched, as the last answer said. */
bool lull_straggler_detector_is_stretched(const struct lull_straggler_detector *straggler);

/* Returns whether the latest iterations are such that something will be requested soon. */
bool lull_straggler_detector_is_suspicious(const struct lull_straggler_detector *straggler);

/* Upper bound on the time that all iterations together lost against the plan. */
int64_t lull_straggler_detector_lost_ns(const struct lull_straggler_detector *straggler);

/* Number of times that the waiting did not shrink although the copy took longer. */
uint32_t lull_straggler_detector_refuted(const struct lull_straggler_detector *straggler);

#endif
