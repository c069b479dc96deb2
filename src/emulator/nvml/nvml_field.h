/*
 * The table of field ids, generated from data/nvml_fields.json, and its readers. A reader sets the
 * value and its type and returns the field's code. Threads: any. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_EMULATOR_NVML_FIELD_H
#define LULL_EMULATOR_NVML_FIELD_H

#include "emulator/nvml/nvml_library.h"

typedef int nvml_field_reader(nvmlDevice_t gpu, struct nvml_field *field, const int *arguments);

struct lull_nvml_field_row {
    uint32_t first; /* ids from the first to the last; those in no row are refused */
    uint32_t last;
    uint32_t branch; /* the first of the driver that has them */
    nvml_field_reader *read;
    int arguments[2];
};

extern const struct lull_nvml_field_row lull_nvml_field_rows[];
extern const uint32_t lull_nvml_field_row_count;

nvml_field_reader nvml_field_ecc_aggregate;
nvml_field_reader nvml_field_ecc_mode;
nvml_field_reader nvml_field_ecc_total;
nvml_field_reader nvml_field_ecc_volatile;
nvml_field_reader nvml_field_energy;
nvml_field_reader nvml_field_inactive_rows;
nvml_field_reader nvml_field_limit;
nvml_field_reader nvml_field_limit_default;
nvml_field_reader nvml_field_limit_range;
nvml_field_reader nvml_field_link_5_errors;
nvml_field_reader nvml_field_link_bytes;
nvml_field_reader nvml_field_link_count;
nvml_field_reader nvml_field_link_errors;
nvml_field_reader nvml_field_link_errors_total;
nvml_field_reader nvml_field_link_kib;
nvml_field_reader nvml_field_link_packets;
nvml_field_reader nvml_field_link_speed;
nvml_field_reader nvml_field_link_state;
nvml_field_reader nvml_field_link_version;
nvml_field_reader nvml_field_margin;
nvml_field_reader nvml_field_memory_margin;
nvml_field_reader nvml_field_memory_switch;
nvml_field_reader nvml_field_memory_temperature;
nvml_field_reader nvml_field_c2c_links;
nvml_field_reader nvml_field_no_low_power;
nvml_field_reader nvml_field_none_on_pcie;
nvml_field_reader nvml_field_partitions;
nvml_field_reader nvml_field_pcie_bytes;
nvml_field_reader nvml_field_pcie_replays;
nvml_field_reader nvml_field_power;
nvml_field_reader nvml_field_reason_ns;
nvml_field_reader nvml_field_recovery;
nvml_field_reader nvml_field_remapped_rows;
nvml_field_reader nvml_field_retired_pages;
nvml_field_reader nvml_field_retired_pending;
nvml_field_reader nvml_field_scoped_link_errors;
nvml_field_reader nvml_field_scoped_link_speed;
nvml_field_reader nvml_field_smoothing;
nvml_field_reader nvml_field_switch_links;
nvml_field_reader nvml_field_temperature;
nvml_field_reader nvml_field_violation;

#endif
