/* SPDX-License-Identifier: Apache-2.0 */
#include "base/amount.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Puts commas between the thousands of the number that the text begins with. */
static void part_thousands(struct lull_amount *amount)
{
    const size_t begin = amount->text[0] == '-';
    const size_t digits = strspn(amount->text + begin, "0123456789");

    for (size_t at = digits; at > 3; at -= 3) {
        char *const here = amount->text + begin + at - 3;

        memmove(here + 1, here, strlen(here) + 1);
        *here = ',';
    }
}

struct lull_amount lull_amount_count(uint64_t count)
{
    struct lull_amount amount;

    snprintf(amount.text, sizeof(amount.text), "%llu", (unsigned long long)count);
    part_thousands(&amount);
    return amount;
}

/* Formats the value with this many significant digits. */
static struct lull_amount amount_scale(double value, int digits, const char *unit)
{
    const int whole = fabs(value) >= 1.0 ? 1 + (int)log10(fabs(value)) : 1;
    const int after = whole < digits && value != 0.0 ? digits - whole : 0;
    struct lull_amount amount;

    snprintf(amount.text, sizeof(amount.text), "%.*f %s", after, value, unit);
    return amount;
}

struct lull_amount lull_amount_time(double time_s)
{
    const double size_s = fabs(time_s);

    if (size_s < 120.0)
        return amount_scale(time_s, 3, "s");
    if (size_s < 7200.0)
        return amount_scale(time_s / 60.0, 3, "min");
    if (size_s < 172800.0)
        return amount_scale(time_s / 3600.0, 3, "h");
    return amount_scale(time_s / 86400.0, 3, "d");
}

struct lull_amount lull_amount_seconds(double time_s)
{
    struct lull_amount amount;
    size_t length;

    /* The longest sum of times in a trace has 20 characters. */
    snprintf(amount.text, sizeof(amount.text) / 2, "%.1f s", time_s);
    part_thousands(&amount);
    length = strlen(amount.text);
    if (fabs(time_s) >= 120.0)
        snprintf(amount.text + length, sizeof(amount.text) - length, " (%.19s)",
                 lull_amount_time(time_s).text);
    return amount;
}

static struct lull_amount amount_parse_metric(double value, int digits, const char *const *units)
{
    int unit = 0;

    for (; fabs(value) >= 1000.0 && units[unit + 1] != NULL; unit++)
        value /= 1000.0;
    return amount_scale(value, digits, units[unit]);
}

struct lull_amount lull_amount_energy(double energy_j)
{
    static const char *const units[] = {"J", "kJ", "MJ", "GJ", "TJ", NULL};

    return amount_parse_metric(energy_j, 4, units);
}

struct lull_amount lull_amount_power(double power_w)
{
    static const char *const units[] = {"W", "kW", "MW", "GW", NULL};

    return amount_parse_metric(power_w, 3, units);
}
