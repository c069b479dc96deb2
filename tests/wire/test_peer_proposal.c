/* Proposals between governors: layout, and refused messages. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "wire/peer_proposal.h"

static const struct lull_proposal whole = {
    .node = 0x01020304,
    .nodes = 0x11121314,
    .incarnation = UINT64_C(0x2122232425262728),
    .sequence = UINT64_C(0x3132333435363738),
    .structure = UINT64_C(0x4142434445464748),
    .window_iterations = 0x51525354,
    .leaving = 1,
    .entry_count = 2,
    .entries = {{UINT64_C(0x6162636465666768), UINT64_C(0x7172737475767778), 0x81828384, 0, 1},
                {1, 2, 3, 4, 0}},
    .arrival = {.iteration = UINT64_C(0x9192939495969798),
                .collectives = 0xa1a2a3a4,
                .total_us = 0xb1b2b3b4,
                .common_us = 0xc1c2c3c4,
                .depth = 0x15161718,
                .kind_count = 1,
                .kinds = {{UINT64_C(0xd1d2d3d4d5d6d7d8), 0xe1e2e3e4, 0xf1f2f3f4}}},
};

static const uint8_t layout[] = {
    'L',  'L',  'T',  'G',  2,    0,    2,    0,    4,    3,    2,    1,    0x14, 0x13,
    0x12, 0x11,                                     /* to nodes */
    0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, /* incarnation */
    0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, /* sequence */
    0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41, /* structure */
    0x54, 0x53, 0x52, 0x51, 1,    0,    0,    0,    /* window, leaving */
    0x98, 0x97, 0x96, 0x95, 0x94, 0x93, 0x92, 0x91, /* the arrival: iteration */
    0xa4, 0xa3, 0xa2, 0xa1, 0xb4, 0xb3, 0xb2, 0xb1, /* collectives, total */
    0xc4, 0xc3, 0xc2, 0xc1, 0x18, 0x17, 0x16, 0x15, /* common, depth */
    1,    0,    0,    0,                            /* kinds */
    0x68, 0x67, 0x66, 0x65, 0x64, 0x63, 0x62, 0x61, /* the first entry */
    0x78, 0x77, 0x76, 0x75, 0x74, 0x73, 0x72, 0x71, 0x84, 0x83, 0x82, 0x81, 0,    0,
    0,    0,    1,    0,    0,    0,    0,    0,    0,    0,    1,    0,    0,    0,
    0,    0,    0,    0,    2,    0,    0,    0,    0,    0,    0,    0, /* the second */
    3,    0,    0,    0,    4,    0,    0,    0,    0,    0,    0,    0,    0,    0,
    0,    0,    0xd8, 0xd7, 0xd6, 0xd5, 0xd4, 0xd3, 0xd2, 0xd1, /* the kind */
    0xe4, 0xe3, 0xe2, 0xe1, 0xf4, 0xf3, 0xf2, 0xf1,
};

static void test_layout_is_fixed(void **state)
{
    uint8_t buffer[LULL_PROPOSAL_MAX_BYTES];
    struct lull_proposal read;

    (void)state;
    assert_int_equal(sizeof(layout), 76 + 2 * 32 + 16);
    assert_int_equal(lull_proposal_encode(&whole, LULL_PROPOSAL_VERSION, buffer), sizeof(layout));
    assert_memory_equal(buffer, layout, sizeof(layout));
    assert_int_equal(lull_proposal_decode(layout, sizeof(layout), &read), LULL_PROPOSAL_VERSION);
    assert_memory_equal(&read, &whole, sizeof(read));
}

static void test_none_and_all_entries(void **state)
{
    uint8_t buffer[LULL_PROPOSAL_MAX_BYTES + 1];
    struct lull_proposal proposal = whole;
    struct lull_proposal read;

    (void)state;
    proposal.entry_count = 0;
    memset(proposal.entries, 0, sizeof(proposal.entries));
    proposal.arrival = (struct lull_arrival){0};
    assert_int_equal(lull_proposal_encode(&proposal, LULL_PROPOSAL_VERSION, buffer),
                     LULL_PROPOSAL_HEADER_BYTES);
    assert_int_equal(lull_proposal_decode(buffer, LULL_PROPOSAL_HEADER_BYTES, &read),
                     LULL_PROPOSAL_VERSION);
    assert_memory_equal(&read, &proposal, sizeof(read));
    proposal.entry_count = LULL_PROPOSAL_MAX_ENTRIES;
    for (uint32_t i = 0; i < LULL_PROPOSAL_MAX_ENTRIES; i++)
        proposal.entries[i] = (struct lull_proposal_entry){i, i, 1 + i, 0, i % 2};
    proposal.arrival.kind_count = LULL_ARRIVAL_KINDS;
    for (uint32_t i = 0; i < LULL_ARRIVAL_KINDS; i++)
        proposal.arrival.kinds[i] = (struct lull_arrival_kind){i, i, LULL_ARRIVAL_NONE};
    assert_int_equal(lull_proposal_encode(&proposal, LULL_PROPOSAL_VERSION, buffer),
                     LULL_PROPOSAL_MAX_BYTES);
    assert_int_equal(lull_proposal_decode(buffer, LULL_PROPOSAL_MAX_BYTES, &read),
                     LULL_PROPOSAL_VERSION);
    assert_memory_equal(&read, &proposal, sizeof(read));
}

/* One byte of the layout replaced by another. */
static int decode_with(size_t at, uint8_t byte)
{
    uint8_t buffer[sizeof(layout)];
    struct lull_proposal read;

    memcpy(buffer, layout, sizeof(layout));
    buffer[at] = byte;
    return lull_proposal_decode(buffer, sizeof(buffer), &read);
}

static void test_what_no_governor_writes_is_refused(void **state)
{
    uint8_t buffer[sizeof(layout)];
    struct lull_proposal read;

    (void)state;
    for (size_t at = 0; at < 4; at++)
        assert_int_equal(decode_with(at, 'x'), LULL_E_FORMAT);
    assert_int_equal(decode_with(4, 0), LULL_E_FORMAT); /* there was no version 0 */
    assert_int_equal(decode_with(4, 1), LULL_E_FORMAT); /* version 1 has no arrival */
    assert_int_equal(decode_with(6, 1), LULL_E_FORMAT); /* fewer entries than the size implies */
    assert_int_equal(decode_with(6, 3), LULL_E_FORMAT);
    assert_int_equal(decode_with(7, 1), LULL_E_FORMAT);
    assert_int_equal(decode_with(44, 0), 2);
    assert_int_equal(decode_with(44, 2), LULL_E_FORMAT); /* leaving is 0 or 1 */
    assert_int_equal(decode_with(100, 0), 2);
    assert_int_equal(decode_with(100, 2), LULL_E_FORMAT); /* so is settled */
    assert_int_equal(decode_with(104, 1), LULL_E_FORMAT); /* the last number is 0 */
    assert_int_equal(decode_with(107, 1), LULL_E_FORMAT);
    assert_int_equal(decode_with(124, 0), LULL_E_FORMAT); /* no clock is kept */
    assert_int_equal(decode_with(72, 0), LULL_E_FORMAT);  /* fewer kinds than the size implies */
    assert_int_equal(decode_with(72, 2), LULL_E_FORMAT);
    assert_int_equal(decode_with(75, 1), LULL_E_FORMAT);
    /* No rank of those at the common point comes later than all ranks. */
    assert_int_equal(decode_with(155, 0xe1), 2);
    assert_int_equal(decode_with(155, 0xe0), LULL_E_FORMAT);
    memcpy(buffer, layout, sizeof(layout));
    memcpy(buffer + 8, buffer + 12, 4); /* its number is not below the count of nodes */
    assert_int_equal(lull_proposal_decode(buffer, sizeof(buffer), &read), LULL_E_FORMAT);
    buffer[8]--;
    assert_int_equal(lull_proposal_decode(buffer, sizeof(buffer), &read), LULL_PROPOSAL_VERSION);
}

static void test_every_other_size_is_refused(void **state)
{
    uint8_t buffer[LULL_PROPOSAL_MAX_BYTES + 64] = {0};
    struct lull_proposal read;
    struct lull_proposal untouched;

    (void)state;
    memset(&read, 0x55, sizeof(read));
    untouched = read;
    memcpy(buffer, layout, sizeof(layout));
    for (size_t size = 0; size < sizeof(buffer); size++)
        if (size != sizeof(layout))
            assert_int_equal(lull_proposal_decode(buffer, size, &read), LULL_E_FORMAT);
    /* More entries than there may be, with the size that goes with them. */
    buffer[6] = (LULL_PROPOSAL_MAX_ENTRIES + 1) & 0xff;
    buffer[7] = (LULL_PROPOSAL_MAX_ENTRIES + 1) >> 8;
    for (size_t i = 0; i <= LULL_PROPOSAL_MAX_ENTRIES; i++)
        buffer[LULL_PROPOSAL_HEADER_BYTES + i * LULL_PROPOSAL_ENTRY_BYTES + 16] = 1;
    assert_int_equal(
        lull_proposal_decode(buffer, LULL_PROPOSAL_MAX_BYTES + LULL_PROPOSAL_ENTRY_BYTES, &read),
        LULL_E_FORMAT);
    assert_memory_equal(&read, &untouched, sizeof(read));
}

/* F63: during a rolling update, nodes of neighbouring releases read each other. */
static void f63_neighbouring_versions_are_read(void **state)
{
    uint8_t buffer[LULL_PROPOSAL_MAX_READ] = {0};
    struct lull_proposal without_arrival = whole;
    struct lull_proposal read;
    size_t size;

    (void)state;
    memset(&without_arrival.arrival, 0, sizeof(without_arrival.arrival));
    size = lull_proposal_encode(&whole, 1, buffer);
    assert_int_equal(size, 48 + 2 * 32);
    assert_int_equal(buffer[4], 1);
    assert_memory_equal(buffer + 5, layout + 5, 43);   /* the header up to the arrival */
    assert_memory_equal(buffer + 48, layout + 76, 64); /* the entries */
    assert_int_equal(lull_proposal_decode(buffer, size, &read), 1);
    assert_memory_equal(&read, &without_arrival, sizeof(read));
    assert_int_equal(lull_proposal_decode(buffer, size + 1, &read), LULL_E_FORMAT);
    memcpy(buffer, layout, sizeof(layout));
    buffer[4] = 3;
    for (size = sizeof(layout); size <= sizeof(buffer); size += 100) {
        assert_int_equal(lull_proposal_decode(buffer, size, &read), 3);
        assert_memory_equal(&read, &whole, sizeof(read));
    }
    assert_int_equal(lull_proposal_decode(buffer, sizeof(layout) - 1, &read), LULL_E_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_is_fixed),
        cmocka_unit_test(test_none_and_all_entries),
        cmocka_unit_test(test_what_no_governor_writes_is_refused),
        cmocka_unit_test(test_every_other_size_is_refused),
        cmocka_unit_test(f63_neighbouring_versions_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
