/*
 * A GPU as JSON, for every command that shows one: readings of its driver, and its state in lulld.
 * An unknown value is null, never 0. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_NODE_JSON_H
#define LULL_CLI_NODE_JSON_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "device/device.h"
#include "wire/message.h"

/* Short words for bits; the last has no text. */
struct lull_node_word {
    uint64_t bit;
    const char *text;
};

/* The words for enum lull_clock_reason, enum lull_capability and enum lull_power_profile. */
extern const struct lull_node_word lull_node_reasons[];
extern const struct lull_node_word lull_node_capabilities[];
extern const struct lull_node_word lull_node_profiles[];

/* Returns a new array of the words for the bits that are set; NULL: out of memory. */
json_t *lull_node_words_json(const struct lull_node_word *words, uint64_t bits);

/* Returns a new object of a GPU's facts and of one reading of it; NULL: out of memory. */
json_t *lull_node_gpu_json(uint32_t index, const struct lull_device_info *info,
                           const struct lull_device_reading *now);

/* Returns a new object with the state of a GPU in lulld. NULL: out of memory. */
json_t *lull_node_state_json(const struct lull_message_state *state);

/* Returns the word for the state of a GPU; a newer daemon may know more of them. */
const char *lull_node_health_name(const struct lull_message_state *state);

#endif
