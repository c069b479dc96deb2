/* SPDX-License-Identifier: Apache-2.0 */
#include "base/settings.h"

#include <string.h>

#include "base/text.h"

/* Ends a text at a character, and returns the rest without blanks. */
static char *settings_cut(char *at)
{
    if (*at != '\0')
        *at++ = '\0';
    return lull_text_trim(at);
}

static enum lull_settings_kind settings_read_section(struct lull_settings *settings, char *line)
{
    char *const end = strchr(line, ']');

    if (end == NULL || end[1] != '\0')
        return LULL_SETTINGS_NO_SECTION;
    *end = '\0';
    settings->name = lull_text_trim(line + 1);
    settings->value = settings_cut(settings->name + strcspn(settings->name, LULL_TEXT_BLANKS));
    return LULL_SETTINGS_SECTION;
}

static enum lull_settings_kind settings_read_key(struct lull_settings *settings, char *line)
{
    char *const equals = strchr(line, '=');

    if (equals == NULL)
        return LULL_SETTINGS_NO_KEY;
    settings->value = settings_cut(equals);
    settings->name = lull_text_trim(line);
    return LULL_SETTINGS_KEY;
}

enum lull_settings_kind lull_settings_next(struct lull_settings *settings)
{
    while (settings->at < settings->end) {
        const char *const begin = settings->at;
        const size_t left = (size_t)(settings->end - begin);
        const char *const newline = memchr(begin, '\n', left);
        const size_t length = newline != NULL ? (size_t)(newline - begin) : left;

        settings->at = newline != NULL ? newline + 1 : settings->end;
        settings->line++;
        if (length >= sizeof(settings->buffer) || memchr(begin, '\0', length) != NULL)
            return LULL_SETTINGS_NOT_TEXT;
        memcpy(settings->buffer, begin, length);
        settings->buffer[length] = '\0';
        settings->name = lull_text_trim(settings->buffer);
        if (settings->name[0] == '[')
            return settings_read_section(settings, settings->name);
        if (settings->name[0] != '\0' && settings->name[0] != '#')
            return settings_read_key(settings, settings->name);
    }
    return LULL_SETTINGS_END;
}
