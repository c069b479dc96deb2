/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/serving/metrics_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/json_fields.h"
#include "trace/source.h"

enum { WORD_BYTES = 24, HINT_BYTES = 200, FILE_ENGINES = 8, FILE_NAMES = 96 };

static const char *const words[LULL_METRICS_QUANTITIES] = {
    "running", "waiting", "cache", "prompt_tokens", "output_tokens", "finished",   "steps",
    "ttft",    "tpot",    "itl",   "decode_time",   "answer_tokens", "queue_time", "prefill_time"};

struct name_text {
    char quantity[WORD_BYTES];
    char name[LULL_METRICS_NAME_BYTES];
    char plus[LULL_METRICS_NAME_BYTES];
    char label[LULL_METRICS_NAME_BYTES];
    char value[LULL_METRICS_NAME_BYTES];
    char less[WORD_BYTES];
    double scale;
};

struct engine_text {
    char name[LULL_METRICS_NAME_BYTES];
    char hint[HINT_BYTES];
};

/* A file of the user, and what its texts become. */
struct lull_metrics_file {
    struct engine_text engine_texts[FILE_ENGINES];
    struct lull_metrics_engine engines[FILE_ENGINES];
    uint32_t engine_count;
    struct name_text name_texts[FILE_NAMES];
    struct lull_metrics_name names[FILE_NAMES];
    uint32_t name_count;
};

const char *lull_metrics_quantity_word(enum lull_metrics_quantity quantity)
{
    return words[quantity];
}

static const char *text_or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

/* ---- a file of the user -------------------------------------------------------------------- */

static const struct lull_json_field name_fields[] = {
    {LULL_JSON_TEXT("quantity", struct name_text, quantity)},
    {LULL_JSON_TEXT("name", struct name_text, name)},
    {LULL_JSON_TEXT("plus", struct name_text, plus)},
    {LULL_JSON_TEXT("label", struct name_text, label)},
    {LULL_JSON_TEXT("value", struct name_text, value)},
    {LULL_JSON_TEXT("less", struct name_text, less)},
    {LULL_JSON_REAL("scale", struct name_text, scale)},
    {NULL},
};

static int find_quantity(const char *word, enum lull_metrics_quantity *quantity_out)
{
    for (int i = 0; i < LULL_METRICS_QUANTITIES; i++) {
        if (strcmp(words[i], word) == 0) {
            *quantity_out = (enum lull_metrics_quantity)i;
            return 0;
        }
    }
    return -EINVAL;
}

static int read_name(struct lull_json_reader *reader, void *object)
{
    struct lull_metrics_file *const file = object;
    struct name_text *const text = &file->name_texts[file->name_count];
    struct lull_metrics_name *const name = &file->names[file->name_count];
    int result;

    if (file->name_count == FILE_NAMES)
        return lull_json_refuse(reader, "more than 96 names");
    text->scale = 1.0;
    result = lull_json_read_fields(reader, name_fields, text);
    if (result < 0)
        return result;
    if (find_quantity(text->quantity, &name->quantity) < 0)
        return lull_json_refuse(reader, "expected a quantity such as \"running\" or \"ttft\" "
                                        "(data/serving_metrics.json lists them)");
    if (text->name[0] == '\0')
        return lull_json_refuse(reader, "expected the \"name\" of a metric");
    if ((text->label[0] == '\0') != (text->value[0] == '\0'))
        return lull_json_refuse(reader, "expected \"label\" and \"value\" together");
    if (text->scale <= 0.0)
        return lull_json_refuse(reader, "expected a \"scale\" above 0");
    if (text->less[0] != '\0' && strcmp(text->less, words[LULL_METRICS_WAITING]) != 0)
        return lull_json_refuse(reader, "expected \"less\" to be \"waiting\"");
    name->name = text->name;
    name->plus = text_or_null(text->plus);
    name->label = text_or_null(text->label);
    name->value = text_or_null(text->value);
    name->scale = text->scale;
    name->counts_waiting = text->less[0] != '\0';
    file->name_count++;
    return 0;
}

static int read_names(struct lull_json_reader *reader, void *object)
{
    struct lull_json_text text;
    const int result =
        lull_json_expect(reader, LULL_JSON_ARRAY_BEGIN, "expected an array of \"metrics\"", &text);

    (void)object;
    if (result < 0)
        return result;
    return lull_json_read_items(reader, LULL_JSON_OBJECT_BEGIN, read_name, reader->context);
}

static const struct lull_json_field engine_fields[] = {
    {LULL_JSON_TEXT("engine", struct engine_text, name)},
    {LULL_JSON_TEXT("hint", struct engine_text, hint)},
    {LULL_JSON_OTHER("metrics", read_names)},
    {NULL},
};

static int read_engine(struct lull_json_reader *reader, void *object)
{
    struct lull_metrics_file *const file = object;
    struct engine_text *const text = &file->engine_texts[file->engine_count];
    struct lull_metrics_engine *const engine = &file->engines[file->engine_count];
    const uint32_t first = file->name_count;
    int result;

    if (file->engine_count == FILE_ENGINES)
        return lull_json_refuse(reader, "more than 8 engines");
    result = lull_json_read_fields(reader, engine_fields, text);
    if (result < 0)
        return result;
    if (text->name[0] == '\0' || file->name_count == first)
        return lull_json_refuse(reader, "expected an \"engine\" with \"metrics\"");
    *engine = (struct lull_metrics_engine){.name = text->name,
                                           .hint = text_or_null(text->hint),
                                           .names = &file->names[first],
                                           .count = file->name_count - first};
    file->engine_count++;
    return 0;
}

static const struct lull_json_field document[] = {
    {LULL_JSON_OBJECTS("engines", read_engine)},
    {NULL},
};

static int file_read(struct lull_metrics_file *file, const char *path, struct lull_error *err)
{
    struct lull_source *source = NULL;
    int result = lull_source_open(path, &source, err);

    if (result < 0)
        return result;
    result = lull_json_read_document(source, path, document, file, file, err);
    lull_source_close(source);
    if (result < 0)
        return result;
    if (file->engine_count == 0)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: no \"engines\"; data/serving_metrics.json shows the form", path);
    return 0;
}

/* ---- all names ----------------------------------------------------------------------------- */

int lull_metrics_names_open(const char *path, struct lull_metrics_names *names_out,
                            struct lull_error *err)
{
    struct lull_metrics_names names = {0};

    if (path != NULL) {
        int result;

        names.file = calloc(1, sizeof(*names.file));
        if (names.file == NULL)
            return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
        result = file_read(names.file, path, err);
        if (result < 0) {
            free(names.file);
            return result;
        }
        for (uint32_t i = 0; i < names.file->engine_count; i++)
            names.engines[names.count++] = &names.file->engines[i];
        names.own_count = names.count;
    }
    for (uint32_t i = 0; i < lull_metrics_engine_count; i++)
        names.engines[names.count++] = &lull_metrics_engines[i];
    *names_out = names;
    return 0;
}

void lull_metrics_names_close(struct lull_metrics_names *names)
{
    if (names == NULL)
        return;
    free(names->file);
    *names = (struct lull_metrics_names){0};
}
