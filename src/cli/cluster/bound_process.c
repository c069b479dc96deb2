/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/bound_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"
#include "governor/run/launch.h"
#include "trace/slot_file.h"

static const char program[] = "lull-bound";

static int write_problem(const struct lull_slot_problem *problem, double slot_s, FILE *out,
                         struct lull_error *err)
{
    lull_slot_file_write(problem, slot_s, out);
    if (fflush(out) != 0 || ferror(out))
        return lull_error_set(err, -EIO, "the problem for %s could not be written: disk full?",
                              program);
    rewind(out);
    return 0;
}

static int take_result(json_t *document, double *bound_j_out, struct lull_error *err)
{
    const json_t *bound = json_object_get(document, "bound_j");

    if (!json_is_number(bound))
        return lull_error_set(err, LULL_E_FORMAT, "%s gave no bound", program);
    *bound_j_out = json_number_value(bound);
    return 0;
}

/* Beside this program, in a build or installed; else where the path says. */
static void find_program(char *path, size_t size)
{
    if (lull_file_find_own("bound/lull-bound", "../../bin/lull-bound", path, size, NULL) < 0)
        snprintf(path, size, "%s", program);
}

static int start(FILE *problem, int out_fd, struct lull_child *child, struct lull_error *err)
{
    const struct lull_child_setup setup = {.stdout_fd = out_fd, .stderr_fd = -1};
    char path[PATH_MAX];
    char name[32];
    char *const argv[] = {path, name, "--json", NULL};
    struct lull_error why = {0};
    int result;

    find_program(path, sizeof(path));
    snprintf(name, sizeof(name), "/dev/fd/%d", fileno(problem));
    result = lull_child_start_as(argv, NULL, &setup, child, &why);
    if (result == -ENOENT)
        return lull_error_set(err, result,
                              "--bound needs %s, which is neither beside this program nor on the "
                              "path; it is built where CLP and CBC are installed",
                              program);
    return result < 0 ? lull_error_set(err, result, "%s", why.text) : 0;
}

static int run_program(FILE *problem, double *bound_j_out, struct lull_error *err)
{
    struct lull_child child;
    json_t *document;
    FILE *told;
    int ends[2];
    int status = 0;
    int result;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return lull_error_set(err, -errno, "no pipe for %s: %s", program, strerror(errno));
    result = start(problem, ends[1], &child, err);
    close(ends[1]);
    told = fdopen(ends[0], "r");
    if (told == NULL)
        close(ends[0]);
    document = result == 0 && told != NULL ? json_loadf(told, 0, NULL) : NULL;
    if (told != NULL)
        fclose(told);
    if (result == 0)
        lull_child_reap(&child, true, &status);
    if (result == 0 && status != 0)
        result = lull_error_set(err, LULL_E_FORMAT, "%s failed (status %d)", program, status);
    if (result == 0)
        result = take_result(document, bound_j_out, err);
    json_decref(document);
    return result;
}

int lull_bound_process(const struct lull_slot_problem *problem, double slot_s, double *bound_j_out,
                       struct lull_error *err)
{
    FILE *file = tmpfile();
    int result;

    if (file == NULL)
        return lull_error_set(err, -errno, "no temporary file: %s", strerror(errno));
    result = write_problem(problem, slot_s, file, err);
    if (result == 0)
        result = run_program(file, bound_j_out, err);
    fclose(file);
    return result;
}
