package config

import (
	"strings"
	"testing"
)

const valid = `
region: us-central1
replicas: 3
teams:
  research:
    models: [llama, llama-sql]
    objective: batch
    requests_per_minute: 600
    monthly_usd: 5000
  everyone: {models: ["*"], monthly_usd: 1}
prices:
  llama: {input_usd_per_million: 0.2, output_usd_per_million: 0.6}
  llama-sql: {input_usd_per_million: 1, output_usd_per_million: 2}
pools: {llama: llama-8b}
keys: {secret: projects/p/secrets/s}
jwt:
  - {issuer: "https://i", audiences: [a], jwks_uri: "https://i/keys", claim: team, teams: {r: research}}
store: {address: "127.0.0.1:6379"}
`

func parsed(t *testing.T) *Config {
	t.Helper()
	found, err := Parse([]byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAFileIsReadWithItsDefaults(t *testing.T) {
	c := parsed(t)
	team := c.Teams["research"]
	if team.RequestsPerMinute != 600 || team.TokensPerMinute != 0 || team.MonthlyNanoUSD() != 5000*NanoPerUSD {
		t.Errorf("got %+v", team)
	}
	if c.JWT[0].Header != "authorization" || c.Store.TLS || c.Anonymous {
		t.Errorf("got %+v, %+v", c.JWT[0], c.Store)
	}
}

func TestTokensCostWhatTheFileSays(t *testing.T) {
	c := parsed(t)
	if got := c.NanoUSD("llama", 1_000_000, 500_000); got != 500_000_000 {
		t.Errorf("got %d", got)
	}
	if got := c.NanoUSD("unknown", 1_000_000, 1); got != 0 {
		t.Errorf("got %d", got)
	}
}

func TestATeamMayUseItsModels(t *testing.T) {
	c := parsed(t)
	for _, one := range []struct {
		team, model string
		want        bool
	}{
		{"research", "llama", true},
		{"research", "LLAMA", false},
		{"research", "*", false},
		{"everyone", "llama-sql", true},
		{"everyone", "free", false}, // a model without a price would cost nothing of the budget
	} {
		if got := c.Permits(c.Teams[one.team], one.model); got != one.want {
			t.Errorf("%+v: got %v", one, got)
		}
	}
	c.Teams["everyone"].MonthlyUSD = 0
	if !c.Permits(c.Teams["everyone"], "free") {
		t.Error("without a budget every model is permitted")
	}
}

func TestAnObjectiveIsThatOfTheModelsPool(t *testing.T) {
	c := parsed(t)
	if got := c.ObjectiveOf(c.Teams["research"], "llama"); got != "llama-8b-batch" {
		t.Errorf("got %s", got)
	}
	if got := c.ObjectiveOf(c.Teams["research"], "llama-sql"); got != "batch" {
		t.Errorf("got %s", got)
	}
	if got := c.ObjectiveOf(c.Teams["everyone"], "llama"); got != "" {
		t.Errorf("got %s", got)
	}
}

func TestABadFileIsRefusedInOneLine(t *testing.T) {
	for _, one := range []struct{ old, now, want string }{
		{"region: us-central1", "", "region: is required"},
		{"replicas: 3", "replicas: 0", "replicas: must be 1 to 20, got 0"},
		{"replicas: 3", "replicas: three", "replicas: must be a whole number, got string"},
		{"replicas: 3", "replicas: 3\nreplica: 3", "replica: must be a known field, got an unknown one"},
		{"600", "many", "teams.research.requests_per_minute: must be a whole number, got string"},
		{"600", "-1", "teams.research.requests_per_minute: must be 0 to 1000000000000, got -1"},
		{"requests_per_minute", "rpm", "teams.research.rpm: must be a known field, got an unknown one"},
		{"research:", "Research:", `teams.Research: a team must be up to 63 of a-z`},
		{"[llama, llama-sql]", "[]", `teams.research.models: must list models, or "*" for all, got []`},
		{"[llama, llama-sql]", "[gone]", `teams.research.monthly_usd: needs a price of each model of the team, got none of "gone"`},
		{"0.6", "-2", "prices.llama: must be 0 to 1000000, got -2"},
		{"projects/p/secrets/s", "s", `keys.secret: must be projects/PROJECT/secrets/NAME, got "s"`},
		{"https://i/keys", "http://i/keys", `jwt[0].jwks_uri: must be an https address, got "http://i/keys"`},
		{"audiences: [a]", "audiences: []", "jwt[0].audiences: is required"},
		{"{r: research}", "{r: nobody}", `jwt[0].teams.r: must be a team of the file, got "nobody"`},
		{`"127.0.0.1:6379"`, "valkey", `store.address: must be HOST:PORT, got "valkey"`},
		{"replicas: 3", "replicas: 3\nanonymous: true", "teams.anonymous: is required with anonymous: true"},
		{"replicas: 3", "replicas: 3\ncertificates: {from: [here], teams: {dns:a: everyone}}",
			`certificates.from[0]: must be a network such as 10.3.0.0/24, got "here"`},
		{"replicas: 3", "replicas: 3\ncertificates: {teams: {dns:a: everyone}}", "certificates: needs from"},
		{"replicas: 3", "replicas: 3\ncertificates: {from: [10.3.0.0/24], teams: {cn=a: everyone}}",
			`certificates.teams: must have identities spiffe://..., dns:NAME or sha256:HEX, got "cn=a"`},
		{"replicas: 3", "replicas: 3\ncertificates: {from: [10.3.0.0/24], teams: {dns:a: nobody}}",
			`certificates.teams.dns:a: must be a team of the file, got "nobody"`},
		{"replicas: 3", "replicas: 3\nturns: {session_headers: [X-Session]}",
			`turns.session_headers[0]: must be the lowercase name of another header, got "X-Session"`},
		{"replicas: 3", "replicas: 3\nturns: {session_headers: [a, a]}",
			`turns.session_headers[1]: must be the lowercase name of another header, got "a"`},
		{"replicas: 3", "replicas: 3\n\tx", "found a tab character"},
		{"batch", "Not Kubernetes", `teams.research.objective: must be the name of an InferenceObjective`},
	} {
		content := strings.Replace(valid, one.old, one.now, 1)
		_, err := Parse([]byte(content))
		if err == nil || !strings.Contains(err.Error(), one.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %s", one.now, err, one.want)
		}
	}
	if _, err := Parse([]byte("region: r\nreplicas: 1\nteams: {a: {models: [m]}}")); err == nil {
		t.Error("a file that lets nobody in must be refused")
	}
}

func TestACacheIsCheckedAndHasDefaults(t *testing.T) {
	const rest = "\ncache: {embeddings: {url: 'http://bge:8000', model: bge}, models: [m], store: {address: 'h:1'}%s}\n"
	const top = "region: r\nreplicas: 1\nkeys: {secret: projects/p/secrets/s}\nteams: {a: {models: [m], cache: true}}"
	made, err := Parse([]byte(top + strings.Replace(rest, "%s", "", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if made.Cache.Threshold != 0.95 || made.Cache.TTL().Hours() != 24 || !made.Caches(made.Teams["a"], "m") {
		t.Errorf("got %+v", made.Cache)
	}
	if made.Caches(made.Teams["a"], "other") {
		t.Error("a model that the cache does not name must have none")
	}
	for _, c := range []struct{ more, wanted string }{
		{", threshold: 1.5", "cache.threshold: must be more than 0 and at most 1, got 1.5"},
		{", ttl_seconds: 9999999999999", "cache.ttl_seconds: must be 1 to 2592000, got 9999999999999"},
		{", timeout_ms: 900", "cache.timeout_ms: must be 1 to 800, got 900"},
		{", speed: 1", "cache.speed: must be a known field, got an unknown one"},
	} {
		_, err := Parse([]byte(top + strings.Replace(rest, "%s", c.more, 1)))
		if err == nil || err.Error() != c.wanted {
			t.Errorf("got %v, want %s", err, c.wanted)
		}
	}
	if _, err := Parse([]byte(top)); err == nil || err.Error() != "teams.a.cache: needs cache, got none" {
		t.Errorf("got %v", err)
	}
}

func TestAStoreIsTrustedByTheCertificatesOfTheFile(t *testing.T) {
	const top = "region: r\nreplicas: 1\nkeys: {secret: projects/p/secrets/s}\nteams: {a: {models: [m]}}\nstore: {address: 'h:1', %s}\n"
	for _, c := range []struct{ store, wanted string }{
		{"ca: x", "store.ca: needs store.tls: true, got tls: false"},
		{"tls: true, ca: nonsense", "store.ca: must have PEM certificates, got none in 8 characters"},
	} {
		_, err := Parse([]byte(strings.Replace(top, "%s", c.store, 1)))
		if err == nil || err.Error() != c.wanted {
			t.Errorf("got %v, want %s", err, c.wanted)
		}
	}
	made, err := Parse([]byte(strings.Replace(top, "%s", "tls: true", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if settings, err := made.Store.TLSConfig("store"); err != nil || settings == nil || settings.RootCAs != nil {
		t.Errorf("without certificates those of the system count, got %v, %v", settings, err)
	}
}
