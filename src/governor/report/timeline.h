/*
 * The timeline: trace.json in Chrome's trace event format: per GPU its sections, the stretches at a
 * lowered clock, and counters of clock and power; and the run's one sentence. trace/recording.h
 * reads it again. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_TIMELINE_H
#define LULL_GOVERNOR_REPORT_TIMELINE_H

#include "base/error.h"
#include "governor/control/control.h"

/* Writes DIRECTORY/trace.json atomically. sentence: of the verdict; NULL: there is none. Errors:
 * -errno with the path. */
int lull_timeline_write(struct lull_devices *devices, const struct lull_control *control,
                        const char *sentence, const char *directory, struct lull_error *err);

#endif
