"""Errors in user-edited files of the twin are one line per field."""

import pytest

from twin.world.capacity import World, initial


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("default: lots", ["default: must be 'plenty' or 'none', got 'lots'"]),
        ("- a", ["must be a mapping of fields, got a list"]),
        ("a word", ["must be a mapping of fields, got 'a word'"]),
        ("stock: 3", ["stock: must be a list, got 3"]),
        ("stok: []", ["stok: is no field here"]),
        (
            "stock: [{zone: z, accelerator: a, chips: many}, {zone: 3, chips: 1}, 7]",
            [
                "stock[0].chips: must be a whole number or 'unlimited', got 'many'",
                "stock[1].zone: must be text, got 3",
                "stock[1].accelerator: is required",
                "stock[2]: must be a mapping of fields, got 7",
            ],
        ),
        (
            "stock: [{zone: z, accelerator: a, chips: 1, provisioning: reservation}]",
            ["stock[0]: set 'reservation' (a name or *) if and only if 'provisioning' is res"],
        ),
    ],
)
def test_a_wrong_world_is_a_line_for_each_field(tmp_path, text, lines) -> None:
    file = tmp_path / "capacity.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match="capacity") as error:
        World.load(file)
    said = str(error.value).splitlines()
    assert len(said) == len(lines)
    for line, expected in zip(said, lines, strict=True):
        assert line.startswith(f"capacity.yaml: {expected}")


def test_a_world_that_is_no_yaml_is_one_line(tmp_path) -> None:
    file = tmp_path / "capacity.yaml"
    file.write_text("stock: [")
    with pytest.raises(ValueError, match=r"^capacity\.yaml is not YAML: ") as error:
        World.load(file)
    assert "\n" not in str(error.value)


def test_an_empty_file_is_plenty_without_reservations_and_a_missing_one_the_initial_world(
    tmp_path,
) -> None:
    (tmp_path / "capacity.yaml").write_text("")
    assert World.load(tmp_path / "capacity.yaml") == World()
    assert World.load(tmp_path / "none") == initial()
