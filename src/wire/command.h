/*
 * The command table: memory that one client shares with the device writer, one slot per GPU for
 * the latest request and one for its result; and likewise for power limits.
 *
 * Made by the privileged side, with its size sealed. Each side writes its own half. It copies the
 * other half once, in bounded time, before it examines it, so a hostile client can cause at most a
 * wrong request of its own.
 *
 * Threads: per slot one poster and one taker; the daemon's side belongs to the device writer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_WIRE_COMMAND_H
#define LULL_WIRE_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/switch.h"

enum { LULL_COMMAND_SLOTS = 64 };

struct lull_command_table;

/* Creates a table and its memory. Errors: -errno. */
int lull_command_table_create(struct lull_command_table **table_out, struct lull_error *err);

/*
 * Maps a table from a descriptor, which the caller keeps. Errors: -EINVAL not a command table;
 * -errno.
 */
int lull_command_table_open(int memory_fd, struct lull_command_table **table_out,
                            struct lull_error *err);

/* Unmaps and frees; NULL is allowed. */
void lull_command_table_close(struct lull_command_table *table);

/* The descriptor of a created table, to be sent to the client. The table owns it. */
int lull_command_table_fd(const struct lull_command_table *table);

/* Client: posts a request and returns its number in this slot; request->sequence is ignored. */
uint64_t lull_command_post(struct lull_command_table *table, uint32_t slot,
                           const struct lull_switch_request *request);

/* Client: copies the latest result that could be read whole; all zero before the first. */
void lull_command_result(struct lull_command_table *table, uint32_t slot,
                         struct lull_switch_result *result_out);

/* Client: post and copy the same for power limits, in slots of their own: another thread may use
 * them. */
uint64_t lull_command_post_limit(struct lull_command_table *table, uint32_t slot,
                                 const struct lull_limit_request *request);
void lull_command_limit_result(struct lull_command_table *table, uint32_t slot,
                               struct lull_limit_result *result_out);

/* Writer: takes requests from the table, and stores results in it. The table must outlive it. */
struct lull_switch_channel lull_command_channel(struct lull_command_table *table);

#endif
