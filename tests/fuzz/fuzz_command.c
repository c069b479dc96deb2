/*
 * The command table with a client that writes arbitrary values at arbitrary times.
 * The input determines the contents of the shared memory and its changes between
 * two loads of the other side, so that a value loaded twice differs. The reader of
 * requests or results never waits, and no data comes from outside the slot.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdatomic.h>

#include "input.h"

static void meddle(void);

#undef atomic_load_explicit
#define atomic_load_explicit(address, order) (meddle(), *(address))

#include "wire/command.c"

enum { ACTS = 256 };

static struct input input;
static struct shared *victim;
static uint32_t loads;

/* Most bytes of the input leave the memory alone, so that loads in a row can agree. */
static void meddle(void)
{
    const uint8_t what = input_byte(&input);
    _Atomic uint64_t *words = (_Atomic uint64_t *)victim;

    loads++;
    if (what < 0xc0)
        return;
    if (what < 0xe0) /* a word of a slot that is in use */
        words[(what & 7) + 8 * (size_t)(input_byte(&input) & 3) * LULL_COMMAND_SLOTS] =
            input_u64(&input);
    else /* a small version, which is likely to be whole */
        words[8 * (size_t)(what & 3) * LULL_COMMAND_SLOTS] = input_byte(&input);
}

static void take_one(struct lull_command_table *table, uint32_t slot)
{
    const struct lull_switch_request before = {.sequence = 1, .sm_mhz = 2, .valid_until_ns = 3};
    struct lull_switch_request request = before;
    const uint64_t taken = table->taken[slot];

    loads = 0;
    if (lull_command_channel(table).take(table, slot, &request))
        require(request.sequence != 0 && request.sequence != taken &&
                request.sequence == table->taken[slot]);
    else
        require(memcmp(&request, &before, sizeof(request)) == 0 && table->taken[slot] == taken);
    require(loads <= READ_ATTEMPTS * (RECORD_WORDS + 2));
}

static void take_limit_of(struct lull_command_table *table, uint32_t slot)
{
    struct lull_limit_request request = {.sequence = 1, .limit_mw = 2};

    loads = 0;
    if (!lull_command_channel(table).take_limit(table, slot, &request))
        require(request.sequence == 1 && request.limit_mw == 2);
    require(loads <= READ_ATTEMPTS * (RECORD_WORDS + 2));
}

static void act(struct lull_command_table *writer, struct lull_command_table *client, uint8_t what)
{
    const uint32_t slot = what & 0x80 ? LULL_COMMAND_SLOTS - 1 : 0;
    const struct lull_switch_channel channel = lull_command_channel(writer);
    struct lull_switch_request request = {.sm_mhz = what};
    struct lull_limit_request limit = {.limit_mw = what};
    struct lull_switch_result result = {.sequence = what};
    struct lull_limit_result limit_result = {.sequence = what};

    switch (what & 7) {
    case 0:
        take_one(writer, slot);
        break;
    case 1:
        take_limit_of(writer, slot);
        break;
    case 2:
        lull_command_post(client, slot, &request);
        break;
    case 3:
        lull_command_post_limit(client, slot, &limit);
        break;
    case 4:
        channel.publish(channel.context, slot, &result);
        lull_command_result(client, slot, &result);
        break;
    case 5:
        channel.publish_limit(channel.context, slot, &limit_result);
        lull_command_limit_result(client, slot, &limit_result);
        break;
    default:
        meddle();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lull_command_table *writer;
    static struct lull_command_table *client;
    struct lull_error err;

    if (writer == NULL)
        require(lull_command_table_create(&writer, &err) == 0 &&
                lull_command_table_open(writer->memory_fd, &client, &err) == 0);
    /* Each input begins with a new table, in memory that is not mapped again. */
    memset(writer->shared, 0, sizeof(*writer->shared));
    *writer = (struct lull_command_table){.shared = writer->shared, .memory_fd = writer->memory_fd};
    *client = (struct lull_command_table){.shared = client->shared, .memory_fd = -1};
    victim = client->shared;
    input = (struct input){data, size};
    for (int i = 0; i < ACTS && !input_is_over(&input); i++)
        act(writer, client, input_byte(&input));
    return 0;
}
