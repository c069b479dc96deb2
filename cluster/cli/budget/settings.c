/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/budget/settings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "base/text.h"

enum { MAX_GPUS = 64, MAX_KEYS = 32 };

/* Destinations of the keys of a section. NULL: such keys are not valid in the section. */
struct target {
    struct lull_budget_cap *cap;
    struct lull_budget_node *node;
    struct lull_budget_job *job;
    bool is_budget;
};

struct settings_reader {
    const char *path;
    struct lull_settings text;
    lull_budget_find_user *find_user;
    struct lull_budget_settings *settings;
    struct target target;
    bool is_in_section;
    uint32_t keys_given; /* in this section, by their rows */
    struct lull_error *err;
};

__attribute__((format(printf, 2, 3))) static int
budget_settings_refuse(const struct settings_reader *reader, const char *format, ...)
{
    char text[200];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return lull_error_set(reader->err, -EINVAL, "%.80s:%u: %s", reader->path, reader->text.line,
                          text);
}

/* --- values --- */

static int budget_settings_read_number(const struct settings_reader *reader, const char *value,
                                       double least, double most, double *number_out)
{
    if (lull_text_parse_between(value, least, most, number_out) < 0)
        return budget_settings_refuse(reader, "\"%.40s\" must be a number from %g to %g", value,
                                      least, most);
    return 0;
}

static int read_ratio(const struct settings_reader *reader, const char *value, double *ratio_out)
{
    if (lull_text_parse_ratio(value, ratio_out) < 0)
        return budget_settings_refuse(
            reader, "\"%.40s\" must be a ratio from 0 to 1, such as 0.7 or 70%%", value);
    return 0;
}

static int budget_settings_read_text(const struct settings_reader *reader, const char *value,
                                     char *text_out, size_t size)
{
    if (*value == '\0' || strlen(value) >= size)
        return budget_settings_refuse(reader, "the value is empty, or longer than %zu bytes",
                                      size - 1);
    memcpy(text_out, value, strlen(value) + 1);
    return 0;
}

static int read_rack(const struct settings_reader *reader, const char *value)
{
    for (uint32_t i = 0; i < reader->settings->rack_count; i++)
        if (strcmp(reader->settings->racks[i].name, value) == 0) {
            reader->target.node->rack = (int32_t)i;
            return 0;
        }
    return budget_settings_refuse(reader, "there is no section [rack %.40s] above", value);
}

static int read_user(const struct settings_reader *reader, const char *value)
{
    struct lull_budget_job *job = reader->target.job;
    int64_t number;

    if (lull_text_parse_int(value, 0, (int64_t)UINT32_MAX - 1, &number) == 0)
        job->uid = (uint32_t)number;
    else if (reader->find_user(value, &job->uid) < 0)
        return budget_settings_refuse(reader, "there is no user \"%.40s\" on this node", value);
    job->has_user = true;
    return 0;
}

/* Adds GPUs such as 0-3 or 5. */
static int add_gpus(const struct settings_reader *reader, char *word, uint64_t *gpus)
{
    char *dash = strchr(word, '-');
    int64_t first, last;

    if (dash != NULL)
        *dash = '\0';
    if (lull_text_parse_int(word, 0, MAX_GPUS - 1, &first) < 0)
        return budget_settings_refuse(reader, "\"%.40s\" is not a GPU number from 0 to %d", word,
                                      MAX_GPUS - 1);
    last = first;
    if (dash != NULL && lull_text_parse_int(dash + 1, first, MAX_GPUS - 1, &last) < 0)
        return budget_settings_refuse(reader, "\"%.40s\" is not a GPU number from %d to %d",
                                      dash + 1, (int)first, MAX_GPUS - 1);
    for (int64_t gpu = first; gpu <= last; gpu++)
        *gpus |= UINT64_C(1) << gpu;
    return 0;
}

/* Reads one place, such as NODE:0-3,6. */
static int budget_settings_read_place(const struct settings_reader *reader, char *text)
{
    struct lull_budget_job *job = reader->target.job;
    char *const colon = strrchr(text, ':');
    struct lull_budget_place *place;
    char *rest = NULL;
    int result;

    if (colon == NULL)
        return budget_settings_refuse(
            reader, "\"%.40s\" is not written NODE:GPUS, such as node1:0-3", text);
    if (job->place_count == LULL_BUDGET_MAX_PLACES)
        return budget_settings_refuse(reader, "a job is on %d nodes at most",
                                      LULL_BUDGET_MAX_PLACES);
    *colon = '\0';
    place = &job->places[job->place_count++];
    result =
        budget_settings_read_text(reader, lull_text_trim(text), place->node, sizeof(place->node));
    for (char *word = strtok_r(colon + 1, ",", &rest); word != NULL && result == 0;
         word = strtok_r(NULL, ",", &rest))
        result = add_gpus(reader, lull_text_trim(word), &place->gpus);
    if (result == 0 && place->gpus == 0)
        return budget_settings_refuse(reader, "\"%.40s:\" is not followed by a GPU", place->node);
    return result;
}

static int read_places(const struct settings_reader *reader, char *value)
{
    char *rest = NULL;
    int result = 0;

    for (char *word = strtok_r(value, " \t", &rest); word != NULL && result == 0;
         word = strtok_r(NULL, " \t", &rest))
        result = budget_settings_read_place(reader, word);
    return result;
}

/* --- keys --- */

enum budget_key {
    LIMIT,
    BESIDES,
    HOLD,
    GRID_FILE,
    WEBHOOK,
    WEBHOOK_TOKEN,
    OPENADR,
    OPENADR_TOKEN,
    OPENADR_PROGRAM,
    OPENADR_POLL,
    RUNTIME_DIR,
    RACK,
    GPUS,
    USER,
    WEIGHT,
    MIN,
    CLOCK_BOUND,
    KEYS,
};

_Static_assert((int)KEYS <= (int)MAX_KEYS, "a bit for each");

static const char *const key_names[KEYS] = {
    "limit-w", "besides-w",     "hold-s",          "grid-file",      "webhook",     "webhook-token",
    "openadr", "openadr-token", "openadr-program", "openadr-poll-s", "runtime-dir", "rack",
    "gpus",    "user",          "weight",          "least",          "clock-bound",
};

static bool budget_settings_belongs(const struct settings_reader *reader, enum budget_key key)
{
    const struct target *target = &reader->target;

    if (key <= BESIDES)
        return target->cap != NULL;
    if (key <= OPENADR_POLL)
        return target->is_budget;
    if (key <= RACK)
        return target->node != NULL;
    if (key <= USER)
        return target->job != NULL && target->job != &reader->settings->others;
    return target->job != NULL;
}

static int take_budget_key(const struct settings_reader *reader, enum budget_key key,
                           const char *value)
{
    struct lull_budget_settings *s = reader->settings;

    switch (key) {
    case HOLD:
        return budget_settings_read_number(reader, value, 2.0, 3600.0, &s->hold_s);
    case GRID_FILE:
        return budget_settings_read_text(reader, value, s->grid_file, sizeof(s->grid_file));
    case WEBHOOK:
        return budget_settings_read_text(reader, value, s->webhook, sizeof(s->webhook));
    case WEBHOOK_TOKEN:
        return budget_settings_read_text(reader, value, s->webhook_token_file,
                                         sizeof(s->webhook_token_file));
    case OPENADR:
        return budget_settings_read_text(reader, value, s->openadr, sizeof(s->openadr));
    case OPENADR_TOKEN:
        return budget_settings_read_text(reader, value, s->openadr_token_file,
                                         sizeof(s->openadr_token_file));
    case OPENADR_PROGRAM:
        return budget_settings_read_text(reader, value, s->openadr_program,
                                         sizeof(s->openadr_program));
    default:
        return budget_settings_read_number(reader, value, 1.0, 3600.0, &s->openadr_poll_s);
    }
}

static int budget_settings_take_key(const struct settings_reader *reader, enum budget_key key,
                                    char *value)
{
    const struct target *target = &reader->target;

    switch (key) {
    case LIMIT:
        return budget_settings_read_number(reader, value, 1.0, 1e12, &target->cap->limit_w);
    case BESIDES:
        return budget_settings_read_number(reader, value, 0.0, 1e12, &target->cap->besides_w);
    case RUNTIME_DIR:
        return budget_settings_read_text(reader, value, target->node->runtime_dir,
                                         sizeof(target->node->runtime_dir));
    case RACK:
        return read_rack(reader, value);
    case GPUS:
        return read_places(reader, value);
    case USER:
        return read_user(reader, value);
    case WEIGHT:
        return budget_settings_read_number(reader, value, 0.01, 100.0, &target->job->weight);
    case MIN:
        return read_ratio(reader, value, &target->job->min_ratio);
    case CLOCK_BOUND:
        return read_ratio(reader, value, &target->job->clock_bound);
    default:
        return take_budget_key(reader, key, value);
    }
}

static int budget_settings_read_key(struct settings_reader *reader, const char *name, char *value)
{
    uint32_t key = 0;

    while (key < KEYS && strcmp(name, key_names[key]) != 0)
        key++;
    if (key == KEYS)
        return budget_settings_refuse(reader, "unknown key \"%.40s\"; see lull-budget(1)", name);
    if (!reader->is_in_section || !budget_settings_belongs(reader, (enum budget_key)key))
        return budget_settings_refuse(reader, "%s does not belong in this section", name);
    if ((reader->keys_given >> key & 1) != 0)
        return budget_settings_refuse(reader, "%s is given twice in this section", name);
    reader->keys_given |= UINT32_C(1) << key;
    return budget_settings_take_key(reader, (enum budget_key)key, value);
}

/* --- sections --- */

static const struct lull_budget_job ordinary_job = {.weight = 1.0, .clock_bound = 1.0};

/* Returns the place of a section among those of its kind, or NULL if there are too many. */
static int begin_named(struct settings_reader *reader, const char *kind, const char *name)
{
    struct lull_budget_settings *s = reader->settings;
    char *place = NULL;

    if (strcmp(kind, "rack") == 0 && s->rack_count < LULL_BUDGET_MAX_RACKS) {
        place = s->racks[s->rack_count].name;
        reader->target.cap = &s->racks[s->rack_count++].cap;
    } else if (strcmp(kind, "node") == 0 && s->node_count < LULL_BUDGET_MAX_NODES) {
        reader->target.node = &s->nodes[s->node_count++];
        reader->target.node->rack = -1;
        reader->target.cap = &reader->target.node->cap;
        place = reader->target.node->name;
    } else if (strcmp(kind, "job") == 0 && s->job_count < LULL_BUDGET_MAX_JOBS) {
        reader->target.job = &s->jobs[s->job_count++];
        *reader->target.job = ordinary_job;
        place = reader->target.job->name;
    }
    if (place == NULL)
        return budget_settings_refuse(
            reader, "sections are [budget], [rack NAME], [node NAME], [job NAME] and "
                    "[others], and not more of them than lull-budget(1) says");
    return budget_settings_read_text(reader, name, place, LULL_BUDGET_NAME_BYTES);
}

/* Returns whether an earlier section has the kind and name of the one that has just begun. */
static bool budget_settings_is_repeated(const struct settings_reader *reader, const char *name)
{
    const struct lull_budget_settings *s = reader->settings;
    uint32_t found = 0;

    for (uint32_t i = 0; reader->target.node != NULL && i < s->node_count; i++)
        found += strcmp(s->nodes[i].name, name) == 0;
    for (uint32_t i = 0; reader->target.job != NULL && i < s->job_count; i++)
        found += strcmp(s->jobs[i].name, name) == 0;
    for (uint32_t i = 0;
         reader->target.cap != NULL && reader->target.node == NULL && i < s->rack_count; i++)
        found += strcmp(s->racks[i].name, name) == 0;
    return found > 1;
}

static int budget_settings_begin_section(struct settings_reader *reader, const char *kind,
                                         const char *name)
{
    int result;

    reader->is_in_section = true;
    reader->keys_given = 0;
    reader->target = (struct target){0};
    if (strcmp(kind, "budget") == 0 && *name == '\0') {
        reader->target.is_budget = true;
        reader->target.cap = &reader->settings->cap;
        return 0;
    }
    if (strcmp(kind, "others") == 0 && *name == '\0') {
        reader->target.job = &reader->settings->others;
        return 0;
    }
    result = begin_named(reader, kind, name);
    if (result == 0 && budget_settings_is_repeated(reader, name))
        return budget_settings_refuse(reader, "there are two sections [%s %.40s]", kind, name);
    return result;
}

static int budget_settings_read_line(struct settings_reader *reader, enum lull_settings_kind kind)
{
    struct lull_settings *const text = &reader->text;

    if (kind == LULL_SETTINGS_SECTION)
        return budget_settings_begin_section(reader, text->name, text->value);
    if (kind == LULL_SETTINGS_KEY)
        return budget_settings_read_key(reader, text->name, text->value);
    if (kind == LULL_SETTINGS_NO_SECTION)
        return budget_settings_refuse(reader, "a section is written [SECTION]");
    if (kind == LULL_SETTINGS_NO_KEY)
        return budget_settings_refuse(reader, "\"%.40s\" is neither KEY = VALUE nor [SECTION]",
                                      text->name);
    return budget_settings_refuse(reader, "not a line of text, or longer than %d bytes",
                                  LULL_SETTINGS_LINE_BYTES - 1);
}

/* --- the whole --- */

static bool is_node(const struct lull_budget_settings *settings, const char *name)
{
    for (uint32_t i = 0; i < settings->node_count; i++)
        if (strcmp(settings->nodes[i].name, name) == 0)
            return true;
    return false;
}

/* Checks the references between sections, which is possible only at the end. */
static int budget_settings_check(const struct settings_reader *reader)
{
    const struct lull_budget_settings *s = reader->settings;

    if (s->webhook[0] != '\0' && (s->webhook_token_file[0] == '\0' || s->grid_file[0] == '\0'))
        return budget_settings_refuse(reader,
                                      "a webhook needs webhook-token (the file of its secret) and "
                                      "grid-file (where its events are stored)");
    for (uint32_t i = 0; i < s->job_count; i++) {
        const struct lull_budget_job *job = &s->jobs[i];

        if (job->has_user == (job->place_count > 0))
            return budget_settings_refuse(reader, "[job %.40s] needs gpus or user, and not both",
                                          job->name);
        for (uint32_t p = 0; p < job->place_count; p++)
            if (!is_node(s, job->places[p].node))
                return budget_settings_refuse(reader,
                                              "[job %.40s]: there is no section [node %.40s]",
                                              job->name, job->places[p].node);
    }
    return 0;
}

static int budget_settings_read_all(struct settings_reader *reader)
{
    enum lull_settings_kind kind;
    int result = 0;

    while (result == 0 && (kind = lull_settings_next(&reader->text)) != LULL_SETTINGS_END)
        result = budget_settings_read_line(reader, kind);
    return result < 0 ? result : budget_settings_check(reader);
}

int lull_budget_settings_read(const char *path, const char *text, size_t size,
                              lull_budget_find_user *find_user,
                              struct lull_budget_settings *settings_out, struct lull_error *err)
{
    struct lull_budget_settings *settings = calloc(1, sizeof(*settings));
    struct settings_reader reader = {.path = path,
                                     .text = {.at = text, .end = text + size},
                                     .find_user = find_user,
                                     .settings = settings,
                                     .err = err};
    int result;

    if (settings == NULL)
        return lull_error_set(err, -ENOMEM, "%.80s: not enough memory for it", path);
    settings->hold_s = 30.0;
    settings->openadr_poll_s = 10.0;
    settings->others = ordinary_job;
    result = budget_settings_read_all(&reader);
    if (result == 0 && settings->node_count == 0)
        settings->nodes[settings->node_count++] =
            (struct lull_budget_node){.name = "localhost", .rack = -1};
    if (result == 0)
        *settings_out = *settings;
    free(settings);
    return result;
}
