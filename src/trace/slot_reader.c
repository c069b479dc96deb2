/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/slot_reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int lull_slot_refuse(const struct lull_slot_reader *reader, const char *format, ...)
{
    char what[160];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return lull_error_set(reader->err, LULL_E_FORMAT, "%s: line %zu: %s",
                          lull_lines_name(reader->lines), lull_lines_number(reader->lines), what);
}

int lull_slot_no_memory(const struct lull_slot_reader *reader)
{
    return lull_error_set(reader->err, -ENOMEM, "%s: no memory", lull_lines_name(reader->lines));
}

int lull_slot_check_keys(const struct lull_slot_reader *reader, const json_t *object,
                         const char *const *known)
{
    const char *key;
    json_t *member;

    json_object_foreach((json_t *)object, key, member)
    {
        size_t i = 0;

        while (known[i] != NULL && strcmp(key, known[i]) != 0)
            i++;
        if (known[i] == NULL)
            return lull_slot_refuse(reader, "unknown \"%.40s\"", key);
    }
    return 0;
}

int lull_slot_get_integer(const struct lull_slot_reader *reader, const json_t *object,
                          const char *key, bool is_optional, int64_t least, int64_t most,
                          int64_t *value)
{
    const json_t *member = json_object_get(object, key);

    if (member == NULL && is_optional)
        return 0;
    if (!json_is_integer(member) || json_integer_value(member) < least ||
        json_integer_value(member) > most)
        return lull_slot_refuse(reader, "\"%s\" must be a whole number from %lld to %lld", key,
                                (long long)least, (long long)most);
    *value = json_integer_value(member);
    return 0;
}

int lull_slot_get_number(const struct lull_slot_reader *reader, const json_t *object,
                         const char *key, bool is_optional, double least, double *value)
{
    const json_t *member = json_object_get(object, key);

    if (member == NULL && is_optional)
        return 0;
    if (!json_is_number(member) || !(json_number_value(member) >= least) ||
        json_number_value(member) > LULL_SLOTS_MOST_J)
        return lull_slot_refuse(reader, "\"%s\" must be a number from %g to %g", key, least,
                                LULL_SLOTS_MOST_J);
    *value = json_number_value(member);
    return 0;
}

int lull_slot_get_name(const struct lull_slot_reader *reader, const json_t *object, const char *key,
                       struct lull_string_set *names, uint32_t *name_out)
{
    const char *text = json_string_value(json_object_get(object, key));
    int64_t number;

    if (text == NULL || text[0] == '\0')
        return lull_slot_refuse(reader, "\"%s\" must be a name", key);
    number = lull_string_set_add(names, text);
    if (number < 0)
        return lull_slot_no_memory(reader);
    *name_out = (uint32_t)number;
    return 0;
}
