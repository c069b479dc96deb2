/*
 * Messages for people, on standard error: `lull run: warning: what (key=value)`.
 *
 * The first function that decides that something is worth a line logs it, once. core/ and wire/
 * never log; code loaded into a job stays silent unless LULL_LOG is set. Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_LOG_H
#define LULL_BASE_LOG_H

enum lull_log_level { LULL_LOG_ERROR, LULL_LOG_WARNING, LULL_LOG_INFO, LULL_LOG_DEBUG };

/* Reads the level from LULL_LOG (error, warning, info, debug); otherwise it is `fallback`. */
void lull_log_init(enum lull_log_level fallback);

/*
 * Writes one line if level is enabled. object: the command of lull that speaks, or a program with
 * its whole name, such as lulld. Text of foreign origin must be quoted by the caller.
 */
void lull_log(enum lull_log_level level, const char *object, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
