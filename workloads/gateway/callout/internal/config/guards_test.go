package config

import (
	"strings"
	"testing"
)

const guarded = `
region: r
replicas: 1
anonymous: true
teams: {anonymous: {models: ["*"], guards: [both, input]}}
models: {m: {guards: [output, both]}}
guards:
  both: {url: "http://both:1", phases: [input, output], failure: open, timeout_ms: 100}
  input: {url: "http://input:1", phases: [input], failure: closed, timeout_ms: 100}
  output: {url: "http://output:1", phases: [output], failure: closed, timeout_ms: 100}
`

func TestGuardsAreThoseOfTheModelThenThoseOfTheTeam(t *testing.T) {
	c, err := Parse([]byte(guarded))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct{ model, phase, want string }{
		{"m", InputPhase, "both input"}, {"m", OutputPhase, "output both"}, {"n", InputPhase, "both input"}, {"n", OutputPhase, "both"},
	} {
		var names []string
		for _, guard := range c.GuardsOf(c.Teams[Anonymous], one.model, one.phase) {
			names = append(names, guard.Name)
		}
		if got := strings.Join(names, " "); got != one.want {
			t.Errorf("%+v: got %s", one, got)
		}
	}
}

func TestAGuardThatCannotBeIsRefused(t *testing.T) {
	for change, want := range map[string]string{
		`url: "http://both:1"|url: "both:1"`:     `guards.both.url: must be an http or https address, got "both:1"`,
		`failure: open|failure: maybe`:           `guards.both.failure: must be open or closed, got "maybe"`,
		`failure: open, |`:                       `guards.both.failure: must be open or closed, got ""`,
		`[input, output]|[]`:                     `guards.both.phases: must have input, output or both, got none`,
		`[input, output]|[between]`:              `guards.both.phases: must have input, output or both, got "between"`,
		`timeout_ms: 100}|timeout_ms: 0}`:        `guards.both.timeout_ms: must be 10 to 10000, got 0`,
		`guards: [output, both]|guards: [other]`: `models.m.guards: must be names of guards, got "other"`,
		`guards: [both, input]|guards: [other]`:  `teams.anonymous.guards: must be names of guards, got "other"`,
	} {
		old, with, _ := strings.Cut(change, "|")
		if _, err := Parse([]byte(strings.Replace(guarded, old, with, 1))); err == nil || err.Error() != want {
			t.Errorf("%s: got %v", change, err)
		}
	}
}
