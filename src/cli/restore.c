/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/restore.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/shared/command.h"
#include "device/restore.h"
#include "wire/client.h"

enum { ANSWER_MS = 6000 };

static int restore_query_daemon(struct lull_client *client, char *reply, struct lull_error *err)
{
    struct lull_message message = {.type = LULL_MESSAGE_RESTORE};
    struct lull_message answer;
    int result =
        lull_client_call(client, &message, LULL_MESSAGE_REPLY, ANSWER_MS, &answer, NULL, err);

    if (result == 0)
        snprintf(reply, LULL_CLI_RESTORED_BYTES,
                 "lulld has revoked all leases and reset their GPUs; its log names idle GPUs, "
                 "whose clocks it verifies when they are busy");
    return result;
}

/* Reports only what was observed. */
static void restore_command_print(const struct lull_restore_report *report, char *reply)
{
    const uint32_t held = report->unconfirmed - report->idle - report->untold;
    FILE *const out = fmemopen(reply, LULL_CLI_RESTORED_BYTES, "w");

    if (out == NULL)
        return;
    fprintf(out, "%u GPUs are restored", report->restored);
    if (report->idle > 0)
        fprintf(out, "; %u were reset while idle, unconfirmed: run this again when they are busy",
                report->idle);
    if (report->untold > 0)
        fprintf(out,
                "; %u were reset, not verified: their clocks are low and the driver gives no "
                "reason; run this again when they are busy",
                report->untold);
    if (held > 0)
        fprintf(out,
                "; %u were reset, unconfirmed: something else holds their clocks, such as power or "
                "heat (lull status names it): run this again when it does not",
                held);
    if (report->foreign > 0)
        fprintf(out, "; %u keep another program's setting", report->foreign);
    fclose(out);
}

/* Restores the GPUs from this process, as lulld does when it starts: there is no lulld to ask. */
static int restore_here(const char *runtime_dir, bool is_forced, char *reply,
                        struct lull_error *err)
{
    struct lull_restore_report report = {0};
    struct lull_journal *journal;
    struct lull_devices *devices;
    int result;

    /* A reader that has gone must not end this process before everything is restored. */
    signal(SIGPIPE, SIG_IGN);
    if (geteuid() != 0)
        return lull_error_set(err, -EPERM, "no lulld answers in %s; start it, or run this as root",
                              runtime_dir);
    result = lull_journal_open(runtime_dir, &journal, err);
    if (result < 0)
        return result;
    result = lull_devices_open(&devices, err);
    if (result == 0) {
        result = is_forced ? lull_restore_forced(devices, journal, &report, err)
                           : lull_restore_all(devices, journal, &report, err);
        lull_devices_close(devices);
    }
    lull_journal_close(journal);
    if (result == 0)
        restore_command_print(&report, reply);
    return result;
}

int lull_cli_restore(const char *runtime_dir, bool is_forced,
                     char said_out[LULL_CLI_RESTORED_BYTES], struct lull_error *err)
{
    struct lull_client *client;
    int result = lull_client_open_any(runtime_dir, &client, err);

    said_out[0] = '\0';
    if (result == -ENOENT || result == -ECONNREFUSED)
        return restore_here(runtime_dir, is_forced, said_out, err);
    if (result < 0)
        return result;
    /* A daemon knows its own changes, and would attribute a reset of all GPUs to another
     * program. */
    result = is_forced
                 ? lull_error_set(err, -EBUSY,
                                  "lulld drives the GPUs: stop it before `lull restore --force`, "
                                  "or restart it with --reset-at-start")
                 : restore_query_daemon(client, said_out, err);
    lull_client_close(client);
    return result;
}

struct restore_arguments {
    const char *runtime_dir;
    bool is_forced;
};

static int restore_command_run(void *options, const struct lull_operands *operands)
{
    const struct restore_arguments *const arguments = options;
    char reply[LULL_CLI_RESTORED_BYTES];
    struct lull_error err = {0};

    (void)operands;
    if (lull_cli_restore(arguments->runtime_dir, arguments->is_forced, reply, &err) < 0)
        return lull_cli_fail("restore", &err);
    fprintf(stderr, "lull restore: %s\n", reply);
    return LULL_EXIT_OK;
}

static const struct lull_option rows[] = {
    LULL_CLI_RUNTIME_DIR_ROW(struct restore_arguments, runtime_dir),
    LULL_FLAG(
        "force", struct restore_arguments, is_forced,
        "Reset the clocks and set the default power limit of every GPU, no matter who set them.",
        .more = "For a journal that is lost or damaged."),
    {0},
};

const struct lull_program_command lull_restore_command = {
    .name = "restore",
    .summary = "undo everything that was changed on this node",
    .about = "Revokes all leases on this node and restores what Lull has changed: through lulld "
             "or, if none runs, as root from its journals. Settings of other programs stay. The "
             "clock of an idle GPU is verified when the GPU is next busy.",
    .tables = {{rows, 0}},
    .size = sizeof(struct restore_arguments),
    .run = restore_command_run,
};
