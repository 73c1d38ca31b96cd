package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/internal/paths"
	"gke-inference/gateway/internal/texts"
)

// service is a guard that masks card numbers, and blocks a word.
type service struct {
	url     string
	asked   []question
	answers func(w http.ResponseWriter)
}

var card = regexp.MustCompile(`\b\d{4} \d{4} \d{4} \d{4}\b`)

func start(t *testing.T) *service {
	t.Helper()
	made := &service{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked question
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.URL.Path != "/v1/check" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		made.asked = append(made.asked, asked)
		if made.answers != nil {
			made.answers(w)
			return
		}
		found := verdict{Action: allowed, Messages: asked.Messages}
		for at, one := range asked.Messages {
			if strings.Contains(one.Content, "forbidden") {
				found = verdict{Action: blocked, Message: "forbidden word"}
				break
			}
			if masked := card.ReplaceAllString(one.Content, "<CARD>"); masked != one.Content {
				found.Action, found.Messages[at].Content = replaced, masked
			}
		}
		_ = json.NewEncoder(w).Encode(found)
	}))
	t.Cleanup(server.Close)
	made.url = server.URL
	return made
}

func textsIn(t *testing.T, body []byte) []texts.Text {
	t.Helper()
	found, refused := texts.Request("/v1/chat/completions", body, false)
	if refused != nil {
		t.Fatal(refused)
	}
	return found
}

type counts map[string]int

func (s *service) checks(failure string, counted counts) *Checks {
	guard := config.Guard{URL: s.url, Failure: failure, TimeoutMillis: 200, Phases: []string{config.OutputPhase}}
	return &Checks{
		Guards: []config.NamedGuard{{Name: "house", Guard: guard}}, Phase: config.OutputPhase, Model: "m", Team: "t",
		Client: NewClient(), Observe: func(guard, phase, outcome string, _ time.Duration) { counted[guard+" "+outcome]++ },
	}
}

func chunk(index int, content string) string {
	text, _ := json.Marshal(content)
	return fmt.Sprintf(`data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":%d,"delta":{"content":%s},"finish_reason":null}]}`+"\n\n", index, text)
}

const (
	role = `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	stop = `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	used = `data: {"id":"1","object":"chat.completion.chunk","choices":[],"usage":{"total_tokens":9}}` + "\n\n"
	done = "data: [DONE]\n\n"
)

// words streams a text in pieces of a few bytes, each event cut in two by the network.
func words(stream *Stream, index int, text string) string {
	var out strings.Builder
	letters := []rune(text)
	for at := 0; at < len(letters); at += 5 {
		event := chunk(index, string(letters[at:min(at+5, len(letters))]))
		out.Write(stream.Pass([]byte(event[:20])))
		out.Write(stream.Pass([]byte(event[20:])))
	}
	return out.String()
}

// read returns the text of each choice and its reason to finish, as a client adds them up.
func read(t *testing.T, out string) (texts, reasons map[int]string, hasDone bool) {
	t.Helper()
	texts, reasons = map[int]string{}, map[int]string{}
	for _, event := range strings.Split(strings.TrimSuffix(out, "\n\n"), "\n\n") {
		data, isData := strings.CutPrefix(event, "data: ")
		if data == "[DONE]" || !isData {
			hasDone = hasDone || isData
			continue
		}
		var found struct {
			Error   struct{ Code string }
			Choices []struct {
				Index        int
				Delta        struct{ Content string }
				FinishReason string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &found); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		for _, one := range found.Choices {
			texts[one.Index] += one.Delta.Content
			if one.FinishReason != "" {
				reasons[one.Index] = one.FinishReason
			}
		}
		if found.Error.Code != "" {
			reasons[-1] = found.Error.Code
		}
	}
	return texts, reasons, hasDone
}

func TestAStreamPassesInWindowsAndNothingIsLost(t *testing.T) {
	guard, counted := start(t), counts{}
	stream := NewStream(context.Background(), paths.Chats, guard.checks("closed", counted))
	text := strings.Repeat("Grüße, all is well here. ", 80)
	out := string(stream.Pass([]byte(role))) + words(stream, 0, text)
	if early, _, _ := read(t, out); len(early[0]) < len(text)/2 || !strings.HasPrefix(text, early[0]) {
		t.Errorf("%d of %d bytes passed before the end", len(early[0]), len(text))
	}
	out += string(stream.Pass([]byte(stop+used+done))) + string(stream.Rest())
	texts, reasons, hasDone := read(t, out)
	if texts[0] != text || reasons[0] != "stop" || !hasDone || !strings.Contains(out, `"total_tokens":9`) {
		t.Errorf("got %q, %v, %v", texts[0], reasons, hasDone)
	}
	if counted["house allow"] < 5 || counted["house allow"] > 30 {
		t.Errorf("got %v", counted)
	}
}

func TestWhatIsMaskedIsNeverCutByAWindow(t *testing.T) {
	for lead := 0; lead < 400; lead += 7 {
		guard, counted := start(t), counts{}
		stream := NewStream(context.Background(), paths.Chats, guard.checks("closed", counted))
		text := strings.Repeat("ab ", lead/3) + "4111 1111 1111 1111" + strings.Repeat(" cd", 150)
		out := words(stream, 0, text) + string(stream.Pass([]byte(stop+done)))
		texts, _, _ := read(t, out)
		if want := card.ReplaceAllString(text, "<CARD>"); texts[0] != want {
			t.Fatalf("after %d bytes: got %q", lead, texts[0])
		}
		if strings.Contains(out, "4111") {
			t.Fatalf("after %d bytes: a part of the number passed", lead)
		}
	}
}

func TestABlockedStreamEndsWithWhatWasCleanAndAReason(t *testing.T) {
	guard, counted := start(t), counts{}
	stream := NewStream(context.Background(), paths.Chats, guard.checks("closed", counted))
	clean := strings.Repeat("a clean sentence, then ", 40)
	out := string(stream.Pass([]byte(role))) + words(stream, 0, clean+"a forbidden word"+strings.Repeat(" and more", 60))
	out += string(stream.Pass([]byte(stop+used+done))) + string(stream.Rest())
	texts, reasons, hasDone := read(t, out)
	if reasons[0] != "content_filter" || !hasDone || strings.Count(out, "[DONE]") != 1 || !strings.HasSuffix(out, done) {
		t.Errorf("got %v, %v", reasons, hasDone)
	}
	if !strings.HasPrefix(clean, texts[0]) || len(texts[0]) < len(clean)/2 {
		t.Errorf("got %q", texts[0])
	}
	if counted["house block"] != 1 {
		t.Errorf("got %v", counted)
	}
}

func TestAStreamThatComesInOnePieceIsCutWhereItTurnsBadToo(t *testing.T) {
	guard, counted := start(t), counts{}
	clean := strings.Repeat("a clean sentence, then ", 40)
	var whole strings.Builder
	for _, word := range strings.SplitAfter(clean+"a forbidden word"+strings.Repeat(" and more", 60), " ") {
		fmt.Fprintf(&whole, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", word)
	}
	stream := NewStream(context.Background(), paths.Chats, guard.checks("closed", counted))
	out := string(stream.Pass([]byte(role+whole.String()+stop+used+done))) + string(stream.Rest())
	texts, reasons, hasDone := read(t, out)
	if reasons[0] != "content_filter" || !hasDone || !strings.HasPrefix(clean, texts[0]) || len(texts[0]) < len(clean)/2 {
		t.Errorf("got %q, %v, %v", texts[0], reasons, hasDone)
	}
}

func TestChoicesOfAStreamAreCheckedEachOnItsOwn(t *testing.T) {
	guard, counted := start(t), counts{}
	stream := NewStream(context.Background(), paths.Chats, guard.checks("closed", counted))
	var out strings.Builder
	for at := range 60 {
		out.WriteString(words(stream, at%2, fmt.Sprintf("%d.", at)))
	}
	out.WriteString(words(stream, 0, " 4111 1111 1111"))
	out.WriteString(words(stream, 1, " other text "))
	out.WriteString(words(stream, 0, " 1111"))
	out.Write(stream.Pass([]byte(strings.ReplaceAll(stop, `"index":0`, `"index":1`) + stop + done)))
	texts, reasons, _ := read(t, out.String())
	if !strings.HasSuffix(texts[0], "58. <CARD>") || !strings.HasSuffix(texts[1], "59. other text ") {
		t.Errorf("got %v", texts)
	}
	if reasons[0] != "stop" || reasons[1] != "stop" {
		t.Errorf("got %v", reasons)
	}
}

func TestCallsOfToolsAreTextsAsWell(t *testing.T) {
	guard, counted := start(t), counts{}
	stream := NewStream(context.Background(), paths.Chats, guard.checks("closed", counted))
	begin := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}}]}` + "\n\n"
	part := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"card\":\"4111 1111 1111 1111\"}"}}]}}]}` + "\n\n"
	first := string(stream.Pass([]byte(begin)))
	if !strings.Contains(first, `"name":"f"`) {
		t.Errorf("got %q", first)
	}
	rest := string(stream.Pass([]byte(part + stop + done)))
	if strings.Contains(rest, "4111") || !strings.Contains(rest, `{\"card\":\"<CARD>\"}`) {
		t.Errorf("got %q", rest)
	}
}

func TestCompletionsAreMaskedAndBlockedLikeChats(t *testing.T) {
	piece := func(text string) string {
		return `data: {"object":"text_completion","choices":[{"index":0,"text":"` + text + `","logprobs":{"tokens":["4111"]},"finish_reason":null}],` +
			`"usage":{"completion_tokens":1}}` + "\n\n"
	}
	end := `data: {"object":"text_completion","choices":[{"index":0,"text":"1111.","finish_reason":"stop"}]}` + "\n\n"
	guard, counted := start(t), counts{}
	stream := NewStream(context.Background(), paths.Chats, guard.checks("closed", counted))
	out := string(stream.Pass([]byte(piece("It is 4111 1111 ") + piece("1111 ") + end + done)))
	if strings.Contains(out, "4111") || !strings.Contains(out, `"text":"It is <CARD>."`) || !strings.Contains(out, `"finish_reason":"stop"`) {
		t.Errorf("got %q", out)
	}
	stream = NewStream(context.Background(), paths.Chats, guard.checks("closed", counted))
	out = string(stream.Pass([]byte(piece("a forbidden word") + end + done)))
	want := `data: {"choices":[{"finish_reason":"content_filter","index":0,"text":""}],"object":"text_completion"}` + "\n\n" + done
	if out != want {
		t.Errorf("got %q", out)
	}
}

func TestThoughtsAndAnswersAreCheckedApart(t *testing.T) {
	guard, counted := start(t), counts{}
	stream := NewStream(context.Background(), paths.Chats, guard.checks("closed", counted))
	thought := `data: {"choices":[{"index":0,"delta":{"reasoning_content":"think 4111 1111 1111 1111"}}]}` + "\n\n"
	out := string(stream.Pass([]byte(role + thought + chunk(0, "plain") + stop + done)))
	if strings.Contains(out, "4111") || !strings.Contains(out, `"reasoning_content":"think <CARD>"`) || !strings.Contains(out, `"content":"plain"`) {
		t.Errorf("got %q", out)
	}
}

func TestWithoutAVerdictTheSettingDecides(t *testing.T) {
	for name, answers := range map[string]func(w http.ResponseWriter){
		"away":     func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
		"late":     func(http.ResponseWriter) { time.Sleep(400 * time.Millisecond) },
		"nonsense": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"action":"maybe"}`)) },
		"too few":  func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"action":"replace","messages":[]}`)) },
		"no JSON":  func(w http.ResponseWriter) { _, _ = w.Write([]byte(`<html>`)) },
	} {
		t.Run(name, func(t *testing.T) {
			guard, counted := start(t), counts{}
			guard.answers = answers
			body := []byte(`{"messages":[{"role":"user","content":"hello"}]}`)
			if got, fault := guard.checks("open", counted).Prompt(context.Background(), body, textsIn(t, body)); fault != nil || string(got) != string(body) {
				t.Errorf("got %s, %v", got, fault)
			}
			if _, fault := guard.checks("closed", counted).Prompt(context.Background(), body, textsIn(t, body)); fault == nil || fault.Status != 503 {
				t.Errorf("got %v", fault)
			}
			stream := NewStream(context.Background(), paths.Chats, guard.checks("closed", counted))
			texts, reasons, hasDone := read(t, string(stream.Pass([]byte(role+chunk(0, "hello")+stop+done))))
			if texts[0] != "" || reasons[-1] != "service_unavailable" || !hasDone {
				t.Errorf("got %v, %v", texts, reasons)
			}
			open := NewStream(context.Background(), paths.Chats, guard.checks("open", counted))
			if texts, reasons, _ := read(t, string(open.Pass([]byte(role+chunk(0, "hello")+stop+done)))); texts[0] != "hello" || reasons[0] != "stop" {
				t.Errorf("got %v, %v", texts, reasons)
			}
			if counted["house failed_open"] != 2 || counted["house failed_closed"] != 2 || len(counted) != 2 {
				t.Errorf("got %v", counted)
			}
		})
	}
}

func TestAnEventThatNobodyCanReadPassesOnlyGuardsThatFailOpen(t *testing.T) {
	guard, counted := start(t), counts{}
	odd := "data: 4111 1111 1111 1111\n\n"
	if got := string(NewStream(context.Background(), paths.Chats, guard.checks("open", counted)).Pass([]byte(odd))); got != odd {
		t.Errorf("got %q", got)
	}
	closed := NewStream(context.Background(), paths.Chats, guard.checks("closed", counted))
	if got := string(closed.Pass([]byte(": ping\n\n" + odd + chunk(0, "x")))); strings.Contains(got, "4111") || !strings.HasSuffix(got, done) || !strings.HasPrefix(got, ": ping\n\n") {
		t.Errorf("got %q", got)
	}
}

func TestAClientThatHangsUpIsNoFailureOfAGuard(t *testing.T) {
	guard, counted := start(t), counts{}
	ctx, cancel := context.WithCancel(context.Background())
	guard.answers = func(http.ResponseWriter) { cancel(); time.Sleep(50 * time.Millisecond) }
	hello := []byte(`{"messages":[{"content":"hello"}]}`)
	if _, fault := guard.checks("open", counted).Prompt(ctx, hello, textsIn(t, hello)); fault == nil || len(counted) != 0 {
		t.Errorf("got %v, %v", fault, counted)
	}
}

func TestAGuardIsToldTheModelTheTeamAndTheRoles(t *testing.T) {
	guard, counted := start(t), counts{}
	body := []byte(`{"messages":[{"role":"system","content":"be kind"},{"role":"user","content":"my card is 4111 1111 1111 1111"}]}`)
	got, fault := guard.checks("closed", counted).Prompt(context.Background(), body, textsIn(t, body))
	if fault != nil || !strings.Contains(string(got), `"my card is <CARD>"`) {
		t.Errorf("got %s, %v", got, fault)
	}
	asked := guard.asked[0]
	if asked.Model != "m" || asked.Team != "t" || asked.Messages[0] != (Text{"system", "be kind"}) || asked.Messages[1].Role != "user" {
		t.Errorf("got %+v", asked)
	}
	forbidden := []byte(`{"messages":[{"content":"forbidden"}]}`)
	if _, fault := guard.checks("closed", counted).Prompt(context.Background(), forbidden, textsIn(t, forbidden)); fault == nil ||
		fault.Status != 400 || fault.Code != "content_filter" || !strings.HasSuffix(fault.Message, "forbidden word") {
		t.Errorf("got %v", fault)
	}
}
