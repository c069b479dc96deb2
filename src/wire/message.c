/*
 * Bodies are described by tables of fields, so that both directions follow from one description.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/message.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { HEADER_BYTES = 16 };

static const uint32_t message_magic = 0x4c4c554c; /* "LULL" */

enum kind { END, U32, U64, TEXT };

struct field {
    enum kind kind;
    size_t offset;
    size_t size;
};

#define FIELD(how, part, member)                                                                   \
    {                                                                                              \
        how, offsetof(struct lull_message, body.part.member),                                      \
            sizeof(((struct lull_message *)0)->body.part.member)                                   \
    }

/* Signed 32-bit members travel as their two's complement. */
static const struct field no_fields[] = {{END, 0, 0}};
static const struct field hello_fields[] = {FIELD(U32, hello, process_id), {END, 0, 0}};
static const struct field welcome_fields[] = {
    FIELD(U32, welcome, gpu_count),
    FIELD(U32, welcome, lease_ttl_ms),
    FIELD(U32, welcome, heartbeat_ms),
    {END, 0, 0},
};
static const struct field lease_fields[] = {
    FIELD(TEXT, lease, uuid),        FIELD(U32, lease, min_mhz),      FIELD(U32, lease, max_mhz),
    FIELD(U32, lease, min_limit_mw), FIELD(U32, lease, max_limit_mw), {END, 0, 0},
};
static const struct field grant_fields[] = {
    FIELD(U64, grant, lease_id), FIELD(U32, grant, slot),     FIELD(U32, grant, min_mhz),
    FIELD(U32, grant, max_mhz),  FIELD(U32, grant, profiles), {END, 0, 0},
};
static const struct field release_fields[] = {FIELD(U32, release, slot), {END, 0, 0}};
static const struct field status_fields[] = {FIELD(U32, status, gpu), {END, 0, 0}};
static const struct field state_fields[] = {
    FIELD(U32, state, gpu),
    FIELD(U32, state, gpu_count),
    FIELD(TEXT, state, uuid),
    FIELD(TEXT, state, name),
    FIELD(U32, state, is_leased),
    FIELD(U32, state, owner_uid),
    FIELD(U32, state, owner_pid),
    FIELD(U32, state, min_mhz),
    FIELD(U32, state, max_mhz),
    FIELD(U32, state, applied_mhz),
    FIELD(U32, state, observed_mhz),
    FIELD(U32, state, status),
    FIELD(U32, state, lease_left_ms),
    FIELD(U64, state, writes),
    FIELD(U64, state, dropped),
    FIELD(U64, state, expired),
    FIELD(U64, state, failed),
    FIELD(U64, state, disobeyed),
    FIELD(U32, state, limit_mw),
    FIELD(U32, state, health),
    FIELD(U32, state, last_xid),
    FIELD(U64, state, xids),
    FIELD(U32, state, is_partitioned),
    FIELD(U32, state, age_ms),
    FIELD(U32, state, power_mw),
    FIELD(U32, state, power_looks),
    FIELD(U32, state, power_cap_mhz),
    FIELD(U32, state, lowest_mhz),
    FIELD(U32, state, highest_mhz),
    FIELD(U32, state, lowest_limit_mw),
    FIELD(U32, state, default_limit_mw),
    FIELD(U32, state, cap_mhz),
    FIELD(U32, state, cap_limit_mw),
    FIELD(U32, state, cap_left_ms),
    FIELD(U32, state, power_profiles),
    {END, 0, 0},
};
static const struct field gpus_fields[] = {FIELD(U64, gpus, mask), {END, 0, 0}};
static const struct field reply_fields[] = {
    FIELD(U32, reply, code),
    FIELD(TEXT, reply, text),
    {END, 0, 0},
};
static const struct field revoked_fields[] = {
    FIELD(U32, revoked, slot),
    FIELD(U32, revoked, code),
    {END, 0, 0},
};

static const struct field revoke_fields[] = {
    FIELD(U32, revoke, target),
    FIELD(U32, revoke, uid),
    FIELD(TEXT, revoke, name),
    {END, 0, 0},
};
static const struct field job_add_fields[] = {
    FIELD(TEXT, job_add, id),     FIELD(U32, job_add, uid),     FIELD(TEXT, job_add, gpu),
    FIELD(TEXT, job_add, cgroup), FIELD(U32, job_add, min_mhz), {END, 0, 0},
};
static const struct field job_remove_fields[] = {FIELD(TEXT, job_remove, id), {END, 0, 0}};
static const struct field job_next_fields[] = {
    FIELD(TEXT, job_next, id),
    FIELD(TEXT, job_next, uuid),
    {END, 0, 0},
};
static const struct field job_fields[] = {
    FIELD(TEXT, job, id),
    FIELD(U32, job, uid),
    FIELD(TEXT, job, uuid),
    FIELD(TEXT, job, cgroup),
    FIELD(U32, job, min_mhz),
    FIELD(U32, job, hidden_count),
    {END, 0, 0},
};

static const struct field cap_fields[] = {
    FIELD(U32, cap, gpu),
    FIELD(U32, cap, max_mhz),
    FIELD(U32, cap, max_limit_mw),
    FIELD(U32, cap, ttl_ms),
    {END, 0, 0},
};

static const struct field *const fields_of[LULL_MESSAGE_TYPE_COUNT] = {
    [LULL_MESSAGE_HELLO] = hello_fields,
    [LULL_MESSAGE_WELCOME] = welcome_fields,
    [LULL_MESSAGE_LEASE] = lease_fields,
    [LULL_MESSAGE_GRANT] = grant_fields,
    [LULL_MESSAGE_RENEW] = no_fields,
    [LULL_MESSAGE_RELEASE] = release_fields,
    [LULL_MESSAGE_STATUS] = status_fields,
    [LULL_MESSAGE_STATE] = state_fields,
    [LULL_MESSAGE_RESTORE] = no_fields,
    [LULL_MESSAGE_REPLY] = reply_fields,
    [LULL_MESSAGE_REVOKED] = revoked_fields,
    [LULL_MESSAGE_RELOAD] = no_fields,
    [LULL_MESSAGE_REVOKE] = revoke_fields,
    [LULL_MESSAGE_JOB_ADD] = job_add_fields,
    [LULL_MESSAGE_JOB_REMOVE] = job_remove_fields,
    [LULL_MESSAGE_JOB_NEXT] = job_next_fields,
    [LULL_MESSAGE_JOB] = job_fields,
    [LULL_MESSAGE_PROVE] = no_fields,
    [LULL_MESSAGE_CAP] = cap_fields,
    [LULL_MESSAGE_QUIESCE] = gpus_fields,
    [LULL_MESSAGE_RESUME] = gpus_fields,
};

static void message_put(uint8_t *bytes, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t message_get(const uint8_t *bytes, size_t size)
{
    uint64_t value = 0;

    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static size_t body_size(const struct field *field)
{
    size_t size = 0;

    for (; field->kind != END; field++)
        size += field->size;
    return size;
}

static const struct field *find_fields(uint64_t type)
{
    return type < LULL_MESSAGE_TYPE_COUNT ? fields_of[type] : NULL;
}

static void message_put_text(uint8_t *bytes, const char *text, size_t size)
{
    const size_t length = strnlen(text, size - 1);

    memset(bytes, 0, size);
    memcpy(bytes, text, length);
}

static void put_field(uint8_t *bytes, const struct field *field, const struct lull_message *message)
{
    const char *member = (const char *)message + field->offset;
    uint64_t u64;
    uint32_t u32;

    switch (field->kind) {
    case U32:
        memcpy(&u32, member, sizeof(u32));
        message_put(bytes, u32, sizeof(u32));
        break;
    case U64:
        memcpy(&u64, member, sizeof(u64));
        message_put(bytes, u64, sizeof(u64));
        break;
    case TEXT:
        message_put_text(bytes, member, field->size);
        break;
    case END:
        break;
    }
}

/* Copies a text. LULL_E_FORMAT: it does not end within its field. */
static int get_text(const uint8_t *bytes, char *text, size_t size)
{
    const size_t length = strnlen((const char *)bytes, size);

    if (length == size)
        return LULL_E_FORMAT;
    memset(text, 0, size);
    for (size_t i = 0; i < length; i++)
        text[i] = bytes[i] < 0x20 || bytes[i] == 0x7f ? '?' : (char)bytes[i];
    return 0;
}

static int get_field(const uint8_t *bytes, const struct field *field, struct lull_message *message)
{
    char *member = (char *)message + field->offset;
    uint64_t u64;
    uint32_t u32;

    switch (field->kind) {
    case U32:
        u32 = (uint32_t)message_get(bytes, sizeof(u32));
        memcpy(member, &u32, sizeof(u32));
        break;
    case U64:
        u64 = message_get(bytes, sizeof(u64));
        memcpy(member, &u64, sizeof(u64));
        break;
    case TEXT:
        return get_text(bytes, member, field->size);
    case END:
        break;
    }
    return 0;
}

int lull_message_encode(const struct lull_message *message, uint8_t *buffer, size_t size)
{
    const struct field *field = find_fields(message->type);
    size_t total;
    uint8_t *bytes = buffer + HEADER_BYTES;

    if (field == NULL)
        return -EINVAL;
    total = HEADER_BYTES + body_size(field);
    if (total > size)
        return -EINVAL;
    message_put(buffer, message_magic, 4);
    message_put(buffer + 4, message->version != 0 ? message->version : LULL_MESSAGE_VERSION, 2);
    message_put(buffer + 6, message->type, 2);
    message_put(buffer + 8, total - HEADER_BYTES, 4);
    message_put(buffer + 12, message->sequence, 4);
    for (; field->kind != END; field++) {
        put_field(bytes, field, message);
        bytes += field->size;
    }
    return (int)total;
}

/* Returns whether a message has the same body in all versions. */
static bool is_frozen(uint16_t type)
{
    return type == LULL_MESSAGE_HELLO || type == LULL_MESSAGE_RESTORE || type == LULL_MESSAGE_REPLY;
}

/* Returns whether a body of this size can be read: only a later HELLO may be longer than ours. */
static bool is_body_size(const struct lull_message *message, const struct field *field, size_t size)
{
    if (message->version != LULL_MESSAGE_VERSION && message->type == LULL_MESSAGE_HELLO)
        return size >= body_size(field);
    return size == body_size(field);
}

int lull_message_decode(const uint8_t *buffer, size_t size, struct lull_message *message_out)
{
    struct lull_message message = {0};
    const struct field *field;
    const uint8_t *bytes = buffer + HEADER_BYTES;

    if (size < HEADER_BYTES || message_get(buffer, 4) != message_magic ||
        message_get(buffer + 8, 4) != size - HEADER_BYTES || message_get(buffer + 4, 2) == 0)
        return LULL_E_FORMAT;
    message.version = (uint16_t)message_get(buffer + 4, 2);
    message.type = (uint16_t)message_get(buffer + 6, 2);
    message.sequence = (uint32_t)message_get(buffer + 12, 4);
    if (message.version != LULL_MESSAGE_VERSION && !is_frozen(message.type)) {
        *message_out = message;
        return -EPROTONOSUPPORT;
    }
    field = find_fields(message.type);
    if (field == NULL || !is_body_size(&message, field, size - HEADER_BYTES))
        return LULL_E_FORMAT;
    for (; field->kind != END; field++) {
        if (get_field(bytes, field, &message) < 0)
            return LULL_E_FORMAT;
        bytes += field->size;
    }
    *message_out = message;
    return 0;
}
