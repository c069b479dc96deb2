/*
 * liblull: what a program may tell Lull about itself.
 *
 * Nothing here is needed: `lull run` finds communication by itself. A program that names its
 * sections and steps gives it more to work with, and can measure the energy of a piece of work.
 *
 * Without Lull (the environment variable LULL_JOB unset, or anything wrong with what it names)
 * every function of the first two groups does nothing, within a few nanoseconds. No function ever
 * prints, aborts, raises a signal or changes errno.
 *
 * Threads: every function may be called from any thread. Not async-signal-safe.
 * fork(): the child is a process of its own from its first call on; the parent is not disturbed.
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

/* ---- sections: what this thread is doing ---- */

/*
 * Marks that the calling thread enters, or leaves, the section of this name. The names
 * "communication", "bubble" and "idle" say that the GPU waits: its clock may be lowered there at
 * once. "forward" and "backward" are computation and never lowered, unless a pipeline's plan says
 * so (lull run --plan, --pipeline; call them when the GPU is there, not when the host runs ahead);
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
 * The same by number, which spares looking the name up. The number is valid in this process and
 * its children until exit; registering a name again gives the same number. Never fails: a NULL
 * name or one too many share the last number. Any other number is ignored by enter and leave.
 */
LULL_API uint32_t lull_section_register(const char *name);
LULL_API void lull_section_enter(uint32_t section);
LULL_API void lull_section_leave(uint32_t section);

/* ---- steps ---- */

/* Marks the boundary between two iterations of training; call it once per iteration and rank. */
LULL_API void lull_step(void);

/* ---- energy windows: how much time and energy did this take? ---- */

enum {
    LULL_WINDOW_JOULES_VALID = 1, /* lull_window.joules may be used */
};

struct lull_window {
    double seconds; /* wall time between begin and end, from 0 up */
    double joules;  /* energy of all gpus over that time, from 0 up; see flags */
    uint32_t gpus;  /* GPUs of this process that the energy is of; 0 none found */
    uint32_t flags; /* LULL_WINDOW_... */
};

/*
 * Opens a window. Works with and without Lull. The energy counters of this process' GPUs are read
 * through NVIDIA's driver library if the machine has one: the GPUs on which the driver lists this
 * process, else those in CUDA_VISIBLE_DEVICES, else the node's only GPU. The first call loads that
 * library, and every call may take milliseconds: open windows per epoch, not per iteration.
 * Windows of different names may overlap; beginning an open one starts it anew.
 * Returns 0, -EINVAL for NULL, or -ENOSPC with 16 windows open.
 */
LULL_API int lull_window_begin(const char *name);

/*
 * Closes a window, from any thread, and fills *out on success. joules is not valid if there is no
 * GPU, a GPU has no counter, a reading failed, or the window is shorter than 200 ms, which is two
 * refreshes of the slowest counter known (100 ms); windows under 1 s are estimates.
 * Returns 0, -EINVAL for NULL, or -ENOENT if no such window is open in this process.
 */
LULL_API int lull_window_end(const char *name, struct lull_window *out);

#ifdef __cplusplus
}
#endif

#endif
