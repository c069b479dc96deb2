/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/peers/job_key.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "governor/peers/zmq_library.h"

enum { KEY_BYTES = 32, FILE_CHARACTERS = 2 * (LULL_JOB_KEY_CHARACTERS + 1) };

static int check_owner(const char *path, struct lull_error *err)
{
    struct stat status;

    if (stat(path, &status) < 0)
        return lull_error_set(err, -errno, "%s: %s", path, strerror(errno));
    if ((status.st_mode & 077) != 0 || status.st_uid != geteuid())
        return lull_error_set(err, -EPERM,
                              "%s: others can read or own this key; make a new one with mode 0600",
                              path);
    return 0;
}

static bool is_key(const struct lull_zmq *zmq, const char *text)
{
    uint8_t key[KEY_BYTES];

    return strlen(text) == LULL_JOB_KEY_CHARACTERS && zmq->z85_decode(key, text) != NULL;
}

static bool job_key_parse(const struct lull_zmq *zmq, const char *text, size_t size,
                          struct lull_job_key *key)
{
    char derived[LULL_JOB_KEY_CHARACTERS + 1];

    if (size != FILE_CHARACTERS || text[LULL_JOB_KEY_CHARACTERS] != '\n' ||
        text[FILE_CHARACTERS - 1] != '\n')
        return false;
    memcpy(key->public_key, text, LULL_JOB_KEY_CHARACTERS);
    memcpy(key->secret_key, text + LULL_JOB_KEY_CHARACTERS + 1, LULL_JOB_KEY_CHARACTERS);
    key->public_key[LULL_JOB_KEY_CHARACTERS] = '\0';
    key->secret_key[LULL_JOB_KEY_CHARACTERS] = '\0';
    return is_key(zmq, key->public_key) && is_key(zmq, key->secret_key) &&
           zmq->curve_public(derived, key->secret_key) == 0 &&
           strcmp(derived, key->public_key) == 0;
}

struct key_file {
    const char *path;
    size_t size; /* FILE_CHARACTERS + 1: it is longer */
    char text[FILE_CHARACTERS + 1];
};

static int key_file_read(void *context, struct lull_error *err)
{
    struct key_file *const file = context;
    char *text = NULL;
    int result = check_owner(file->path, err);

    if (result == 0)
        result = lull_file_read(file->path, FILE_CHARACTERS, &text, &file->size, err);
    if (result == -EFBIG) {
        file->size = FILE_CHARACTERS + 1;
        return 0;
    }
    if (result == 0)
        memcpy(file->text, text, file->size);
    free(text);
    return result;
}

int lull_job_key_read(const char *path, struct lull_job_key *key_out, struct lull_error *err)
{
    struct key_file file = {.path = path};
    struct lull_job_key key;
    struct lull_zmq zmq;
    bool is_good;
    int result = lull_path_do(path, LULL_PATH_LOOK_MS, key_file_read, &file, sizeof(file), err);

    if (result == 0)
        result = lull_zmq_load(&zmq, err);
    if (result == 0) {
        is_good = job_key_parse(&zmq, file.text, file.size, &key);
        if (!is_good)
            return lull_error_set(
                err, LULL_E_FORMAT,
                "%s: not a job key; remove it, and lull run on the first node creates one", path);
        *key_out = key;
    }
    return result;
}

int lull_job_key_read_or_make(const char *path, struct lull_job_key *key_out,
                              struct lull_error *err)
{
    struct lull_job_key key;
    char text[FILE_CHARACTERS + 1];
    struct lull_zmq zmq;
    int result = lull_job_key_read(path, key_out, err);

    if (result != -ENOENT)
        return result;
    result = lull_zmq_load(&zmq, err);
    if (result < 0)
        return result;
    if (zmq.curve_keypair(key.public_key, key.secret_key) < 0)
        return lull_error_set(err, LULL_E_UNSUPPORTED, "ZeroMQ cannot make a key: %s",
                              zmq.strerror(errno));
    snprintf(text, sizeof(text), "%s\n%s\n", key.public_key, key.secret_key);
    /* Other nodes may read the key meanwhile: they see the complete key or none. */
    result = lull_path_write(path, text, FILE_CHARACTERS, 0600, LULL_PATH_FILE_MS, err);
    return result < 0 ? result : lull_job_key_read(path, key_out, err);
}

static bool parse_secret(const char *text, uint8_t bytes[KEY_BYTES])
{
    if (strlen(text) != LULL_JOB_SECRET_DIGITS)
        return false;
    for (size_t i = 0; i < KEY_BYTES; i++) {
        const char pair[] = {text[2 * i], text[2 * i + 1], '\0'};

        if (!isxdigit((unsigned char)pair[0]) || !isxdigit((unsigned char)pair[1]))
            return false;
        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

int lull_job_key_derive(const char *secret, struct lull_job_key *key_out, struct lull_error *err)
{
    uint8_t bytes[KEY_BYTES];
    struct lull_job_key key;
    struct lull_zmq zmq;
    int result;

    if (!parse_secret(secret, bytes))
        return lull_error_set(err, LULL_E_FORMAT,
                              "LULL_TOGETHER_KEY must be a key of %d hexadecimal digits",
                              LULL_JOB_SECRET_DIGITS);
    result = lull_zmq_load(&zmq, err);
    if (result < 0)
        return result;
    if (zmq.z85_encode(key.secret_key, bytes, KEY_BYTES) == NULL ||
        zmq.curve_public(key.public_key, key.secret_key) < 0)
        return lull_error_set(err, LULL_E_UNSUPPORTED, "ZeroMQ cannot make a key: %s",
                              zmq.strerror(errno));
    *key_out = key;
    return 0;
}
