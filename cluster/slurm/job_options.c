/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/slurm/job_options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { POLICY_ON, POLICY_OFF, POLICY_STEADY, POLICY_LIMIT };

static const char *const policies[] = {
    [POLICY_ON] = "on", [POLICY_OFF] = "off", [POLICY_STEADY] = "steady", [POLICY_LIMIT] = "limit"};
static const char default_tolerance[] = "1%";

static const long long minute_s = 60, hour_s = 3600, day_s = 86400;
static const long long furthest_s = 10LL * 366 * 86400;

const char *lull_job_options_policy(const struct lull_job_options *job_options)
{
    return policies[job_options->policy];
}

int lull_job_options_set_policy(struct lull_job_options *job_options, const char *text,
                                const char **expected_out)
{
    /* Slurm itself hands an option without a value on to the steps of a batch job in this way. */
    if (text == NULL || text[0] == '\0' || strcmp(text, "(null)") == 0)
        text = policies[POLICY_ON];
    for (unsigned i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        if (strcmp(text, policies[i]) != 0)
            continue;
        job_options->policy = i;
        job_options->is_given = true;
        return 0;
    }
    *expected_out = "on, off, steady or limit";
    return -1;
}

static void slurm_options_copy(char place[LULL_JOB_OPTIONS_TEXT], const char *text)
{
    memcpy(place, text, strlen(text) + 1);
}

int lull_job_options_set_tolerance(struct lull_job_options *job_options, const char *text,
                                   const char **expected_out)
{
    char *end = NULL;
    double ratio;

    *expected_out = "a ratio above 0 and below 1, such as 1% or 0.01";
    if (text == NULL || strlen(text) >= LULL_JOB_OPTIONS_TEXT ||
        !(isdigit((unsigned char)text[0]) || text[0] == '.') ||
        strspn(text, "0123456789.eE+-%") != strlen(text))
        return -1;
    ratio = strtod(text, &end);
    if (end[0] == '%') {
        ratio /= 100.0;
        end++;
    }
    if (end[0] != '\0' || !(ratio > 0.0) || !(ratio < 1.0))
        return -1;
    slurm_options_copy(job_options->tolerance, text);
    return 0;
}

int lull_job_options_set_deadline(struct lull_job_options *job_options, const char *text,
                                  const char **expected_out)
{
    time_t deadline;

    if (text == NULL || strlen(text) >= LULL_JOB_OPTIONS_TEXT ||
        lull_job_options_parse_deadline(text, time(NULL), &deadline) < 0) {
        *expected_out =
            "a local time such as 2027-01-31T18:00, or how long from now as with --time: "
            "90, 1:30:00, 2-12";
        return -1;
    }
    slurm_options_copy(job_options->deadline, text);
    return 0;
}

int lull_job_options_set_batch_job(struct lull_job_options *job_options, const char *text,
                                   const char **expected_out)
{
    *expected_out = "the name of a recurring job: letters, digits and . _ - only, 63 at most";
    if (text == NULL || text[0] == '\0' || text[0] == '-' || strlen(text) >= LULL_JOB_OPTIONS_TEXT)
        return -1;
    for (const char *c = text; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("._-", *c) == NULL)
            return -1;
    slurm_options_copy(job_options->batch_job, text);
    return 0;
}

int lull_job_options_set_schedule(struct lull_job_options *job_options, const char *text,
                                  const char **expected_out)
{
    const bool is_on =
        text == NULL || text[0] == '\0' || strcmp(text, "(null)") == 0 || strcmp(text, "on") == 0;

    if (!is_on && strcmp(text, "off") != 0) {
        *expected_out = "on or off";
        return -1;
    }
    job_options->is_schedule_given = true;
    job_options->is_scheduled = is_on;
    return 0;
}

bool lull_job_options_is_scheduled(const struct lull_job_options *job_options, bool is_default)
{
    return job_options->is_schedule_given ? job_options->is_scheduled : is_default;
}

bool lull_job_options_is_on(const struct lull_job_options *job_options, bool is_default)
{
    if (job_options->is_given)
        return job_options->policy != POLICY_OFF;
    /* A tolerance or a batch job implies that the job is to be managed. */
    return is_default || job_options->tolerance[0] != '\0' || job_options->batch_job[0] != '\0';
}

size_t lull_job_options_table(const struct lull_job_options *job_options,
                              const char *words_out[LULL_JOB_OPTIONS_WORDS])
{
    size_t count = 0;

    if (job_options->tolerance[0] != '\0') {
        words_out[count++] = "--tolerance";
        words_out[count++] = job_options->tolerance;
    }
    if (job_options->is_given && job_options->policy == POLICY_STEADY) {
        words_out[count++] = "--steady";
        words_out[count++] =
            job_options->tolerance[0] != '\0' ? job_options->tolerance : default_tolerance;
    }
    if (job_options->is_given && job_options->policy == POLICY_LIMIT) {
        words_out[count++] = "--power-limit";
        words_out[count++] = "auto";
    }
    return count;
}

/* ---- deadlines ---- */

/* Reads digits, of which there are some and no more than fit; moves the text on. */
static int slurm_options_read_number(const char **text, long long *number_out)
{
    long long number = 0;
    int digits = 0;

    for (; isdigit((unsigned char)**text); (*text)++) {
        if (++digits > 9)
            return -1;
        number = 10 * number + (**text - '0');
    }
    *number_out = number;
    return digits > 0 ? 0 : -1;
}

/* Reads up to three numbers with colons between them, to the end of the text; returns how many, or
 * -1. */
static int slurm_options_read_numbers(const char *text, long long numbers_out[3])
{
    for (int count = 1; count <= 3; count++) {
        if (slurm_options_read_number(&text, &numbers_out[count - 1]) < 0)
            return -1;
        if (*text == '\0')
            return count;
        if (*text++ != ':')
            return -1;
    }
    return -1;
}

static int parse_duration(const char *text, long long *seconds_out)
{
    const char *const dash = strchr(text, '-');
    long long days = 0;
    long long n[3] = {0, 0, 0};
    int count;

    if (dash != NULL && (slurm_options_read_number(&text, &days) < 0 || text++ != dash))
        return -1;
    count = slurm_options_read_numbers(text, n);
    if (count < 0)
        return -1;
    if (dash != NULL) /* missing minutes and seconds are 0 */
        *seconds_out = days * day_s + n[0] * hour_s + n[1] * minute_s + n[2];
    else if (count == 3)
        *seconds_out = n[0] * hour_s + n[1] * minute_s + n[2];
    else
        *seconds_out = n[0] * minute_s + n[1];
    return 0;
}

static int parse_local_time(const char *text, time_t *time_out)
{
    struct tm tm = {.tm_isdst = -1};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M", &tm);

    if (end != NULL && *end == ':')
        end = strptime(end, ":%S", &tm);
    if (end == NULL || *end != '\0')
        return -1;
    *time_out = mktime(&tm);
    return *time_out == (time_t)-1 ? -1 : 0;
}

int lull_job_options_parse_deadline(const char *text, time_t now, time_t *deadline_out)
{
    long long seconds;
    time_t deadline;

    if (strchr(text, 'T') != NULL) {
        if (parse_local_time(text, &deadline) < 0)
            return -1;
    } else if (parse_duration(text, &seconds) < 0 || seconds > furthest_s) {
        return -1;
    } else {
        deadline = now + (time_t)seconds;
    }
    if (deadline - now > furthest_s)
        return -1;
    *deadline_out = deadline;
    return 0;
}
