package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gke-inference/gateway/internal/paths"
)

// typedEvents reads the data of events, and checks that each has its type as its name.
func typedEvents(t *testing.T, out string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for _, one := range strings.Split(strings.TrimSpace(out), "\n\n") {
		name, data, _ := strings.Cut(one, "\n")
		var event map[string]any
		if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &event); err != nil || name != fmt.Sprint("event: ", event["type"]) {
			t.Fatalf("%q: %v", one, err)
		}
		found = append(found, event)
	}
	return found
}

func event(kind, fields string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, fields)
}

func quotedText(text string) string {
	made, _ := json.Marshal(text) // a text can always be encoded
	return string(made)
}

// message returns a stream with a text and a call, as vLLM sends it.
func message(text, arguments string) string {
	var made strings.Builder
	made.WriteString(event("message_start", `"message":{"id":"chatcmpl-4bf92f3577b34da6","type":"message","role":"assistant","content":[],`+
		`"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":0}}`))
	made.WriteString(event("content_block_start", `"content_block":{"type":"text","text":""},"index":0`))
	for _, word := range strings.SplitAfter(text, " ") {
		made.WriteString(event("content_block_delta", `"delta":{"type":"text_delta","text":`+quotedText(word)+`},"index":0`))
	}
	made.WriteString(event("content_block_stop", `"index":0`))
	made.WriteString(event("content_block_start",
		`"content_block":{"type":"tool_use","id":"chatcmpl-tool-4bf92f3577b34da6","name":"look","input":{}},"index":1`))
	for _, part := range strings.SplitAfter(arguments, " ") {
		made.WriteString(event("content_block_delta", `"delta":{"type":"input_json_delta","partial_json":`+quotedText(part)+`},"index":1`))
	}
	made.WriteString(event("content_block_stop", `"index":1`))
	made.WriteString(event("message_delta", `"delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":5,"output_tokens":9}`))
	made.WriteString("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	return made.String()
}

// response returns a stream of the Responses API, which repeats its text in the last events.
func response(text string) string {
	var made strings.Builder
	sent := 0
	add := func(kind, fields string) {
		made.WriteString(event(kind, fields+fmt.Sprintf(`,"sequence_number":%d`, sent)))
		sent++
	}
	head := `"response":{"id":"resp_4bf92f3577b34da6","object":"response","created_at":1,"model":"m","status":"%s","output":[%s]}`
	where := `"item_id":"msg_4bf92f3577b34da6","output_index":0,"content_index":0,`
	add("response.created", fmt.Sprintf(head, "in_progress", ""))
	for _, word := range strings.SplitAfter(text, " ") {
		add("response.output_text.delta", where+`"logprobs":[],"delta":`+quotedText(word))
	}
	add("response.output_text.done", where+`"logprobs":[],"text":`+quotedText(text))
	item := `{"type":"message","id":"msg_4bf92f3577b34da6","role":"assistant","status":"completed","content":[` +
		`{"type":"output_text","annotations":[],"logprobs":null,"text":` + quotedText(text) + `}]}`
	add("response.completed", fmt.Sprintf(head, "completed", item))
	return made.String()
}

// passed sends a stream through the guard, in pieces of a size.
func passed(t *testing.T, path, body string, size int) (string, *service) {
	t.Helper()
	guard := start(t)
	stream := NewStream(context.Background(), path, guard.checks("closed", counts{}))
	var out strings.Builder
	for at := 0; at < len(body); at += size {
		out.Write(stream.Pass([]byte(body[at:min(len(body), at+size)])))
	}
	out.Write(stream.Rest())
	return out.String(), guard
}

// textOf joins the texts of the deltas of a kind.
func textOf(events []map[string]any, field string) string {
	text := ""
	for _, one := range events {
		switch delta := one["delta"].(type) {
		case string:
			text += delta
		case map[string]any:
			part, _ := delta[field].(string)
			text += part
		}
	}
	return text
}

func TestAMessagesTextsPassOrAreMaskedWhereverTheyAre(t *testing.T) {
	text, arguments := strings.Repeat("all is well here, ", 60)+"4111 1111 1111 1111 and more", `{"card": "4111 1111 1111 1111"}`
	for _, size := range []int{7, 1 << 20} {
		out, _ := passed(t, paths.Messages, message(text, arguments), size)
		events := typedEvents(t, out)
		if got := textOf(events, "text"); got != card.ReplaceAllString(text, "<CARD>") {
			t.Errorf("got %q", got)
		}
		if got := textOf(events, "partial_json"); got != `{"card": "<CARD>"}` {
			t.Errorf("got %q", got)
		}
		if last := events[len(events)-1]["type"]; last != "message_stop" || strings.Contains(out, "4111") {
			t.Errorf("ends with %v", last)
		}
	}
}

func TestAPingInsideATextDoesNotSplitItsCheck(t *testing.T) {
	delta := func(text string) string {
		return event("content_block_delta", `"delta":{"type":"text_delta","text":`+quotedText(text)+`},"index":0`)
	}
	ping := event("ping", `"x":"forbidden"`)
	out, _ := passed(t, paths.Messages, delta("card 4111 1111 ")+ping+delta("1111 1111")+event("content_block_stop", `"index":0`), 1<<20)
	events := typedEvents(t, out)
	if got := textOf(events, "text"); got != "card <CARD>" {
		t.Errorf("got %q", got)
	}
	if events[0]["type"] != "ping" || strings.Contains(out, "forbidden") {
		t.Errorf("got %s", out)
	}
}

func TestABlockedMessageEndsAsARefusalInItsOpenBlock(t *testing.T) {
	clean := strings.Repeat("a clean sentence, then ", 40)
	out, _ := passed(t, paths.Messages, message(clean+"a forbidden word", "{}"), 50)
	events := typedEvents(t, out)
	var kinds []any
	for _, one := range events[len(events)-3:] {
		kinds = append(kinds, one["type"])
	}
	if fmt.Sprint(kinds) != "[content_block_stop message_delta message_stop]" || !strings.Contains(out, `"stop_reason":"refusal"`) {
		t.Errorf("got %v", kinds)
	}
	if got := textOf(events, "text"); !strings.HasPrefix(clean, got) || len(got) < len(clean)/2 {
		t.Errorf("got %q", got)
	}
}

func TestAResponseIsMaskedInEveryEventThatRepeatsItsText(t *testing.T) {
	text := strings.Repeat("all is well here, ", 60) + "4111 1111 1111 1111 and more"
	out, guard := passed(t, paths.Responses, response(text), 100)
	events, want := typedEvents(t, out), card.ReplaceAllString(text, "<CARD>")
	if got := textOf(events, ""); got != want || strings.Contains(out, "4111") {
		t.Errorf("got %q", got)
	}
	if strings.Count(out, `"text":"`+want+`"`) != 2 {
		t.Error("the last events must have the whole text")
	}
	for at, one := range events {
		if one["sequence_number"] != float64(at) {
			t.Errorf("%v: got %v, want %d", one["type"], one["sequence_number"], at)
		}
	}
	whole := 0
	for _, one := range guard.asked {
		for _, asked := range one.Messages {
			if asked.Content == want { // the guard masks in place
				whole++
			}
		}
	}
	if whole != 1 {
		t.Errorf("the whole text was checked %d times", whole)
	}
}

func TestABlockedResponseIsIncomplete(t *testing.T) {
	out, _ := passed(t, paths.Responses, response(strings.Repeat("a clean sentence, then ", 40)+"a forbidden word"), 100)
	events := typedEvents(t, out)
	last := events[len(events)-1]
	made, _ := last["response"].(map[string]any)
	if last["type"] != "response.incomplete" || made["id"] != "resp_4bf92f3577b34da6" || strings.Contains(out, "forbidden") {
		t.Errorf("got %v", last)
	}
}

func TestNamesAndUnknownEventsOfTypedStreamsAreCheckedToo(t *testing.T) {
	start := `"content_block":{"type":"tool_use","id":"chatcmpl-tool-4bf92f3577b34da6","name":"forbidden","input":{}},"index":0`
	for name, body := range map[string]string{
		"the name of a tool":        event("content_block_start", start),
		"a text of its first event": event("content_block_start", `"content_block":{"type":"text","text":"forbidden"},"index":0`),
		"an event that is new":      event("forbidden", `"x":1`),
		"a citation":                event("content_block_delta", `"delta":{"type":"citations_delta","citation":{"cited_text":"forbidden"}},"index":0`),
		"a second field":            event("content_block_delta", `"delta":{"type":"text_delta","text":"a","more":"forbidden"},"index":0`),
		"an engine's error":         event("error", `"error":{"type":"internal_error","message":"forbidden"}`),
		"no event at all":           "data: forbidden\n\n",
	} {
		if out, _ := passed(t, paths.Messages, body, 1<<20); strings.Contains(out, "forbidden") || out == "" {
			t.Errorf("%s: got %s", name, out)
		}
	}
}
