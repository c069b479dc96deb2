/*
 * Private to live_*.c: the parts of the live page that are tables. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_LIVE_PARTS_H
#define LULL_CLI_SERVE_LIVE_PARTS_H

#include <stdio.h>

#include <jansson.h>

#include "cli/serve/history.h"

/* live_gpus.c: one row per GPU. */
void lull_serve_write_gpus(FILE *out, const json_t *document,
                           const struct lull_serve_history *history);

/* live_jobs.c: what running jobs have saved together, and one row per job. */
void lull_serve_write_saving_tile(FILE *out, const json_t *document);
void lull_serve_write_jobs(FILE *out, const json_t *document);

/* live_jobs.c: the cell with the activity of a GPU: its job, and its present section. */
void lull_serve_write_work(FILE *out, const json_t *document, const json_t *gpu, size_t index);

/* live_page.c: writes a tile. */
void lull_serve_write_tile(FILE *out, const char *name, const char *title, const char *figure,
                           const char *small);

#endif
