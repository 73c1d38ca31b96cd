package waiting

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/relay/internal/config"
)

const (
	chat   = "/v1/chat/completions"
	plain  = `{"model": "llama", "messages": []}`
	stream = `{"model": "llama", "messages": [], "stream": true}`
)

// model is a room and the engines that it sees.
type model struct {
	*Room
	settings *config.Fallback
	hosts    atomic.Pointer[[]string]
	url      string
	registry *prometheus.Registry
}

// counted returns the value of a counter, of the line with a label.
func (m *model) counted(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.GetMetric() {
			if label == "" || one.GetLabel()[0].GetValue() == label {
				return one.GetCounter().GetValue()
			}
		}
	}
	return -1
}

func newModel(t *testing.T, wait config.Wait, limits holding.Limits) *model {
	t.Helper()
	made := &model{settings: &config.Fallback{Refused: []string{"llama-batch"}, Wait: &wait}}
	made.hosts.Store(&[]string{})
	made.Room = New(&Room{
		Settings: func() *config.Fallback { return made.settings },
		Engines:  func() []string { return *made.hosts.Load() },
		Hold:     holding.New(limits),
		Limits:   holding.Settings{Limits: limits, MaxBodyBytes: 8 << 20, BodyTime: time.Minute},
		Interval: 300 * time.Millisecond,
		Silence:  Silence,
	})
	made.registry = prometheus.NewRegistry()
	made.Register(made.registry)
	server := httptest.NewServer(made.Room)
	t.Cleanup(server.Close)
	made.url = server.URL
	return made
}

var roomy = holding.Limits{Bodies: 8, BodiesOfOne: 8, Bytes: 64 << 20, BytesOfOne: 64 << 20}

func usual(t *testing.T) *model {
	return newModel(t, config.Wait{Requests: 2, Seconds: 20, ExpectedSeconds: 300}, roomy)
}

// engine answers with what it received.
func (m *model) engine(t *testing.T, answer http.HandlerFunc) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	m.hosts.Store(&[]string{strings.TrimPrefix(server.URL, "http://")})
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("X-Request-Id"), body)
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (m *model) post(ctx context.Context, t *testing.T, path, body string, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at+1 < len(headers); at += 2 {
		request.Header.Set(headers[at], headers[at+1])
	}
	found, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{status: 0, body: err.Error()}
	}
	defer found.Body.Close()
	content, err := io.ReadAll(found.Body)
	if err != nil {
		t.Error(err)
	}
	return answer{found.StatusCode, found.Header, string(content)}
}

func (m *model) later(t *testing.T, path, body string, headers ...string) <-chan answer {
	t.Helper()
	found := make(chan answer, 1)
	go func() { found <- m.post(t.Context(), t, path, body, headers...) }()
	return found
}

func until(t *testing.T, what string, check func() bool) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); !check(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("not in time: ", what)
		}
	}
}

func (m *model) untilWaiting(t *testing.T, number int64) {
	t.Helper()
	until(t, "requests wait", func() bool { return m.waiting.Load() == number })
}

func TestARequestWaitsForTheFirstEngineAndReachesItAsItCame(t *testing.T) {
	m := usual(t)
	waits := m.later(t, chat+"?a=b", plain, "X-Request-Id", "seven")
	m.untilWaiting(t, 1)
	m.engine(t, echo)
	found := <-waits
	if found.status != 200 || found.body != "POST /v1/chat/completions?a=b seven "+plain {
		t.Fatal(found)
	}
	if m.counted(t, "relay_wakes_total", "") != 1 || m.counted(t, "relay_waits_total", "engine") != 1 || m.waiting.Load() != 0 {
		t.Fatal("not counted")
	}
	if next := m.post(t.Context(), t, chat, plain); next.status != 200 || m.counted(t, "relay_wakes_total", "") != 1 {
		t.Fatal("a request that finds an engine wakes none", next)
	}
	if _, bytes := m.Hold.Held(); bytes != 0 {
		t.Fatal(bytes)
	}
}

func TestMoreRequestsThanMayWaitAreRefusedUntilAnEngineIsExpected(t *testing.T) {
	m := usual(t)
	one, two := m.later(t, chat, plain), m.later(t, chat, plain)
	m.untilWaiting(t, 2)
	m.since.Store(time.Now().Add(-100 * time.Second).UnixNano())
	found := m.post(t.Context(), t, chat, plain)
	if found.status != 503 || found.header.Get("Retry-After") != "200" || !strings.Contains(found.body, `"model_starting"`) {
		t.Fatal(found)
	}
	if m.counted(t, "relay_wakes_total", "") != 3 || m.counted(t, "relay_waits_total", "too_many") != 1 {
		t.Fatal("not counted")
	}
	m.engine(t, echo)
	if (<-one).status != 200 || (<-two).status != 200 {
		t.Fatal("those that waited are not answered")
	}
}

func TestMoreBytesThanMayWaitAreRefused(t *testing.T) {
	m := newModel(t, config.Wait{Requests: 8, Seconds: 20}, holding.Limits{
		Bodies: 8, BodiesOfOne: 8, Bytes: 1 << 20, BytesOfOne: 1 << 20,
	})
	large := `{"prompt": "` + strings.Repeat("a", 400<<10) + `"}`
	waits := m.later(t, chat, large)
	until(t, "bytes are held", func() bool { _, bytes := m.Hold.Held(); return bytes > 600<<10 })
	found := m.post(t.Context(), t, chat, large)
	if found.status != 503 || found.header.Get("Retry-After") != strconv.Itoa(soonest) {
		t.Fatal(found)
	}
	m.engine(t, echo)
	if (<-waits).status != 200 {
		t.Fatal("the first is lost")
	}
}

func TestARequestDoesNotWaitForeverForAnEngineThatAcceptsNoConnection(t *testing.T) {
	m := newModel(t, config.Wait{Requests: 2, Seconds: 0.5, ExpectedSeconds: 30}, roomy)
	waits := m.later(t, chat, plain)
	m.untilWaiting(t, 1)
	m.hosts.Store(&[]string{"127.0.0.1:1"})
	if found := <-waits; found.status != 503 || !strings.Contains(found.body, "model_starting") {
		t.Fatal(found)
	}
	if m.waiting.Load() != 0 || m.counted(t, "relay_waits_total", "too_long") != 1 {
		t.Error("it is still counted")
	}
}

func TestNoRequestWaitsLongerThanItMay(t *testing.T) {
	m := newModel(t, config.Wait{Requests: 2, Seconds: 0.5, ExpectedSeconds: 30}, roomy)
	found := m.post(t.Context(), t, chat, plain)
	if found.status != 503 || found.header.Get("Retry-After") != "30" {
		t.Fatal(found)
	}
	if m.waiting.Load() != 0 || m.counted(t, "relay_waits_total", "too_long") != 1 {
		t.Fatal("not counted")
	}
}

func TestARequestThatGetsNoByteIsRefusedBeforeTheLoadBalancerEndsItAndAStreamWaitsOn(t *testing.T) {
	m := usual(t)
	m.Silence = 500 * time.Millisecond
	waits := m.later(t, chat, stream)
	m.untilWaiting(t, 1)
	if found := m.post(t.Context(), t, chat, plain); found.status != 503 || found.header.Get("Retry-After") == "" {
		t.Fatal(found)
	}
	m.engine(t, events)
	if found := <-waits; found.status != 200 {
		t.Fatal(found)
	}
}

func TestAClientThatDisconnectsLeavesItsPlace(t *testing.T) {
	m := usual(t)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan answer, 1)
	go func() { gone <- m.post(ctx, t, chat, plain) }()
	m.untilWaiting(t, 1)
	cancel()
	<-gone
	m.untilWaiting(t, 0)
	until(t, "it is counted", func() bool { return m.counted(t, "relay_waits_total", "canceled") == 1 })
	if bodies, _ := m.Hold.Held(); bodies != 0 {
		t.Fatal(bodies)
	}
}

func events(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, "data: {}\n\n")
	w.(http.Flusher).Flush()
	io.WriteString(w, "data: [DONE]\n\n")
}

// opened sends a request for a stream and returns its lines once the first comment is there.
func (m *model) opened(t *testing.T, path string) (*http.Response, *bufio.Reader) {
	t.Helper()
	found, err := http.Post(m.url+path, "application/json", strings.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { found.Body.Close() })
	lines := bufio.NewReader(found.Body)
	first, err := lines.ReadString('\n')
	const want = ": waiting for a replica of the model: 0 s, about 300 s left\n"
	if err != nil || first != want || found.StatusCode != 200 || found.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(found.StatusCode, first, err)
	}
	return found, lines
}

func TestAStreamThatWaitsHasCommentsAndThenTheEventsOfTheEngine(t *testing.T) {
	m := usual(t)
	_, lines := m.opened(t, chat)
	m.engine(t, events)
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.HasSuffix(string(rest), "\ndata: {}\n\ndata: [DONE]\n\n") {
		t.Fatalf("%q %v", rest, err)
	}
}

func TestAnErrorAfterCommentsIsAnEvent(t *testing.T) {
	for path, want := range map[string]string{
		chat:            "data: {\"error\":\"bad\"}\n\ndata: [DONE]\n\n",
		"/v1/messages":  "event: error\ndata: {\"error\":\"bad\"}\n\n",
		"/v1/responses": "event: error\ndata: {\"error\":\"bad\"}\n\n",
	} {
		m := usual(t)
		_, lines := m.opened(t, path)
		m.engine(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, "{\n\"error\": \"bad\"}")
		})
		if rest, err := io.ReadAll(lines); err != nil || !strings.HasSuffix(string(rest), "\n"+want) {
			t.Errorf("%s: %q %v", path, rest, err)
		}
	}
}

func TestAnEngineThatAcceptsNoConnectionDoesNotEndTheWait(t *testing.T) {
	m := usual(t)
	away := httptest.NewServer(http.HandlerFunc(echo))
	away.Close()
	m.hosts.Store(&[]string{strings.TrimPrefix(away.URL, "http://")})
	waits := m.later(t, chat, plain)
	time.Sleep(300 * time.Millisecond)
	m.engine(t, echo)
	if found := <-waits; found.status != 200 {
		t.Fatal(found)
	}
}

func TestOnlyRequestsForAnswersWakeAModel(t *testing.T) {
	m := usual(t)
	found, err := http.Get(m.url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer found.Body.Close()
	if found.StatusCode != 503 || found.Header.Get("Retry-After") != "300" || m.counted(t, "relay_wakes_total", "") != 0 {
		t.Fatal(found.Status, found.Header)
	}
}

func TestABackendAnswersMeanwhileExceptWhatMayNotCostMoney(t *testing.T) {
	m := usual(t)
	pays := atomic.Bool{}
	pays.Store(true)
	m.Pays = pays.Load
	m.Backend = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "backend") })
	if found := m.post(t.Context(), t, chat, plain); found.body != "backend" || m.counted(t, "relay_wakes_total", "") != 1 {
		t.Fatal("it must answer, and the model be woken", found)
	}
	batch := m.later(t, chat, plain, objectiveHeader, "llama-batch")
	m.untilWaiting(t, 1)
	pays.Store(false)
	spent := m.later(t, chat, plain)
	m.untilWaiting(t, 2)
	m.engine(t, echo)
	for _, waits := range []<-chan answer{batch, spent} {
		if found := <-waits; found.status != 200 || found.body == "backend" {
			t.Fatal(found)
		}
	}
}
