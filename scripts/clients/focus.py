"""Team bills in the columns of FOCUS, the FinOps Open Cost and Usage Specification, version 1.2.

Rules: github.com/FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec, tag v1.2, folder `specification`.
Columns that depend on what a provider supports, such as price lists and commitment discounts, are
left out.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from infra.estimate.cost_parts import ACCELERATORS, CLUSTER, NETWORK, OBSERVABILITY, STORAGE
from infra.estimate.team_bills import KEPT, UNASSIGNED, UNUSED, Basis, Charge, Payer, TeamBill
from infra.plan import Plan
from scripts.clients.bill import Period

PROVIDER: Final = "gke-inference"
_SERVING: Final = ("Model serving", "AI and Machine Learning", "Generative AI")
_SERVICES: Final = {
    ACCELERATORS: _SERVING,
    UNUSED: _SERVING,
    KEPT: _SERVING,
    UNASSIGNED: _SERVING,
    CLUSTER: ("Cluster", "Compute", "Containers"),
    NETWORK: ("Network", "Networking", "Network Infrastructure"),
    STORAGE: ("Storage", "Storage", "Storage Platforms"),
    OBSERVABILITY: ("Observability", "Management and Governance", "Observability"),
}
"""Service of each component, with its category and subcategory in FOCUS."""
_WORDS: Final = {
    ACCELERATORS: "Accelerators",
    UNUSED: "Unused share of the accelerators",
    KEPT: "Standby replicas and empty nodes",
    UNASSIGNED: "Reserved machines that no model uses",
    CLUSTER: "Cluster",
    NETWORK: "Network",
    STORAGE: "Storage",
    OBSERVABILITY: "Observability",
}


def focus_rows(
    bill: TeamBill, listed: TeamBill, plan: Plan, period: Period, basis: Basis
) -> Iterator[dict[str, str]]:
    """Yield a row for each charge. A null value is an empty string.

    Args:
        bill: The bill.
        listed: The same charges at list prices.
        plan: The stack of the bill.
        period: Its period.
        basis: What divides the accelerators.
    """
    names = plan.names
    account = f"{names.prefix}-{names.environment}"
    billing = period.billing
    for each, at_list in zip(bill.charges, listed.charges, strict=True):
        service, category, subcategory = _SERVICES[each.component]
        is_team, has_tokens = each.payer is Payer.TEAM, bool(each.tokens.requests)
        tokens = each.tokens.prompt + each.tokens.completion
        resource = f"{plan.project.id}/{account}/{each.region}/{each.model}" if each.model else ""
        paid = _decimal(each.usd)
        yield {
            "BilledCost": paid,
            "BillingAccountId": plan.project.id,
            "BillingAccountName": account,
            "BillingAccountType": "Project",
            "BillingCurrency": "USD",
            "BillingPeriodEnd": _stamp(billing.end),
            "BillingPeriodStart": _stamp(billing.begin),
            "ChargeCategory": "Usage",
            "ChargeClass": "",
            "ChargeDescription": _description(each),
            "ChargeFrequency": "Usage-Based" if has_tokens else "Recurring",
            "ChargePeriodEnd": _stamp(period.end),
            "ChargePeriodStart": _stamp(period.begin),
            "ConsumedQuantity": _decimal(tokens if has_tokens else period.hours),
            "ConsumedUnit": "Tokens" if has_tokens else "Hours",
            "ContractedCost": paid,
            "EffectiveCost": paid,
            "InvoiceIssuerName": PROVIDER,
            "ListCost": _decimal(at_list.usd),
            "PricingQuantity": _decimal(period.hours),
            "PricingUnit": "Hours",
            "ProviderName": PROVIDER,
            "PublisherName": PROVIDER,
            "RegionId": each.region,
            "RegionName": each.region,
            "ResourceId": resource,
            "ResourceName": each.model,
            "ResourceType": "Model" if each.model else "",
            "ServiceCategory": category,
            "ServiceName": service,
            "ServiceSubcategory": subcategory,
            "SubAccountId": each.team if is_team else "",
            "SubAccountName": each.team if is_team else "",
            "SubAccountType": "Team" if is_team else "",
            "Tags": json.dumps(_tags(each, account), sort_keys=True),
            "x_Basis": str(basis),
            "x_Component": each.component,
            "x_Payer": str(each.payer),
        }


def _tags(charge: Charge, stack: str) -> dict[str, str]:
    found = {"stack": stack, "team": charge.team, "model": charge.model}
    return {key: value for key, value in found.items() if value}


def _description(charge: Charge) -> str:
    of = f" of {charge.model}" if charge.model else ""
    place = f" in {charge.region}" if charge.region else ""
    return f"{_WORDS[charge.component]}{of}{place}"


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _decimal(value: float) -> str:
    """Return a number without exponent."""
    return f"{value:.10f}".rstrip("0").rstrip(".") or "0"
