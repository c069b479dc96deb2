/*
 * Straggler: sees in the iterations of one copy of a pipeline that somebody has become slower, and
 * by how much, and that it is over.
 *
 * Two things tell. *Late*: at the end of its iteration the copy waits for longer than usual until
 * the next one begins; other copies are late. *Slow*: the operations of one device take longer than
 * usual at the clocks they have (heat, a power brake, another job). Then the copy may take longer
 * without anybody noticing: Perseus's T_opt = min(T*, T_straggler) (SOSP'24, section 4.3), asked
 * for anew with every change.
 *
 * Never slower than the straggler makes it. What is asked for leaves a margin of waiting over, for
 * waiting that shrinks is how its end is seen: one iteration with less of it, or of a device that
 * has become faster, and all goes back at once. Waiting that does not shrink when the copy takes
 * longer was none (a longer optimizer): it becomes the usual, and is never acted on again.
 * What was over after a few iterations is believed later the next time.
 *
 * Usual is the median of the latest iterations where it is less than before; it rises slowly, by a
 * hundredth of the difference at each quiet iteration.
 *
 * Pure; create/destroy; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FOLLOW_STRAGGLER_DETECTOR_H
#define LULL_CORE_PIPELINE_FOLLOW_STRAGGLER_DETECTOR_H

#include <stdbool.h>
#include <stdint.h>

struct lull_straggler_detector_config {
    double margin_ratio; /* waiting that is left over, of an iteration; twice that is acted on, (0,
                            0.1] */
    uint32_t patience;   /* iterations in a row that say the same before anything is asked, >= 1 */
};

/* Margin 1 %, patience 2. */
void lull_straggler_detector_config_default(struct lull_straggler_detector_config *config);

enum lull_straggler_detector_kind {
    LULL_STRAGGLER_REFERENCE, /* at the highest clocks */
    LULL_STRAGGLER_PLANNED,   /* at the plan */
    LULL_STRAGGLER_STRETCHED, /* as was asked for */
    LULL_STRAGGLER_MIXED      /* on the way back: only counted */
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

/* device_count >= 1. NULL: no memory. */
struct lull_straggler_detector *
lull_straggler_detector_create(const struct lull_straggler_detector_config *config,
                               uint32_t device_count);
void lull_straggler_detector_destroy(struct lull_straggler_detector *straggler);

/* Samples in the order of iterations; some may be missing. O(devices). */
enum lull_straggler_detector_verdict
lull_straggler_detector_take(struct lull_straggler_detector *straggler,
                             const struct lull_straggler_detector_sample *sample);

/* What was asked for last. factor_out: of every device, how much slower it is, >= 1. Returns how
 * long, ns, beyond what the plan takes with such devices, >= 0. */
int64_t lull_straggler_detector_request(const struct lull_straggler_detector *straggler,
                                        double *factor_out);

/* Whether the options is being fulfilled. No: there is nothing to win; asked again later. */
void lull_straggler_detector_answer(struct lull_straggler_detector *straggler, bool is_stretched);

/* Back to the plan for other reasons; what is usual stays known. */
void lull_straggler_detector_reset(struct lull_straggler_detector *straggler);

bool lull_straggler_detector_is_stretched(const struct lull_straggler_detector *straggler);

/* Whether the latest iterations are such that something will be asked soon. */
bool lull_straggler_detector_is_suspicious(const struct lull_straggler_detector *straggler);

/* By how much iterations took longer than they would have without, all told, at most. */
int64_t lull_straggler_detector_lost_ns(const struct lull_straggler_detector *straggler);

/* How often waiting did not shrink. */
uint32_t lull_straggler_detector_refuted(const struct lull_straggler_detector *straggler);

#endif
