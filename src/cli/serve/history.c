/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/history.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static float number_or_nan(const json_t *value)
{
    return json_is_number(value) ? (float)json_number_value(value) : NAN;
}

static void forget(float *values)
{
    for (uint32_t i = 0; i < LULL_SERVE_SECONDS; i++)
        values[i] = NAN;
}

void lull_serve_history_init(struct lull_serve_history *history)
{
    memset(history, 0, sizeof(*history));
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        forget(history->power_w[gpu]);
}

/* Returns the run of this name if it is a server's; NULL: there is none. */
static const json_t *find_server(const json_t *jobs, const char *name)
{
    size_t index;
    json_t *job;

    json_array_foreach((json_t *)jobs, index, job)
    {
        const char *const own = json_string_value(json_object_get(job, "name"));

        if (own != NULL && strcmp(own, name) == 0)
            return json_is_object(json_object_get(job, "serving")) ? job : NULL;
    }
    return NULL;
}

const float *lull_serve_history_of(const struct lull_serve_history *history, const char *name)
{
    for (uint32_t i = 0; i < LULL_SERVE_SERVERS; i++)
        if (strcmp(history->servers[i].name, name) == 0)
            return history->servers[i].j_per_token;
    return NULL;
}

/* Gives a server a place, unless it has one or all places are taken. */
static void admit(struct lull_serve_history *history, const json_t *job)
{
    const char *const name = json_string_value(json_object_get(job, "name"));

    if (name == NULL || name[0] == '\0' || !json_is_object(json_object_get(job, "serving")) ||
        lull_serve_history_of(history, name) != NULL)
        return;
    for (uint32_t i = 0; i < LULL_SERVE_SERVERS; i++)
        if (history->servers[i].name[0] == '\0') {
            snprintf(history->servers[i].name, sizeof(history->servers[i].name), "%s", name);
            forget(history->servers[i].j_per_token);
            return;
        }
}

static void add_servers(struct lull_serve_history *history, const json_t *jobs)
{
    size_t index;
    json_t *job;

    for (uint32_t i = 0; i < LULL_SERVE_SERVERS; i++)
        if (find_server(jobs, history->servers[i].name) == NULL)
            history->servers[i].name[0] = '\0';
    json_array_foreach((json_t *)jobs, index, job) admit(history, job);
    for (uint32_t i = 0; i < LULL_SERVE_SERVERS; i++) {
        const json_t *const server =
            json_object_get(find_server(jobs, history->servers[i].name), "serving");

        history->servers[i].j_per_token[history->next] =
            number_or_nan(json_object_get(server, "j_per_output_token"));
    }
}

void lull_serve_history_add(struct lull_serve_history *history, const json_t *document)
{
    const json_t *const gpus = json_object_get(document, "gpus");

    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        history->power_w[gpu][history->next] =
            number_or_nan(json_object_get(json_array_get(gpus, gpu), "power_w"));
    add_servers(history, json_object_get(document, "jobs"));
    history->next = (history->next + 1) % LULL_SERVE_SECONDS;
}
