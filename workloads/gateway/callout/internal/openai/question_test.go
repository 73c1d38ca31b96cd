package openai

import "testing"

func TestAQuestionIsTheLastMessageAndItsContextIsTheRest(t *testing.T) {
	equal := []string{
		`{"model":"m","messages":[{"role":"user","content":"Why?"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"Why?"}]}],"model":"m"}`,
		`{"model":"m","messages":[{"role":"user","content":"Why?"}],"stream":true,"user":"u","n":null}`,
	}
	first, _ := ParseQuestion([]byte(equal[0]))
	for _, body := range equal {
		found, fits := ParseQuestion([]byte(body))
		if !fits || found.Text != "Why?" || string(found.Context) != string(first.Context) {
			t.Errorf("%s: got %q with %s, %t", body, found.Text, found.Context, fits)
		}
	}
	for _, body := range []string{
		`{"model":"m2","messages":[{"role":"user","content":"Why?"}]}`,
		`{"model":"m","messages":[{"role":"user","content":"Why?"}],"temperature":1}`,
		`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"Why?"}]}`,
	} {
		if found, fits := ParseQuestion([]byte(body)); !fits || string(found.Context) == string(first.Context) {
			t.Errorf("%s: must have a context of its own, got %s, %t", body, found.Context, fits)
		}
	}
}

func TestWhatIsNoSingleTextOfAUserIsNoQuestion(t *testing.T) {
	for _, body := range []string{
		`{"messages":[]}`,
		`{"messages":"Why?"}`,
		`{"messages":[{"role":"assistant","content":"Because."}]}`,
		`{"messages":[{"role":"user","content":""}]}`,
		`{"messages":[{"role":"user","content":"Why?","Content":"Another one?"}]}`,
		`{"messages":[{"role":"user","Content":"Why?"}]}`,
		`{"messages":[{"role":"user","content":"Why?","name":"ada"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"Why?","Text":"Not that?"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`,
		`{"messages":[{"role":"user","content":"Why?"}],"n":2}`,
		`{"messages":[{"role":"user","content":"Why?"}],"logprobs":true}`,
		`{"messages":[{"role":"user","content":"Why?"}],"tools":[{"type":"function"}]}`,
	} {
		if _, fits := ParseQuestion([]byte(body)); fits {
			t.Errorf("%s: must not be a question", body)
		}
	}
}

func TestACollectorKeepsPlainAnswersThatEndedByThemselves(t *testing.T) {
	cases := []struct {
		name, body, text string
		isStream, isFit  bool
	}{
		{"whole", `{"choices":[{"index":0,"message":{"role":"assistant","content":"Yes.","tool_calls":[]},"finish_reason":"stop"}]}`, "Yes.", false, true},
		{"cut at its length", `{"choices":[{"index":0,"message":{"content":"Ye"},"finish_reason":"length"}]}`, "Ye", false, false},
		{"two choices", `{"choices":[{"index":0},{"index":1}]}`, "", false, false},
		{"a call of a tool", `{"choices":[{"index":0,"message":{"content":null,"tool_calls":[{"id":"1"}]},"finish_reason":"tool_calls"}]}`, "", false, false},
		{"thoughts", `{"choices":[{"index":0,"message":{"content":"Yes.","reasoning_content":"Hm."},"finish_reason":"stop"}]}`, "Yes.", false, false},
		{"a stream", "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Y\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"es.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", "Yes.", true, true},
		{"a stream that broke", "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Y\"}}]}\n\n", "Y", true, false},
		{"an error in a stream", "data: {\"error\":{\"message\":\"x\"}}\n\n", "", true, false},
		{"not JSON", `<html>`, "", false, false},
	}
	for _, c := range cases {
		for size := 1; size <= len(c.body); size += 7 {
			collector := NewCollector(c.isStream)
			for at := 0; at < len(c.body); at += size {
				collector.Write([]byte(c.body[at:min(len(c.body), at+size)]))
			}
			text, isFit := collector.Text()
			if isFit != c.isFit || (isFit && text != c.text) {
				t.Errorf("%s in pieces of %d: got %q, %t", c.name, size, text, isFit)
			}
		}
	}
}
