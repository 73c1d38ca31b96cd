"""Constraint data from the source of Google's provider, on a small provider of the same form."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.develop.provider_data.__main__ import DATA, READ_BY_HAND, made, text
from scripts.develop.provider_data.fields import fields
from scripts.develop.provider_data.golang import GoError
from scripts.develop.provider_data.provider import Provider

TOPIC = "gcp:pubsub/topic:Topic"
SOURCE = """
package pubsub

import "fmt"

var (
	topicPolicies = []string{"A", "B"} // a group of declarations
	shared *schema.Schema = &schema.Schema{
		Type:         schema.TypeString,
		Optional:     true,
		ValidateFunc: validation.StringInSlice(topicPolicies, true),
	}
)

func init() {
	registry.Schema{
		Name:        "google_pubsub_topic",
		ProductName: "pubsub",
		Type:        registry.SchemaTypeResource,
		Schema:      ResourcePubsubTopic(),
	}.Register()
	registry.Schema{
		Name:        "google_pubsub_topic_iam_member",
		ProductName: "pubsub",
		Type:        registry.SchemaTypeIAMResource,
		Schema:      tpgiamresource.ResourceIamMember(TopicIamSchema, TopicUpdater, TopicIdParse),
	}.Register()
	registry.Schema{
		Name:        "google_pubsub_built",
		ProductName: "pubsub",
		Type:        registry.SchemaTypeResource,
		Schema:      ResourceBuilt(),
	}.Register()
}

func ResourcePubsubTopic() *schema.Resource {
	return &schema.Resource{
		Create: create,
		Update: update,
		Timeouts: &schema.ResourceTimeout{
			Create: schema.DefaultTimeout(20 * time.Minute),
		},
		CustomizeDiff: customdiff.All(
			tpgresource.DefaultProviderProject,
			tpgresource.DefaultProviderDeletionPolicy("DELETE"),
			customdiff.ForceNewIfChange("size", IsShrinkage),
		),
		Schema: map[string]*schema.Schema{
			"name": {
				Type:         schema.TypeString,
				Required:     true,
				ForceNew:     true,
				ValidateFunc: verify.ValidateGCEName,
				Description:  `A name with "quotes" and } brackets.`,
			},
			"kms_key_name": shared,
			"message_storage_policy": {
				Type:     schema.TypeList,
				Optional: true,
				MaxItems: 1,
				Elem: &schema.Resource{
					Schema: map[string]*schema.Schema{
						"allowed_persistence_regions": {
							Type:          schema.TypeSet,
							Required:      true,
							ConflictsWith: []string{"message_storage_policy.0.other"},
							Elem: &schema.Schema{
								Type:         schema.TypeString,
								ValidateFunc: verify.ValidateEnum([]string{"x", "y", ""}),
							},
						},
					},
				},
			},
			"message_retention_duration": {
				Type:             schema.TypeString,
				Optional:         true,
				Computed:         true,
				Default:          "600s",
				DiffSuppressFunc: func(_, old, new string, d *schema.ResourceData) bool {
					return old == "0" + new
				},
				ValidateFunc: validation.All(
					verify.ValidateRegexp(`^a$`), validation.StringLenBetween(1, 9)),
			},
			"deletion_policy": {Type: schema.TypeString, Optional: true, Computed: true},
			"project": {Type: schema.TypeString, Optional: true, Computed: true, ForceNew: true},
			"gone_from_the_sdk": {Type: schema.TypeInt, Computed: true},
		},
	}
}

var TopicIamSchema = map[string]*schema.Schema{
	"topic": {Type: schema.TypeString, Required: true, ForceNew: true},
}

func ResourceBuilt() *schema.Resource {
	s := &schema.Resource{}
	s.Schema["a"] = &schema.Schema{}
	return s
}
"""
IAM = """
package tpgiamresource

var IamMemberBaseSchema = map[string]*schema.Schema{
	"role": {Type: schema.TypeString, Required: true, ForceNew: true},
}
"""


@pytest.fixture
def provider(tmp_path: Path) -> Provider:
    root = tmp_path / "google-beta"
    files = {"services/pubsub/topic.go": SOURCE, "tpgiamresource/iam.go": IAM}
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(content)
    return Provider.of(tmp_path)


def topic(provider: Provider) -> dict[str, Any]:
    return made(provider, "google_pubsub_topic", TOPIC, {})


def test_a_field_has_the_constraints_of_its_schema_and_its_name_in_pulumi(
    provider: Provider,
) -> None:
    found = topic(provider)["fields"]
    assert found["name"] == {
        "type": "string",
        "force_new": True,
        "required": True,
        "validator": ["verify.ValidateGCEName"],
        "regex": ["^(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)$"],
        "pulumi": "name",
        "pulumi_optional": True,
    }
    assert found["kms_key_name"] == {
        "type": "string",
        "optional": True,
        "enum": ["A", "B"],
        "enum_ignore_case": True,
        "pulumi": "kmsKeyName",
    }
    assert found["message_storage_policy"]["flat"] is True
    assert found["message_storage_policy.allowed_persistence_regions"] == {
        "type": "set",
        "required": True,
        "conflicts_with": ["message_storage_policy.other"],
        "elem": "string",
        "each": {"enum": ["x", "y", ""]},
        "pulumi": "messageStoragePolicy.allowedPersistenceRegions",
    }
    assert found["message_retention_duration"] == {
        "type": "string",
        "computed": True,
        "optional": True,
        "default": "600s",
        "diff_suppress": "inline",
        "regex": ["^a$"],
        "min_len": 1,
        "max_len": 9,
        "pulumi": "messageRetentionDuration",
    }


def test_a_type_has_what_its_plan_fills_in_and_what_only_one_side_has(provider: Provider) -> None:
    found = topic(provider)
    assert found["customize_diff"] == [
        "tpgresource.DefaultProviderProject",
        "tpgresource.DefaultProviderDeletionPolicy(DELETE)",
        "customdiff.ForceNewIfChange(size, IsShrinkage)",
    ]
    assert found["timeouts"] == {"create": "20m"}
    assert found["autoname"] == {"field": "name", "max_len": 255, "sep": "-"}
    assert found["not_in_sdk"] == ["gone_from_the_sdk"]
    assert "schemaSettings" in found["sdk_only"]
    assert "no_update" not in found
    assert found["fields"]["project"]["plan_default"] == "<provider project>"
    assert found["fields"]["deletion_policy"]["plan_default"] == "DELETE"
    assert json.loads(text(found)) == found


def test_a_member_of_a_policy_has_the_fields_of_both_schemas(provider: Provider) -> None:
    resource = provider.resource("google_pubsub_topic_iam_member")
    found = dict(fields(resource.source, resource.literal.get("Schema")))
    fixed = {"type": "string", "force_new": True, "required": True}
    assert found == {"role": fixed, "topic": fixed}
    assert resource.header() == {"no_update": True}


@pytest.mark.parametrize("name", ["google_pubsub_built", "google_pubsub_none"])
def test_a_schema_that_statements_build_is_refused(provider: Provider, name: str) -> None:
    with pytest.raises(GoError, match=name):
        provider.resource(name)


def test_every_type_that_is_read_by_hand_has_data() -> None:
    assert [name for name in READ_BY_HAND if not (DATA / f"{name}.json").exists()] == []
