/*
 * Job options of Slurm users, site requirements, and the nodes and the key of a step:
 * refused, or within the documented ranges. Refused texts leave the options unchanged.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

#include "cluster/slurm/site.h"
#include "cluster/slurm/submit_settings.h"
#include "cluster/slurm/job_options.h"

static void check_deadline(const char *text)
{
    const time_t now = 1800000000;
    const time_t ten_years = (time_t)10 * 366 * 86400;
    time_t deadline = -7;

    if (lull_job_options_parse_deadline(text, now, &deadline) < 0)
        require(deadline == -7);
    else
        require(deadline - now <= ten_years);
}

static void check_option(int (*take)(struct lull_job_options *, const char *, const char **),
                         const char *text)
{
    struct lull_job_options options = {0};
    const struct lull_job_options before = options;
    const char *words[LULL_JOB_OPTIONS_WORDS];
    const char *expected = NULL;

    if (take(&options, text, &expected) < 0) {
        require(memcmp(&options, &before, sizeof(options)) == 0);
        require(expected != NULL);
    }
    require(lull_job_options_table(&options, words) <= LULL_JOB_OPTIONS_WORDS);
    require(memchr(options.tolerance, 0, LULL_JOB_OPTIONS_TEXT) != NULL);
    require(memchr(options.deadline, 0, LULL_JOB_OPTIONS_TEXT) != NULL);
    require(memchr(options.batch_job, 0, LULL_JOB_OPTIONS_TEXT) != NULL);
    require(lull_job_options_policy(&options) != NULL);
}

static void check_settings(const uint8_t *data, size_t size)
{
    struct lull_submit_settings settings = {0};
    FILE *const file = size > 0 ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;

    if (file == NULL)
        return;
    lull_submit_settings_read(file, &settings);
    fclose(file);
}

/* A name has no character that means something in an endpoint. */
static void check_step(const char *text)
{
    struct lull_site site = LULL_SITE_DEFAULT;
    char name[LULL_TOGETHER_NAME];

    if (lull_together_first_node(text, name)) {
        require(name[0] != '\0' && memchr(name, 0, sizeof(name)) != NULL);
        require(strpbrk(name, ":/*[], ") == NULL);
    }
    if (lull_together_is_key(text))
        require(strlen(text) == LULL_TOGETHER_KEY_TEXT - 1);
    lull_site_take(&site, text);
    if (!lull_together_take_ports(text, &site.ports))
        lull_together_take_ports("28000-29999", &site.ports);
    require(site.ports.first <= site.ports.last);
    require(lull_together_port(&site.ports, 77, 3) >= site.ports.first);
    require(lull_together_port(&site.ports, 77, 3) <= site.ports.last);
    require(memchr(site.program, 0, LULL_SITE_NAME) != NULL);
    require(memchr(site.runtime_dir, 0, LULL_SITE_NAME) != NULL);
    require(memchr(site.scheduler, 0, LULL_SITE_NAME) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = malloc(size + 1);

    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    check_option(lull_job_options_set_policy, text);
    check_option(lull_job_options_set_tolerance, text);
    check_option(lull_job_options_set_deadline, text);
    check_option(lull_job_options_set_batch_job, text);
    check_deadline(text);
    check_settings(data, size);
    check_step(text);
    free(text);
    return 0;
}
