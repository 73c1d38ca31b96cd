"""The shortcuts for values have the same results as the SDK's own functions."""

import asyncio
import enum
import importlib
from typing import Any, Optional, Union

import pulumi
import pytest

from twin.pulumi.speedups import sdk_values

rpc: Any = importlib.import_module("pulumi.runtime.rpc")
types: Any = importlib.import_module("pulumi._types")


class _Tier(enum.StrEnum):
    BASIC = "basic"


@pulumi.input_type
class _Disk:
    @property
    @pulumi.getter(name="sizeGb")
    def size_gb(self) -> int:
        return pulumi.get(self, "size_gb")


def _disk() -> Any:
    found: Any = _Disk()
    pulumi.set(found, "size_gb", 3)
    return found


@pytest.fixture
def patched(monkeypatch):
    """The SDK's functions, patched and put back afterwards."""
    of_rpc = ("serialize_property", "contains_unknowns", "deserialize_property")
    for name in (*of_rpc, "transfer_properties", "translate_output_properties"):
        monkeypatch.setattr(rpc, name, getattr(rpc, name))
    for name in ("unwrap_type", "unwrap_optional_type", *sdk_values._BY_CLASS):
        monkeypatch.setattr(types, name, getattr(types, name))
    sdk_values.convert_quickly()


@pytest.mark.parametrize("transformer", [None, str.upper])
@pytest.mark.parametrize("typ", [None, Any])
@pytest.mark.parametrize(
    "value",
    [
        "a", True, 3, 1.5, None, _Tier.BASIC, ["a", {"b": 1}], ("a", None),
        {"a": {"b": [1, {"c_d": None}]}, "e": _Tier.BASIC},
    ],
)  # fmt: skip
def test_an_input_is_sent_as_the_sdk_sends_it(patched, value, typ, transformer):
    given = (value, [], "key", None, transformer, typ)
    assert asyncio.run(rpc.serialize_property(*given)) == asyncio.run(sdk_values._serialize(*given))


def test_outputs_inside_plain_mappings_are_waited_for_and_input_types_have_their_names(patched):
    async def sent() -> Any:
        value = {"disks": [_disk()], "name": pulumi.Output.from_input("a")}
        return await rpc.serialize_property({"spec": value}, [], "key", None, None)

    assert asyncio.run(sent()) == {"spec": {"disks": [{"sizeGb": 3}], "name": "a"}}


def test_what_no_message_can_have_is_refused_inside_a_mapping_too(patched):
    with pytest.raises(ValueError, match="unexpected input of type object for inner"):
        asyncio.run(rpc.serialize_property({"inner": object()}, [], "key", None, None))


@pytest.mark.parametrize(
    ("output", "typ", "found"),
    [
        ("basic", _Tier, _Tier.BASIC),
        ("basic", Optional[_Tier], _Tier.BASIC),  # noqa: UP045 - as the SDKs write it
        (3.0, int, 3),
        ({"a": 3.0}, dict[str, int], {"a": 3}),
        (["x"], list[str], ["x"]),
        ("x", str, "x"),
        (None, str, None),
    ],
)
def test_an_output_has_the_type_of_its_property(patched, output, typ, found):
    translated = rpc.translate_output_properties(output, lambda name: name, typ)
    assert translated == found
    assert type(translated) is type(found)


def test_a_value_that_is_not_known_yet_is_found_at_any_depth(patched):
    unknown = rpc.deserialize_property(rpc.UNKNOWN, keep_unknowns=True)
    assert type(unknown).__name__ == "Unknown"
    assert rpc.contains_unknowns({"a": ["b", unknown]})
    assert not rpc.contains_unknowns({"a": ["b", None]})
    assert rpc.deserialize_property("text") == "text"


def test_a_type_is_unwrapped_by_itself_and_not_by_an_equal_one(patched):
    one, two = Union[str, int, None], Union[int, str, None]  # noqa: UP007 - their order counts
    assert one == two
    assert types.unwrap_type(one) is one
    assert types.unwrap_type(two) is two
    assert types.unwrap_type(Optional[str]) is str  # noqa: UP045 - as above


class _Resource:
    """What properties are transferred to."""


def _resolved(*outcome: Any) -> list[Any]:
    """Return the state of an output after an outcome, here and in the SDK."""

    async def state(transfer: Any) -> Any:
        resource = _Resource()
        resolvers = transfer(resource, {"urn": None, "id": None, "size": 1}, True)
        assert list(resolvers) == ["size"]
        resolvers["size"](*outcome)
        output: Any = vars(resource)["size"]
        (this,) = await output.resources() - {"dependency"}
        assert this is resource
        return await output.future(), await output.is_known(), await output.is_secret()

    transfers = (rpc.transfer_properties, sdk_values._transfer)
    return [asyncio.run(state(each)) for each in transfers]


@pytest.mark.parametrize(
    "outcome",
    [("x", True, True, {"dependency"}, None), (None, False, False, None, None)],
)
def test_the_output_of_a_property_has_the_state_that_the_sdk_gives_it(patched, outcome):
    found, of_the_sdk = _resolved(*outcome)
    assert found == of_the_sdk == outcome[:3]


def test_the_output_of_a_resource_that_failed_raises(patched):
    for transfer in (rpc.transfer_properties, sdk_values._transfer):

        async def failed(transfer: Any = transfer) -> None:
            resource = _Resource()
            transfer(resource, ["size"], True)["size"](None, False, False, None, KeyError("x"))
            await vars(resource)["size"].future()

        with pytest.raises(KeyError):
            asyncio.run(failed())
