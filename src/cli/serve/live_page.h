/*
 * The live page: the state of the node as HTML that is complete without a script. With a script,
 * the parts that change are updated from a stream. Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_LIVE_PAGE_H
#define LULL_CLI_SERVE_LIVE_PAGE_H

#include <stdio.h>

#include <jansson.h>

#include "cli/serve/history.h"

/* Write the page before and behind its live part. The script may run that carries this number of
 * the response, which no page before it has had. */
void lull_serve_page_write_head(FILE *out, const char *hostname);
void lull_serve_page_write_foot(FILE *out, const char *nonce);

/* Writes the live part. Elements that change carry data-live, with a name that is theirs alone; the
 * whole has another data-shape where others are there. */
void lull_serve_page_write_live(FILE *out, const json_t *document, const json_t *runs,
                                const struct lull_serve_history *history);

#endif
