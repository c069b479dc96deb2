/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/restore.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/command.h"
#include "device/restore.h"
#include "wire/client.h"

enum { ANSWER_MS = 6000 };

static int ask_daemon(struct lull_client *client, struct lull_error *err)
{
    struct lull_message message = {.type = LULL_MESSAGE_RESTORE};
    struct lull_message answer;
    int result =
        lull_client_call(client, &message, LULL_MESSAGE_REPLY, ANSWER_MS, &answer, NULL, err);

    if (result == 0)
        fprintf(stderr, "lulld has restored every GPU that was leased\n");
    return result;
}

/* Nobody serves: the same path that lulld takes at its start. */
static int restore_here(const char *runtime_dir, struct lull_error *err)
{
    struct lull_restore_report report = {0};
    struct lull_journal *journal;
    struct lull_devices *devices;
    int result;

    if (geteuid() != 0)
        return lull_error_set(err, -EPERM, "no lulld answers in %s; without it this needs root",
                              runtime_dir);
    result = lull_journal_open(runtime_dir, &journal, err);
    if (result < 0)
        return result;
    result = lull_devices_open(&devices, err);
    if (result == 0) {
        result = lull_restore_all(devices, journal, &report, err);
        lull_devices_close(devices);
    }
    lull_journal_close(journal);
    if (result == 0)
        fprintf(stderr, "restored %u GPUs\n", report.restored);
    return result;
}

int lull_restore_main(int argc, char **argv)
{
    struct lull_message_welcome welcome;
    struct lull_cli_options options;
    struct lull_client *client;
    struct lull_error error = {0};
    int result;

    lull_cli_parse(
        argc, argv, LULL_CLI_RUNTIME_DIR,
        "Takes the GPUs of this node from every client and puts back what Lull has changed.",
        &options);
    result = lull_client_open(options.runtime_dir, &client, &welcome, &error);
    if (result == 0) {
        result = ask_daemon(client, &error);
        lull_client_close(client);
    } else if (result == -ENOENT || result == -ECONNREFUSED) {
        result = restore_here(options.runtime_dir, &error);
    }
    return result < 0 ? lull_cli_fail("restore", &error) : LULL_EXIT_OK;
}
