package guard

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// streamed are events with every kind of content.
var streamed = []string{
	`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"v","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}`,
	`{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a","reasoning":"b"},"logprobs":{"content":[{"token":"a"}]},"token_ids":[1],"finish_reason":null}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`,
	`{"object":"text_completion","choices":[{"index":0,"text":"a","stop_reason":"x","finish_reason":"stop"}],"usage":{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":1}}}`,
	`{"choices":[],"usage":{"total_tokens":9}}`,
	`{"error":{"message":"e","type":"t","code":500}}`,
}

func TestNothingThatABlockingGuardDidNotSeePassesInAStream(t *testing.T) {
	guard, counted := start(t), counts{}
	pass := func(where string, event any) {
		body, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		stream := NewStream(context.Background(), guard.checks("closed", counted))
		out := string(stream.Pass([]byte("data: "+string(body)+"\n\n"+stop+done))) + string(stream.Rest())
		if strings.Contains(out, "forbidden") {
			t.Errorf("%s of %s passes: %s", where, body, out)
		}
	}
	var visit func(root any, where string, value any, set func(any))
	visit = func(root any, where string, value any, set func(any)) {
		for _, other := range []any{"a forbidden text", []any{map[string]any{"a forbidden name": "a forbidden text"}}} {
			set(other)
			pass(where, root)
		}
		set(value)
		switch found := value.(type) {
		case map[string]any:
			for _, name := range []string{"a forbidden name", "logprobs", "extra"} {
				if _, has := found[name]; !has {
					found[name] = "a forbidden text"
					pass(where+"."+name, root)
					delete(found, name)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(found)) {
				visit(root, where+"."+name, found[name], func(other any) { found[name] = other })
			}
		case []any:
			for at, inner := range found {
				visit(root, where+"[]", inner, func(other any) { found[at] = other })
			}
		}
	}
	for _, event := range streamed {
		var root map[string]any
		if err := json.Unmarshal([]byte(event), &root); err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(root)) {
			visit(root, name, root[name], func(other any) { root[name] = other })
		}
		root["a forbidden name"] = "a forbidden text"
		pass("a field", root)
	}
	if counted["house block"] == 0 || counted["house allow"] == 0 {
		t.Errorf("got %v", counted)
	}
}
