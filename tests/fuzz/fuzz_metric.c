/*
 * Output of programs: for any input, each value was in a separate
 * line. The first line of the input is also tried as a pattern. SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "governor/batch/metric.h"

static void take_value(void *context, struct lull_metric_value value)
{
    (void)value;
    ++*(size_t *)context;
}

static size_t feed(const struct lull_metric *metric, const char *text, size_t size, size_t piece)
{
    static struct lull_metric_stream stream;
    size_t count = 0;

    for (size_t i = 0; i < size; i += piece)
        lull_metric_feed(metric, &stream, text + i, i + piece < size ? piece : size - i, take_value,
                         &count);
    lull_metric_finish(metric, &stream, take_value, &count);
    require(stream.used == 0);
    return count;
}

static void try_pattern(const char *pattern, const char *text, size_t size)
{
    struct lull_metric *metric = NULL;
    struct lull_error err = {0};
    size_t lines = 1;

    if (lull_metric_create(pattern, &metric, &err) < 0) {
        require(err.text[0] != '\0' && metric == NULL);
        return;
    }
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n' || text[i] == '\r';
    /* The result does not depend on how the text is split into pieces. */
    require(feed(metric, text, size, 1) == feed(metric, text, size, 4096));
    require(feed(metric, text, size, 7) <= lines);
    lull_metric_destroy(metric);
}

/* Of a few characters: the matcher's time is the C library's matter, and so is a long pattern's. */
static void try_own_pattern(const char *text, size_t size)
{
    char pattern[24];
    size_t length = 0;

    while (length < size && length + 1 < sizeof(pattern) && text[length] != '\n' &&
           text[length] != '\0' && text[length] != '{') {
        pattern[length] = text[length];
        length++;
    }
    pattern[length] = '\0';
    try_pattern(pattern, text + length, size - length < 512 ? size - length : 512);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_pattern("val_acc=([0-9.]+)", (const char *)data, size);
    try_own_pattern((const char *)data, size);
    return 0;
}
