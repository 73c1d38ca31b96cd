package identity

import (
	"testing"

	"gke-inference/gateway/callout/internal/config"
)

func TestOnlyAKeyOfATeamThatActsForOthersNamesAnotherTeam(t *testing.T) {
	c := &config.Config{Teams: map[string]*config.Team{"batches": {ActsForTeams: true}, "red": {}}}
	for name, each := range map[string]struct {
		caller Caller
		named  []string
		team   string
		ok     bool
	}{
		"the worker names a team": {Caller{"batches", "abcdefgh", ""}, []string{"red"}, "red", true},
		"the worker names none":   {Caller{"batches", "abcdefgh", ""}, nil, "batches", true},
		"a team that is gone":     {Caller{"batches", "abcdefgh", ""}, []string{"blue"}, "blue", true},
		"two teams":               {Caller{"batches", "abcdefgh", ""}, []string{"red", "batches"}, "", false},
		"a token of the team":     {Caller{"batches", "jwt", "me"}, []string{"red"}, "", false},
		"a certificate of it":     {Caller{"batches", "certificate", ""}, []string{"red"}, "", false},
		"a key of another team":   {Caller{"red", "abcdefgh", ""}, []string{"batches"}, "", false},
		"its own name":            {Caller{"red", "abcdefgh", ""}, []string{"red"}, "", false},
		"no credential":           {Caller{"anonymous", "", ""}, []string{"red"}, "", false},
		"no header, another team": {Caller{"red", "abcdefgh", ""}, nil, "red", true},
	} {
		team, ok := ActsFor(c, each.caller, map[string][]string{BehalfHeader: each.named})
		if team != each.team || ok != each.ok {
			t.Errorf("%s: got %q, %v", name, team, ok)
		}
	}
}
