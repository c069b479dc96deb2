/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int lull_text_parse_int(const char *text, int64_t min, int64_t max, int64_t *value_out)
{
    char *end;
    long long value;

    if (!isdigit((unsigned char)text[0]) && text[0] != '-')
        return -EINVAL;
    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < min || value > max)
        return -EINVAL;
    *value_out = value;
    return 0;
}

/* Parses a finite number at the start of text; the rest goes to end_out. */
static int parse_prefix(const char *text, double *value_out, const char **end_out)
{
    char *end;
    double value;

    if (!isdigit((unsigned char)text[0]) && text[0] != '-' && text[0] != '.')
        return -EINVAL;
    value = strtod(text, &end);
    if (end == text || !isfinite(value))
        return -EINVAL;
    *value_out = value;
    *end_out = end;
    return 0;
}

int lull_text_parse_number(const char *text, double *value_out)
{
    const char *end;
    double value;

    if (parse_prefix(text, &value, &end) < 0 || *end != '\0')
        return -EINVAL;
    *value_out = value;
    return 0;
}

int lull_text_parse_between(const char *text, double least, double most, double *value_out)
{
    double value;

    if (lull_text_parse_number(text, &value) < 0 || !(value >= least && value <= most))
        return -EINVAL;
    *value_out = value;
    return 0;
}

int lull_text_parse_at_least(const char *text, double least, double *value_out)
{
    if (strcmp(text, "inf") == 0) {
        *value_out = INFINITY;
        return 0;
    }
    return lull_text_parse_between(text, least, DBL_MAX, value_out);
}

int lull_text_parse_ratio(const char *text, double *ratio_out)
{
    const char *end;
    double value;

    if (parse_prefix(text, &value, &end) < 0)
        return -EINVAL;
    if (end[0] == '%' && end[1] == '\0')
        value /= 100.0;
    else if (*end != '\0')
        return -EINVAL;
    if (value < 0.0 || value > 1.0)
        return -EINVAL;
    *ratio_out = value;
    return 0;
}

/* The least bare number that is taken for percent: who allows half as much time again or more has
 * to say so with a %. Chosen, not measured. */
static const double least_bare_percent = 0.5;

bool lull_text_is_bare_percent(const char *text, double *value_out)
{
    double value;

    if (lull_text_parse_number(text, &value) < 0 || value < least_bare_percent)
        return false;
    *value_out = value;
    return true;
}

char *lull_text_trim(char *text)
{
    size_t length;

    text += strspn(text, LULL_TEXT_BLANKS);
    for (length = strlen(text); length > 0 && strchr(LULL_TEXT_BLANKS, text[length - 1]) != NULL;)
        length--;
    text[length] = '\0';
    return text;
}

uint64_t lull_text_hash(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (; *text != '\0'; text++) {
        hash ^= (unsigned char)*text;
        hash *= UINT64_C(1099511628211);
    }
    return hash;
}
