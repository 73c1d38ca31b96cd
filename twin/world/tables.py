"""BigQuery tables that exist without a stack, with their columns (rule cloud.given)."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

ColumnType = Literal["BOOLEAN", "FLOAT", "INTEGER", "JSON", "RECORD", "STRING", "TIMESTAMP"]
_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,299}$"
_TABLE = r"^[a-z][-a-z0-9]{4,28}[a-z0-9]\.[A-Za-z0-9_]{1,1024}\.[-A-Za-z0-9_]{1,1024}$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Column(_Strict):
    """A column of a table, as in a `TableFieldSchema` of BigQuery's API."""

    name: Annotated[str, Field(pattern=_NAME)]
    type: ColumnType
    mode: Literal["NULLABLE", "REPEATED", "REQUIRED"] = "NULLABLE"
    fields: tuple["Column", ...] = ()
    """Columns of a `RECORD`."""

    @model_validator(mode="after")
    def _fields_are_of_records(self) -> "Column":
        if (self.type == "RECORD") != bool(self.fields):
            raise ValueError("set 'fields' if and only if 'type' is RECORD")
        _check_names(self.fields)
        return self


class GivenTable(_Strict):
    """A table that exists without a stack."""

    name: Annotated[str, Field(pattern=_TABLE)]
    """Name, as `PROJECT.DATASET.TABLE`."""
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_are_unique(self) -> "GivenTable":
        _check_names(self.columns)
        return self

    @property
    def path(self) -> str:
        """Path in the API, `projects/P/datasets/D/tables/T`."""
        project, dataset, table = self.name.split(".")
        return f"projects/{project}/datasets/{dataset}/tables/{table}"

    @property
    def dataset(self) -> str:
        """Path of its dataset in the API, `projects/P/datasets/D`."""
        return self.path.partition("/tables/")[0]


def _check_names(columns: tuple[Column, ...]) -> None:
    """Reject two columns with one name: BigQuery ignores case in names of columns."""
    names = [each.name.lower() for each in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"must have each name once, got {twice} more than once")
