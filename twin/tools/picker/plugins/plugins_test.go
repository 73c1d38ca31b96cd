package plugins

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/backend"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/plugins"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/multi/prefix"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/types"
)

func pod(name, address, role string) types.Pod {
	labels := map[string]string{}
	if role != "" {
		labels[RoleLabel] = role
	}
	return &types.PodMetrics{Pod: &backend.Pod{
		NamespacedName: k8stypes.NamespacedName{Namespace: "serving", Name: name},
		Address:        address, Port: "8000", Labels: labels,
	}}
}

func run(pods ...types.Pod) *types.ProfileRunResult {
	return &types.ProfileRunResult{TargetPods: pods}
}

func completion(prompt string) *types.LLMRequest {
	return &types.LLMRequest{
		Headers: map[string]string{},
		Body:    &types.LLMRequestBody{Completions: &types.CompletionsRequest{Prompt: prompt}},
	}
}

var profiles = map[string]*framework.SchedulerProfile{"prefill": {}, "decode": {}}

// picked runs the handler as the scheduler does after decode has chosen pod d. The first `cached`
// blocks of 4 bytes are in that replica's prefix cache.
func picked(t *testing.T, parameters string, request *types.LLMRequest, cached int) map[string]*framework.SchedulerProfile {
	t.Helper()
	made, err := ProfileHandlerFactory("pd", json.RawMessage(parameters), nil)
	if err != nil {
		t.Fatal(err)
	}
	handler := made.(framework.ProfileHandler)
	state := types.NewCycleState()
	scorer := plugins.TypedName{Type: prefix.PrefixCachePluginType, Name: prefix.PrefixCachePluginType}
	id := prefix.ServerID{Namespace: "serving", Name: "d"}
	state.Write(plugins.StateKey(scorer.String()), &prefix.SchedulingContextState{
		PrefixCacheServers: map[prefix.ServerID]int{id: cached},
	})
	results := map[string]*types.ProfileRunResult{}
	first := handler.Pick(context.Background(), state, request, profiles, results)
	if _, has := first["decode"]; !has || len(first) != 1 {
		t.Fatalf("decode must be chosen first and alone, got %v", first)
	}
	results["decode"] = run(pod("d", "127.0.0.2", "decode"))
	return handler.Pick(context.Background(), state, request, profiles, results)
}

func TestLongPromptIsPrefilledElsewhereAndShortOneIsNot(t *testing.T) {
	decisions.Reset()
	if got := picked(t, `{"threshold": 40, "hashBlockSize": 4}`, completion(strings.Repeat("a", 40)), 0); got["prefill"] == nil {
		t.Error("40 bytes and a threshold of 40: prefill must run")
	}
	if got := picked(t, `{"threshold": 40, "hashBlockSize": 4}`, completion(strings.Repeat("a", 39)), 0); len(got) != 0 {
		t.Error("39 bytes and a threshold of 40: decode only")
	}
	for decision, wanted := range map[string]float64{"prefill-decode": 1, "decode-only": 1} {
		if got := testutil.ToFloat64(decisions.WithLabelValues(decision)); got != wanted {
			t.Errorf("%s counted %v times, wanted %v", decision, got, wanted)
		}
	}
}

func TestCachedPrefixIsNotCountedOnlyItsLastBlockIs(t *testing.T) {
	parameters := `{"threshold": 40, "hashBlockSize": 4}`
	request := completion(strings.Repeat("a", 60))
	if got := picked(t, parameters, request, 7); len(got) != 0 {
		t.Error("60 bytes of which 6 blocks of 4 count as cached: 36 are missing, decode only")
	}
	if got := picked(t, parameters, request, 6); got["prefill"] == nil {
		t.Error("60 bytes of which 5 blocks of 4 count as cached: 40 are missing, prefill must run")
	}
}

func TestWithoutAThresholdEveryRequestIsPrefilledElsewhere(t *testing.T) {
	if got := picked(t, `{}`, completion("a"), 0); got["prefill"] == nil {
		t.Error("prefill must run")
	}
}

func TestMessagesAreMeasuredAsJSON(t *testing.T) {
	messages := []types.Message{{Role: "user", Content: types.Content{Raw: strings.Repeat("a", 30)}}}
	request := &types.LLMRequest{Body: &types.LLMRequestBody{
		ChatCompletions: &types.ChatCompletionsRequest{Messages: messages}}}
	if got := picked(t, `{"threshold": 40}`, request, 0); got["prefill"] == nil {
		t.Error("30 characters and the JSON around them are more than 40 bytes: prefill must run")
	}
}

func TestPrefillIsNotTriedTwiceNorAfterADecodeWithoutReplicas(t *testing.T) {
	made, _ := ProfileHandlerFactory("pd", nil, nil)
	handler := made.(framework.ProfileHandler)
	for _, results := range []map[string]*types.ProfileRunResult{
		{"decode": nil},
		{"decode": run(pod("d", "127.0.0.2", "decode")), "prefill": nil},
	} {
		got := handler.Pick(context.Background(), types.NewCycleState(), completion("a"), profiles, results)
		if len(got) != 0 {
			t.Errorf("nothing must run after %v, got %v", results, got)
		}
	}
}

func TestRequestGoesToTheDecodeReplicaAndFailsWithoutOne(t *testing.T) {
	made, _ := ProfileHandlerFactory("pd", nil, nil)
	handler := made.(framework.ProfileHandler)
	decoded := run(pod("d", "127.0.0.2", "decode"))
	result, err := handler.ProcessResults(context.Background(), nil, nil,
		map[string]*types.ProfileRunResult{"decode": decoded, "prefill": nil})
	if err != nil || result.PrimaryProfileName != "decode" || len(result.ProfileResults) != 1 {
		t.Errorf("wanted only decode, got %v, %v", result, err)
	}
	if _, err = handler.ProcessResults(context.Background(), nil, nil,
		map[string]*types.ProfileRunResult{"decode": nil}); err == nil {
		t.Error("no decode replica must be an error")
	}
}

func TestImpossibleParametersAreRefused(t *testing.T) {
	for parameters, word := range map[string]string{
		`{"threshold": -1}`: "threshold", `{"hashBlockSize": 0}`: "hashBlockSize",
		`{"primaryPort": 8000}`: "primaryPort", `{"threshold": "x"}`: "parameters",
	} {
		_, err := ProfileHandlerFactory("pd", json.RawMessage(parameters), nil)
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: wanted an error about %s, got %v", parameters, word, err)
		}
	}
}

func TestFiltersKeepTheirRolesOnly(t *testing.T) {
	pods := []types.Pod{pod("p", "1", "prefill"), pod("d", "2", "decode"), pod("b", "3", "both"), pod("n", "4", "")}
	decodeFilter, _ := DecodeFilterFactory("", nil, nil)
	prefillFilter, _ := PrefillFilterFactory("", nil, nil)
	custom, err := ByLabelFactory("mine", json.RawMessage(`{"label": "llm-d.ai/role", "validValues": ["both"]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for filter, wanted := range map[plugins.Plugin]string{decodeFilter: "dbn", prefillFilter: "p", custom: "b"} {
		got := ""
		for _, kept := range filter.(framework.Filter).Filter(context.Background(), nil, nil, pods) {
			got += kept.GetPod().NamespacedName.Name
		}
		if got != wanted {
			t.Errorf("%s kept %q, wanted %q", filter.TypedName(), got, wanted)
		}
	}
	for _, parameters := range []string{`{}`, `{"label": "x"}`} {
		if _, err := ByLabelFactory("mine", json.RawMessage(parameters), nil); err == nil {
			t.Errorf("%s must be refused", parameters)
		}
	}
}

func TestHeaderNamesThePrefillReplicaAndNeverWhatTheClientSent(t *testing.T) {
	made, _ := HeaderHandlerFactory("", nil, nil)
	handler := made.(*headerHandler)
	request := completion("a")
	request.Headers[PrefillHeader] = "169.254.169.254:80"
	both := &types.SchedulingResult{ProfileResults: map[string]*types.ProfileRunResult{
		"prefill": run(pod("p", "127.0.0.3", "prefill"))}}
	handler.PreRequest(context.Background(), request, both)
	if got := request.Headers[PrefillHeader]; got != "127.0.0.3:8000" {
		t.Errorf("header is %q", got)
	}
	request.Headers[PrefillHeader] = "169.254.169.254:80"
	handler.PreRequest(context.Background(), request, &types.SchedulingResult{})
	if got := request.Headers[PrefillHeader]; got != "" {
		t.Errorf("the client's header is still set: %q", got)
	}
}
