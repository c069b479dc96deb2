/*
 * How the energy and power readings of devices come about: what energy accounts need to know.
 * Pure; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_ENERGY_ENERGY_SOURCE_H
#define LULL_GOVERNOR_ENERGY_ENERGY_SOURCE_H

#include <stdint.h>

#include "core/energy/account.h"
#include "device/device.h"

/*
 * Largest error of the gain of a board's own sensor: the same in all readings of one board, linear,
 * different between boards of one model (arXiv 2312.02741). It is told beside figures, not in them.
 */
#define LULL_ENERGY_GAIN_RATIO 0.05

/*
 * Refresh periods and averaging windows by architecture, as measured on more than 70 GPUs (arXiv
 * 2312.02741, SC'24). Counters of all of them are refreshed every 100 ms or sooner. Where a GPU is
 * not known, as the slowest.
 */
struct lull_energy_source lull_energy_source_of_gpu(const struct lull_device_info *info);

/* The sum of this many RAPL zones, which are refreshed every millisecond. */
struct lull_energy_source lull_energy_source_of_node(uint32_t zones);

#endif
