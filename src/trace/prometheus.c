/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/prometheus.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

/* The rest of a line, without its line feed. */
struct prometheus_line {
    const char *at;
    const char *end;
};

struct prometheus_reading {
    lull_prometheus_take take;
    void *context;
    double second; /* units of time stamps in a second */
    struct lull_prometheus_page page;
    struct lull_prometheus_label labels[LULL_PROMETHEUS_MAX_LABELS];
};

/* ---- words --------------------------------------------------------------------------------- */

bool lull_prometheus_is(const struct lull_prometheus_text *text, const char *word)
{
    return text->length == strlen(word) && memcmp(text->bytes, word, text->length) == 0;
}

const struct lull_prometheus_text *
lull_prometheus_label(const struct lull_prometheus_sample *sample, const char *name)
{
    for (uint32_t i = 0; i < sample->label_count; i++)
        if (lull_prometheus_is(&sample->labels[i].name, name))
            return &sample->labels[i].value;
    return NULL;
}

int lull_prometheus_value(const struct lull_prometheus_text *text, double *value_out)
{
    char word[64];
    const char *number = word;
    double sign = 1.0;

    if (text->length == 0 || text->length >= sizeof(word) ||
        memchr(text->bytes, '\0', text->length) != NULL)
        return -EINVAL;
    memcpy(word, text->bytes, text->length);
    word[text->length] = '\0';
    if (*number == '+' || *number == '-')
        sign = *number++ == '-' ? -1.0 : 1.0;
    if (strcasecmp(number, "nan") == 0) {
        *value_out = NAN;
        return 0;
    }
    if (strcasecmp(number, "inf") == 0 || strcasecmp(number, "infinity") == 0) {
        *value_out = sign * INFINITY;
        return 0;
    }
    if (*number == '-')
        return -EINVAL;
    if (lull_text_parse_number(number, value_out) < 0)
        return -EINVAL;
    *value_out *= sign;
    return 0;
}

static void skip_blanks(struct prometheus_line *line)
{
    while (line->at < line->end && (*line->at == ' ' || *line->at == '\t'))
        line->at++;
}

/* Takes one character if it comes next. */
static bool line_takes(struct prometheus_line *line, char c)
{
    if (line->at == line->end || *line->at != c)
        return false;
    line->at++;
    return true;
}

/* Takes the characters up to the next blank. */
static struct lull_prometheus_text line_take_word(struct prometheus_line *line)
{
    struct lull_prometheus_text word = {line->at, 0};

    while (line->at < line->end && *line->at != ' ' && *line->at != '\t')
        line->at++;
    word.length = (size_t)(line->at - word.bytes);
    return word;
}

static bool is_of_name(char c, bool is_first)
{
    return c == '_' || c == ':' || isalpha((unsigned char)c) ||
           (!is_first && isdigit((unsigned char)c));
}

static struct lull_prometheus_text line_take_name(struct prometheus_line *line)
{
    struct lull_prometheus_text name = {line->at, 0};

    while (line->at < line->end && is_of_name(*line->at, line->at == name.bytes))
        line->at++;
    name.length = (size_t)(line->at - name.bytes);
    return name;
}

/* Takes a text in quotes, in which a backslash hides the next character. False: it has no end. */
static bool line_take_quoted(struct prometheus_line *line, struct lull_prometheus_text *text_out)
{
    const char *at = line->at + 1;

    while (at < line->end && *at != '"')
        at += *at == '\\' ? 2 : 1;
    if (at >= line->end)
        return false;
    *text_out = (struct lull_prometheus_text){line->at + 1, (size_t)(at - line->at - 1)};
    line->at = at + 1;
    return true;
}

/* ---- lines --------------------------------------------------------------------------------- */

/* Reads NAME="VALUE", or the sample's name in quotes. Returns what is wrong, or NULL. */
static const char *line_read_label(struct prometheus_line *line, struct prometheus_reading *reading,
                                   struct lull_prometheus_sample *sample)
{
    const bool is_quoted = line->at < line->end && *line->at == '"';
    struct lull_prometheus_label label;

    if (!is_quoted)
        label.name = line_take_name(line);
    else if (!line_take_quoted(line, &label.name))
        return "a quote without its end";
    if (label.name.length == 0)
        return "no name of a label";
    skip_blanks(line);
    if (!line_takes(line, '=')) {
        if (!is_quoted || sample->name.length > 0)
            return "no = after the name of a label";
        sample->name = label.name;
        return NULL;
    }
    skip_blanks(line);
    if (line->at == line->end || *line->at != '"')
        return "no quote before the value of a label";
    if (!line_take_quoted(line, &label.value))
        return "a quote without its end";
    if (sample->label_count == LULL_PROMETHEUS_MAX_LABELS)
        return "too many labels";
    reading->labels[sample->label_count++] = label;
    return NULL;
}

/* Reads labels behind their opening brace, up to the closing one. */
static const char *line_read_labels(struct prometheus_line *line,
                                    struct prometheus_reading *reading,
                                    struct lull_prometheus_sample *sample)
{
    for (;;) {
        const char *wrong;

        skip_blanks(line);
        if (line_takes(line, '}'))
            return NULL;
        wrong = line_read_label(line, reading, sample);
        if (wrong != NULL)
            return wrong;
        skip_blanks(line);
        if (!line_takes(line, ',') && (line->at == line->end || *line->at != '}'))
            return "no comma or brace after a label";
    }
}

/* Reads the value, the time and what may follow them. */
static const char *line_read_value(struct prometheus_line *line,
                                   const struct prometheus_reading *reading,
                                   struct lull_prometheus_sample *sample)
{
    struct lull_prometheus_text word;

    skip_blanks(line);
    word = line_take_word(line);
    if (word.length == 0)
        return "no value";
    if (lull_prometheus_value(&word, &sample->value) < 0)
        return "the value is not a number";
    skip_blanks(line);
    if (line->at == line->end || *line->at == '#')
        return NULL; /* what follows # is an exemplar */
    word = line_take_word(line);
    if (lull_prometheus_value(&word, &sample->time_s) < 0 || !isfinite(sample->time_s))
        return "the time is not a number";
    sample->time_s /= reading->second;
    skip_blanks(line);
    if (line->at != line->end && *line->at != '#')
        return "more words than a value and a time";
    return NULL;
}

static const char *line_read_sample(struct prometheus_line *line,
                                    struct prometheus_reading *reading,
                                    struct lull_prometheus_sample *sample)
{
    const char *wrong = NULL;

    *sample = (struct lull_prometheus_sample){.labels = reading->labels, .time_s = NAN};
    sample->name = line_take_name(line);
    skip_blanks(line);
    if (line_takes(line, '{'))
        wrong = line_read_labels(line, reading, sample);
    if (wrong != NULL)
        return wrong;
    if (sample->name.length == 0)
        return "no name";
    return line_read_value(line, reading, sample);
}

static void count_bad(struct lull_prometheus_page *page, uint64_t number, const char *reason)
{
    if (page->bad_lines++ > 0)
        return;
    page->bad_line = number;
    page->bad_reason = reason;
}

static void line_read(struct prometheus_line *line, struct prometheus_reading *reading,
                      uint64_t number)
{
    struct lull_prometheus_sample sample;
    const char *wrong;

    skip_blanks(line);
    if (line->at == line->end || *line->at == '#')
        return;
    if (line->end - line->at > LULL_PROMETHEUS_MAX_LINE)
        wrong = "longer than 64 KiB";
    else
        wrong = line_read_sample(line, reading, &sample);
    if (wrong != NULL) {
        count_bad(&reading->page, number, wrong);
        return;
    }
    reading->page.samples++;
    reading->take(reading->context, &sample);
}

/* ---- pages --------------------------------------------------------------------------------- */

/* Returns where OpenMetrics' last line begins, or NULL: the page does not end with it. */
static const char *find_end_mark(const char *page, size_t size)
{
    static const char mark[] = "# EOF";
    const size_t length = sizeof(mark) - 1;

    while (size > 0 && (page[size - 1] == '\n' || page[size - 1] == '\r'))
        size--;
    if (size < length || memcmp(page + size - length, mark, length) != 0)
        return NULL;
    if (size > length && page[size - length - 1] != '\n')
        return NULL;
    return page + size - length;
}

int lull_prometheus_read(const char *page, size_t size, lull_prometheus_take take, void *context,
                         struct lull_prometheus_page *page_out, struct lull_error *err)
{
    const char *const end_mark = find_end_mark(page, size);
    const char *const end = end_mark != NULL ? end_mark : page + size;
    struct prometheus_reading reading = {.take = take,
                                         .context = context,
                                         .second = end_mark != NULL ? 1.0 : 1e3,
                                         .page = {.has_end = end_mark != NULL}};
    uint64_t number = 0;

    if (size > LULL_PROMETHEUS_MAX_BYTES)
        return lull_error_set(err, -EFBIG, "the page is larger than %d MiB",
                              LULL_PROMETHEUS_MAX_BYTES >> 20);
    for (const char *at = page; at < end;) {
        const char *const feed = memchr(at, '\n', (size_t)(end - at));
        struct prometheus_line line = {at, feed != NULL ? feed : end};

        if (++number > LULL_PROMETHEUS_MAX_LINES)
            return lull_error_set(err, -EFBIG, "the page has more than %d lines",
                                  LULL_PROMETHEUS_MAX_LINES);
        if (feed == NULL) {
            reading.page.is_cut = true;
            break;
        }
        if (line.end > line.at && line.end[-1] == '\r')
            line.end--;
        line_read(&line, &reading, number);
        at = feed + 1;
    }
    *page_out = reading.page;
    return 0;
}
