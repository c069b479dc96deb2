/*
 * The key that the nodes of a job share, as a file that any user may have created or as its secret
 * half: refused, or a key pair that ZeroMQ accepts. SPDX-License-Identifier: Apache-2.0
 */
#include "governor/peers/job_key.c"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lull_zmq zmq;
    static bool is_loaded;
    struct lull_job_key key;
    char *text;

    /* Without ZeroMQ there are no keys. */
    if (!is_loaded && lull_zmq_load(&zmq, NULL) < 0)
        return 0;
    is_loaded = true;
    text = malloc(size + 1);
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (lull_job_key_derive(text, &key, NULL) == 0) {
        require(size >= LULL_JOB_SECRET_DIGITS);
        require(strlen(key.public_key) == LULL_JOB_KEY_CHARACTERS);
        require(is_key(&zmq, key.secret_key));
    }
    if (job_key_parse(&zmq, text, size, &key)) {
        require(strlen(key.public_key) == LULL_JOB_KEY_CHARACTERS);
        require(strlen(key.secret_key) == LULL_JOB_KEY_CHARACTERS);
        require(memcmp(text, key.public_key, LULL_JOB_KEY_CHARACTERS) == 0);
    }
    free(text);
    return 0;
}
