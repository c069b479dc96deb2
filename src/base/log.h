/*
 * Messages for people, on standard error: `lull run: warning: what (key=value)`.
 *
 * The reader of standard error may stop reading or go away. That must not hold up a loop that keeps
 * leases alive, so no call here waits for a reader, unless it is given a time for that. A file is
 * written to as it is; a disk that hangs holds up its writer.
 *
 * The first function that decides that something is worth a line logs it, once. core/ and wire/
 * never log; code loaded into a job stays silent unless LULL_LOG is set. Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_LOG_H
#define LULL_BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

enum lull_log_level { LULL_LOG_ERROR, LULL_LOG_WARNING, LULL_LOG_INFO, LULL_LOG_DEBUG };

/* Reads the level from LULL_LOG (error, warning, info, debug); otherwise it is `fallback`. Opens
 * standard error again for this process alone, where it is a pipe or a terminal; to be called
 * before there are threads, and before privileges are given up. */
void lull_log_init(enum lull_log_level fallback);

/*
 * Writes one line if level is enabled. object: the command of lull that speaks, or a program with
 * its whole name, such as lulld. The text becomes one printable line (printable.h). A line that
 * standard error does not take now is lost; the next one that it takes says how many were.
 */
void lull_log(enum lull_log_level level, const char *object, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes text of any length to standard error, and waits for its reader until until_ns at most, 0:
 * not at all. What is not taken by then is left out. */
void lull_log_text(const char *text, size_t size, int64_t until_ns);

#endif
