/*
 * Amounts as people read them: thousands are parted by commas, and the unit fits the size. The text
 * is returned by value, so that it can be printed where it is asked for.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_AMOUNT_H
#define LULL_BASE_AMOUNT_H

#include <stdint.h>

struct lull_amount {
    char text[48];
};

/* "68,503" */
struct lull_amount lull_amount_count(uint64_t count);

/* "12.5 s", "3.2 min", "3.22 h", "74.9 d". time_s is finite. */
struct lull_amount lull_amount_time(double time_s);

/* "11,585.6 s (3.22 h)"; below two minutes only the seconds, "35.0 s". */
struct lull_amount lull_amount_seconds(double time_s);

/* "90.75 kJ", "1.234 GJ"; "1.20 kW". */
struct lull_amount lull_amount_energy(double energy_j);
struct lull_amount lull_amount_power(double power_w);

#endif
