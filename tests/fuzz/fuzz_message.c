/*
 * Any bytes may be decoded; a decoded message is the same after encoding and decoding it again.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_message message;
    struct lull_message again;
    uint8_t buffer[LULL_MESSAGE_MAX_BYTES];
    int written;

    memset(&message, 0, sizeof(message));
    memset(&again, 0, sizeof(again));
    if (lull_message_decode(data, size, &message) < 0)
        return 0;
    written = lull_message_encode(&message, buffer, sizeof(buffer));
    /* A later version may have appended to its HELLO. */
    if (written < 0 ||
        (written != (int)size &&
         (message.type != LULL_MESSAGE_HELLO || message.version == LULL_MESSAGE_VERSION)) ||
        lull_message_decode(buffer, (size_t)written, &again) < 0 ||
        memcmp(&message, &again, sizeof(message)) != 0)
        abort();
    return 0;
}
