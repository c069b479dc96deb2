/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/fault.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const char *const names[LULL_FAULT_KINDS] = {
    [LULL_FAULT_SET_CODE] = "set_code",           [LULL_FAULT_HANG_MS] = "hang_ms",
    [LULL_FAULT_NO_EFFECT] = "no_effect",         [LULL_FAULT_SETTLE_FACTOR] = "settle_factor",
    [LULL_FAULT_NO_PERMISSION] = "no_permission", [LULL_FAULT_NO_ENERGY] = "no_energy",
    [LULL_FAULT_GET_CODE] = "get_code",           [LULL_FAULT_ANY_USER] = "any_user",
};

static int find_kind(const char *name, enum lull_fault_kind *kind)
{
    for (int i = 0; i < LULL_FAULT_KINDS; i++) {
        if (strcmp(names[i], name) == 0) {
            *kind = (enum lull_fault_kind)i;
            return 0;
        }
    }
    return -EINVAL;
}

static int parse_value(char *text, struct lull_fault *fault)
{
    char *after = strchr(text, '@');
    char *times = strchr(text, 'x');
    int64_t count = LULL_FAULT_ALWAYS;
    int64_t spared = 0;

    if (after != NULL) {
        *after = '\0';
        if ((times != NULL && times > after) ||
            lull_text_parse_int(after + 1, 1, INT32_MAX, &spared) < 0)
            return -EINVAL;
    }
    if (times != NULL) {
        *times = '\0';
        if (lull_text_parse_int(times + 1, 1, INT32_MAX, &count) < 0)
            return -EINVAL;
    }
    fault->remaining = (int32_t)count;
    fault->spared = (int32_t)spared;
    return lull_text_parse_number(text, &fault->value);
}

static int parse_entry(char *entry, struct lull_fault_entry *parsed)
{
    char *colon = strchr(entry, ':');
    char *equals = strchr(entry, '=');
    int64_t gpu = -1;

    if (colon != NULL) {
        *colon = '\0';
        if (lull_text_parse_int(entry, 0, 63, &gpu) < 0)
            return -EINVAL;
        entry = colon + 1;
    }
    *parsed = (struct lull_fault_entry){.gpu = (int32_t)gpu, .fault = {1, LULL_FAULT_ALWAYS, 0}};
    if (equals != NULL) {
        *equals = '\0';
        if (parse_value(equals + 1, &parsed->fault) < 0)
            return -EINVAL;
    }
    return find_kind(entry, &parsed->kind);
}

int lull_fault_parse_next(const char **text, struct lull_fault_entry *entry_out,
                          struct lull_error *err)
{
    const size_t length = strcspn(*text, ",");
    struct lull_fault_entry parsed;
    char entry[64];

    if (length >= sizeof(entry))
        return lull_error_set(err, -EINVAL, "fault \"%.40s...\": too long", *text);
    memcpy(entry, *text, length);
    entry[length] = '\0';
    if (parse_entry(entry, &parsed) < 0)
        return lull_error_set(
            err, -EINVAL,
            "fault \"%.*s\": expected [GPU:]NAME[=VALUE[xCOUNT][@AFTER]] with one of "
            "set_code, hang_ms, no_effect, settle_factor, no_permission, any_user, "
            "no_energy, get_code",
            (int)length, *text);
    *entry_out = parsed;
    *text += length + ((*text)[length] == ',');
    return 0;
}
