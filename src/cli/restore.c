/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
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
        fprintf(stderr, "lull restore: lulld has taken back and reset every GPU that was leased; "
                        "its log names those that were idle, whose clock it looks at when they are "
                        "busy\n");
    return result;
}

/* Says what was seen, and no more. */
static void tell(const struct lull_restore_report *report)
{
    fprintf(stderr, "lull restore: %u GPUs are restored", report->restored);
    if (report->idle > 0)
        fprintf(stderr,
                "; %u were reset while idle, unconfirmed: run this again when they are busy",
                report->idle);
    if (report->unconfirmed > report->idle)
        fprintf(stderr,
                "; %u were reset, unconfirmed: something else holds their clocks, such as power or "
                "heat (lull status names it): run this again when it does not",
                report->unconfirmed - report->idle);
    if (report->foreign > 0)
        fprintf(stderr, "; %u keep what somebody else has set", report->foreign);
    fputc('\n', stderr);
}

/* Restores the GPUs from this process, as lulld does when it starts: there is no lulld to ask. */
static int restore_here(const char *runtime_dir, bool is_forced, struct lull_error *err)
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
        tell(&report);
    return result;
}

struct restore_arguments {
    const char *runtime_dir;
    bool is_forced;
};

static int run(void *options, const struct lull_operands *operands)
{
    const struct restore_arguments *const arguments = options;
    struct lull_message_welcome welcome;
    struct lull_client *client;
    struct lull_error err = {0};
    int result;

    (void)operands;
    result = lull_client_open(arguments->runtime_dir, &client, &welcome, &err);
    if (result == 0) {
        /* A daemon knows what it has changed, and would take a reset of all GPUs for somebody
         * else's doing. */
        result =
            arguments->is_forced
                ? lull_error_set(&err, -EBUSY,
                                 "lulld drives the GPUs: stop it before `lull restore --force`, "
                                 "or restart it with --reset-at-start")
                : ask_daemon(client, &err);
        lull_client_close(client);
    } else if (result == -ENOENT || result == -ECONNREFUSED) {
        result = restore_here(arguments->runtime_dir, arguments->is_forced, &err);
    }
    return result < 0 ? lull_cli_fail("restore", &err) : LULL_EXIT_OK;
}

static const struct lull_option rows[] = {
    LULL_CLI_RUNTIME_DIR_ROW(struct restore_arguments, runtime_dir, .aliases = "r"),
    LULL_FLAG(
        "force", struct restore_arguments, is_forced,
        "Reset the clocks and set the default power limit of every GPU, whoever has set them.",
        .more = "For a journal that is lost or damaged."),
    {0},
};

const struct lull_program_command lull_restore_command = {
    .name = "restore",
    .summary = "undo everything that was changed on this node",
    .about = "Takes the GPUs of this node from every client and puts back what Lull has changed: "
             "through lulld, or, where none runs, as root from its journals. What somebody else "
             "has set stays, and an idle GPU is unconfirmed until its clock is seen.",
    .tables = {{rows, 0}},
    .size = sizeof(struct restore_arguments),
    .run = run,
};
