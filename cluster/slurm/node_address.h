/*
 * Address of a node, by slurm.conf. SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef LULL_CLUSTER_SLURM_NODE_ADDRESS_H
#define LULL_CLUSTER_SLURM_NODE_ADDRESS_H

#include <stdbool.h>

enum { LULL_NODE_ADDRESS_TEXT = 16 };

/*
 * Finds the IPv4 address of a node by a function of the Slurm program that loaded this plugin.
 * slurm.conf may have a host name there, and name services may hang, so a child resolves it, for a
 * second at most. False: unknown, or not found in time. Threads: only one, in a process that does
 * not wait for children elsewhere meanwhile.
 */
bool lull_node_address_find(const char *node, char address_out[LULL_NODE_ADDRESS_TEXT]);

#endif
