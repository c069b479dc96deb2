/* lull install-daemon: lulld as a service, from a wheel or any prefix.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "cli/commands.h"
#include "cli/install_daemon/layout.h"
#include "cli/shared/command.h"

struct install_arguments {
    const char *root;
    bool is_removing;
    bool is_confirmed;
    bool is_dry;
};

/* The commands that make systemd see what was written, in their order. */
static const char *const start_commands[][4] = {
    {"systemctl", "daemon-reload", NULL},
    {"systemctl", "enable", "lulld", NULL},
    {"systemctl", "restart", "lulld", NULL},
};
static const char *const stop_commands[][4] = {
    {"systemctl", "disable", "--now", "lulld"},
};

enum {
    STARTS = sizeof(start_commands) / sizeof(start_commands[0]),
    STOPS = sizeof(stop_commands) / sizeof(stop_commands[0]),
};

/* ---- systemd ----------------------------------------------------------------------------- */

/* Returns whether systemd runs here and its units are meant. */
static bool has_systemd(const char *root)
{
    return root[0] == '\0' && access("/run/systemd/system", F_OK) == 0;
}

static void service_print_commands(const char *const (*commands)[4], uint32_t count,
                                   const char *prefix)
{
    for (uint32_t i = 0; i < count; i++) {
        printf("%s", prefix);
        for (uint32_t word = 0; word < 4 && commands[i][word] != NULL; word++)
            printf("%s%s", word > 0 ? " " : "", commands[i][word]);
        printf("\n");
    }
}

static int service_run_commands(const char *const (*commands)[4], uint32_t count,
                                struct lull_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        char *words[5] = {NULL};
        struct lull_child child;
        int status = 0;
        int result;

        for (uint32_t word = 0; word < 4; word++)
            words[word] = (char *)commands[i][word];
        result = lull_child_start(words, NULL, &child, err);
        if (result < 0)
            return result;
        lull_child_reap(&child, true, &status);
        if (status != 0)
            return lull_error_set(err, -EIO,
                                  "systemctl %s failed (status %d); see journalctl -u "
                                  "lulld, and undo with lull install-daemon --remove",
                                  words[1], status);
    }
    return 0;
}

/* Executes the commands, or says that they are to be executed. */
static int service_act(const char *root, const char *const (*commands)[4], uint32_t count,
                       struct lull_error *err)
{
    if (has_systemd(root))
        return service_run_commands(commands, count, err);
    printf("systemd does not run %s; where it does, run:\n",
           root[0] != '\0' ? "in that root" : "here");
    service_print_commands(commands, count, "  ");
    return 0;
}

/* ---- what will be done ------------------------------------------------------------------- */

static void install_print(const struct lull_install_layout *layout)
{
    if (layout->is_copied) {
        printf("Root must not execute files that users can change (%s), so this copies:\n",
               layout->why_copied.text);
        for (uint32_t i = 0; i < LULL_INSTALL_PROGRAMS; i++)
            printf("  %s to %s%s%s\n", layout->programs[i].path, layout->root, LULL_INSTALL_COPIES,
                   layout->programs[i].below);
    }
    printf("This writes:\n  %s" LULL_INSTALL_UNIT ", which starts %s as root\n  %s/etc/lull, an "
           "empty directory for policy.conf\n",
           layout->root,
           layout->is_copied ? LULL_INSTALL_COPIES "/sbin/lulld" : layout->programs[0].path,
           layout->root);
    if (has_systemd(layout->root)) {
        printf("This runs:\n");
        service_print_commands(start_commands, STARTS, "  ");
    }
}

static void removal_print(const char *root, const char *unit, enum lull_install_owner owner)
{
    if (owner == LULL_INSTALL_OURS && has_systemd(root)) {
        printf("This runs:\n");
        service_print_commands(stop_commands, STOPS, "  ");
    }
    printf("This deletes:\n");
    if (owner == LULL_INSTALL_OURS)
        printf("  %s\n", unit);
    printf("  %s" LULL_INSTALL_COPIES " (programs that were copied there)\n", root);
    printf("It keeps %s/etc/lull.\n", root);
}

/* Asks on the terminal. Errors: -EINVAL there is no terminal; -ECANCELED the answer is not yes. */
static int install_confirm(const struct install_arguments *arguments, struct lull_error *err)
{
    char answer[16] = "";

    if (arguments->is_confirmed)
        return 0;
    if (!isatty(STDIN_FILENO))
        return lull_error_set(err, -EINVAL,
                              "standard input is no terminal, so nothing was changed; add --yes");
    printf("Proceed? [y/N] ");
    fflush(stdout);
    if (fgets(answer, sizeof(answer), stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y'))
        return 0;
    return lull_error_set(err, -ECANCELED, "nothing was changed");
}

static int install_check_root(const struct install_arguments *arguments, struct lull_error *err)
{
    if (geteuid() == 0 || arguments->root[0] != '\0' || arguments->is_dry)
        return 0;
    return lull_error_set(err, -EPERM,
                          "installing a service needs root: sudo \"$(command -v "
                          "lull)\" install-daemon; --dry-run shows what it would do");
}

/* ---- the command ------------------------------------------------------------------------- */

static int install_daemon(const struct install_arguments *arguments, struct lull_error *err)
{
    struct lull_install_layout layout;
    char unit[PATH_MAX];
    int result;

    if (lull_install_find_unit(arguments->root, unit) == LULL_INSTALL_FOREIGN)
        return lull_error_set(err, -EEXIST,
                              "%s was not written by lull install-daemon: start that service with "
                              "systemctl enable --now lulld, or remove its package first",
                              unit);
    result = lull_install_find(arguments->root, &layout, err);
    if (result < 0)
        return result;
    install_print(&layout);
    if (arguments->is_dry)
        return 0;
    result = install_confirm(arguments, err);
    if (result == 0)
        result = lull_install_write(&layout, err);
    if (result == 0)
        result = service_act(arguments->root, start_commands, STARTS, err);
    if (result == 0)
        printf("lulld is installed. Check it with: lull doctor\n");
    return result;
}

static int install_daemon_remove(const struct install_arguments *arguments, struct lull_error *err)
{
    char unit[PATH_MAX];
    const enum lull_install_owner owner = lull_install_find_unit(arguments->root, unit);
    int result;

    removal_print(arguments->root, unit, owner);
    if (arguments->is_dry)
        return 0;
    result = install_confirm(arguments, err);
    if (result == 0 && owner == LULL_INSTALL_OURS)
        result = service_act(arguments->root, stop_commands, STOPS, err);
    if (result == 0)
        result = lull_install_remove(arguments->root, err);
    if (result == 0)
        printf("lulld is removed.\n");
    return result;
}

static int install_command_run(void *options, const struct lull_operands *operands)
{
    const struct install_arguments *const arguments = options;
    struct lull_error err = {0};
    int result = install_check_root(arguments, &err);

    (void)operands;
    if (result == 0)
        result = arguments->is_removing ? install_daemon_remove(arguments, &err)
                                        : install_daemon(arguments, &err);
    return result < 0 ? lull_cli_fail("install-daemon", &err) : LULL_EXIT_OK;
}

static const struct lull_option rows[] = {
    LULL_FLAG("remove", struct install_arguments, is_removing,
              "Stop lulld and delete what this command has written.",
              .more = "A unit of a package, and /etc/lull, are kept."),
    LULL_FLAG("yes", struct install_arguments, is_confirmed, "Do not ask.", .letter = 'y',
              .excludes = "dry-run"),
    LULL_FLAG("dry-run", struct install_arguments, is_dry,
              "Print what would be done, and do nothing."),
    LULL_VALUE("root", "DIR", TEXT, struct install_arguments, root,
               "Write everything below this directory, such as the root of an image, and start "
               "nothing.",
               .hint = LULL_OPTION_FOLDER, .default_value = ""),
    {0},
};

const struct lull_program_command lull_install_daemon_command = {
    .name = "install-daemon",
    .summary = "install lulld as a service of systemd, or remove it",
    .about = "Installs lulld as a service, for a Lull from a Python wheel or in a prefix of its "
             "own. It prints what it will do and asks. If lulld, its keeper or lull are in a "
             "directory that other users than root can change, they are copied to /opt/lulld, so "
             "that root never executes a file of a user. A second call updates the copies and "
             "restarts lulld, which restores clocks and gives leases again.",
    .tables = {{rows, 0}},
    .size = sizeof(struct install_arguments),
    .run = install_command_run,
};
