/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/json_string.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "cli/node_json.h"
#include "device/writer.h"
#include "wire/client.h"

enum {
    ANSWER_MS = 2000,
    OLD_MS = 3000, /* every GPU that answers is read each second */
};

static int status_command_query(struct lull_client *client, uint32_t gpu,
                                struct lull_message_state *state_out, struct lull_error *err)
{
    struct lull_message message = {.type = LULL_MESSAGE_STATUS};
    struct lull_message answer;
    int result;

    message.body.status.gpu = gpu;
    result = lull_client_call(client, &message, LULL_MESSAGE_STATE, ANSWER_MS, &answer, NULL, err);
    if (result == 0)
        *state_out = answer.body.state;
    return result;
}

static void print_state(const struct lull_message_state *state)
{
    printf("%3u  %s  %s  %s\n     ", state->gpu, lull_node_health_name(state), state->name,
           state->uuid);
    if (state->is_leased)
        printf("leased by process %u of user %u, %u to %u MHz", state->owner_pid, state->owner_uid,
               state->min_mhz, state->max_mhz);
    else
        printf("not leased");
    if (state->health == LULL_WRITER_LOST)
        printf(", its clock is not known");
    else if (state->applied_mhz != 0)
        printf(", locked at %u MHz", state->applied_mhz);
    else
        printf(", its clock is not locked");
    if (state->limit_mw != 0)
        printf(", power limit %u W", state->limit_mw / 1000);
    for (const struct lull_node_word *word = lull_node_profiles; word->text != NULL; word++)
        if ((state->power_profiles & word->bit) != 0)
            printf(", power profile %s", word->text);
    if (state->cap_left_ms != 0 && state->cap_mhz != 0)
        printf(", capped at %u MHz for %.0f s%s", state->cap_mhz, state->cap_left_ms * 1e-3,
               state->status == LULL_E_NOT_APPLIED ? " (without effect)" : "");
    if (state->cap_left_ms != 0 && state->cap_limit_mw != 0)
        printf(", capped at %u W for %.0f s", state->cap_limit_mw / 1000,
               state->cap_left_ms * 1e-3);
    if (state->is_partitioned)
        printf("; MIG is on, so it is not leased");
    if (state->xids != 0)
        printf("\n     errors: %llu XIDs, the last was %u", (unsigned long long)state->xids,
               state->last_xid);
    if (state->age_ms != LULL_MESSAGE_NEVER && state->age_ms >= OLD_MS)
        printf("\n     data is %.1f s old", state->age_ms * 1e-3);
    printf("\n     clock changes: %llu written; %llu dropped because late, %llu expired,\n     "
           "%llu refused by the driver, %llu without effect\n",
           (unsigned long long)state->writes, (unsigned long long)state->dropped,
           (unsigned long long)state->expired, (unsigned long long)state->failed,
           (unsigned long long)state->disobeyed);
}

/* --- jobs --- */

static int status_query_job(struct lull_client *client, const struct lull_message_job *last,
                            struct lull_message_job *job_out, struct lull_error *err)
{
    struct lull_message message = {.type = LULL_MESSAGE_JOB_NEXT};
    struct lull_message answer;
    int result;

    memcpy(message.body.job_next.id, last->id, sizeof(message.body.job_next.id));
    memcpy(message.body.job_next.uuid, last->uuid, sizeof(message.body.job_next.uuid));
    result = lull_client_call(client, &message, LULL_MESSAGE_JOB, ANSWER_MS, &answer, NULL, err);
    if (result == 0)
        *job_out = answer.body.job;
    return result;
}

static json_t *status_command_job_json(const struct lull_message_job *job)
{
    return json_pack("{s:o, s:I, s:o, s:o, s:o}", "id", lull_json_string(job->id), "uid",
                     (json_int_t)job->uid, "gpu_uuid", lull_json_string(job->uuid), "cgroup",
                     job->cgroup[0] != '\0' ? lull_json_string(job->cgroup) : json_null(),
                     "min_sm_mhz",
                     job->min_mhz != 0 ? json_integer((json_int_t)job->min_mhz) : json_null());
}

static void print_job(const struct lull_message_job *job)
{
    printf("job %s of user %u: %s", job->id, job->uid, job->uuid);
    if (job->min_mhz != 0)
        printf(", not below %u MHz", job->min_mhz);
    if (job->cgroup[0] != '\0')
        printf(", control group %s", job->cgroup);
    printf("\n");
}

static int show_jobs(struct lull_client *client, json_t *document, bool is_json,
                     struct lull_error *err)
{
    struct lull_message_job job = {0};
    json_t *const jobs = json_array();
    int result;

    json_object_set_new(document, "jobs", jobs);
    while ((result = status_query_job(client, &job, &job, err)) == 0 && job.id[0] != '\0')
        if (is_json)
            json_array_append_new(jobs, status_command_job_json(&job));
        else
            print_job(&job);
    if (result < 0)
        return result;
    json_object_set_new(document, "hidden_job_gpus", json_integer((json_int_t)job.hidden_count));
    if (!is_json && job.hidden_count != 0)
        printf("%u GPUs belong to jobs of other users; only root and administrators see those "
               "jobs\n",
               job.hidden_count);
    return 0;
}

/* --- the command --- */

static int status_command_show(struct lull_client *client, uint32_t gpu_count, bool is_json,
                               struct lull_error *err)
{
    json_t *gpus = json_array();
    json_t *document = json_pack("{s:o}", "gpus", gpus);
    int result = 0;

    if (gpu_count == 0) { /* lulld reports the reason */
        struct lull_message_state unused;

        json_decref(document);
        return status_command_query(client, 0, &unused, err);
    }
    for (uint32_t gpu = 0; gpu < gpu_count && result == 0; gpu++) {
        struct lull_message_state state;

        /* Messages have a fixed size, so each GPU is requested by itself. */
        result = status_command_query(client, gpu, &state, err);
        if (result == 0 && is_json)
            json_array_append_new(gpus, lull_node_state_json(&state));
        else if (result == 0)
            print_state(&state);
    }
    if (result == 0)
        result = show_jobs(client, document, is_json, err);
    if (result == 0 && is_json)
        return lull_cli_print_json(document, 0);
    json_decref(document);
    return result;
}

struct status_arguments {
    bool is_json;
    const char *runtime_dir;
};

static int status_command_run(void *options, const struct lull_operands *operands)
{
    const struct status_arguments *const arguments = options;
    struct lull_message_welcome welcome;
    struct lull_client *client;
    struct lull_error err = {0};
    int result;

    (void)operands;
    result = lull_client_open(arguments->runtime_dir, &client, &welcome, &err);
    if (result < 0)
        return lull_cli_fail("status", &err);
    result = status_command_show(client, welcome.gpu_count, arguments->is_json, &err);
    lull_client_close(client);
    return result < 0 ? lull_cli_fail("status", &err) : LULL_EXIT_OK;
}

static const struct lull_option rows[] = {
    LULL_JSON_ROW(struct status_arguments, is_json),
    LULL_CLI_RUNTIME_DIR_ROW(struct status_arguments, runtime_dir),
    {0},
};

const struct lull_program_command lull_status_command = {
    .name = "status",
    .summary = "show leases and settings of lulld",
    .about = "Shows the lease holder of each GPU of this node, the settings made by lulld, and the "
             "jobs of lull job add. Root and administrators see all jobs, other users their own.",
    .tables = {{rows, 0}},
    .size = sizeof(struct status_arguments),
    .run = status_command_run,
};
