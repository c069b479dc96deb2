/*
 * Functions of Sysman 1.17 that the emulated cards do not support. They check the handle, and those
 * that set something check the permission. The other arguments are not touched, so one shape fits
 * all. SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/levelzero/levelzero_library.h"

/* Lists of parts that the cards do not have. */
#define LIST(name)                                                                                 \
    ZES_EXPORT(name, const void *device, uint32_t *count)                                          \
    {                                                                                              \
        ZES_ENTER(zes_enter(device, ZES_DEVICE, ZES_DEVICE, count, &handle));                      \
        *count = 0;                                                                                \
        return ZE_SUCCESS;                                                                         \
    }

#define GET(name)                                                                                  \
    ZES_EXPORT(name, const void *part)                                                             \
    {                                                                                              \
        ZES_ENTER(zes_enter(part, ZES_DEVICE, ZES_PARTS - 1, part, &handle));                      \
        return ZE_UNSUPPORTED;                                                                     \
    }

#define SET(name)                                                                                  \
    ZES_EXPORT(name, const void *part)                                                             \
    {                                                                                              \
        ZES_ENTER(zes_enter_root(part, ZES_DEVICE, ZES_PARTS - 1, part, &handle));                 \
        return ZE_UNSUPPORTED;                                                                     \
    }

#define DRIVER(name)                                                                               \
    ZES_EXPORT(name, const void *of)                                                               \
    {                                                                                              \
        LULL_DRIVER_CHECK(zes_enter_driver(of));                                                   \
        return ZE_UNSUPPORTED;                                                                     \
    }

LIST(zesDeviceEnumActiveVFExp)
LIST(zesDeviceEnumDiagnosticTestSuites)
LIST(zesDeviceEnumEnabledVFExp)
LIST(zesDeviceEnumFabricPorts)
LIST(zesDeviceEnumFans)
LIST(zesDeviceEnumFirmwares)
LIST(zesDeviceEnumLeds)
LIST(zesDeviceEnumOverclockDomains)
LIST(zesDeviceEnumPerformanceFactorDomains)
LIST(zesDeviceEnumPsus)
LIST(zesDeviceEnumRasErrorSets)
LIST(zesDeviceEnumSchedulers)
LIST(zesDeviceEnumStandbyDomains)

GET(zesDeviceEccAvailable)
GET(zesDeviceEccConfigurable)
GET(zesDeviceGetCardPowerDomain)
GET(zesDeviceGetEccState)
GET(zesDeviceGetOverclockControls)
GET(zesDeviceGetOverclockDomains)
GET(zesDeviceGetState)
GET(zesDeviceGetSubDevicePropertiesExp)
GET(zesDevicePciGetBars)
GET(zesDevicePciGetState)
GET(zesDevicePciGetStats)
GET(zesDeviceReadOverclockState)
GET(zesDiagnosticsGetProperties)
GET(zesDiagnosticsGetTests)
GET(zesEngineGetActivityExt)
GET(zesFabricPortGetConfig)
GET(zesFabricPortGetFabricErrorCounters)
GET(zesFabricPortGetLinkType)
GET(zesFabricPortGetMultiPortThroughput)
GET(zesFabricPortGetProperties)
GET(zesFabricPortGetState)
GET(zesFabricPortGetThroughput)
GET(zesFanGetConfig)
GET(zesFanGetProperties)
GET(zesFanGetState)
GET(zesFirmwareGetConsoleLogs)
GET(zesFirmwareGetFlashProgress)
GET(zesFirmwareGetProperties)
GET(zesFirmwareGetSecurityVersionExp)
GET(zesFrequencyGetThrottleTime)
GET(zesFrequencyOcGetCapabilities)
GET(zesFrequencyOcGetFrequencyTarget)
GET(zesFrequencyOcGetIccMax)
GET(zesFrequencyOcGetMode)
GET(zesFrequencyOcGetTjMax)
GET(zesFrequencyOcGetVoltageTarget)
GET(zesLedGetProperties)
GET(zesLedGetState)
GET(zesMemoryGetBandwidth)
GET(zesOverclockGetControlCurrentValue)
GET(zesOverclockGetControlPendingValue)
GET(zesOverclockGetControlState)
GET(zesOverclockGetDomainControlProperties)
GET(zesOverclockGetDomainProperties)
GET(zesOverclockGetDomainVFProperties)
GET(zesOverclockGetVFPointValues)
GET(zesPerformanceFactorGetConfig)
GET(zesPerformanceFactorGetProperties)
GET(zesPowerGetEnergyThreshold)
GET(zesPowerGetLimits)
GET(zesPowerGetUsage)
GET(zesPsuGetProperties)
GET(zesPsuGetState)
GET(zesRasGetConfig)
GET(zesRasGetConfigExp)
GET(zesRasGetProperties)
GET(zesRasGetState)
GET(zesRasGetStateExp)
GET(zesRasGetSupportedCategoriesExp)
GET(zesSchedulerGetCurrentMode)
GET(zesSchedulerGetProperties)
GET(zesSchedulerGetTimeoutModeProperties)
GET(zesSchedulerGetTimesliceModeProperties)
GET(zesStandbyGetMode)
GET(zesStandbyGetProperties)
GET(zesTemperatureGetConfig)
GET(zesVFManagementGetVFCapabilitiesExp)
GET(zesVFManagementGetVFEngineUtilizationExp)
GET(zesVFManagementGetVFMemoryUtilizationExp)
GET(zesVFManagementGetVFPropertiesExp)

SET(zesDeviceEventRegister)
SET(zesDevicePciLinkSpeedUpdateExt)
SET(zesDeviceReset)
SET(zesDeviceResetExt)
SET(zesDeviceResetOverclockSettings)
SET(zesDeviceSetEccState)
SET(zesDeviceSetOverclockWaiver)
SET(zesDiagnosticsRunTests)
SET(zesFabricPortSetConfig)
SET(zesFanSetDefaultMode)
SET(zesFanSetFixedSpeedMode)
SET(zesFanSetSpeedTableMode)
SET(zesFirmwareFlash)
SET(zesFirmwareSetSecurityVersionExp)
SET(zesFrequencyOcSetFrequencyTarget)
SET(zesFrequencyOcSetIccMax)
SET(zesFrequencyOcSetMode)
SET(zesFrequencyOcSetTjMax)
SET(zesFrequencyOcSetVoltageTarget)
SET(zesLedSetColor)
SET(zesLedSetState)
SET(zesOverclockSetControlUserValue)
SET(zesOverclockSetVFPointValues)
SET(zesPerformanceFactorSetConfig)
SET(zesPowerSetEnergyThreshold)
SET(zesPowerSetLimits)
SET(zesRasClearStateExp)
SET(zesRasSetConfig)
SET(zesRasSetConfigExp)
SET(zesSchedulerSetComputeUnitDebugMode)
SET(zesSchedulerSetExclusiveMode)
SET(zesSchedulerSetTimeoutMode)
SET(zesSchedulerSetTimesliceMode)
SET(zesStandbySetMode)
SET(zesTemperatureSetConfig)
SET(zesVFManagementSetVFTelemetryModeExp)
SET(zesVFManagementSetVFTelemetrySamplingIntervalExp)

DRIVER(zesDriverEventListen)
DRIVER(zesDriverEventListenEx)
DRIVER(zesDriverGetDeviceByUuidExp)
DRIVER(zesDriverGetExtensionFunctionAddress)
DRIVER(zesDriverGetExtensionProperties)
