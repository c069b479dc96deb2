/*
 * Standard output and standard error of a program, filtered so that text of other users cannot
 * control the terminal: everything printed passes through LULL_PRINTABLE_LINES of printable.h.
 * Escape sequences for the terminal are written with lull_log_text() of log.h.
 *
 * Threads: call it before any thread starts. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_OUTPUT_H
#define LULL_BASE_OUTPUT_H

/* Opens closed descriptors 0 to 2, so that files opened later do not get these numbers. */
void lull_output_reserve(void);

/* Reserves the standard descriptors, and replaces stdout and stderr by filtered streams that write
 * to descriptors 1 and 2. If memory runs out, they stay unchanged. */
void lull_output_begin(void);

/* Flushes stdout. Errors: -errno. */
int lull_output_finish(void);

#endif
