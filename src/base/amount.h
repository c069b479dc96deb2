/*
 * Formats amounts for people, with commas between thousands and a unit that fits the size. The text
 * is returned by value, so the caller can print it in place.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_AMOUNT_H
#define LULL_BASE_AMOUNT_H

#include <stdint.h>

struct lull_amount {
    char text[48];
};

/* Formats a count, such as "68,503". */
struct lull_amount lull_amount_count(uint64_t count);

/* Formats a finite time, such as "12.5 s", "3.2 min", "3.22 h" or "74.9 d". */
struct lull_amount lull_amount_time(double time_s);

/* Formats a time such as "11,585.6 s (3.22 h)"; below two minutes only the seconds, "35.0 s". */
struct lull_amount lull_amount_seconds(double time_s);

/* Write energy and power in the unit that fits: "90.75 kJ", "1.20 kW". */
struct lull_amount lull_amount_energy(double energy_j);
struct lull_amount lull_amount_power(double power_w);

#endif
