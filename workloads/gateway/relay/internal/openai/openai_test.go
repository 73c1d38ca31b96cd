package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"gke-inference/gateway/internal/tokens"
)

func known(string) tokens.Model { return tokens.Model{Context: 1000, IsAssumed: true} }

func parsed(t *testing.T, body string) *Request {
	t.Helper()
	request, refused := ParseRequest("completions", []byte(body), known)
	if refused != nil {
		t.Fatal(refused)
	}
	return request
}

func TestATargetReadsItsOwnNameOfTheModelAndNothingElseChanges(t *testing.T) {
	request := parsed(t, `{"model":"mine","messages":[{"role":"user","content":"<é>"}],"x":1.50}`)
	if got := string(request.For("theirs")); got != `{"messages":[{"role":"user","content":"<é>"}],"model":"theirs","x":1.50}` {
		t.Fatal(got)
	}
}

func TestTheSaltOfAPoolsEnginesDoesNotReachAProvider(t *testing.T) {
	request := parsed(t, `{"model":"mine","cache_salt":"s","x":1}`)
	request.DropCacheSalt()
	if got := string(request.For("theirs")); got != `{"model":"theirs","x":1}` {
		t.Fatal(got)
	}
}

func TestAStreamIsAskedForItsUsage(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m","stream":true}`: `{"include_usage":true}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":false,"other":1}}`: `{"include_usage":true,"other":1}`,
		`{"model":"m","stream":true,"stream_options":null}`:                              `{"include_usage":true}`,
	} {
		var found map[string]json.RawMessage
		if err := json.Unmarshal(parsed(t, body).For("m"), &found); err != nil {
			t.Fatal(err)
		}
		if string(found["stream_options"]) != want {
			t.Errorf("%s: got %s", body, found["stream_options"])
		}
	}
}

func TestABodyThatIsWrongIsRefused(t *testing.T) {
	for body, code := range map[string]string{
		``: "invalid_json", `[]`: "invalid_json", `null`: "invalid_json", `{}`: "invalid_type", `{"model":7}`: "invalid_type",
		`{"model":"m","stream":"yes"}`:                                     "invalid_type",
		`{"model":"m","stream_options":[]}`:                                "invalid_type",
		`{"model":"m","stream":true,"stream_options":{"include_usage":1}}`: "invalid_type",
	} {
		if _, refused := ParseRequest("completions", []byte(body), known); refused == nil || refused.Code != code || refused.Status != 400 {
			t.Errorf("%s: got %v", body, refused)
		}
	}
}

const (
	first = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n"
	usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7}}\r\n\r\n"
	last  = "data: [DONE]\n\n"
)

func streamed(t *testing.T, strips bool, body string) (string, Usage) {
	t.Helper()
	var used []Usage
	request := parsed(t, `{"model":"m","stream":true,"prompt":"twelve bytes"}`)
	stream := NewStream(io.NopCloser(strings.NewReader(body)), request, strips, func(u Usage) { used = append(used, u) })
	passed, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	stream.Close()
	stream.Close()
	if len(used) != 1 {
		t.Fatalf("ended %d times", len(used))
	}
	return string(passed), used[0]
}

func TestTheEventWithOnlyTheUsageIsTakenOutWhereNobodyAskedForIt(t *testing.T) {
	passed, used := streamed(t, true, first+usage+last)
	if passed != first+last || used != (Usage{Input: 5, Output: 7}) {
		t.Fatal(passed, used)
	}
}

func TestTheEventWithOnlyTheUsageStaysWhereSomebodyReadsIt(t *testing.T) {
	passed, used := streamed(t, false, first+usage+last)
	if passed != first+usage+last || used != (Usage{Input: 5, Output: 7}) {
		t.Fatal(passed, used)
	}
}

func TestAnEventWithUsageAndChoicesAlwaysStays(t *testing.T) {
	both := "data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n"
	passed, used := streamed(t, true, both+last)
	if passed != both+last || used != (Usage{Input: 1, Output: 2}) {
		t.Fatal(passed, used)
	}
}

func TestTheUsageOfEventsIsOfTheirOwnChoice(t *testing.T) {
	event := func(index, made int) string {
		return fmt.Sprintf(`data: {"choices":[{"index":%d}],"usage":{"prompt_tokens":5,"completion_tokens":%d}}`+"\n\n", index, made)
	}
	var used Usage
	request := parsed(t, `{"model":"m","stream":true,"n":2,"prompt":"twelve bytes"}`)
	body := event(0, 1) + event(1, 300) + event(0, 200)
	stream := NewStream(io.NopCloser(strings.NewReader(body)), request, true, func(u Usage) { used = u })
	if _, err := io.ReadAll(stream); err != nil {
		t.Fatal(err)
	}
	stream.Close()
	if used != (Usage{Input: 5, Output: 500}) {
		t.Fatal(used)
	}
}

func TestAStreamThatIsCutIsCountedByItsEvents(t *testing.T) {
	passed, used := streamed(t, true, first+first+"data: {\"cho")
	if passed != first+first+"data: {\"cho" || !used.IsGuess || used.Output != 2 || used.Input != 3 {
		t.Fatal(passed, used)
	}
}

func TestAnEventThatIsLargerThanAnyBufferPasses(t *testing.T) {
	large := "data: {\"choices\":[{\"delta\":\"" + strings.Repeat("x", 6<<20) + "\"}]}\n\n"
	if passed, _ := streamed(t, true, large+usage+last); passed != large+last {
		t.Fatal(len(passed))
	}
}

func TestTheUsageOfAWholeAnswerIsReadAndTheAnswerUnchanged(t *testing.T) {
	body := `{"choices":[{}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`
	var used Usage
	whole := NewWhole(io.NopCloser(strings.NewReader(body)), parsed(t, `{"model":"m"}`), func(u Usage) { used = u })
	passed, _ := io.ReadAll(whole)
	whole.Close()
	if string(passed) != body || used != (Usage{Input: 3, Output: 4}) {
		t.Fatal(string(passed), used)
	}
}

func TestWhatARequestMayUseIsNotForTheClientToBend(t *testing.T) {
	for body, want := range map[string]int64{
		`{"model":"m"}`:                 1000,
		`{"model":"m","max_tokens":10}`: 10,
		`{"model":"m","max_tokens":10,"max_completion_tokens":20}`:          20,
		`{"model":"m","max_tokens":10,"n":3}`:                               30,
		`{"model":"m","max_tokens":10,"n":3,"best_of":5}`:                   50,
		`{"model":"m","max_tokens":10,"n":null,"prompt":["a","b"]}`:         20,
		`{"model":"m","max_tokens":10,"prompt":[1,2,3]}`:                    10,
		`{"model":"m","max_tokens":10,"prompt":[[1,2],[3],[4]]}`:            30,
		`{"model":"m","max_tokens":0,"prompt":"only the prompt is scored"}`: 1,
	} {
		if got := parsed(t, body).Guess().Output; got != want {
			t.Errorf("%s: got %d, want %d", body, got, want)
		}
	}
	for _, field := range []string{
		`"max_tokens":-1`, `"max_completion_tokens":-1000000`, `"max_tokens":9000000000000000000`, `"max_tokens":1e300`,
		`"max_tokens":1.5`, `"max_tokens":"1"`, `"n":0`, `"n":100000`, `"best_of":-3`,
	} {
		if _, refused := ParseRequest("completions", []byte(`{"model":"m",`+field+`}`), known); refused == nil || refused.Status != 400 {
			t.Errorf("%s: must be refused, got %v", field, refused)
		}
	}
}

func TestAStreamThatIsCutCountsItsTokensWhateverTheNameOfItsModel(t *testing.T) {
	for _, name := range []string{"llama", strings.Repeat("m", 60)} {
		event := `data: {"id":"chatcmpl-4bf92f3577b34da6a3ce929d0e0e4736","object":"chat.completion.chunk","created":1764309600,"model":"` + name +
			`","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n"
		if _, used := streamed(t, true, strings.Repeat(event, 500)); used.Output < 400 || used.Output > 600 {
			t.Errorf("%.8s: got %+v", name, used)
		}
	}
}

func TestHalfAnAnswerCostsAllThatItsBackendMayHaveGenerated(t *testing.T) {
	var used Usage
	request := parsed(t, `{"model":"m","max_tokens":300,"prompt":"abcd"}`)
	whole := NewWhole(io.NopCloser(strings.NewReader(`{"choices":[{"text":"ab`)), request, func(u Usage) { used = u })
	if _, err := io.ReadAll(whole); err != nil {
		t.Fatal(err)
	}
	whole.Close()
	if used != (Usage{Input: 1, Output: 300, IsGuess: true}) {
		t.Fatal(used)
	}
}

func TestThoughtsThatAreInTheSumAloneAreCounted(t *testing.T) {
	body := `{"choices":[{}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":57}}`
	var used Usage
	whole := NewWhole(io.NopCloser(strings.NewReader(body)), parsed(t, `{"model":"m"}`), func(u Usage) { used = u })
	if _, err := io.ReadAll(whole); err != nil {
		t.Fatal(err)
	}
	whole.Close()
	if used != (Usage{Input: 3, Output: 54}) {
		t.Fatal(used)
	}
}

func TestAnEventWithManyTokensThatNobodyReportsIsCountedByItsText(t *testing.T) {
	event := "data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("word ", 400) + "\"}}]}\n\n"
	if _, used := streamed(t, true, event); used.Output < 400 || used.Output > 600 {
		t.Fatal(used)
	}
}
