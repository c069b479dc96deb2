/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/metrics.h"

#include <stdbool.h>
#include <string.h>

#include "base/printable.h"
#include "cli/serve/files.h"

/* Labels of a sample, written as they come. More than fits is cut at a whole label. */
struct labels {
    size_t size;
    char text[2048];
};

struct family_writer {
    FILE *out;
    enum lull_serve_format format;
    const json_t *labels; /* of the table: the labels that elements of an array give */
    const json_t *row;
    char name[96]; /* of the family, with its unit */
    bool has_head; /* the family's lines that are no samples are written */
};

json_t *lull_serve_metrics_open(void)
{
    return json_loads(lull_serve_metrics_json, JSON_REJECT_DUPLICATES, NULL);
}

/* ---- values of the document -------------------------------------------------------------- */

/* Returns what a path such as "daemon.writes" leads to; NULL: nothing, or null. */
static const json_t *metrics_find(const json_t *object, const char *path)
{
    while (object != NULL) {
        const size_t size = strcspn(path, ".");

        object = json_object_getn(object, path, size);
        if (path[size] == '\0')
            break;
        path += size + 1;
    }
    return json_is_null(object) ? NULL : object;
}

static const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* ---- labels ------------------------------------------------------------------------------ */

static void put_escaped(struct labels *labels, char byte)
{
    if (strchr("\\\"\n", byte) != NULL)
        labels->text[labels->size++] = '\\';
    labels->text[labels->size++] = byte == '\n' ? 'n' : byte;
}

/* Writes a label's value, in which backslash, quote and line feed are escaped; false: no room. */
static bool metrics_escape(struct labels *labels, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        const struct lull_printable_piece piece = lull_printable_take(
            *text == '\n' ? LULL_PRINTABLE_LINES : LULL_PRINTABLE_LINE, text, left);

        if (labels->size + (size_t)2 * LULL_PRINTABLE_PIECE >= sizeof(labels->text))
            return false;
        for (size_t i = 0; i < piece.length; i++)
            put_escaped(labels, piece.text[i]);
        text += piece.taken;
        left -= piece.taken;
    }
    return true;
}

/* Adds a label, unless its value is empty: that is the same as no label. */
static void add_text_label(struct labels *labels, const char *name, const char *value)
{
    const size_t before = labels->size;
    const size_t room = sizeof(labels->text) - before;
    int size;

    if (value == NULL || *value == '\0')
        return;
    size = snprintf(labels->text + before, room, "%s%s=\"", before > 0 ? "," : "", name);
    if (size > 0 && (size_t)size < room) {
        labels->size += (size_t)size;
        if (metrics_escape(labels, value)) {
            labels->text[labels->size++] = '"';
            labels->text[labels->size] = '\0';
            return;
        }
    }
    labels->size = before;
    labels->text[before] = '\0';
}

static void add_label(struct labels *labels, const char *name, const json_t *value)
{
    char number[32];

    if (json_is_string(value))
        add_text_label(labels, name, json_string_value(value));
    if (!json_is_integer(value))
        return;
    snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    add_text_label(labels, name, number);
}

/* Adds the labels that the table takes from fields of an object, such as {"UUID": "uuid"}. */
static void add_labels(struct labels *labels, const json_t *names, const json_t *object)
{
    const char *name;
    json_t *path;

    json_object_foreach((json_t *)names, name, path)
        add_label(labels, name, metrics_find(object, json_string_value(path)));
}

/* ---- samples ----------------------------------------------------------------------------- */

static bool metrics_is_type(const struct family_writer *writer, const char *type)
{
    return strcmp(text_at(writer->row, "type"), type) == 0;
}

/* Samples of counters end with _total, those of infos with _info. OpenMetrics names the family
 * without that ending; the text form knows no infos, and names the samples. */
static const char *metrics_ending(const struct family_writer *writer)
{
    if (metrics_is_type(writer, "counter"))
        return "_total";
    return metrics_is_type(writer, "info") ? "_info" : "";
}

static void metrics_write_head(struct family_writer *writer)
{
    const bool is_open = writer->format == LULL_SERVE_OPENMETRICS;
    const char *const own = is_open ? "" : metrics_ending(writer);
    const char *const unit = text_at(writer->row, "unit");
    const char *type = text_at(writer->row, "type");

    if (!is_open && metrics_is_type(writer, "info"))
        type = "gauge";
    writer->has_head = true;
    fprintf(writer->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", writer->name, own,
            text_at(writer->row, "help"), writer->name, own, type);
    if (is_open && unit != NULL)
        fprintf(writer->out, "# UNIT %s %s\n", writer->name, unit);
}

static void write_sample(struct family_writer *writer, const struct labels *labels, double value)
{
    if (!writer->has_head)
        metrics_write_head(writer);
    if (labels->size > 0)
        fprintf(writer->out, "%s%s{%s} %.15g\n", writer->name, metrics_ending(writer), labels->text,
                value);
    else
        fprintf(writer->out, "%s%s %.15g\n", writer->name, metrics_ending(writer), value);
}

/* Writes a number in the base unit, or a boolean as 1 or 0; nothing for other values. */
static void metrics_write_value(struct family_writer *writer, const struct labels *labels,
                                const json_t *value)
{
    const json_t *const scale = json_object_get(writer->row, "scale");
    const double factor = scale != NULL ? json_number_value(scale) : 1.0;

    if (json_is_boolean(value))
        write_sample(writer, labels, json_is_true(value));
    else if (json_is_number(value))
        write_sample(writer, labels, json_number_value(value) * factor);
}

/* ---- kinds of rows ----------------------------------------------------------------------- */

/* "values": one sample per word of a label, each from its own field. */
static void write_values(struct family_writer *writer, const struct labels *base,
                         const json_t *rule, const json_t *object)
{
    const char *word;
    json_t *path;

    json_object_foreach(json_object_get(rule, "of"), word, path)
    {
        struct labels labels = *base;

        add_text_label(&labels, text_at(rule, "label"), word);
        metrics_write_value(writer, &labels, metrics_find(object, json_string_value(path)));
    }
}

/* Returns whether a field, which is a text or a list of texts, contains this word. */
static bool metrics_has_word(const json_t *value, const char *word)
{
    size_t index;
    json_t *element;

    if (json_is_string(value))
        return strcmp(json_string_value(value), word) == 0;
    json_array_foreach((json_t *)value, index,
                       element) if (json_is_string(element) &&
                                    strcmp(json_string_value(element), word) == 0) return true;
    return false;
}

/* "states": one sample per possible value of a field, 1 for the present value. */
static void write_states(struct family_writer *writer, const struct labels *base,
                         const json_t *rule, const json_t *object)
{
    const json_t *const value = metrics_find(object, text_at(rule, "value"));
    size_t index;
    json_t *word;

    if (value == NULL)
        return;
    json_array_foreach(json_object_get(rule, "words"), index, word)
    {
        struct labels labels = *base;

        add_text_label(&labels, text_at(rule, "label"), json_string_value(word));
        write_sample(writer, &labels, metrics_has_word(value, json_string_value(word)));
    }
}

/* "valid": one sample per figure, 1: it is known; 0, with the reason as a label: it is not. */
static void write_valid(struct family_writer *writer, const struct labels *base, const json_t *rule,
                        const json_t *object)
{
    const char *word;
    json_t *path;

    json_object_foreach(json_object_get(rule, "of"), word, path)
    {
        const bool is_known = metrics_find(object, json_string_value(path)) != NULL;
        struct labels labels = *base;

        add_text_label(&labels, text_at(rule, "label"), word);
        if (!is_known)
            add_text_label(&labels, "reason",
                           text_at(json_object_get(object, "unknown"), json_string_value(path)));
        write_sample(writer, &labels, is_known);
    }
}

static void metrics_write_object(struct family_writer *writer, const struct labels *base,
                                 const json_t *object)
{
    static const struct {
        const char *key;
        void (*write)(struct family_writer *writer, const struct labels *labels, const json_t *rule,
                      const json_t *object);
    } kinds[] = {{"values", write_values}, {"states", write_states}, {"valid", write_valid}};
    const char *const path = text_at(writer->row, "value");
    const json_t *const info = json_object_get(writer->row, "info");

    if (path != NULL)
        metrics_write_value(writer, base, metrics_find(object, path));
    if (info != NULL) {
        struct labels labels = *base;

        add_labels(&labels, info, object);
        write_sample(writer, &labels, 1.0);
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const json_t *const rule = json_object_get(writer->row, kinds[i].key);

        if (rule != NULL)
            kinds[i].write(writer, base, rule, object);
    }
}

/* Goes down the arrays and objects that a path such as "jobs.gpus" names, and collects the labels
 * of the arrays' elements. What is null has no samples. */
static void write_each(struct family_writer *writer, const struct labels *base, const char *path,
                       const json_t *object)
{
    const size_t size = strcspn(path, ".");
    const char *const rest = path + size + (path[size] == '.');
    const json_t *const names = json_object_getn(writer->labels, path, size);
    const json_t *const inner = json_object_getn(object, path, size);
    size_t index;
    json_t *element;

    if (size == 0) {
        metrics_write_object(writer, base, object);
        return;
    }
    if (json_is_object(inner))
        write_each(writer, base, rest, inner);
    json_array_foreach(inner, index, element)
    {
        struct labels labels = *base;

        add_labels(&labels, names, element);
        write_each(writer, &labels, rest, element);
    }
}

void lull_serve_metrics_write(const json_t *table, const json_t *document,
                              enum lull_serve_format format, FILE *out)
{
    size_t index;
    json_t *row;

    json_array_foreach(json_object_get(table, "metrics"), index, row)
    {
        const struct labels none = {0};
        struct family_writer writer = {out, format, json_object_get(table, "labels"),
                                       row, "",     false};
        const char *const unit = text_at(row, "unit");

        snprintf(writer.name, sizeof(writer.name), "%s%s%s", text_at(row, "name"),
                 unit != NULL ? "_" : "", unit != NULL ? unit : "");
        write_each(&writer, &none, text_at(row, "each"), document);
    }
    if (format == LULL_SERVE_OPENMETRICS)
        fputs("# EOF\n", out);
}
