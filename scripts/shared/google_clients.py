"""Google's APIs with application default credentials; loading the clients takes a second."""

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import requests.exceptions

from scripts.shared.google_cloud import Cloud, CloudError

with warnings.catch_warnings():
    # They warn about future Python versions and about extras that are not needed here.
    warnings.simplefilter("ignore")
    import google.auth
    import google.auth.exceptions
    import google.auth.transport.requests

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


@contextmanager
def plain_errors() -> Generator[None]:
    """Turn errors of Google's clients into one line.

    Raises:
        CloudError: There are no credentials, or Google refuses them or cannot be reached.
    """
    try:
        yield
    except google.auth.exceptions.DefaultCredentialsError:
        message = "no Google credentials: run 'gcloud auth application-default login'"
        raise CloudError(message) from None
    except google.auth.exceptions.GoogleAuthError as error:
        raise CloudError(f"the credentials do not work: {_one_line(error)}") from None
    except requests.exceptions.RequestException as error:
        raise CloudError(f"Google cannot be reached: {_one_line(error)}") from None


def connect(project: str) -> Cloud:
    """Return the REST APIs of a project with the application default credentials.

    Raises:
        CloudError: There are none.
    """
    auth: Any = google.auth
    with plain_errors():
        credentials, _ = auth.default(scopes=[_SCOPE])
    session: Any = google.auth.transport.requests.AuthorizedSession(credentials)
    return Cloud(project, session)


def token_of(cloud: Cloud) -> str:
    """Return an access token of a session, valid for at least some minutes.

    Raises:
        google.auth.exceptions.GoogleAuthError: The credentials cannot be refreshed.
    """
    session: Any = cloud.session
    credentials: Any = session.credentials
    if not credentials.valid:
        credentials.refresh(google.auth.transport.requests.Request())
    return str(credentials.token)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
