/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

int lull_text_parse_prefix(const char *text, double *value_out, const char **end_out)
{
    const char *const digits = text + (text[0] == '-');
    char *end;
    double value;

    if (!isdigit((unsigned char)digits[0]) && digits[0] != '.')
        return -EINVAL;
    /* strtod() reads hexadecimal numbers as well. */
    if (digits[0] == '0' && tolower((unsigned char)digits[1]) == 'x')
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

    if (lull_text_parse_prefix(text, &value, &end) < 0 || *end != '\0')
        return -EINVAL;
    *value_out = value;
    return 0;
}

/* ---- numbers as they are printed ----------------------------------------------------------- */

/* Returns the bytes of the no-break blank or apostrophe at text that may group digits; 0: there is
 * none. A plain blank may as well separate two numbers. */
static size_t group_length(const char *text)
{
    static const char *const marks[] = {"'", "\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x99"};

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (strncmp(text, marks[i], strlen(marks[i])) == 0)
            return strlen(marks[i]);
    return 0;
}

/* The digits of a printed number, with each grouping mark that a digit follows as a blank. */
struct printed {
    char digits[LULL_TEXT_NUMBER_BYTES];
    size_t used;
    const char *rest; /* rest of the text */
};

static int scan_printed(const char *text, struct printed *printed)
{
    printed->used = 0;
    while (printed->used + 1 < sizeof(printed->digits)) {
        const size_t group = group_length(text);

        if (isdigit((unsigned char)*text) || *text == '.' || *text == ',') {
            printed->digits[printed->used++] = *text++;
        } else if (group > 0 && printed->used > 0 && isdigit((unsigned char)text[group])) {
            printed->digits[printed->used++] = ' ';
            text += group;
        } else {
            printed->digits[printed->used] = '\0';
            printed->rest = text;
            return 0;
        }
    }
    return -ERANGE;
}

static size_t count_mark(const char *digits, char mark)
{
    size_t count = 0;

    for (; *digits != '\0'; digits++)
        count += *digits == mark;
    return count;
}

/* Returns whether mark stands behind one to three digits, none of them a leading zero, and then
 * between groups of three, up to end. */
static bool is_grouped(const char *digits, const char *end, char mark)
{
    size_t length = 0;
    bool is_first = true;

    if (*digits == '0')
        return false;
    for (; digits <= end; digits++) {
        if (digits < end && isdigit((unsigned char)*digits)) {
            length++;
            continue;
        }
        if (digits < end && *digits != mark)
            return false;
        if (length == 0 || length > 3 || (!is_first && length != 3))
            return false;
        is_first = false;
        length = 0;
    }
    return true;
}

/* Finds the decimal mark, null for none, by the rules of lull_text_plain_number. */
static int find_decimal(const char *digits, enum lull_text_comma comma, const char **decimal_out)
{
    const size_t commas = count_mark(digits, ',');
    const size_t points = count_mark(digits, '.');
    const char *const last_comma = strrchr(digits, ',');
    const char *const last_point = strrchr(digits, '.');

    *decimal_out = NULL;
    if (commas > 0 && points > 0) {
        *decimal_out = last_comma > last_point ? last_comma : last_point;
        return 0;
    }
    if (points == 1)
        *decimal_out = last_point;
    if (commas != 1)
        return 0;
    if (!is_grouped(digits, digits + strlen(digits), ',') || comma == LULL_TEXT_COMMA_DECIMAL)
        *decimal_out = last_comma;
    else if (comma == LULL_TEXT_COMMA_AMBIGUOUS)
        return -EILSEQ;
    return 0;
}

/* Checks that the marks before the decimal one are of one kind and group by three. */
static int check_groups(const char *digits, const char *decimal)
{
    const char *const end = decimal != NULL ? decimal : digits + strlen(digits);
    const size_t marks = strcspn(digits, " .,");

    if (decimal != NULL && strpbrk(decimal + 1, " .,") != NULL)
        return -EINVAL;
    if (digits + marks >= end)
        return 0;
    return is_grouped(digits, end, digits[marks]) ? 0 : -EINVAL;
}

int lull_text_plain_number(const char *text, enum lull_text_comma comma,
                           char plain[LULL_TEXT_NUMBER_BYTES])
{
    struct printed printed = {0};
    const char *decimal = NULL;
    char number[2 * LULL_TEXT_NUMBER_BYTES];
    const bool is_negative = *text == '-';
    size_t used = 0;
    int rc;

    text += *text == '-' || *text == '+';
    rc = scan_printed(text, &printed);
    if (rc < 0)
        return rc;
    if (strpbrk(printed.digits, "0123456789") == NULL)
        return -EINVAL;
    rc = find_decimal(printed.digits, comma, &decimal);
    if (rc == 0)
        rc = check_groups(printed.digits, decimal);
    if (rc < 0)
        return rc;
    if (is_negative)
        number[used++] = '-';
    if (decimal == printed.digits)
        number[used++] = '0';
    for (const char *c = printed.digits; *c != '\0'; c++) {
        if (isdigit((unsigned char)*c))
            number[used++] = *c;
        else if (c == decimal && c[1] != '\0')
            number[used++] = '.';
    }
    if (used + strlen(printed.rest) >= LULL_TEXT_NUMBER_BYTES)
        return -ERANGE;
    memcpy(plain, number, used);
    memcpy(plain + used, printed.rest, strlen(printed.rest) + 1);
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

    if (lull_text_parse_prefix(text, &value, &end) < 0)
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
 * to say so with a %. */
static const double min_bare_percent = 0.5;

bool lull_text_is_bare_percent(const char *text, double *value_out)
{
    double value;

    if (lull_text_parse_number(text, &value) < 0 || value < min_bare_percent)
        return false;
    *value_out = value;
    return true;
}

bool lull_text_is_missing(const char *text)
{
    static const char *const words[] = {
        "",
        "-",
        "--",
        "?",
        "NA",
        "N/A",
        "#N/A",
        "[N/A]",
        "NaN",
        "-nan",
        "null",
        "(null)",
        "nil",
        "None",
        "[Unavailable]",
        "[Not Supported]",
        "\\N",
        "<NA>",
        "n.a.",
        "Unknown",
        "[Unknown Error]",
        "[GPU is lost]",
        "ERR!",
        "[Requires Root]",
        "[Insufficient Permissions]",
        "Not Available",
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
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
