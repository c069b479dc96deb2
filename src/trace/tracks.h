/*
 * Private to trace: the processes and threads of a Chrome trace, for events that have no category:
 * XLA's profiler (JAX, TensorFlow) names a process "/device:GPU:0" and its threads "Stream
 * #7(Compute)", rocmProfileData names one "GPU0". Names come before the events.
 *
 * One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_TRACKS_H
#define LULL_TRACE_TRACKS_H

#include <stdbool.h>

#include "base/error.h"

struct lull_tracks; /* opaque */

/* Null: out of memory. Borrows the file's name. */
struct lull_tracks *lull_tracks_create(const char *file);

/* Null is allowed. */
void lull_tracks_destroy(struct lull_tracks *tracks);

/* Take what a metadata event names: pid and tid as they stand. -ENOMEM. */
int lull_tracks_name_process(struct lull_tracks *tracks, const char *process, const char *name,
                             struct lull_error *err);
int lull_tracks_name_thread(struct lull_tracks *tracks, const char *process, const char *thread,
                            const char *name, struct lull_error *err);

/* Returns whether an event without category ran on a stream of a GPU: on a thread of a GPU's
 * process that has no name, or the name of a stream. */
bool lull_tracks_is_stream(const struct lull_tracks *tracks, const char *process,
                           const char *thread);

#endif
