/*
 * `lull run`: manages the GPUs of a command while it runs. A failure of Lull is logged once and
 * does not affect the job: the command runs, and its own status is returned.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_H
#define LULL_GOVERNOR_RUN_RUN_H

#include <stdbool.h>
#include <time.h>

#include "base/error.h"
#include "core/section/controller/controller.h"
#include "governor/peers/peers.h"
#include "governor/limits/power_limits.h"
#include "governor/plan/online.h"
#include "governor/report/energy_price.h"
#include "governor/serving/serving.h"

/* Form in which progress is shown: see run_progress.h. */
enum lull_run_progress_kind {
    LULL_RUN_PROGRESS_AUTO, /* LINE on a terminal that has one, LOG where standard error is none */
    LULL_RUN_PROGRESS_NONE,
    LULL_RUN_PROGRESS_LINE,
    LULL_RUN_PROGRESS_LOG,
};

struct lull_run_options {
    char *const *command; /* NULL-terminated, at least one word; with is_attached, for reports */
    struct lull_controller_config control;
    struct lull_peers_options peers; /* endpoint NULL: the job has one node */
    bool compare;                    /* run the command unmanaged as well */
    uint32_t compare_pairs; /* with compare: number of runs on each side; see run_comparison.h */
    bool exposure;          /* record compute kernels in short windows, if CUPTI is available */
    bool markers;           /* mark NCCL's collectives on their streams, without its plugin */
    bool no_daemon;         /* drive the devices from this process (root) */
    bool quiet;             /* no table, no progress */
    enum lull_run_progress_kind progress;
    bool verbose;                      /* the tables are printed at the end, too */
    const char *const *plans;          /* files with a pipeline's plan, and plans to fall back to */
    uint32_t plan_count;               /* 0: sections are managed, unless online or limits is set */
    struct lull_online_options online; /* schedule not NULL: a pipeline is profiled and planned */
    struct lull_limits_options limits; /* with is_wanted, a power limit is managed, not sections */
    double swing_bound_ratio;          /* power_smoothing.h; 0: none */
    struct lull_serving_options serving; /* with is_wanted, a server is managed, not sections */
    bool is_attached;    /* no command is started: what runs on the GPUs is managed, until a signal
                            or its end... */
    int64_t duration_ns; /* ...or after this time; 0: no limit */
    const char *gpus;    /* with is_attached: list such as 0,2-3; NULL: all visible GPUs */
    struct lull_energy_price price; /* prices with which the report computes energy */
    double hang_after_s;            /* 0: hangs are not looked for */
    bool has_launcher;    /* another program starts the command, and holds the other end of this: */
    uint32_t launcher_fd; /* see lull_child_adopt(); not with compare */
    const char *report;   /* directory; NULL: none */
    const char *scalars;  /* directory of scalars, written while it runs; NULL: none */
    const char *runtime_dir; /* of lulld */
};

/*
 * Runs it. *status_out is the command's own status (128 + N for a signal); with compare, the status
 * of the last run, which is the first that failed. Errors: only those that prevented the command
 * from running at all; -EINVAL: an option is not possible here, and the text says which. With
 * is_attached also all that keeps the GPUs from being managed: those of actuator.h and device.h.
 */
int lull_run(const struct lull_run_options *options, int *status_out, struct lull_error *err);

/*
 * Checks the report's and the scalars' folder before the command starts, and creates them. What is
 * on a file system that does not answer, folders or plans, is removed from the options with a
 * warning: the job must not wait for it. Errors: -EINVAL, with the option and what to give instead.
 */
int lull_run_check_paths(struct lull_run_options *options, struct lull_error *err);

/* Default folder for reports. Each report gets a folder of its own in it. */
#define LULL_RUN_REPORTS "lull-report"
enum { LULL_RUN_REPORT_SIZE = 64 };

/*
 * Creates the folder of such a report: LULL_RUN_REPORTS/DATE-TIME, with -2, -3 and so on appended
 * so that it is unique, even on nodes that share the file system. If the working directory cannot
 * be written, the folder is in $TMPDIR or /tmp, and a message says so. unix_s: the time now.
 * Errors: -EINVAL it cannot be made.
 */
int lull_run_make_report(time_t unix_s, char folder_out[LULL_RUN_REPORT_SIZE],
                         struct lull_error *err);

#endif
