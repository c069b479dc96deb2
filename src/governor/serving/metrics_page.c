/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/serving/metrics_page.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- names and hashes ---------------------------------------------------------------------- */

/* Returns whether a name begins with another one; a colon and an underscore are the same. */
static bool name_begins(const struct lull_prometheus_text *text, const char *name, size_t length)
{
    if (text->length < length)
        return false;
    for (size_t i = 0; i < length; i++) {
        const char a = text->bytes[i] == ':' ? '_' : text->bytes[i];
        const char b = name[i] == ':' ? '_' : name[i];

        if (a != b)
            return false;
    }
    return true;
}

/* Returns whether a name is another one with this suffix. */
static bool name_ends(const struct lull_prometheus_text *text, size_t length, const char *suffix)
{
    const size_t rest = text->length - length;

    return rest == strlen(suffix) && memcmp(text->bytes + length, suffix, rest) == 0;
}

/* Continues an FNV-1a hash. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    return hash;
}

static const uint64_t hash_begin = UINT64_C(14695981039346656037);

static bool label_is_of_rank(const struct lull_prometheus_label *label)
{
    return lull_prometheus_is(&label->name, "tp_rank") ||
           lull_prometheus_is(&label->name, "pp_rank") ||
           lull_prometheus_is(&label->name, "moe_ep_rank");
}

/* Hashes the labels in any order: those that distinguish series, and those of ranks. */
static void hash_labels(const struct lull_prometheus_sample *sample, uint64_t *series_out,
                        uint64_t *copy_out)
{
    uint64_t series = 0;
    uint64_t copy = 0;

    for (uint32_t i = 0; i < sample->label_count; i++) {
        const struct lull_prometheus_label *const label = &sample->labels[i];
        uint64_t hash = hash_bytes(hash_begin, label->name.bytes, label->name.length);

        hash = hash_bytes(hash, "=", 1);
        hash = hash_bytes(hash, label->value.bytes, label->value.length);
        if (label_is_of_rank(label))
            copy += hash;
        else if (!lull_prometheus_is(&label->name, "le"))
            series += hash;
    }
    *series_out = series;
    *copy_out = copy;
}

/* ---- series -------------------------------------------------------------------------------- */

/* Finds or adds a series. NULL: there are too many. */
static struct lull_metrics_series *page_find_series(struct lull_metrics_page *page, uint32_t row,
                                                    uint64_t labels)
{
    const uint32_t most = LULL_METRICS_SERIES / 4 * 3;
    uint64_t key = hash_bytes(hash_begin, &row, sizeof(row));

    key = hash_bytes(key, &labels, sizeof(labels)) | 1;
    for (uint64_t at = key >> 1;; at++) {
        struct lull_metrics_series *const series = &page->series[at % LULL_METRICS_SERIES];

        if (series->key == key)
            return series;
        if (series->key != 0)
            continue;
        if (page->series_count >= most)
            return NULL;
        page->series_count++;
        series->key = key;
        return series;
    }
}

/* Compares the value of a counter with that on the page before. */
static void row_compare(struct lull_metrics_row *row, const struct lull_metrics_page *page,
                        const struct lull_metrics_series *series, double value)
{
    if (series->page == 0)
        return;
    if (series->page + 1 < page->number)
        row->is_back = true;
    if (value < series->value && !row->has_fallen) {
        row->has_fallen = true;
        row->fallen_from = series->value;
        row->fallen_to = value;
    }
}

/* ---- samples ------------------------------------------------------------------------------- */

static void row_note_value(struct lull_metrics_row *row, double value)
{
    row->has_bad_value = true;
    row->bad_value = value;
}

static bool quantity_is_gauge(enum lull_metrics_quantity quantity)
{
    return quantity <= LULL_METRICS_CACHE;
}

static void page_take_scalar(struct lull_metrics_page *page, uint32_t number,
                             const struct lull_prometheus_sample *sample, uint64_t labels,
                             uint64_t copy)
{
    struct lull_metrics_row *const row = &page->rows[number];
    struct lull_metrics_series *const series = page_find_series(page, number, labels);

    if (series != NULL && series->page == page->number)
        return; /* a copy of another rank */
    row->is_found = true;
    if (!isfinite(sample->value) || sample->value < 0.0) {
        row_note_value(row, sample->value);
        return;
    }
    if (row->name->quantity == LULL_METRICS_CACHE)
        row->value = fmax(row->value, sample->value);
    else
        row->value += sample->value;
    if (series == NULL)
        return;
    if (!quantity_is_gauge(row->name->quantity))
        row_compare(row, page, series, sample->value);
    series->page = page->number;
    series->copy = copy;
    series->value = sample->value;
}

/* Adds to the bucket with this bound, in the order of bounds. */
static void histogram_add(struct lull_metrics_histogram *histogram, double bound, double total)
{
    uint32_t at = histogram->count;

    while (at > 0 && histogram->buckets[at - 1].bound > bound)
        at--;
    if (at > 0 && histogram->buckets[at - 1].bound == bound) {
        histogram->buckets[at - 1].total += total;
        histogram->buckets[at - 1].series++;
        return;
    }
    if (histogram->count == LULL_METRICS_BOUNDS) {
        if (!isinf(bound))
            return;
        histogram->buckets[at - 1] = (struct lull_metrics_bucket){bound, total, 1};
        return;
    }
    memmove(&histogram->buckets[at + 1], &histogram->buckets[at],
            (histogram->count - at) * sizeof(histogram->buckets[0]));
    histogram->buckets[at] = (struct lull_metrics_bucket){bound, total, 1};
    histogram->count++;
}

static void page_take_bucket(struct lull_metrics_page *page, struct lull_metrics_row *row,
                             const struct lull_prometheus_sample *sample,
                             struct lull_metrics_series *series)
{
    const struct lull_prometheus_text *const le = lull_prometheus_label(sample, "le");
    double bound;

    if (le == NULL || lull_prometheus_value(le, &bound) < 0 || isnan(bound)) {
        row_note_value(row, NAN);
        return;
    }
    histogram_add(row->histogram, bound, sample->value);
    if (!isinf(bound) || series == NULL)
        return;
    row_compare(row, page, series, sample->value);
    series->value = sample->value;
}

/* Takes a part of a histogram; the number of values is that of the last bucket. */
static void page_take_histogram(struct lull_metrics_page *page, uint32_t number,
                                const struct lull_prometheus_sample *sample, uint64_t labels,
                                uint64_t copy)
{
    struct lull_metrics_row *const row = &page->rows[number];
    const bool is_bucket = name_ends(&sample->name, row->length, "_bucket");
    struct lull_metrics_series *series;

    if (!is_bucket && !name_ends(&sample->name, row->length, "_sum"))
        return;
    /* The series of a sum has its own entry: a sum may come before or after the buckets. */
    series = page_find_series(page, number, is_bucket ? labels : ~labels);
    if (series != NULL && series->page == page->number && (!is_bucket || series->copy != copy))
        return;
    row->is_found = true;
    if (!isfinite(sample->value) || sample->value < 0.0)
        row_note_value(row, sample->value);
    else if (is_bucket)
        page_take_bucket(page, row, sample, series);
    else
        row->histogram->sum += sample->value;
    if (series == NULL)
        return;
    series->page = page->number;
    series->copy = copy;
}

static bool row_has_label(const struct lull_metrics_row *row,
                          const struct lull_prometheus_sample *sample)
{
    const struct lull_prometheus_text *value;

    if (row->name->label == NULL)
        return true;
    value = lull_prometheus_label(sample, row->name->label);
    return value != NULL && lull_prometheus_is(value, row->name->value);
}

static void page_take_row(struct lull_metrics_page *page, uint32_t number,
                          const struct lull_prometheus_sample *sample, uint64_t labels,
                          uint64_t copy)
{
    struct lull_metrics_row *const row = &page->rows[number];

    if (!name_begins(&sample->name, row->name->name, row->length) || !row_has_label(row, sample))
        return;
    if (!isnan(sample->time_s))
        page->stamp_s = fmax(page->stamp_s, sample->time_s);
    if (row->histogram != NULL)
        page_take_histogram(page, number, sample, labels, copy);
    else if (sample->name.length == row->length)
        page_take_scalar(page, number, sample, labels, copy);
}

static void row_take_plus(struct lull_metrics_row *row, const struct lull_prometheus_sample *sample)
{
    const char *const plus = row->name->plus;

    if (plus == NULL || sample->name.length != strlen(plus) ||
        !name_begins(&sample->name, plus, sample->name.length))
        return;
    if (isfinite(sample->value) && sample->value >= 0.0)
        row->plus += sample->value;
}

/* Takes what a page says of the server's process. */
static void page_take_process(struct lull_metrics_page *page,
                              const struct lull_prometheus_sample *sample)
{
    static const char python[] = "python_";

    if (lull_prometheus_is(&sample->name, "process_start_time_seconds"))
        page->start_s = sample->value;
    else if (lull_prometheus_is(&sample->name, "process_cpu_seconds_total"))
        page->cpu_s = sample->value;
    else if (name_begins(&sample->name, python, sizeof(python) - 1))
        page->is_python = true;
}

static void page_take_name(struct lull_metrics_page *page, const struct lull_prometheus_text *name)
{
    for (size_t i = 0; i < name->length && i + 1 < sizeof(page->first_name); i++)
        page->first_name[i] = isprint((unsigned char)name->bytes[i]) ? name->bytes[i] : '?';
}

void lull_metrics_page_take(void *context, const struct lull_prometheus_sample *sample)
{
    struct lull_metrics_page *const page = context;

    if (page->first_name[0] == '\0')
        page_take_name(page, &sample->name);
    page_take_process(page, sample);
    for (uint32_t i = 0; i < page->group_count; i++) {
        struct lull_metrics_group *const group = &page->groups[i];
        uint64_t labels;
        uint64_t copy;
        uint64_t hash;

        if (!name_begins(&sample->name, group->prefix, group->prefix_length))
            continue;
        hash_labels(sample, &labels, &copy);
        hash = hash_bytes(hash_begin ^ labels ^ copy, sample->name.bytes, sample->name.length);
        group->hash += hash_bytes(hash, &sample->value, sizeof(sample->value));
        for (uint32_t row = group->first; row < group->end; row++) {
            page_take_row(page, row, sample, labels, copy);
            row_take_plus(&page->rows[row], sample);
        }
    }
}

/* ---- pages --------------------------------------------------------------------------------- */

void lull_metrics_page_begin(struct lull_metrics_page *page)
{
    page->number++;
    page->start_s = NAN;
    page->cpu_s = NAN;
    page->stamp_s = NAN;
    page->is_python = false;
    memset(page->first_name, 0, sizeof(page->first_name));
    for (uint32_t i = 0; i < page->group_count; i++)
        page->groups[i].hash = 0;
    for (uint32_t i = 0; i < page->row_count; i++) {
        struct lull_metrics_row *const row = &page->rows[i];

        if (row->histogram != NULL)
            *row->histogram = (struct lull_metrics_histogram){0};
        *row = (struct lull_metrics_row){.name = row->name,
                                         .engine = row->engine,
                                         .length = row->length,
                                         .histogram = row->histogram};
    }
}

static int page_add_row(struct lull_metrics_page *page, uint32_t engine,
                        const struct lull_metrics_name *name)
{
    struct lull_metrics_row *const row = &page->rows[page->row_count];

    *row = (struct lull_metrics_row){.name = name, .engine = engine, .length = strlen(name->name)};
    if (name->quantity >= LULL_METRICS_TTFT) {
        row->histogram = calloc(1, sizeof(*row->histogram));
        if (row->histogram == NULL)
            return -1;
    }
    page->row_count++;
    return 0;
}

/* Shortens the prefix of a group to what a name shares with it. */
static void group_share(struct lull_metrics_group *group, const char *name)
{
    size_t length = 0;

    while (length < group->prefix_length && name[length] == group->prefix[length])
        length++;
    group->prefix_length = length;
}

static int page_add_group(struct lull_metrics_page *page, uint32_t number,
                          const struct lull_metrics_engine *engine)
{
    struct lull_metrics_group *const group = &page->groups[page->group_count++];

    group->prefix = engine->names[0].name;
    group->prefix_length = strlen(group->prefix);
    group->first = page->row_count;
    group->end = page->row_count;
    for (uint32_t i = 0; i < engine->count && page->row_count < LULL_METRICS_MAX_NAMES; i++) {
        const struct lull_metrics_name *const name = &engine->names[i];

        group_share(group, name->name);
        if (name->plus != NULL)
            group_share(group, name->plus);
        if (page_add_row(page, number, name) < 0)
            return -1;
        group->end = page->row_count;
    }
    return 0;
}

struct lull_metrics_page *lull_metrics_page_create(const struct lull_metrics_names *names)
{
    struct lull_metrics_page *page = calloc(1, sizeof(*page));

    if (page == NULL)
        return NULL;
    for (uint32_t i = 0; i < names->count; i++) {
        if (page_add_group(page, i, names->engines[i]) < 0) {
            lull_metrics_page_destroy(page);
            return NULL;
        }
    }
    return page;
}

void lull_metrics_page_destroy(struct lull_metrics_page *page)
{
    if (page == NULL)
        return;
    for (uint32_t i = 0; i < page->row_count; i++)
        free(page->rows[i].histogram);
    free(page);
}
