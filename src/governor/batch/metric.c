/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/batch/metric.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

struct lull_metric {
    regex_t pattern;
};

/* A group with a longer text is no number. */
enum { NUMBER_BYTES = 64 };

int lull_metric_create(const char *pattern, struct lull_metric **metric_out, struct lull_error *err)
{
    struct lull_metric *metric = calloc(1, sizeof(*metric));
    size_t groups;
    char text[96];
    int status;

    if (metric == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for a pattern");
    status = regcomp(&metric->pattern, pattern, REG_EXTENDED);
    if (status != 0) {
        regerror(status, &metric->pattern, text, sizeof(text));
        free(metric);
        return lull_error_set(err, -EINVAL, "%.80s: %s", pattern, text);
    }
    /* With several groups nobody could tell which of them is the number. */
    groups = metric->pattern.re_nsub;
    if (groups != 1) {
        lull_metric_destroy(metric);
        return lull_error_set(err, -EINVAL,
                              "%.80s: has %zu groups; put one pair of parentheses around the"
                              " number, as in 'acc=([0-9.]+)'",
                              pattern, groups);
    }
    *metric_out = metric;
    return 0;
}

void lull_metric_destroy(struct lull_metric *metric)
{
    if (metric == NULL)
        return;
    regfree(&metric->pattern);
    free(metric);
}

/* Looks at the line that is complete. The text of its group is copied, because the number must end
 * where the group does, whatever follows in the line. */
static void end_line(const struct lull_metric *metric, struct lull_metric_stream *stream,
                     lull_metric_each each, void *context)
{
    regmatch_t matches[2];
    char number[NUMBER_BYTES];
    size_t length;
    double value;

    stream->line[stream->used] = '\0';
    stream->used = 0;
    if (regexec(&metric->pattern, stream->line, 2, matches, 0) != 0 || matches[1].rm_so < 0)
        return;
    length = (size_t)(matches[1].rm_eo - matches[1].rm_so);
    if (length >= sizeof(number))
        return;
    memcpy(number, stream->line + matches[1].rm_so, length);
    number[length] = '\0';
    if (lull_text_parse_number(number, &value) == 0)
        each(context, value);
}

void lull_metric_feed(const struct lull_metric *metric, struct lull_metric_stream *stream,
                      const char *data, size_t size, lull_metric_each each, void *context)
{
    for (size_t i = 0; i < size; i++) {
        /* Progress bars rewrite their line after a carriage return: each of its states is a line.
         */
        if (data[i] == '\n' || data[i] == '\r')
            end_line(metric, stream, each, context);
        else if (stream->used + 1 < sizeof(stream->line))
            stream->line[stream->used++] = data[i] != '\0' ? data[i] : ' ';
    }
}

void lull_metric_finish(const struct lull_metric *metric, struct lull_metric_stream *stream,
                        lull_metric_each each, void *context)
{
    if (stream->used > 0)
        end_line(metric, stream, each, context);
}
