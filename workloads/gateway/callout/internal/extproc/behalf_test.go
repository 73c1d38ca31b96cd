package extproc

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"gke-inference/gateway/callout/internal/identity"
)

const acting = `
region: us-central1
replicas: 1
batches: true
keys: {secret: projects/p/secrets/s}
teams:
  batches: {models: ["*"], objective: batch, acts_for_teams: true}
  red: {models: [m], objective: interactive, requests_per_minute: 3}
prices: {m: {input_usd_per_million: 1000, output_usd_per_million: 2000}}
`

func keyOf(id string) string { return "gki_" + id + "_" + strings.Repeat("k", 43) }

// withKeys serves the document of keys with one key of each team.
func withKeys(t *testing.T, teams map[string]string) {
	var entries []string
	for id, team := range teams {
		sum := sha256.Sum256([]byte(keyOf(id)))
		entries = append(entries, fmt.Sprintf(`{"id":%q,"team":%q,"sha256":%q,"created":"2026-01-01T00:00:00Z"}`,
			id, team, hex.EncodeToString(sum[:])))
	}
	document := `{"keys":[` + strings.Join(entries, ",") + `]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"payload":{"data":%q}}`, base64.StdEncoding.EncodeToString([]byte(document)))
	}))
	t.Cleanup(server.Close)
	t.Setenv("SECRET_MANAGER_ENDPOINT", server.URL)
}

func readKeys(t *testing.T) *identity.Secret {
	secret := identity.NewSecret("projects/p/secrets/s")
	go secret.Follow(t.Context())
	for range 500 {
		if secret.Keys() != nil {
			return secret
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no keys")
	return nil
}

func valueOf(found []*core.HeaderValueOption, name string) string {
	for _, each := range found {
		if each.GetHeader().GetKey() == name {
			return string(each.GetHeader().GetRawValue())
		}
	}
	return ""
}

func TestARequestOfTheWorkerIsOneOfTheTeamThatItNames(t *testing.T) {
	withKeys(t, map[string]string{"bbbbbbbb": "batches", "rrrrrrrr": "red"})
	client, written := gatewayWith(t, acting, readKeys(t))
	ask := func(key string, more ...string) *call {
		c := begin(t, client)
		c.send(asked(false, append([]string{"authorization", "Bearer " + keyOf(key)}, more...)...))
		return c
	}
	c := ask("bbbbbbbb", identity.BehalfHeader, "red")
	c.send(requestBody(`{"model":"m","prompt":"a","max_tokens":1}`, true))
	mutation := c.receive().GetRequestHeaders().GetResponse().GetHeaderMutation()
	if got := valueOf(mutation.GetSetHeaders(), fairnessHeaders[0]); got != "red" {
		t.Errorf("fairness: got %q", got)
	}
	if got := valueOf(mutation.GetSetHeaders(), objectiveHeaders[0]); got != "batch" {
		t.Errorf("the priority is that of the worker's team: got %q", got)
	}
	if removed := strings.Join(mutation.GetRemoveHeaders(), ","); !strings.Contains(removed, identity.BehalfHeader) {
		t.Errorf("removed: got %s", removed)
	}
	c.end()
	if found := written.record(t); found.Team != "red" || found.KeyID != "bbbbbbbb" {
		t.Errorf("record: got %+v", found)
	}

	c = ask("bbbbbbbb", identity.BehalfHeader, "red")
	c.send(requestBody(`{"model":"other","prompt":"a","max_tokens":1}`, true))
	if got := c.receive().GetImmediateResponse().GetStatus().GetCode(); got != 404 {
		t.Errorf("a model that the named team may not use: got %v", got)
	}
	for _, one := range []struct{ key, team string }{{"rrrrrrrr", "batches"}, {"rrrrrrrr", "red"}, {"bbbbbbbb", "blue"}} {
		if got := ask(one.key, identity.BehalfHeader, one.team).receive().GetImmediateResponse().GetStatus().GetCode(); got != 403 {
			t.Errorf("%+v: got %v", one, got)
		}
	}
}

func TestCallsOfFilesCountAsRequestsOfTheTeam(t *testing.T) {
	withKeys(t, map[string]string{"rrrrrrrr": "red"})
	client, _ := gatewayWith(t, acting, readKeys(t))
	for number, path := range []string{"/v1/files", "/v1/batches", "/v1/files/file-1/content", "/v1/batches/batch_1/cancel"} {
		c := begin(t, client)
		c.send(asked(true, "authorization", "Bearer "+keyOf("rrrrrrrr"), ":path", path))
		found := c.receive()
		status := found.GetImmediateResponse().GetStatus().GetCode()
		if number < 3 && found.GetRequestHeaders() == nil {
			t.Errorf("call %d: got %v", number, status)
		}
		if number == 3 && status != 429 {
			t.Errorf("call 3: got %v", status)
		}
	}
}

func TestTwoTeamsShareNoPrefixAndTheWorkerSharesThatOfTheTeamThatItNames(t *testing.T) {
	withKeys(t, map[string]string{"bbbbbbbb": "batches", "rrrrrrrr": "red"})
	client, _ := gatewayWith(t, acting+"models: {m: {cache_salt_paths: [/v1/completions]}}\n", readKeys(t))
	saltOf := func(key string, more ...string) string {
		c := begin(t, client)
		c.send(asked(false, append([]string{"authorization", "Bearer " + keyOf(key)}, more...)...))
		c.send(requestBody(`{"model":"m","prompt":"a","max_tokens":1}`, true))
		c.receive()
		var passed strings.Builder
		for {
			part := c.receive().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
			passed.Write(part.GetBody())
			if part.GetEndOfStream() {
				break
			}
		}
		c.end()
		var got struct {
			Salt string `json:"cache_salt"`
		}
		if err := json.Unmarshal([]byte(passed.String()), &got); err != nil || got.Salt == "" {
			t.Fatal(passed.String(), err)
		}
		return got.Salt
	}
	red, batches, acting := saltOf("rrrrrrrr"), saltOf("bbbbbbbb"), saltOf("bbbbbbbb", identity.BehalfHeader, "red")
	if red == batches || red != acting {
		t.Errorf("red %s, batches %s, batches for red %s", red, batches, acting)
	}
}
