package extproc

import (
	"encoding/json"
	"strings"
	"testing"
)

const twoModels = `
region: us-central1
replicas: 1
anonymous: true
teams: {anonymous: {models: [m, plain]}}
models: {m: {cache_salt_paths: [/v1/completions]}}
`

func TestOnlyRequestsToEnginesThatKnowItGetTheSaltOfTheirTeam(t *testing.T) {
	client, _ := gatewayOf(t, twoModels)
	salts := map[string]string{}
	for _, one := range []struct{ name, path, body string }{
		{"salted", "/v1/completions", `{"model":"m","prompt":"` + strings.Repeat("x", 100_000) + `"}`},
		{"again", "/v1/completions", `{"model":"m","prompt":"p"}`},
		{"own", "/v1/completions", `{"model":"m","prompt":"p","cache_salt":"mine"}`},
		{"other path", "/v1/chat/completions", `{"model":"m","messages":[]}`},
		{"other model", "/v1/completions", `{"model":"plain","prompt":"p"}`},
		{"unchanged", "/v1/completions", `{"model":"plain","prompt":"p","cache_salt":"mine"}`},
	} {
		c := begin(t, client)
		c.send(asked(false, ":path", one.path, "content-length", "9"), requestBody(one.body, true))
		mutation := c.receive().GetRequestHeaders().GetResponse().GetHeaderMutation()
		var passed strings.Builder
		for {
			part := c.receive().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
			passed.Write(part.GetBody())
			if part.GetEndOfStream() {
				break
			}
		}
		var got struct {
			Salt string `json:"cache_salt"`
		}
		if err := json.Unmarshal([]byte(passed.String()), &got); err != nil {
			t.Fatal(err)
		}
		salts[one.name] = got.Salt
		isLengthRemoved := strings.Contains(strings.Join(mutation.GetRemoveHeaders(), ","), "content-length")
		if isChanged := passed.String() != one.body; isChanged != isLengthRemoved {
			t.Errorf("%s: changed %v, length removed %v", one.name, isChanged, isLengthRemoved)
		}
		c.end()
	}
	if salts["salted"] == "" || salts["salted"] != salts["again"] || salts["own"] == salts["salted"] || salts["own"] == "mine" {
		t.Errorf("got %v", salts)
	}
	if salts["other path"] != "" || salts["other model"] != "" || salts["unchanged"] != "mine" {
		t.Errorf("got %v", salts)
	}
	c := begin(t, client)
	status, body, _ := refusal(t, c.stream, asked(false), requestBody(`{"model":"m","prompt":"p","cache_salt":7}`, true))
	if status != 400 || !strings.Contains(body, `"param":"cache_salt"`) {
		t.Errorf("got %d %s", status, body)
	}
}
