"""Rules between the settings of backends that hold for stacks and for the relays."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join

from .kinds import KINDS
from .settings import BackendKind, BackendSettings, KindFields, TargetFields


def check_target(where: str, target: TargetFields) -> Iterator[InputError]:
    """Yield the first field of a target that is invalid for its kind."""
    kind = KINDS[target.kind]
    for field in KindFields.model_fields:
        value = getattr(target, field)
        if field in kind.required and value is None:
            yield InputError(join(where, field), f"is required when kind is {target.kind.value}")
            return
        if value is not None and field not in (*kind.required, *kind.optional):
            rule = f"must not be set when kind is {target.kind.value}"
            yield InputError(join(where, field), rule, value)
            return
    sends_credential = target.kind is not BackendKind.HTTP or target.secret is not None
    if target.url is not None and not target.url.startswith("https://") and sends_credential:
        rule = "must begin with https:// when a credential is sent"
        yield InputError(join(where, "url"), rule, target.url)


def check_backend(where: str, backend: BackendSettings) -> Iterator[InputError]:
    """Yield the problems of a backend of a relay, whose targets have no defaults of a stack."""
    needed = {"project": BackendKind.VERTEX, "service_account": BackendKind.CLOUD_RUN}
    for at, target in enumerate(backend.targets):
        path = join(where, "targets", at)
        yield from check_target(path, target)
        for field, kind in needed.items():
            if target.kind is kind and getattr(target, field) is None:
                yield InputError(join(path, field), f"is required when kind is {kind.value}")
