/*
 * Private to live_*.c: the parts of the live page that are tables. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_LIVE_PARTS_H
#define LULL_CLI_SERVE_LIVE_PARTS_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

#include "cli/serve/history.h"

/* live_gpus.c: one row per GPU. */
void lull_serve_write_gpus(FILE *out, const json_t *document,
                           const struct lull_serve_history *history);

/* live_jobs.c: what running jobs have saved together, and one row per job. */
void lull_serve_write_saving_tile(FILE *out, const json_t *document);
void lull_serve_write_jobs(FILE *out, const json_t *document);

/* live_jobs.c: beginnings of a run's row, its saving, and what is wrong with it. */
void lull_serve_write_name(FILE *out, const json_t *job, size_t index);
void lull_serve_write_saving(FILE *out, const json_t *job, size_t index);
void lull_serve_write_troubles(FILE *out, const json_t *job);

/* live_servers.c: whether a run manages a server, and one row per server. */
bool lull_serve_is_server(const json_t *job);
void lull_serve_write_servers(FILE *out, const json_t *document,
                              const struct lull_serve_history *history);

/* live_jobs.c: the cell with the activity of a GPU: its job, and its present section. */
void lull_serve_write_work(FILE *out, const json_t *document, const json_t *gpu, size_t index);

/* live_tile.c: writes a tile; draws a line of a minute's values up to `most`. */
void lull_serve_write_tile(FILE *out, const char *name, const char *title, const char *figure,
                           const char *small);
void lull_serve_draw_minute(FILE *out, const float *values, uint32_t next, double most);

#endif
