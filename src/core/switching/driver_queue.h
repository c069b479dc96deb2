/*
 * The queue of one node's driver: the duration of its calls, the time until which it is busy, its
 * reliability, and the next lowering that it should serve.
 *
 * A driver serves one call after the other for all GPUs of the node, so every controller that
 * switches clocks there needs the same four answers. The controller of sections and the controller
 * of a pipeline's plan each own one such queue; their differences are in the configuration.
 *
 * Call times are learnt from the calls themselves; until the first one has been observed, prior
 * knowledge of raising the first GPU is used. A driver that blocks for too long suspends the queue:
 * then its owner raises every GPU and lowers none until the queue resumes.
 *
 * Pure; caller's storage; one thread. Times are ns of one monotonic clock that the caller passes
 * in. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_DRIVER_QUEUE_H
#define LULL_CORE_SWITCHING_DRIVER_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats/quantile.h"
#include "core/switching/switch_cost.h"

/* ---- reliability of the driver
 * ------------------------------------------------------------------- */

/*
 * Decides whether the driver is reliable enough to raise a clock in time. A call that blocks for
 * longer than a section leaves computation at a low clock for that time; and calls for the GPUs of
 * a node queue, so that each GPU pays for the calls of all.
 *
 * A call that has blocked for longer than a limit is a breach, and a request that has waited longer
 * is an expected breach. From then on no GPU of the node is lowered, until the cost of the breach
 * is at most half a percent of the time. Then calls that cost the job nothing
 * (core/switching/switch_cost.h) test the driver again. Another breach soon after that doubles the
 * pause.
 *
 * Pure; caller's storage; zero-initialised is not suspended. Times are ns of one monotonic clock.
 */

struct lull_call_trust {
    int64_t until_ns; /* end of the suspension; 0: none */
    int64_t wait_ns;  /* length of the last suspension... */
    int64_t since_ns; /* ...and when it ended */
    bool is_overdue;  /* a request waits for longer than the limit */
};

/*
 * The longest time that a call may block, ms. longest_section_ms >= 0; gpu_count >= 1: the GPUs
 * whose calls queue. The calls for all of them must fit into the section; but the time of a healthy
 * driver on a busy machine is always permitted.
 */
double lull_call_trust_limit_ms(double longest_section_ms, uint32_t gpu_count);

/* The longest time that a request may wait for its answer, the calls before it included, ms. */
double lull_call_trust_waiting_limit_ms(double longest_section_ms, uint32_t gpu_count);

/*
 * A driver call has returned at now_ns after blocked_ms >= 0. loss_ratio: how much slower
 * computation runs at the clocks that were being set, in (0, 1].
 */
void lull_call_trust_take_call(struct lull_call_trust *trust, int64_t now_ns, double blocked_ms,
                               double limit_ms, double loss_ratio);

/* The oldest request without an answer has waited for waiting_ms; 0: all have been answered. */
void lull_call_trust_take_waiting(struct lull_call_trust *trust, double waiting_ms,
                                  double limit_ms);

/* Advances time. Returns false if nothing may be lowered. */
bool lull_call_trust_poll(struct lull_call_trust *trust, int64_t now_ns);

/* Returns the next time at which the result of poll may change; INT64_MAX: only after a call or an
 * answer. */
int64_t lull_call_trust_wake_ns(const struct lull_call_trust *trust);

/* ---- plan of the driver's calls ------------------------------------------------------------ */

/*
 * A plan of the calls of a node's GPUs to their one driver, which serves them one after the other:
 * the latest start of each raising so that none is late, and whether one more lowering and its
 * raising fit.
 *
 * Raisings are served in the order of their latest starts; packed backwards from the last of them,
 * each begins as late as it can (Jackson 1955, earliest due date first). So GPUs whose gaps end
 * together are raised one after the other, each no earlier than necessary. A lowering is only
 * requested if its call does not delay a raising, and if its GPU gains more low time than the
 * others lose by earlier raisings.
 *
 * Pure; caller's storage. Times are ns of one clock.
 */

enum { LULL_DRIVER_PLAN_GPUS = 64 };

struct lull_driver_plan {
    uint32_t count;                             /* of GPUs, <= LULL_DRIVER_PLAN_GPUS */
    int64_t call_ns;                            /* approximate driver time of one call, >= 0 */
    int64_t raise_by_ns[LULL_DRIVER_PLAN_GPUS]; /* latest begin of each GPU's raising if it had the
                                                 * driver to itself; INT64_MAX: it is not low */
};

/* Computes the start of each raising, never after raise_by_ns; INT64_MAX: none. O(count^2). */
void lull_driver_plan_begins(const struct lull_driver_plan *plan,
                             int64_t begins_out[LULL_DRIVER_PLAN_GPUS]);

/* The first of such begins that comes later than after_ns; INT64_MAX: none does. */
int64_t lull_driver_plan_next_ns(const int64_t *begins_ns, uint32_t count, int64_t after_ns);

/*
 * Returns the gain for the node, ns, of lowering a GPU from now_ns until raise_by_ns: its low time
 * less the losses of the others. 0 or less: it does not pay, or would make a raising late. The GPU
 * must not be low. O(count^2).
 */
int64_t lull_driver_plan_gain_ns(const struct lull_driver_plan *plan, uint32_t gpu, int64_t now_ns,
                                 int64_t raise_by_ns);

/* ---- the queue ----------------------------------------------------------------------------- */

struct lull_driver_queue_config {
    uint32_t gpu_count;      /* that the driver serves, 1..LULL_DRIVER_PLAN_GPUS */
    double planned_quantile; /* quantile of the observed call times used for planning, [0, 1] */
    double prior_quantile;   /* the same of `prior`, as long as no call has been seen */
    const struct lull_switch_cost *prior; /* of the first GPU; must live as long as the queue */
    int64_t min_gain_ns; /* least low time that a lowering must gain for the node, >= 0 */
    bool never_suspends; /* nothing is ever lowered, so nothing needs to be undone */
};

struct lull_driver_queue {
    struct lull_driver_queue_config config;
    struct lull_quantile call_ms; /* time inside the driver of the latest calls */
    int64_t call_ns;              /* the planned quantile of them */
    int64_t free_ns;   /* approximate time at which the driver will have served all requests */
    double waiting_ms; /* age of the oldest request without an answer; 0: there is none */
    struct lull_call_trust trust;
    bool suspended;       /* the driver is suspended: nothing may be lowered */
    uint32_t suspensions; /* number of suspensions so far */
};

/* Returns whether the driver has just been suspended or resumed; then its owner must act. */
enum lull_driver_change {
    LULL_DRIVER_UNCHANGED,
    LULL_DRIVER_SUSPENDED, /* raise every GPU, lower none */
    LULL_DRIVER_RESUMED,
};

/* A lowering that could be requested now. */
struct lull_lowering {
    uint32_t gpu;
    int64_t raise_by_ns; /* latest begin of the raising that follows from it */
    int64_t cost_ns;     /* low time that is lost until it takes effect, >= 0 */
    int64_t gain_ns;     /* out: low time that it gains for the node */
};

void lull_driver_queue_init(struct lull_driver_queue *queue,
                            const struct lull_driver_queue_config *config);

/* A call has spent driver_ms inside the driver, not counting its wait for other calls. */
void lull_driver_queue_learn_call(struct lull_driver_queue *queue, double driver_ms);

/* Returns the planned duration of a call, ns. */
int64_t lull_driver_queue_call_ns(const struct lull_driver_queue *queue);

/* One more call has been requested. */
void lull_driver_queue_keep_busy(struct lull_driver_queue *queue, int64_t now_ns);

/* Returns whether the driver is not suspended and would serve a lowering at once. */
bool lull_driver_queue_may_lower(const struct lull_driver_queue *queue, int64_t now_ns);

/* A plan for the queue's driver; the caller fills in when to raise each GPU. */
void lull_driver_queue_init_plan(const struct lull_driver_queue *queue,
                                 struct lull_driver_plan *plan_out);

/*
 * The lowering that gains most low time, or null if none gains
 * more than min_gain_ns; gain_ns is set in all. plan: of raisings, as the clocks are now. O(count *
 * gpu_count^2).
 */
struct lull_lowering *lull_driver_queue_choose(const struct lull_driver_queue *queue,
                                               const struct lull_driver_plan *plan, int64_t now_ns,
                                               struct lull_lowering *lowerings, uint32_t count);

/*
 * A driver call has returned at now_ns after blocked_ms. longest_section_ms, gpu_count: sections
 * and GPUs that it must not delay (lull_call_trust_limit_ms); loss_ratio: how much slower
 * computation runs at the clocks that were being set, in (0, 1].
 */
enum lull_driver_change lull_driver_queue_take_blocked(struct lull_driver_queue *queue,
                                                       int64_t now_ns, double blocked_ms,
                                                       double longest_section_ms,
                                                       uint32_t gpu_count, double loss_ratio);

/* The oldest request without an answer has waited for waiting_ms; 0: all have been answered. */
enum lull_driver_change lull_driver_queue_take_waiting(struct lull_driver_queue *queue,
                                                       int64_t now_ns, double waiting_ms,
                                                       double longest_section_ms);

/* Time has passed, which may end a suspension. */
enum lull_driver_change lull_driver_queue_update_trust(struct lull_driver_queue *queue,
                                                       int64_t now_ns);

/* Returns the latest time of the next update of the suspension; INT64_MAX: not before a call or an
 * answer. */
int64_t lull_driver_queue_wake_ns(const struct lull_driver_queue *queue);

#endif
