"""A resource type as a tree of fields, with Pulumi names as keys."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Rule = dict[str, Any]


@dataclass(slots=True)
class Field:
    """A property, or its elements.

    `kind` is the type in a Pulumi program: `string`, `int`, `float`, `bool`, `asset`, `any`,
    `object` (a block), `list`, `set` (a list whose order means nothing) or `map`. `items` describes
    the elements of a list, set or map; `children` the properties of an object.
    """

    name: str
    path: str
    """Path of the field in the constraint data, such as `node_config.machine_type`."""
    kind: str = "any"
    items: "Field | None" = None
    children: dict[str, "Field"] = field(default_factory=dict[str, "Field"])
    by_source_name: dict[str, "Field"] = field(default_factory=dict[str, "Field"])
    required: bool = False
    optional: bool = False
    computed: bool = False
    force_new: bool = False
    sensitive: bool = False
    default: Any = None
    is_overlay_default: bool = False
    """Whether the default is Pulumi's instead of Terraform's."""
    deprecated: bool = False
    plan_default: Any = None
    min_items: int = 0
    max_items: int | None = None
    conflicts_with: tuple[str, ...] = ()
    exactly_one_of: tuple[str, ...] = ()
    at_least_one_of: tuple[str, ...] = ()
    required_with: tuple[str, ...] = ()
    diff_suppress: tuple[str, ...] = ()
    rules: Rule = field(default_factory=dict[str, Any])
    """Constraints on the value itself: enum, min, max, min_len, max_len, regex, validator."""

    @property
    def is_output_only(self) -> bool:
        """Whether it is set only by the provider."""
        return self.computed and not self.required and not self.optional

    @property
    def block(self) -> "Field":
        """The field with the `children` of an element: itself, or its items."""
        return self if self.items is None else self.items

    def walk(self) -> Iterator["Field"]:
        """Yield every field below this one."""
        for child in self.block.children.values():
            yield child
            yield from child.walk()


@dataclass(frozen=True)
class Autoname:
    """The provider's naming of resources without a name."""

    field: str
    max_len: int
    separator: str
    random_len: int = 7
    lowercase: bool = False

    def pattern(self, logical_name: str) -> re.Pattern[str]:
        """Return a pattern of the names that it can generate for the resource `logical_name`."""
        stem = logical_name.lower() if self.lowercase else logical_name
        stem = stem[: self.max_len - self.random_len - len(self.separator)]
        return re.compile(re.escape(stem + self.separator) + f"[0-9a-f]{{{self.random_len}}}")


@dataclass(frozen=True)
class Resource:
    """One resource type."""

    token: str
    """Type token, such as `gcp:container/cluster:Cluster`."""
    source_name: str
    """Its name in the constraint data, without `google_`; empty if only the SDK has it."""
    root: Field
    autoname: Autoname | None = None
    no_update: bool = False
    delete_before_replace: bool = False
    custom_rules: tuple[Rule, ...] = ()
    sdk_only: tuple[str, ...] = ()
    """Properties (camelCase paths) that only the SDK has; see `add_sdk_only`."""

    @property
    def kind(self) -> str:
        """The token without package and class, such as `container/cluster`."""
        return self.token.split(":")[1]

    @property
    def fields(self) -> dict[str, Field]:
        """The top-level properties."""
        return self.root.children
