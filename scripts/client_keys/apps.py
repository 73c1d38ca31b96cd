"""Keys of apps in Apigee, for a stack on the twin."""

from collections.abc import Iterable
from typing import Final

from infra.plan import Plan
from infra.stack import Apigee, Task
from scripts.terminal.console import CommandError
from twin.host.paths import TwinPaths
from twin.providers.gcp.apigee.organization import apps
from twin.world.store import Store

_RULE: Final = (
    "clients.apigee.apps: must have an app with a product that needs no approval and covers the"
    " tasks of the models: the twin has no other keys to ask them with"
)


def check_apps(plan: Plan, names: Iterable[str]) -> None:
    """Check that the models of a stack can be asked with keys of its own apps.

    Args:
        plan: The stack.
        names: Models and adapters to ask.

    Raises:
        CommandError: A model can only be asked with another key.
    """
    apigee = plan.platform.apigee()
    if apigee is None:
        return
    chosen = _apps_of(plan, apigee, names)
    if missing := [name for name in names if name not in chosen]:
        raise CommandError(f"{_RULE}; none covers {', '.join(missing)}")


def app_keys(plan: Plan, names: Iterable[str], paths: TwinPaths) -> dict[str, str]:
    """Return the key to ask each model or adapter with; nothing without Apigee.

    Args:
        plan: The stack.
        names: Models and adapters to ask.
        paths: Files of the twin.
    """
    apigee = plan.platform.apigee()
    if apigee is None:
        return {}
    keys = {app.name: app.key for app in apps(Store(paths.cloud_db), plan.platform.project)}
    chosen = _apps_of(plan, apigee, names) or _apps_of(plan, apigee, plan.platform.models)
    found = {name: plan.names.apigee_app(app) for name, app in chosen.items()}
    return {name: keys[app] for name, app in found.items() if app in keys}


def _apps_of(plan: Plan, apigee: Apigee, names: Iterable[str]) -> dict[str, str]:
    """Return the first app whose key is for each model or adapter."""
    tasks: dict[str, Task] = {
        each: model.task
        for name, model in plan.platform.models.items()
        for each in (name, *model.other_names(name))
    }
    found: dict[str, str] = {}
    for name in names:
        task = tasks.get(name, Task.GENERATE)  # of a backend
        app = next((app for app in apigee.apps if _covers(apigee, app, task)), None)
        if app is not None:
            found[name] = app
    return found


def _covers(apigee: Apigee, app: str, task: Task) -> bool:
    products = (apigee.products[name] for name in apigee.apps[app].products)
    return any(
        not product.needs_approval and (product.tasks is None or task.value in product.tasks)
        for product in products
    )
