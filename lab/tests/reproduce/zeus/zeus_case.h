/*
 * The published traces, if they are available (LULL_ZEUS_DATA). SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_LAB_TESTS_REPRODUCE_ZEUS_ZEUS_CASE_H
#define LULL_LAB_TESTS_REPRODUCE_ZEUS_ZEUS_CASE_H

#include <stdio.h>
#include <unistd.h>

#include "lab/reproduce/zeus/trace.h"

#define ZEUS_TRAIN LULL_ZEUS_DATA "/trace/summary_train.csv"

static inline int zeus_is_absent(void)
{
    return access(ZEUS_TRAIN, R_OK) != 0;
}

/* gpu: v100 or a40. NULL, with a message, if it cannot be read; the caller destroys it. */
static inline struct lull_batch_trace *zeus_read(const char *gpu, const char *dataset)
{
    char power[512];
    struct lull_batch_trace *trace = NULL;
    struct lull_error err = {0};

    snprintf(power, sizeof(power), "%s/trace/summary_power_%s.csv", LULL_ZEUS_DATA, gpu);
    if (lull_batch_trace_read(lull_batch_trace_find_job(dataset), ZEUS_TRAIN, power, &trace, &err) <
        0)
        fprintf(stderr, "%s\n", err.text);
    return trace;
}

#endif
