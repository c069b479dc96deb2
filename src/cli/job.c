/* lull job: passes information about jobs from a batch system to lulld.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/administer.h"
#include "cli/commands.h"
#include "cli/shared/command.h"

enum { ANSWER_MS = 6000 };

struct job_arguments {
    const char *runtime_dir;
    const char *user;
    const char *gpus;
    const char *cgroup;
    uint32_t min_mhz;
};

static int check_id(const char *id, struct lull_error *err)
{
    const struct lull_message_job_add *const fields = NULL;

    if (strlen(id) >= sizeof(fields->id) || id[0] == '.' || id[0] == '\0' ||
        strchr(id, '/') != NULL)
        return lull_error_set(err, -EINVAL, "\"%.70s\" cannot be the name of a job", id);
    return 0;
}

/* --- add --- */

/* Returns whether lulld knows a job. */
static bool job_command_is_known(struct lull_client *client, const char *id)
{
    struct lull_message message = {.type = LULL_MESSAGE_JOB_NEXT};
    struct lull_message answer;

    snprintf(message.body.job_next.id, sizeof(message.body.job_next.id), "%s", id);
    return lull_client_call(client, &message, LULL_MESSAGE_JOB, ANSWER_MS, &answer, NULL, NULL) ==
               0 &&
           strcmp(answer.body.job.id, id) == 0;
}

/* Removes a job of which only a part of the GPUs could be added. */
static void take_back(struct lull_client *client, const char *id)
{
    struct lull_message message = {.type = LULL_MESSAGE_JOB_REMOVE};
    struct lull_error error;

    snprintf(message.body.job_remove.id, sizeof(message.body.job_remove.id), "%s", id);
    if (lull_cli_query_lulld(client, &message, &error) < 0)
        fprintf(stderr, "lull job add: job %s has some of its GPUs, and cannot be removed: %s\n",
                id, error.text);
}

static int add_each(struct lull_client *client, struct lull_message *message, char *gpus,
                    uint32_t *count_out, struct lull_error *err)
{
    char *rest = NULL;
    int result = 0;

    *count_out = 0;
    for (const char *gpu = strtok_r(gpus, ",", &rest); gpu != NULL && result == 0;
         gpu = strtok_r(NULL, ",", &rest)) {
        struct lull_message_job_add *const add = &message->body.job_add;

        result = lull_cli_name_gpu(client, gpu, add->gpu, sizeof(add->gpu), err);
        if (result == 0)
            result = lull_cli_query_lulld(client, message, err);
        *count_out += result == 0;
    }
    return result;
}

static int job_command_add(struct lull_client *client, const struct job_arguments *arguments,
                           const char *id, struct lull_error *err)
{
    struct lull_message message = {.type = LULL_MESSAGE_JOB_ADD};
    struct lull_message_job_add *const add = &message.body.job_add;
    char *gpus;
    bool was_known;
    uint32_t count;
    int result = check_id(id, err);

    if (result == 0)
        result = lull_cli_find_user(arguments->user, &add->uid, err);
    if (result == 0 && arguments->cgroup != NULL &&
        (size_t)snprintf(add->cgroup, sizeof(add->cgroup), "%s", arguments->cgroup) >=
            sizeof(add->cgroup))
        result = lull_error_set(err, -EINVAL, "--cgroup: longer than %zu characters",
                                sizeof(add->cgroup) - 1);
    if (result < 0)
        return result;
    snprintf(add->id, sizeof(add->id), "%s", id);
    add->min_mhz = arguments->min_mhz;
    gpus = strdup(arguments->gpus);
    if (gpus == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for a list of GPUs");
    was_known = job_command_is_known(client, id);
    result = add_each(client, &message, gpus, &count, err);
    free(gpus);
    if (result < 0 && count > 0 && !was_known)
        take_back(client, id);
    return result;
}

static int run_add(void *options, const struct lull_operands *operands)
{
    const struct job_arguments *const arguments = options;
    struct lull_message_welcome welcome;
    struct lull_client *client;
    struct lull_error err = {0};
    int result = lull_client_open(arguments->runtime_dir, &client, &welcome, &err);

    if (result == 0) {
        result = job_command_add(client, arguments, operands->words[0], &err);
        lull_client_close(client);
    }
    return result < 0 ? lull_cli_fail("job add", &err) : LULL_EXIT_OK;
}

static const struct lull_option add_rows[] = {
    LULL_VALUE("user", "USER", TEXT, struct job_arguments, user,
               "The job's user, by name or number.", .is_required = true),
    LULL_VALUE("gpus", "LIST", TEXT, struct job_arguments, gpus,
               "The job's GPUs: indices of lull gpus, UUIDs or PCI addresses, with commas.",
               .is_required = true),
    LULL_VALUE("cgroup", "PATH", TEXT, struct job_arguments, cgroup,
               "Only processes below this control group, as in /proc/PID/cgroup, may act for it.",
               .otherwise = "every process of the user"),
    LULL_VALUE("min-sm-mhz", "MHZ", WHOLE, struct job_arguments, min_mhz,
               "No client may set the GPUs' clocks below this.", .most = 100000),
    LULL_CLI_RUNTIME_DIR_ROW(struct job_arguments, runtime_dir),
    {0},
};

const struct lull_program_command lull_job_add_command = {
    .name = "job add",
    .summary = "register a job's GPUs with lulld",
    .arguments = "JOB",
    .about = "Registers a job's GPUs with lulld, as root. For the Prolog of a batch system. From "
             "then on only the job's user may control them.",
    .after = "Slurm's Prolog: lull job add $SLURM_JOB_ID --user $SLURM_JOB_UID --gpus "
             "$SLURM_JOB_GPUS\n",
    .tables = {{add_rows, 0}},
    .operands = {.least = 1, .most = 1, .missing = "say which job"},
    .size = sizeof(struct job_arguments),
    .run = run_add,
};

/* --- remove --- */

/* Without lulld nothing is leased, and the job's file would outlive the job. */
static int forget_here(const char *runtime_dir, const char *id, struct lull_error *err)
{
    char path[4096];

    if ((size_t)snprintf(path, sizeof(path), "%s/jobs/%s", runtime_dir, id) >= sizeof(path))
        return lull_error_set(err, -ENAMETOOLONG, "%s: too long for a path", runtime_dir);
    if (unlink(path) < 0 && errno != ENOENT && errno != ENOTDIR)
        return lull_error_set(err, -errno, "%s: cannot remove it: %s", path, strerror(errno));
    return 0;
}

static int job_command_remove(const char *runtime_dir, const char *id, struct lull_error *err)
{
    struct lull_message message = {.type = LULL_MESSAGE_JOB_REMOVE};
    struct lull_message_welcome welcome;
    struct lull_client *client;
    int result = check_id(id, err);

    if (result < 0)
        return result;
    result = lull_client_open(runtime_dir, &client, &welcome, err);
    if (result == -ENOENT || result == -ECONNREFUSED)
        return forget_here(runtime_dir, id, err);
    if (result < 0)
        return result;
    snprintf(message.body.job_remove.id, sizeof(message.body.job_remove.id), "%s", id);
    result = lull_cli_query_lulld(client, &message, err);
    lull_client_close(client);
    return result;
}

static int run_remove(void *options, const struct lull_operands *operands)
{
    const struct job_arguments *const arguments = options;
    struct lull_error err = {0};
    const int result = job_command_remove(arguments->runtime_dir, operands->words[0], &err);

    return result < 0 ? lull_cli_fail("job remove", &err) : LULL_EXIT_OK;
}

static const struct lull_option remove_rows[] = {
    LULL_CLI_RUNTIME_DIR_ROW(struct job_arguments, runtime_dir),
    {0},
};

const struct lull_program_command lull_job_remove_command = {
    .name = "job remove",
    .summary = "remove a job from lulld",
    .arguments = "JOB",
    .about = "Revokes the job's GPUs from its remaining processes and waits until they are "
             "restored. For the Epilog of a batch system, as root. An unknown job is not an error.",
    .tables = {{remove_rows, 0}},
    .operands = {.least = 1, .most = 1, .missing = "say which job"},
    .size = sizeof(struct job_arguments),
    .run = run_remove,
};
