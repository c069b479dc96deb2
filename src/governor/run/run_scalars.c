/*
 * Writes the scalars of a running pass (--scalars): one row per second, composed here and written
 * by another thread. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "governor/run/run_pass.h"

/* Timeout for the last rows, within the 2 s after which `lull run` ends. */
enum { CLOSE_MS = 300 };

static double unix_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void run_scalars_log(struct lull_run_pass *pass, const struct lull_error *text)
{
    if (text->code != 0)
        lull_run_note(pass->run, text->text);
}

void lull_run_pass_begin_scalars(struct lull_run_pass *pass)
{
    const struct lull_run_options *const options = pass->run->options;
    struct lull_scalar scalars[LULL_SCALARS_MAX];
    struct lull_error err = {0};
    char folder[PATH_MAX];
    int length;

    if (options->scalars == NULL || pass->control == NULL)
        return;
    /* TensorBoard also shows compared runs as separate runs. */
    if (options->compare)
        length = snprintf(folder, sizeof(folder), "%s/run-%u-%s", options->scalars,
                          pass->run->comparison.run_count + 1, pass->name);
    else
        length = snprintf(folder, sizeof(folder), "%s", options->scalars);
    if ((size_t)length >= sizeof(folder))
        lull_error_set(&err, -ENAMETOOLONG, "--scalars: the path is too long");
    else
        lull_scalar_files_open(folder, scalars, lull_scalars_list(pass->control, scalars), unix_s(),
                               &pass->scalar_files, &err);
    run_scalars_log(pass, &err);
}

void lull_run_pass_report_scalars(struct lull_run_pass *pass)
{
    const bool is_by_section = !pass->observe_only && pass->limits == NULL && pass->runner == NULL;
    struct lull_error text = {0};
    struct lull_scalar_row row = {0};

    if (pass->scalar_files == NULL)
        return;
    row.unix_s = unix_s();
    lull_control_lock(pass->control);
    lull_scalars_take(&pass->scalars, pass->control, is_by_section ? &pass->trials : NULL,
                      lull_now_ns(), &row);
    lull_control_unlock(pass->control);
    lull_scalar_files_add(pass->scalar_files, &row);
    if (lull_scalar_files_take_error(pass->scalar_files, &text))
        run_scalars_log(pass, &text);
}

void lull_run_pass_end_scalars(struct lull_run_pass *pass)
{
    struct lull_error text = {0};

    lull_run_pass_report_scalars(pass);
    lull_scalar_files_close(pass->scalar_files, lull_now_ns() + CLOSE_MS * LULL_NS_PER_MS, &text);
    pass->scalar_files = NULL;
    run_scalars_log(pass, &text);
}
