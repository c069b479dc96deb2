/*
 * Any bytes may be decoded; what decodes, encodes to a message that decodes to the same.
 * With libFuzzer this is a fuzz target; otherwise main replays the files it is given.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    if (written != (int)size || lull_message_decode(buffer, size, &again) < 0 ||
        memcmp(&message, &again, sizeof(message)) != 0)
        abort();
    return 0;
}

#ifndef LULL_FUZZING
int main(int argc, char **argv)
{
    static uint8_t data[1 << 16];

    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        size_t size;

        if (file == NULL) {
            fprintf(stderr, "%s: cannot open\n", argv[i]);
            return 1;
        }
        size = fread(data, 1, sizeof(data), file);
        fclose(file);
        LLVMFuzzerTestOneInput(data, size);
    }
    return argc > 1 ? 0 : 1;
}
#endif
