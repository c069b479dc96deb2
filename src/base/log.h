/*
 * Messages for people, on standard error: `lull run: warning: what (key=value)`.
 *
 * The reader of standard error may stop reading or go away. That must not block a loop that keeps
 * leases alive, so no call here waits for a reader unless it has a time limit for that. A file is
 * written to directly: a disk that hangs blocks its writer.
 *
 * The first function that decides that an event is worth a line logs it, once. core/ and wire/
 * never log; code loaded into a job stays silent unless LULL_LOG is set. Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_LOG_H
#define LULL_BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

enum lull_log_level { LULL_LOG_ERROR, LULL_LOG_WARNING, LULL_LOG_INFO, LULL_LOG_DEBUG };

/* Reads the level from LULL_LOG (error, warning, info, debug); otherwise it is `fallback`. If
 * standard error is a pipe or a terminal, opens it again for this process alone. Call it before any
 * thread starts, and before privileges are dropped. */
void lull_log_init(enum lull_log_level fallback);

/*
 * Writes one line if level is enabled. object: the command of lull that logs, or the full name of a
 * program, such as lulld. The text becomes one printable line (printable.h). A line that standard
 * error cannot accept now is lost; the next accepted line reports the number of lost lines.
 */
void lull_log(enum lull_log_level level, const char *object, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes text of any length to standard error, and waits for its reader until until_ns at most (0:
 * does not wait). The rest is discarded. */
void lull_log_text(const char *text, size_t size, int64_t until_ns);

#endif
