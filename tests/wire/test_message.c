/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "wire/message.h"

static void test_every_type_round_trips(void **state)
{
    uint32_t unused = 0;

    (void)state;
    for (uint16_t type = 1; type < LULL_MESSAGE_TYPE_COUNT; type++) {
        struct lull_message message;
        struct lull_message decoded;
        uint8_t first[LULL_MESSAGE_MAX_BYTES];
        uint8_t second[LULL_MESSAGE_MAX_BYTES];
        int size;

        memset(&message, 'a', sizeof(message));
        message.version = 0;
        message.type = type;
        message.sequence = 77;
        /* Texts without an end are cut, never overrun. */
        size = lull_message_encode(&message, first, sizeof(first));
        if (size == -EINVAL) {
            unused++;
            continue;
        }
        assert_true(size >= 16);
        assert_int_equal(lull_message_decode(first, (size_t)size, &decoded), 0);
        assert_int_equal(decoded.type, type);
        assert_int_equal(decoded.sequence, 77);
        assert_int_equal(lull_message_encode(&decoded, second, sizeof(second)), size);
        assert_memory_equal(first, second, (size_t)size);
    }
    assert_true(unused <= 9); /* the numbers that are kept */
}

static void test_layout_is_fixed(void **state)
{
    struct lull_message message = {.type = LULL_MESSAGE_GRANT, .sequence = 0x01020304};
    const uint8_t expected[40] = {'L', 'U', 'L', 'L', 6, 0, 4, 0, 24, 0, 0, 0, 4, 3,
                                  2,   1,   1,   0,   0, 0, 0, 0, 0,  0, 2, 0, 0, 0,
                                  3,   0,   0,   0,   4, 0, 0, 0, 5,  0, 0, 0};
    uint8_t buffer[LULL_MESSAGE_MAX_BYTES];

    (void)state;
    message.body.grant = (struct lull_message_grant){1, 2, 3, 4, 5};
    assert_int_equal(lull_message_encode(&message, buffer, sizeof(buffer)), sizeof(expected));
    assert_memory_equal(buffer, expected, sizeof(expected));
    memset(&message, 0xff, sizeof(message));
    assert_int_equal(lull_message_decode(expected, sizeof(expected), &message), 0);
    assert_int_equal(message.type, LULL_MESSAGE_GRANT);
    assert_int_equal(message.sequence, 0x01020304);
    assert_int_equal(message.body.grant.max_mhz, 4);
}

/* F63: frozen messages are read and written in every version, others only in their own. */
static void f63_frozen_messages_have_all_versions(void **state)
{
    static const uint8_t hello[] = {'L', 'U', 'L', 'L', 9, 0, 1, 0, 6, 0, 0,
                                    0,   7,   0,   0,   0, 1, 2, 0, 0, 5, 5};
    static const uint8_t restore[] = {'L', 'U', 'L', 'L', 9, 0, 9, 0, 0, 0, 0, 0, 7, 0, 0, 0};
    struct lull_message message;
    struct lull_message reply = {.version = 2, .type = LULL_MESSAGE_REPLY, .sequence = 7};
    uint8_t buffer[LULL_MESSAGE_MAX_BYTES];

    (void)state;
    assert_int_equal(lull_message_decode(hello, sizeof(hello), &message), 0);
    assert_int_equal(message.version, 9);
    assert_int_equal(message.body.hello.process_id, 0x201);
    assert_int_equal(lull_message_decode(restore, sizeof(restore), &message), 0);
    assert_int_equal(message.type, LULL_MESSAGE_RESTORE);
    reply.body.reply.code = -5;
    assert_int_equal(lull_message_encode(&reply, buffer, sizeof(buffer)), 16 + 4 + 240);
    assert_int_equal(buffer[4], 2);
    assert_int_equal(lull_message_decode(buffer, 16 + 4 + 240, &message), 0);
    assert_int_equal(message.version, 2);
    assert_int_equal(message.body.reply.code, -5);
    memcpy(buffer, hello, sizeof(hello));
    buffer[4] = LULL_MESSAGE_VERSION; /* of this version the size is known */
    assert_int_equal(lull_message_decode(buffer, sizeof(hello), &message), LULL_E_FORMAT);
    buffer[4] = 0;
    assert_int_equal(lull_message_decode(buffer, sizeof(hello), &message), LULL_E_FORMAT);
    for (uint8_t type = 1; type < LULL_MESSAGE_TYPE_COUNT; type++) {
        memcpy(buffer, restore, sizeof(restore));
        buffer[6] = type;
        if (type != LULL_MESSAGE_HELLO && type != LULL_MESSAGE_REPLY &&
            type != LULL_MESSAGE_RESTORE)
            assert_int_equal(lull_message_decode(buffer, sizeof(restore), &message),
                             -EPROTONOSUPPORT);
    }
}

static void test_negative_codes_survive(void **state)
{
    struct lull_message message = {.type = LULL_MESSAGE_REPLY};
    uint8_t buffer[LULL_MESSAGE_MAX_BYTES];
    int size;

    (void)state;
    message.body.reply.code = LULL_E_STALE;
    snprintf(message.body.reply.text, sizeof(message.body.reply.text), "a\nb\x1b[31m");
    size = lull_message_encode(&message, buffer, sizeof(buffer));
    memset(&message, 0, sizeof(message));
    assert_int_equal(lull_message_decode(buffer, (size_t)size, &message), 0);
    assert_int_equal(message.body.reply.code, LULL_E_STALE);
    assert_string_equal(message.body.reply.text, "a?b?[31m");
}

static void test_malformed_is_refused(void **state)
{
    struct lull_message message = {.type = LULL_MESSAGE_LEASE};
    struct lull_message untouched;
    uint8_t buffer[LULL_MESSAGE_MAX_BYTES + 1] = {0};
    int size;

    (void)state;
    memcpy(message.body.lease.uuid, "GPU-1", 6);
    size = lull_message_encode(&message, buffer, LULL_MESSAGE_MAX_BYTES);
    memset(&message, 0x55, sizeof(message));
    untouched = message;
    for (int length = 0; length <= (int)sizeof(buffer); length++)
        if (length != size)
            assert_int_equal(lull_message_decode(buffer, (size_t)length, &message), LULL_E_FORMAT);
    buffer[4]++;
    assert_int_equal(lull_message_decode(buffer, (size_t)size, &message), -EPROTONOSUPPORT);
    assert_int_equal(message.version, LULL_MESSAGE_VERSION + 1);
    assert_int_equal(message.type, LULL_MESSAGE_LEASE);
    message = untouched;
    buffer[4]--;
    buffer[6] = LULL_MESSAGE_TYPE_COUNT;
    assert_int_equal(lull_message_decode(buffer, (size_t)size, &message), LULL_E_FORMAT);
    buffer[6] = LULL_MESSAGE_LEASE;
    memset(buffer + 16, 'x', 96); /* a text without end */
    assert_int_equal(lull_message_decode(buffer, (size_t)size, &message), LULL_E_FORMAT);
    assert_memory_equal(&message, &untouched, sizeof(message));
    message.type = 0;
    assert_int_equal(lull_message_encode(&message, buffer, sizeof(buffer)), -EINVAL);
}

static void test_texts_lose_control_characters_alone(void **state)
{
    struct lull_message message = {.type = LULL_MESSAGE_REPLY};
    uint8_t buffer[LULL_MESSAGE_MAX_BYTES];
    int size;

    (void)state;
    memcpy(message.body.reply.text, "\x1f\x20\x21\x7e\x7f\x80\xc3\xbc", 9);
    size = lull_message_encode(&message, buffer, sizeof(buffer));
    memset(&message, 0, sizeof(message));
    assert_int_equal(lull_message_decode(buffer, (size_t)size, &message), 0);
    assert_string_equal(message.body.reply.text, "?\x20\x21\x7e?\x80\xc3\xbc");
}

static void test_a_buffer_that_is_too_small_is_refused(void **state)
{
    struct lull_message message = {.type = LULL_MESSAGE_GRANT};
    uint8_t buffer[40];

    (void)state;
    assert_int_equal(lull_message_encode(&message, buffer, 40), 40);
    assert_int_equal(lull_message_encode(&message, buffer, 39), -EINVAL);
    message.type = LULL_MESSAGE_RENEW; /* a header alone */
    assert_int_equal(lull_message_encode(&message, buffer, 16), 16);
    assert_int_equal(lull_message_encode(&message, buffer, 15), -EINVAL);
    message.type = LULL_MESSAGE_TYPE_COUNT;
    assert_int_equal(lull_message_encode(&message, buffer, 40), -EINVAL);
}

/* Each byte of a header counts. */
static void test_a_changed_header_is_refused(void **state)
{
    struct lull_message message = {.type = LULL_MESSAGE_GRANT};
    uint8_t buffer[40];

    (void)state;
    assert_int_equal(lull_message_encode(&message, buffer, 40), 40);
    for (size_t at = 0; at < 12; at++) {
        buffer[at]++;
        assert_int_equal(lull_message_decode(buffer, 40, &message),
                         at == 4 || at == 5 ? -EPROTONOSUPPORT : LULL_E_FORMAT);
        buffer[at]--;
    }
    assert_int_equal(lull_message_decode(buffer, 40, &message), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_round_trips),
        cmocka_unit_test(test_layout_is_fixed),
        cmocka_unit_test(f63_frozen_messages_have_all_versions),
        cmocka_unit_test(test_negative_codes_survive),
        cmocka_unit_test(test_malformed_is_refused),
        cmocka_unit_test(test_texts_lose_control_characters_alone),
        cmocka_unit_test(test_a_buffer_that_is_too_small_is_refused),
        cmocka_unit_test(test_a_changed_header_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
