package relay

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/relay/internal/config"
)

func TestHalfSentBodiesDoNotFillTheMemoryAndAValidRequestIsAnswered(t *testing.T) {
	target := standIn(t, config.AuthNone, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") })
	found := &config.Config{Backends: map[string]*config.Backend{"m": {TimeoutSeconds: 5, Targets: []*config.Target{target}}}}
	limits := holding.Settings{
		Limits:       holding.Limits{Bodies: 256, BodiesOfOne: 128, Bytes: 64 << 20, BytesOfOne: 32 << 20},
		MaxBodyBytes: 8 << 20, BodyTime: time.Minute,
	}
	hold := holding.New(limits.Limits)
	metrics := NewMetrics(hold)
	server := httptest.NewServer(New(&Server{
		Config: func() *config.Config { return found }, Metrics: metrics, Hold: hold, Limits: limits,
		Attempts: NewAttempts(&fixed{}, metrics, nil),
	}))
	t.Cleanup(server.Close)
	piece := []byte(strings.Repeat("x", 64<<10))
	var senders sync.WaitGroup
	for i := range 200 {
		senders.Go(func() {
			connection, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { connection.Close() })
			fmt.Fprintf(connection, "POST /v1/chat/completions HTTP/1.1\r\nHost: relay\r\n%s: team-%d\r\nContent-Length: %d\r\n\r\n",
				teamHeader, i%4, 8<<20)
			for range 7 << 20 / len(piece) {
				if _, err := connection.Write(piece); err != nil {
					return // refused before
				}
			}
		})
	}
	senders.Wait()
	request, err := http.NewRequest(http.MethodPost, server.URL+"/v1/chat/completions", strings.NewReader(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(teamHeader, "team-9")
	answer, err := http.DefaultClient.Do(request)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	if memory.HeapAlloc > uint64(limits.Bytes)+64<<20 {
		t.Errorf("%d MiB are held", memory.HeapAlloc>>20)
	}
	if _, bytes := hold.Held(); bytes > limits.Bytes {
		t.Errorf("%d bytes are held", bytes)
	}
}

func TestABodyWithoutRoomForItsCopiesIsRefusedWith429(t *testing.T) {
	target := standIn(t, config.AuthNone, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") })
	found := &config.Config{Backends: map[string]*config.Backend{"m": {TimeoutSeconds: 5, Targets: []*config.Target{target}}}}
	limits := holding.Settings{
		Limits:       holding.Limits{Bodies: 8, BodiesOfOne: 8, Bytes: 4 << 20, BytesOfOne: 2 << 20},
		MaxBodyBytes: 1 << 20, BodyTime: time.Minute,
	}
	hold := holding.New(limits.Limits)
	metrics := NewMetrics(hold)
	server := httptest.NewServer(New(&Server{
		Config: func() *config.Config { return found }, Metrics: metrics, Hold: hold, Limits: limits,
		Attempts: NewAttempts(&fixed{}, metrics, nil),
	}))
	t.Cleanup(server.Close)
	for size, status := range map[int]int{400 << 10: http.StatusOK, 800 << 10: http.StatusTooManyRequests} {
		body := `{"model":"m","prompt":"` + strings.Repeat("x", size) + `"}`
		answer, err := http.Post(server.URL+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != status {
			t.Errorf("%d bytes and their copies: got %s", size, answer.Status)
		}
	}
}

func TestABodyThatDoesNotArriveInTimeIsRefusedWith408(t *testing.T) {
	found := &config.Config{Backends: map[string]*config.Backend{}}
	hold := holding.New(small)
	metrics := NewMetrics(hold)
	server := httptest.NewServer(New(&Server{
		Config: func() *config.Config { return found }, Metrics: metrics, Hold: hold,
		Limits: holding.Settings{Limits: small, MaxBodyBytes: 1 << 20, BodyTime: 50 * time.Millisecond},
	}))
	t.Cleanup(server.Close)
	body, writer := io.Pipe()
	t.Cleanup(func() { writer.Close() })
	answer, err := http.Post(server.URL+"/v1/chat/completions", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(said), "request_timeout") {
		t.Errorf("got %s %s", answer.Status, said)
	}
}

func TestTheBodyOfARequestIsReleasedWhenItsTargetAnswers(t *testing.T) {
	hold := holding.New(small)
	metrics := NewMetrics(hold)
	isHeld := make(chan int, 1)
	reading := make(chan struct{})
	target := standIn(t, config.AuthNone, func(w http.ResponseWriter, _ *http.Request) {
		bodies, _ := hold.Held()
		isHeld <- bodies
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-reading
	})
	found := &config.Config{Backends: map[string]*config.Backend{"m": {TimeoutSeconds: 5, Targets: []*config.Target{target}}}}
	server := httptest.NewServer(New(&Server{
		Config: func() *config.Config { return found }, Metrics: metrics, Hold: hold,
		Limits:   holding.Settings{Limits: small, MaxBodyBytes: 1 << 20, BodyTime: time.Minute},
		Attempts: NewAttempts(&fixed{}, metrics, nil),
	}))
	t.Cleanup(server.Close)
	answer, err := http.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	bodies, bytes := hold.Held()
	close(reading)
	answer.Body.Close()
	if before := <-isHeld; before != 1 || bodies != 0 || bytes != 0 {
		t.Errorf("%d bodies before the answer, %d after it", before, bodies)
	}
}
