/* lull reload and lull revoke: requests of administrators to lulld.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "cli/administer.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "base/text.h"

enum { ANSWER_MS = 6000 }; /* a GPU is restored within a second, or reported */

int lull_cli_query_lulld(struct lull_client *client, struct lull_message *message,
                         struct lull_error *err)
{
    struct lull_message answer;

    return lull_client_call(client, message, LULL_MESSAGE_REPLY, ANSWER_MS, &answer, NULL, err);
}

int lull_cli_find_user(const char *text, uint32_t *uid_out, struct lull_error *err)
{
    const struct passwd *user;
    int64_t number;

    if (lull_text_parse_int(text, 0, (int64_t)UINT32_MAX - 1, &number) == 0) {
        *uid_out = (uint32_t)number;
        return 0;
    }
    user = getpwnam(text);
    if (user == NULL)
        return lull_error_set(err, -EINVAL, "there is no user \"%.100s\"", text);
    *uid_out = user->pw_uid;
    return 0;
}

static int find_by_index(struct lull_client *client, uint32_t index, char *uuid_out, size_t size,
                         struct lull_error *err)
{
    struct lull_message message = {.type = LULL_MESSAGE_STATUS};
    struct lull_message answer;
    int result;

    message.body.status.gpu = index;
    result = lull_client_call(client, &message, LULL_MESSAGE_STATE, ANSWER_MS, &answer, NULL, err);
    if (result == 0)
        snprintf(uuid_out, size, "%s", answer.body.state.uuid);
    return result;
}

int lull_cli_name_gpu(struct lull_client *client, const char *text, char *name_out, size_t size,
                      struct lull_error *err)
{
    int64_t index;

    if (lull_text_parse_int(text, 0, UINT32_MAX, &index) == 0)
        return find_by_index(client, (uint32_t)index, name_out, size, err);
    if ((size_t)snprintf(name_out, size, "%s", text) >= size)
        return lull_error_set(err, -EINVAL, "%.60s...: invalid GPU name", text);
    return 0;
}

/* --- reload --- */

struct reload_arguments {
    const char *runtime_dir;
};

static int administer_reload(void *options, const struct lull_operands *operands)
{
    const struct reload_arguments *const arguments = options;
    struct lull_message message = {.type = LULL_MESSAGE_RELOAD};
    struct lull_message_welcome welcome;
    struct lull_client *client;
    struct lull_error err = {0};
    int result = lull_client_open(arguments->runtime_dir, &client, &welcome, &err);

    (void)operands;
    if (result == 0) {
        result = lull_cli_query_lulld(client, &message, &err);
        lull_client_close(client);
    }
    return result < 0 ? lull_cli_fail("reload", &err) : LULL_EXIT_OK;
}

static const struct lull_option reload_rows[] = {
    LULL_CLI_RUNTIME_DIR_ROW(struct reload_arguments, runtime_dir),
    {0},
};

const struct lull_program_command lull_reload_command = {
    .name = "reload",
    .summary = "reload lulld's policy",
    .about = "Reloads lulld's policy atomically. If it contains an error, the old policy stays in "
             "force, and the error is reported with file and line. Leases that the new policy "
             "forbids, or whose clock range it narrows, are revoked at once.",
    .tables = {{reload_rows, 0}},
    .size = sizeof(struct reload_arguments),
    .run = administer_reload,
};

/* --- revoke --- */

struct revoke_arguments {
    const char *runtime_dir;
    const char *gpu;
    const char *job;
    const char *user;
};

static int administer_fill(struct lull_client *client, const struct revoke_arguments *arguments,
                           struct lull_message_revoke *revoke, struct lull_error *err)
{
    if (arguments->gpu != NULL) {
        revoke->target = LULL_MESSAGE_OF_GPU;
        return lull_cli_name_gpu(client, arguments->gpu, revoke->name, sizeof(revoke->name), err);
    }
    if (arguments->user != NULL) {
        revoke->target = LULL_MESSAGE_OF_USER;
        return lull_cli_find_user(arguments->user, &revoke->uid, err);
    }
    revoke->target = LULL_MESSAGE_OF_JOB;
    snprintf(revoke->name, sizeof(revoke->name), "%s", arguments->job);
    return 0;
}

static int administer_revoke(void *options, const struct lull_operands *operands)
{
    const struct revoke_arguments *const arguments = options;
    struct lull_message message = {.type = LULL_MESSAGE_REVOKE};
    struct lull_message_welcome welcome;
    struct lull_client *client;
    struct lull_error err = {0};
    int result = lull_client_open(arguments->runtime_dir, &client, &welcome, &err);

    (void)operands;
    if (result == 0) {
        result = administer_fill(client, arguments, &message.body.revoke, &err);
        if (result == 0)
            result = lull_cli_query_lulld(client, &message, &err);
        lull_client_close(client);
    }
    return result < 0 ? lull_cli_fail("revoke", &err) : LULL_EXIT_OK;
}

static int check_revoke(void *options, const struct lull_operands *operands, struct lull_error *err)
{
    const struct revoke_arguments *const arguments = options;

    (void)operands;
    if (arguments->gpu == NULL && arguments->job == NULL && arguments->user == NULL)
        return lull_error_set(err, -EINVAL, "missing --gpu, --job or --user");
    return 0;
}

static const struct lull_option revoke_rows[] = {
    LULL_VALUE("gpu", "N", TEXT, struct revoke_arguments, gpu,
               "The lease of this GPU, as `lull gpus` numbers it, or by its UUID or PCI address.",
               .letter = 'g', .excludes = "job|user"),
    LULL_VALUE("job", "NAME", TEXT, struct revoke_arguments, job,
               "The leases of this job's user on this job's GPUs.", .excludes = "user"),
    LULL_VALUE("user", "USER", TEXT, struct revoke_arguments, user,
               "All leases of this user, by name or number."),
    LULL_CLI_RUNTIME_DIR_ROW(struct revoke_arguments, runtime_dir),
    {0},
};

const struct lull_program_command lull_revoke_command = {
    .name = "revoke",
    .summary = "revoke GPU leases",
    .about = "Revokes leases and waits until their GPUs are restored. For administrators. A client "
             "that is still permitted leases the GPU again within two seconds. To prevent that, "
             "change the policy and run lull reload, or remove its job.",
    .tables = {{revoke_rows, 0}},
    .size = sizeof(struct revoke_arguments),
    .check = check_revoke,
    .run = administer_revoke,
};
