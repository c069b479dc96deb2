/*
 * Evaluates plans under switching from their timeline alone,
 * and finds the best of all: the reference for the search. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_CORE_PIPELINE_SWITCHING_SWITCHING_ORACLE_H
#define LULL_TESTS_CORE_PIPELINE_SWITCHING_SWITCHING_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/pipeline/switching/switching.h"
#include "../pipeline_case.h"

enum { DWELL_ORACLE_MOST_OPS = 64 };

const struct lull_pipeline_point *dwell_point_of(const struct pipeline_case *it,
                                                 const uint32_t *point, uint32_t op);

/* The last clock requested for a device in an iteration; 0: none. */
uint32_t dwell_last_mhz(const struct pipeline_case *it, const uint32_t *point, uint32_t device);

/* Returns whether a plan keeps time and dwell; and its changes of clock. */
bool dwell_is_good(const struct pipeline_case *it, const struct lull_pipeline_switching *switching,
                   const uint32_t *point, int64_t deadline_ns, size_t *changes_out);

/* Energy of an iteration that takes deadline_ns, of switching and of its changes. */
double dwell_cost_j(const struct pipeline_case *it, const struct lull_pipeline_switching *switching,
                    const uint32_t *point, int64_t deadline_ns, size_t changes);

/* The least cost of all good plans; infinite: there is none. */
double dwell_best_of_all(const struct pipeline_case *it,
                         const struct lull_pipeline_switching *switching, int64_t deadline_ns);

#endif
