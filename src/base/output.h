/*
 * Standard output and standard error of a program, on which no text of others controls the
 * terminal: whatever is printed passes through LULL_PRINTABLE_LINES of printable.h. Sequences that
 * are to reach the terminal are written with lull_log_text() of log.h.
 *
 * Threads: to be called before there are any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_OUTPUT_H
#define LULL_BASE_OUTPUT_H

/* Keeps files that are opened later from coming instead of closed descriptors 0 to 2. */
void lull_output_reserve(void);

/* Reserves the standard descriptors, and puts streams that write to descriptors 1 and 2 instead
 * of stdout and stderr. Without memory they stay as they are. */
void lull_output_begin(void);

/* Writes what stdout still holds. Errors: -errno. */
int lull_output_finish(void);

#endif
