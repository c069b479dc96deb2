/*
 * The thread of liblull that reads the GPUs' energy counters for windows, and the lock of windows,
 * accounts and itself.
 *
 * A driver call may never return. So it is made on a thread of its own and without the lock: the
 * program waits for a reading for a moment, and not at all once one is late; fork() waits for none.
 * The thread begins with the first window, blocks all signals and ends with the process. It reads
 * when a window begins or ends, but once a second at most: counters that are polled often fall
 * short.
 *
 * fork(): a child begins a thread of its own. If the parent was inside the driver at that moment,
 * the driver's own locks may be held forever in the child, so it reads nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_WINDOW_READER_H
#define LULL_PROBE_WINDOW_READER_H

/* Once, before everything else. taken: called with the lock held, on the reader's thread, whenever
 * the accounts have grown. */
void lull_window_reader_init(void (*taken)(void));

/* Any thread. */
void lull_window_reader_lock(void);
void lull_window_reader_unlock(void);

/* With the lock held: requests a reading if the last one is a second old, and waits for the one
 * under way, unless it is late. The lock is open while it waits. */
void lull_window_reader_refresh(void);

#endif
