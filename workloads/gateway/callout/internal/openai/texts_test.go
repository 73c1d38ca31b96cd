package openai

import (
	"slices"
	"strings"
	"testing"
)

func contents(found []Text) []string {
	all := make([]string, len(found))
	for at, one := range found {
		all[at] = one.Role + ":" + one.Content
	}
	return all
}

func TestTheTextsOfAPromptAreFoundWhereverAPathHasThem(t *testing.T) {
	for body, want := range map[string][]string{
		`{"model":"m","messages":[{"content":"a","role":"user"},{"role":"system","content":[{"type":"text","text":"b"},` +
			`{"type":"image_url","image_url":{"url":"data:x"}}]}]}`: {"user:a", "system:b"},
		`{"model":"m","prompt":["a","b"],"suffix":"c","stop":"d"}`:                {":a", ":b", ":c"},
		`{"input":[{"role":"user","content":[{"text":"a"}]}],"instructions":"b"}`: {"user:a", ":b"},
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"i","function":{"name":"f","arguments":"{\"q\":1}"}}]}]}`: {"assistant:f",
			`assistant:{"q":1}`},
		`{"messages":[{"role":"system","con\u0074ent":"a","role":"user"}]}`: {"user:a"},
		`{"query":"q","documents":[{"text":"d"},"e"]}`:                      {":q", ":d", ":e"},
	} {
		found, fault := PromptTexts([]byte(body))
		if fault != nil || !slices.Equal(contents(found), want) {
			t.Errorf("%s: got %q, %v", body, contents(found), fault)
		}
	}
}

func TestPromptsThatNoGuardCanReadAreRefused(t *testing.T) {
	for _, body := range []string{
		`{"prompt":[1,2,3]}`, `{"input":[[1],[2]]}`, `{"prompt":"a","prompt_embeds":"AAAA"}`, `{"prompt_token_ids":[1]}`, `{"prompt":"a","input_ids":[1]}`,
	} {
		if _, fault := PromptTexts([]byte(body)); fault == nil || fault.Code != "invalid_type" {
			t.Errorf("%s: got %v", body, fault)
		}
	}
	if _, fault := PromptTexts([]byte(`{"prompt":"a","max_tokens":7,"temperature":0.5}`)); fault != nil {
		t.Errorf("got %v", fault)
	}
}

func TestOtherTextsTakeTheirPlacesAndNothingElseChanges(t *testing.T) {
	body := []byte(`{ "model":"m", "messages":[ {"role":"user","content":"caf\u00e9 a@b.de"}, {"content":"plain","role":"user"} ],"n":1.0 }`)
	found, _ := PromptTexts(body)
	got := string(Splice(body, found, []string{"café <EMAIL>", "plain"}))
	want := `{ "model":"m", "messages":[ {"role":"user","content":"café <EMAIL>"}, {"content":"plain","role":"user"} ],"n":1.0 }`
	if got != want {
		t.Errorf("got %s", got)
	}
	if same := Splice(body, found, []string{found[0].Content, "plain"}); &same[0] != &body[0] {
		t.Error("a body without changes was copied")
	}
}

func TestAnAnswerThatIsFilteredHasNoTextLeft(t *testing.T) {
	for body, want := range map[string]string{
		`{"choices":[{"index":0,"message":{"content":"bad","tool_calls":[{"id":"1","function":{"arguments":"bad"}}]},"finish_reason":"stop"}],"usage":{"total_tokens":12345678901234567}}`: `{"choices":[{"finish_reason":"content_filter","index":0,"message":{"content":""}}],"usage":{"total_tokens":12345678901234567}}`,
		`{"output":[{"type":"message","content":[{"type":"output_text","text":"bad"}]}],"status":"completed"}`:                                                                             `{"incomplete_details":{"reason":"content_filter"},"output":[{"content":[{"text":"","type":"output_text"}],"type":"message"}],"status":"incomplete"}`,
		`{"content":[{"type":"text","text":"bad"}],"stop_reason":"end_turn"}`:                                                                                                              `{"content":[{"text":"","type":"text"}],"stop_reason":"refusal"}`,
	} {
		found, isReadable := AnswerTexts([]byte(body))
		if !isReadable || len(found) == 0 {
			t.Fatalf("%s: got %v", body, found)
		}
		if got := string(FilteredAnswer(Splice([]byte(body), found, make([]string, len(found))))); got != want {
			t.Errorf("got %s", got)
		}
	}
	for _, body := range []string{``, `[1]`, `{"choices":[`, `plain`} {
		if _, isReadable := AnswerTexts([]byte(body)); isReadable {
			t.Errorf("%q was read", body)
		}
	}
}

func TestAnAnswerThatWouldPassAGuardInAnotherFormIsRefused(t *testing.T) {
	for _, one := range []struct {
		path     string
		isStream bool
		body     string
		param    string
	}{
		{"/v1/chat/completions", true, `{}`, ""},
		{"/v1/completions", false, `{"logprobs":0}`, "logprobs"},
		{"/v1/chat/completions", false, `{"logprobs":false,"top_logprobs":null}`, ""},
		{"/v1/chat/completions", false, `{"return_token_ids":true}`, "return_token_ids"},
		{"/v1/responses", true, `{}`, "stream"},
		{"/v1/messages", false, `{}`, ""},
	} {
		fault := CheckedAnswer(one.path, one.isStream, []byte(one.body))
		if got := fault != nil; got != (one.param != "") || (got && (fault.Param != one.param || !strings.Contains(fault.Message, "guardrail"))) {
			t.Errorf("%+v: got %v", one, fault)
		}
	}
}
