/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/node.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/node_json.h"
#include "cli/serve/jobs.h"
#include "governor/report/report_fields.h"
#include "governor/run/opening.h"
#include "governor/run/sampler.h"
#include "wire/client.h"

/* Default: the retry interval for a missing driver or lulld, and the time that a look waits for the
 * driver to open, for readings, and for an answer of lulld. */
static const int64_t again_ns = 5 * LULL_NS_PER_S;
static const int64_t opening_ns = 2 * LULL_NS_PER_S;
static const int64_t reading_ns = 100 * LULL_NS_PER_MS;
enum { ANSWER_MS = 500 };

/* An older reading is not shown: a reader would take it for the present one. */
static const int64_t old_ns = 3 * LULL_NS_PER_S;

/* Fields that change within a second are read with every look, the others once a second, because
 * each call costs the driver time. Their period is a little shorter, so that a look that comes
 * early does not delay them by a second. */
static const uint32_t fast_fields =
    LULL_READING_SM_CLOCK | LULL_READING_POWER | LULL_READING_REASONS;
static const int64_t slow_ns = LULL_NS_PER_S - 150 * LULL_NS_PER_MS;

struct lull_serve_node {
    const char *runtime_dir;
    char hostname[256];
    struct lull_devices *devices; /* NULL: they are not open */
    struct lull_sampler *sampler;
    struct lull_error devices_error;
    int64_t devices_tried_ns;
    uint32_t gpu_count;
    struct lull_sample samples[LULL_DEVICE_MAX_GPUS]; /* with the time of the fast fields */
    int64_t slow_read_ns[LULL_DEVICE_MAX_GPUS];       /* of the others; 0: never */
    uint64_t energy_resets[LULL_DEVICE_MAX_GPUS];     /* number of restarts of a counter */
    struct lull_client *client;                       /* NULL: lulld does not answer */
    struct lull_error client_error;
    int64_t client_tried_ns;
    int64_t states_ns; /* time of the last request to lulld; 0: never */
    uint32_t state_count;
    struct lull_message_state states[LULL_DEVICE_MAX_GPUS];
    json_t *state_objects[LULL_DEVICE_MAX_GPUS]; /* the same; several documents share them */
    struct lull_serve_jobs jobs;
};

struct lull_serve_node *lull_serve_node_create(const char *runtime_dir, bool is_for_all)
{
    struct lull_serve_node *node = calloc(1, sizeof(*node));

    if (node == NULL)
        return NULL;
    node->runtime_dir = runtime_dir;
    node->jobs.is_for_all = is_for_all;
    gethostname(node->hostname, sizeof(node->hostname) - 1);
    return node;
}

/* Closes the GPUs. False: the driver has not returned from a reading, and they stay as they are. */
static bool serve_node_close_devices(struct lull_serve_node *node)
{
    if (lull_sampler_stop(node->sampler, lull_now_ns() + LULL_NS_PER_S) < 0)
        return false;
    node->sampler = NULL;
    lull_devices_close(node->devices);
    node->devices = NULL;
    return true;
}

/* ---- the driver -------------------------------------------------------------------------- */

static void serve_node_open_devices(struct lull_serve_node *node, int64_t now_ns)
{
    uint32_t gpus[LULL_DEVICE_MAX_GPUS];

    if (node->devices_tried_ns != 0 && now_ns - node->devices_tried_ns < again_ns)
        return;
    node->devices_tried_ns = now_ns;
    if (lull_devices_open_until(now_ns + opening_ns, &node->devices, &node->devices_error) < 0) {
        node->devices = NULL;
        return;
    }
    node->gpu_count = lull_devices_count(node->devices);
    for (uint32_t gpu = 0; gpu < node->gpu_count; gpu++)
        gpus[gpu] = gpu;
    memset(node->samples, 0, sizeof(node->samples));
    memset(node->slow_read_ns, 0, sizeof(node->slow_read_ns));
    if (lull_sampler_start(node->devices, gpus, node->gpu_count, &node->sampler,
                           &node->devices_error) < 0) {
        lull_devices_close(node->devices);
        node->devices = NULL;
    }
}

static void serve_node_take_samples(struct lull_serve_node *node)
{
    struct lull_sample sample;
    uint32_t wanted;
    uint32_t gpu;

    while (lull_sampler_take(node->sampler, &gpu, &wanted, &sample)) {
        struct lull_sample *const kept = &node->samples[gpu];

        if ((kept->reading.valid & sample.reading.valid & LULL_READING_ENERGY) != 0 &&
            sample.reading.energy_mj < kept->reading.energy_mj)
            node->energy_resets[gpu]++;
        if (sample.reading.valid == 0) /* the stored values are of a GPU that is gone */
            wanted = LULL_READING_ALL;
        lull_device_keep_reading(&kept->reading, wanted, &sample.reading);
        kept->time_ns = sample.time_ns;
        if (wanted == LULL_READING_ALL)
            node->slow_read_ns[gpu] = sample.time_ns;
    }
}

/* Returns the fields to read of a GPU. All fields are read if the last reading had no fast ones:
 * the GPU may be back, or may support only the others. */
static uint32_t find_wanted(const struct lull_serve_node *node, uint32_t gpu, int64_t now_ns)
{
    const uint32_t reported = node->samples[gpu].reading.valid & fast_fields;

    if (reported == 0 || now_ns - node->slow_read_ns[gpu] >= slow_ns)
        return LULL_READING_ALL;
    return fast_fields;
}

/* Returns whether no GPU reports anything, for example because the driver was reloaded. */
static bool is_all_silent(const struct lull_serve_node *node)
{
    for (uint32_t gpu = 0; gpu < node->gpu_count; gpu++)
        if (node->samples[gpu].reading.valid != 0 || node->samples[gpu].time_ns == 0)
            return false;
    return true;
}

static void read_devices(struct lull_serve_node *node, int64_t now_ns)
{
    struct lull_sampler_round round;

    if (node->devices == NULL)
        serve_node_open_devices(node, now_ns);
    if (node->devices == NULL)
        return;
    for (uint32_t gpu = 0; gpu < node->gpu_count; gpu++)
        round.wanted[gpu] = find_wanted(node, gpu, now_ns);
    lull_sampler_ask(node->sampler, &round);
    lull_sampler_wait(node->sampler, now_ns + reading_ns);
    serve_node_take_samples(node);
    if (node->gpu_count > 0 && is_all_silent(node) && now_ns - node->devices_tried_ns >= again_ns &&
        serve_node_close_devices(node))
        serve_node_open_devices(node, now_ns);
}

/* ---- lulld ------------------------------------------------------------------------------- */

static void forget_states(struct lull_serve_node *node)
{
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++) {
        json_decref(node->state_objects[gpu]);
        node->state_objects[gpu] = NULL;
    }
}

static void serve_node_drop_daemon(struct lull_serve_node *node)
{
    forget_states(node);
    lull_client_close(node->client);
    node->client = NULL;
    node->state_count = 0;
}

static void connect_daemon(struct lull_serve_node *node, int64_t now_ns)
{
    struct lull_message_welcome welcome;

    if (node->client_tried_ns != 0 && now_ns - node->client_tried_ns < again_ns)
        return;
    node->client_tried_ns = now_ns;
    if (lull_client_open(node->runtime_dir, &node->client, &welcome, &node->client_error) < 0) {
        node->client = NULL;
        return;
    }
    node->state_count =
        welcome.gpu_count < LULL_DEVICE_MAX_GPUS ? welcome.gpu_count : LULL_DEVICE_MAX_GPUS;
}

static void serve_node_store_state(struct lull_serve_node *node, uint32_t gpu,
                                   const struct lull_message_state *state)
{
    node->states[gpu] = *state;
    json_decref(node->state_objects[gpu]);
    node->state_objects[gpu] = lull_node_state_json(state);
}

/* lulld answers at most a thousand messages per second. Its state is needed only once a second. */
static void serve_node_query_daemon(struct lull_serve_node *node, int64_t now_ns)
{
    if (node->states_ns != 0 && now_ns - node->states_ns < LULL_NS_PER_S - 50 * LULL_NS_PER_MS)
        return;
    node->states_ns = now_ns;
    if (node->client == NULL)
        connect_daemon(node, now_ns);
    for (uint32_t gpu = 0; node->client != NULL && gpu < node->state_count; gpu++) {
        struct lull_message message = {.type = LULL_MESSAGE_STATUS};
        struct lull_message answer;

        message.body.status.gpu = gpu;
        if (lull_client_call(node->client, &message, LULL_MESSAGE_STATE, ANSWER_MS, &answer, NULL,
                             &node->client_error) < 0)
            serve_node_drop_daemon(node);
        else
            serve_node_store_state(node, gpu, &answer.body.state);
    }
}

/* Returns which of the states is that of a GPU; state_count: none. */
static uint32_t find_state(const struct lull_serve_node *node, const char *uuid)
{
    uint32_t i = 0;

    while (i < node->state_count && strcmp(node->states[i].uuid, uuid) != 0)
        i++;
    return i;
}

void lull_serve_node_destroy(struct lull_serve_node *node)
{
    if (node == NULL)
        return;
    serve_node_close_devices(node);
    serve_node_drop_daemon(node);
    free(node);
}

/* ---- the document ------------------------------------------------------------------------ */

/* Returns the reason why a figure of a GPU is unknown. There are few different sentences, because
 * they are labels of a metric. */
static const char *serve_node_explain(const struct lull_serve_node *node, uint32_t gpu,
                                      const char *key, const struct lull_message_state *state)
{
    const struct lull_sample *const sample = &node->samples[gpu];
    const struct lull_device_info *const info = lull_device_info(node->devices, gpu);

    if (strcmp(key, "daemon") == 0 || strcmp(key, "leased") == 0)
        return node->client != NULL ? "lulld has no such GPU" : "lulld does not answer";
    if (lull_now_ns() - sample->time_ns > old_ns)
        return "the driver does not answer";
    if (sample->reading.valid == 0)
        return "the GPU is lost, or its driver is away";
    if (strcmp(key, "energy_j") == 0 && (info->capabilities & LULL_CAPABILITY_ENERGY_COUNTER) == 0)
        return "the GPU has no energy counter";
    if (state != NULL && state->is_partitioned)
        return "the driver does not report it for a GPU in MIG mode";
    return "the driver does not report it";
}

/* Adds "unknown": for each of its fields that is null, why it is. */
static void add_unknown(const struct lull_serve_node *node, uint32_t gpu, json_t *object,
                        const struct lull_message_state *state)
{
    json_t *const unknown = json_object();
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value) if (json_is_null(value))
        lull_field_text(unknown, key, serve_node_explain(node, gpu, key, state));
    lull_field_json(object, "unknown", unknown);
}

static json_t *serve_node_gpu_as_json(const struct lull_serve_node *node, uint32_t gpu,
                                      int64_t now_ns)
{
    const struct lull_device_info *const info = lull_device_info(node->devices, gpu);
    const uint32_t at = find_state(node, info->uuid);
    const struct lull_message_state *const state =
        at < node->state_count ? &node->states[at] : NULL;
    struct lull_sample sample = node->samples[gpu];
    json_t *object;

    if (now_ns - sample.time_ns > old_ns)
        sample.reading.valid = 0;
    object = lull_node_gpu_json(gpu, info, &sample.reading);
    lull_field_integer(object, "energy_resets", (json_int_t)node->energy_resets[gpu]);
    lull_field_boolean(object, "answers", sample.reading.valid != 0);
    lull_field_known(object, "age_s", (double)(now_ns - sample.time_ns) * 1e-9,
                     sample.time_ns != 0);
    lull_field_known(object, "slow_age_s", (double)(now_ns - node->slow_read_ns[gpu]) * 1e-9,
                     node->slow_read_ns[gpu] != 0);
    lull_field_json(object, "leased", state != NULL ? json_boolean(state->is_leased) : json_null());
    lull_field_json(object, "daemon",
                    state != NULL ? json_incref(node->state_objects[at]) : json_null());
    add_unknown(node, gpu, object, state);
    return object;
}

/* Adds the sum of the GPUs' power, and of how many GPUs it is. */
static void add_total(json_t *document, const json_t *gpus)
{
    double power_w = 0.0;
    size_t known = 0;
    size_t index;
    json_t *gpu;

    json_array_foreach(gpus, index, gpu)
    {
        const json_t *const power = json_object_get(gpu, "power_w");

        power_w += json_number_value(power);
        known += json_is_number(power);
    }
    lull_field_known(document, "power_w", power_w, known > 0);
    lull_field_integer(document, "power_gpus", (json_int_t)known);
}

static json_t *as_json(struct lull_serve_node *node, int64_t now_ns)
{
    json_t *const document = json_object();
    json_t *const gpus = json_array();
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    lull_field_integer(document, "version", 1);
    lull_field_number(document, "time_s", (double)wall.tv_sec + (double)wall.tv_nsec * 1e-9);
    lull_field_text(document, "hostname", node->hostname);
    lull_field_text(document, "lull_version", LULL_VERSION);
    for (uint32_t gpu = 0; node->devices != NULL && gpu < node->gpu_count; gpu++)
        json_array_append_new(gpus, serve_node_gpu_as_json(node, gpu, now_ns));
    lull_field_text(document, "vendor",
                    node->devices != NULL ? lull_devices_vendor(node->devices) : NULL);
    lull_field_text(document, "driver_version",
                    node->devices != NULL ? lull_devices_driver_version(node->devices) : NULL);
    lull_field_boolean(document, "driver_open", node->devices != NULL);
    lull_field_text(document, "driver_reason",
                    node->devices != NULL ? NULL : node->devices_error.text);
    lull_field_boolean(document, "daemon_up", node->client != NULL);
    lull_field_text(document, "daemon_reason",
                    node->client != NULL ? NULL : node->client_error.text);
    add_total(document, gpus);
    lull_field_json(document, "gpus", gpus);
    lull_field_json(document, "jobs", lull_serve_jobs_look(&node->jobs));
    return document;
}

json_t *lull_serve_node_look(struct lull_serve_node *node)
{
    read_devices(node, lull_now_ns());
    serve_node_query_daemon(node, lull_now_ns());
    return as_json(node, lull_now_ns());
}
