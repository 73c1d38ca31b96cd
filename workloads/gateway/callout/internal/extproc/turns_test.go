package extproc

import (
	"strings"
	"testing"
	"time"
)

const inTurn = `
region: us-central1
replicas: 1
keys: {secret: projects/p/secrets/s}
turns: {session_headers: [x-session-id]}
teams: {red: {models: ["*"]}}
pools: {m: llama, adapter: llama}
`

const (
	question = `{"model":"m","messages":[{"role":"user","content":"q"}]}`
	another  = `{"model":"m","messages":[{"role":"user","content":"another"}]}`
)

func TestWaitingRequestsOfATeamAreInTheOrderOfItsProgramsAndSessions(t *testing.T) {
	withKeys(t, map[string]string{"aaaaaaaa": "red", "bbbbbbbb": "red"})
	client, written := gatewayWith(t, inTurn, readKeys(t))
	enter := func(key, body string, more ...string) (*call, string) {
		c := begin(t, client)
		pairs := append([]string{"authorization", "Bearer " + keyOf(key), ":path", "/v1/chat/completions"}, more...)
		c.send(asked(false, pairs...), requestBody(body, true))
		set := c.receive().GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders()
		if of := valueOf(set, fairnessHeaders[0]); of != "red" {
			t.Errorf("the queue is the team's: got %q", of)
		}
		later := valueOf(set, turnHeaders[0])
		if both := valueOf(set, turnHeaders[1]); both != later {
			t.Errorf("got %q and %q", later, both)
		}
		c.receive() // the body
		return c, later
	}
	var open []*call
	for _, one := range []struct {
		key, body, session, want string
	}{
		{"aaaaaaaa", question, "", "0"},
		{"aaaaaaaa", question, "", "1000"},                            // the same conversation
		{"aaaaaaaa", another, "", "1000"},                             // another one waits behind that session, not behind its requests
		{"aaaaaaaa", question, "one", "2000"},                         // the header counts, not the conversation
		{"aaaaaaaa", another, "one", "3000"},                          // the same session
		{"bbbbbbbb", question, "one", "0"},                            // another program, with the same id of a session
		{"bbbbbbbb", question, "two", "1000"},                         // a new id for each request...
		{"bbbbbbbb", question, "three", "2000"},                       // ...gains nothing
		{"bbbbbbbb", `{"model":"adapter","messages":[]}`, "", "3000"}, // an adapter is in the queue of its model
		{"bbbbbbbb", `{"model":"other","messages":[]}`, "", "0"},
	} {
		var more []string
		if one.session != "" {
			more = []string{"x-session-id", one.session}
		}
		c, later := enter(one.key, one.body, append(more, "x-slo-ttft-ms", "-1")...)
		if later != one.want {
			t.Errorf("%+v: got %q", one, later)
		}
		open = append(open, c)
	}
	open[5].send(answered(":status", "200", "content-type", "application/json"), responseBody(`{}`, true))
	open[6].end() // the client is gone
	open[7].send(answered(":status", "429"), responseBody(`{}`, true))
	written.await(t, 3)
	if _, later := enter("bbbbbbbb", question, "x-session-id", "four"); later != "1000" {
		t.Errorf("after the answers: got %q", later)
	}
}

// await waits for a number of records.
func (l *lines) await(t *testing.T, number int) {
	t.Helper()
	for range 500 {
		l.mu.Lock()
		found := strings.Count(l.text.String(), "\n")
		l.mu.Unlock()
		if found >= number {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("fewer than %d records", number)
}
