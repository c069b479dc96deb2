/*
 * Private to trace: how inference servers mark their steps in traces, and which kernels distinguish
 * the phases of a step. A step is one forward pass over a batch: prefill works on prompts, decode
 * produces a token of each request, and a mixed step does both (chunked prefill).
 *
 * Marks are annotations of the PyTorch profiler:
 *
 *   execute_context_N(P)_generation_M(G)     vLLM V1: N requests with P prompt tokens, M requests
 *                                            with G output tokens; also execute_K_context_..., and
 *                                            sqP... in the parentheses
 *   step[EXTEND bs=N toks=P ...]             SGLang: prefill; also SPLIT_PREFILL
 *   step[DECODE bs=M ...]                    a token of each request; TARGET_VERIFY: of unknown
 * count step[MIXED bs=N c=N g=M c_sq=P g_sq=G ...]
 *   .../model_runner.py(LINE): forward_extend, forward_decode   SGLang with stacks recorded
 *
 * Kernels are those of attention: some libraries have one kernel for prefill and one for decode.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_SERVING_MARK_H
#define LULL_TRACE_SERVING_MARK_H

#include <stdbool.h>

#include "trace/trace.h"

/* Reads the name of a mark into the caller's storage, all but its times. False: it is none, or one
 * of a step without requests. */
bool lull_serving_mark_parse(const char *name, struct lull_trace_mark *mark_out);

enum lull_attention {
    LULL_ATTENTION_NONE, /* another kernel */
    LULL_ATTENTION_PREFILL,
    LULL_ATTENTION_DECODE,
    LULL_ATTENTION_EITHER,   /* a library's only kernel */
    LULL_ATTENTION_BACKWARD, /* of a backward pass, which inference does not have */
};

enum lull_attention lull_attention_of(const char *kernel);

#endif
