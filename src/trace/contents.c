/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/contents.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool has_category(const struct lull_contents *contents, const char *category)
{
    for (uint32_t i = 0; i < contents->category_count; i++)
        if (strncmp(contents->categories[i], category, LULL_CONTENTS_CATEGORY_BYTES - 1) == 0)
            return true;
    return false;
}

void lull_contents_add(struct lull_contents *contents, const char *phase, const char *category)
{
    contents->pairs += strchr("BEbe", phase[0]) != NULL && phase[0] != '\0';
    if (category[0] == '\0' || contents->category_count == LULL_CONTENTS_CATEGORIES ||
        has_category(contents, category))
        return;
    snprintf(contents->categories[contents->category_count], LULL_CONTENTS_CATEGORY_BYTES, "%s",
             category);
    for (char *at = contents->categories[contents->category_count++]; *at != '\0'; at++)
        if (*at < ' ' || *at > '~') /* the text is printed to a terminal */
            *at = '?';
}

/* Returns whether a file has records of the host from the PyTorch profiler. */
static bool is_of_pytorch(const struct lull_contents *contents)
{
    return has_category(contents, "cpu_op") || has_category(contents, "user_annotation") ||
           has_category(contents, "cuda_runtime") || has_category(contents, "python_function") ||
           has_category(contents, "Operator");
}

static bool is_of_nccl(const struct lull_contents *contents)
{
    return has_category(contents, "GROUP_API") || has_category(contents, "COLL") ||
           has_category(contents, "COLL_API") || has_category(contents, "KERNEL_LAUNCH") ||
           has_category(contents, "PROXY");
}

static void list_categories(const struct lull_contents *contents, uint64_t events, char *text,
                            size_t size)
{
    int length = snprintf(text, size, "its %" PRIu64 " events are of category", events);

    for (uint32_t i = 0; i < contents->category_count && (size_t)length < size; i++)
        length += snprintf(text + length, size - (size_t)length, "%s %s", i > 0 ? "," : "",
                           contents->categories[i]);
    if ((size_t)length < size)
        snprintf(text + length, size - (size_t)length, "; kernel is wanted");
}

/* JSON that has no events of a Chrome trace. */
static const char *explain_document(const struct lull_contents *contents)
{
    if (contents->has_graph)
        return "this is an execution trace (Chakra) without kernel times; use the Kineto trace "
               "that was recorded with it";
    if (contents->has_list)
        return "its list of events is empty";
    if (contents->has_rocprofiler)
        return "these are results of rocprofv3, which have no \"traceEvents\"; give the trace of "
               "the PyTorch profiler";
    return "neither \"traceEvents\" nor a list of events was found: not a Chrome trace";
}

void lull_contents_explain(const struct lull_contents *contents, const struct lull_trace *trace,
                           char *text, size_t size)
{
    const struct lull_trace_loss *const loss = &trace->loss;
    const uint64_t unusable = lull_trace_unusable_kernels(loss);

    if (loss->events > 0)
        snprintf(text, size, "%" PRIu64 " events are not JSON: %s", loss->events,
                 loss->first_fault);
    else if (unusable > 0)
        snprintf(text, size, "the times of all %" PRIu64 " kernels are impossible or missing",
                 unusable);
    else if (loss->copies > 0)
        snprintf(text, size, "only copies, %" PRIu64 " of them, no kernels", loss->copies);
    else if (is_of_nccl(contents))
        snprintf(text, size, "this is a trace of NCCL's profiler, which has no GPU kernels");
    else if (trace->events == 0 && loss->has_no_end)
        snprintf(text, size, "a list without events and without end (a Horovod timeline?)");
    else if (trace->events == 0)
        snprintf(text, size, "%s", explain_document(contents));
    else if (is_of_pytorch(contents))
        snprintf(text, size,
                 "none among its %" PRIu64 " events and %" PRId64
                 " bytes; record it with ProfilerActivity.CUDA",
                 trace->events, trace->text_bytes);
    else if (contents->category_count > 0)
        list_categories(contents, trace->events, text, size);
    else if (contents->pairs > 0)
        snprintf(text, size,
                 "its %" PRIu64
                 " events are pairs of begin and end without a category (a Horovod timeline?)",
                 trace->events);
    else
        snprintf(text, size, "none of its %" PRIu64 " events has a category; kernel is wanted",
                 trace->events);
}
