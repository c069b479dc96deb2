/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/json_lines.h"

#include <inttypes.h>
#include <string.h>

static int json_lines_read(const struct lull_lines *lines, const char *text, lull_json_line_fn read,
                           void *context, struct lull_error *err)
{
    json_error_t why;
    json_t *object;
    int rc;

    if (text[strspn(text, " \t")] == '\0')
        return 0;
    object = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (object == NULL)
        return lull_lines_refuse(lines, err, "byte %d: %.100s", why.position, why.text);
    if (json_is_object(object))
        rc = read(lines, object, context, err);
    else
        rc = lull_lines_refuse(lines, err, "this is not an object");
    json_decref(object);
    return rc;
}

int lull_json_lines_read(const char *path, lull_json_line_fn read, void *context,
                         struct lull_error *err)
{
    struct lull_lines *lines;
    char *text;
    int rc = lull_lines_open(path, &lines, err);

    if (rc < 0)
        return rc;
    while ((rc = lull_lines_next(lines, &text, err)) > 0) {
        rc = json_lines_read(lines, text, read, context, err);
        if (rc < 0)
            break;
    }
    lull_lines_close(lines);
    return rc;
}

static int check_known(const struct lull_lines *lines, const json_t *object,
                       const struct lull_member *members, struct lull_error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value)
    {
        size_t i = 0;

        while (members[i].name != NULL && strcmp(key, members[i].name) != 0)
            i++;
        if (members[i].name == NULL)
            return lull_lines_refuse(lines, err, "unknown \"%.40s\"", key);
    }
    return 0;
}

int lull_json_lines_check(const struct lull_lines *lines, const char *name, int64_t value,
                          int64_t least, int64_t most, struct lull_error *err)
{
    if (value >= least && value <= most)
        return 0;
    return lull_lines_refuse(lines, err,
                             "\"%s\" must be a whole number from %" PRId64 " to %" PRId64, name,
                             least, most);
}

static int read_member(const struct lull_lines *lines, const json_t *value,
                       const struct lull_member *member, void *place, struct lull_error *err)
{
    if (member->kind == LULL_MEMBER_INTEGER) {
        if (!json_is_integer(value))
            return lull_lines_refuse(lines, err,
                                     "\"%s\" must be a whole number from %" PRId64 " to %" PRId64,
                                     member->name, member->least, member->most);
        *(int64_t *)place = json_integer_value(value);
        return lull_json_lines_check(lines, member->name, *(int64_t *)place, member->least,
                                     member->most, err);
    }
    if (!json_is_number(value) || !(json_number_value(value) >= (double)member->least) ||
        json_number_value(value) > (double)member->most)
        return lull_lines_refuse(lines, err, "\"%s\" must be a number from %g to %g", member->name,
                                 (double)member->least, (double)member->most);
    *(double *)place = json_number_value(value);
    return 0;
}

int lull_json_lines_members(const struct lull_lines *lines, const json_t *object,
                            const struct lull_member *members, void *place, struct lull_error *err)
{
    int rc = check_known(lines, object, members, err);

    if (rc < 0)
        return rc;
    for (; members->name != NULL; members++) {
        const json_t *const value = json_object_get(object, members->name);

        if (members->kind == LULL_MEMBER_OTHER || (value == NULL && members->is_optional))
            continue;
        rc = read_member(lines, value, members, (char *)place + members->offset, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}
