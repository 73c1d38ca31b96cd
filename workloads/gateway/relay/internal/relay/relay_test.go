package relay

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/relay/internal/config"
	"gke-inference/gateway/relay/internal/openai"
)

var small = holding.Limits{Bodies: 4, BodiesOfOne: 4, Bytes: 1 << 20, BytesOfOne: 1 << 20}

type fixed struct{ forgotten int }

func (f *fixed) Header(_ context.Context, auth config.Auth) (string, error) {
	if auth.Kind == config.AuthNone {
		return "", nil
	}
	return fmt.Sprintf("Bearer key-%d", f.forgotten), nil
}

func (f *fixed) Forget(config.Auth) { f.forgotten++ }

func relayed(t *testing.T, targets []*config.Target, headers map[string]string) *http.Response {
	t.Helper()
	answer, _ := relayedOf(t, &config.Backend{TimeoutSeconds: 5, Targets: targets}, `{"model":"m"}`, headers)
	return answer
}

func relayedOf(
	t *testing.T, backend *config.Backend, body string, headers map[string]string,
) (*http.Response, *Metrics) {
	t.Helper()
	found := &config.Config{Backends: map[string]*config.Backend{"m": backend}}
	hold := holding.New(small)
	metrics := NewMetrics(hold)
	server := httptest.NewServer(New(&Server{
		Config: func() *config.Config { return found }, Metrics: metrics,
		Hold: hold, Limits: holding.Settings{MaxBodyBytes: 1000, BodyTime: time.Minute},
		Attempts: NewAttempts(&fixed{}, metrics, nil),
	}))
	t.Cleanup(server.Close)
	request, err := http.NewRequest(http.MethodPost, server.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer, metrics
}

func standIn(t *testing.T, kind string, answer http.HandlerFunc) *config.Target {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return &config.Target{
		Name: "t", URL: server.URL + "/v1", Model: "theirs", Weight: 1, Auth: config.Auth{Kind: kind},
	}
}

func TestOnlyHeadersWithoutMeaningElsewherePass(t *testing.T) {
	var seen http.Header
	target := standIn(t, config.AuthSecret, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		w.Header().Set("Openai-Organization", "acme")
		w.Header().Set("Set-Cookie", "a=b")
	})
	answer := relayed(t, []*config.Target{target}, map[string]string{
		"Authorization": "Bearer client", "Cookie": "c=d", "X-Forwarded-For": "203.0.113.9", "X-Api-Key": "client",
		"Accept-Encoding": "gzip", "X-Gateway-Inference-Objective": "x", "User-Agent": "secret-client",
	})
	delete(seen, "Content-Length")
	want := http.Header{
		"Authorization": {"Bearer key-0"}, "Content-Type": {"application/json"}, "User-Agent": {"gke-inference-relay"},
	}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Fatal(seen)
	}
	if answer.Header.Get("Openai-Organization") != "" || answer.Header.Get("Set-Cookie") != "" {
		t.Fatal(answer.Header)
	}
}

func TestACredentialThatWasReplacedIsReadAgain(t *testing.T) {
	target := standIn(t, config.AuthSecret, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key-1" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	if answer := relayed(t, []*config.Target{target}, nil); answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
}

func TestAnErrorOfATargetHasOpenAIsShapeAndNothingOfTheProviders(t *testing.T) {
	for _, one := range []struct {
		status, want int
		body, code   string
		message      string
	}{
		{400, 400, `{"error":{"message":"too long"}}`, "backend_refused", "too long"},
		{400, 400, `[{"error":{"code":400,"message":"bad role","status":"INVALID_ARGUMENT"}}]`, "backend_refused", "bad role"},
		{400, 502, `[{"error":{"message":"API key not valid. Please pass a valid API key."}}]`, "backend_credentials", ""},
		{401, 502, `{"error":{"message":"Incorrect API key provided: sk-abc"}}`, "backend_credentials", ""},
		{403, 502, `<html>forbidden</html>`, "backend_credentials", ""},
		{404, 502, `{}`, "backend_model_not_found", ""},
		{429, 429, `{}`, "rate_limit_exceeded", ""},
		{500, 502, `{"error":{"message":"stack trace"}}`, "backend_failed", ""},
		{302, 502, ``, "backend_failed", ""},
		{529, 503, `{"type":"error","error":{"type":"overloaded_error"}}`, "backend_overloaded", ""},
		{504, 504, ``, "backend_timeout", ""},
	} {
		target := standIn(t, config.AuthSecret, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "9")
			w.WriteHeader(one.status)
			io.WriteString(w, one.body)
		})
		answer := relayed(t, []*config.Target{target}, nil)
		body, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != one.want || !strings.Contains(string(body), `"code":"`+one.code+`"`) ||
			!strings.Contains(string(body), one.message) || strings.Contains(string(body), "sk-abc") ||
			strings.Contains(string(body), "stack trace") {
			t.Errorf("%d: got %d %s", one.status, answer.StatusCode, body)
		}
		if one.want == 429 && answer.Header.Get("Retry-After") != "9" {
			t.Error(answer.Header)
		}
	}
}

func TestAnotherTargetIsCalledOnlyWhereNoneCanHaveUsedTokens(t *testing.T) {
	for status, want := range map[int]int{429: 200, 503: 200, 529: 200, 500: 502, 400: 400} {
		good := standIn(t, config.AuthNone, func(http.ResponseWriter, *http.Request) {})
		bad := standIn(t, config.AuthNone, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		bad.Weight = 1_000_000_000
		if answer := relayed(t, []*config.Target{good, bad}, nil); answer.StatusCode != want {
			t.Errorf("%d: got %s", status, answer.Status)
		}
	}
}

func TestTargetsAreDrawnByWeight(t *testing.T) {
	heavy, light := &config.Target{Name: "heavy", Weight: 9}, &config.Target{Name: "light", Weight: 1}
	first := map[string]int{}
	for range 2000 {
		drawn := order([]*config.Target{light, heavy}, "chat/completions")
		if len(drawn) != 2 || drawn[0] == drawn[1] {
			t.Fatal(drawn)
		}
		first[drawn[0].Name]++
	}
	if first["heavy"] < 1700 || first["heavy"] > 1890 {
		t.Fatal(first)
	}
}

func TestOnlyAddressesOfThisMachineReplaceHosts(t *testing.T) {
	for _, text := range []string{"api.openai.com=http://10.0.0.1:80", "api.openai.com", "a=http://evil.example"} {
		if _, err := ParseHosts(text); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	found, err := ParseHosts("a=http://127.0.0.9:80,*=http://127.0.0.1:81")
	if err != nil {
		t.Fatal(err)
	}
	attempts := &Attempts{Hosts: found}
	for from, to := range map[string]string{
		"https://a/v1": "127.0.0.9:80", "https://b/v1": "127.0.0.1:81", "http://127.0.0.5:8000/v1": "",
	} {
		at, err := url.Parse(from)
		if err != nil {
			t.Fatal(err)
		}
		host := ""
		if moved := attempts.moved(at); moved != nil {
			host = moved.Host
		}
		if host != to {
			t.Errorf("%s: got %q", from, host)
		}
	}
}

func TestARequestThatTheRelayCannotServeIsRefused(t *testing.T) {
	hold := holding.New(small)
	metrics := NewMetrics(hold)
	found := &config.Config{Backends: map[string]*config.Backend{"chats": {
		TimeoutSeconds: 1,
		Targets:        []*config.Target{{URL: "http://127.0.0.1:1", Paths: []string{"chat/completions"}, Weight: 1}},
	}}}
	server := New(&Server{
		Config: func() *config.Config { return found }, Metrics: metrics,
		Hold: hold, Limits: holding.Settings{MaxBodyBytes: 100, BodyTime: time.Minute},
		Attempts: NewAttempts(&fixed{}, metrics, nil),
	})
	for _, one := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "/v1/models", "", 404, "unknown_url"},
		{"POST", "/v1/chat/completions/../../admin", "{}", 404, "unknown_url"},
		{"GET", "/v1/chat/completions", "", 405, "method_not_allowed"},
		{"POST", "/v1/chat/completions", strings.Repeat("x", 101), 413, "request_too_large"},
		{"POST", "/v1/chat/completions", `{"model":"other"}`, 404, "model_not_found"},
		{"POST", "/v1/embeddings", `{"model":"chats"}`, 404, "unknown_url"},
	} {
		answer := httptest.NewRecorder()
		request := httptest.NewRequest(one.method, "http://relay/", strings.NewReader(one.body))
		request.URL.Path = one.path
		server.ServeHTTP(answer, request)
		if answer.Code != one.status || !strings.Contains(answer.Body.String(), one.code) {
			t.Errorf("%s %s: got %d %s", one.method, one.path, answer.Code, answer.Body)
		}
	}
}

func TestATargetWithoutAConnectionIsPassedByAndOneThatBreaksIsNot(t *testing.T) {
	breaks := standIn(t, config.AuthNone, func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			connection.Close()
		}
	})
	plain := standIn(t, config.AuthNone, func(http.ResponseWriter, *http.Request) {})
	for name, c := range map[string]struct {
		url  string
		want int
	}{
		"nobody listens":       {"http://127.0.0.1:1/v1", 200},
		"no such host":         {"http://nobody.invalid/v1", 200},
		"TLS of no TLS server": {strings.Replace(plain.URL, "http://", "https://", 1), 200},
		"broken when asked":    {breaks.URL, 502},
	} {
		good := standIn(t, config.AuthNone, func(http.ResponseWriter, *http.Request) {})
		bad := &config.Target{Name: "bad", URL: c.url, Model: "m", Weight: 1_000_000_000, Auth: config.Auth{Kind: config.AuthNone}}
		if answer := relayed(t, []*config.Target{good, bad}, nil); answer.StatusCode != c.want {
			t.Errorf("%s: got %s", name, answer.Status)
		}
	}
}

func TestAnEncodingThatNobodyAskedForIsRefused(t *testing.T) {
	packed := standIn(t, config.AuthNone, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		_, _ = w.Write([]byte("x"))
	})
	if answer := relayed(t, []*config.Target{packed}, nil); answer.StatusCode != http.StatusBadGateway {
		t.Error(answer.Status)
	}
}

// everything admits every request.
type everything struct{}

func (everything) Admit(http.Header, openai.Usage) (func(openai.Usage), *openai.Error) {
	return func(openai.Usage) {}, nil
}

func (everything) Answered(int) {}

func TestAPathThatIsNotRelayedIsMissingAtABackendAndAMatterOfTimeAtAFallback(t *testing.T) {
	hold := holding.New(small)
	for name, one := range map[string]struct {
		admission Admission
		method    string
		path      string
		status    int
		kind      string
	}{
		"a backend":              {nil, "POST", "/v1/messages", 404, `"type":"not_found_error"`},
		"a fallback":             {everything{}, "POST", "/v1/messages", 429, `"type":"rate_limit_error"`},
		"another method":         {everything{}, "GET", "/v1/messages", 405, `"type":"invalid_request_error"`},
		"a fallback's responses": {everything{}, "POST", "/v1/responses", 429, `"code":"model_overloaded"`},
		"no API at all":          {everything{}, "POST", "/v1/nothing", 404, `"code":"unknown_url"`},
	} {
		server := New(&Server{
			Config: func() *config.Config { return &config.Config{} }, Metrics: NewMetrics(hold), Hold: hold, Admission: one.admission,
			Limits: holding.Settings{MaxBodyBytes: 1000, BodyTime: time.Minute},
		})
		written := httptest.NewRecorder()
		server.ServeHTTP(written, httptest.NewRequest(one.method, one.path, strings.NewReader(`{"model":"m"}`)))
		if written.Code != one.status || !strings.Contains(written.Body.String(), one.kind) {
			t.Errorf("%s: got %d %s", name, written.Code, written.Body)
		}
	}
}

// streaming is a target that sends some events of a stream, and then nothing.
func streaming(t *testing.T, events ...string) *config.Target {
	return standIn(t, config.AuthNone, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for _, event := range events {
			fmt.Fprint(w, event)
			w.(http.Flusher).Flush()
		}
		if len(events) == 0 || !strings.Contains(events[len(events)-1], "[DONE]") {
			<-r.Context().Done()
		}
	})
}

// counted returns the sum of a counter over the series that have a label's value.
func counted(t *testing.T, metrics *Metrics, name, value string) (sum float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				if family.GetName() == name && label.GetValue() == value {
					sum += series.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

func asStream(t *testing.T, targets ...*config.Target) (int, string, *Metrics) {
	backend := &config.Backend{TimeoutSeconds: 30, IdleSeconds: 0.3, Targets: targets}
	answer, metrics := relayedOf(t, backend, `{"model":"m","stream":true}`, nil)
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text), metrics
}

func TestAStreamThatDoesNotBeginInTimeIsAskedOfTheNextTarget(t *testing.T) {
	first := streaming(t)
	first.Weight = 1 << 40 // it is asked first
	status, text, metrics := asStream(t, first, streaming(t, "data: {\"n\":2}\n\n", "data: [DONE]\n\n"))
	if status != http.StatusOK || text != "data: {\"n\":2}\n\ndata: [DONE]\n\n" {
		t.Errorf("got %d %q", status, text)
	}
	if got := counted(t, metrics, "relay_attempts_total", "stalled"); got != 1 {
		t.Errorf("counted %v", got)
	}
	if status, text, _ := asStream(t, streaming(t)); status != http.StatusGatewayTimeout || !strings.Contains(text, "backend_timeout") {
		t.Errorf("without another target: got %d %q", status, text)
	}
}

func TestAStreamThatStallsLaterEndsWithAnErrorAndIsAskedOfNobodyElse(t *testing.T) {
	var asked atomic.Int64
	other := standIn(t, config.AuthNone, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	first := streaming(t, "data: {\"n\":1}\n\n")
	first.Weight = 1 << 40
	status, text, metrics := asStream(t, first, other)
	head, tail, _ := strings.Cut(text, "data: {\"error\":")
	if status != http.StatusOK || strings.TrimSpace(head) != "data: {\"n\":1}" || !strings.HasSuffix(tail, "data: [DONE]\n\n") {
		t.Errorf("got %d %q", status, text)
	}
	if !strings.Contains(tail, "backend_timeout") || asked.Load() != 0 {
		t.Errorf("got %q, the other target was asked %d times", tail, asked.Load())
	}
	if got := counted(t, metrics, "relay_stalled_streams_total", "m"); got != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestTheTimeInWhichAClientReadsNothingIsNotThatOfTheTarget(t *testing.T) {
	ctx, timer := watchIdle(t.Context(), 100*time.Millisecond)
	body := &idleBody{ReadCloser: io.NopCloser(iotest.OneByteReader(strings.NewReader("abc"))), timer: timer, stalled: func() { t.Error("stalled") }}
	defer body.Close()
	if err := body.readFirst(); err != nil {
		t.Fatal(err)
	}
	var read strings.Builder
	for piece := make([]byte, 8); ; {
		n, err := body.Read(piece)
		read.Write(piece[:n])
		if err != nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if read.String() != "abc" || ctx.Err() != nil {
		t.Errorf("got %q, %v", &read, ctx.Err())
	}
}

func TestTheTokensOfATargetThatStalledAreCountedIfNoOtherOneAnswers(t *testing.T) {
	full := standIn(t, config.AuthNone, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	away := &config.Target{Name: "away", URL: "http://127.0.0.1:1/v1", Model: "m", Weight: 1, Auth: config.Auth{Kind: config.AuthNone}}
	for name, next := range map[string]*config.Target{"full": full, "away": away} {
		first := streaming(t)
		first.Weight = 1 << 40
		status, _, metrics := asStream(t, first, next)
		if got := counted(t, metrics, "relay_tokens_total", "output"); status == http.StatusOK || got == 0 {
			t.Errorf("%s: got %d, counted %v", name, status, got)
		}
	}
}
