/* SPDX-License-Identifier: Apache-2.0 */
#include "core/impure.h"
#include "../core/impure.h"
