/*
 * What is wrong with a run's options can be told before its command starts, where the devices and
 * the file system are known. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "core/section/agreement.h"
#include "governor/run/run_pass.h"

static int check_folder(const char *folder, struct lull_error *err)
{
    struct lull_error reason = {0};

    if (lull_file_make_directory(folder, 0777, &reason) < 0)
        return lull_error_set(err, -EINVAL, "--report: %.200s; name another directory",
                              reason.text);
    if (access(folder, W_OK | X_OK) < 0)
        return lull_error_set(err, -EINVAL,
                              "--report: %.120s cannot be written: %s; name another directory",
                              folder, strerror(errno));
    return 0;
}

int lull_run_check_report(const struct lull_run_options *options, struct lull_error *err)
{
    return check_folder(options->report, err);
}

/* A job has so many nodes at most. */
enum { MOST_FOLDERS = LULL_AGREEMENT_MAX_NODES };

/* False: another run holds the folder. A file system without locks keeps no two runs apart. */
static bool hold_folder(const char *folder)
{
    char path[LULL_RUN_REPORT_SIZE + 8];
    int fd;

    snprintf(path, sizeof(path), "%s/.lock", folder);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return true; /* the descriptor stays open, and with it the lock, until the process ends */
    close(fd);
    return false;
}

int lull_run_claim_report(char folder_out[LULL_RUN_REPORT_SIZE], struct lull_error *err)
{
    snprintf(folder_out, LULL_RUN_REPORT_SIZE, LULL_RUN_REPORT);
    for (int i = 2; i <= MOST_FOLDERS + 1; i++) {
        const int result = check_folder(folder_out, err);

        if (result < 0)
            return result;
        if (hold_folder(folder_out)) {
            if (i > 2)
                lull_log(LULL_LOG_WARNING, "run",
                         "another run writes its report to " LULL_RUN_REPORT
                         ": this run's report goes to %s",
                         folder_out);
            return 0;
        }
        snprintf(folder_out, LULL_RUN_REPORT_SIZE, LULL_RUN_REPORT "-%d", i);
    }
    return lull_error_set(err, -EINVAL,
                          "%d runs write their reports here; name a folder with "
                          "--report",
                          MOST_FOLDERS);
}

int lull_run_check_limit(const struct lull_managed_run *run, struct lull_error *err)
{
    const double wanted_w = run->options->limits.fixed_w;

    for (uint32_t i = 0; run->options->limits.is_wanted && wanted_w > 0.0 && i < run->gpu_count;
         i++) {
        const struct lull_device_info *info = lull_device_info(run->devices, run->gpus[i]);
        const double least_w = info->power_limit_min_mw * 1e-3;
        const double most_w = info->power_limit_max_mw * 1e-3;

        /* A device that names no range refuses by itself what it does not take. */
        if (most_w > 0.0 && (wanted_w < least_w || wanted_w > most_w))
            return lull_error_set(err, -EINVAL, "--power-limit %g: GPU %u (%s) takes %g to %g W",
                                  wanted_w, run->gpus[i], info->name, least_w, most_w);
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
