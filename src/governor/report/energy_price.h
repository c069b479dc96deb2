/*
 * The price of energy, in money and in carbon dioxide, as set by the user or the administrator.
 * Without a price the report has only kilowatt hours.
 *
 * The file has lines such as
 *     [energy]
 *     price-per-kwh = 0.30 EUR
 *     co2-g-per-kwh = 380
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_ENERGY_PRICE_H
#define LULL_GOVERNOR_REPORT_ENERGY_PRICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { LULL_CURRENCY_BYTES = 16, LULL_ENERGY_PRICE_MAX_BYTES = 65536 /* of the file */ };

struct lull_energy_price {
    bool has_money;
    double per_kwh;                     /* >= 0 */
    char currency[LULL_CURRENCY_BYTES]; /* as written after the price; "": omitted */
    bool has_co2;
    double co2_g_per_kwh; /* >= 0 */
};

/* Parse "0.30 EUR", "0.30EUR" or "0.30", and grams. -EINVAL: invalid text; the price is
 * unchanged. */
int lull_energy_price_parse_money(const char *text, struct lull_energy_price *price);
int lull_energy_price_parse_co2(const char *text, struct lull_energy_price *price);

#define LULL_JOULES_PER_KWH 3.6e6

#define LULL_ENERGY_PRICE_EXPECTED "a number and a currency, such as 0.30 EUR"

/* Parses the text of a file of this name. Missing values are unknown. Errors: -EINVAL
 * with file, line and what to write instead. */
int lull_energy_price_read(const char *name, const char *text, size_t size,
                           struct lull_energy_price *price_out, struct lull_error *err);

/*
 * Finds the file: $LULL_CONFIG, else $XDG_CONFIG_HOME/lull/lull.conf or ~/.config/lull/lull.conf,
 * else /etc/lull/lull.conf; and reads it. A missing file is not an error, unless $LULL_CONFIG names
 * it. Errors: those of lull_energy_price_read(); -errno.
 */
int lull_energy_price_load(struct lull_energy_price *price_out, struct lull_error *err);

#endif
