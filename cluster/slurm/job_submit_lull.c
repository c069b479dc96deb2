/*
 * Slurm's controller calls this plugin for each submitted job. The plugin writes the user's job
 * options into the job's AdminComment, for users and schedulers, and rejects jobs without the
 * options that the site requires. Only jobs that request GPUs are checked.
 *
 * The site's settings are read for each job, so that a change needs no restart. If they cannot be
 * read, no job is rejected. The names of functions and variables are Slurm's. Threads: slurmctld
 * calls it from one at a time. SPDX-License-Identifier: BSD-3-Clause
 */
#include <stdint.h>
/* Slurm's headers need it first. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/slurm/submit_settings.h"
#include "cluster/slurm/job_options.h"

const char plugin_name[] = "Lull's job options";
const char plugin_type[] = "job_submit/lull";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

/* slurmctld frees texts of a job by its own allocator, which it exports under this name. */
extern char *slurm_xstrdup(const char *text);
extern void slurm_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

int init(void);
int fini(void);
int job_submit(job_desc_msg_t *job, uint32_t uid, char **err_msg);
int job_modify(job_desc_msg_t *job, void *old, uint32_t uid);

enum { TEXT_BYTES = 256 };

static void submit_load_settings(struct lull_submit_settings *settings)
{
    const char *const named = getenv("LULL_SUBMIT_CONF");
    const char *const path = named != NULL ? named : LULL_SUBMIT_CONF;
    FILE *const file = fopen(path, "re");
    unsigned wrong;

    *settings = (struct lull_submit_settings){0};
    if (file == NULL)
        return;
    wrong = lull_submit_settings_read(file, settings);
    if (wrong > 0)
        slurm_error("lull: %s, line %u is not " LULL_SUBMIT_SETTINGS, path, wrong);
    fclose(file);
}

/* ---- the job ------------------------------------------------------------------------------- */

static bool names_gpus(const char *resources)
{
    return resources != NULL && strstr(resources, "gpu") != NULL;
}

static bool has_gpus(const job_desc_msg_t *job)
{
    return names_gpus(job->tres_per_job) || names_gpus(job->tres_per_node) ||
           names_gpus(job->tres_per_socket) || names_gpus(job->tres_per_task);
}

/* Options of plugins travel as variables of the job's prolog. */
static void find_option(const job_desc_msg_t *job, struct lull_job_options *job_options)
{
    static const struct {
        const char *name;
        int (*take)(struct lull_job_options *, const char *, const char **);
    } options[] = {
        {"_SLURM_SPANK_OPTION_lull_lull=", lull_job_options_set_policy},
        {"_SLURM_SPANK_OPTION_lull_lull_tolerance=", lull_job_options_set_tolerance},
        {"_SLURM_SPANK_OPTION_lull_lull_deadline=", lull_job_options_set_deadline},
        {"_SLURM_SPANK_OPTION_lull_lull_batch_job=", lull_job_options_set_batch_job},
        {"_SLURM_SPANK_OPTION_lull_lull_schedule=", lull_job_options_set_schedule},
    };

    for (uint32_t i = 0; i < job->spank_job_env_size; i++)
        for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++) {
            const size_t length = strlen(options[k].name);
            const char *expected;

            if (strncmp(job->spank_job_env[i], options[k].name, length) == 0)
                options[k].take(job_options, job->spank_job_env[i] + length, &expected);
        }
}

__attribute__((format(printf, 2, 3))) static int submit_refuse(char **err_msg, const char *format,
                                                               ...)
{
    char text[TEXT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    *err_msg = slurm_xstrdup(text);
    return EINVAL;
}

__attribute__((format(printf, 3, 4))) static void submit_add(char *text, size_t size,
                                                             const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

/* Adds a word, behind a blank where it is not the first. */
static void submit_add_word(char *text, size_t size, const char *key, const char *value)
{
    submit_add(text, size, "%s%s=%s", text[0] != '\0' ? " " : "", key, value);
}

static void submit_comment(job_desc_msg_t *job, const struct lull_job_options *job_options,
                           bool is_managed, bool is_scheduled, time_t deadline)
{
    char text[TEXT_BYTES] = "";
    char when[32];
    struct tm tm;

    if (is_managed)
        submit_add_word(text, sizeof(text), "lull", lull_job_options_policy(job_options));
    if (job_options->tolerance[0] != '\0')
        submit_add_word(text, sizeof(text), "tolerance", job_options->tolerance);
    if (deadline != 0 && localtime_r(&deadline, &tm) != NULL &&
        strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm) > 0)
        submit_add_word(text, sizeof(text), "deadline", when);
    if (job_options->batch_job[0] != '\0')
        submit_add_word(text, sizeof(text), "batch-job", job_options->batch_job);
    if (is_scheduled)
        submit_add_word(text, sizeof(text), "schedule", "held");
    job->admin_comment = slurm_xstrdup(text);
}

int job_submit(job_desc_msg_t *job, uint32_t uid, char **err_msg)
{
    const time_t now = time(NULL);
    struct lull_job_options job_options = {0};
    struct lull_submit_settings settings;
    bool is_managed, is_scheduled;
    time_t deadline = 0;

    (void)uid;
    if (!has_gpus(job))
        return SLURM_SUCCESS;
    submit_load_settings(&settings);
    find_option(job, &job_options);
    if (job_options.deadline[0] != '\0' &&
        (lull_job_options_parse_deadline(job_options.deadline, now, &deadline) < 0 ||
         deadline <= now))
        return submit_refuse(err_msg, "--lull-deadline=%s is over already", job_options.deadline);
    is_managed = lull_job_options_is_on(&job_options, settings.is_default) || deadline != 0;
    /* srun and salloc have no script: they would wait in the foreground. */
    is_scheduled =
        job->script != NULL && lull_job_options_is_scheduled(&job_options, settings.is_scheduled);
    if (!is_managed && !is_scheduled)
        return SLURM_SUCCESS;
    if (is_managed && settings.requires_deadline && deadline == 0)
        return submit_refuse(
            err_msg, "jobs with GPUs need a deadline here: give --lull-deadline, a time or how "
                     "long from now (or --lull=off)");
    if (is_managed && settings.refuses_frequency && names_gpus(job->tres_freq))
        return submit_refuse(err_msg,
                             "--gpu-freq does not go with --lull here: give one of them, or "
                             "--lull=off");
    if (job->admin_comment != NULL)
        return SLURM_SUCCESS;
    submit_comment(job, &job_options, is_managed, is_scheduled, deadline);
    if (is_scheduled)
        job->priority = 0; /* held, until lull-schedule releases it */
    return SLURM_SUCCESS;
}

int job_modify(job_desc_msg_t *job, void *old, uint32_t uid)
{
    (void)job;
    (void)old;
    (void)uid;
    return SLURM_SUCCESS;
}

int init(void)
{
    return SLURM_SUCCESS;
}

int fini(void)
{
    return SLURM_SUCCESS;
}
