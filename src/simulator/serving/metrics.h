/*
 * The metrics of a simulated server as a controller receives them: late, lost or restarted.
 * Deterministic. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_SERVING_METRICS_H
#define LULL_SIMULATOR_SERVING_METRICS_H

#include "core/serving/controller.h"
#include "emulator/server/engine.h"
#include "simulator/serving/serving.h"

struct lull_serving_metrics;

/* Borrows the faults. NULL: no memory. */
struct lull_serving_metrics *lull_serving_metrics_create(const struct lull_serving_faults *faults,
                                                         int64_t period_ns, uint64_t seed);
void lull_serving_metrics_destroy(struct lull_serving_metrics *metrics); /* NULL is allowed */

/* The counters begin again: those shown so far are subtracted, or, after a restart of the engine,
 * it counts from 0 by itself. */
void lull_serving_metrics_reset(struct lull_serving_metrics *metrics,
                                const struct lull_engine_statistics *statistics);
void lull_serving_metrics_restart(struct lull_serving_metrics *metrics);

/* Reads the server once, and passes on the answers that arrive by now. statistics NULL: the server
 * does not answer. */
void lull_serving_metrics_poll(struct lull_serving_metrics *metrics,
                               const struct lull_engine_statistics *statistics, int64_t now_ns,
                               struct lull_serving_controller *controller);

#endif
