/*
 * A separate job segment for each test case. Include after cmocka.h.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_WIRE_JOB_FIXTURE_H
#define LULL_TESTS_WIRE_JOB_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "wire/event.h"

struct fixture {
    char path[64];
    struct lull_event_segment *job;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    static int number;

    assert_non_null(fixture);
    snprintf(fixture->path, sizeof(fixture->path), "/dev/shm/lull-test-%ld-%d", (long)getpid(),
             number++);
    assert_int_equal(lull_event_segment_create(fixture->path, &fixture->job, NULL), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    lull_event_segment_destroy(fixture->job);
    assert_int_equal(access(fixture->path, F_OK), -1);
    free(fixture);
    return 0;
}

#endif
