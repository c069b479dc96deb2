"""cuda.core.system and cuda.bindings against nvidia-ml-py, on a node of two H100. SPDX-License-Identifier: Apache-2.0"""
import pynvml as n
from cuda.bindings import driver
from cuda.core import system

# What a board without MIG, fans, NUMA memory or automatic boost refuses, and what cuda.core itself cannot read.
REFUSED = {"attributes", "cooler", "is_auto_boosted_clocks_enabled", "num_fans", "numa_node_id"}
OF_CUDA_CORE = {"addressing_mode"}


def check_device(index):
    h = n.nvmlDeviceGetHandleByIndex(index)
    device = system.Device(index=index)
    for name in set(dir(device)) - OF_CUDA_CORE:
        try:
            if not name.startswith("_"):
                getattr(device, name)
        except system.NotSupportedError:
            assert name in REFUSED | {"is_c2c_enabled"}, name
    memory, pci, bar1 = n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2), n.nvmlDeviceGetPciInfo(h), n.nvmlDeviceGetBAR1MemoryInfo(h)
    use = n.nvmlDeviceGetUtilizationRates(h)
    assert (device.name, device.uuid, device.serial) == (n.nvmlDeviceGetName(h), n.nvmlDeviceGetUUID(h), n.nvmlDeviceGetSerial(h))
    assert device.cuda_compute_capability == n.nvmlDeviceGetCudaComputeCapability(h)
    assert device.arch == n.nvmlDeviceGetArchitecture(h) and device.index == index
    assert (device.memory_info.total, device.memory_info.used, device.memory_info.reserved) == (memory.total, memory.used, memory.reserved)
    assert device.bar1_memory_info.total == bar1.bar1Total
    assert device.pci_bus_id == pci.busId and device.pci_info.subsystem_id == pci.pciSubSystemId
    assert device.pci_info.vendor_id | device.pci_info.device_id << 16 == pci.pciDeviceId
    assert device.pci_info.current_link_generation == n.nvmlDeviceGetCurrPcieLinkGeneration(h)
    assert device.temperature.get_sensor() == n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU)
    assert (device.utilization.gpu, device.utilization.memory) == (use.gpu, use.memory)
    assert device.is_persistence_mode_enabled == n.nvmlDeviceGetPersistenceMode(h)
    assert device.performance_state == n.nvmlDeviceGetPerformanceState(h) and not device.mig.mode
    assert device.get_nvlink_count() == 18 and device.minor_number == n.nvmlDeviceGetMinorNumber(h)


def check_driver():
    """The CUDA driver by its lookup of functions."""
    assert driver.cuInit(0) == (0,)
    assert driver.cuDriverGetVersion() == (0, n.nvmlSystemGetCudaDriverVersion())
    assert driver.cuDeviceGetCount() == (0, 2)
    for index in range(2):
        h = n.nvmlDeviceGetHandleByIndex(index)
        (_, name), (_, uuid) = driver.cuDeviceGetName(64, index), driver.cuDeviceGetUuid(index)
        (_, total), (_, bus_id) = driver.cuDeviceTotalMem(index), driver.cuDeviceGetPCIBusId(20, index)
        assert name.rstrip(b"\0 ").decode() == n.nvmlDeviceGetName(h), name
        assert uuid.bytes.hex() == n.nvmlDeviceGetUUID(h).removeprefix("GPU-").replace("-", ""), uuid
        assert n.nvmlDeviceGetPciInfo(h).busId.endswith(bus_id.rstrip(b"\0 ").decode()), bus_id
        assert 0.98 * n.nvmlDeviceGetMemoryInfo(h).total < total < n.nvmlDeviceGetMemoryInfo(h).total, total


n.nvmlInit()
assert system.get_num_devices() == n.nvmlDeviceGetCount() == 2
assert system.get_nvml_version() == tuple(map(int, n.nvmlSystemGetNVMLVersion().split(".")))
assert system.get_user_mode_driver_version() == divmod(n.nvmlSystemGetCudaDriverVersion() // 10, 100)
for gpu in range(2):
    check_device(gpu)
check_driver()
