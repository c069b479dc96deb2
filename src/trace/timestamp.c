/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/timestamp.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

enum { FIRST_YEAR = 1970, LAST_YEAR = 2115, DAY_S = 86400, HOUR_S = 3600, MINUTE_S = 60 };

/* ---- parts -------------------------------------------------------------------------------- */

/* Takes exactly `digits` digits. */
static bool timestamp_take_fixed(const char **at, int digits, uint32_t *number_out)
{
    const char *text = *at;
    uint32_t number = 0;

    for (int i = 0; i < digits; i++, text++) {
        if (!isdigit((unsigned char)*text))
            return false;
        number = 10 * number + (uint32_t)(*text - '0');
    }
    *at = text;
    *number_out = number;
    return true;
}

static bool take_char(const char **at, char c)
{
    if (**at != c)
        return false;
    ++*at;
    return true;
}

/* Takes a fraction of a second, if there is one; digits beyond nanoseconds are dropped. */
static bool take_fraction(const char **at, int64_t *fraction_ns_out)
{
    int64_t unit_ns = LULL_NS_PER_S;

    *fraction_ns_out = 0;
    if (**at != '.' && **at != ',')
        return true;
    ++*at;
    if (!isdigit((unsigned char)**at))
        return false;
    for (; isdigit((unsigned char)**at); ++*at) {
        unit_ns /= 10;
        *fraction_ns_out += (**at - '0') * unit_ns;
    }
    return true;
}

/* ---- dates -------------------------------------------------------------------------------- */

/* Days since 1970-01-01 in the Gregorian calendar: years begin in March, so that the leap day is
 * the last of its year. */
static int64_t count_days(uint32_t year, uint32_t month, uint32_t day)
{
    const int64_t y = (int64_t)year - (month <= 2);
    const int64_t m = (month + 9) % 12;
    const int64_t before_1970 = 719468;

    return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - before_1970;
}

static bool timestamp_is_date(uint32_t year, uint32_t month, uint32_t day)
{
    if (year < FIRST_YEAR || year > LAST_YEAR || month < 1 || month > 12 || day < 1)
        return false;
    if (month == 12)
        return day <= 31;
    return count_days(year, month, day) < count_days(year, month + 1, 1);
}

static bool take_date(const char **at, int64_t *days_out)
{
    uint32_t year = 0;
    uint32_t month = 0;
    uint32_t day = 0;
    char mark;

    if (!timestamp_take_fixed(at, 4, &year))
        return false;
    mark = **at;
    if (mark == '-' || mark == '/')
        ++*at;
    else
        mark = '\0';
    if (!timestamp_take_fixed(at, 2, &month) || (mark != '\0' && !take_char(at, mark)) ||
        !timestamp_take_fixed(at, 2, &day) || !timestamp_is_date(year, month, day))
        return false;
    *days_out = count_days(year, month, day);
    return true;
}

/* A second of 60 is a leap second, which counts as the next one. */
static bool take_time_of_day(const char **at, int64_t *time_ns_out)
{
    uint32_t hour = 0;
    uint32_t minute = 0;
    uint32_t second = 0;
    int64_t fraction_ns = 0;

    if (!timestamp_take_fixed(at, 2, &hour) || !take_char(at, ':') ||
        !timestamp_take_fixed(at, 2, &minute))
        return false;
    if (take_char(at, ':') &&
        (!timestamp_take_fixed(at, 2, &second) || !take_fraction(at, &fraction_ns)))
        return false;
    if (hour > 23 || minute > 59 || second > 60)
        return false;
    *time_ns_out =
        (int64_t)(hour * HOUR_S + minute * MINUTE_S + second) * LULL_NS_PER_S + fraction_ns;
    return true;
}

static bool timestamp_take_zone(const char **at, int64_t *zone_s_out)
{
    const bool is_west = **at == '-';
    uint32_t hours = 0;
    uint32_t minutes = 0;

    *zone_s_out = 0;
    if (take_char(at, 'Z') || **at == '\0')
        return true;
    if (strcmp(*at, "UTC") == 0 || strcmp(*at, "GMT") == 0) {
        *at += 3;
        return true;
    }
    if (!take_char(at, '+') && !take_char(at, '-'))
        return false;
    if (!timestamp_take_fixed(at, 2, &hours))
        return false;
    take_char(at, ':');
    if (**at != '\0' && !timestamp_take_fixed(at, 2, &minutes))
        return false;
    if (hours > 18 || minutes > 59)
        return false;
    *zone_s_out = (int64_t)(hours * HOUR_S + minutes * MINUTE_S) * (is_west ? -1 : 1);
    return true;
}

int lull_timestamp_parse(const char *text, int64_t *time_ns_out)
{
    int64_t days = 0;
    int64_t time_ns = 0;
    int64_t zone_s = 0;

    if (!take_date(&text, &days))
        return -EINVAL;
    if (*text == 'T' || *text == ' ') {
        text += *text == 'T' ? 1 : strspn(text, " ");
        if (!take_time_of_day(&text, &time_ns))
            return -EINVAL;
        text += strspn(text, " ");
        if (!timestamp_take_zone(&text, &zone_s))
            return -EINVAL;
    }
    if (*text != '\0')
        return -EINVAL;
    *time_ns_out = (days * DAY_S - zone_s) * LULL_NS_PER_S + time_ns;
    return 0;
}

/* ---- lengths of time ---------------------------------------------------------------------- */

/* Takes the days ahead of the hours, if there are any. has_dash: as Slurm writes them. */
static bool take_days(const char **at, uint32_t *days_out, bool *has_dash_out)
{
    enum { MAX_DAYS = 11000 };
    const char *text = *at;

    *days_out = 0;
    *has_dash_out = false;
    if (lull_text_take_digits(&text, MAX_DAYS, days_out) < 0)
        return false;
    if (*text == '-') {
        *has_dash_out = true;
        *at = text + 1;
        return true;
    }
    if (strncmp(text, " day", 4) != 0) {
        *days_out = 0;
        return true;
    }
    text += 4;
    take_char(&text, 's');
    take_char(&text, ',');
    *at = text + strspn(text, " ");
    return true;
}

int lull_timestamp_elapsed(const char *text, int64_t *time_ns_out)
{
    enum { MAX = 1000000, PARTS = 3 };
    uint32_t days = 0;
    uint32_t parts[PARTS] = {0};
    int64_t seconds = 0;
    int64_t fraction_ns = 0;
    bool has_dash = false;
    int count = 0;

    if (!take_days(&text, &days, &has_dash))
        return -EINVAL;
    for (bool goes_on = true; goes_on; goes_on = take_char(&text, ':')) {
        if (count == PARTS || lull_text_take_digits(&text, MAX, &parts[count++]) < 0)
            return -EINVAL;
    }
    if (count < 2 || !take_fraction(&text, &fraction_ns) || *text != '\0')
        return -EINVAL;
    for (int i = 0; i < count; i++) {
        if (i > 0 && parts[i] > 59)
            return -EINVAL;
        seconds = 60 * seconds + parts[i];
    }
    if (has_dash && count == 2)
        seconds *= MINUTE_S; /* hours and minutes */
    seconds += (int64_t)days * DAY_S;
    if (seconds > INT64_C(1000000000))
        return -EINVAL;
    *time_ns_out = seconds * LULL_NS_PER_S + fraction_ns;
    return 0;
}
