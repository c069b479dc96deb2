/*
 * Checks a run's options before its command starts, against the known devices and file system.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "core/section/agreement.h"
#include "governor/run/run_pass.h"

struct checked_folder {
    const char *option;
    const char *path;
};

static int run_prepare_folder(void *context, struct lull_error *err)
{
    const char *const option = ((const struct checked_folder *)context)->option;
    const char *const folder = ((const struct checked_folder *)context)->path;
    struct lull_error reason = {0};

    if (lull_file_make_directory(folder, 0777, &reason) < 0)
        return lull_error_set(err, -EINVAL, "%s: %.200s; use another directory", option,
                              reason.text);
    if (access(folder, W_OK | X_OK) < 0)
        return lull_error_set(err, -EINVAL,
                              "%s: %.120s cannot be written: %s; use another directory", option,
                              folder, strerror(errno));
    return 0;
}

static int run_check_folder(const char *option, const char *folder, struct lull_error *err)
{
    struct checked_folder checked = {option, folder};

    return lull_path_do(folder, LULL_PATH_LOOK_MS, run_prepare_folder, &checked, sizeof(checked),
                        err);
}

/* A job must not wait for a file system that hangs: it runs without what would be written there.
 * Errors: those of run_check_folder but for -ETIMEDOUT. */
static int check_or_drop(const char *option, const char *what, const char **folder,
                         struct lull_error *err)
{
    const int result = *folder != NULL ? run_check_folder(option, *folder, err) : 0;

    if (result != -ETIMEDOUT)
        return result;
    lull_log(LULL_LOG_WARNING, "run", "no %s: %s", what, err->text);
    *folder = NULL;
    return 0;
}

int lull_run_check_paths(struct lull_run_options *options, struct lull_error *err)
{
    int result = check_or_drop("--report", "report", &options->report, err);

    if (result == 0)
        result = check_or_drop("--scalars", "scalars", &options->scalars, err);
    for (uint32_t i = 0; result == 0 && i < options->plan_count; i++) {
        if (lull_path_check(options->plans[i], err) != -ETIMEDOUT)
            continue;
        lull_log(LULL_LOG_WARNING, "run", "no plan is followed: %s", err->text);
        options->plan_count = 0;
    }
    return result;
}

/* Maximum number of runs that can begin in one second, such as those of a job's nodes. */
enum { MAX_AT_ONCE = 10 * LULL_AGREEMENT_MAX_NODES };

struct made_folder {
    time_t unix_s;
    char path[LULL_RUN_REPORT_SIZE];
};

/* Makes the folder of a report below the working directory. */
static int make_here(void *context, struct lull_error *err)
{
    struct checked_folder reports = {"--report", LULL_RUN_REPORTS};
    struct made_folder *const folder = context;
    const int result = run_prepare_folder(&reports, err);
    struct tm now;
    char stamp[24];

    if (result < 0)
        return result;
    localtime_r(&folder->unix_s, &now);
    strftime(stamp, sizeof(stamp), "%Y-%m-%d-%H%M%S", &now);
    for (int i = 1; i <= MAX_AT_ONCE; i++) {
        if (i == 1)
            snprintf(folder->path, LULL_RUN_REPORT_SIZE, LULL_RUN_REPORTS "/%s", stamp);
        else
            snprintf(folder->path, LULL_RUN_REPORT_SIZE, LULL_RUN_REPORTS "/%s-%d", stamp, i);
        if (mkdir(folder->path, 0777) == 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    return lull_error_set(err, -EINVAL, "%s cannot be created: %s; choose a folder with --report",
                          folder->path, strerror(errno));
}

/* Makes one of a random name; the path is a template of mkdtemp(). */
static int make_elsewhere(void *context, struct lull_error *err)
{
    struct made_folder *const folder = context;

    (void)err;
    return mkdtemp(folder->path) != NULL ? 0 : -errno;
}

/* A job that names no report must not fail because its working directory is read-only. */
int lull_run_make_report(time_t unix_s, char folder_out[LULL_RUN_REPORT_SIZE],
                         struct lull_error *err)
{
    const char *const places[] = {getenv("TMPDIR"), "/tmp"};
    struct made_folder folder = {.unix_s = unix_s};
    struct lull_error why = {0};
    bool is_made = false;

    if (lull_path_do(LULL_RUN_REPORTS, LULL_PATH_LOOK_MS, make_here, &folder, sizeof(folder),
                     &why) == 0) {
        memcpy(folder_out, folder.path, LULL_RUN_REPORT_SIZE);
        return 0;
    }
    for (int i = 0; i < 2 && !is_made; i++)
        is_made = places[i] != NULL &&
                  snprintf(folder.path, sizeof(folder.path), "%s/lull-report-XXXXXX", places[i]) <
                      (int)sizeof(folder.path) &&
                  lull_path_do(places[i], LULL_PATH_LOOK_MS, make_elsewhere, &folder,
                               sizeof(folder), NULL) == 0;
    if (!is_made)
        return lull_error_set(err, -EINVAL, "%s", why.text);
    memcpy(folder_out, folder.path, LULL_RUN_REPORT_SIZE);
    lull_log(LULL_LOG_WARNING, "run", "%s; the report goes to %s", why.text, folder_out);
    return 0;
}

int lull_run_check_limit(const struct lull_managed_run *run, struct lull_error *err)
{
    const double wanted_w = run->options->limits.fixed_w;

    for (uint32_t i = 0; run->options->limits.is_wanted && wanted_w > 0.0 && i < run->gpu_count;
         i++) {
        const struct lull_device_info *info = lull_device_info(run->devices, run->gpus[i]);
        const double min_w = info->power_limit_min_mw * 1e-3;
        const double most_w = info->power_limit_max_mw * 1e-3;

        /* A device that reports no range rejects unsupported limits itself. */
        if (most_w > 0.0 && (wanted_w < min_w || wanted_w > most_w))
            return lull_error_set(err, -EINVAL, "--power-limit %g: GPU %u (%s) takes %g to %g W",
                                  wanted_w, run->gpus[i], info->name, min_w, most_w);
    }
    return 0;
}

int lull_run_load_plans(struct lull_managed_run *run, struct lull_error *err)
{
    if (run->options->plan_count == 0 ||
        lull_pipeline_plans_load(&run->plans, run->options->plans, run->options->plan_count, err) ==
            0)
        return 0;
    err->code = -EINVAL;
    return err->code;
}
