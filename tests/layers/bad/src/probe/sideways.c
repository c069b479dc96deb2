/* SPDX-License-Identifier: Apache-2.0 */
#include <daemon/decides.h>
#include "wire/event.h"
#include "base/upwards.h"
