/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job/batch.h"
#include "cli/command.h"
