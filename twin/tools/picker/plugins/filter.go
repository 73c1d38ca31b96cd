package plugins

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/plugins"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/types"
)

const (
	// RoleLabel is the pod label with the phase that a replica computes.
	RoleLabel = "llm-d.ai/role"

	// ByLabelType is a filter by any label.
	ByLabelType = "by-label"
	// DecodeFilterType keeps replicas that decode: role decode or both, or no role.
	DecodeFilterType = "decode-filter"
	// PrefillFilterType keeps replicas that only prefill.
	PrefillFilterType = "prefill-filter"
)

var _ framework.Filter = &labelFilter{}

type labelParameters struct {
	Label         string   `json:"label"`
	ValidValues   []string `json:"validValues"`
	AllowsNoLabel bool     `json:"allowsNoLabel"`
}

type labelFilter struct {
	name plugins.TypedName
	labelParameters
}

// ByLabelFactory creates a filter by label. It needs a label, and values or allowsNoLabel.
func ByLabelFactory(name string, raw json.RawMessage, _ plugins.Handle) (plugins.Plugin, error) {
	var given labelParameters
	if err := decode(ByLabelType, raw, &given); err != nil {
		return nil, err
	}
	if given.Label == "" {
		return nil, fmt.Errorf("%s %q: label is required", ByLabelType, name)
	}
	if len(given.ValidValues) == 0 && !given.AllowsNoLabel {
		return nil, fmt.Errorf("%s %q: needs validValues or allowsNoLabel", ByLabelType, name)
	}
	return &labelFilter{plugins.TypedName{Type: ByLabelType, Name: name}, given}, nil
}

// DecodeFilterFactory creates the filter of the decode profile.
func DecodeFilterFactory(name string, _ json.RawMessage, _ plugins.Handle) (plugins.Plugin, error) {
	return &labelFilter{
		plugins.TypedName{Type: DecodeFilterType, Name: name},
		labelParameters{RoleLabel, []string{"decode", "both"}, true},
	}, nil
}

// PrefillFilterFactory creates the filter of the prefill profile.
func PrefillFilterFactory(name string, _ json.RawMessage, _ plugins.Handle) (plugins.Plugin, error) {
	return &labelFilter{
		plugins.TypedName{Type: PrefillFilterType, Name: name},
		labelParameters{RoleLabel, []string{"prefill"}, false},
	}, nil
}

// TypedName returns the type and the name of the plugin.
func (f *labelFilter) TypedName() plugins.TypedName { return f.name }

// Filter returns the pods whose label has one of the values.
func (f *labelFilter) Filter(
	_ context.Context, _ *types.CycleState, _ *types.LLMRequest, pods []types.Pod,
) []types.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod types.Pod) bool {
		value, has := pod.GetPod().Labels[f.Label]
		if !has {
			return !f.AllowsNoLabel
		}
		return !slices.Contains(f.ValidValues, value)
	})
}

// decode reads the parameters of a plugin; `into` has the defaults.
func decode(kind string, raw json.RawMessage, into any) error {
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("parameters of %s: %w", kind, err)
	}
	return nil
}
