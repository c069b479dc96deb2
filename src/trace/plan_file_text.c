/*
 * Objects are read by tables of their fields; those that this version does not know are passed
 * over. SPDX-License-Identifier: Apache-2.0
 */
#include "trace/plan_file_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/decimal.h"
#include "trace/json_fields.h"
#include "trace/plan_file_waits.h"

enum { VERSION = 1 };

static const int64_t most_time_ns = INT64_C(1000000000000000); /* 11 days */

struct class_fields {
    enum lull_pipeline_kind kind;
    int64_t stage;
    int64_t partner;
    int64_t copy;
    struct lull_pipeline_point options[LULL_PIPELINE_MAX_OPTIONS];
    size_t point_count;
};

/* The context of every reader here. */
struct plan_file_text_reading {
    struct lull_plan_text *text;
    int64_t version;
    size_t operation_room;
    size_t edge_room;
    size_t device_count;
    size_t device_room;
    struct class_fields entry; /* being read */
};

static int read_kind(struct lull_json_reader *reader, enum lull_pipeline_kind *kind_out)
{
    struct lull_json_text text;
    char word[16];
    const int result =
        lull_json_expect(reader, LULL_JSON_STRING, "expected an operation's name", &text);

    if (result < 0)
        return result;
    if (text.length >= sizeof(word))
        return lull_json_refuse(reader, "no such operation");
    memcpy(word, text.bytes, text.length);
    word[text.length] = '\0';
    return lull_pipeline_kind_parse(word, kind_out) < 0
               ? lull_json_refuse(reader, "no such operation")
               : 0;
}

static int no_memory(const struct lull_json_reader *reader)
{
    return lull_error_set(reader->err, -ENOMEM, "%s: no memory", reader->name);
}

/* Room for one more element. */
static int grow(struct lull_json_reader *reader, void **array, size_t count, size_t *room,
                size_t size)
{
    const size_t wanted = *room == 0 ? 64 : *room * 2;
    void *larger;

    if (count < *room)
        return 0;
    larger = reallocarray(*array, wanted, size);
    if (larger == NULL)
        return no_memory(reader);
    *array = larger;
    *room = wanted;
    return 0;
}

/* ---- classes ----------------------------------------------------------------------------- */

struct option_fields {
    int64_t sm_mhz;
    int64_t time_ns;
    int64_t energy_nj;
};

static int read_option(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {"sm_mhz", 0, UINT32_MAX, offsetof(struct option_fields, sm_mhz), NULL},
        {"time", 9, LULL_PIPELINE_MAX_TIME_NS, offsetof(struct option_fields, time_ns), NULL},
        {"energy", 9, LULL_PIPELINE_MAX_ENERGY_NJ, offsetof(struct option_fields, energy_nj), NULL},
        {0},
    };
    struct class_fields *const entry = object;
    struct option_fields option;
    const int result = lull_json_read_tuple(reader, fields, &option);

    if (result < 0)
        return result;
    if (entry->point_count == LULL_PIPELINE_MAX_OPTIONS)
        return lull_json_refuse(reader, "too many options");
    entry->options[entry->point_count++] =
        (struct lull_pipeline_point){option.time_ns, option.energy_nj, (uint32_t)option.sm_mhz};
    return 0;
}

static int read_options(struct lull_json_reader *reader, void *object)
{
    return lull_json_read_array(reader, LULL_JSON_ARRAY_BEGIN, read_option, object);
}

static int read_class_kind(struct lull_json_reader *reader, void *object)
{
    return read_kind(reader, &((struct class_fields *)object)->kind);
}

static int read_class(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {"operation", 0, 0, 0, read_class_kind},
        {"stage", 0, LULL_PIPELINE_MAX_OPS, offsetof(struct class_fields, stage), NULL},
        {"partner", 0, LULL_PIPELINE_MAX_OPS, offsetof(struct class_fields, partner), NULL},
        {"copy", 0, LULL_PIPELINE_MAX_OPS, offsetof(struct class_fields, copy), NULL},
        {"options", 0, 0, 0, read_options},
        {0},
    };
    struct plan_file_text_reading *const reading = reader->context;
    struct class_fields *const entry = &reading->entry;
    int result;

    (void)object;
    entry->kind = LULL_PIPELINE_KINDS;
    entry->stage = entry->partner = entry->copy = 0;
    entry->point_count = 0;
    result = lull_json_read_fields(reader, fields, entry);
    if (result == 0 && (entry->kind == LULL_PIPELINE_KINDS || entry->point_count == 0))
        return lull_json_refuse(reader, "a class without operation or options");
    for (size_t i = 0; i < entry->point_count && result == 0; i++)
        result = lull_pipeline_profile_add_copy(
            &reading->text->plan.profile, (uint32_t)entry->copy, (uint32_t)entry->stage,
            entry->kind, (uint32_t)entry->partner, &entry->options[i], reader->err);
    return result;
}

static int read_classes(struct lull_json_reader *reader, void *object)
{
    return lull_json_read_array(reader, LULL_JSON_OBJECT_BEGIN, read_class, object);
}

/* ---- devices and edges ------------------------------------------------------------------- */

static int read_operation_kind(struct lull_json_reader *reader, void *object)
{
    return read_kind(reader, &((struct lull_plan_text_operation *)object)->kind);
}

static int read_operation(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {"operation", 0, 0, 0, read_operation_kind},
        {"stage", 0, LULL_PIPELINE_MAX_OPS, offsetof(struct lull_plan_text_operation, stage), NULL},
        {"partner", 0, LULL_PIPELINE_MAX_OPS, offsetof(struct lull_plan_text_operation, partner),
         NULL},
        {"copy", 0, LULL_PIPELINE_MAX_OPS, offsetof(struct lull_plan_text_operation, copy), NULL},
        {"microbatch", 0, LULL_PIPELINE_MAX_OPS,
         offsetof(struct lull_plan_text_operation, microbatch), NULL},
        {"chunk", 0, LULL_PIPELINE_MAX_OPS, offsetof(struct lull_plan_text_operation, chunk), NULL},
        {"sm_mhz", 0, UINT32_MAX, offsetof(struct lull_plan_text_operation, sm_mhz), NULL},
        {"flow", 0, LULL_DECIMAL_MAX, offsetof(struct lull_plan_text_operation, flow), NULL},
        {0},
    };
    struct plan_file_text_reading *const reading = reader->context;
    struct lull_plan_text_operation operation = {.kind = LULL_PIPELINE_KINDS,
                                                 .device = (uint32_t)reading->device_count};
    int result = lull_json_read_fields(reader, fields, &operation);

    (void)object;
    if (result == 0 && operation.kind == LULL_PIPELINE_KINDS)
        result = lull_json_refuse(reader, "an operation without a name");
    if (result == 0)
        result = grow(reader, (void **)&reading->text->operations, reading->text->operation_count,
                      &reading->operation_room, sizeof(*reading->text->operations));
    if (result == 0)
        reading->text->operations[reading->text->operation_count++] = operation;
    return result;
}

static int read_operations(struct lull_json_reader *reader, void *object)
{
    return lull_json_read_array(reader, LULL_JSON_OBJECT_BEGIN, read_operation, object);
}

static int read_blocking(struct lull_json_reader *reader, void *object)
{
    return lull_json_read_real(reader, object);
}

static int read_device(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {"blocking_w", 0, 0, 0, read_blocking},
        {"operations", 0, 0, 0, read_operations},
        {0},
    };
    struct plan_file_text_reading *const reading = reader->context;
    double blocking_w = -1.0;
    int result = lull_json_read_fields(reader, fields, &blocking_w);

    (void)object;
    if (result == 0 && blocking_w < 0.0)
        result = lull_json_refuse(reader, "a device without blocking_w");
    if (result == 0)
        result = grow(reader, (void **)&reading->text->plan.blocking_w, reading->device_count,
                      &reading->device_room, sizeof(*reading->text->plan.blocking_w));
    if (result == 0)
        reading->text->plan.blocking_w[reading->device_count++] = blocking_w;
    return result;
}

static int read_devices(struct lull_json_reader *reader, void *object)
{
    return lull_json_read_array(reader, LULL_JSON_OBJECT_BEGIN, read_device, object);
}

static int read_edge(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {"from", 0, LULL_PIPELINE_MAX_OPS, offsetof(struct lull_plan_text_edge, from), NULL},
        {"to", 0, LULL_PIPELINE_MAX_OPS, offsetof(struct lull_plan_text_edge, to), NULL},
        {"latency", 9, LULL_PIPELINE_MAX_TIME_NS, offsetof(struct lull_plan_text_edge, latency_ns),
         NULL},
        {"flow", 0, LULL_DECIMAL_MAX, offsetof(struct lull_plan_text_edge, flow), NULL},
        {0},
    };
    struct plan_file_text_reading *const reading = reader->context;
    int result = grow(reader, (void **)&reading->text->edges, reading->text->edge_count,
                      &reading->edge_room, sizeof(*reading->text->edges));

    (void)object;
    if (result == 0)
        result =
            lull_json_read_tuple(reader, fields, &reading->text->edges[reading->text->edge_count]);
    if (result == 0)
        reading->text->edge_count++;
    return result;
}

static int read_edges(struct lull_json_reader *reader, void *object)
{
    return lull_json_read_array(reader, LULL_JSON_ARRAY_BEGIN, read_edge, object);
}

/* ---- the head ---------------------------------------------------------------------------- */

/* Printable characters only: it ends up on terminals. */
static int read_text(struct lull_json_reader *reader, char *text_out, size_t room)
{
    struct lull_json_text text;
    const int result = lull_json_expect(reader, LULL_JSON_STRING, "expected a text", &text);
    size_t length = 0;

    for (size_t i = 0; result == 0 && i < text.length && length + 1 < room; i++)
        if (text.bytes[i] >= ' ' && text.bytes[i] <= '~')
            text_out[length++] = text.bytes[i];
    text_out[length] = '\0';
    return result;
}

static int read_title(struct lull_json_reader *reader, void *object)
{
    struct plan_file_text_reading *const reading = reader->context;

    (void)object;
    return read_text(reader, reading->text->plan.title, LULL_PLAN_FILE_TITLE);
}

static int read_planner(struct lull_json_reader *reader, void *object)
{
    struct plan_file_text_reading *const reading = reader->context;

    (void)object;
    return read_text(reader, reading->text->plan.planner, LULL_PLAN_FILE_PLANNER);
}

static int read_feed_forward(struct lull_json_reader *reader, void *object)
{
    struct lull_pipeline_switching *const switching = object;
    int64_t number = 0;
    const int result = lull_json_read_integer(reader, 0, 1, &number);

    if (result == 0)
        switching->is_fed_forward = number != 0;
    return result;
}

static int read_drivers(struct lull_json_reader *reader, void *object)
{
    struct lull_pipeline_switching *const switching = object;
    int64_t number = 0;
    const int result = lull_json_read_integer(reader, 0, LULL_PIPELINE_MAX_DRIVERS, &number);

    if (result == 0)
        switching->drivers = (uint32_t)number;
    return result;
}

static int read_switching(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {"down_s", 9, LULL_PIPELINE_MAX_TIME_NS, offsetof(struct lull_pipeline_switching, down_ns),
         NULL},
        {"up_s", 9, LULL_PIPELINE_MAX_TIME_NS, offsetof(struct lull_pipeline_switching, up_ns),
         NULL},
        {"dwell_s", 9, LULL_PIPELINE_MAX_TIME_NS,
         offsetof(struct lull_pipeline_switching, dwell_ns), NULL},
        {"feed_forward", 0, 0, 0, read_feed_forward},
        {"early_s", 9, LULL_PIPELINE_MAX_TIME_NS,
         offsetof(struct lull_pipeline_switching, early_ns), NULL},
        {"call_s", 9, LULL_PIPELINE_MAX_TIME_NS, offsetof(struct lull_pipeline_switching, call_ns),
         NULL},
        {"drivers", 0, 0, 0, read_drivers},
        {0},
    };
    struct plan_file_text_reading *const reading = reader->context;

    (void)object;
    return lull_json_read_object(reader, fields, &reading->text->plan.switching);
}

static int read_unit(struct lull_json_reader *reader, void *object)
{
    struct plan_file_text_reading *const reading = reader->context;
    (void)object;
    return lull_json_read_real(reader, &reading->text->flow_unit_w);
}

static int read_flow(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {"unit_w", 0, 0, 0, read_unit},
        {"value", 0, LULL_DECIMAL_MAX, offsetof(struct lull_plan_text, flow_value), NULL},
        {0},
    };
    struct plan_file_text_reading *const reading = reader->context;

    (void)object;
    return lull_json_read_object(reader, fields, reading->text);
}

static int read_energy(struct lull_json_reader *reader, void *object)
{
    struct plan_file_text_reading *const reading = reader->context;
    (void)object;
    return lull_json_read_real(reader, &reading->text->plan.energy_j);
}

static int read_bound(struct lull_json_reader *reader, void *object)
{
    struct plan_file_text_reading *const reading = reader->context;
    (void)object;
    return lull_json_read_real(reader, &reading->text->plan.bound_j);
}

static int read_waiting(struct lull_json_reader *reader, void *object)
{
    struct plan_file_text_reading *const reading = reader->context;
    (void)object;
    return lull_plan_waits_read(reader, &reading->text->plan);
}

static int read_version(struct lull_json_reader *reader, void *object)
{
    struct plan_file_text_reading *const reading = reader->context;
    (void)object;
    return lull_json_read_integer(reader, 0, INT32_MAX, &reading->version);
}

static int read_document(struct lull_json_reader *reader)
{
    static const struct lull_json_field fields[] = {
        {"lull_plan", 0, 0, 0, read_version},
        {"title", 0, 0, 0, read_title},
        {"planner", 0, 0, 0, read_planner},
        {"parts", 0, LULL_PIPELINE_MAX_OPS, offsetof(struct lull_plan_file, parts), NULL},
        {"deadline_s", 9, most_time_ns, offsetof(struct lull_plan_file, deadline_ns), NULL},
        {"period_s", 9, most_time_ns, offsetof(struct lull_plan_file, period_ns), NULL},
        {"time_s", 9, most_time_ns, offsetof(struct lull_plan_file, time_ns), NULL},
        {"energy_j", 0, 0, 0, read_energy},
        {"bound_j", 0, 0, 0, read_bound},
        {"switching", 0, 0, 0, read_switching},
        {"flow", 0, 0, 0, read_flow},
        {"waiting", 0, 0, 0, read_waiting},
        {"classes", 0, 0, 0, read_classes},
        {"devices", 0, 0, 0, read_devices},
        {"edges", 0, 0, 0, read_edges},
        {0},
    };
    struct plan_file_text_reading *const reading = reader->context;
    struct lull_json_text text;
    int result = lull_json_read_object(reader, fields, &reading->text->plan);

    if (result == 0)
        result = lull_json_expect(reader, LULL_JSON_END, "text behind the plan", &text);
    if (result == 0 && reading->version != VERSION)
        return lull_error_set(reader->err, LULL_E_FORMAT,
                              "%s: no \"lull_plan\": %d in it, so no plan that this version reads",
                              reader->name, VERSION);
    return result;
}

int lull_plan_text_read(struct lull_json *json, const char *name, struct lull_plan_text *text_out,
                        struct lull_error *err)
{
    struct plan_file_text_reading *const reading = calloc(1, sizeof(*reading));
    struct lull_json_reader reader = {name, json, err, reading};
    int result;

    *text_out = (struct lull_plan_text){.plan.parts = 1};
    lull_pipeline_profile_init(&text_out->plan.profile);
    lull_pipeline_graph_init(&text_out->plan.graph);
    if (reading == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory", name);
    reading->text = text_out;
    result = read_document(&reader);
    free(reading);
    return result;
}

void lull_plan_text_fini(struct lull_plan_text *text)
{
    lull_plan_file_fini(&text->plan);
    free(text->operations);
    free(text->edges);
}
