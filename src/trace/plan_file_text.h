/*
 * Within the reader of plan files: a plan as it stands in the file, before anything that refers to
 * something else has been looked up. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_PLAN_FILE_TEXT_H
#define LULL_TRACE_PLAN_FILE_TEXT_H

#include "trace/json.h"
#include "trace/plan_file.h"

struct lull_plan_text_operation {
    enum lull_pipeline_kind kind;
    int64_t stage;
    int64_t partner;
    int64_t copy;
    int64_t microbatch;
    int64_t chunk;
    int64_t sm_mhz;
    int64_t flow;
    uint32_t device;
};

struct lull_plan_text_edge {
    int64_t from;
    int64_t to;
    int64_t latency_ns;
    int64_t flow;
};

struct lull_plan_text {
    struct lull_plan_file plan; /* head, profile and blocking power; the rest is not there yet */
    int64_t flow_value;
    double flow_unit_w;
    struct lull_plan_text_operation *operations;
    size_t operation_count;
    struct lull_plan_text_edge *edges;
    size_t edge_count;
};

/* Reads all of a text. Every number is within the limits of its type and of the profile. The
 * caller frees it, also after an error. Errors: LULL_E_FORMAT, what the source returns, -ENOMEM. */
int lull_plan_text_read(struct lull_json *json, const char *name, struct lull_plan_text *text_out,
                        struct lull_error *err);
void lull_plan_text_fini(struct lull_plan_text *text);

#endif
