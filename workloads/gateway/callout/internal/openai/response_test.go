package openai

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// inPieces passes a body in pieces of one size and returns what came out.
func inPieces(r *Response, body string, size int) string {
	var out bytes.Buffer
	for len(body) > 0 {
		n := min(size, len(body))
		out.Write(r.Pass([]byte(body[:n])))
		body = body[n:]
	}
	out.Write(r.Rest())
	return out.String()
}

const answer = `{"id":"x","choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":9}","usage":{"prompt_tokens":8}}}],
 "usage" : {"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2}},"after":[1]}`

func TestTheUsageOfAnAnswerIsReadInPiecesOfAnySize(t *testing.T) {
	for size := 1; size <= len(answer); size += 7 {
		r := NewResponse(false, UsageOptions{}, 1)
		if out := inPieces(r, answer, size); out != answer {
			t.Fatalf("changed in pieces of %d: %s", size, out)
		}
		if found, has := r.Usage(); !has || found != (Usage{3, 2, 4}) {
			t.Fatalf("pieces of %d: got %+v, %v", size, found, has)
		}
	}
}

func TestEveryDialectOfUsageIsRead(t *testing.T) {
	for body, want := range map[string]Usage{
		`{"usage":{"prompt_tokens":5,"total_tokens":5}}`:                                                      {5, 0, 0},
		`{"usage":{"total_tokens":6}}`:                                                                        {6, 0, 0},
		`{"usage":{"input_tokens":7,"output_tokens":2,"input_tokens_details":{"cached_tokens":1}}}`:           {7, 1, 2},
		`{"usage":{"input_tokens":7,"output_tokens":2,"cache_read_input_tokens":3}}`:                          {10, 3, 2},
		`{"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":null,"total_tokens":600}}`: {5, 0, 595},
	} {
		r := NewResponse(false, UsageOptions{}, 1)
		inPieces(r, body, 10)
		if found, has := r.Usage(); !has || found != want {
			t.Errorf("%s: got %+v, %v", body, found, has)
		}
	}
	for _, body := range []string{`{"usage":null}`, `{"usage":"x"}`, `[{"usage":{"prompt_tokens":1}}]`, `{"data":`, `}{`, ``} {
		r := NewResponse(false, UsageOptions{}, 1)
		inPieces(r, body, 3)
		if found, has := r.Usage(); has {
			t.Errorf("%s: got %+v", body, found)
		}
	}
}

func chunk(text string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", text)
}

const (
	usageEvent = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n"
	done       = "data: [DONE]\n\n"
)

func TestTheUsageOfAStreamIsReadAndHiddenWhereNobodyAsked(t *testing.T) {
	parts := chunk("a") + ": comment\n\n" + chunk(`"usage"`) + "event: x\r\n" + "data: {}\r\n\r\n"
	stream := parts + usageEvent + done
	for size := 1; size <= len(stream); size += 5 {
		for _, hides := range []bool{false, true} {
			r := NewResponse(true, UsageOptions{!hides, true}, 1)
			want := stream
			if hides {
				want = parts + done
			}
			if out := inPieces(r, stream, size); out != want {
				t.Fatalf("pieces of %d, hides %v: got %q", size, hides, out)
			}
			if found, has := r.Usage(); !has || found != (Usage{3, 0, 2}) || r.texts.Tokens() != 2 {
				t.Fatalf("pieces of %d: got %+v, %v, %d tokens", size, found, has, r.texts.Tokens())
			}
		}
	}
}

func TestAnEventPassesWhenItIsComplete(t *testing.T) {
	r := NewResponse(true, UsageOptions{}, 1)
	if out := string(r.Pass([]byte(chunk("a") + "data: {"))); out != chunk("a") {
		t.Errorf("got %q", out)
	}
	if out := string(r.Pass([]byte("}\n\n"))); out != "data: {}\n\n" {
		t.Errorf("got %q", out)
	}
}

// counted is an event with the usage so far of its choice, as vLLM sends it with
// --enable-force-include-usage.
func counted(index, prompt, completion int64) string {
	return fmt.Sprintf(`data: {"choices":[{"index":%d,"delta":{"content":"a"}}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`+"\n\n",
		index, prompt, completion)
}

func uncounted(index int64) string {
	return fmt.Sprintf(`data: {"choices":[{"index":%d,"delta":{"content":"a"}}]}`+"\n\n", index)
}

func TestTheUsageOfEventsPassesToTheClientsThatAskForIt(t *testing.T) {
	total := strings.Replace(usageEvent, "data: ", "", 1)
	for name, one := range map[string]struct {
		asked      UsageOptions
		sent, want string
	}{
		"nothing":    {UsageOptions{}, counted(0, 3, 1) + usageEvent + done, uncounted(0) + done},
		"the total":  {UsageOptions{Include: true}, counted(0, 3, 1) + usageEvent + done, uncounted(0) + usageEvent + done},
		"each event": {UsageOptions{true, true}, counted(0, 3, 1) + usageEvent + done, counted(0, 3, 1) + usageEvent + done},
		"the total, which came with the last choice": {
			UsageOptions{Include: true}, counted(0, 3, 1) + counted(0, 3, 2) + done, uncounted(0) + uncounted(0) + "data: " + total + done},
		"a usage that is null": {UsageOptions{}, "data: {\"choices\":[{}],\"usage\":null}\n\n", "data: {\"choices\":[{}],\"usage\":null}\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			for size := 1; size <= len(one.sent); size += 7 {
				if out := inPieces(NewResponse(true, one.asked, 1), one.sent, size); out != one.want {
					t.Fatalf("pieces of %d: got %q, want %q", size, out, one.want)
				}
			}
		})
	}
}

func TestAMemberOfAnEventIsTakenOutWhereverItIs(t *testing.T) {
	for event, want := range map[string]string{
		`{"usage":{"prompt_tokens":1},"choices":[{}]}`:            `{"choices":[{}]}`,
		`{"a":1, "usage" : {"prompt_tokens":1} , "choices":[{}]}`: `{"a":1, "choices":[{}]}`,
		`{"choices":[{}] , "usage":{"prompt_tokens":1} }`:         `{"choices":[{}] }`,
	} {
		r := NewResponse(true, UsageOptions{}, 1)
		if out := inPieces(r, "data: "+event+"\r\n\r\n", 100); out != "data: "+want+"\n\r\n" {
			t.Errorf("%s: got %q", event, out)
		}
	}
}

func TestAStreamThatIsCutCountsTheTokensOfAllChoicesAndOfEachPromptOnce(t *testing.T) {
	r := NewResponse(true, UsageOptions{}, 2)
	inPieces(r, counted(0, 3, 1)+counted(1, 3, 1)+counted(0, 3, 2)+counted(3, 5, 7)+counted(2, 5, 1), 11)
	if found, has := r.SoFar(); !has || found != (Usage{8, 0, 11}) {
		t.Errorf("got %+v, %v", found, has)
	}
	if _, has := r.Usage(); has {
		t.Error("a stream that is cut has no total")
	}
}

func TestTheBeginningOfAMessageCountsItsPromptAndNotItsAnswer(t *testing.T) {
	r := NewResponse(true, UsageOptions{}, 1)
	begin := `data: {"type":"message_start","message":{"usage":{"input_tokens":40,"output_tokens":0}}}` + "\n\n"
	inPieces(r, begin+strings.Repeat(`data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`+"\n\n", 9), 50)
	if found, has := r.SoFar(); has || found != (Usage{40, 0, 9}) {
		t.Errorf("got %+v, %v", found, has)
	}
	if _, has := r.Usage(); has {
		t.Error("the beginning of a message is no total")
	}
}

func TestOtherStreamsHaveUsageInTheirLastEvents(t *testing.T) {
	responses := "event: response.completed\n" + `data: {"response":{"usage":{"input_tokens":4,"output_tokens":5}}}` + "\n\n"
	messages := `data: {"message":{"usage":{"input_tokens":4,"output_tokens":1}}}` + "\n\n" +
		`data: {"usage":{"output_tokens":5}}` + "\n\n"
	for _, stream := range []string{responses, messages} {
		r := NewResponse(true, UsageOptions{}, 1)
		if out := inPieces(r, stream, 9); out != stream {
			t.Errorf("got %q", out)
		}
		if found, has := r.Usage(); !has || found != (Usage{4, 0, 5}) {
			t.Errorf("got %+v, %v", found, has)
		}
	}
}

func TestAnEventTooLargeToHoldPassesUnread(t *testing.T) {
	large := "data: " + strings.Repeat("x", maxEventBytes) + "\n\n"
	stream := large + usageEvent + done
	r := NewResponse(true, UsageOptions{}, 1)
	if out := inPieces(r, stream, 60_000); out != large+done {
		t.Errorf("got %d bytes, want %d", len(out), len(large+done))
	}
	if found, _ := r.Usage(); found != (Usage{3, 0, 2}) {
		t.Errorf("got %+v", found)
	}
}
