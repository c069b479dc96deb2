/*
 * Data with which the governors of a step on several nodes find and trust each other: a key that
 * srun draws, the name of the step's first node, and a port of that node. All compute the same
 * port.
 *
 * Pure, but for the drawing of keys. Threads: any. SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef LULL_CLUSTER_SLURM_TOGETHER_H
#define LULL_CLUSTER_SLURM_TOGETHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LULL_TOGETHER_MAX_NODES = 64, /* that governors can agree on */
    LULL_TOGETHER_KEY_BYTES = 32,
    LULL_TOGETHER_KEY_TEXT = 2 * LULL_TOGETHER_KEY_BYTES + 1, /* hexadecimal digits and a NUL */
    LULL_TOGETHER_NAME = 256,                                 /* of a node, with its NUL */
};

/* The ports from which steps take theirs, both ends included. All zero: none. */
struct lull_together_ports {
    uint16_t first;
    uint16_t last;
};

/* Draws a key for one step. False: the kernel gives no random bytes at once. */
bool lull_together_draw_key(char key_out[LULL_TOGETHER_KEY_TEXT]);

/* Returns whether a text is such a key: 64 digits 0-9 or a-f. */
bool lull_together_is_key(const char *text);

/*
 * Writes the first of the nodes that Slurm's list names, as in n1 for n[1-3,7],m2. False: it names
 * none, the name is too long, or has other characters than names of nodes have.
 */
bool lull_together_first_node(const char *nodes, char name_out[LULL_TOGETHER_NAME]);

/* Takes FIRST-LAST, or "off" for none; false: it is neither, and the ports are unchanged. */
bool lull_together_take_ports(const char *text, struct lull_together_ports *ports);

/*
 * Returns the port of a step, 0 where there are none. Steps of consecutive jobs have different
 * ones, and so have the steps of one job, until the ports are used up.
 */
uint16_t lull_together_port(const struct lull_together_ports *ports, uint32_t job, uint32_t step);

#endif
