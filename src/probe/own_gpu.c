/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/own_gpu.h"

#include <dlfcn.h>
#include <stddef.h>

#include "base/pci.h"
#include "probe/client.h"
#include "probe/loaded_symbol.h"

enum { SUCCESS = 0, ADDRESS_BYTES = 32 };

typedef int address_function(char *address, int size, int device);
typedef int current_function(int *device);

/* Finds a function of the driver that the process has loaded: CUDA's, which may be loaded locally,
 * or else that of HIP. */
static void *own_gpu_find(const char *cuda_name, const char *hip_name)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *function = NULL;

    if (library != NULL) {
        function = dlsym(library, cuda_name);
        dlclose(library); /* the process' own reference keeps it loaded */
    } else if (hip_name != NULL) {
        function = lull_loaded_symbol(hip_name);
    }
    return function;
}

static void own_gpu_report(int device, bool is_communicating)
{
    address_function *address_of;
    char address[ADDRESS_BYTES] = "";
    struct lull_process_gpu gpu = {.is_communicating = is_communicating};

    *(void **)&address_of = own_gpu_find("cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId");
    if (address_of == NULL || !lull_client_is_on() ||
        address_of(address, sizeof(address), device) != SUCCESS)
        return;
    address[sizeof(address) - 1] = '\0';
    if (lull_pci_parse(address, &gpu.pci))
        lull_event_segment_report_gpu(lull_client.job, lull_client.slot, &gpu);
}

void lull_own_gpu_report(int device)
{
    own_gpu_report(device, true);
}

void lull_own_gpu_report_current(void)
{
    current_function *current;
    int device = 0;

    *(void **)&current = own_gpu_find("cuCtxGetDevice", "hipGetDevice");
    if (current != NULL && current(&device) == SUCCESS)
        own_gpu_report(device, true);
}

int lull_own_gpu_report_contexts(void)
{
    int (*count_devices)(int *count);
    int (*get)(int *device, int ordinal);
    int (*state_of)(int device, unsigned *flags, int *is_active);
    int devices = 0;
    int found = 0;

    *(void **)&count_devices = own_gpu_find("cuDeviceGetCount", NULL);
    *(void **)&get = own_gpu_find("cuDeviceGet", NULL);
    *(void **)&state_of = own_gpu_find("cuDevicePrimaryCtxGetState", NULL);
    if (count_devices == NULL || get == NULL || state_of == NULL ||
        count_devices(&devices) != SUCCESS)
        return 0;
    for (int i = 0; i < devices; i++) {
        unsigned flags;
        int is_active = 0;
        int device;

        if (get(&device, i) != SUCCESS || state_of(device, &flags, &is_active) != SUCCESS ||
            !is_active)
            continue;
        own_gpu_report(device, false);
        found++;
    }
    return found;
}
