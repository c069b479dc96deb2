/*
 * What an inference server sends, and a user's file of names: pages are refused with a message, or
 * readings whose numbers are possible; so are names and addresses. The first byte says which.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "../text_file.h"
#include "fuzz.h"

#include "governor/serving/metrics_address.h"
#include "governor/serving/metrics_reading.h"

static void check_number(double value)
{
    require(isnan(value) || (isfinite(value) && value >= 0.0));
}

static void check_histogram(const struct lull_serving_histogram *histogram)
{
    require(histogram->count <= LULL_SERVING_BUCKETS);
    if (histogram->count == 0)
        return;
    require(isinf(histogram->bound_s[histogram->count - 1]));
    for (uint32_t i = 0; i < histogram->count; i++) {
        require(isfinite(histogram->total[i]) && histogram->total[i] >= 0.0);
        require(i == 0 || histogram->bound_s[i] > histogram->bound_s[i - 1]);
        require(i == 0 || histogram->total[i] >= histogram->total[i - 1]);
    }
}

static void check_result(const struct lull_metrics_result *result)
{
    const struct lull_serving_reading *const reading = &result->reading;

    require(result->engine != NULL && result->note_count <= LULL_METRICS_MAX_NOTES);
    for (uint32_t i = 0; i < result->note_count; i++)
        require(result->notes[i].text[0] != '\0' &&
                result->notes[i].quantity < LULL_METRICS_QUANTITIES &&
                result->notes[i].kind < LULL_METRICS_NOTE_KINDS);
    check_number(reading->running);
    check_number(reading->waiting);
    check_number(reading->cache_ratio);
    require(!(reading->cache_ratio > 1.0));
    check_number(reading->prompt_tokens);
    check_number(reading->output_tokens);
    check_number(reading->finished);
    check_number(reading->steps);
    check_histogram(&reading->ttft);
    check_histogram(&reading->tpot);
    check_histogram(&reading->itl);
    check_histogram(&reading->likely_tpot);
}

/* Reads the input as several pages, which a byte 1 separates. */
static void read_pages(const char *text, size_t size)
{
    static struct lull_metrics_result result;
    struct lull_metrics_names names;
    struct lull_metrics_reader *reader;
    struct lull_error err = {0};
    int64_t now_ns = 0;

    require(lull_metrics_names_open(NULL, &names, &err) == 0);
    reader = lull_metrics_reader_create(&names);
    require(reader != NULL);
    for (const char *at = text; at <= text + size;) {
        const size_t left = (size_t)(text + size - at);
        const char *const end = memchr(at, 1, left);
        const size_t length = end != NULL ? (size_t)(end - at) : left;

        now_ns += INT64_C(700000000);
        err.text[0] = '\0';
        if (lull_metrics_reader_read(reader, at, length, now_ns, 1.7e9, &result, &err) == 0)
            check_result(&result);
        else
            require(err.text[0] != '\0');
        at += length + 1;
    }
    lull_metrics_reader_destroy(reader);
    lull_metrics_names_close(&names);
}

static void read_names(const char *text, size_t size)
{
    struct lull_metrics_names names;
    struct lull_error err = {0};

    if (lull_metrics_names_open(text_file(text, size), &names, &err) < 0) {
        require(err.text[0] != '\0');
        return;
    }
    require(names.count > lull_metrics_engine_count && names.count <= LULL_METRICS_MAX_ENGINES);
    for (uint32_t i = 0; i < names.count; i++)
        for (uint32_t k = 0; k < names.engines[i]->count; k++)
            require(names.engines[i]->names[k].name[0] != '\0' &&
                    names.engines[i]->names[k].quantity < LULL_METRICS_QUANTITIES &&
                    names.engines[i]->names[k].scale > 0.0);
    lull_metrics_names_close(&names);
}

static void read_address(const char *text, size_t size)
{
    char *const word = strndup(text, size);
    char *argv[] = {(char[]){"vllm"}, (char[]){"serve"}, (char[]){"--host"}, word, NULL};
    struct lull_metrics_address address;
    struct lull_error err = {0};
    char url[LULL_METRICS_URL_BYTES];
    char assumed[LULL_METRICS_ASSUMED_BYTES];

    if (lull_metrics_address_parse(word, &address, &err) == 0)
        require(strncmp(address.url, "http://", strlen("http://")) == 0);
    else
        require(err.text[0] != '\0');
    if (lull_metrics_address_guess(argv, url, assumed, &err) == 0)
        require(assumed[0] != '\0');
    free(word);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *const text = (const char *)data + 1;

    if (size == 0)
        return 0;
    if (data[0] == 'n')
        read_names(text, size - 1);
    else if (data[0] == 'a')
        read_address(text, size - 1);
    else
        read_pages(text, size - 1);
    return 0;
}
