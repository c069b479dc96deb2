/*
 * The job key: one CURVE key pair that all governors of a job share, through a file or through what
 * has started them. A process with the key belongs to the job. A process without it can neither
 * receive nor send.
 *
 * The file holds the public and the secret key, Z85 as ZeroMQ writes them, one per line. It must
 * belong to the caller and be readable by no other process (mode 0600 or 0400).
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_PEERS_JOB_KEY_H
#define LULL_GOVERNOR_PEERS_JOB_KEY_H

#include "base/error.h"

enum { LULL_JOB_KEY_CHARACTERS = 40, LULL_JOB_SECRET_DIGITS = 64 };

struct lull_job_key {
    char public_key[LULL_JOB_KEY_CHARACTERS + 1];
    char secret_key[LULL_JOB_KEY_CHARACTERS + 1];
};

/*
 * Reads the key. Errors: -ENOENT no such file (yet); -EPERM others may read it; LULL_E_FORMAT it
 * holds something else; -errno.
 */
int lull_job_key_read(const char *path, struct lull_job_key *key_out, struct lull_error *err);

/*
 * Reads the key, or creates one with mode 0600 if there is no such file. Errors: those of
 * lull_job_key_read; LULL_E_UNSUPPORTED ZeroMQ is not installed, or has been built without CURVE.
 */
int lull_job_key_read_or_make(const char *path, struct lull_job_key *key_out,
                              struct lull_error *err);

/*
 * Derives the key pair from its secret half: any 32 random bytes, as LULL_JOB_SECRET_DIGITS
 * hexadecimal digits. Errors, whose text does not contain the secret: LULL_E_FORMAT it is something
 * else; LULL_E_UNSUPPORTED as above.
 */
int lull_job_key_derive(const char *secret, struct lull_job_key *key_out, struct lull_error *err);

#endif
