/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/install_daemon/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/install_daemon/trust.h"
#include "cli/install_daemon/unit.h"

enum {
    PROGRAM_BYTES = 256 << 20, /* more than any build with debug information */
    UNIT_BYTES = 1 << 20,
    LULLD = 0,
    KEEPER = 1,
    LULL = 2,
};

/* The unit begins with this line. */
static const char mark[] = "# Written by lull install-daemon; lull install-daemon --remove deletes "
                           "it.\n";

/* ---- where things are -------------------------------------------------------------------- */

int lull_install_path(const char *root, const char *path, char path_out[PATH_MAX],
                      struct lull_error *err)
{
    if ((size_t)snprintf(path_out, PATH_MAX, "%s%s", root, path) >= PATH_MAX)
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", path);
    return 0;
}

/* Finds a program below the prefix of this one, or in the build. */
static int layout_find_program(const char *below, const char *build_path, const char *name,
                               char path_out[PATH_MAX], struct lull_error *err)
{
    if (lull_file_find_own(below, name, path_out, PATH_MAX, NULL) == 0)
        return 0;
    return lull_file_find_own(build_path, name, path_out, PATH_MAX, err);
}

/* Resolves the links of a program's path, and finds whether it must be copied. */
static int layout_examine(struct lull_install_layout *layout, struct lull_install_program *program,
                          struct lull_error *err)
{
    char whole[PATH_MAX];

    if (realpath(program->path, whole) == NULL)
        return lull_error_set(err, -errno, "%s: %s", program->path, strerror(errno));
    memcpy(program->path, whole, sizeof(whole));
    if (!layout->is_copied)
        layout->is_copied = lull_trust_check_path(whole, &layout->why_copied) < 0;
    return lull_trust_check_libraries(whole, err);
}

int lull_install_find(const char *root, struct lull_install_layout *layout_out,
                      struct lull_error *err)
{
    struct lull_install_program *const programs = layout_out->programs;
    ssize_t length;
    int result;

    *layout_out = (struct lull_install_layout){.root = root};
    programs[LULLD].below = "/sbin/lulld";
    programs[KEEPER].below = "/lib/lull/lull-keeper";
    programs[LULL].below = "/bin/lull";
    result = layout_find_program("sbin/lulld", "daemon/lulld", "lulld", programs[LULLD].path, err);
    if (result == 0)
        result = layout_find_program("lib/lull/lull-keeper", "keeper/lull-keeper", "lull-keeper",
                                     programs[KEEPER].path, err);
    if (result < 0)
        return result;
    length = readlink("/proc/self/exe", programs[LULL].path, PATH_MAX - 1);
    if (length < 0)
        return lull_error_set(err, -errno, "/proc/self/exe: %s; mount /proc", strerror(errno));
    programs[LULL].path[length] = '\0';
    for (uint32_t i = 0; i < LULL_INSTALL_PROGRAMS && result == 0; i++)
        result = layout_examine(layout_out, &programs[i], err);
    return result;
}

static bool unit_is_ours(const char *path)
{
    char *text;
    size_t size;
    bool is_ours;

    if (lull_file_read(path, UNIT_BYTES, &text, &size, NULL) < 0)
        return false;
    is_ours = strncmp(text, mark, sizeof(mark) - 1) == 0;
    free(text);
    return is_ours;
}

enum lull_install_owner lull_install_find_unit(const char *root, char path_out[PATH_MAX])
{
    static const char *const places[] = {
        LULL_INSTALL_UNIT, "/usr/local/lib/systemd/system/lulld.service",
        "/usr/lib/systemd/system/lulld.service", "/lib/systemd/system/lulld.service"};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (lull_install_path(root, places[i], path_out, NULL) < 0 || access(path_out, F_OK) < 0)
            continue;
        return unit_is_ours(path_out) ? LULL_INSTALL_OURS : LULL_INSTALL_FOREIGN;
    }
    lull_install_path(root, LULL_INSTALL_UNIT, path_out, NULL);
    return LULL_INSTALL_NONE;
}

/* ---- writing ----------------------------------------------------------------------------- */

/* Creates the directory of a file. */
static int layout_make_place(const char *path, struct lull_error *err)
{
    char directory[PATH_MAX];

    snprintf(directory, sizeof(directory), "%s", path);
    *strrchr(directory, '/') = '\0';
    return lull_file_make_directory(directory, 0755, err);
}

static int program_copy(const char *root, const struct lull_install_program *program,
                        struct lull_error *err)
{
    char below[PATH_MAX];
    char path[PATH_MAX];
    char *data;
    size_t size;
    int result = lull_install_path(LULL_INSTALL_COPIES, program->below, below, err);

    if (result == 0)
        result = lull_install_path(root, below, path, err);
    if (result == 0)
        result = layout_make_place(path, err);
    if (result < 0)
        return result;
    result = lull_file_read(program->path, PROGRAM_BYTES, &data, &size, err);
    if (result < 0)
        return result;
    result = lull_file_write_atomic(path, data, size, 0755, err);
    free(data);
    /* A directory above may already be there and belong to another user. */
    return result == 0 && root[0] == '\0' ? lull_trust_check_path(path, err) : result;
}

/* The directory of a program that the unit names. */
static void layout_directory(const struct lull_install_layout *layout, uint32_t program,
                             char directory_out[PATH_MAX])
{
    if (layout->is_copied)
        lull_install_path(LULL_INSTALL_COPIES, layout->programs[program].below, directory_out,
                          NULL);
    else
        memcpy(directory_out, layout->programs[program].path, PATH_MAX);
    *strrchr(directory_out, '/') = '\0';
}

/* Writes the unit with the directories of its programs. */
static int unit_print(const void *context, FILE *out)
{
    const struct lull_install_layout *const layout = context;
    static const char *const names[] = {[LULLD] = "@sbindir@", [LULL] = "@bindir@"};
    char directory[PATH_MAX];
    const char *at = lull_install_lulld_service_in;

    fputs(mark, out);
    while (*at != '\0') {
        uint32_t which = LULL_INSTALL_PROGRAMS;

        for (uint32_t i = 0; i < LULL_INSTALL_PROGRAMS; i++)
            if (i != KEEPER && strncmp(at, names[i], strlen(names[i])) == 0)
                which = i;
        if (which == LULL_INSTALL_PROGRAMS) {
            fputc(*at++, out);
            continue;
        }
        layout_directory(layout, which, directory);
        fputs(directory, out);
        at += strlen(names[which]);
    }
    return ferror(out) ? -ENOMEM : 0;
}

int lull_install_write(const struct lull_install_layout *layout, struct lull_error *err)
{
    char path[PATH_MAX];
    int result = 0;

    umask(022);
    for (uint32_t i = 0; i < LULL_INSTALL_PROGRAMS && layout->is_copied && result == 0; i++)
        result = program_copy(layout->root, &layout->programs[i], err);
    if (result == 0)
        result = lull_install_path(layout->root, "/etc/lull", path, err);
    if (result == 0)
        result = lull_file_make_directory(path, 0755, err);
    if (result == 0)
        result = lull_install_path(layout->root, LULL_INSTALL_UNIT, path, err);
    if (result == 0)
        result = layout_make_place(path, err);
    return result == 0 ? lull_file_write_with(path, unit_print, layout, err) : result;
}

/* ---- removing ---------------------------------------------------------------------------- */

static int layout_remove_file(const char *root, const char *path, struct lull_error *err)
{
    char whole[PATH_MAX];
    const int result = lull_install_path(root, path, whole, err);

    if (result < 0)
        return result;
    if (remove(whole) < 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
        return lull_error_set(err, -errno, "%s: %s", whole, strerror(errno));
    return 0;
}

int lull_install_remove(const char *root, struct lull_error *err)
{
    /* Directories follow their files, and stay while they have others. */
    static const char *const paths[] = {
        LULL_INSTALL_COPIES "/sbin/lulld", LULL_INSTALL_COPIES "/lib/lull/lull-keeper",
        LULL_INSTALL_COPIES "/bin/lull",   LULL_INSTALL_COPIES "/sbin",
        LULL_INSTALL_COPIES "/lib/lull",   LULL_INSTALL_COPIES "/lib",
        LULL_INSTALL_COPIES "/bin",        LULL_INSTALL_COPIES};
    char unit[PATH_MAX];
    int result = 0;

    if (lull_install_find_unit(root, unit) == LULL_INSTALL_OURS)
        result = layout_remove_file("", unit, err);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]) && result == 0; i++)
        result = layout_remove_file(root, paths[i], err);
    return result;
}
