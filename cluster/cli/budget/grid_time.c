/* Times and durations as ISO 8601 writes them. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "cluster/cli/budget/grid.h"

/* Takes a number below limit and the character that follows it. */
static int grid_time_take_part(const char **at, uint32_t limit, char next, uint32_t *number_out)
{
    if (lull_text_take_digits(at, limit, number_out) < 0 || **at != next)
        return -EINVAL;
    *at += next != '\0';
    return 0;
}

/* Takes Z or an offset such as +01:00, in seconds. */
static int grid_time_take_zone(const char **at, int64_t *offset_s_out)
{
    const int64_t sign = **at == '-' ? -1 : 1;
    uint32_t hours, minutes;

    if (**at == 'Z') {
        (*at)++;
        *offset_s_out = 0;
        return 0;
    }
    if (**at != '+' && **at != '-')
        return -EINVAL;
    (*at)++;
    if (grid_time_take_part(at, 24, ':', &hours) < 0 || lull_text_take_digits(at, 60, &minutes) < 0)
        return -EINVAL;
    *offset_s_out = sign * ((int64_t)hours * 3600 + (int64_t)minutes * 60);
    return 0;
}

/* Returns whether a day is in the calendar: timegm() would turn the 31st of June into a July day.
 */
static bool grid_time_is_date(const struct tm *date)
{
    struct tm normal = *date;

    timegm(&normal);
    return normal.tm_mday == date->tm_mday && normal.tm_mon == date->tm_mon;
}

int lull_grid_parse_time(const char *text, int64_t *time_s_out)
{
    const char *at = text;
    uint32_t year, month, day, hour, minute, second, fraction;
    struct tm date = {0};
    int64_t offset_s;

    if (grid_time_take_part(&at, 10000, '-', &year) < 0 ||
        grid_time_take_part(&at, 13, '-', &month) < 0 ||
        grid_time_take_part(&at, 32, 'T', &day) < 0 ||
        grid_time_take_part(&at, 24, ':', &hour) < 0 ||
        grid_time_take_part(&at, 60, ':', &minute) < 0 ||
        lull_text_take_digits(&at, 61, &second) < 0)
        return -EINVAL;
    if (*at == '.') {
        at++;
        if (strspn(at, "0123456789") > 9 || lull_text_take_digits(&at, 1000000000, &fraction) < 0)
            return -EINVAL;
    }
    date.tm_year = (int)year - 1900;
    date.tm_mon = (int)month - 1;
    date.tm_mday = (int)day;
    if (month == 0 || day == 0 || !grid_time_is_date(&date) ||
        grid_time_take_zone(&at, &offset_s) < 0 || *at != '\0')
        return -EINVAL;
    date.tm_hour = (int)hour;
    date.tm_min = (int)minute;
    date.tm_sec = (int)second;
    *time_s_out = (int64_t)timegm(&date) - offset_s;
    return 0;
}

int lull_grid_parse_duration(const char *text, int64_t *duration_s_out)
{
    static const char day_units[] = "YMWD", time_units[] = "HMS";
    static const int64_t day_lengths_s[] = {31536000, 2592000, 604800, 86400};
    static const int64_t time_lengths_s[] = {3600, 60, 1};
    const char *units = day_units;
    const int64_t *lengths_s = day_lengths_s;
    const char *at = text;
    int64_t sum_s = 0;
    bool has_part = false;

    if (*at++ != 'P')
        return -EINVAL;
    while (*at != '\0') {
        const char *unit;
        uint32_t number;

        if (*at == 'T' && units == day_units) {
            units = time_units;
            lengths_s = time_lengths_s;
            at++;
        }
        if (lull_text_take_digits(&at, 100000000, &number) < 0 || *at == '\0')
            return -EINVAL;
        unit = strchr(units, *at++);
        if (unit == NULL)
            return -EINVAL;
        sum_s += number * lengths_s[unit - units];
        has_part = true;
    }
    if (!has_part)
        return -EINVAL;
    *duration_s_out = sum_s < LULL_GRID_FOR_EVER ? sum_s : LULL_GRID_FOR_EVER;
    return 0;
}
