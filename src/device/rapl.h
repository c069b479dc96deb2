/*
 * Energy of this node's processors and memory by RAPL, as Linux reports it (powercap in sysfs).
 *
 * A zone intel-rapl:N named package-... is a processor (AMD's too): its energy includes that of its
 * parts, so the zones core and uncore below it are not added. The zone dram below it is memory,
 * which is not in the package's energy. psys (the whole platform, where it exists) includes both
 * and is not added, and neither is intel-rapl-mmio, which reports the same package through another
 * interface.
 *
 * Counters wrap around at max_energy_range_uj, after minutes under load: read more often than that.
 * Since 2020 energy_uj is for root alone on most systems (CVE-2020-8694).
 *
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_RAPL_H
#define LULL_DEVICE_RAPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The variable that replaces /sys/class/powercap. */
#define LULL_POWERCAP_ENV "LULL_POWERCAP"

enum { LULL_RAPL_MAX_ZONES = 64 };

enum lull_rapl_kind { LULL_RAPL_CPU, LULL_RAPL_DRAM, LULL_RAPL_KINDS, LULL_RAPL_NOT_ADDED };

/* The energy since opening. A kind is valid if it has a zone and all of its zones were read. */
struct lull_rapl_reading {
    bool is_valid[LULL_RAPL_KINDS];
    double energy_j[LULL_RAPL_KINDS];
};

struct lull_rapl; /* opaque */

/*
 * Finds the zones below directory (NULL: as LULL_POWERCAP says, else /sys/class/powercap) and reads
 * them for the first time. Errors: LULL_E_UNSUPPORTED there is no such zone; -EACCES they may not
 * be read; -errno; the text says which file.
 */
int lull_rapl_open(const char *directory, struct lull_rapl **rapl_out, struct lull_error *err);
void lull_rapl_close(struct lull_rapl *rapl);

uint32_t lull_rapl_zone_count(const struct lull_rapl *rapl, enum lull_rapl_kind kind);

void lull_rapl_read(struct lull_rapl *rapl, struct lull_rapl_reading *reading_out);

/* ---- parsers, public for tests ---- */

/* Finds the kind of a zone by its directory ("intel-rapl:0:2") and its name ("dram"). */
enum lull_rapl_kind lull_rapl_kind_of(const char *zone, const char *name);

/* Parses a number of microjoules as sysfs writes it, with or without a line feed. -EINVAL: it is no
 * number. */
int lull_rapl_parse_uj(const char *text, size_t size, uint64_t *value_out);

/* Returns the difference of two readings of a counter that wraps around after range_uj; 0: unknown.
 */
uint64_t lull_rapl_grown_uj(uint64_t before_uj, uint64_t now_uj, uint64_t range_uj);

#endif
