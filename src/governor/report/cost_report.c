/* Reports what the energy of the whole run costs. SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"

static const char basis[] =
    "the GPUs that the job may use, from the command's start to its end, of the last managed run; "
    "excludes CPUs, the rest of the node, and cooling";

struct cost {
    double kwh;         /* NAN: it is not known */
    const char *reason; /* why; NULL: it is */
};

static struct cost find_cost(const struct lull_report *report)
{
    struct lull_accounting_total total;

    if (report->energy.managed == NULL)
        return (struct cost){NAN, "no GPU was measured"};
    lull_accounting_gpus(report->energy.managed, &total);
    if (!total.is_known)
        return (struct cost){NAN, "the energy of one of the GPUs is not known"};
    return (struct cost){total.sum.joules / LULL_JOULES_PER_KWH, NULL};
}

json_t *lull_cost_report_json(const struct lull_report *report)
{
    const struct cost cost = find_cost(report);
    const struct lull_energy_price *price = &report->price;
    json_t *object = json_object();

    lull_field_number(object, "energy_kwh", cost.kwh);
    lull_field_text(object, "reason", cost.reason);
    lull_field_text(object, "basis", basis);
    lull_field_known(object, "price_per_kwh", price->per_kwh, price->has_money);
    lull_field_text(object, "currency", price->currency[0] != '\0' ? price->currency : NULL);
    lull_field_known(object, "money", cost.kwh * price->per_kwh, price->has_money);
    lull_field_known(object, "co2_g_per_kwh", price->co2_g_per_kwh, price->has_co2);
    lull_field_known(object, "co2_g", cost.kwh * price->co2_g_per_kwh, price->has_co2);
    return object;
}

void lull_cost_report_print(const struct lull_report *report, FILE *out)
{
    const struct cost cost = find_cost(report);
    const struct lull_energy_price *price = &report->price;

    if (cost.reason != NULL) {
        fprintf(out, "  energy and cost not known: %s\n", cost.reason);
        return;
    }
    fprintf(out, "  %.4g kWh", cost.kwh);
    if (price->has_money)
        fprintf(out, ", %.4g%s%s", cost.kwh * price->per_kwh, price->currency[0] != '\0' ? " " : "",
                price->currency);
    if (price->has_co2)
        fprintf(out, ", %.4g g of CO2", cost.kwh * price->co2_g_per_kwh);
    fprintf(out, ": GPUs only, over the whole run");
    if (price->has_money)
        fprintf(out, ", at %g%s%s per kWh", price->per_kwh, price->currency[0] != '\0' ? " " : "",
                price->currency);
    if (price->has_co2)
        fprintf(out, "%s %g g per kWh", price->has_money ? " and" : ", at", price->co2_g_per_kwh);
    fprintf(out, "\n");
}
