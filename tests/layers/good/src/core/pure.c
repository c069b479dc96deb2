/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include <math.h>
