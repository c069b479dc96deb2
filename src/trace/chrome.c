/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chrome.h"

#include <errno.h>
#include <string.h>

struct chrome_input {
    struct lull_source *source;
    const struct lull_trace_progress *progress; /* null: no callback */
};

static ssize_t chrome_fill(void *context, char *buffer, size_t size, struct lull_error *err)
{
    const struct chrome_input *const input = context;
    const ssize_t got = lull_source_read(input->source, buffer, size, err);

    if (got > 0 && input->progress != NULL)
        input->progress->tell(input->progress->context, lull_source_offset(input->source),
                              lull_source_done_ratio(input->source));
    return got;
}

bool lull_chrome_sniff(const char *head, size_t size)
{
    static const char mark[] = "\xef\xbb\xbf"; /* byte order mark, which json.h passes over */
    size_t at = 0;

    if (size >= strlen(mark) && memcmp(head, mark, strlen(mark)) == 0)
        at = strlen(mark);
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): a NUL is no white space. */
    while (at < size && memchr(" \t\r\n", head[at], 4) != NULL)
        at++;
    /* More white space than the head holds may come, too. */
    return at == size || head[at] == '{' || head[at] == '[';
}

static int chrome_read_text(struct lull_json_reader *reader,
                            const struct lull_chrome_reading *reading)
{
    struct lull_json_text text;
    int rc = lull_json_next(reader->json, &text, reader->err);

    if (rc == LULL_JSON_OBJECT_BEGIN)
        rc = lull_json_read_fields(reader, reading->fields, reading->object);
    else if (rc == LULL_JSON_ARRAY_BEGIN)
        rc = lull_json_read_events(reader, reading->event, reading->object);
    else if (rc >= 0)
        rc = lull_json_refuse(reader, "not a trace: it must begin with { or [");
    /* Only the end of the text may follow the trace; the parser refuses everything else. */
    return rc < 0 ? rc : lull_json_next(reader->json, &text, reader->err);
}

/* The end of a trace is optional where its events are whole: the text ends in the list of events,
 * or in the object around it. */
static bool is_end_missing(const struct lull_json_reader *reader)
{
    return lull_json_fault(reader->json) == LULL_JSON_OPEN &&
           (reader->loss.has_no_end || lull_json_depth(reader->json) == 1);
}

int lull_chrome_read(struct lull_source *source, const char *path,
                     const struct lull_trace_options *options,
                     const struct lull_chrome_reading *reading, struct lull_json_loss *loss_out,
                     int64_t *text_bytes_out, struct lull_error *err)
{
    struct chrome_input input = {source, options != NULL ? options->progress : NULL};
    struct lull_error own = {0};
    struct lull_json_reader reader = {.name = path,
                                      .json = lull_json_create(path, chrome_fill, &input),
                                      .err = err != NULL ? err : &own,
                                      .context = reading->context,
                                      .is_lenient = true};
    int rc;

    if (reader.json == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
    lull_json_be_lenient(reader.json);
    rc = chrome_read_text(&reader, reading);
    if (rc < 0 && is_end_missing(&reader)) {
        reader.loss.has_no_end = true;
        rc = 0;
    }
    *loss_out = reader.loss;
    *text_bytes_out = lull_json_offset(reader.json);
    lull_json_destroy(reader.json);
    return rc;
}
