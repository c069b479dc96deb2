/*
 * Where the NVIDIA GPUs of a node are: PCI address, socket, memory node, PCIe switch, and the other
 * end of each NVLink. It follows from the boards' servers in data/gpu_models.json alone, so NVML
 * and CUDA agree.
 *
 * The server is that of the first GPU. More GPUs than it holds are in further servers of the same
 * kind, in PCI domains of their own. NVLinks connect GPUs of one model.
 *
 * Pure; threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_TOPOLOGY_H
#define LULL_EMULATOR_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/spec.h"

enum { LULL_PLATFORM_SLOTS = 8, LULL_GPU_MAX_LINKS = 18 };

#define LULL_NO_PCIE_SWITCH UINT32_MAX

struct lull_platform_slot {
    uint32_t domain;
    uint32_t bus;
    uint32_t numa_node;
    uint32_t bridge;      /* the host bridge */
    uint32_t pcie_switch; /* LULL_NO_PCIE_SWITCH: it is at the bridge */
    uint32_t module;      /* its number on the baseboard */
    uint32_t board;       /* GPUs of one board have one serial number */
    uint32_t memory_node; /* the NUMA node of its own memory, on a platform that has them */
};

/* A server. */
struct lull_platform {
    char name[16];
    uint32_t sockets;
    uint32_t numa_nodes;
    uint32_t switch_level; /* enum lull_topology_level of GPUs below one PCIe switch */
    uint32_t slot_count;
    struct lull_platform_slot slots[LULL_PLATFORM_SLOTS];
    bool has_memory_nodes;
    bool is_mesh; /* NVLinks lead to other GPUs, not to switches */
    uint8_t mesh[LULL_PLATFORM_SLOTS][LULL_GPU_MAX_LINKS]; /* the slot at the end of each link */
    uint8_t link_buses[LULL_GPU_MAX_LINKS]; /* of the NVSwitches; 0: they are no PCI devices */
};

extern const struct lull_platform lull_platforms[];

/* The numbers of NVML for the nearest common ancestor of two GPUs. */
enum lull_topology_level {
    LULL_LEVEL_INTERNAL = 0,
    LULL_LEVEL_SINGLE = 10,
    LULL_LEVEL_MULTIPLE = 20,
    LULL_LEVEL_BRIDGE = 30,
    LULL_LEVEL_NODE = 40,
    LULL_LEVEL_SYSTEM = 50,
};

/* The place of one GPU; numbers count over the whole node. */
struct lull_gpu_place {
    struct lull_platform_slot slot;
    uint32_t fabric;        /* the first GPU of its model, all of which NVLinks may connect */
    uint32_t fabric_member; /* its number among them */
    uint32_t link_count;
    uint32_t platform; /* of its model, which says where links lead */
};

struct lull_topology {
    uint32_t sockets;
    uint32_t numa_nodes;
    uint32_t platform; /* an index of lull_platforms */
    uint32_t first;    /* the first GPU of NVIDIA */
    uint32_t gpu_count;
    struct lull_gpu_place places[LULL_NODE_MAX_GPUS]; /* by index; of other vendors only the bus */
};

void lull_topology_build(const struct lull_node_spec *spec, struct lull_topology *out);

enum lull_topology_level lull_topology_level(const struct lull_topology *topology, uint32_t one,
                                             uint32_t other);

uint32_t lull_topology_socket(const struct lull_topology *topology, uint32_t gpu);

/* Processors of this machine, the last one not included. */
struct lull_cpu_range {
    uint32_t first;
    uint32_t end;
};

/* The processors of a memory node: the node's memory nodes share those of this machine, and each
 * has one at least. */
struct lull_cpu_range lull_topology_cpus(const struct lull_topology *topology, uint32_t numa_node);

/* The other end of an NVLink. */
enum lull_link_kind {
    LULL_LINK_DOWN, /* the GPU at the other end is not in the node */
    LULL_LINK_GPU,
    LULL_LINK_SWITCH,
};

struct lull_link_end {
    enum lull_link_kind kind;
    uint32_t gpu; /* the index in the node of a GPU */
    uint32_t domain;
    uint32_t bus; /* of a switch; 0: it is no PCI device */
};

/* The other end of a link, which the GPU must have. */
struct lull_link_end lull_topology_link(const struct lull_topology *topology, uint32_t gpu,
                                        uint32_t link);

/* The number of links of a GPU that are up. */
uint32_t lull_topology_active_links(const struct lull_topology *topology, uint32_t gpu);

/* The number of NVLinks of a GPU over which it reaches another one. */
uint32_t lull_topology_links_between(const struct lull_topology *topology, uint32_t one,
                                     uint32_t other);

#endif
