/* The files of the node below a root. SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/process.h"
#include "cli/doctor/gather.h"
#include "device/rapl.h"

enum {
    FILE_BYTES = 65536,
    CAP_SYS_ADMIN_BIT = 21, /* capabilities(7) */
};

/* Programs that can set the clocks or power limits of GPUs, and their services. */
static const struct manager {
    const char *comm; /* at most 15 characters are in /proc */
    const char *unit;
} known_managers[] = {
    {"nv-hostengine", "nvidia-dcgm"}, /* dcgmi config --set */
    {"nvidia-powerd", "nvidia-powerd"},
    {"geopmd", "geopm"},
    {"lact", "lactd"},
};

/* ---- files ------------------------------------------------------------------------------- */

/* Writes the path of a file below the root. False: it is too long. */
static bool node_path(const char *root, const char *path, char path_out[PATH_MAX])
{
    return (size_t)snprintf(path_out, PATH_MAX, "%s%s", root, path) < PATH_MAX;
}

/* Reads a file below the root; the caller frees it. NULL: it cannot be read. */
static char *node_read(const char *root, const char *path)
{
    char whole[PATH_MAX];
    char *text = NULL;
    size_t size;

    if (!node_path(root, path, whole) || lull_file_read(whole, FILE_BYTES, &text, &size, NULL) < 0)
        return NULL;
    return text;
}

static bool node_has(const char *root, const char *path)
{
    char whole[PATH_MAX];

    return node_path(root, path, whole) && access(whole, F_OK) == 0;
}

/* Returns the rest of the line after a key in the text of a file; NULL: there is no such line. */
static const char *text_find(const char *text, const char *key)
{
    const size_t length = strlen(key);

    for (; text != NULL && *text != '\0'; text += *text == '\n') {
        if (strncmp(text, key, length) == 0)
            return text + length;
        text += strcspn(text, "\n");
    }
    return NULL;
}

/* ---- the driver's files ------------------------------------------------------------------ */

/* Finds the version in a line such as "NVRM version: NVIDIA UNIX x86_64 Kernel Module  560.35.05
 * Fri ...": the first word that begins like a number with a point. */
static void module_find_version(const char *text, char *version_out, size_t size)
{
    const char *at = text_find(text, "NVRM version:");

    while (at != NULL && *at != '\0' && *at != '\n') {
        const size_t digits = strspn(at, "0123456789");
        const size_t length = strspn(at, "0123456789.");

        if (at[-1] == ' ' && digits > 0 && at[digits] == '.' && length > digits + 1 &&
            (isspace((unsigned char)at[length]) || at[length] == '\0')) {
            snprintf(version_out, size, "%.*s", (int)length, at);
            return;
        }
        at++;
    }
}

static void driver_gather_files(const char *root, struct lull_doctor_facts *facts)
{
    char *const version = node_read(root, "/proc/driver/nvidia/version");
    char *const params = node_read(root, "/proc/driver/nvidia/params");
    const char *const restricted = text_find(params, "RmProfilingAdminOnly:");
    char device[PATH_MAX];

    facts->node.has_module = version != NULL;
    module_find_version(version, facts->driver.module_version,
                        sizeof(facts->driver.module_version));
    facts->node.is_profiling_restricted = restricted != NULL && strtol(restricted, NULL, 10) == 1;
    facts->node.has_device = node_has(root, "/dev/nvidiactl");
    facts->node.may_open_device =
        node_path(root, "/dev/nvidiactl", device) && access(device, R_OK | W_OK) == 0;
    free(version);
    free(params);
}

/* ---- processes --------------------------------------------------------------------------- */

static void processes_take(struct lull_doctor_node *node, const char *comm, int32_t pid)
{
    if (strncmp(comm, "nvidia-persiste", 15) == 0)
        node->has_persistence = true;
    for (size_t i = 0; i < sizeof(known_managers) / sizeof(known_managers[0]); i++) {
        const struct manager *const manager = &known_managers[i];

        if (strcmp(comm, manager->comm) != 0 || node->manager_count == LULL_DOCTOR_MAX_MANAGERS)
            continue;
        node->managers[node->manager_count] =
            (struct lull_doctor_manager){.pid = pid, .unit = manager->unit};
        snprintf(node->managers[node->manager_count].name, LULL_DOCTOR_NAME_BYTES, "%s", comm);
        node->manager_count++;
    }
}

static void processes_gather(const char *root, struct lull_doctor_node *node)
{
    char path[PATH_MAX];
    const struct dirent *entry;
    DIR *const processes = node_path(root, "/proc", path) ? opendir(path) : NULL;

    while (processes != NULL && (entry = readdir(processes)) != NULL) {
        const int32_t pid = (int32_t)strtol(entry->d_name, NULL, 10);
        char *comm;

        if (pid <= 0)
            continue;
        snprintf(path, sizeof(path), "/proc/%d/comm", pid);
        comm = node_read(root, path);
        if (comm == NULL)
            continue;
        comm[strcspn(comm, "\n")] = '\0';
        processes_take(node, comm, pid);
        free(comm);
    }
    if (processes != NULL)
        closedir(processes);
}

/* ---- this process ------------------------------------------------------------------------ */

static void self_gather(const char *root, struct lull_doctor_node *node)
{
    char *const status = node_read(root, "/proc/self/status");
    const char *const effective = text_find(status, "CapEff:");
    const char *const users = text_find(status, "Uid:");
    char *const cgroup = node_read(root, "/proc/self/cgroup");
    char path[PATH_MAX];
    char space[64] = "";
    unsigned long effective_user = 1;

    if (effective != NULL)
        node->has_admin = (strtoull(effective, NULL, 16) >> CAP_SYS_ADMIN_BIT & 1) != 0;
    if (users != NULL) { /* real, effective, saved, of files */
        char *end;

        strtoul(users, &end, 10);
        effective_user = strtoul(end, NULL, 10);
    }
    node->is_root = users != NULL && effective_user == 0;
    node->is_container = cgroup != NULL && lull_pod_find(cgroup, &node->pod);
    node->is_container = node->is_container || node->pod.container[0] != '\0' ||
                         node_has(root, "/.dockerenv") || node_has(root, "/run/.containerenv");
    if (node_path(root, "/proc/self/ns/pid", path) &&
        readlink(path, space, sizeof(space) - 1) > 0 && strncmp(space, "pid:[", 5) == 0)
        node->pid_space = strtoull(space + 5, NULL, 10);
    free(status);
    free(cgroup);
}

static void kernel_gather(const char *root, struct lull_doctor_node *node)
{
    char *const release = node_read(root, "/proc/sys/kernel/osrelease");
    int fd;

    if (release != NULL) {
        char *end;

        node->is_wsl = strcasestr(release, "microsoft") != NULL;
        node->kernel[0] = (int)strtol(release, &end, 10);
        node->kernel[1] = *end == '.' ? (int)strtol(end + 1, NULL, 10) : 0;
    }
    free(release);
    fd = lull_process_open_fd(getpid());
    if (fd < 0)
        lull_error_set(&node->pidfd, -errno, "%s", strerror(errno));
    else
        close(fd);
}

/* ---- batch systems, services, RAPL ------------------------------------------------------- */

static void slurm_gather(const char *root, struct lull_doctor_node *node)
{
    static const char *const directories[] = {"/etc/slurm", "/etc/slurm-llnl"};

    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
        char path[PATH_MAX];
        char *plugins;

        snprintf(path, sizeof(path), "%s/slurm.conf", directories[i]);
        if (!node_has(root, path) || !node_path(root, directories[i], node->slurm_conf))
            continue;
        snprintf(path, sizeof(path), "%s/plugstack.conf", directories[i]);
        plugins = node_read(root, path);
        node->has_slurm_plugin = plugins != NULL && strstr(plugins, "spank_lull") != NULL;
        free(plugins);
        return;
    }
}

static bool node_has_unit(const char *root)
{
    return node_has(root, "/etc/systemd/system/lulld.service") ||
           node_has(root, "/usr/lib/systemd/system/lulld.service") ||
           node_has(root, "/usr/local/lib/systemd/system/lulld.service") ||
           node_has(root, "/lib/systemd/system/lulld.service");
}

static void rapl_gather(const char *root, struct lull_doctor_node *node)
{
    const char *const chosen = getenv(LULL_POWERCAP_ENV);
    struct lull_rapl *rapl = NULL;

    if (chosen != NULL && chosen[0] != '\0')
        snprintf(node->powercap, sizeof(node->powercap), "%s", chosen);
    else if (!node_path(root, "/sys/class/powercap", node->powercap))
        return;
    if (lull_rapl_open(node->powercap, &rapl, &node->rapl) == 0)
        node->rapl = (struct lull_error){0};
    lull_rapl_close(rapl);
}

void lull_doctor_gather_node(const char *root, struct lull_doctor_facts *facts)
{
    struct lull_doctor_node *const node = &facts->node;

    /* The files of the host's driver say nothing about the GPUs of an emulated node. */
    node->is_hardware = root[0] != '\0' || !lull_file_is_node_emulated();
    self_gather(root, node);
    kernel_gather(root, node);
    if (node->is_hardware) {
        driver_gather_files(root, facts);
        processes_gather(root, node);
    } else {
        node->is_container = false;
        node->is_wsl = false;
    }
    node->is_pid_space_ok =
        !node->is_hardware || node->pid_space == 0 || node->pid_space == LULL_PROCESS_HOST_SPACE;
    slurm_gather(root, node);
    rapl_gather(root, node);
    facts->daemon.has_unit = node_has_unit(root);
}
