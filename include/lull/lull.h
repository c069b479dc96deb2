/*
 * liblull: lets a program report its structure to Lull.
 *
 * It is optional: `lull run` detects communication without it. A program that names its sections
 * and steps gives Lull more to work with, and can measure the energy of a piece of work.
 *
 * Without Lull (the environment variable LULL_JOB unset, or anything wrong with what it names)
 * every function of the first two groups does nothing, within a few nanoseconds. No function ever
 * prints, aborts, raises a signal or changes errno.
 *
 * Threads: every function may be called from any thread. Not async-signal-safe.
 * fork(): the child counts as a separate process from its first call on; the parent is unaffected.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LULL_H
#define LULL_LULL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LULL_API __attribute__((visibility("default")))

/* ---- sections ---- */

/*
 * Marks that the calling thread enters, or leaves, the section of this name. The names
 * "communication", "bubble" and "idle" say that the GPU waits: its clock may be lowered there at
 * once. "forward" and "backward" are computation and never lowered, unless a pipeline's plan says
 * so (lull run --plan, --schedule; call them when the GPU is there, not when the host runs ahead);
 * what communicates inside is still found. Any other name is the program's own: its clock is
 * searched in small steps from the top. At most 47 bytes count; after 63 different names the rest
 * share one.
 *
 * Sections of different names may be nested or overlap. Mistakes are tolerated: an end without a
 * begin on the same thread is ignored, and a begin of a section that is already open on the thread
 * ends the earlier one. NULL is ignored. About 100 ns per pair with Lull.
 */
LULL_API void lull_section_begin(const char *name);
LULL_API void lull_section_end(const char *name);

/*
 * The same by number, without a lookup of the name. The number is valid in this process and
 * its children until exit; registering a name again gives the same number. Never fails: a NULL
 * name or one too many share the last number. Any other number is ignored by enter and leave.
 */
LULL_API uint32_t lull_section_register(const char *name);
LULL_API void lull_section_enter(uint32_t section);
LULL_API void lull_section_leave(uint32_t section);

/* ---- steps ---- */

/* Marks the boundary between two iterations of training; call it once per iteration and rank. */
LULL_API void lull_step(void);

/* ---- energy windows ---- */

enum {
    LULL_WINDOW_JOULES_VALID = 1, /* lull_window.joules and uncertainty_j may be used */
    /* joules is worked out rather than measured: the window lies between two readings, or a counter
     * hung, was reset or could not be read within it. */
    LULL_WINDOW_JOULES_ESTIMATED = 2,
};

struct lull_window {
    double seconds;       /* wall time between begin and end, from 0 up */
    double joules;        /* energy of all gpus over that time, from 0 up; see flags */
    double uncertainty_j; /* the truth is within joules +- this in 95 of 100 windows */
    uint32_t gpus;        /* GPUs of this process that the energy is of; 0 none found */
    uint32_t flags;       /* LULL_WINDOW_... */
};

/*
 * Opens a window and returns its number, from 0 up. Windows may be nested, overlap, and have the
 * same name; at most 47 bytes of a name count, and names count together with those of sections.
 *
 * With Lull, the report of `lull run` has a row for each name: how often, how long, how much energy
 * on which GPU. That is the better figure, since Lull also sees how power goes between readings.
 * With and without Lull, lull_window_end returns what this process measures itself: it reads the
 * energy counters of its GPUs through NVIDIA's driver library, if there is one, at the edges of
 * windows but once a second at most. Its GPUs are those on which the driver lists this process,
 * else those in CUDA_VISIBLE_DEVICES, else the node's only GPU. The first call starts a thread that
 * loads that library and reads; it blocks all signals. One call per second waits for it: some
 * milliseconds, 0.1 s at most (the first one 1 s); the others take about a microsecond. A driver
 * that hangs is not waited for again.
 *
 * Errors: -EINVAL for NULL; -ENOSPC with 64 windows open in this process.
 */
LULL_API int lull_window_begin(const char *name);

/*
 * Closes a window, from any thread of the process, and fills *out (NULL: only for the report) on
 * success. joules is not valid if there is no GPU, a GPU has no counter, or no reading succeeded.
 *
 * uncertainty_j says what the counters' refreshes (every 20 to 100 ms) and the time to the nearest
 * reading leave open: some 20 J for a window of any length whose edges were read, as much as the
 * GPU can draw in it for one that lies between two readings. The gain of the board's sensor, up to
 * 5 %, is not in it: it is the same in all figures of one GPU.
 *
 * A window that is never closed is in no report. Errors: -ENOENT no such window is open in this
 * process.
 */
LULL_API int lull_window_end(int window, struct lull_window *out);

#ifdef __cplusplus
}
#endif

#endif
