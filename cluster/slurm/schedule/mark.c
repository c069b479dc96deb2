/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/slurm/schedule/mark.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "cluster/slurm/job_options.h"

enum {
    WORD_BYTES = 128,
    MAX_MHZ = 100000,
    MAX_TRIES = 1000,
    MAX_MINUTES = 1 << 30,
    MAX_GPUS = 1 << 20
};

static const char ASKED[] = "lull-schedule";

/* ---- words --------------------------------------------------------------------------------- */

/* Takes the next word of a text, and a copy of it that is cut to what fits; NULL: there is none. */
static const char *mark_next_word(const char **at, char word_out[WORD_BYTES], size_t *length_out)
{
    const char *const word = *at + strspn(*at, " \t\n");

    *length_out = strcspn(word, " \t\n");
    *at = word + *length_out;
    if (*length_out == 0)
        return NULL;
    snprintf(word_out, WORD_BYTES, "%.*s",
             (int)(*length_out < WORD_BYTES ? *length_out : WORD_BYTES - 1), word);
    return word;
}

/* The value of a word KEY=VALUE; NULL: it is another one. */
static const char *mark_value_of(const char *word, const char *key)
{
    const size_t length = strlen(key);

    return strncmp(word, key, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

static void mark_take_number(const char *text, int64_t most, int64_t *number)
{
    int64_t value;

    if (lull_text_parse_int(text, 0, most, &value) == 0)
        *number = value;
}

static void mark_take_word(const char *word, int64_t now_s, struct lull_mark *mark)
{
    const char *value;
    int64_t mhz = mark->sm_mhz, tries = mark->tries, limit_min = mark->limit_min;
    time_t deadline;

    if ((value = mark_value_of(word, "schedule")) != NULL) {
        mark->is_asked = true;
        mark->is_placed = strcmp(value, "placed") == 0;
    } else if ((value = mark_value_of(word, "placed-s")) != NULL) {
        mark_take_number(value, INT64_MAX / 2, &mark->placed_s);
    } else if ((value = mark_value_of(word, "sm-mhz")) != NULL) {
        mark_take_number(value, MAX_MHZ, &mhz);
        mark->sm_mhz = (uint32_t)mhz;
    } else if ((value = mark_value_of(word, "limit-min")) != NULL) {
        mark_take_number(value, MAX_MINUTES, &limit_min);
        mark->limit_min = (uint32_t)limit_min;
    } else if ((value = mark_value_of(word, "tries")) != NULL) {
        mark_take_number(value, MAX_TRIES, &tries);
        mark->tries = (uint32_t)tries;
    } else if ((value = mark_value_of(word, "batch-job")) != NULL) {
        snprintf(mark->name, sizeof(mark->name), "%.63s", value);
    } else if ((value = mark_value_of(word, "deadline")) != NULL &&
               lull_job_options_parse_deadline(value, (time_t)now_s, &deadline) == 0 &&
               deadline > 0) {
        mark->deadline_s = deadline;
    }
}

void lull_mark_read(const char *admin_comment, const char *comment, int64_t now_s,
                    struct lull_mark *mark_out)
{
    char word[WORD_BYTES];
    size_t length;

    *mark_out = (struct lull_mark){0};
    for (const char *at = admin_comment; at != NULL && mark_next_word(&at, word, &length) != NULL;)
        mark_take_word(word, now_s, mark_out);
    for (const char *at = comment; at != NULL && mark_next_word(&at, word, &length) != NULL;)
        if (strcmp(word, ASKED) == 0)
            mark_out->is_asked = mark_out->is_by_user = true;
}

static bool is_of_client(const char *word)
{
    static const char *const keys[] = {"schedule", "placed-s", "sm-mhz", "limit-min", "tries"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (mark_value_of(word, keys[i]) != NULL)
            return true;
    return false;
}

int lull_mark_write(const char *admin_comment, const struct lull_mark *mark,
                    char text_out[LULL_MARK_BYTES])
{
    char text[LULL_MARK_BYTES] = "";
    char word[WORD_BYTES];
    const char *at = admin_comment != NULL ? admin_comment : "";
    size_t used = 0, length;
    const char *whole;

    while ((whole = mark_next_word(&at, word, &length)) != NULL) {
        if (is_of_client(word))
            continue;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%.*s ", (int)length, whole);
        if (used >= sizeof(text))
            return -ENAMETOOLONG;
    }
    used += (size_t)snprintf(text + used, sizeof(text) - used, "schedule=%s",
                             mark->is_placed ? "placed" : "held");
    if (mark->is_placed && used < sizeof(text))
        used += (size_t)snprintf(text + used, sizeof(text) - used, " placed-s=%lld",
                                 (long long)mark->placed_s);
    if (mark->is_placed && mark->sm_mhz != 0 && used < sizeof(text))
        used += (size_t)snprintf(text + used, sizeof(text) - used, " sm-mhz=%u", mark->sm_mhz);
    if (mark->is_placed && mark->limit_min != 0 && used < sizeof(text))
        used +=
            (size_t)snprintf(text + used, sizeof(text) - used, " limit-min=%u", mark->limit_min);
    if (mark->tries != 0 && used < sizeof(text))
        used += (size_t)snprintf(text + used, sizeof(text) - used, " tries=%u", mark->tries);
    if (used >= sizeof(text))
        return -ENAMETOOLONG;
    memcpy(text_out, text, used + 1);
    return 0;
}

/* ---- resources ----------------------------------------------------------------------------- */

/* Reads an entry that begins behind "gpu": [:TYPE][:COUNT], with what follows it in brackets. */
static void mark_take_entry(const char *at, size_t length, struct lull_gpu_count *count)
{
    uint32_t gpus = 1; /* without a number */

    while (length > 0 && *at == ':') {
        const char *const part = at + 1;
        size_t size = 0;

        while (size + 1 < length && part[size] != ':' && part[size] != '=')
            size++;
        if (size > 0 && isdigit((unsigned char)part[0])) {
            const char *digits = part;

            if (lull_text_take_digits(&digits, MAX_GPUS, &gpus) < 0)
                return;
        } else if (count->type[0] == '\0' && size < LULL_MARK_NAME) {
            memcpy(count->type, part, size);
            count->type[size] = '\0';
        }
        at += size + 1;
        length -= size + 1;
    }
    if (length > 1 && *at == '=') {
        const char *digits = at + 1;

        if (lull_text_take_digits(&digits, MAX_GPUS, &gpus) < 0)
            return;
    }
    if (count->gpus <= MAX_GPUS)
        count->gpus += gpus;
}

void lull_gpu_count_read(const char *resources, struct lull_gpu_count *count_out)
{
    *count_out = (struct lull_gpu_count){0};
    for (const char *at = resources; at != NULL && *at != '\0';) {
        size_t length = 0;

        if (strncmp(at, "gres:", 5) == 0 || strncmp(at, "gres/", 5) == 0)
            at += 5;
        while (at[length] != '\0' && at[length] != ',' && at[length] != '(')
            length++;
        if (strncmp(at, "gpu", 3) == 0 && length >= 3 && strchr(":=,(", at[3]) != NULL)
            mark_take_entry(at + 3, length - 3, count_out);
        at += length;
        if (*at == '(') /* with commas of its own */
            at += strcspn(at, ")");
        at += strcspn(at, ",");
        at += *at == ',';
    }
}
