/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/managed_run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "cli/report/page.h"
#include "cli/shared/command.h"

/* ---- the report on standard output --------------------------------------------------------- */

enum { MAX_REPORT_BYTES = 1 << 28 };

struct report_file {
    char path[PATH_MAX];
    ino_t inode;
};

static int report_file_look(void *context, struct lull_error *err)
{
    struct report_file *const file = context;
    struct stat info;

    (void)err;
    file->inode = stat(file->path, &info) == 0 ? info.st_ino : 0;
    return 0;
}

/* Returns the inode of the report in a folder, 0 if there is none. Each run writes a new file, so
 * another inode means that this run has written one. */
static ino_t find_report(const char *folder)
{
    struct report_file file = {0};

    if (folder == NULL)
        return 0;
    snprintf(file.path, sizeof(file.path), "%s/report.json", folder);
    lull_path_do(file.path, LULL_PATH_LOOK_MS, report_file_look, &file, sizeof(file), NULL);
    return file.inode;
}

/* Returns whether a run has written a report, where there was this one before. */
static bool has_new_report(const char *folder, ino_t before)
{
    const ino_t now = find_report(folder);

    return now != 0 && now != before;
}

static int copy_report(const char *folder, int out, struct lull_error *err)
{
    char path[PATH_MAX];
    char *text = NULL;
    size_t size = 0;
    size_t done = 0;
    int rc;

    snprintf(path, sizeof(path), "%s/report.json", folder);
    rc = lull_path_read(path, MAX_REPORT_BYTES, LULL_PATH_FILE_MS, &text, &size, err);
    while (rc == 0 && done < size) {
        const ssize_t written = write(out, text + done, size - done);

        if (written < 0)
            rc = lull_error_set(err, -errno, "standard output cannot be written: %s",
                                strerror(errno));
        else
            done += (size_t)written;
    }
    free(text);
    return rc;
}

/* Runs the job with its standard output going to standard error, so that standard output has only
 * the report. */
static int run_for_json(const struct lull_run_options *options, int *status_out,
                        struct lull_error *err)
{
    /* The job does not inherit it. Otherwise a process that outlives the job would keep the reader
     * of the report waiting. */
    const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    struct lull_error copy_err = {0};
    const ino_t before = find_report(options->report);
    int rc;

    if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return lull_error_set(err, -errno, "standard output cannot be used: %s", strerror(errno));
    rc = lull_run(options, status_out, err);
    if (rc == 0 && !has_new_report(options->report, before))
        lull_error_set(&copy_err, -ENOENT, "no report was written, so --json prints none");
    else if (rc == 0)
        copy_report(options->report, out, &copy_err);
    if (copy_err.code != 0)
        lull_cli_fail(options->is_attached ? "attach" : "run", &copy_err);
    close(out);
    return rc;
}

/* ---- the run ------------------------------------------------------------------------------- */

static void managed_run_find_price(const struct lull_energy_price *given,
                                   struct lull_energy_price *price)
{
    struct lull_error err = {0};

    if (lull_energy_price_load(price, &err) < 0)
        lull_log(LULL_LOG_WARNING, "run", "no price of energy: %s", err.text);
    if (given->has_money) {
        price->has_money = true;
        price->per_kwh = given->per_kwh;
        memcpy(price->currency, given->currency, sizeof(price->currency));
    }
    if (given->has_co2) {
        price->has_co2 = true;
        price->co2_g_per_kwh = given->co2_g_per_kwh;
    }
}

/* In a process of its own: the folder's file system may hang. */
static int run_add_page(void *context, struct lull_error *err)
{
    return lull_report_page_add(*(const char **)context, err);
}

static int run_with_page(const struct lull_run_options *options, bool is_json, int *status_out,
                         struct lull_error *err)
{
    const ino_t before = find_report(options->report);
    const char *folder = options->report;
    struct lull_error page_err = {0};
    int rc;

    if (is_json)
        rc = run_for_json(options, status_out, err);
    else
        rc = lull_run(options, status_out, err);
    if (rc == 0 && has_new_report(folder, before) &&
        lull_path_do(folder, LULL_PATH_FILE_MS, run_add_page, (void *)&folder, sizeof(folder),
                     &page_err) < 0)
        lull_log(LULL_LOG_WARNING, "run", "no report.html: %s", page_err.text);
    return rc;
}

int lull_managed_run(struct lull_run_options *options, const struct lull_managed_run_terms *terms,
                     int *status_out, struct lull_error *err)
{
    int rc = 0;

    managed_run_find_price(&terms->price, &options->price);
    if (terms->report != NULL) {
        rc = lull_run_make_report(time(NULL), terms->report, err);
        options->report = terms->report;
    }
    if (rc == 0)
        rc = lull_run_check_paths(options, err);
    if (rc == 0)
        rc = run_with_page(options, terms->is_json, status_out, err);
    return rc;
}
