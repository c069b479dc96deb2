/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/topology.h"

#include <string.h>
#include <unistd.h>

/* PCI domains between one server and the next: more than a server has. */
enum { DOMAINS_PER_SERVER = 32 };

/* NUMA nodes of a server with two CPUs and four GPUs, each of which has 8 (7 for partitions). */
enum { MEMORY_NODES_PER_SERVER = 34 };

static bool is_same_model(const struct lull_node_spec *spec, uint32_t one, uint32_t other)
{
    return strcmp(spec->models[one]->name, spec->models[other]->name) == 0;
}

static struct lull_gpu_place find_fabric(const struct lull_node_spec *spec, uint32_t gpu)
{
    struct lull_gpu_place place = {.fabric = gpu};

    for (uint32_t i = 0; i < gpu; i++) {
        if (!is_same_model(spec, i, gpu))
            continue;
        if (place.fabric_member++ == 0)
            place.fabric = i;
    }
    return place;
}

/* GPUs of other vendors have addresses in domain 0, so those of NVIDIA begin in another one. */
static uint32_t first_domain(const struct lull_node_spec *spec)
{
    for (uint32_t i = 0; i < spec->gpu_count; i++)
        if (spec->models[i]->vendor != LULL_GPU_NVIDIA)
            return DOMAINS_PER_SERVER;
    return 0;
}

static struct lull_gpu_place find_place(const struct lull_node_spec *spec, uint32_t gpu,
                                        const struct lull_platform *platform, uint32_t position)
{
    const uint32_t server = position / platform->slot_count;
    struct lull_gpu_place place = find_fabric(spec, gpu);

    place.link_count = spec->models[gpu]->nvlink_count;
    place.platform = spec->models[gpu]->platform;
    place.slot = platform->slots[position % platform->slot_count];
    place.slot.domain += first_domain(spec) + DOMAINS_PER_SERVER * server;
    place.slot.numa_node += platform->numa_nodes * server;
    place.slot.bridge += LULL_PLATFORM_SLOTS * server;
    if (place.slot.pcie_switch != LULL_NO_PCIE_SWITCH)
        place.slot.pcie_switch += LULL_PLATFORM_SLOTS * server;
    place.slot.board += LULL_PLATFORM_SLOTS * server;
    if (platform->has_memory_nodes)
        place.slot.memory_node += MEMORY_NODES_PER_SERVER * server;
    return place;
}

void lull_topology_build(const struct lull_node_spec *spec, struct lull_topology *out)
{
    const struct lull_platform *platform = NULL;
    uint32_t position = 0;

    *out = (struct lull_topology){.sockets = 1, .numa_nodes = 1, .gpu_count = spec->gpu_count};
    for (uint32_t i = 0; i < spec->gpu_count; i++) {
        if (spec->models[i]->vendor != LULL_GPU_NVIDIA) {
            out->places[i].slot.bus = (7 + 3 * i) & 0xff; /* as the libraries of these vendors */
            continue;
        }
        if (platform == NULL) {
            out->first = i;
            out->platform = spec->models[i]->platform;
            platform = &lull_platforms[out->platform];
        }
        out->places[i] = find_place(spec, i, platform, position++);
    }
    if (platform != NULL) {
        const uint32_t servers = (position + platform->slot_count - 1) / platform->slot_count;

        out->sockets = platform->sockets * servers;
        out->numa_nodes = platform->numa_nodes * servers;
    }
}

enum lull_topology_level lull_topology_level(const struct lull_topology *topology, uint32_t one,
                                             uint32_t other)
{
    const struct lull_platform_slot *const a = &topology->places[one].slot;
    const struct lull_platform_slot *const b = &topology->places[other].slot;

    if (one == other)
        return LULL_LEVEL_INTERNAL;
    if (a->pcie_switch == b->pcie_switch && a->pcie_switch != LULL_NO_PCIE_SWITCH)
        return (enum lull_topology_level)lull_platforms[topology->platform].switch_level;
    if (a->bridge == b->bridge)
        return LULL_LEVEL_BRIDGE;
    if (a->numa_node == b->numa_node)
        return LULL_LEVEL_NODE;
    return LULL_LEVEL_SYSTEM;
}

uint32_t lull_topology_socket(const struct lull_topology *topology, uint32_t gpu)
{
    return topology->places[gpu].slot.numa_node * topology->sockets / topology->numa_nodes;
}

struct lull_cpu_range lull_topology_cpus(const struct lull_topology *topology, uint32_t numa_node)
{
    const uint64_t count = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    struct lull_cpu_range cpus = {
        .first = (uint32_t)(count * numa_node / topology->numa_nodes),
        .end = (uint32_t)(count * (numa_node + 1) / topology->numa_nodes),
    };

    if (cpus.end == cpus.first)
        cpus.end++;
    return cpus;
}

/* The GPU of a group with this number; UINT32_MAX: there is none. */
static uint32_t find_in_fabric(const struct lull_topology *topology, uint32_t fabric,
                               uint32_t member)
{
    for (uint32_t i = 0; i < topology->gpu_count; i++)
        if (topology->places[i].link_count > 0 && topology->places[i].fabric == fabric &&
            topology->places[i].fabric_member == member)
            return i;
    return UINT32_MAX;
}

struct lull_link_end lull_topology_link(const struct lull_topology *topology, uint32_t gpu,
                                        uint32_t link)
{
    const struct lull_gpu_place *const place = &topology->places[gpu];
    const struct lull_platform *const platform = &lull_platforms[place->platform];
    const uint32_t slot = place->fabric_member % platform->slot_count;
    const uint32_t first = place->fabric_member - slot;
    struct lull_link_end end = {.kind = LULL_LINK_SWITCH};

    if (!platform->is_mesh) {
        /* Groups of different models have switches in different domains. */
        end.domain = place->fabric == topology->first ? 0 : place->fabric;
        end.bus = platform->link_buses[link];
        return end;
    }
    end.gpu = find_in_fabric(topology, place->fabric, first + platform->mesh[slot][link]);
    end.kind = end.gpu == UINT32_MAX ? LULL_LINK_DOWN : LULL_LINK_GPU;
    if (end.kind == LULL_LINK_GPU) {
        end.domain = topology->places[end.gpu].slot.domain;
        end.bus = topology->places[end.gpu].slot.bus;
    }
    return end;
}

uint32_t lull_topology_active_links(const struct lull_topology *topology, uint32_t gpu)
{
    uint32_t count = 0;

    for (uint32_t link = 0; link < topology->places[gpu].link_count; link++)
        count += lull_topology_link(topology, gpu, link).kind != LULL_LINK_DOWN;
    return count;
}

uint32_t lull_topology_links_between(const struct lull_topology *topology, uint32_t one,
                                     uint32_t other)
{
    const struct lull_gpu_place *const place = &topology->places[one];
    uint32_t count = 0;

    if (one == other || place->fabric != topology->places[other].fabric)
        return 0;
    if (!lull_platforms[place->platform].is_mesh)
        return place->link_count;
    for (uint32_t link = 0; link < place->link_count; link++) {
        const struct lull_link_end end = lull_topology_link(topology, one, link);

        count += end.kind == LULL_LINK_GPU && end.gpu == other;
    }
    return count;
}
