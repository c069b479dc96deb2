/*
 * Detects whether anything runs on a GPU, from readings of its driver.
 *
 * Four readings show work, each with a delay of its own:
 *   utilization   the share of the driver's last sampling period (0.17 to 1 s) in which a kernel
 *                 ran. No kernel escapes it, but it is late by up to that period.
 *   energy        the counter's growth since its last refresh (about 0.1 s), as mean power. A short
 *                 kernel is in it as well.
 *   power         the mean over the sensor's window, of 25 ms in every 100 ms to 1 s.
 *   reasons       the driver's bit "idle", on the boards that set it.
 * Power and energy show work only against their level while nothing runs. Utilization confirms that
 * nothing runs when the level is learnt, and later that a higher power is work. Together they show
 * work after 0.12 s at most if energy is readable.
 *
 * Pure; caller's storage; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_SERVING_IDLE_WATCH_H
#define LULL_GOVERNOR_SERVING_IDLE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

/* The fields that show work. Utilization changes rarely. */
enum {
    LULL_IDLE_WATCH_FAST = LULL_READING_POWER | LULL_READING_ENERGY | LULL_READING_REASONS,
    LULL_IDLE_WATCH_FIELDS = LULL_IDLE_WATCH_FAST | LULL_READING_UTILIZATION,
};

/* The reading that showed work. */
enum lull_idle_sign {
    LULL_IDLE_SIGN_NONE,
    LULL_IDLE_SIGN_UTILIZATION,
    LULL_IDLE_SIGN_ENERGY,
    LULL_IDLE_SIGN_POWER,
    LULL_IDLE_SIGN_REASON,
    LULL_IDLE_SIGN_COUNT
};

struct lull_idle_watch {
    bool has_begun;
    int64_t begin_ns;       /* of the first reading */
    int64_t busy_ns;        /* of the last reading that showed work; valid with was_busy */
    int64_t utilization_ns; /* of the last reading of utilization; valid with has_utilization */
    uint32_t percent;       /* as read last... */
    int64_t percent_ns;     /* ...and since when */
    int64_t used_ns;        /* of the last one above 0; 0: none was */
    int64_t excess_ns;      /* since when power or energy exceed their level; 0: they do not */
    int64_t raised_ns;      /* when the levels were forgotten; 0: never */
    bool was_busy;
    bool has_utilization;
    bool has_idle_bit; /* the last reading had the reason "idle" */
    bool has_power;
    bool has_energy;
    bool has_energy_level;
    double power_w;  /* the level without work; valid with has_power */
    double energy_w; /* likewise, of the counter; valid with has_energy_level */
    uint64_t energy_mj;
    int64_t energy_ns;        /* of the first reading with this count... */
    int64_t energy_before_ns; /* ...and of the reading before it */
    int64_t read_ns;          /* of the last reading of the counter */
};

/* Zero-initialised is a watch without readings. Takes the wanted fields of a reading; readings come
 * in the order of time. Returns how it shows work, LULL_IDLE_SIGN_NONE: it does not. */
enum lull_idle_sign lull_idle_watch_take(struct lull_idle_watch *watch, int64_t time_ns,
                                         uint32_t wanted,
                                         const struct lull_device_reading *reading);

/* Another source has shown work. */
void lull_idle_watch_note_work(struct lull_idle_watch *watch, int64_t time_ns);

/* The clock was raised, so that idle power may be higher from now on. */
void lull_idle_watch_forget_levels(struct lull_idle_watch *watch, int64_t now_ns);

/* Returns whether no reading has shown work for after_ns. False without a recent reading of
 * utilization. */
bool lull_idle_watch_is_idle(const struct lull_idle_watch *watch, int64_t now_ns, int64_t after_ns);

/* Returns whether a reading, or another source, has shown work in the last within_ns. */
bool lull_idle_watch_shows_work(const struct lull_idle_watch *watch, int64_t now_ns,
                                int64_t within_ns);

/* Returns the power without work at the present clock, W; NAN: unknown. */
double lull_idle_watch_level_w(const struct lull_idle_watch *watch);

/* Returns "utilization", "energy counter", "power" or "idle bit". */
const char *lull_idle_sign_text(enum lull_idle_sign sign);

#endif
