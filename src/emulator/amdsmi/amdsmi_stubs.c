/*
 * Functions that clients look up but the emulated GPUs do not support. A function of a processor
 * checks the handle, and one that sets something checks the permission. The other arguments are not
 * touched, so one shape fits all. SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/amdsmi/amdsmi_library.h"

#define GET(name)                                                                                  \
    AMDSMI_EXPORT(name, void *handle)                                                              \
    {                                                                                              \
        AMDSMI_ENTER(amdsmi_enter(handle, handle, &gpu));                                          \
        return AMDSMI_UNSUPPORTED;                                                                 \
    }

#define SET(name)                                                                                  \
    AMDSMI_EXPORT(name, void *handle)                                                              \
    {                                                                                              \
        AMDSMI_ENTER(amdsmi_enter_root(handle, &gpu));                                             \
        return AMDSMI_UNSUPPORTED;                                                                 \
    }

/* Functions of the library, and of processors and network cards, which the node does not show. */
#define PLAIN(name)                                                                                \
    AMDSMI_EXPORT(name, void)                                                                      \
    {                                                                                              \
        LULL_DRIVER_CHECK(amdsmi_enter_library());                                                 \
        return AMDSMI_UNSUPPORTED;                                                                 \
    }

/* No list of names and values is ever allocated. */
__attribute__((visibility("default"))) void amdsmi_free_name_value_pairs(void *pairs);

void amdsmi_free_name_value_pairs(void *pairs)
{
    (void)pairs;
}

GET(amdsmi_get_fw_info)
GET(amdsmi_get_gpu_accelerator_partition_profile_config)
GET(amdsmi_get_gpu_available_counters)
GET(amdsmi_get_gpu_bad_page_info)
GET(amdsmi_get_gpu_bad_page_threshold)
GET(amdsmi_get_gpu_cache_info)
GET(amdsmi_get_gpu_cper_entries)
GET(amdsmi_get_gpu_ecc_enabled)
GET(amdsmi_get_gpu_ecc_status)
GET(amdsmi_get_gpu_fan_rpms)
GET(amdsmi_get_gpu_fan_speed)
GET(amdsmi_get_gpu_fan_speed_max)
GET(amdsmi_get_gpu_mem_overdrive_level)
GET(amdsmi_get_gpu_memory_reserved_pages)
GET(amdsmi_get_gpu_od_volt_curve_regions)
GET(amdsmi_get_gpu_overdrive_level)
GET(amdsmi_get_gpu_pci_bandwidth)
GET(amdsmi_get_gpu_pci_replay_counter)
GET(amdsmi_get_gpu_pci_throughput)
GET(amdsmi_get_gpu_pm_metrics_info)
GET(amdsmi_get_gpu_process_isolation)
GET(amdsmi_get_gpu_ras_block_features_enabled)
GET(amdsmi_get_gpu_ras_feature_info)
GET(amdsmi_get_gpu_reg_table_info)
GET(amdsmi_get_gpu_volt_metric)
GET(amdsmi_get_gpu_xgmi_link_status)
GET(amdsmi_get_link_metrics)
GET(amdsmi_get_minmax_bandwidth_between_processors)
GET(amdsmi_get_soc_pstate)
GET(amdsmi_get_utilization_count)
GET(amdsmi_get_violation_status)
GET(amdsmi_get_xgmi_plpd)
GET(amdsmi_gpu_counter_group_supported)
GET(amdsmi_gpu_create_counter)
GET(amdsmi_gpu_validate_ras_eeprom)
GET(amdsmi_gpu_xgmi_error_status)
GET(amdsmi_init_gpu_event_notification)
GET(amdsmi_stop_gpu_event_notification)

SET(amdsmi_clean_gpu_local_data)
SET(amdsmi_reset_gpu)
SET(amdsmi_reset_gpu_fan)
SET(amdsmi_reset_gpu_xgmi_error)
SET(amdsmi_set_clk_freq)
SET(amdsmi_set_gpu_event_notification_mask)
SET(amdsmi_set_gpu_fan_speed)
SET(amdsmi_set_gpu_od_clk_info)
SET(amdsmi_set_gpu_od_volt_info)
SET(amdsmi_set_gpu_overdrive_level)
SET(amdsmi_set_gpu_pci_bandwidth)
SET(amdsmi_set_gpu_process_isolation)
SET(amdsmi_set_soc_pstate)
SET(amdsmi_set_xgmi_plpd)

PLAIN(amdsmi_cpu_apb_disable)
PLAIN(amdsmi_cpu_apb_enable)
PLAIN(amdsmi_first_online_core_on_cpu_socket)
PLAIN(amdsmi_get_afids_from_cper)
PLAIN(amdsmi_get_cpu_affinity_with_scope)
PLAIN(amdsmi_get_cpu_cclk_limit)
PLAIN(amdsmi_get_cpu_core_boostlimit)
PLAIN(amdsmi_get_cpu_core_current_freq_limit)
PLAIN(amdsmi_get_cpu_core_energy)
PLAIN(amdsmi_get_cpu_cores_per_socket)
PLAIN(amdsmi_get_cpu_current_io_bandwidth)
PLAIN(amdsmi_get_cpu_current_xgmi_bw)
PLAIN(amdsmi_get_cpu_ddr_bw)
PLAIN(amdsmi_get_cpu_dimm_power_consumption)
PLAIN(amdsmi_get_cpu_dimm_temp_range_and_refresh_rate)
PLAIN(amdsmi_get_cpu_dimm_thermal_sensor)
PLAIN(amdsmi_get_cpu_family)
PLAIN(amdsmi_get_cpu_fclk_mclk)
PLAIN(amdsmi_get_cpu_handles)
PLAIN(amdsmi_get_cpu_hsmp_driver_version)
PLAIN(amdsmi_get_cpu_hsmp_proto_ver)
PLAIN(amdsmi_get_cpu_model)
PLAIN(amdsmi_get_cpu_model_name)
PLAIN(amdsmi_get_cpu_prochot_status)
PLAIN(amdsmi_get_cpu_pwr_svi_telemetry_all_rails)
PLAIN(amdsmi_get_cpu_smu_fw_version)
PLAIN(amdsmi_get_cpu_socket_c0_residency)
PLAIN(amdsmi_get_cpu_socket_count)
PLAIN(amdsmi_get_cpu_socket_current_active_freq_limit)
PLAIN(amdsmi_get_cpu_socket_energy)
PLAIN(amdsmi_get_cpu_socket_freq_range)
PLAIN(amdsmi_get_cpu_socket_lclk_dpm_level)
PLAIN(amdsmi_get_cpu_socket_power)
PLAIN(amdsmi_get_cpu_socket_power_cap)
PLAIN(amdsmi_get_cpu_socket_power_cap_max)
PLAIN(amdsmi_get_cpu_socket_temperature)
PLAIN(amdsmi_get_cpucore_handles)
PLAIN(amdsmi_get_esmi_err_msg)
PLAIN(amdsmi_get_gpu_compute_process_gpus)
PLAIN(amdsmi_get_gpu_compute_process_info)
PLAIN(amdsmi_get_gpu_compute_process_info_by_pid)
PLAIN(amdsmi_get_gpu_event_notification)
PLAIN(amdsmi_get_hsmp_metrics_table)
PLAIN(amdsmi_get_hsmp_metrics_table_version)
PLAIN(amdsmi_get_threads_per_core)
PLAIN(amdsmi_gpu_control_counter)
PLAIN(amdsmi_gpu_destroy_counter)
PLAIN(amdsmi_gpu_read_counter)
PLAIN(amdsmi_set_cpu_core_boostlimit)
PLAIN(amdsmi_set_cpu_df_pstate_range)
PLAIN(amdsmi_set_cpu_gmi3_link_width_range)
PLAIN(amdsmi_set_cpu_pcie_link_rate)
PLAIN(amdsmi_set_cpu_pwr_efficiency_mode)
PLAIN(amdsmi_set_cpu_socket_boostlimit)
PLAIN(amdsmi_set_cpu_socket_lclk_dpm_level)
PLAIN(amdsmi_set_cpu_socket_power_cap)
PLAIN(amdsmi_set_cpu_xgmi_width)

#if LULL_AMDSMI_MAJOR < 27 /* version 27 removed it */
PLAIN(amdsmi_gpu_driver_reload)
#else /* added after 26.0 */
PLAIN(amdsmi_alloc_fabric_telemetry)
PLAIN(amdsmi_fabric_telem_id_to_string)
PLAIN(amdsmi_free_fabric_telemetry)
PLAIN(amdsmi_get_cpu_core_ccd_power)
PLAIN(amdsmi_get_cpu_pwr_efficiency_mode)
PLAIN(amdsmi_get_fabric_telemetry_data)
GET(amdsmi_get_gpu_accelerator_partition_mem_alloc_mode)
GET(amdsmi_get_gpu_compute_partition_mem_alloc_mode)
GET(amdsmi_get_gpu_device_cuid)
GET(amdsmi_get_gpu_fabric_info)
GET(amdsmi_get_gpu_partition_metrics_info)
PLAIN(amdsmi_get_gpu_process_list_by_pid)
GET(amdsmi_get_gpu_ptl_formats)
GET(amdsmi_get_gpu_ptl_state)
GET(amdsmi_get_gpu_uma_carveout_info)
GET(amdsmi_get_link_topology)
PLAIN(amdsmi_get_nic_asic_info)
PLAIN(amdsmi_get_nic_bus_info)
PLAIN(amdsmi_get_nic_device_bdf)
PLAIN(amdsmi_get_nic_driver_info)
PLAIN(amdsmi_get_nic_fw_info)
PLAIN(amdsmi_get_nic_numa_info)
PLAIN(amdsmi_get_nic_port_info)
PLAIN(amdsmi_get_nic_port_statistics)
PLAIN(amdsmi_get_nic_processor_handles)
PLAIN(amdsmi_get_nic_rdma_dev_info)
PLAIN(amdsmi_get_nic_rdma_port_statistics)
PLAIN(amdsmi_get_nic_vendor_statistics)
PLAIN(amdsmi_get_node_handle)
PLAIN(amdsmi_get_npm_info)
GET(amdsmi_get_supported_power_cap)
PLAIN(amdsmi_get_ttm_info)
GET(amdsmi_get_vcn_busy_percent)
PLAIN(amdsmi_reset_ttm_pages_limit)
SET(amdsmi_set_gpu_accelerator_partition_mem_alloc_mode)
SET(amdsmi_set_gpu_compute_partition_mem_alloc_mode)
SET(amdsmi_set_gpu_ptl_formats)
SET(amdsmi_set_gpu_ptl_state)
SET(amdsmi_set_gpu_uma_carveout)
PLAIN(amdsmi_set_ttm_pages_limit)
#endif
