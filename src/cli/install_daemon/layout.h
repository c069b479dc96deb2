/*
 * Files that `lull install-daemon` installs, and their paths: the programs that root will execute,
 * in a directory that only root can write, and the unit. Threads: one. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_CLI_INSTALL_DAEMON_LAYOUT_H
#define LULL_CLI_INSTALL_DAEMON_LAYOUT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* The copies of programs from an environment that a user can change. No package installs there. */
#define LULL_INSTALL_COPIES "/opt/lulld"
#define LULL_INSTALL_UNIT "/etc/systemd/system/lulld.service"

enum { LULL_INSTALL_PROGRAMS = 3 };

struct lull_install_program {
    const char *below;   /* its place below LULL_INSTALL_COPIES, as below a prefix */
    char path[PATH_MAX]; /* its present path */
};

struct lull_install_layout {
    const char *root; /* "": this machine; else a directory in which everything is written */
    bool is_copied;   /* else the programs stay where they are, which only root can write */
    struct lull_error why_copied;
    struct lull_install_program programs[LULL_INSTALL_PROGRAMS];
};

/* Whose unit is in a root. */
enum lull_install_owner {
    LULL_INSTALL_NONE,
    LULL_INSTALL_OURS,    /* written by lull install-daemon */
    LULL_INSTALL_FOREIGN, /* of a package, or of an administrator */
};

/* Finds lulld, its keeper and lull beside this program, and whether they must be copied. Errors:
 * -ENOENT a program is missing; -EPERM a library of lulld can be changed by other users than root;
 * -ENOEXEC. */
int lull_install_find(const char *root, struct lull_install_layout *layout_out,
                      struct lull_error *err);

/* Writes the path of a file in the root. Errors: -ENAMETOOLONG. */
int lull_install_path(const char *root, const char *path, char path_out[PATH_MAX],
                      struct lull_error *err);

/* Returns whose unit is there; its path goes to path_out. */
enum lull_install_owner lull_install_find_unit(const char *root, char path_out[PATH_MAX]);

/* Copies the programs where needed, creates /etc/lull and writes the unit, which comes last.
 * Errors: -errno with the path. */
int lull_install_write(const struct lull_install_layout *layout, struct lull_error *err);

/* Removes the unit, if it is ours, and the copies. What is missing is not an error. Errors: -errno.
 */
int lull_install_remove(const char *root, struct lull_error *err);

#endif
