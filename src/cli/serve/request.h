/*
 * Parses the requests of clients of `lull serve`: pure functions of texts, which may hold anything.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_REQUEST_H
#define LULL_CLI_SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

/* The forms in which metrics are written. */
enum lull_serve_format { LULL_SERVE_TEXT, LULL_SERVE_OPENMETRICS };

/*
 * Chooses the form that an Accept header (RFC 9110, 12.5.1) likes best; NULL: there is none. Where
 * it likes both as well, or neither, it is the text form.
 */
enum lull_serve_format lull_serve_choose_format(const char *accept);

/*
 * Returns whether a Host header names this machine as one that only itself can reach: localhost,
 * 127.0.0.0/8 or [::1], with or without a port. A page of another site whose name was made to lead
 * here sends its own name, and must not read data of this server.
 */
bool lull_serve_is_own_host(const char *host);

/* Returns whether an Authorization header carries the token, as Bearer (RFC 6750) or as the
 * password of Basic (RFC 7617). The time that it takes does not depend on how much of the token is
 * right. */
bool lull_serve_is_authorized(const char *authorization, const char *token);

/* The size of a token's characters, and of a file with one. */
enum { LULL_SERVE_MIN_TOKEN = 16, LULL_SERVE_MAX_TOKEN = 256 };

/*
 * Takes the token from what its file holds: its first line, LULL_SERVE_MIN_TOKEN to
 * LULL_SERVE_MAX_TOKEN printable characters without space. Errors: -EINVAL, with token_out as it
 * was; that has LULL_SERVE_MAX_TOKEN + 1 bytes.
 */
int lull_serve_take_token(const char *text, char *token_out);

/* Returns whether a name is one of a run's folder, and no path: not empty, no slash, and it does
 * not begin with a dot. */
bool lull_serve_is_run_name(const char *name);

#endif
