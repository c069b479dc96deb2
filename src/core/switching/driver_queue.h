/*
 * The queue of one node's driver: how long its calls take, until when it is busy, whether it may be
 * trusted, and which lowering it should serve next.
 *
 * A driver serves one call after the other for all GPUs of the node, so every controller that
 * switches clocks there needs the same four answers. The controller of sections and the controller
 * of a pipeline's plan each own one such queue; where they differ, the difference is in the
 * configuration.
 *
 * Call times are learnt from the calls themselves; until the first one has been seen, what is known
 * beforehand of raising the first GPU represents them. A driver that blocks for too long suspends
 * the queue: then its owner raises every GPU and lowers none until the queue resumes.
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

/* ---- trust in the driver ------------------------------------------------------------------- */

/*
 * May the driver be trusted to raise a clock in time? A call that blocks for longer than the
 * sections are long leaves computation at a low clock for as long; and calls for the GPUs of a node
 * queue, so that each GPU pays for the calls of all.
 *
 * A call that has blocked for longer than a limit is a breach, and a request that waits for longer
 * is one about to be seen: from then on no GPU of the node is to be lowered. After a breach that
 * lasts for a while, until what the breach has cost is at most half a percent of the time; then
 * calls that can cost nothing (core/switching/switch_cost.h) prove the driver again. Another
 * breach soon after that doubles the while.
 *
 * Pure; caller's storage; zero-initialised trusts. Times are ns of one monotonic clock.
 */

struct lull_call_trust {
    int64_t until_ns; /* no trust before; 0: no breach is being waited out */
    int64_t wait_ns;  /* how long the last stretch without trust was... */
    int64_t since_ns; /* ...and when it ended */
    bool is_overdue;  /* a request waits for longer than the limit */
};

/*
 * The longest time that a call may block, ms. longest_section_ms >= 0; gpu_count >= 1: the GPUs
 * whose calls queue. The calls for all of them must fit into the section; but what a healthy driver
 * may take on a busy machine is always allowed.
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

/* Time passes; false: nothing may be lowered. */
bool lull_call_trust_poll(struct lull_call_trust *trust, int64_t now_ns);

/* When poll may answer otherwise; INT64_MAX: only after a call or an answer. */
int64_t lull_call_trust_wake_ns(const struct lull_call_trust *trust);

/* ---- a plan of its calls ------------------------------------------------------------------- */

/*
 * A plan of the calls that a node's GPUs want of their one driver, which serves them one after the
 * other: by when each raising must begin so that none of them is late, and whether there is room
 * for one more lowering and the raising that follows from it.
 *
 * Raisings are served in the order of their latest starts; packed backwards from the last of them,
 * each begins as late as it can (Jackson 1955, earliest due date first). GPUs whose gaps end
 * together are so raised one after the other, each ahead of its end by no more than it has to be.
 * A lowering is only requested where its own call does not stand in a raising's way, and where its
 * GPU is low for longer than the others lose by being raised the earlier for it.
 *
 * Pure; caller's storage. Times are ns of one clock.
 */

enum { LULL_DRIVER_PLAN_GPUS = 64 };

struct lull_driver_plan {
    uint32_t count;                             /* of GPUs, <= LULL_DRIVER_PLAN_GPUS */
    int64_t call_ns;                            /* about what the driver takes for one call, >= 0 */
    int64_t raise_by_ns[LULL_DRIVER_PLAN_GPUS]; /* latest begin of each GPU's raising if it had the
                                                 * driver to itself; INT64_MAX: it is not low */
};

/* When each raising is to begin, never after raise_by_ns; INT64_MAX: there is none. O(count^2). */
void lull_driver_plan_begins(const struct lull_driver_plan *plan,
                             int64_t begins_out[LULL_DRIVER_PLAN_GPUS]);

/* The first of such begins that comes later than after_ns; INT64_MAX: none does. */
int64_t lull_driver_plan_next_ns(const int64_t *begins_ns, uint32_t count, int64_t after_ns);

/*
 * What lowering a GPU from now_ns on, to be raised by raise_by_ns, wins for the node: the time low
 * that it gains less what others lose, ns. 0 or less: it is not worth it, or would make a raising
 * late. The GPU must not be low. O(count^2).
 */
int64_t lull_driver_plan_gain_ns(const struct lull_driver_plan *plan, uint32_t gpu, int64_t now_ns,
                                 int64_t raise_by_ns);

/* ---- the queue ----------------------------------------------------------------------------- */

struct lull_driver_queue_config {
    uint32_t gpu_count;      /* that the driver serves, 1..LULL_DRIVER_PLAN_GPUS */
    double planned_quantile; /* of the call times seen: a call is planned to take as long, [0, 1] */
    double prior_quantile;   /* the same of `prior`, as long as no call has been seen */
    const struct lull_switch_cost
        *prior;          /* of the first GPU; borrowed as long as the queue lives */
    int64_t min_gain_ns; /* time low that a lowering must win for the node, >= 0 */
    bool never_suspends; /* nothing is ever lowered, so that nothing needs to be taken back */
};

struct lull_driver_queue {
    struct lull_driver_queue_config config;
    struct lull_quantile call_ms; /* time inside the driver of the latest calls */
    int64_t call_ns;              /* the planned quantile of them */
    int64_t free_ns;   /* when the driver will have served what it was requested, about */
    double waiting_ms; /* how long the oldest request has been without an answer; 0: none is */
    struct lull_call_trust trust;
    bool suspended;       /* the driver is not trusted: nothing may be lowered */
    uint32_t suspensions; /* how often that has started */
};

/* Returns whether the driver has just lost or regained trust: then its owner must act. */
enum lull_driver_change {
    LULL_DRIVER_UNCHANGED,
    LULL_DRIVER_SUSPENDED, /* raise every GPU, lower none */
    LULL_DRIVER_RESUMED,
};

/* A lowering that the driver could be requested now. */
struct lull_lowering {
    uint32_t gpu;
    int64_t raise_by_ns; /* latest begin of the raising that follows from it */
    int64_t cost_ns;     /* time low that it loses until it has effect, >= 0 */
    int64_t gain_ns;     /* out: time low that it wins for the node */
};

void lull_driver_queue_init(struct lull_driver_queue *queue,
                            const struct lull_driver_queue_config *config);

/* A call has spent driver_ms inside the driver, its waiting for other calls left out. */
void lull_driver_queue_learn_call(struct lull_driver_queue *queue, double driver_ms);

/* How long a call is planned to take, ns. */
int64_t lull_driver_queue_call_ns(const struct lull_driver_queue *queue);

/* The driver has been requested one more call. */
void lull_driver_queue_keep_busy(struct lull_driver_queue *queue, int64_t now_ns);

/* Returns whether a lowering would be served at once by a driver that is trusted. */
bool lull_driver_queue_may_lower(const struct lull_driver_queue *queue, int64_t now_ns);

/* A plan for the queue's driver; the caller fills in when to raise each GPU. */
void lull_driver_queue_init_plan(const struct lull_driver_queue *queue,
                                 struct lull_driver_plan *plan_out);

/*
 * The lowering that wins most, or null where none wins more than min_gain_ns; all get their
 * gain_ns. plan: of raisings, as the clocks are now. O(count * gpu_count^2).
 */
struct lull_lowering *lull_driver_queue_choose(const struct lull_driver_queue *queue,
                                               const struct lull_driver_plan *plan, int64_t now_ns,
                                               struct lull_lowering *lowerings, uint32_t count);

/*
 * A driver call has returned at now_ns after blocked_ms. longest_section_ms, gpu_count: sections
 * and GPUs that it must not hold up (lull_call_trust_limit_ms); loss_ratio: how much slower
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

/* When to update the trust again at the latest; INT64_MAX: not before a call or an answer. */
int64_t lull_driver_queue_wake_ns(const struct lull_driver_queue *queue);

#endif
