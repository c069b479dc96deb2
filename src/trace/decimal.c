/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/decimal.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct scan {
    const char *at;
    const char *end;
    uint64_t mantissa;
    int64_t exponent; /* the value is mantissa * 10^exponent */
};

static bool is_digit_next(const struct scan *scan)
{
    return scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';
}

/* Scans digits; digits that do not fit into the mantissa are dropped. False: there is no digit. */
static bool scan_digits(struct scan *scan, bool is_fraction)
{
    const char *const begin = scan->at;

    for (; is_digit_next(scan); scan->at++) {
        const bool has_room = scan->mantissa <= (UINT64_MAX - 9) / 10;

        if (has_room)
            scan->mantissa = 10 * scan->mantissa + (uint64_t)(*scan->at - '0');
        scan->exponent += (int)!has_room - (int)is_fraction;
    }
    return scan->at > begin;
}

static bool scan_exponent(struct scan *scan)
{
    enum { LARGE = 1000000 }; /* whatever the mantissa, the result is out of range or 0 */
    const bool is_negative = scan->at < scan->end && *scan->at == '-';
    int64_t exponent = 0;

    if (scan->at < scan->end && (*scan->at == '-' || *scan->at == '+'))
        scan->at++;
    if (!is_digit_next(scan))
        return false;
    for (; is_digit_next(scan); scan->at++)
        if (exponent < LARGE)
            exponent = 10 * exponent + (*scan->at - '0');
    scan->exponent += is_negative ? -exponent : exponent;
    return true;
}

/* Returns mantissa * 10^exponent, or anything above LULL_DECIMAL_MAX if the product is above it. */
static uint64_t decimal_scale(uint64_t mantissa, int64_t exponent)
{
    bool rounds_up = false;

    for (; exponent > 0 && mantissa != 0 && mantissa <= LULL_DECIMAL_MAX; exponent--)
        mantissa = mantissa <= LULL_DECIMAL_MAX / 10 ? 10 * mantissa : UINT64_MAX;
    for (; exponent < 0 && mantissa != 0; exponent++) {
        rounds_up = mantissa % 10 >= 5;
        mantissa /= 10;
    }
    return mantissa + (rounds_up && exponent == 0);
}

/* Decimal digits are shifted as integers, never through a double, so that times and energies are
 * exact to the last digit of the file. */
int lull_decimal_parse(const char *bytes, size_t length, int shift, int64_t *value_out)
{
    struct scan scan = {.at = bytes, .end = bytes + length, .exponent = shift};
    const bool is_negative = length > 0 && bytes[0] == '-';
    uint64_t value;

    scan.at += is_negative;
    if (!scan_digits(&scan, false))
        return -EINVAL;
    if (scan.at < scan.end && *scan.at == '.') {
        scan.at++;
        if (!scan_digits(&scan, true))
            return -EINVAL;
    }
    if (scan.at < scan.end && (*scan.at == 'e' || *scan.at == 'E')) {
        scan.at++;
        if (!scan_exponent(&scan))
            return -EINVAL;
    }
    if (scan.at != scan.end)
        return -EINVAL;
    value = decimal_scale(scan.mantissa, scan.exponent);
    if (value > LULL_DECIMAL_MAX)
        return -ERANGE;
    *value_out = is_negative ? -(int64_t)value : (int64_t)value;
    return 0;
}

/* Compares with the same number scaled, which has lost nothing. */
bool lull_decimal_is_whole(const char *text)
{
    enum { NANO = 9 };
    int64_t value = 0;
    int64_t scaled = 0;

    if (lull_decimal_parse(text, strlen(text), 0, &value) < 0)
        return false;
    if (strpbrk(text, ".eE") == NULL)
        return true;
    return lull_decimal_parse(text, strlen(text), NANO, &scaled) == 0 &&
           scaled == value * INT64_C(1000000000);
}

const char *lull_decimal_parse_time(const char *bytes, size_t length, int64_t unit_s,
                                    int64_t *time_ns_out)
{
    /* About 30 years: no sum of two such times overflows, nor do a minute's 60 seconds. */
    const int64_t max_ns = INT64_C(1000000000000000000);
    enum { NANO = 9 };
    int64_t time_ns = 0;

    if (lull_decimal_parse(bytes, length, NANO, &time_ns) < 0)
        return "no such number";
    if (time_ns < 0)
        return "a time below 0";
    if (time_ns > max_ns / unit_s)
        return "a time of over 30 years";
    *time_ns_out = time_ns * unit_s;
    return NULL;
}
