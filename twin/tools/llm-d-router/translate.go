package main

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	configFlag     = "config-file"
	newConfig      = "llm-d.ai/v1alpha1"
	oldConfig      = "inference.networking.x-k8s.io/v1alpha1"
	extractor      = "core-metrics-extractor"
	producer       = "approx-prefix-cache-producer"
	rolesHandler   = "disagg-profile-handler"
	rolesDecider   = "prefix-based-pd-decider"
	charactersEach = 4
	rolesBlock     = 16 * charactersEach
)

// newFlags are flags that v1.5.0 does not have.
var newFlags = []string{"drain-timeout", "allow-experimental-plugins"}

// newPlugins are plugins that v1.5.0 does not have, or whose helpers do not run here. What routes by
// them falls back to the other plugins.
var newPlugins = map[string]bool{
	"endpoint-notification-source":  true,
	"latency-scorer":                true,
	"latency-slo-admitter":          true,
	"metrics-data-source":           true,
	"precise-prefix-cache-producer": true,
	"predicted-latency-producer":    true,
	"prefix-cache-affinity-filter":  true,
	"session-affinity-filter":       true,
	"slo-headroom-tier-filter":      true,
	"token-producer":                true,
	"weighted-random-picker":        true,
}

// usual are the scorers of a profile that has lost all of its plugins.
var usual = []string{"queue-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer"}

type object = map[string]any

type translated struct {
	arguments []string
	hasRoles  bool
}

// translate returns the arguments of the older picker for those of llm-d-router. The configuration
// file becomes text in the arguments.
func translate(given []string, read func(string) ([]byte, error)) (translated, error) {
	arguments, file, err := split(given)
	if err != nil {
		return translated{}, err
	}
	text, err := read(file)
	if err != nil {
		return translated{}, err
	}
	var config object
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return translated{}, fmt.Errorf("%s: %w", file, err)
	}
	if config["apiVersion"] != newConfig {
		return translated{}, fmt.Errorf("%s: apiVersion must be %s, got %v", file, newConfig, config["apiVersion"])
	}
	made := translated{arguments: arguments, hasRoles: find(config, rolesHandler) != nil}
	var older object
	if made.hasRoles {
		older = roles(config)
		made.arguments = append(made.arguments, metricFlags(config)...)
	} else if older, err = single(config); err != nil {
		return translated{}, err
	}
	written, err := yaml.Marshal(older)
	if err != nil {
		return translated{}, err
	}
	made.arguments = append(made.arguments, "--config-text", string(written))
	return made, nil
}

// split returns the arguments without the flags that only llm-d-router has, and the file's path.
func split(given []string) ([]string, string, error) {
	kept, file := []string{}, ""
	for at := 0; at < len(given); at++ {
		name, value, hasValue := strings.Cut(strings.TrimLeft(given[at], "-"), "=")
		switch {
		case name == configFlag:
			if !hasValue && at+1 < len(given) {
				at++
				value = given[at]
			}
			file = value
		case isNew(name):
		default:
			kept = append(kept, given[at])
		}
	}
	if file == "" {
		return nil, "", errors.New("--config-file is required")
	}
	return kept, file, nil
}

func isNew(flag string) bool {
	for _, each := range newFlags {
		if flag == each {
			return true
		}
	}
	return false
}

// single returns the configuration of a pool whose replicas all have the same role.
func single(config object) (object, error) {
	plugins, known := []any{}, map[string]bool{}
	for _, plugin := range objects(config["plugins"]) {
		kind, _ := plugin["type"].(string)
		if newPlugins[kind] {
			continue
		}
		if kind == producer {
			plugin["parameters"] = prefixes15(plugin["parameters"])
		}
		if kind == "prefix-cache-scorer" {
			delete(plugin, "parameters")
		}
		plugins, known[nameOf(plugin)] = append(plugins, plugin), true
	}
	if !known[producer] {
		plugins, known[producer] = append(plugins, object{"type": producer}), true
	}
	profiles := []any{}
	for _, profile := range objects(config["schedulingProfiles"]) {
		kept := []any{}
		for _, each := range objects(profile["plugins"]) {
			if reference, _ := each["pluginRef"].(string); known[reference] {
				kept = append(kept, each)
			}
		}
		if len(kept) == 0 {
			for _, name := range usual {
				if !known[name] {
					plugins, known[name] = append(plugins, object{"type": name}), true
				}
				kept = append(kept, object{"pluginRef": name})
			}
		}
		profiles = append(profiles, object{"name": profile["name"], "plugins": kept})
	}
	if len(profiles) != 1 {
		return nil, fmt.Errorf("schedulingProfiles must be one, got %d", len(profiles))
	}
	older := object{
		"apiVersion": oldConfig, "kind": config["kind"], "plugins": plugins, "schedulingProfiles": profiles,
	}
	if flow, found := config["flowControl"].(object); found {
		older["featureGates"] = config["featureGates"]
		if detector, named := flow["saturationDetector"]; named {
			older["saturationDetector"] = detector
			delete(flow, "saturationDetector")
		}
		older["flowControl"] = flow
	}
	return older, nil
}

// prefixes15 returns the parameters of the prefix index, whose longest prefix is in blocks.
func prefixes15(given any) object {
	parameters, _ := given.(object)
	made := object{}
	for key, value := range parameters {
		made[key] = value
	}
	tokens, hasTokens := made["maxPrefixTokensToMatch"].(float64)
	block, hasBlock := made["blockSizeTokens"].(float64)
	delete(made, "maxPrefixTokensToMatch")
	if hasTokens && hasBlock && block > 0 {
		made["maxPrefixBlocksToMatch"] = int(tokens / block)
	}
	return made
}

// roles returns the configuration of the picker for prefill and decode replicas, which is v1.2.0
// with plugins of this project.
func roles(config object) object {
	threshold := 0.0
	if decider := find(config, rolesDecider); decider != nil {
		parameters, _ := decider["parameters"].(object)
		threshold, _ = parameters["nonCachedTokens"].(float64)
	}
	plugins := []any{
		object{"type": "prefill-header-handler"},
		object{"type": "prefix-cache-scorer", "parameters": object{
			"autoTune": false, "blockSize": rolesBlock, "lruCapacityPerServer": 31250, "maxPrefixBlocksToMatch": 4096,
		}},
	}
	for _, name := range []string{
		"queue-scorer", "kv-cache-utilization-scorer", "prefill-filter", "decode-filter", "max-score-picker",
	} {
		plugins = append(plugins, object{"type": name})
	}
	plugins = append(plugins, object{"type": "pd-profile-handler", "parameters": object{
		"hashBlockSize": rolesBlock, "threshold": int(threshold) * charactersEach,
	}})
	profiles := []any{}
	for _, profile := range objects(config["schedulingProfiles"]) {
		kept := []any{}
		for _, each := range objects(profile["plugins"]) {
			if reference, _ := each["pluginRef"].(string); !newPlugins[reference] {
				kept = append(kept, each)
			}
		}
		profiles = append(profiles, object{"name": profile["name"], "plugins": kept})
	}
	return object{
		"apiVersion": oldConfig, "kind": config["kind"], "plugins": plugins, "schedulingProfiles": profiles,
	}
}

// metricFlags returns the names of the engine's metrics, which v1.2.0 takes as flags.
func metricFlags(config object) []string {
	plugin := find(config, extractor)
	parameters, _ := plugin["parameters"].(object)
	engines := objects(parameters["engineConfigs"])
	if len(engines) == 0 {
		return nil
	}
	made := []string{}
	for _, pair := range [][2]string{
		{"total-queued-requests-metric", "queuedRequestsSpec"},
		{"kv-cache-usage-percentage-metric", "kvUsageSpec"},
		{"lora-info-metric", "loraSpec"},
		{"cache-info-metric", "cacheInfoSpec"},
	} {
		name, _ := engines[0][pair[1]].(string)
		made = append(made, "--"+pair[0], name)
	}
	return made
}

func find(config object, kind string) object {
	for _, plugin := range objects(config["plugins"]) {
		if plugin["type"] == kind {
			return plugin
		}
	}
	return nil
}

func nameOf(plugin object) string {
	if name, _ := plugin["name"].(string); name != "" {
		return name
	}
	name, _ := plugin["type"].(string)
	return name
}

func objects(list any) []object {
	items, _ := list.([]any)
	found := []object{}
	for _, item := range items {
		if each, ok := item.(object); ok {
			found = append(found, each)
		}
	}
	return found
}
