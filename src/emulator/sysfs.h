/*
 * The GPUs of NVIDIA of an emulated node in /sys/bus/pci/devices, where hwloc looks for PCI
 * devices. This process and its children see them, in a mount namespace of their own; devices of
 * this machine stay visible. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_SYSFS_H
#define LULL_EMULATOR_SYSFS_H

#include "base/error.h"
#include "emulator/spec.h"

/* Call it while the process has one thread. Without the capability CAP_SYS_ADMIN the process enters
 * a user namespace as well, in which only its own user and group have a name. Errors: -EPERM the
 * system permits no mounts; -ENOMEM; -errno. */
int lull_sysfs_show(const struct lull_node_spec *spec, struct lull_error *err);

#endif
