package config

import (
	"strings"
	"testing"
)

const valid = `
backends:
  gemini-flash:
    timeout_seconds: 120
    targets:
      - {name: a, url: "https://example.com/v1", model: m, weight: 1, auth: {kind: google}}
`

const pool = `
fallback:
  model: gemini-flash
  after_queue: 8
  monthly_usd: 5
  input_usd_per_million: 1
  output_usd_per_million: 2
  namespace: inference
  selector: {app: llama}
  port: 8000
  count: llama-fallback
  metrics: {queue: "vllm:num_requests_waiting"}
`

func TestAWholeFileIsRead(t *testing.T) {
	found, err := Parse([]byte(valid + pool))
	if err != nil {
		t.Fatal(err)
	}
	if found.Backends["gemini-flash"].Targets[0].Auth.Kind != AuthGoogle || found.Fallback.AfterQueue != 8 {
		t.Fatal(found)
	}
}

func TestAWrongValueIsRefusedByFieldRuleAndValue(t *testing.T) {
	for _, one := range []struct{ from, to, want string }{
		{"timeout_seconds: 120", "timeout_seconds: 0", "backends.gemini-flash.timeout_seconds: must be more than 0 and at most 3600, got 0"},
		{"weight: 1", "weight: 0", "backends.gemini-flash.targets[0].weight: must be 1 to 1000000, got 0"},
		{"https://", "ftp://", `targets[0].url: must be an http or https address, got "ftp://example.com/v1"`},
		{"https://", "http://", `url: must be https when a credential is sent, got "http://example.com/v1"`},
		{"example.com", "user:pass@example.com", "targets[0].url: must have no user, query or fragment"},
		{"kind: google", "kind: magic", `auth.kind: must be one of google, id-token, none, secret, got "magic"`},
		{"kind: google", "kind: secret, secret: x", `auth.secret: must be projects/P/secrets/S, got "x"`},
		{"kind: google", "kind: id-token", "auth: must have an audience and a service_account"},
		{"model: m,", "model: m, colour: red,", "colour: must be a known field, got an unknown one"},
		{"after_queue: 8", "after_queue: 0", "fallback.after_queue: must be 1 to 10000, got 0"},
		{"after_queue: 8", "after_queue: many", "fallback.after_queue: must be a whole number, got string"},
		{"monthly_usd: 5", "monthly_usd: 0", "fallback.monthly_usd: must be more than 0 and at most 1000000000, got 0"},
		{"  model: gemini-flash", "  model: other", `fallback.model: must be one of the backends, got "other"`},
		{"count: llama-fallback", "count: ''", "fallback.count: is required"},
	} {
		_, err := Parse([]byte(strings.Replace(valid+pool, one.from, one.to, 1)))
		if err == nil || !strings.Contains(err.Error(), one.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", one.to, err)
		}
		if err != nil && strings.Contains(err.Error(), "pass@") {
			t.Errorf("%v has a password", err)
		}
	}
}

const ofFront = `
front:
  server_name: models.example.com
  regions: {us-central1: "https://10.1.2.3"}
  near: [us-central1]
  models:
    llama: {regions: [us-central1], fallback: gemini}
`

func TestAFrontHasRegionsAndNoBackends(t *testing.T) {
	if _, err := Parse([]byte(ofFront)); err != nil {
		t.Fatal(err)
	}
	for replaced, want := range map[string][2]string{
		"near: [us-central1]":              {"near: [mars]", `front.near[0]: must be one of front.regions, got "mars"`},
		"server_name: models.example.com":  {"server_name: ''", "front.server_name: is required"},
		`"https://10.1.2.3"`:               {"10.1.2.3", `front.regions.us-central1: must be an http or https address, got "10.1.2.3"`},
		"regions: [us-central1], fallback": {"fallback", "front.models.llama.regions: must have one or more, got none"},
		"fallback: gemini":                 {"fallback: llama", `front.models.llama.fallback: must be another model, got "llama"`},
		"near: [us-central1]\n": {
			"near: [us-central1]\n  guard: {template: t, timeout_ms: 1}\n",
			`front.guard.template: must be projects/P/locations/L/templates/T, got "t"`,
		},
		"  near: [us-central1]": {
			"  near: [us-central1]\n  guard: {template: projects/p/locations/l/templates/t, timeout_ms: 9}",
			"front.guard.timeout_ms: must be 10 to 10000, got 9",
		},
		"front:": {valid + "front:", "front: must be alone: a router of a front has no backends and no fallback"},
	} {
		_, err := Parse([]byte(strings.Replace(ofFront, replaced, want[0], 1)))
		if err == nil || err.Error() != want[1] {
			t.Errorf("%s: got %v", want[0], err)
		}
	}
}
