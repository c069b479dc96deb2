/*
 * The cadence of a server's steps, for a server whose metrics are not read: a probe reports when
 * each step of an engine ends.
 *
 * A step gives each running request one token, so the time of a step is the time between two
 * tokens of all of them; steps that compute prompts are longer and count alike. Requests are not
 * seen, so neither their number nor their queue is known: steps are judged in their place.
 *
 * An engine is idle while the program or its GPU says so; the time of that counts as no step. A
 * step that has not ended within the bound is overdue: it computes long prompts, or the engine
 * waits and nothing has shown that yet.
 *
 * Several engines may have a process each (data parallelism). The steps of all are judged; the
 * model gets their mean.
 *
 * Pure; caller's storage; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SERVING_CADENCE_H
#define LULL_CORE_SERVING_CADENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/serving/reading.h"

enum { LULL_CADENCE_ENGINES = 256 };

struct lull_cadence {
    double bound_s;
    uint32_t running;                       /* engines that are in a step */
    int64_t since_ns[LULL_CADENCE_ENGINES]; /* end of the step before; 0: it is idle */
    double steps;                           /* of one engine, on average */
    struct lull_serving_histogram times;
    int64_t last_ns; /* end of the last step since the last reading; 0: none */
    int64_t read_ns; /* of the last reading; 0: none */
    bool was_running;
    bool was_overdue;
};

/* bound_s: of the time per output token. */
void lull_cadence_init(struct lull_cadence *cadence, double bound_s);

/* A step of an engine, 0..LULL_CADENCE_ENGINES-1, has ended. Of one that was idle it is the first
 * sign, and its time is not known. */
void lull_cadence_take_step(struct lull_cadence *cadence, uint32_t engine, int64_t time_ns);

/* The engine waits for requests; it works again, and its next step begins. */
void lull_cadence_take_idle(struct lull_cadence *cadence, uint32_t engine);
void lull_cadence_take_work(struct lull_cadence *cadence, uint32_t engine, int64_t time_ns);

/* Returns whether an engine's step is overdue. */
bool lull_cadence_is_overdue(const struct lull_cadence *cadence, uint32_t engine, int64_t now_ns);

/* Makes a reading, if one is due: every 100 ms; at once when steps begin, when all engines become
 * idle, and when a step becomes overdue. False: none is due, or there was no step yet. */
bool lull_cadence_read(struct lull_cadence *cadence, int64_t now_ns,
                       struct lull_serving_reading *reading_out);

#endif
