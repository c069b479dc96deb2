/*
 * lulld: the privileged half of Lull. Small and boring: it leases clocks, and puts everything back.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <argp.h>
#include <errno.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/text.h"
#include "daemon/server.h"
#include "device/restore.h"

const char *argp_program_version = "lulld " LULL_VERSION;

enum { KEY_SOCKET_MODE = 256, KEY_SOCKET_GROUP, KEY_ALLOW_ALL, KEY_RESTORE, KEY_READY_FD };

static const struct argp_option option_table[] = {
    {"runtime-dir", 'r', "DIR", 0,
     "Socket, lock and journal (default: $LULL_RUNTIME_DIR or /run/lull)", 0},
    {"socket-mode", KEY_SOCKET_MODE, "OCTAL", 0,
     "Who may open the socket, and so lease GPUs (default: 0660)", 0},
    {"socket-group", KEY_SOCKET_GROUP, "GROUP", 0, "Group of the socket", 0},
    {"allow-all", KEY_ALLOW_ALL, NULL, 0, "Every user may lease GPUs: --socket-mode 0666", 0},
    {"restore", KEY_RESTORE, NULL, 0, "Put back what a dead lulld has left, and exit", 0},
    {"ready-fd", KEY_READY_FD, "N", 0, "Write a line to this descriptor when listening", 0},
    {0},
};

struct settings {
    struct lull_server_options server;
    bool is_restoring;
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct settings *settings = state->input;
    const struct group *group;
    int64_t number;
    char *end;

    switch (key) {
    case 'r':
        settings->server.runtime_dir = argument;
        return 0;
    case KEY_SOCKET_MODE:
        settings->server.socket_mode = (mode_t)strtoul(argument, &end, 8);
        if (end == argument || *end != '\0' || settings->server.socket_mode > 0777)
            argp_error(state, "--socket-mode: %s is not an octal mode such as 0660", argument);
        return 0;
    case KEY_SOCKET_GROUP:
        group = getgrnam(argument);
        if (group == NULL)
            argp_error(state, "--socket-group: there is no group %s", argument);
        else
            settings->server.socket_group = group->gr_gid;
        return 0;
    case KEY_ALLOW_ALL:
        settings->server.socket_mode = 0666;
        return 0;
    case KEY_RESTORE:
        settings->is_restoring = true;
        return 0;
    case KEY_READY_FD:
        if (lull_text_parse_int(argument, 0, 1 << 20, &number) < 0)
            argp_error(state, "--ready-fd: %s is not a descriptor", argument);
        settings->server.ready_fd = (int)number;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "%s: lulld takes no arguments", argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .doc = "Leases GPU clocks to `lull run` and puts them back when a client ends, "
           "however it ends.",
};

/* Restore comes first: nobody gets a GPU that a dead daemon has left lowered. */
static int work(struct lull_devices *devices, struct lull_journal *journal,
                const struct settings *settings, struct lull_error *err)
{
    struct lull_restore_report report;
    int result = lull_restore_all(devices, journal, &report, err);

    if (settings->is_restoring)
        return result;
    return lull_server_run(devices, journal, &settings->server, err);
}

int main(int argc, char **argv)
{
    const char *runtime_dir = getenv("LULL_RUNTIME_DIR");
    struct settings settings = {
        .server = {.runtime_dir = runtime_dir != NULL ? runtime_dir : "/run/lull",
                   .socket_mode = 0660,
                   .socket_group = (gid_t)-1,
                   .ready_fd = -1},
    };
    struct lull_journal *journal = NULL;
    struct lull_devices *devices = NULL;
    struct lull_error error = {0};
    int result;

    argp_err_exit_status = LULL_EXIT_USAGE;
    argp_parse(&parser, argc, argv, 0, NULL, &settings);
    lull_log_init(LULL_LOG_INFO);

    result = lull_journal_open(settings.server.runtime_dir, &journal, &error);
    if (result == 0)
        result = lull_devices_open(&devices, &error);
    if (result == 0)
        result = work(devices, journal, &settings, &error);
    if (result < 0)
        lull_log(LULL_LOG_ERROR, "lulld", "%s", error.text);
    if (result == -EINPROGRESS)
        _Exit(LULL_EXIT_FAILED); /* a thread is stuck in the driver; the journal has it all */
    lull_devices_close(devices);
    lull_journal_close(journal);
    return (int)lull_error_exit_status(result);
}
