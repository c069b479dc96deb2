/*
 * The table of transitions. SPDX-License-Identifier: Apache-2.0
 */
#include "device/writer_states.h"

#include <assert.h>

/* Each state is written as a bit, so that 0 can stand for "cannot happen". */
#define TO(state) (unsigned char)(1U << (state))
#define NEVER 0

#define FREE TO(LULL_LEASE_FREE)
#define OWN TO(LULL_LEASE_OWN)
#define CLIENT TO(LULL_LEASE_CLIENT)
#define CAPPING TO(LULL_LEASE_CAPPING)
#define OWN_ENDING TO(LULL_LEASE_OWN_ENDING)
#define CLIENT_ENDING TO(LULL_LEASE_CLIENT_ENDING)
#define ANY_LEASE                                                                                  \
    {                                                                                              \
        FREE, OWN, CLIENT, CAPPING, OWN_ENDING, CLIENT_ENDING                                      \
    }

#define NONE TO(LULL_RECORD_NONE)
#define KEPT TO(LULL_RECORD_KEPT)
#define DEFERRED TO(LULL_RECORD_DEFERRED)
#define ANY_RECORD                                                                                 \
    {                                                                                              \
        NONE, KEPT, DEFERRED                                                                       \
    }

#define RESET TO(LULL_CLOCK_RESET)
#define LOCKED TO(LULL_CLOCK_LOCKED)
#define UNSURE TO(LULL_CLOCK_UNSURE)
#define FOREIGN TO(LULL_CLOCK_FOREIGN)
#define ANY_CLOCK                                                                                  \
    {                                                                                              \
        RESET, LOCKED, UNSURE, FOREIGN                                                             \
    }

#define UP TO(LULL_PRESENCE_UP)
#define LOST TO(LULL_PRESENCE_LOST)
#define QUIESCED TO(LULL_PRESENCE_QUIESCED)
#define ANY_PRESENCE                                                                               \
    {                                                                                              \
        UP, LOST, QUIESCED                                                                         \
    }

/* For each event and each state before it: the state after it. */
struct transition {
    unsigned char lease[LULL_LEASES];
    unsigned char record[LULL_RECORDS];
    unsigned char clock[LULL_CLOCKS];
    unsigned char presence[LULL_PRESENCES];
};

#define OF_LEASE(...)                                                                              \
    {                                                                                              \
        {__VA_ARGS__}, ANY_RECORD, ANY_CLOCK, ANY_PRESENCE                                         \
    }
#define OF_RECORD(...)                                                                             \
    {                                                                                              \
        ANY_LEASE, {__VA_ARGS__}, ANY_CLOCK, ANY_PRESENCE                                          \
    }
#define OF_CLOCK(...)                                                                              \
    {                                                                                              \
        ANY_LEASE, ANY_RECORD, {__VA_ARGS__}, ANY_PRESENCE                                         \
    }
#define OF_PRESENCE(...)                                                                           \
    {                                                                                              \
        ANY_LEASE, ANY_RECORD, ANY_CLOCK,                                                          \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/* clang-format off */
static const struct transition transitions[LULL_EVENTS] = {
    /* A new lease looks for another program's lock again. */
    [LULL_EVENT_CLIENT_LEASE] =
        {{CLIENT, CLIENT, NEVER, NEVER, NEVER, NEVER}, ANY_RECORD, {RESET, LOCKED, UNSURE, RESET}, ANY_PRESENCE},
    [LULL_EVENT_OWN_LEASE] =
        {{OWN, NEVER, NEVER, NEVER, NEVER, NEVER}, ANY_RECORD, {RESET, LOCKED, UNSURE, RESET}, ANY_PRESENCE},
    [LULL_EVENT_LEASE_CAPPED] =
        {{NEVER, NEVER, CAPPING, NEVER, OWN, CAPPING}, ANY_RECORD, {RESET, LOCKED, UNSURE, RESET}, ANY_PRESENCE},
    /*                                       FREE   OWN         CLIENT         CAPPING        OWN_ENDING CLIENT_ENDING */
    [LULL_EVENT_LEASE_ENDS] =       OF_LEASE(NEVER, OWN_ENDING, CLIENT_ENDING, CLIENT_ENDING, NEVER,     NEVER),
    [LULL_EVENT_END_REPORTED] =     OF_LEASE(NEVER, NEVER,      NEVER,         OWN,           FREE,      FREE),
    /*                                        NONE      KEPT      DEFERRED */
    [LULL_EVENT_RECORDED] =         OF_RECORD(KEPT,     KEPT,     KEPT),
    [LULL_EVENT_RECORD_FAILED] =    OF_RECORD(NONE,     NONE,     NONE),
    [LULL_EVENT_RECORD_REMOVED] =   OF_RECORD(NONE,     NONE,     DEFERRED),
    [LULL_EVENT_RECORD_DEFERRED] =  OF_RECORD(DEFERRED, DEFERRED, DEFERRED),
    [LULL_EVENT_RECORD_NEEDED] =    OF_RECORD(KEPT,     KEPT,     DEFERRED),
    [LULL_EVENT_RECORD_MOVED] =     OF_RECORD(NONE,     NONE,     DEFERRED),
    [LULL_EVENT_DEFERRED_FOUND] =   OF_RECORD(DEFERRED, NEVER,    NEVER),
    [LULL_EVENT_DEFERRED_PROVEN] =  OF_RECORD(NEVER,    NEVER,    NONE),
    [LULL_EVENT_DEFERRED_FAILED] =  OF_RECORD(NEVER,    NEVER,    KEPT),
    /*                                       RESET    LOCKED   UNSURE   FOREIGN */
    [LULL_EVENT_LOCKED] =           OF_CLOCK(LOCKED,  LOCKED,  LOCKED,  LOCKED),
    [LULL_EVENT_RESET] =            OF_CLOCK(RESET,   RESET,   RESET,   RESET),
    [LULL_EVENT_CLOCK_UNSURE] =     OF_CLOCK(UNSURE,  UNSURE,  UNSURE,  UNSURE),
    [LULL_EVENT_CLOCK_DOUBTED] =    OF_CLOCK(RESET,   UNSURE,  UNSURE,  FOREIGN),
    [LULL_EVENT_STILL_LOCKED] =     OF_CLOCK(LOCKED,  LOCKED,  UNSURE,  LOCKED),
    [LULL_EVENT_CLOCK_TAKEN] =      OF_CLOCK(FOREIGN, FOREIGN, FOREIGN, FOREIGN),
    [LULL_EVENT_CLOCK_LEFT] =       OF_CLOCK(RESET,   LOCKED,  UNSURE,  RESET),
    /*                                          UP        LOST      QUIESCED */
    [LULL_EVENT_LOST] =             OF_PRESENCE(LOST,     LOST,     NEVER),
    [LULL_EVENT_FOUND] =            OF_PRESENCE(UP,       UP,       NEVER),
    [LULL_EVENT_QUIESCED] =         OF_PRESENCE(QUIESCED, QUIESCED, NEVER),
    [LULL_EVENT_RESUMED] =          OF_PRESENCE(NEVER,    NEVER,    UP),
};
/* clang-format on */

/* Returns the state of a bit. */
static unsigned int state_of(unsigned char bit)
{
    assert(bit != NEVER);
    return (unsigned int)__builtin_ctz(bit);
}

bool lull_writer_states_allow(struct lull_writer_states states, enum lull_writer_event event)
{
    const struct transition *to = &transitions[event];

    return to->lease[states.lease] != NEVER && to->record[states.record] != NEVER &&
           to->clock[states.clock] != NEVER && to->presence[states.presence] != NEVER;
}

struct lull_writer_states lull_writer_states_after(struct lull_writer_states states,
                                                   enum lull_writer_event event)
{
    const struct transition *to = &transitions[event];

    assert(lull_writer_states_allow(states, event));
    return (struct lull_writer_states){
        .lease = state_of(to->lease[states.lease]),
        .record = state_of(to->record[states.record]),
        .clock = state_of(to->clock[states.clock]),
        .presence = state_of(to->presence[states.presence]),
    };
}
