package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

const pool = `
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: metrics-data-source
- type: core-metrics-extractor
  parameters: {defaultEngine: engine, engineConfigs: [{name: engine, queuedRequestsSpec: waiting}]}
- type: approx-prefix-cache-producer
  parameters: {autoTune: true, blockSizeTokens: 64, maxPrefixTokensToMatch: 131072}
- type: queue-scorer
- type: session-affinity-filter
- type: utilization-detector
schedulingProfiles:
- name: default
  plugins: [{pluginRef: session-affinity-filter}, {pluginRef: queue-scorer, weight: 2}]
featureGates: [flowControl]
flowControl: {defaultRequestTTL: 8s, saturationDetector: {pluginRef: utilization-detector}}
`

func asked(t *testing.T, config string, arguments ...string) (translated, object) {
	t.Helper()
	given := append([]string{"--pool-name", "p", "--config-file", "/config/c.yaml"}, arguments...)
	made, err := translate(given, func(string) ([]byte, error) { return []byte(config), nil })
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(made.arguments, "--config-text")
	var older object
	if err := yaml.Unmarshal([]byte(made.arguments[at+1]), &older); err != nil {
		t.Fatal(err)
	}
	return made, older
}

func TestFlagsThatTheOlderPickerDoesNotHaveAreLeftOut(t *testing.T) {
	made, _ := asked(t, pool, "--drain-timeout=20s", "--allow-experimental-plugins", "-v", "1")
	if got := made.arguments[:4]; !slices.Equal(got, []string{"--pool-name", "p", "-v", "1"}) {
		t.Errorf("got %v", got)
	}
}

func TestPluginsThatTheOlderPickerDoesNotHaveAreLeftOut(t *testing.T) {
	_, older := asked(t, pool)
	if find(older, "session-affinity-filter") != nil || find(older, "queue-scorer") == nil {
		t.Errorf("got %v", older["plugins"])
	}
	profile := objects(older["schedulingProfiles"])[0]
	if kept := objects(profile["plugins"]); len(kept) != 1 || kept[0]["pluginRef"] != "queue-scorer" {
		t.Errorf("got %v", kept)
	}
}

func TestTheLongestPrefixIsInBlocks(t *testing.T) {
	_, older := asked(t, pool)
	parameters := find(older, producer)["parameters"].(object)
	if parameters["maxPrefixBlocksToMatch"] != 2048.0 || parameters["maxPrefixTokensToMatch"] != nil {
		t.Errorf("got %v", parameters)
	}
}

func TestTheDetectorIsBesideTheQueues(t *testing.T) {
	_, older := asked(t, pool)
	detector := older["saturationDetector"].(object)
	if detector["pluginRef"] != "utilization-detector" || older["flowControl"].(object)["saturationDetector"] != nil {
		t.Errorf("got %v", older)
	}
}

func TestAProfileOfPredictionsFallsBackToTheUsualScorers(t *testing.T) {
	config := strings.NewReplacer("session-affinity-filter}, {pluginRef: queue-scorer, weight: 2", "latency-scorer").Replace(pool)
	_, older := asked(t, config)
	kept := objects(objects(older["schedulingProfiles"])[0]["plugins"])
	if len(kept) != len(usual) || find(older, "kv-cache-utilization-scorer") == nil {
		t.Errorf("got %v", kept)
	}
}

const twoRoles = `
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: core-metrics-extractor
  parameters: {engineConfigs: [{name: engine, queuedRequestsSpec: waiting, kvUsageSpec: use}]}
- type: prefix-based-pd-decider
  parameters: {nonCachedTokens: 512}
- type: disagg-profile-handler
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefill-filter}]}
- {name: decode, plugins: [{pluginRef: decode-filter}]}
`

func TestAPoolOfTwoRolesIsForThePickerOfRoles(t *testing.T) {
	made, older := asked(t, twoRoles)
	if !made.hasRoles {
		t.Error("must have roles")
	}
	parameters := find(older, "pd-profile-handler")["parameters"].(object)
	if parameters["threshold"] != 2048.0 {
		t.Errorf("got %v", parameters)
	}
	at := slices.Index(made.arguments, "--total-queued-requests-metric")
	if at < 0 || made.arguments[at+1] != "waiting" {
		t.Errorf("got %v", made.arguments)
	}
}

func TestAConfigurationOfTheOlderPickerIsRefused(t *testing.T) {
	old := strings.Replace(pool, newConfig, oldConfig, 1)
	_, err := translate([]string{"--config-file=c"}, func(string) ([]byte, error) { return []byte(old), nil })
	if err == nil || !strings.Contains(err.Error(), "apiVersion must be llm-d.ai/v1alpha1") {
		t.Errorf("got %v", err)
	}
	if _, err := translate([]string{"--config-file=/none"}, os.ReadFile); err == nil {
		t.Error("a file that does not exist must be refused")
	}
}

func TestAMetricHasTheNewNameAndLabel(t *testing.T) {
	for old, want := range map[string]string{
		"inference_pool_ready_pods":                   "llm_d_epp_ready_endpoints",
		"inference_objective_request_total":           "llm_d_epp_request_total",
		"inference_extension_flow_control_queue_size": "llm_d_epp_flow_control_queue_size",
		"go_goroutines":                               "",
	} {
		if got := newName(old); got != want {
			t.Errorf("%s: got %q", old, got)
		}
	}
	label := &dto.LabelPair{Name: proto.String("model_server_pod"), Value: proto.String("a")}
	family := &dto.MetricFamily{Name: proto.String("x"), Metric: []*dto.Metric{{Label: []*dto.LabelPair{label}}}}
	made := under("y", family)
	if made.GetName() != "y" || made.Metric[0].Label[0].GetName() != "model_server_endpoint" {
		t.Errorf("got %v", made)
	}
	if family.Metric[0].Label[0].GetName() != "model_server_pod" {
		t.Error("the old family must not change")
	}
}
