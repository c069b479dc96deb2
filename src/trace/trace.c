/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/chrome.h"
#include "trace/kineto.h"
#include "trace/recording.h"
#include "trace/source.h"
#include "trace/string_set.h"
#include "trace/timeline.h"

/* In the order in which they are tried. Any Chrome trace looks like Kineto's, so Kineto comes last.
 * The contents distinguish timelines of operations from traces of kernels. */
static const struct lull_trace_format {
    const char *name; /* as messages list it */
    bool (*sniff)(const char *head, size_t size);
    int (*read)(struct lull_source *source, const char *path,
                const struct lull_trace_options *options, struct lull_trace *trace,
                struct lull_error *err);
} formats[] = {
    {"trace.json of lull run", lull_recording_sniff, lull_recording_read},
    {"PyTorch profiler (Kineto) and other Chrome traces, of kernels or operations",
     lull_chrome_sniff, lull_kineto_read},
};

enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

static int trace_refuse(const char *path, struct lull_error *err)
{
    char names[256] = "";
    size_t length = 0;

    for (size_t i = FORMATS; i-- > 0 && length < sizeof(names);)
        length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s", formats[i].name,
                                   i > 0 ? "; " : "");
    return lull_error_set(
        err, LULL_E_FORMAT,
        "%s: not a trace in a known format: %s; each is JSON that begins with { or [", path, names);
}

/* Text that a shell of Windows has redirected into a file. */
static bool is_utf_16(const char *head, size_t size)
{
    return size >= 2 && (memcmp(head, "\xff\xfe", 2) == 0 || memcmp(head, "\xfe\xff", 2) == 0 ||
                         ((head[0] == '{' || head[0] == '[') && head[1] == '\0'));
}

static int trace_read_source(struct lull_source *source, const char *path,
                             const struct lull_trace_options *options, struct lull_trace *trace,
                             struct lull_error *err)
{
    const char *head;
    const ssize_t size = lull_source_peek(source, &head, err);

    if (size < 0)
        return (int)size;
    if (size == 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: byte 0: the file is empty", path);
    if (is_utf_16(head, (size_t)size))
        return lull_error_set(
            err, LULL_E_FORMAT,
            "%s: byte 0: the text is UTF-16, not UTF-8, as PowerShell's > writes it; "
            "convert it: iconv -f UTF-16 -t UTF-8",
            path);
    for (size_t i = 0; i < FORMATS; i++)
        if (formats[i].sniff(head, (size_t)size))
            return formats[i].read(source, path, options, trace, err);
    return trace_refuse(path, err);
}

int lull_trace_read(const char *path, const struct lull_trace_options *options,
                    struct lull_trace *trace_out, struct lull_error *err)
{
    struct lull_trace trace = {.rank = LULL_TRACE_UNKNOWN,
                               .world_size = LULL_TRACE_UNKNOWN,
                               .strings = lull_string_set_create()};
    struct lull_source *source = NULL;
    int rc;

    if (trace.strings == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
    rc = lull_source_open(path, &source, err);
    if (rc >= 0)
        rc = trace_read_source(source, path, options, &trace, err);
    lull_source_close(source);
    if (rc < 0)
        lull_trace_fini(&trace);
    else
        *trace_out = trace;
    return rc;
}

void lull_trace_fini(struct lull_trace *trace)
{
    if (trace == NULL)
        return;
    free(trace->kernels);
    free(trace->launches);
    free(trace->steps);
    free(trace->marks);
    free(trace->gpus);
    lull_timeline_destroy(trace->timeline);
    lull_recording_destroy(trace->recording);
    lull_string_set_destroy(trace->strings);
}

int lull_trace_require_kernels(const struct lull_trace *trace, struct lull_error *err)
{
    if (trace->kernel_count > 0)
        return 0;
    return lull_error_set(err, LULL_E_FORMAT, "no GPU kernels: %s", trace->contents);
}
