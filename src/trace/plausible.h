/*
 * Private to trace: leaves out of a trace what cannot be, and brings the rest into order.
 *
 * Profilers write kernels whose times cannot be: at time 0 where they had no time, before their own
 * launch, by another clock, twice, or with an end that lies behind the start of the next kernel on
 * the same stream, which works serially. Such kernels are left out and counted; one that overruns
 * is cut where the next begins.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_PLAUSIBLE_H
#define LULL_TRACE_PLAUSIBLE_H

#include "trace/trace.h"

/* Brings kernels, launches and steps in any order into that of struct lull_trace, and fills in
 * which of them each GPU has; GPUs without kernels are dropped, and times below 0 shifted. */
void lull_plausible_sift(struct lull_trace *trace);

#endif
