/*
 * lull plan: chooses clocks for the operations of a pipeline, so that it takes no longer and needs
 * less energy. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_PLAN_H
#define LULL_CLI_PLAN_PLAN_H

int lull_plan_main(int argc, char **argv);

#endif
