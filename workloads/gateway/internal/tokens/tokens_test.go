package tokens

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The table is written by tests/unit/clients/usage_table.py from the simulated engine.
func TestARequestReservesWhatAnyEngineReports(t *testing.T) {
	content, err := os.ReadFile("testdata/usage.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		Context int64
		Rows    []struct {
			Path           string
			Body           json.RawMessage
			Prompt, Answer int64
		}
	}
	if err := json.Unmarshal(content, &table); err != nil || len(table.Rows) < 300 {
		t.Fatal(len(table.Rows), err)
	}
	for _, model := range []Model{{Context: table.Context}, {Context: 1 << 17, IsAssumed: true}} {
		for _, row := range table.Rows {
			size, err := Of(row.Path, row.Body, model)
			if err != nil {
				t.Fatalf("%s: %v", row.Body, err)
			}
			isEnough := size.Most >= row.Prompt+row.Answer && size.MostPrompt >= row.Prompt && size.MostAnswer >= row.Answer
			if !isEnough || size.Most > size.MostPrompt+size.MostAnswer {
				t.Errorf("%s %.300s: reserves %+v, the engine can report %d and %d", row.Path, row.Body, size, row.Prompt, row.Answer)
			}
		}
	}
}

func TestTheSizeOfARequestIsThatOfItsLongestReading(t *testing.T) {
	for _, one := range []struct {
		path, body   string
		most, answer int64
	}{
		{"/v1/completions", `{"prompt":[1,2,3],"max_tokens":100}`, 103, 100},
		{"/v1/completions", `{"prompt":[1,2,3],"max_tokens":100,"max_completion_tokens":1}`, 103, 100},
		{"/v1/completions", `{"prompt":[[1,2],[3],[4]],"max_tokens":10,"n":2}`, 64, 60},
		{"/v1/completions", `{"prompt":[1,2,3],"n":3,"best_of":5,"max_tokens":10}`, 53, 50},
		{"/v1/completions", `{"prompt":[1,2,3]}`, 1000, 997},
		{"/v1/completions", `{"prompt":[1,2,3],"max_tokens":null}`, 1000, 997},
		{"/v1/completions", `{"prompt":[1,2,3],"max_tokens":0,"echo":true}`, 4, 1},
		{"/v1/completions", `{"prompt":[1,2,3],"max_tokens":99999}`, 1000, 997},
		{"/v1/completions", `{"prompt":["\u00e9","b"],"suffix":"cd","max_tokens":1}`, 2 + 1 + 2*(8+2) + 2, 2},
		{"/v1/responses", `{"input":"a","max_output_tokens":100,"max_completion_tokens":0}`, 100 + 63 + 512, 100},
		{"/v1/completions", `{"prompt":[1,2,3],"max_completion_tokens":1,"max_output_tokens":1}`, 1000, 997},
		{"/v1/responses", `{"input":"a","max_tokens":1,"max_completion_tokens":1}`, 1000, 999},
		{"/v1/messages", `{"messages":[],"max_completion_tokens":1}`, 1000, 999},
		{"/v1/chat/completions", `{"messages":[],"max_tokens":0}`, 1000, 999},
		{"/v1/chat/completions", `{"messages":[],"max_tokens":0,"max_completion_tokens":0}`, 1000, 999},
		{"/v1/chat/completions", `{"messages":[],"max_tokens":0,"max_completion_tokens":2}`, 2 + 512 + 56, 2},
		{"/v1/chat/completions", `{"messages":[],"max_output_tokens":1}`, 1000, 999},
		{"/v1/chat/completions", `{"messages":[]}`, 1000, 999},
		{"/v1/chat/completions", `{"messages":[],"n":2}`, 1 + 2*999, 2 * 999},
		{"/v1/chat/completions", `{"max_tokens":1,"messages":[{"content":[{"image_url":"data:image/png;base64,AA=="}]}]}`, 1000, 1},
		{"/v1/chat/completions", `{"max_tokens":1,"messages":[],"chat_template":"{{ x }}"}`, 1000, 1},
		{"/v1/responses", `{"max_output_tokens":1,"input":"a","previous_response_id":"r"}`, 1000, 1},
		{"/v1/embeddings", `{"input":[[1,2],[3]],"max_tokens":50}`, 3, 0},
		{"/v1/score", `{"text_1":"aaaa","text_2":["b","c","d"]}`, 3*4 + 3 + 3*128, 0},
		{"/v1/images/generations", `{"prompt":"abcd","n":4}`, 23, 0},
		{"/v1/images/edits", `{"prompt":"abcd","n":4,"images":[{"image_url":"data:image/png;base64,AAAA"}],"mask":null}`, 41, 0},
	} {
		size, err := Of(one.path, []byte(one.body), Model{Context: 1000})
		if err != nil || size.Most != one.most || size.MostAnswer != one.answer {
			t.Errorf("%s %s: got %+v, %v", one.path, one.body, size, err)
		}
	}
}

func TestAModelThatNobodyKnowsLimitsOnlyAnswersWithoutALimit(t *testing.T) {
	model := Model{Context: 1000, IsAssumed: true}
	for body, most := range map[string]int64{
		`{"prompt":[1,2],"max_tokens":5000}`: 5002,
		`{"prompt":[1,2]}`:                   1000,
	} {
		if size, err := Of("/v1/completions", []byte(body), model); err != nil || size.Most != most {
			t.Errorf("%s: got %+v, %v", body, size, err)
		}
	}
}

func TestNumbersThatWouldBreakTheCountAreRefused(t *testing.T) {
	for _, field := range []string{
		`"max_tokens":-1`, `"max_completion_tokens":-1000000`, `"max_output_tokens":9000000000000000000`, `"max_tokens":1e300`,
		`"max_tokens":1.5`, `"max_tokens":"1"`, `"max_tokens":[]`, `"n":0`, `"n":100000`, `"best_of":-3`,
	} {
		_, err := Of("/v1/completions", []byte(`{"model":"m",`+field+`}`), Model{Context: 1000})
		var wrong *Invalid
		if !errors.As(err, &wrong) || !strings.HasPrefix(field, `"`+wrong.Field+`"`) {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// oneToken has the tokens of a text, as an engine streams them.
var oneToken = strings.SplitAfter("The model reads each block of text, and finds what it needs; so one reply can be made from "+
	"parts that were seen in a batch with other users while the cache keeps what both share. ", " ")

// events returns n events of vLLM's shape with one token each, for each kind of stream.
func events(model string, n int) map[string][]string {
	found := map[string][]string{}
	head := `"id":"%s-4bf92f3577b34da6a3ce929d0e0e4736","created":1764309600,"model":"` + model + `"`
	for at := range n {
		text, _ := json.Marshal(oneToken[at%len(oneToken)])
		add := func(kind, format string, args ...any) {
			found[kind] = append(found[kind], fmt.Sprintf(format, args...))
		}
		chat := fmt.Sprintf(head, "chatcmpl") + `,"object":"chat.completion.chunk","choices":[{"index":0,"logprobs":null,"finish_reason":null,"token_ids":null,"delta":`
		add("chat", `{%s{"content":%s}}]}`, chat, text)
		add("thoughts", `{%s{"reasoning":%s}}]}`, chat, text)
		add("calls", `{%s{"tool_calls":[{"index":0,"function":{"arguments":%s}}]}}]}`, chat, text)
		add("completions", `{%s,"object":"text_completion","choices":[{"index":0,"text":%s,"logprobs":null,"finish_reason":null,"stop_reason":null}]}`,
			fmt.Sprintf(head, "cmpl"), text)
		add("responses", `{"content_index":0,"delta":%s,"item_id":"msg_%s","logprobs":[],"output_index":0,"sequence_number":%d,"type":"response.output_text.delta"}`,
			text, model, at)
		add("messages", `{"index":0,"type":"content_block_delta","delta":{"type":"text_delta","text":%s}}`, text)
	}
	return found
}

func TestAStreamThatEndsEarlyCountsItsTokensWhateverTheNameOfItsModel(t *testing.T) {
	for _, model := range []string{"llama", strings.Repeat("m", 60)} {
		for kind, stream := range events(model, 500) {
			var s Stream
			for _, event := range stream {
				s.Add([]byte(event))
			}
			if got := s.Tokens(); got < 400 || got > 600 {
				t.Errorf("%s of %.8s: 500 events with one token each count as %d", kind, model, got)
			}
		}
	}
}

func TestAnEventWithManyTokensCountsByItsText(t *testing.T) {
	var s Stream
	s.Add([]byte(`{"choices":[{"delta":{"content":"` + strings.Repeat("word ", 400) + `"}}]}`))
	if got := s.Tokens(); got < 360 || got > 480 {
		t.Errorf("got %d", got)
	}
}

func TestEventsWithoutNewTextCountNothing(t *testing.T) {
	var s Stream
	for _, event := range []string{
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}`,
		`{"type":"response.output_text.done","text":"all of it again"}`, `{"type":"response.created","response":{"instructions":"x"}}`,
		`{"choices":null}`, `[1]`, `nothing`, ``, `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null}}`,
	} {
		s.Add([]byte(event))
	}
	if got := s.Tokens(); got != 0 {
		t.Errorf("got %d", got)
	}
	s.Add([]byte(`{"choices":[{"text":"abc","logprobs":{"tokens":["a","b","c"],"token_logprobs":[0,0,0]}}]}`))
	s.Add([]byte(`{"choices":[{"delta":{"content":"abc"},"token_ids":[1,2]}]}`))
	if got := s.Tokens(); got != 5 {
		t.Errorf("got %d, want the tokens that the events list", got)
	}
}

func TestAWholeAnswerWithoutUsageCountsItsTexts(t *testing.T) {
	text := strings.Repeat("word ", 90)
	for _, body := range []string{
		`{"id":"` + text + `","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"` + text + `"}}]}`,
		`{"content":[{"type":"text","text":"` + text + `"}]}`,
	} {
		if got, isWhole := OfAnswer([]byte(body)); got != 100 || !isWhole {
			t.Errorf("%.20s: got %d, %v", body, got, isWhole)
		}
	}
	if _, isWhole := OfAnswer([]byte(`{"choices":[`)); isWhole {
		t.Error("half an answer was counted")
	}
}

func TestPromptsOfIDsVectorsMediaOrStoredTextsAreNotTexts(t *testing.T) {
	for path, bodies := range map[string]map[string]bool{
		"/v1/completions": {
			`{"prompt":"a"}`: true, `{"prompt":["a","b"]}`: true, `{"prompt":[1,2]}`: false,
			`{"prompt":[[1],[2]]}`: false, `{"prompt_embeds":"AA=="}`: false, `{"prompt":"a","prompt_embeds":null}`: true,
		},
		"/v1/chat/completions": {
			`{"messages":[{"role":"user","content":"a"}]}`:                     true,
			`{"messages":[{"role":"user","content":"a"}],"chat_template":"x"}`: false,
		},
	} {
		for body, want := range bodies {
			size, err := Of(path, []byte(body), Model{Context: 8192})
			if err != nil || size.IsText != want {
				t.Errorf("%s %s: got %+v, %v", path, body, size, err)
			}
		}
	}
}

func TestAPromptThatTheEngineDidNotCountCostsWhatPromptsLikeItDid(t *testing.T) {
	var rates Rates
	text := Size{Prompt: 100, MostPrompt: 450, Sequences: 1, IsText: true}
	ids := Size{Prompt: 100, MostPrompt: 100, Sequences: 1}
	if got := rates.Prompt("m", text); got != 100 {
		t.Errorf("got %d, want the estimate while none is measured", got)
	}
	image, err := Of("/v1/chat/completions", []byte(`{"messages":[{"role":"user","content":[
		{"type":"image_url","image_url":{"url":"data:,"}}]}]}`), Model{Context: 8192})
	if err != nil || image.IsText {
		t.Fatalf("got %+v, %v for an image", image, err)
	}
	rates.Observe("m", Size{Prompt: 200, MostPrompt: 900, Sequences: 1, IsText: true}, 120, 10, time.Second)
	rates.Observe("m", image, 1500, 10, time.Second)
	rates.Observe("m", ids, 100, 10, time.Second)
	if got := rates.Prompt("m", text); got != 60 {
		t.Errorf("got %d, want 60 percent of the estimate", got)
	}
	if got := rates.Prompt("m", ids); got != 100 {
		t.Errorf("got %d, want the exact number of token IDs", got)
	}
	if got := rates.Prompt("other", text); got != 100 {
		t.Errorf("got %d for another model", got)
	}
	rates.Observe("dense", Size{Prompt: 10, MostPrompt: 45, Sequences: 1, IsText: true}, 450, 10, time.Second)
	if got := rates.Prompt("dense", text); got != 450 {
		t.Errorf("got %d, want at most a token for each byte", got)
	}
}

func TestAnAnswerThatNobodyWaitedForCostsTheTimeThatItHeldItsEngine(t *testing.T) {
	var rates Rates
	size := Size{MostAnswer: 1000, Sequences: 2}
	if got := rates.Elapsed("m", size, time.Second); got != 1000 {
		t.Errorf("got %d, want the reservation while no answer is measured", got)
	}
	rates.Observe("m", Size{Sequences: 1}, 0, 100, 2*time.Second)
	rates.Observe("m", Size{Sequences: 2}, 0, 60, time.Second)
	rates.Observe("m", Size{Sequences: 1}, 0, 0, time.Hour)
	if got := rates.Elapsed("m", size, 2*time.Second); got != 173 { // two of (95 + 30) / 2.9 a second
		t.Errorf("got %d", got)
	}
	if got := rates.Elapsed("m", size, time.Hour); got != 1000 {
		t.Errorf("got %d, want at most the reservation", got)
	}
	if got := rates.Elapsed("other", size, 0); got != 1000 {
		t.Errorf("got %d for another model", got)
	}
}

func TestAClientCannotMakeAModelSeemSlowToPayLessForTheAnswersThatItLeaves(t *testing.T) {
	rates := Rates{}
	rates.Observe("m", Size{Sequences: 1}, 0, 100, 2*time.Second)
	for range 100 {
		rates.Observe("m", Size{Sequences: 1}, 0, 1, 5*time.Second) // single tokens after long prompts
	}
	if got := rates.Elapsed("m", Size{MostAnswer: 4000, Sequences: 1}, 4*time.Second); got != 200 {
		t.Errorf("got %d", got)
	}
	size, err := Of("/v1/completions", []byte(`{"prompt":["a","b"],"n":2,"best_of":1024,"max_tokens":1}`), Model{Context: 1000})
	if err != nil || size.Sequences != 4 || size.Choices != 2 || size.MostAnswer != 2048 {
		t.Errorf("engines that do not know best_of generate n answers: got %+v, %v", size, err)
	}
}
