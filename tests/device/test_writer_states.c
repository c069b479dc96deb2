/*
 * The transitions of a GPU's states in the writer: every event in every state of each kind, from an
 * independent list. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "device/writer_states.h"

static const char *const leases[] = {"free",    "own",        "client",
                                     "capping", "own-ending", "client-ending"};
static const char *const records[] = {"none", "kept", "deferred"};
static const char *const clocks[] = {"reset", "locked", "unsure", "foreign"};
static const char *const presences[] = {"up", "lost", "quiesced"};

static const char *const events[LULL_EVENTS] = {
    [LULL_EVENT_CLIENT_LEASE] = "client lease",
    [LULL_EVENT_OWN_LEASE] = "own lease",
    [LULL_EVENT_LEASE_ENDS] = "lease ends",
    [LULL_EVENT_LEASE_CAPPED] = "lease capped",
    [LULL_EVENT_END_REPORTED] = "end reported",
    [LULL_EVENT_RECORDED] = "recorded",
    [LULL_EVENT_RECORD_FAILED] = "record failed",
    [LULL_EVENT_RECORD_REMOVED] = "record removed",
    [LULL_EVENT_RECORD_DEFERRED] = "record deferred",
    [LULL_EVENT_RECORD_NEEDED] = "record needed",
    [LULL_EVENT_RECORD_MOVED] = "record moved",
    [LULL_EVENT_DEFERRED_FOUND] = "deferred found",
    [LULL_EVENT_DEFERRED_PROVEN] = "deferred proven",
    [LULL_EVENT_DEFERRED_FAILED] = "deferred failed",
    [LULL_EVENT_LOCKED] = "locked",
    [LULL_EVENT_RESET] = "reset",
    [LULL_EVENT_CLOCK_UNSURE] = "clock unsure",
    [LULL_EVENT_CLOCK_DOUBTED] = "clock doubted",
    [LULL_EVENT_STILL_LOCKED] = "still locked",
    [LULL_EVENT_CLOCK_TAKEN] = "clock taken",
    [LULL_EVENT_CLOCK_LEFT] = "clock left",
    [LULL_EVENT_LOST] = "lost",
    [LULL_EVENT_FOUND] = "found",
    [LULL_EVENT_QUIESCED] = "quiesced",
    [LULL_EVENT_RESUMED] = "resumed",
};

/* State changes by events. after is NULL: the event cannot happen in this state. All other events
 * leave the state as it is. */
static const struct {
    const char *event;
    const char *before;
    const char *after;
} changes[] = {
    {"client lease", "free", "client"},
    {"client lease", "own", "client"},
    {"client lease", "client", NULL},
    {"client lease", "capping", NULL},
    {"client lease", "own-ending", NULL},
    {"client lease", "client-ending", NULL},
    {"client lease", "foreign", "reset"},
    {"own lease", "free", "own"},
    {"own lease", "own", NULL},
    {"own lease", "client", NULL},
    {"own lease", "capping", NULL},
    {"own lease", "own-ending", NULL},
    {"own lease", "client-ending", NULL},
    {"own lease", "foreign", "reset"},
    {"lease ends", "free", NULL},
    {"lease ends", "own", "own-ending"},
    {"lease ends", "client", "client-ending"},
    {"lease ends", "capping", "client-ending"},
    {"lease ends", "own-ending", NULL},
    {"lease ends", "client-ending", NULL},
    {"lease capped", "free", NULL},
    {"lease capped", "own", NULL},
    {"lease capped", "client", "capping"},
    {"lease capped", "capping", NULL},
    {"lease capped", "own-ending", "own"},
    {"lease capped", "client-ending", "capping"},
    {"lease capped", "foreign", "reset"},
    {"end reported", "free", NULL},
    {"end reported", "own", NULL},
    {"end reported", "client", NULL},
    {"end reported", "capping", "own"},
    {"end reported", "own-ending", "free"},
    {"end reported", "client-ending", "free"},
    {"recorded", "none", "kept"},
    {"recorded", "deferred", "kept"},
    {"record failed", "kept", "none"},
    {"record failed", "deferred", "none"},
    {"record removed", "kept", "none"},
    {"record deferred", "none", "deferred"},
    {"record deferred", "kept", "deferred"},
    {"record needed", "none", "kept"},
    {"record moved", "kept", "none"},
    {"deferred found", "none", "deferred"},
    {"deferred found", "kept", NULL},
    {"deferred found", "deferred", NULL},
    {"deferred proven", "none", NULL},
    {"deferred proven", "kept", NULL},
    {"deferred proven", "deferred", "none"},
    {"deferred failed", "none", NULL},
    {"deferred failed", "kept", NULL},
    {"deferred failed", "deferred", "kept"},
    {"locked", "reset", "locked"},
    {"locked", "unsure", "locked"},
    {"locked", "foreign", "locked"},
    {"reset", "locked", "reset"},
    {"reset", "unsure", "reset"},
    {"reset", "foreign", "reset"},
    {"clock unsure", "reset", "unsure"},
    {"clock unsure", "locked", "unsure"},
    {"clock unsure", "foreign", "unsure"},
    {"clock doubted", "locked", "unsure"},
    {"still locked", "reset", "locked"},
    {"still locked", "foreign", "locked"},
    {"clock taken", "reset", "foreign"},
    {"clock taken", "locked", "foreign"},
    {"clock taken", "unsure", "foreign"},
    {"clock left", "foreign", "reset"},
    {"lost", "up", "lost"},
    {"lost", "quiesced", NULL},
    {"found", "lost", "up"},
    {"found", "quiesced", NULL},
    {"quiesced", "up", "quiesced"},
    {"quiesced", "lost", "quiesced"},
    {"quiesced", "quiesced", NULL},
    {"resumed", "up", NULL},
    {"resumed", "lost", NULL},
    {"resumed", "quiesced", "up"},
};
enum { CHANGES = sizeof(changes) / sizeof(changes[0]) };

static uint32_t uses[CHANGES];

/* Returns the name of the state after an event; NULL: it cannot happen. */
static const char *expect(const char *event, const char *before)
{
    for (uint32_t i = 0; i < CHANGES; i++)
        if (strcmp(changes[i].event, event) == 0 && strcmp(changes[i].before, before) == 0) {
            uses[i]++;
            return changes[i].after;
        }
    return before;
}

static void check(struct lull_writer_states states, enum lull_writer_event event)
{
    const char *const lease = expect(events[event], leases[states.lease]);
    const char *const record = expect(events[event], records[states.record]);
    const char *const clock = expect(events[event], clocks[states.clock]);
    const char *const presence = expect(events[event], presences[states.presence]);
    struct lull_writer_states after;

    if (lease == NULL || record == NULL || clock == NULL || presence == NULL) {
        assert_false(lull_writer_states_allow(states, event));
        return;
    }
    assert_true(lull_writer_states_allow(states, event));
    after = lull_writer_states_after(states, event);
    assert_string_equal(leases[after.lease], lease);
    assert_string_equal(records[after.record], record);
    assert_string_equal(clocks[after.clock], clock);
    assert_string_equal(presences[after.presence], presence);
}

static void test_every_event_in_every_state(void **state)
{
    (void)state;
    for (enum lull_writer_event event = 0; event < LULL_EVENTS; event++)
        for (uint32_t i = 0; i < LULL_LEASES * LULL_RECORDS * LULL_CLOCKS * LULL_PRESENCES; i++)
            check((struct lull_writer_states){i % LULL_LEASES, i / LULL_LEASES % LULL_RECORDS,
                                              i / LULL_LEASES / LULL_RECORDS % LULL_CLOCKS,
                                              i / LULL_LEASES / LULL_RECORDS / LULL_CLOCKS},
                  event);
    for (uint32_t i = 0; i < CHANGES; i++)
        assert_true(uses[i] > 0);
}

/* A GPU that was never used is free, and every state can be reached from there. */
static void test_every_state_is_reached(void **state)
{
    enum { STATES = LULL_LEASES * LULL_RECORDS * LULL_CLOCKS * LULL_PRESENCES };
    struct lull_writer_states found[STATES] = {{0}};
    uint32_t count = 1;

    (void)state;
    for (uint32_t i = 0; i < count; i++)
        for (enum lull_writer_event event = 0; event < LULL_EVENTS; event++) {
            struct lull_writer_states after;
            bool is_new = true;

            if (!lull_writer_states_allow(found[i], event))
                continue;
            after = lull_writer_states_after(found[i], event);
            for (uint32_t j = 0; j < count; j++)
                is_new = is_new && memcmp(&found[j], &after, sizeof(after)) != 0;
            if (is_new)
                found[count++] = after;
        }
    assert_int_equal(count, STATES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_event_in_every_state),
        cmocka_unit_test(test_every_state_is_reached),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
