import pytest

from gke_inference.base.inputs import camel
from gke_inference.catalogue.labels import labels_of
from gke_inference.catalogue.names import check_name, physical_name


def test_a_name_is_prefix_environment_and_role():
    assert physical_name("bucket", "acme", "prod", "weights") == "acme-prod-weights"


def test_an_empty_prefix_is_an_error():
    with pytest.raises(ValueError, match="prefix must not be empty"):
        physical_name("cluster", "", "prod", "east")


@pytest.mark.parametrize(
    ("kind", "length"),
    [("service_account", 30), ("cluster", 40), ("node_pool", 40), ("bucket", 63), ("compute", 63)],
)
def test_the_length_is_checked_on_the_whole_name_and_never_cut(kind, length):
    longest = "a" * (length - 6) + "-p-end"
    assert check_name(kind, longest) == longest
    with pytest.raises(ValueError, match=f"to {length} characters .* got {length + 1}"):
        physical_name(kind, "a" * (length - 5), "p", "end")


def test_a_service_account_has_at_least_six_characters():
    with pytest.raises(ValueError, match="6 to 30 characters for a service account, got 5"):
        check_name("service_account", "nodes")


def test_a_name_ends_with_a_letter_or_digit():
    with pytest.raises(ValueError, match="starting with a letter, got 'east-'"):
        check_name("cluster", "east-")


def test_labels_say_environment_part_and_manager():
    assert labels_of("cluster", "prod", {"team": "search"}) == {
        "component": "cluster",
        "env": "prod",
        "managed-by": "gke-inference",
        "team": "search",
    }


def test_a_user_cannot_take_the_labels_that_bills_go_by():
    assert labels_of("cluster", extra={"component": "mine"})["component"] == "cluster"


@pytest.mark.parametrize("extra", [{"Team": "x"}, {"team": "X"}, {"1": "x"}, {"t": "x" * 64}])
def test_a_label_google_refuses_is_refused(extra):
    with pytest.raises(ValueError, match="must be lowercase letters"):
        labels_of("cluster", extra=extra)


def test_names_are_spelt_as_other_languages_spell_them():
    assert camel("max_run_hours") == "maxRunHours"
    assert camel("labels") == "labels"
