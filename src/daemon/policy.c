/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/settings.h"
#include "base/text.h"

/* --- reading --- */

struct policy_reader {
    const char *path;
    struct lull_settings settings;
    const struct lull_policy_names *names;
    struct lull_policy *policy;
    struct lull_policy_rule *rule; /* NULL: the section of lulld itself, or none yet */
    bool is_in_section;
    bool is_section_unknown; /* nothing can be said about the keys of a section of no known kind */
    uint32_t section_line;
    uint32_t keys_given; /* in this section, a bit for each key */
    uint32_t error_count;
    struct lull_error *err;
    const struct lull_policy_listener *listener;
};

__attribute__((format(printf, 3, 4))) static int
policy_refuse(struct policy_reader *reader, uint32_t line, const char *format, ...)
{
    struct lull_error error;
    char what[240];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    lull_error_set(&error, -EINVAL, "%.200s:%u: %s", reader->path, line, what);
    if (reader->error_count++ == 0 && reader->err != NULL)
        *reader->err = error;
    if (reader->listener != NULL)
        reader->listener->report(reader->listener->context, error.text);
    return -EINVAL;
}

static int read_id(struct policy_reader *reader, int (*find)(const char *, uint32_t *),
                   const char *field, const char *kind, const char *name, uint32_t *id_out)
{
    int64_t number;

    /* The highest number represents "none" in the kernel's calls. */
    if (lull_text_parse_int(name, 0, (int64_t)UINT32_MAX - 1, &number) == 0) {
        *id_out = (uint32_t)number;
        return 0;
    }
    if (find(name, id_out) < 0)
        return policy_refuse(
            reader, reader->settings.line,
            "%s: no %s \"%.40s\" on this node; correct the name, or give the number", field, kind,
            name);
    return 0;
}

static int read_flag(struct policy_reader *reader, const char *field, const char *value,
                     bool *flag_out)
{
    if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
        return policy_refuse(reader, reader->settings.line, "%s: must be yes or no, not \"%.40s\"",
                             field, value);
    *flag_out = strcmp(value, "yes") == 0;
    return 0;
}

static int policy_read_number(struct policy_reader *reader, const char *field, const char *value,
                              uint32_t factor, const char *unit, uint32_t *number_out)
{
    int64_t number;

    if (lull_text_parse_int(value, 1, 100000, &number) < 0)
        return policy_refuse(reader, reader->settings.line,
                             "%s: must be a whole number of %s from 1 to 100000, not \"%.40s\"",
                             field, unit, value);
    *number_out = (uint32_t)number * factor;
    return 0;
}

/* A PCI address, which is written with four or with eight digits of its domain. */
static bool policy_parse_address(const char *text, uint32_t *parts)
{
    char rest;

    return strlen(text) <= 16 && sscanf(text, "%8x:%2x:%2x.%1x%c", &parts[0], &parts[1], &parts[2],
                                        &parts[3], &rest) == 4;
}

static int policy_add_gpu(struct policy_reader *reader, const char *field, const char *name)
{
    struct lull_policy *const policy = reader->policy;
    uint32_t parts[4];

    if (policy->gpu_count == LULL_POLICY_MAX_GPUS)
        return policy_refuse(
            reader, reader->settings.line,
            "%s: more than %d GPUs are named in this file; write all where it applies", field,
            LULL_POLICY_MAX_GPUS);
    /* An index would mean another GPU after a reboot, and in a container. */
    if (strlen(name) < 8 || strlen(name) >= LULL_POLICY_NAME_BYTES ||
        (strchr(name, '-') == NULL && !policy_parse_address(name, parts)))
        return policy_refuse(
            reader, reader->settings.line,
            "%s: \"%.40s\" is not a UUID or a PCI address; lull gpus --json prints both", field,
            name);
    snprintf(policy->gpus[policy->gpu_count++], LULL_POLICY_NAME_BYTES, "%s", name);
    reader->rule->gpu_count++;
    return 0;
}

static int policy_read_gpus(struct policy_reader *reader, const char *field, char *value)
{
    char *rest = NULL;
    int result = 0;

    if (strcmp(value, "all") == 0) {
        reader->rule->is_for_all_gpus = true;
        return 0;
    }
    reader->rule->first_gpu = reader->policy->gpu_count;
    for (char *word = strtok_r(value, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest))
        if (policy_add_gpu(reader, field, lull_text_trim(word)) < 0)
            result = -EINVAL;
    if (result == 0 && reader->rule->gpu_count == 0)
        return policy_refuse(reader, reader->settings.line,
                             "%s: no GPU is named; write all, or UUIDs or PCI addresses", field);
    return result;
}

static int policy_read_device(struct policy_reader *reader, const char *value)
{
    if (strncmp(value, "/dev/", 5) != 0 || strlen(value) >= LULL_POLICY_NAME_BYTES)
        return policy_refuse(reader, reader->settings.line,
                             "device: must be the path of a device below /dev, not \"%.40s\"",
                             value);
    memcpy(reader->rule->device, value, strlen(value) + 1);
    return 0;
}

enum key {
    ADMINISTRATORS,
    VIEWERS,
    CONTAINERS,
    SHARED,
    GPUS,
    MIN_SM,
    MAX_SM,
    MIN_POWER,
    MAX_POWER,
    POWER_PROFILES,
    POWER_SMOOTHING,
    DEVICE,
    KEYS,
};

static const char *const key_names[KEYS] = {
    "administrators", "viewers",        "containers",      "shared",
    "gpus",           "min-sm-mhz",     "max-sm-mhz",      "min-power-w",
    "max-power-w",    "power-profiles", "power-smoothing", "device",
};

static int read_own_key(struct policy_reader *reader, enum key key, char *value)
{
    struct lull_policy *const policy = reader->policy;
    uint32_t id;
    int result;

    if (key == CONTAINERS)
        return read_flag(reader, key_names[key], value, &policy->allows_containers);
    if (key == SHARED)
        return read_flag(reader, key_names[key], value, &policy->allows_shared);
    if (key != ADMINISTRATORS && key != VIEWERS)
        return policy_refuse(
            reader, reader->settings.line,
            "%s: not a key of [lulld], which has administrators, viewers, containers and "
            "shared",
            key_names[key]);
    result = read_id(reader, reader->names->group, key_names[key], "group", value, &id);
    if (result < 0)
        return result;
    if (key == VIEWERS) {
        policy->viewers = id;
        policy->has_viewers = true;
    } else {
        policy->administrators = id;
        policy->has_administrators = true;
    }
    return 0;
}

static int read_rule_key(struct policy_reader *reader, enum key key, char *value)
{
    struct lull_policy_limits *const limits = &reader->rule->limits;

    switch (key) {
    case GPUS:
        if (reader->rule->subject == LULL_POLICY_GPU)
            break;
        return policy_read_gpus(reader, key_names[key], value);
    case MIN_SM:
        return policy_read_number(reader, key_names[key], value, 1, "MHz", &limits->min_mhz);
    case MAX_SM:
        return policy_read_number(reader, key_names[key], value, 1, "MHz", &limits->max_mhz);
    case MIN_POWER:
        return policy_read_number(reader, key_names[key], value, 1000, "watts",
                                  &limits->min_limit_mw);
    case MAX_POWER:
        return policy_read_number(reader, key_names[key], value, 1000, "watts",
                                  &limits->max_limit_mw);
    case POWER_PROFILES:
        if (reader->rule->subject == LULL_POLICY_GPU)
            break;
        return read_flag(reader, key_names[key], value, &limits->allows_profiles);
    case POWER_SMOOTHING:
        if (reader->rule->subject == LULL_POLICY_GPU)
            break;
        return read_flag(reader, key_names[key], value, &limits->allows_smoothing);
    case DEVICE:
        if (reader->rule->subject != LULL_POLICY_GPU || reader->rule->is_for_all_gpus)
            break;
        return policy_read_device(reader, value);
    default:
        break;
    }
    return policy_refuse(reader, reader->settings.line,
                         "%s: not a key of this section; see lulld-policy(5)", key_names[key]);
}

static int policy_read_key(struct policy_reader *reader, const char *name, char *value)
{
    uint32_t key = 0;

    while (key < KEYS && strcmp(name, key_names[key]) != 0)
        key++;
    if (key == KEYS)
        return policy_refuse(reader, reader->settings.line,
                             "%.40s: no such key; see lulld-policy(5)", name);
    if (!reader->is_in_section)
        return policy_refuse(reader, reader->settings.line, "%s: must be below a [SECTION]", name);
    if ((reader->keys_given >> key & 1) != 0)
        return policy_refuse(reader, reader->settings.line,
                             "%s: given twice in this section; remove one", name);
    reader->keys_given |= UINT32_C(1) << key;
    if (reader->is_section_unknown)
        return 0;
    if (reader->rule == NULL)
        return read_own_key(reader, (enum key)key, value);
    return read_rule_key(reader, (enum key)key, value);
}

/* Checks what a section lacks, which shows only at its end. */
static void policy_end_section(struct policy_reader *reader)
{
    const struct lull_policy_rule *const rule = reader->rule;

    if (rule == NULL || reader->is_section_unknown)
        return;
    if (rule->subject != LULL_POLICY_GPU && (reader->keys_given >> GPUS & 1) == 0)
        policy_refuse(reader, reader->section_line,
                      "gpus: missing in this section; write gpus = all, or UUIDs or PCI addresses");
    if (rule->limits.max_mhz != 0 && rule->limits.min_mhz > rule->limits.max_mhz)
        policy_refuse(
            reader, reader->section_line,
            "min-sm-mhz: above max-sm-mhz of this section; lower one, or raise the other");
    if (rule->limits.max_limit_mw != 0 && rule->limits.min_limit_mw > rule->limits.max_limit_mw)
        policy_refuse(
            reader, reader->section_line,
            "min-power-w: above max-power-w of this section; lower one, or raise the other");
}

static int read_subject(struct policy_reader *reader, const char *kind, char *name)
{
    struct lull_policy_rule *const rule = reader->rule;

    if (strcmp(kind, "everybody") == 0 && name[0] == '\0') {
        rule->subject = LULL_POLICY_EVERYBODY;
        return 0;
    }
    if (strcmp(kind, "user") == 0 && name[0] != '\0') {
        rule->subject = LULL_POLICY_USER;
        return read_id(reader, reader->names->user, "[user]", "user", name, &rule->id);
    }
    if (strcmp(kind, "group") == 0 && name[0] != '\0') {
        rule->subject = LULL_POLICY_GROUP;
        return read_id(reader, reader->names->group, "[group]", "group", name, &rule->id);
    }
    if (strcmp(kind, "gpu") == 0 && name[0] != '\0') {
        rule->subject = LULL_POLICY_GPU;
        return policy_read_gpus(reader, "[gpu]", name);
    }
    reader->is_section_unknown = true;
    return policy_refuse(
        reader, reader->settings.line,
        "[%.40s]: no such section; use [lulld], [everybody], [user NAME], [group NAME] or "
        "[gpu GPU]",
        kind);
}

static void policy_begin_section(struct policy_reader *reader)
{
    policy_end_section(reader);
    reader->is_in_section = true;
    reader->is_section_unknown = true;
    reader->section_line = reader->settings.line;
    reader->keys_given = 0;
    reader->rule = NULL;
}

static int policy_read_section(struct policy_reader *reader, const char *kind, char *name)
{
    struct lull_policy *const policy = reader->policy;

    policy_begin_section(reader);
    reader->is_section_unknown = false;
    if (strcmp(kind, "lulld") == 0 && *name == '\0')
        return 0;
    reader->is_section_unknown = policy->rule_count == LULL_POLICY_MAX_RULES;
    if (reader->is_section_unknown)
        return policy_refuse(reader, reader->settings.line,
                             "[%.40s]: more than %d sections; merge sections with equal contents",
                             kind, LULL_POLICY_MAX_RULES);
    reader->rule = &policy->rules[policy->rule_count++];
    return read_subject(reader, kind, name);
}

/* Reads a line; false: there is none. */
static bool policy_read_line(struct policy_reader *reader)
{
    struct lull_settings *const settings = &reader->settings;

    switch (lull_settings_next(settings)) {
    case LULL_SETTINGS_END:
        return false;
    case LULL_SETTINGS_SECTION:
        policy_read_section(reader, settings->name, settings->value);
        break;
    case LULL_SETTINGS_KEY:
        policy_read_key(reader, settings->name, settings->value);
        break;
    case LULL_SETTINGS_NOT_TEXT:
        policy_refuse(reader, settings->line,
                      "not a line of text of at most %d bytes; correct or remove it",
                      LULL_SETTINGS_LINE_BYTES - 1);
        break;
    case LULL_SETTINGS_NO_SECTION:
        policy_begin_section(reader);
        policy_refuse(reader, settings->line, "\"%.40s\": must be written [SECTION]",
                      settings->name);
        break;
    case LULL_SETTINGS_NO_KEY:
        policy_refuse(reader, settings->line, "\"%.40s\": must be KEY = VALUE or [SECTION]",
                      settings->name);
        break;
    }
    return true;
}

int lull_policy_read(const char *path, const char *text, size_t size,
                     const struct lull_policy_names *names,
                     const struct lull_policy_listener *listener, struct lull_policy *policy_out,
                     struct lull_error *err)
{
    struct lull_policy policy = {0};
    struct policy_reader reader = {.path = path,
                                   .settings = {.at = text, .end = text + size},
                                   .names = names,
                                   .policy = &policy,
                                   .err = err,
                                   .listener = listener};

    while ((reader.error_count == 0 || listener != NULL) && policy_read_line(&reader))
        continue;
    policy_end_section(&reader);
    if (reader.error_count != 0)
        return -EINVAL;
    *policy_out = policy;
    return 0;
}

/* --- asking --- */

bool lull_policy_is_name_of(const char *name, const char *uuid, const char *pci)
{
    uint32_t wanted[4], there[4];

    if (strcasecmp(name, uuid) == 0)
        return true;
    return policy_parse_address(name, wanted) && policy_parse_address(pci, there) &&
           memcmp(wanted, there, sizeof(wanted)) == 0;
}

static bool is_about(const struct lull_policy *policy, const struct lull_policy_rule *rule,
                     const char *uuid, const char *pci)
{
    if (rule->is_for_all_gpus)
        return true;
    for (uint32_t i = 0; i < rule->gpu_count; i++)
        if (lull_policy_is_name_of(policy->gpus[rule->first_gpu + i], uuid, pci))
            return true;
    return false;
}

bool lull_policy_is_in_group(const struct lull_policy_person *person, gid_t group)
{
    for (uint32_t i = 0; i < person->group_count; i++)
        if (person->groups[i] == group)
            return true;
    return false;
}

bool lull_policy_is_administrator(const struct lull_policy *policy,
                                  const struct lull_policy_person *person)
{
    return person->uid == 0 ||
           (policy->has_administrators && lull_policy_is_in_group(person, policy->administrators));
}

static bool is_for(const struct lull_policy_rule *rule, const struct lull_policy_person *person)
{
    switch (rule->subject) {
    case LULL_POLICY_EVERYBODY:
        return true;
    case LULL_POLICY_USER:
        return rule->id == person->uid;
    case LULL_POLICY_GROUP:
        return lull_policy_is_in_group(person, rule->id);
    case LULL_POLICY_GPU:
        break;
    }
    return false;
}

const struct lull_policy_rule *lull_policy_find(const struct lull_policy *policy,
                                                const struct lull_policy_person *person,
                                                const char *uuid, const char *pci)
{
    for (uint32_t i = 0; i < policy->rule_count; i++)
        if (is_for(&policy->rules[i], person) && is_about(policy, &policy->rules[i], uuid, pci))
            return &policy->rules[i];
    return NULL;
}

const char *lull_policy_find_device(const struct lull_policy *policy, const char *uuid,
                                    const char *pci)
{
    for (uint32_t i = 0; i < policy->rule_count; i++)
        if (policy->rules[i].device[0] != '\0' && is_about(policy, &policy->rules[i], uuid, pci))
            return policy->rules[i].device;
    return NULL;
}

static uint32_t lower_cap(uint32_t one, uint32_t other)
{
    if (one == 0 || other == 0)
        return one + other;
    return one < other ? one : other;
}

static uint32_t policy_max(uint32_t one, uint32_t other)
{
    return one > other ? one : other;
}

void lull_policy_narrow(struct lull_policy_limits *limits, const struct lull_policy_limits *others)
{
    limits->min_mhz = policy_max(limits->min_mhz, others->min_mhz);
    limits->max_mhz = lower_cap(limits->max_mhz, others->max_mhz);
    limits->min_limit_mw = policy_max(limits->min_limit_mw, others->min_limit_mw);
    limits->max_limit_mw = lower_cap(limits->max_limit_mw, others->max_limit_mw);
}

void lull_policy_limit_gpu(const struct lull_policy *policy, const char *uuid, const char *pci,
                           struct lull_policy_limits *limits)
{
    for (uint32_t i = 0; i < policy->rule_count; i++)
        if (policy->rules[i].subject == LULL_POLICY_GPU &&
            is_about(policy, &policy->rules[i], uuid, pci))
            lull_policy_narrow(limits, &policy->rules[i].limits);
}

/* Raises a lower end to the floor and lowers an upper end to the cap; caps rank above floors. */
static bool policy_fit(uint32_t floor, uint32_t cap, uint32_t *least, uint32_t *most)
{
    if (cap != 0 && floor > cap)
        floor = cap;
    *least = policy_max(*least, floor);
    *most = lower_cap(*most, cap);
    return *least <= *most;
}

bool lull_policy_fit_band(const struct lull_policy_limits *limits, struct lull_band *band)
{
    struct lull_band fitted = *band;

    assert(band->min_mhz <= band->max_mhz && band->max_mhz != 0);
    if (!policy_fit(limits->min_mhz, limits->max_mhz, &fitted.min_mhz, &fitted.max_mhz))
        return false;
    /* Without power limits in the band, none will be set. */
    if (fitted.max_limit_mw != 0 && !policy_fit(limits->min_limit_mw, limits->max_limit_mw,
                                                &fitted.min_limit_mw, &fitted.max_limit_mw))
        return false;
    if (!limits->allows_profiles)
        fitted.profiles = 0;
    fitted.smoothing = fitted.smoothing && limits->allows_smoothing;
    *band = fitted;
    return true;
}
