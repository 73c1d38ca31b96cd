package extproc

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gke-inference/gateway/callout/internal/identity"
	"gke-inference/gateway/internal/holding"
)

const unlimited = `
region: us-central1
replicas: 1
anonymous: true
teams: {anonymous: {models: [m]}}
`

var large = holding.Settings{
	Limits:       holding.Limits{Bodies: 512, BodiesOfOne: 256, Bytes: 128 << 20, BytesOfOne: 48 << 20},
	MaxBodyBytes: 8 << 20, BodyTime: time.Minute,
}

const pieceBytes = 512 << 10

// half sends a part of a body from an address, and returns the answer to it, if there is one at once.
func half(t *testing.T, client extproc.ExternalProcessorClient, address string, pieces int) extproc.ExternalProcessor_ProcessClient {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := client.Process(ctx)
	if err != nil {
		t.Error(err)
		return nil
	}
	_ = stream.Send(asked(false, "x-forwarded-for", address+", 34.0.0.1"))
	_ = stream.Send(requestBody(`{"model":"m","prompt":"`, false))
	piece := strings.Repeat("x", pieceBytes)
	for range pieces {
		if stream.Send(requestBody(piece, false)) != nil {
			break // refused before
		}
	}
	return stream
}

func refusal(
	t *testing.T, stream extproc.ExternalProcessor_ProcessClient, messages ...*extproc.ProcessingRequest,
) (status int32, body, retry string) {
	t.Helper()
	for _, message := range messages {
		if err := stream.Send(message); err != nil {
			t.Fatal(err)
		}
	}
	found, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	answer := found.GetImmediateResponse()
	for _, option := range answer.GetHeaders().GetSetHeaders() {
		if option.GetHeader().GetKey() == "retry-after" {
			retry = string(option.GetHeader().GetRawValue())
		}
	}
	return int32(answer.GetStatus().GetCode()), string(answer.GetBody()), retry
}

func TestHalfSentBodiesDoNotFillTheMemoryAndAValidRequestIsAnswered(t *testing.T) {
	client, _, hold := gatewayLimited(t, unlimited, identity.NewSecret(""), large)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var senders sync.WaitGroup
	for i := range 200 {
		senders.Go(func() { half(t, client, fmt.Sprintf("203.0.113.%d", i%4), 7<<20/pieceBytes) })
	}
	senders.Wait()
	began := time.Now()
	c := begin(t, client)
	sent := body(10)
	c.send(asked(false, "x-forwarded-for", "198.51.100.7, 34.0.0.1"), requestBody(sent, true))
	c.receive()
	if got, isEnd := c.requestParts(len(sent)); got != sent || !isEnd {
		t.Errorf("got %d bytes, end %v", len(got), isEnd)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a valid request took %s", took)
	}
	for range 3 { // the transport's pools survive two collections
		runtime.GC()
	}
	runtime.ReadMemStats(&after)
	// the clients of the test are in the same process: what they have not sent is a part of it
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > int64(large.Bytes)+256<<20 {
		t.Errorf("%d MiB are held", grown>>20)
	}
	if _, bytes := hold.Held(); bytes > large.Bytes || bytes < large.Bytes/2 {
		t.Errorf("%d bytes are held", bytes)
	}
}

func TestALargeBodyWithoutRoomIsRefusedWith429BeforeItIsRead(t *testing.T) {
	tight := holding.Settings{
		Limits:       holding.Limits{Bodies: 8, BodiesOfOne: 3, Bytes: 4 << 20, BytesOfOne: 2 << 20},
		MaxBodyBytes: 2 << 20, BodyTime: time.Minute,
	}
	client, _, hold := gatewayLimited(t, unlimited, identity.NewSecret(""), tight)
	half(t, client, "203.0.113.1", 2)
	for range 100 {
		if _, bytes := hold.Held(); bytes >= 960<<10 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	status, body, retry := refusal(t, half(t, client, "203.0.113.1", 3))
	if status != 429 || !strings.Contains(body, `"code":"too_many_bodies"`) || retry != "1" {
		t.Errorf("too many bytes: got %d %s, retry after %q", status, body, retry)
	}
	half(t, client, "203.0.113.1", 0)
	half(t, client, "203.0.113.1", 0)
	for range 100 {
		if bodies, _ := hold.Held(); bodies == 3 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if status, body, _ = refusal(t, half(t, client, "203.0.113.1", 0)); status != 429 {
		t.Errorf("too many bodies: got %d %s", status, body)
	}
	c := begin(t, client)
	c.send(asked(false, "x-forwarded-for", "203.0.113.2, 34.0.0.1"), requestBody(`{"model":"m","prompt":"p"}`, true))
	if c.receive().GetRequestHeaders() == nil {
		t.Error("another client must have room")
	}
}

func TestABodyThatDoesNotArriveInTimeIsRefusedWith408(t *testing.T) {
	hasty := bodies
	hasty.BodyTime = 50 * time.Millisecond
	client, _, hold := gatewayLimited(t, unlimited, identity.NewSecret(""), hasty)
	status, body, _ := refusal(t, half(t, client, "203.0.113.1", 0))
	if status != 408 || !strings.Contains(body, `"code":"request_timeout"`) {
		t.Errorf("got %d %s", status, body)
	}
	if bodies, bytes := hold.Held(); bodies != 0 || bytes != 0 {
		t.Errorf("%d bodies and %d bytes are still held", bodies, bytes)
	}
}

func TestResponsesThatGuardsCheckCountAsWell(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"action":"allow"}`))
	}))
	t.Cleanup(server.Close)
	tight := holding.Settings{
		Limits:       holding.Limits{Bodies: 8, BodiesOfOne: 8, Bytes: 2 << 20, BytesOfOne: 2 << 20},
		MaxBodyBytes: 2 << 20, BodyTime: time.Minute,
	}
	text := unlimited + `
models: {m: {guards: [output]}}
guards: {output: {url: "` + server.URL + `", phases: [output], failure: closed, timeout_ms: 5000}}
`
	client, _, hold := gatewayLimited(t, text, identity.NewSecret(""), tight)
	for size, want := range map[int]bool{100: true, 200 << 10: true, 1 << 20: false} {
		c := begin(t, client)
		sent := `{"model":"m","prompt":"p"}`
		c.send(asked(false), requestBody(sent, true))
		c.receive()
		c.requestParts(len(sent))
		answer := `{"choices":[{"index":0,"text":"` + strings.Repeat("x", size) + `"}]}`
		c.send(answered(":status", "200", "content-type", "application/json"), responseBody(answer, true))
		found := c.receive()
		if passed := found.GetResponseHeaders() != nil; passed != want {
			t.Errorf("%d bytes: got %s", size, found.GetImmediateResponse().GetBody())
		}
		c.end()
	}
	for range 200 {
		if bodies, bytes := hold.Held(); bodies == 0 && bytes == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("bodies are still held")
}
