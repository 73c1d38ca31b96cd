"""Does what bootstrap asks for: shows the steps, asks, acts, and says what comes next."""

import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import requests.exceptions
import typer
from rich.console import Console
from rich.text import Text

from scripts.bootstrap_cloud import Cloud, CloudError
from scripts.bootstrap_project import Settings, SettingsError, steps
from scripts.bootstrap_steps import Finding, State, Step
from scripts.tables import Listing, prose

with warnings.catch_warnings():
    # They announce, years ahead, the Pythons they will drop, and extras that nothing here needs.
    warnings.simplefilter("ignore")
    import google.api_core.exceptions
    import google.auth
    import google.auth.exceptions
    import google.auth.transport.requests
    import google.cloud.storage  # pyright: ignore[reportMissingTypeStubs]

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_MARKS = {
    State.EXISTS: Text("exists"),
    State.CREATE: Text("create", "green"),
    State.CHANGE: Text("change", "yellow"),
}

Clients = tuple[Cloud, Any]
"""The REST APIs, and a `google.cloud.storage.Client`."""


def run(settings: Settings, *, yes: bool) -> None:
    """Prepare a project with the application default credentials.

    Raises:
        CloudError: Google refused, cannot be reached, or there are no credentials; one line.
    """
    with plain_errors():
        prepare(settings, connect(settings.project), Console(), yes=yes)


@contextmanager
def plain_errors() -> Generator[None]:
    """Turn what Google's clients raise into one line.

    Raises:
        CloudError: Google refused, cannot be reached, or there are no credentials.
    """
    try:
        yield
    except google.auth.exceptions.DefaultCredentialsError:
        message = "no Google credentials: run 'gcloud auth application-default login'"
        raise CloudError(message) from None
    except google.auth.exceptions.GoogleAuthError as error:
        raise CloudError(f"the credentials do not work: {_one_line(error)}") from None
    except google.api_core.exceptions.Forbidden as error:
        raise CloudError(_forbidden(_one_line(error))) from None
    except google.api_core.exceptions.GoogleAPICallError as error:
        raise CloudError(f"storage.googleapis.com answered: {_one_line(error)}") from None
    except requests.exceptions.RequestException as error:
        raise CloudError(f"Google cannot be reached: {_one_line(error)}") from None


def connect(project: str) -> Clients:
    """Return clients with the application default credentials.

    Raises:
        google.auth.exceptions.DefaultCredentialsError: There are none.
    """
    auth: Any = google.auth
    credentials, _ = auth.default(scopes=[_SCOPE])
    session: Any = google.auth.transport.requests.AuthorizedSession(credentials)
    storage: Any = google.cloud.storage
    return Cloud(project, session), storage.Client(project=project, credentials=credentials)


def cloud(project: str) -> Cloud:
    """Return the REST APIs with the application default credentials.

    Raises:
        CloudError: There are none.
    """
    with plain_errors():
        return connect(project)[0]


def prepare(
    settings: Settings,
    clients: Clients,
    console: Console,
    *,
    yes: bool,
    ask: Callable[[str], bool] = typer.confirm,
) -> None:
    """Show what is to do, ask, do it, and print the commands that come next.

    Raises:
        CloudError: Google refused; what is done stays done, and a second run goes on from there.
    """
    cloud, storage = clients
    _check_project(settings, cloud)
    plan = [(step, step.look()) for step in steps(settings, cloud, storage)]
    console.print(_table(settings, plan), soft_wrap=True)
    due = [step for step, finding in plan if finding.state is not State.EXISTS]
    if not due:
        console.print("Nothing to do.")
    elif yes or ask(f"Do these {len(due)} steps in project {settings.project}?"):
        for number, step in enumerate(due, 1):
            step.act()
            console.print(f"{number}/{len(due)} {step.subject}: done")
    else:
        console.print("Nothing was changed.")
        return
    console.print(next_commands(settings), highlight=False, soft_wrap=True)


def next_commands(settings: Settings) -> str:
    """Return the commands to run next, and what CI needs to know."""
    lines = [
        "",
        "Next:",
        f"  pulumi login gs://{settings.bucket}",
        f"  pulumi stack init {settings.stack} --secrets-provider gcpkms://{settings.key}",
        f"  pulumi preview -s {settings.stack}",
    ]
    if settings.ci is not None:
        lines += [
            "",
            "For CI:",
            f"  workload_identity_provider: {settings.provider}",
            f"  service_account (deploy):   {settings.account('deploy')}",
            f"  service_account (preview):  {settings.account('preview')}",
        ]
    return "\n".join(lines)


def _check_project(settings: Settings, cloud: Cloud) -> None:
    """The stack's number must be the project's: identities are built from it."""
    url = f"serviceusage.googleapis.com/v1/projects/{settings.project}/services/iam.googleapis.com"
    number = str(cloud.get(url).get("name", "")).split("/")[1:2]
    if number and number[0] != str(settings.project_number):
        raise SettingsError(
            f"project_number must be {number[0]}, the number of {settings.project},"
            f" got {settings.project_number}"
        )


def _table(settings: Settings, plan: list[tuple[Step, Finding]]) -> Listing:
    table = Listing(prose("WHAT"), "STATE", prose("DETAIL"), title=f"Project {settings.project}")
    for step, finding in plan:
        table.add_row(step.subject, _MARKS[finding.state], finding.detail)
    return table


def _forbidden(message: str) -> str:
    if "billing" in message.lower():
        return f"billing is off: link a billing account to the project ({message})"
    return f"no permission at storage.googleapis.com: {message}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
