/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/serving_mark.h"

#include <stdlib.h>
#include <string.h>

/* ---- marks -------------------------------------------------------------------------------- */

/* Takes digits; unknown: there are none, or too many. Moves behind them. */
static int64_t take_number(const char **at)
{
    enum { MOST_DIGITS = 15 };
    const size_t digits = strspn(*at, "0123456789");
    int64_t number = 0;

    for (size_t i = 0; i < digits && digits <= MOST_DIGITS; i++)
        number = 10 * number + ((*at)[i] - '0');
    *at += digits;
    return digits > 0 && digits <= MOST_DIGITS ? number : LULL_TRACE_UNKNOWN;
}

/* Takes "N(P)" or "N(sqP...)", as vLLM has it. */
static bool take_batch(const char **at, int64_t *requests_out, int64_t *tokens_out)
{
    *requests_out = take_number(at);
    if (*requests_out < 0 || **at != '(')
        return false;
    ++*at;
    if (strncmp(*at, "sq", strlen("sq")) == 0)
        *at += strlen("sq");
    *tokens_out = take_number(at);
    *at += strcspn(*at, ")");
    if (**at != ')')
        return false;
    ++*at;
    return true;
}

static bool parse_vllm(const char *name, struct lull_trace_mark *mark)
{
    static const char context[] = "context_";
    static const char generation[] = "_generation_";
    const char *at = name + strlen("execute_");

    if (strncmp(at, context, strlen(context)) != 0) {
        if (take_number(&at) < 0 || *at++ != '_' || strncmp(at, context, strlen(context)) != 0)
            return false;
    }
    at += strlen(context);
    if (!take_batch(&at, &mark->prompt_requests, &mark->prompt_tokens) ||
        strncmp(at, generation, strlen(generation)) != 0)
        return false;
    at += strlen(generation);
    if (!take_batch(&at, &mark->output_requests, &mark->output_tokens))
        return false;
    if (mark->prompt_requests > 0)
        mark->phase = mark->output_requests > 0 ? LULL_TRACE_MIXED : LULL_TRACE_PREFILL;
    else
        mark->phase = LULL_TRACE_DECODE;
    return mark->prompt_requests > 0 || mark->output_requests > 0;
}

/* Returns the number of a field such as " toks="; unknown: there is none. */
static int64_t field_of(const char *text, const char *field)
{
    const char *at = strstr(text, field);

    if (at == NULL)
        return LULL_TRACE_UNKNOWN;
    at += strlen(field);
    return take_number(&at);
}

static bool parse_sglang(const char *name, struct lull_trace_mark *mark)
{
    const char *const mode = name + strlen("step[");
    const size_t length = strcspn(mode, " ]");
    const int64_t requests = field_of(mode, " bs=");

    mark->prompt_requests = mark->output_requests = 0;
    mark->prompt_tokens = mark->output_tokens = 0;
    if ((length == strlen("EXTEND") && strncmp(mode, "EXTEND", length) == 0) ||
        (length == strlen("SPLIT_PREFILL") && strncmp(mode, "SPLIT_PREFILL", length) == 0)) {
        mark->phase = LULL_TRACE_PREFILL;
        mark->prompt_requests = requests;
        mark->prompt_tokens = field_of(mode, " toks=");
    } else if (length == strlen("MIXED") && strncmp(mode, "MIXED", length) == 0) {
        mark->phase = LULL_TRACE_MIXED;
        mark->prompt_requests = field_of(mode, " c=");
        mark->output_requests = field_of(mode, " g=");
        mark->prompt_tokens = field_of(mode, " c_sq=");
        mark->output_tokens = field_of(mode, " g_sq=");
    } else if (length == strlen("DECODE") && strncmp(mode, "DECODE", length) == 0) {
        mark->phase = LULL_TRACE_DECODE;
        mark->output_requests = mark->output_tokens = requests;
    } else if (length >= strlen("VERIFY") &&
               strncmp(mode + length - strlen("VERIFY"), "VERIFY", strlen("VERIFY")) == 0) {
        mark->phase = LULL_TRACE_DECODE;
        mark->output_requests = requests;
        mark->output_tokens = LULL_TRACE_UNKNOWN; /* those that are accepted are not known */
    } else {
        return false;
    }
    return true;
}

/* A function of Python, as the profiler names it if stacks are recorded. */
static bool parse_function(const char *name, struct lull_trace_mark *mark)
{
    const char *const function = strstr(name, ": forward_");

    if (function == NULL || strstr(name, "model_runner.py(") == NULL)
        return false;
    if (strcmp(function, ": forward_extend") == 0)
        mark->phase = LULL_TRACE_PREFILL;
    else if (strcmp(function, ": forward_decode") == 0)
        mark->phase = LULL_TRACE_DECODE;
    else
        return false;
    mark->prompt_requests = mark->output_requests = LULL_TRACE_UNKNOWN;
    mark->prompt_tokens = mark->output_tokens = LULL_TRACE_UNKNOWN;
    return true;
}

bool lull_serving_mark_parse(const char *name, struct lull_trace_mark *mark_out)
{
    if (strncmp(name, "execute_", strlen("execute_")) == 0)
        return parse_vllm(name, mark_out);
    if (strncmp(name, "step[", strlen("step[")) == 0)
        return parse_sglang(name, mark_out);
    return parse_function(name, mark_out);
}

/* ---- kernels ------------------------------------------------------------------------------ */

/* The first row whose text is in the name counts. Names as they stand in the public sources of
 * FlashInfer, FlashAttention, FlashMLA, vLLM, SGLang, TensorRT-LLM and AITER; names only. */
static const struct {
    const char *text;
    enum lull_attention attention;
} attentions[] = {
    {"BatchDecode", LULL_ATTENTION_DECODE},
    {"SingleDecode", LULL_ATTENTION_DECODE},
    {"paged_attention_v1", LULL_ATTENTION_DECODE},
    {"paged_attention_v2", LULL_ATTENTION_DECODE},
    {"paged_attention_ll4mi", LULL_ATTENTION_DECODE},
    {"kernel_paged_attention_2d", LULL_ATTENTION_DECODE},
    {"masked_multihead_attention", LULL_ATTENTION_DECODE},
    {"kernel_mha", LULL_ATTENTION_DECODE}, /* XQA */
    {"splitkv_mla", LULL_ATTENTION_DECODE},
    {"fwd_kernel_stage1", LULL_ATTENTION_DECODE},
    {"fwd_grouped_kernel_stage1", LULL_ATTENTION_DECODE},
    {"kernel_unified_attention_3d", LULL_ATTENTION_DECODE},
    {"pa_fwd", LULL_ATTENTION_DECODE},
    {"mla_decode", LULL_ATTENTION_DECODE},
    {"ForGen", LULL_ATTENTION_DECODE}, /* fmhaSm100... of TensorRT-LLM */
    {"BatchPrefillWithRagged", LULL_ATTENTION_PREFILL},
    {"SinglePrefill", LULL_ATTENTION_PREFILL},
    {"context_attention", LULL_ATTENTION_PREFILL},
    {"PersistentContext", LULL_ATTENTION_PREFILL}, /* fmhaSm100... of TensorRT-LLM */
    {"StaticContext", LULL_ATTENTION_PREFILL},
    {"flash_fwd_kernel", LULL_ATTENTION_PREFILL},
    {"fmha_cutlassF", LULL_ATTENTION_PREFILL},
    {"BatchPrefillWithPaged", LULL_ATTENTION_EITHER},
    {"flash_fwd_splitkv_kernel", LULL_ATTENTION_EITHER},
    {"FlashAttnFwdSm", LULL_ATTENTION_EITHER},
    {"kernel_unified_attention", LULL_ATTENTION_EITHER},
    {"fmha", LULL_ATTENTION_EITHER},
};

enum lull_attention lull_attention_of(const char *kernel)
{
    if (strcasestr(kernel, "bwd") != NULL || strcasestr(kernel, "backward") != NULL)
        return LULL_ATTENTION_BACKWARD;
    /* The kernel of SGLang's extend, whose whole name is this. */
    if (strcmp(kernel, "_fwd_kernel") == 0)
        return LULL_ATTENTION_PREFILL;
    for (size_t i = 0; i < sizeof(attentions) / sizeof(attentions[0]); i++)
        if (strstr(kernel, attentions[i].text) != NULL)
            return attentions[i].attention;
    return LULL_ATTENTION_NONE;
}
