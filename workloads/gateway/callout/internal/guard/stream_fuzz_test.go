package guard

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"gke-inference/gateway/internal/paths"
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

// typedStreamed are those of streams whose events have a type.
var typedStreamed = map[string][]string{
	paths.Messages: {
		`{"type":"message_start","message":{"id":"chatcmpl-4bf92f3577b34da6","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":0}}}`,
		`{"type":"content_block_start","content_block":{"type":"tool_use","id":"chatcmpl-tool-4bf92f3577b34da6","name":"f","input":{}},"index":0}`,
		`{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"},"index":0}`,
		`{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"a"},"index":0}`,
		`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"a"},"index":1}`,
		`{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"a"},"index":0}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"x"},"usage":{"input_tokens":5,"output_tokens":9}}`,
		`{"type":"error","error":{"type":"internal_error","message":"e"}}`,
	},
	paths.Responses: {
		`{"type":"response.created","sequence_number":0,"response":{"id":"resp_4bf92f3577b34da6","object":"response","model":"m","instructions":"i","status":"in_progress","output":[],"tools":[{"type":"function","name":"f"}]}}`,
		`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_4bf92f3577b34da6","type":"message","role":"assistant","status":"in_progress","content":[]}}`,
		`{"type":"response.output_text.delta","sequence_number":2,"item_id":"msg_4bf92f3577b34da6","output_index":0,"content_index":0,"delta":"a","logprobs":[]}`,
		`{"type":"response.function_call_arguments.delta","sequence_number":3,"item_id":"fc_4bf92f3577b34da6","output_index":0,"delta":"a"}`,
		`{"type":"response.reasoning_text.delta","sequence_number":4,"item_id":"rs_4bf92f3577b34da6","output_index":0,"content_index":0,"delta":"a"}`,
		`{"type":"response.output_text.done","sequence_number":5,"item_id":"msg_4bf92f3577b34da6","output_index":0,"content_index":0,"text":"a","logprobs":[]}`,
		`{"type":"response.completed","sequence_number":6,"response":{"id":"resp_4bf92f3577b34da6","object":"response","model":"m","status":"completed","output":[{"type":"message","id":"msg_4bf92f3577b34da6","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[],"logprobs":null}]}],"usage":{"input_tokens":1,"output_tokens":2}}}`,
	},
}

func TestNothingThatABlockingGuardDidNotSeePassesInAStream(t *testing.T) {
	guard, counted := start(t), counts{}
	path, ending := paths.Chats, stop+done
	pass := func(where string, event any) {
		body, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		stream := NewStream(context.Background(), path, guard.checks("closed", counted))
		out := string(stream.Pass([]byte("data: "+string(body)+"\n\n"+ending))) + string(stream.Rest())
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
	each := func(event string) {
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
	for _, event := range streamed {
		each(event)
	}
	ending = ""
	for typed, events := range typedStreamed {
		path = typed
		for _, event := range events {
			each(event)
		}
	}
	if counted["house block"] == 0 || counted["house allow"] == 0 {
		t.Errorf("got %v", counted)
	}
}
