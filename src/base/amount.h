/*
 * Writes amounts as people read them: thousands apart, in a unit that fits. The text is returned by
 * value, so that a call can stand among the arguments of printf.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_AMOUNT_H
#define LULL_BASE_AMOUNT_H

#include <stdint.h>

struct lull_amount {
    char text[48];
};

/* Writes a count, such as "68,503". */
struct lull_amount lull_amount_count(uint64_t count);

/* Writes a finite time in the unit that fits: "12.5 s", "3.20 min", "3.22 h", "74.9 d". */
struct lull_amount lull_amount_time(double time_s);

/* Writes seconds, and from two minutes on the larger unit as well: "11,585.6 s (3.22 h)". */
struct lull_amount lull_amount_seconds(double time_s);

/* Write energy and power in the unit that fits: "90.75 kJ", "1.20 kW". */
struct lull_amount lull_amount_energy(double energy_j);
struct lull_amount lull_amount_power(double power_w);

#endif
