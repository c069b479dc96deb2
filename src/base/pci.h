/*
 * PCI addresses of GPUs. Drivers write the same address in different ways (CUDA 0000:07:00.0, NVML
 * 00000000:07:00.0, sysfs in lower case), so Lull compares them as numbers. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_PCI_H
#define LULL_BASE_PCI_H

#include <stdbool.h>
#include <stdint.h>

/* Reads DOMAIN:BUS:DEVICE.FUNCTION, in hexadecimal; *address_out is below 2^56. Returns false if
 * text is not such an address; *address_out is then unchanged. */
bool lull_pci_parse(const char *text, uint64_t *address_out);

#endif
