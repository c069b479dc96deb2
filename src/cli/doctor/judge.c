/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/judge_parts.h"

void lull_doctor_judge(const struct lull_doctor_facts *facts,
                       struct lull_doctor_findings *findings_out)
{
    findings_out->count = 0;
    lull_doctor_judge_driver(facts, findings_out);
    lull_doctor_judge_gpus(facts, findings_out);
    lull_doctor_judge_daemon(facts, findings_out);
    lull_doctor_judge_probes(facts, findings_out);
    lull_doctor_judge_node(facts, findings_out);
}
