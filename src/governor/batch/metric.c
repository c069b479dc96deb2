/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/batch/metric.h"

#include <errno.h>
#include <math.h>
#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/minmax.h"
#include "base/text.h"

struct lull_metric {
    regex_t pattern;
};

/* A group with a longer text is not a number. */
enum { NUMBER_BYTES = 64 };

/* The C library copies repeated parts, so nested repetitions multiply: a pattern of 30 characters
 * can use all memory. These limits are far above the needs of a pattern for a number. */
enum { MAX_GROUPS_DEEP = 16 };
static const double max_copies = 512.0;

/* Finds the end of a bracket expression, which may hold a bracket first, and classes. */
static const char *skip_brackets(const char *at)
{
    at += at[1] == '^' ? 2 : 1;
    if (*at == ']')
        at++;
    while (*at != '\0' && *at != ']') {
        const char *const end = *at == '[' ? strstr(at, ":]") : NULL;

        at = end != NULL && at[1] == ':' ? end + 2 : at + 1;
    }
    return at;
}

/* Number of copies that a repetition makes of its last part; 1: this is no repetition. */
static double copies_of(const char *at)
{
    char *end;
    double least;
    double most;

    if (*at == '+')
        return 2.0;
    if (*at != '{')
        return 1.0;
    least = strtod(at + 1, &end);
    most = *end == ',' ? strtod(end + 1, NULL) : 0.0;
    return fmax(fmax(least, most), 1.0) + 1.0;
}

static bool metric_repeats(char letter)
{
    return letter == '+' || letter == '*' || letter == '?' || letter == '{';
}

/* Returns whether a repetition follows another one at once, which POSIX leaves undefined. */
static bool is_repeated_twice(const char *at)
{
    const char *const next = *at == '{' ? strchr(at, '}') : at;

    return metric_repeats(*at) && next != NULL && metric_repeats(next[1]);
}

/* Returns whether the compiled pattern would be too large. The C library rejects invalid patterns
 * later. */
static bool is_too_large(const char *pattern)
{
    double sums[MAX_GROUPS_DEEP + 1] = {0.0}; /* per open group, copies included */
    double last = 0.0;
    uint32_t depth = 0;

    for (const char *at = pattern; *at != '\0' && sums[depth] <= max_copies; at++) {
        const double copies = copies_of(at);

        if (is_repeated_twice(at))
            return true;
        if (*at == '(') {
            if (depth == MAX_GROUPS_DEEP)
                return true;
            sums[++depth] = last = 0.0;
            continue;
        }
        if (*at == ')' && depth > 0) {
            last = fmax(sums[depth--], 1.0); /* also of nothing a repetition makes copies */
        } else if (copies > 1.0) {
            sums[depth] -= last;
            last *= copies;
        } else {
            last = 1.0;
        }
        sums[depth] += last;
        if (*at == '[')
            at = skip_brackets(at);
        else if (*at == '\\')
            at++;
        if (*at == '\0')
            break;
    }
    return sums[depth] > max_copies;
}

int lull_metric_create(const char *pattern, struct lull_metric **metric_out, struct lull_error *err)
{
    struct lull_metric *metric = calloc(1, sizeof(*metric));
    size_t groups;
    char text[96];
    int status;

    if (metric == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for a pattern");
    if (is_too_large(pattern)) {
        free(metric);
        return lull_error_set(err, -EINVAL,
                              "%.80s: nested repetitions, as in (a+)+, make it too large", pattern);
    }
    status = regcomp(&metric->pattern, pattern, REG_EXTENDED);
    if (status != 0) {
        regerror(status, &metric->pattern, text, sizeof(text));
        free(metric);
        return lull_error_set(err, -EINVAL, "%.80s: %s", pattern, text);
    }
    /* With several groups it would be unclear which one is the number. */
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

/* Reads a word for a number that is not finite: nan, -nan, inf, infinity, in any case. */
static bool parse_word(const char *text, double *number_out)
{
    static const struct {
        const char *word;
        double number;
    } words[] = {{"nan", NAN}, {"inf", INFINITY}, {"infinity", INFINITY}};
    const bool is_negative = *text == '-';

    text += *text == '-' || *text == '+';
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i].word) != 0)
            continue;
        *number_out = is_negative ? -words[i].number : words[i].number;
        return true;
    }
    return false;
}

/* Parses what a group has matched. */
static bool metric_parse_value(char *text, struct lull_metric_value *value_out)
{
    char plain[LULL_TEXT_NUMBER_BYTES];
    size_t length;

    text = lull_text_trim(text);
    for (length = strlen(text); length > 0 && strchr(".,;:)]", text[length - 1]) != NULL;)
        text[--length] = '\0';
    value_out->is_percent = length > 0 && text[length - 1] == '%';
    if (value_out->is_percent)
        text[length - 1] = '\0';
    text = lull_text_trim(text);
    if (parse_word(text, &value_out->number))
        return true;
    return lull_text_plain_number(text, LULL_TEXT_COMMA_AMBIGUOUS, plain) == 0 &&
           lull_text_parse_number(plain, &value_out->number) == 0;
}

/* Parses the complete line. The text of its group is copied, because the number must end at the end
 * of the group, even if the line continues. */
static void end_line(const struct lull_metric *metric, struct lull_metric_stream *stream,
                     lull_metric_each each, void *context)
{
    regmatch_t matches[2];
    char number[NUMBER_BYTES];
    struct lull_metric_value value;
    size_t length;

    stream->line[stream->used] = '\0';
    stream->used = 0;
    if (regexec(&metric->pattern, stream->line, 2, matches, 0) != 0 || matches[1].rm_so < 0)
        return;
    length = (size_t)(matches[1].rm_eo - matches[1].rm_so);
    snprintf(stream->unread, sizeof(stream->unread), "%.*s",
             (int)lull_min_size(length, sizeof(stream->unread)), stream->line + matches[1].rm_so);
    if (length >= sizeof(number))
        return;
    memcpy(number, stream->line + matches[1].rm_so, length);
    number[length] = '\0';
    if (!metric_parse_value(number, &value))
        return;
    stream->unread[0] = '\0';
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
