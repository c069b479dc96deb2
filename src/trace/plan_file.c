/*
 * Objects are read by tables of their fields; those that this version does not know are passed
 * over. What refers to something else is looked up when the file is read.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "trace/plan_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/array.h"
#include "trace/decimal.h"
#include "trace/json_fields.h"

enum { VERSION = 1, MAX_POINTS = 1024 };

#define MAX_TIME_NS INT64_C(1000000000000000) /* 11 days */

/* A plan as it is in the file, before its references are resolved. */
struct plan_operation {
    enum lull_pipeline_kind kind;
    int64_t stage;
    int64_t partner;
    int64_t copy;
    int64_t microbatch;
    int64_t chunk;
    int64_t sm_mhz;
    int64_t flow;
    uint32_t device;
};

struct plan_edge {
    int64_t from;
    int64_t to;
    int64_t latency_ns;
    int64_t flow;
};

struct plan_text {
    struct lull_plan_file
        plan; /* head, profile, waiting and blocking power; the rest is not there */
    int64_t version;
    int64_t is_fed_forward; /* 0 or 1, of plan.switching */
    int64_t drivers;        /* of plan.switching */
    int64_t flow_value;
    double flow_unit_w;
    size_t device_count;
    struct plan_operation *operations;
    size_t operation_count;
    struct plan_edge *edges;
    size_t edge_count;
};

struct class_fields {
    enum lull_pipeline_kind kind;
    int64_t stage;
    int64_t partner;
    int64_t copy;
    struct lull_pipeline_point points[LULL_PIPELINE_MAX_OPTIONS];
    size_t point_count;
};

/* Context of every function in the tables. */
struct plan_reading {
    struct plan_text *text;
    struct class_fields entry; /* being read */
};

static struct plan_text *plan_file_text_of(const struct lull_json_reader *reader)
{
    return ((struct plan_reading *)reader->context)->text;
}

static int plan_file_read_kind(struct lull_json_reader *reader, enum lull_pipeline_kind *kind_out)
{
    struct lull_json_text text;
    char word[16];
    const int rc =
        lull_json_expect(reader, LULL_JSON_STRING, "expected an operation's name", &text);

    if (rc < 0)
        return rc;
    if (text.length >= sizeof(word))
        return lull_json_refuse(reader, "there is no such operation");
    memcpy(word, text.bytes, text.length);
    word[text.length] = '\0';
    if (lull_pipeline_kind_parse(word, kind_out) < 0)
        return lull_json_refuse(reader, "there is no such operation");
    return 0;
}

/* ---- classes ----------------------------------------------------------------------------- */

struct point_tuple {
    int64_t sm_mhz;
    int64_t time_ns;
    int64_t energy_nj;
};

static int plan_file_read_point(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {LULL_JSON_INTEGER("sm_mhz", struct point_tuple, sm_mhz, UINT32_MAX)},
        {LULL_JSON_SCALED("time", struct point_tuple, time_ns, 9, LULL_PIPELINE_MAX_TIME_NS)},
        {LULL_JSON_SCALED("energy", struct point_tuple, energy_nj, 9, LULL_PIPELINE_MAX_ENERGY_NJ)},
        {NULL},
    };
    struct class_fields *const entry = object;
    struct point_tuple point;
    const int rc = lull_json_read_tuple(reader, fields, &point);

    if (rc < 0)
        return rc;
    if (entry->point_count == LULL_PIPELINE_MAX_OPTIONS)
        return lull_json_refuse(reader, "a class has too many options");
    entry->points[entry->point_count++] =
        (struct lull_pipeline_point){point.time_ns, point.energy_nj, (uint32_t)point.sm_mhz};
    return 0;
}

static int read_class_kind(struct lull_json_reader *reader, void *object)
{
    return plan_file_read_kind(reader, &((struct class_fields *)object)->kind);
}

/* The points of a class are gathered first, because its name may come after them. */
static int read_class(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {LULL_JSON_OTHER("operation", read_class_kind)},
        {LULL_JSON_INTEGER("stage", struct class_fields, stage, LULL_PIPELINE_MAX_OPS)},
        {LULL_JSON_INTEGER("partner", struct class_fields, partner, LULL_PIPELINE_MAX_OPS)},
        {LULL_JSON_INTEGER("copy", struct class_fields, copy, LULL_PIPELINE_MAX_OPS)},
        {LULL_JSON_TUPLES("options", plan_file_read_point)},
        {NULL},
    };
    struct class_fields *const entry = &((struct plan_reading *)reader->context)->entry;
    struct plan_text *const text = object;
    int rc;

    entry->kind = LULL_PIPELINE_KINDS;
    entry->stage = entry->partner = entry->copy = 0;
    entry->point_count = 0;
    rc = lull_json_read_fields(reader, fields, entry);
    if (rc < 0)
        return rc;
    if (entry->kind == LULL_PIPELINE_KINDS || entry->point_count == 0)
        return lull_json_refuse(reader, "a class has no operation or no options");
    for (size_t i = 0; i < entry->point_count; i++) {
        rc = lull_pipeline_profile_add(&text->plan.profile, (uint32_t)entry->copy,
                                       (uint32_t)entry->stage, entry->kind,
                                       (uint32_t)entry->partner, &entry->points[i], reader->err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- devices and edges ------------------------------------------------------------------- */

static int read_operation_kind(struct lull_json_reader *reader, void *object)
{
    return plan_file_read_kind(reader, &((struct plan_operation *)object)->kind);
}

#define OPERATION(name, max) LULL_JSON_INTEGER(#name, struct plan_operation, name, max)

static int read_operation(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {LULL_JSON_OTHER("operation", read_operation_kind)},
        {OPERATION(stage, LULL_PIPELINE_MAX_OPS)},
        {OPERATION(partner, LULL_PIPELINE_MAX_OPS)},
        {OPERATION(copy, LULL_PIPELINE_MAX_OPS)},
        {OPERATION(microbatch, LULL_PIPELINE_MAX_OPS)},
        {OPERATION(chunk, LULL_PIPELINE_MAX_OPS)},
        {OPERATION(sm_mhz, UINT32_MAX)},
        {OPERATION(flow, LULL_DECIMAL_MAX)},
        {NULL},
    };
    struct plan_text *const text = plan_file_text_of(reader);
    struct plan_operation operation = {.kind = LULL_PIPELINE_KINDS,
                                       .device = (uint32_t)text->device_count};
    const int rc = lull_json_read_fields(reader, fields, &operation);

    (void)object;
    if (rc < 0)
        return rc;
    if (operation.kind == LULL_PIPELINE_KINDS)
        return lull_json_refuse(reader, "an operation has no name");
    return lull_trace_append(&text->operations, &text->operation_count, &operation,
                             sizeof(operation), reader->name, reader->err);
}

struct device_fields {
    double blocking_w;
};

static int plan_file_read_device(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {LULL_JSON_REAL("blocking_w", struct device_fields, blocking_w)},
        {LULL_JSON_OBJECTS("operations", read_operation)},
        {NULL},
    };
    struct plan_text *const text = object;
    struct device_fields device = {.blocking_w = -1.0};
    const int rc = lull_json_read_fields(reader, fields, &device);

    if (rc < 0)
        return rc;
    if (device.blocking_w < 0.0)
        return lull_json_refuse(reader, "a device has no blocking_w");
    return lull_trace_append(&text->plan.blocking_w, &text->device_count, &device.blocking_w,
                             sizeof(device.blocking_w), reader->name, reader->err);
}

static int plan_file_read_edge(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {LULL_JSON_INTEGER("from", struct plan_edge, from, LULL_PIPELINE_MAX_OPS)},
        {LULL_JSON_INTEGER("to", struct plan_edge, to, LULL_PIPELINE_MAX_OPS)},
        {LULL_JSON_SCALED("latency", struct plan_edge, latency_ns, 9, LULL_PIPELINE_MAX_TIME_NS)},
        {LULL_JSON_INTEGER("flow", struct plan_edge, flow, LULL_DECIMAL_MAX)},
        {NULL},
    };
    struct plan_text *const text = object;
    struct plan_edge edge;
    const int rc = lull_json_read_tuple(reader, fields, &edge);

    if (rc < 0)
        return rc;
    return lull_trace_append(&text->edges, &text->edge_count, &edge, sizeof(edge), reader->name,
                             reader->err);
}

/* ---- gaps that have a clock for waiting --------------------------------------------------- */

struct waiting_fields {
    int64_t sm_mhz;
    int64_t down_ns;
    int64_t up_ns;
    double power_w;
    double switch_j;
};

static int read_waiting_point(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {LULL_JSON_INTEGER("sm_mhz", struct waiting_fields, sm_mhz, UINT32_MAX)},
        {LULL_JSON_REAL("power_w", struct waiting_fields, power_w)},
        {LULL_JSON_SCALED("down_s", struct waiting_fields, down_ns, 9, LULL_PIPELINE_MAX_TIME_NS)},
        {LULL_JSON_SCALED("up_s", struct waiting_fields, up_ns, 9, LULL_PIPELINE_MAX_TIME_NS)},
        {LULL_JSON_REAL("switch_j", struct waiting_fields, switch_j)},
        {NULL},
    };
    struct lull_plan_file *const plan = &((struct plan_text *)object)->plan;
    struct waiting_fields point = {.power_w = -1.0};
    struct lull_pipeline_waiting_point waiting;
    const int rc = lull_json_read_fields(reader, fields, &point);

    if (rc < 0)
        return rc;
    if (point.power_w < 0.0 || plan->waiting_point_count == MAX_POINTS)
        return lull_json_refuse(reader,
                                "a clock for waiting has no power_w, or there are too many");
    waiting = (struct lull_pipeline_waiting_point){(uint32_t)point.sm_mhz, point.power_w,
                                                   point.down_ns, point.up_ns, point.switch_j};
    return lull_trace_append(&plan->waiting_points, &plan->waiting_point_count, &waiting,
                             sizeof(waiting), reader->name, reader->err);
}

struct gap_tuple {
    int64_t device;
    int64_t before;
    int64_t point;
    int64_t begin_ns;
    int64_t wake_ns;
};

static int read_gap(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {LULL_JSON_INTEGER("device", struct gap_tuple, device, LULL_PIPELINE_MAX_DEVICES)},
        {LULL_JSON_INTEGER("before", struct gap_tuple, before, LULL_PIPELINE_MAX_OPS)},
        {LULL_JSON_INTEGER("point", struct gap_tuple, point, MAX_POINTS)},
        {LULL_JSON_SCALED("begin", struct gap_tuple, begin_ns, 9, MAX_TIME_NS)},
        {LULL_JSON_SCALED("wake", struct gap_tuple, wake_ns, 9, MAX_TIME_NS)},
        {NULL},
    };
    struct lull_plan_file *const plan = &((struct plan_text *)object)->plan;
    struct lull_pipeline_wait wait = {0};
    struct gap_tuple gap;
    const int rc = lull_json_read_tuple(reader, fields, &gap);

    if (rc < 0)
        return rc;
    wait.device = (uint32_t)gap.device;
    wait.before_op = (uint32_t)gap.before;
    wait.point = (uint32_t)gap.point;
    wait.begin_ns = gap.begin_ns;
    wait.wake_ns = gap.wake_ns;
    return lull_trace_append(&plan->waits, &plan->wait_count, &wait, sizeof(wait), reader->name,
                             reader->err);
}

/* ---- the document ------------------------------------------------------------------------- */

#define TEXT(key, member) LULL_JSON_TEXT(key, struct plan_text, member)
#define REAL(key, member) LULL_JSON_REAL(key, struct plan_text, member)
#define WHOLE(key, member, max) LULL_JSON_INTEGER(key, struct plan_text, member, max)
#define SECONDS(key, member, max) LULL_JSON_SCALED(key, struct plan_text, member, 9, max)
#define SWITCHING(key, member) SECONDS(key, plan.switching.member, LULL_PIPELINE_MAX_TIME_NS)

static const struct lull_json_field switching[] = {
    {SWITCHING("down_s", down_ns)},
    {SWITCHING("up_s", up_ns)},
    {SWITCHING("dwell_s", dwell_ns)},
    {WHOLE("feed_forward", is_fed_forward, 1)},
    {SWITCHING("early_s", early_ns)},
    {SWITCHING("call_s", call_ns)},
    {WHOLE("drivers", drivers, LULL_PIPELINE_MAX_DRIVERS)},
    {NULL},
};

static const struct lull_json_field flow[] = {
    {REAL("unit_w", flow_unit_w)},
    {WHOLE("value", flow_value, LULL_DECIMAL_MAX)},
    {NULL},
};

static const struct lull_json_field waiting[] = {
    {REAL("saved_j", plan.waiting_saved_j)},
    {LULL_JSON_OBJECTS("points", read_waiting_point)},
    {LULL_JSON_TUPLES("gaps", read_gap)},
    {NULL},
};

static const struct lull_json_field document[] = {
    {WHOLE("lull_plan", version, INT32_MAX)},
    {TEXT("title", plan.title)},
    {TEXT("planner", plan.planner)},
    {WHOLE("parts", plan.parts, LULL_PIPELINE_MAX_OPS)},
    {SECONDS("deadline_s", plan.deadline_ns, MAX_TIME_NS)},
    {SECONDS("period_s", plan.period_ns, MAX_TIME_NS)},
    {SECONDS("time_s", plan.time_ns, MAX_TIME_NS)},
    {REAL("energy_j", plan.energy_j)},
    {REAL("bound_j", plan.bound_j)},
    {LULL_JSON_OBJECT("switching", switching)},
    {LULL_JSON_OBJECT("flow", flow)},
    {LULL_JSON_OBJECT("waiting", waiting)},
    {LULL_JSON_OBJECTS("classes", read_class)},
    {LULL_JSON_OBJECTS("devices", plan_file_read_device)},
    {LULL_JSON_TUPLES("edges", plan_file_read_edge)},
    {NULL},
};

/* Leaves only printable characters: the text ends up on terminals. */
static void plan_file_strip_unprintable(char *text)
{
    size_t kept = 0;

    for (const char *c = text; *c != '\0'; c++)
        if (*c >= ' ' && *c <= '~')
            text[kept++] = *c;
    text[kept] = '\0';
}

/* Reads all of a file. Every number is within the limits of its type and of the profile. The caller
 * frees the contents of the text, also after an error. */
static int plan_file_read_text(const char *path, struct plan_text *text_out, struct lull_error *err)
{
    struct plan_reading *const reading = calloc(1, sizeof(*reading));
    struct lull_source *source = NULL;
    int rc;

    *text_out = (struct plan_text){.plan.parts = 1};
    lull_pipeline_profile_init(&text_out->plan.profile);
    lull_pipeline_graph_init(&text_out->plan.graph);
    if (reading == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
    reading->text = text_out;
    rc = lull_source_open(path, &source, err);
    if (rc >= 0)
        rc = lull_json_read_document(source, path, document, text_out, reading, err);
    lull_source_close(source);
    free(reading);
    if (rc < 0)
        return rc;
    if (text_out->version != VERSION)
        return lull_error_set(
            err, LULL_E_FORMAT,
            "%s: \"lull_plan\": %d is missing; not a plan that this version can read", path,
            VERSION);
    plan_file_strip_unprintable(text_out->plan.title);
    plan_file_strip_unprintable(text_out->plan.planner);
    text_out->plan.switching.is_fed_forward = text_out->is_fed_forward != 0;
    text_out->plan.switching.drivers = (uint32_t)text_out->drivers;
    return 0;
}

/* ---- looking up --------------------------------------------------------------------------- */

struct resolver {
    const char *name;
    struct lull_error *err;
    const struct plan_text *text;
    struct lull_plan_file *plan;
};

static int plan_file_fail(const struct resolver *resolver, const char *what, size_t number)
{
    return lull_error_set(resolver->err, LULL_E_FORMAT, "%s: %s (number %zu)", resolver->name, what,
                          number);
}

static int plan_file_no_memory(const struct resolver *resolver)
{
    return lull_error_set(resolver->err, -ENOMEM, "%s: not enough memory for the plan",
                          resolver->name);
}

static int resolve_operation(const struct resolver *resolver, size_t i)
{
    struct lull_plan_file *const plan = resolver->plan;
    const struct plan_operation *const operation = &resolver->text->operations[i];
    const int class_index = lull_pipeline_profile_find(&plan->profile, (uint32_t)operation->copy,
                                                       (uint32_t)operation->stage, operation->kind,
                                                       (uint32_t)operation->partner);
    struct lull_pipeline_op op = {operation->device, 0, (uint32_t)operation->microbatch,
                                  (uint32_t)operation->chunk};

    if (class_index < 0)
        return plan_file_fail(resolver, "an operation is of no class in \"classes\"", i);
    plan->option[i] =
        lull_pipeline_point_at(&plan->profile.classes[class_index], (uint32_t)operation->sm_mhz);
    if (plan->option[i] == UINT32_MAX)
        return plan_file_fail(resolver, "an operation has a clock that its class does not have", i);
    op.class_index = (uint32_t)class_index;
    if (lull_pipeline_graph_add(&plan->graph, &op) < 0)
        return plan_file_fail(resolver, "there are too many operations or devices", i);
    return 0;
}

static int resolve_operations(const struct resolver *resolver)
{
    const size_t count = resolver->text->operation_count;

    if (count == 0)
        return lull_error_set(resolver->err, LULL_E_FORMAT, "%s: the plan has no operations",
                              resolver->name);
    resolver->plan->option = calloc(count, sizeof(*resolver->plan->option));
    if (resolver->plan->option == NULL)
        return plan_file_no_memory(resolver);
    for (size_t i = 0; i < count; i++) {
        const int rc = resolve_operation(resolver, i);

        if (rc < 0)
            return rc;
    }
    return 0;
}

static int resolve_edges(const struct resolver *resolver)
{
    const struct plan_text *const text = resolver->text;
    const int64_t count = (int64_t)text->operation_count;
    struct lull_plan_file *const plan = resolver->plan;

    for (size_t i = 0; i < text->edge_count; i++) {
        const struct plan_edge *const edge = &text->edges[i];

        if (edge->from >= count || edge->to >= count ||
            lull_pipeline_graph_connect(&plan->graph, (uint32_t)edge->from, (uint32_t)edge->to,
                                        edge->latency_ns) < 0)
            return plan_file_fail(resolver, "an edge is between operations that there are not", i);
    }
    return lull_pipeline_graph_finish(&plan->graph, &plan->profile, resolver->err);
}

/* The finished graph has its own order of edges, and one for every pair of operations. */
static void resolve_edge_flow(const struct resolver *resolver, const struct plan_edge *edge)
{
    const struct lull_pipeline_graph *const graph = &resolver->plan->graph;

    for (uint32_t k = graph->first_out[edge->from]; k < graph->first_out[edge->from + 1]; k++)
        if (graph->edges[graph->out_edges[k]].to == edge->to)
            resolver->plan->certificate.edge_flow[graph->out_edges[k]] = edge->flow;
}

/* A flow is read unchanged. The certificate's check decides whether it proves the bound. */
static int resolve_flow(const struct resolver *resolver)
{
    const struct plan_text *const text = resolver->text;
    struct lull_certificate *const certificate = &resolver->plan->certificate;

    if (lull_certificate_init(certificate, &resolver->plan->graph) < 0)
        return plan_file_no_memory(resolver);
    if (!(text->flow_unit_w > 0.0))
        return lull_error_set(resolver->err, LULL_E_FORMAT, "%s: flow.unit_w must be positive",
                              resolver->name);
    certificate->unit_w = text->flow_unit_w;
    certificate->value = text->flow_value;
    for (size_t i = 0; i < text->operation_count; i++)
        certificate->op_flow[i] = text->operations[i].flow;
    for (size_t i = 0; i < text->edge_count; i++)
        resolve_edge_flow(resolver, &text->edges[i]);
    return 0;
}

/* Checks the references of the waits against the finished graph. */
static int resolve_waits(const struct resolver *resolver)
{
    const struct lull_plan_file *const plan = resolver->plan;
    const struct lull_pipeline_graph *const graph = &plan->graph;

    for (size_t i = 0; i < plan->wait_count; i++) {
        struct lull_pipeline_wait *const wait = &plan->waits[i];
        const bool is_last = wait->before_op == graph->op_count;

        if (wait->device >= graph->device_count || wait->before_op > graph->op_count ||
            (!is_last && graph->ops[wait->before_op].device != wait->device))
            return plan_file_fail(resolver,
                                  "a gap is before an operation that its device does not have", i);
        if (wait->point >= plan->waiting_point_count)
            return plan_file_fail(resolver, "a gap is at no point of \"points\"", i);
        if (is_last)
            wait->before_op = UINT32_MAX;
    }
    return 0;
}

/* ---- all together ------------------------------------------------------------------------ */

void lull_plan_file_fini(struct lull_plan_file *plan)
{
    lull_certificate_fini(&plan->certificate);
    lull_pipeline_graph_fini(&plan->graph);
    lull_pipeline_profile_fini(&plan->profile);
    free(plan->blocking_w);
    free(plan->option);
    free(plan->waiting_points);
    free(plan->waits);
}

/* Operations come before edges, which name them, and the finished graph before waits and flow,
 * which refer to its order. */
static int plan_file_resolve(const struct resolver *resolver)
{
    static int (*const steps[])(const struct resolver *) = {resolve_operations, resolve_edges,
                                                            resolve_waits, resolve_flow};

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        const int rc = steps[i](resolver);

        if (rc < 0)
            return rc;
    }
    return 0;
}

int lull_plan_file_read(const char *path, struct lull_plan_file *plan_out, struct lull_error *err)
{
    struct plan_text text;
    const struct resolver resolver = {path, err, &text, &text.plan};
    int rc = plan_file_read_text(path, &text, err);

    if (rc >= 0)
        rc = plan_file_resolve(&resolver);
    free(text.operations);
    free(text.edges);
    if (rc < 0)
        lull_plan_file_fini(&text.plan);
    else
        *plan_out = text.plan;
    return rc;
}
