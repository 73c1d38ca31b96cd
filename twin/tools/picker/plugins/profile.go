package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/plugins"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/multi/prefix"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/types"
)

// ProfileHandlerType decides for each request whether another replica computes its prompt.
const ProfileHandlerType = "pd-profile-handler"

var _ framework.ProfileHandler = &profileHandler{}

type profileParameters struct {
	// Threshold is in bytes of prompt, not tokens. With 0, every request uses prefill.
	Threshold        int    `json:"threshold"`
	DecodeProfile    string `json:"decodeProfile"`
	PrefillProfile   string `json:"prefillProfile"`
	PrefixPluginName string `json:"prefixPluginName"`
	// HashBlockSize is the block size of the prefix scorer, in bytes.
	HashBlockSize int `json:"hashBlockSize"`
	// PrimaryPort is for data-parallel engines, which this picker does not support.
	PrimaryPort int `json:"primaryPort"`
}

type profileHandler struct {
	name     plugins.TypedName
	prefixes plugins.StateKey
	profileParameters
}

// ProfileHandlerFactory creates the handler of a prefill and a decode profile.
func ProfileHandlerFactory(name string, raw json.RawMessage, _ plugins.Handle) (plugins.Plugin, error) {
	given := profileParameters{
		DecodeProfile:    "decode",
		PrefillProfile:   "prefill",
		PrefixPluginName: prefix.PrefixCachePluginType,
		HashBlockSize:    prefix.DefaultBlockSize,
	}
	if err := decode(ProfileHandlerType, raw, &given); err != nil {
		return nil, err
	}
	switch {
	case given.Threshold < 0:
		return nil, fmt.Errorf("threshold: must be 0 or more, got %d", given.Threshold)
	case given.HashBlockSize <= 0:
		return nil, fmt.Errorf("hashBlockSize: must be 1 or more, got %d", given.HashBlockSize)
	case given.PrimaryPort != 0:
		return nil, fmt.Errorf("primaryPort: data parallelism is not supported, got %d", given.PrimaryPort)
	}
	scorer := plugins.TypedName{Type: prefix.PrefixCachePluginType, Name: given.PrefixPluginName}
	return &profileHandler{
		name:              plugins.TypedName{Type: ProfileHandlerType, Name: name},
		prefixes:          plugins.StateKey(scorer.String()),
		profileParameters: given,
	}, nil
}

// TypedName returns the type and the name of the plugin.
func (h *profileHandler) TypedName() plugins.TypedName { return h.name }

// Pick runs decode first: the cache of its replica determines whether prefill runs.
func (h *profileHandler) Pick(
	ctx context.Context, state *types.CycleState, request *types.LLMRequest,
	profiles map[string]*framework.SchedulerProfile, results map[string]*types.ProfileRunResult,
) map[string]*framework.SchedulerProfile {
	none := map[string]*framework.SchedulerProfile{}
	result, ran := results[h.DecodeProfile]
	if !ran {
		return map[string]*framework.SchedulerProfile{h.DecodeProfile: profiles[h.DecodeProfile]}
	}
	if result == nil || len(results) == len(profiles) {
		return none // decode found no replica, or prefill was already tried
	}
	if h.Threshold > 0 {
		missing, err := h.missingBytes(ctx, state, request, result)
		if err != nil {
			log.FromContext(ctx).Error(err, "prompt cannot be measured, decode only")
			return none
		}
		if missing < h.Threshold {
			decisions.WithLabelValues(decodeOnly).Inc()
			return none
		}
	}
	decisions.WithLabelValues(prefillDecode).Inc()
	return map[string]*framework.SchedulerProfile{h.PrefillProfile: profiles[h.PrefillProfile]}
}

// missingBytes returns how much of the prompt is not in the decode replica's cache.
//
// As in llm-d v0.4.0, one block less than the match counts as cached.
func (h *profileHandler) missingBytes(
	ctx context.Context, state *types.CycleState, request *types.LLMRequest, decode *types.ProfileRunResult,
) (int, error) {
	prompt, err := promptBytes(request)
	if err != nil {
		return 0, err
	}
	cached := 0
	seen, err := types.ReadCycleStateKey[*prefix.SchedulingContextState](state, h.prefixes)
	if err != nil {
		log.FromContext(ctx).Error(err, "no prefix state: the whole prompt counts")
	} else {
		replica := prefix.ServerID(decode.TargetPods[0].GetPod().NamespacedName)
		cached = max(seen.PrefixCacheServers[replica]-1, 0) * h.HashBlockSize
	}
	return len(prompt) - cached, nil
}

func promptBytes(request *types.LLMRequest) ([]byte, error) {
	switch {
	case request == nil || request.Body == nil:
		return nil, errors.New("the request has no body")
	case request.Body.Completions != nil:
		return []byte(request.Body.Completions.Prompt), nil
	case request.Body.ChatCompletions != nil:
		return json.Marshal(request.Body.ChatCompletions.Messages)
	}
	return nil, errors.New("the request has neither prompt nor messages")
}

// ProcessResults sends the request to the decode replica. If prefill found no replica, it is omitted.
func (h *profileHandler) ProcessResults(
	_ context.Context, _ *types.CycleState, _ *types.LLMRequest, results map[string]*types.ProfileRunResult,
) (*types.SchedulingResult, error) {
	if results[h.DecodeProfile] == nil {
		return nil, errors.New("failed to find available decode workers")
	}
	kept := map[string]*types.ProfileRunResult{}
	for name, result := range results {
		if result != nil {
			kept[name] = result
		}
	}
	return &types.SchedulingResult{PrimaryProfileName: h.DecodeProfile, ProfileResults: kept}, nil
}
