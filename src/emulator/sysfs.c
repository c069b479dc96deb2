/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emulator/topology.h"

static const char devices_path[] = "/sys/bus/pci/devices";

enum { PCI_NVIDIA = 0x10de, PCI_3D = 0x030200, PCI_REVISION = 0xa1 };

/* The length of the mask of all processors that Linux supports. */
enum { MASK_TEXT = 9 * 8192 / 32 + 1 };

/* Writes the files of one directory; the first failure stays in result. */
struct directory {
    char path[sizeof(devices_path) + 32];
    int result;
};

static void put(struct directory *directory, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put(struct directory *directory, const char *name, const char *format, ...)
{
    char path[sizeof(directory->path) + 32];
    va_list arguments;
    FILE *file;

    if (directory->result < 0)
        return;
    snprintf(path, sizeof(path), "%s/%s", directory->path, name);
    file = fopen(path, "we");
    if (file == NULL) {
        directory->result = -errno;
        return;
    }
    va_start(arguments, format);
    if (vfprintf(file, format, arguments) < 0)
        directory->result = -EIO;
    va_end(arguments);
    if (fclose(file) != 0)
        directory->result = -errno;
}

static int enter_namespaces(void)
{
    struct directory self = {.path = "/proc/self"};
    const unsigned user = geteuid();
    const unsigned group = getegid();

    if (unshare(CLONE_NEWNS) == 0)
        return 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return -errno;
    put(&self, "setgroups", "deny");
    put(&self, "uid_map", "%u %u 1", user, user);
    put(&self, "gid_map", "%u %u 1", group, group);
    return self.result;
}

/* Writes a mask as Linux does: words of 32 bits in hexadecimal, the highest first. */
static void format_mask(const struct lull_cpu_range *cpus, char text[MASK_TEXT])
{
    size_t used = 0;

    for (uint32_t word = (cpus->end - 1) / 32 + 1; word-- > 0 && used < MASK_TEXT;) {
        uint32_t bits = 0;

        for (uint32_t bit = 0; bit < 32; bit++)
            if (word * 32 + bit >= cpus->first && word * 32 + bit < cpus->end)
                bits |= UINT32_C(1) << bit;
        used += (size_t)snprintf(text + used, MASK_TEXT - used, "%08" PRIx32 "%s", bits,
                                 word > 0 ? "," : "");
    }
}

static void put_processors(struct directory *directory, const struct lull_cpu_range *cpus)
{
    char mask[MASK_TEXT];

    format_mask(cpus, mask);
    put(directory, "local_cpus", "%s\n", mask);
    if (cpus->end - cpus->first == 1)
        put(directory, "local_cpulist", "%" PRIu32 "\n", cpus->first);
    else
        put(directory, "local_cpulist", "%" PRIu32 "-%" PRIu32 "\n", cpus->first, cpus->end - 1);
}

static int add_gpu(const struct lull_gpu_model *model, const struct lull_topology *topology,
                   const struct lull_platform_slot *slot)
{
    const struct lull_cpu_range cpus = lull_topology_cpus(topology, slot->numa_node);
    const unsigned gigatransfers = 1u << model->pcie_generation;
    struct directory directory = {.result = 0};

    snprintf(directory.path, sizeof(directory.path), "%s/%04" PRIx32 ":%02" PRIx32 ":00.0",
             devices_path, (uint32_t)slot->domain, (uint32_t)slot->bus);
    if (mkdir(directory.path, 0755) < 0)
        return -errno;
    put(&directory, "vendor", "0x%04x\n", PCI_NVIDIA);
    put(&directory, "device", "0x%04" PRIx32 "\n", model->pci_device);
    put(&directory, "subsystem_vendor", "0x%04" PRIx32 "\n", model->pci_subsystem & 0xffff);
    put(&directory, "subsystem_device", "0x%04" PRIx32 "\n", model->pci_subsystem >> 16);
    put(&directory, "class", "0x%06x\n", PCI_3D);
    put(&directory, "revision", "0x%02x\n", PCI_REVISION);
    put(&directory, "current_link_speed", "%u.0 GT/s PCIe\n", gigatransfers);
    put(&directory, "max_link_speed", "%u.0 GT/s PCIe\n", gigatransfers);
    put(&directory, "current_link_width", "%" PRIu32 "\n", model->pcie_lanes);
    put(&directory, "max_link_width", "%" PRIu32 "\n", model->pcie_lanes);
    put(&directory, "numa_node", "%" PRIu32 "\n", (uint32_t)slot->numa_node);
    put_processors(&directory, &cpus);
    return directory.result;
}

/* Adds the links of the directory that the mount hides. An emulated GPU has precedence at its
 * address. */
static int add_host(DIR *hidden)
{
    const struct dirent *entry;

    while ((entry = readdir(hidden)) != NULL) {
        char target[PATH_MAX];
        char path[sizeof(devices_path) + NAME_MAX + 1];
        const ssize_t length = readlinkat(dirfd(hidden), entry->d_name, target, sizeof(target) - 1);

        if (length < 0)
            continue;
        target[length] = '\0';
        snprintf(path, sizeof(path), "%s/%s", devices_path, entry->d_name);
        if (symlink(target, path) < 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

static int mount_devices(const struct lull_node_spec *spec)
{
    struct lull_topology topology;
    DIR *const hidden = opendir(devices_path);
    int result = 0;

    if (hidden == NULL)
        return -errno;
    lull_topology_build(spec, &topology);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("lull", devices_path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") < 0)
        result = -errno;
    for (uint32_t gpu = 0; gpu < spec->gpu_count && result == 0; gpu++)
        if (spec->models[gpu]->vendor == LULL_GPU_NVIDIA)
            result = add_gpu(spec->models[gpu], &topology, &topology.places[gpu].slot);
    if (result == 0)
        result = add_host(hidden);
    closedir(hidden);
    return result;
}

int lull_sysfs_show(const struct lull_node_spec *spec, struct lull_error *err)
{
    int result = enter_namespaces();

    if (result == 0)
        result = mount_devices(spec);
    if (result == 0)
        return 0;
    return lull_error_set(err, result,
                          "cannot show the GPUs in %s: %s. Run as root, permit user namespaces, or "
                          "leave out --sysfs",
                          devices_path, strerror(-result));
}
