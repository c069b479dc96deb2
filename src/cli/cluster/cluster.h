/*
 * `lull simulate cluster`: many jobs on many GPUs in virtual time, under a policy that the user
 * names. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_CLUSTER_H
#define LULL_CLI_CLUSTER_CLUSTER_H

/* Overwrites argv[0] with the name that argp prints. Returns an enum lull_exit. */
int lull_cluster_main(int argc, char **argv);

#endif
