package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/relay/internal/config"
)

// region is the gateway of a region: it answers with its name, and keeps the last request.
type region struct {
	*httptest.Server
	status  int
	isSick  bool
	asked   int
	body    map[string]any
	headers http.Header
	host    string
}

func gateway(t *testing.T, name string) *region {
	t.Helper()
	made := &region{status: http.StatusOK}
	made.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == healthPath {
			if made.isSick {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return
		}
		made.asked++
		made.headers, made.host, made.body = r.Header.Clone(), r.Host, nil
		_ = json.NewDecoder(r.Body).Decode(&made.body)
		w.WriteHeader(made.status)
		_, _ = io.WriteString(w, name)
	}))
	t.Cleanup(made.Close)
	return made
}

// setUp returns a router near us, with a model that only eu serves and whose fallback is `elsewhere`.
func setUp(t *testing.T) (front *httptest.Server, us, eu *region) {
	t.Helper()
	front, us, eu, guard, _ := guarded(t)
	guard.Template = ""
	return front, us, eu
}

// guarded also returns the guard of the router, and its Model Armor. A guard without a template is none.
func guarded(t *testing.T) (front *httptest.Server, us, eu *region, guard *config.FrontGuard, armor *fixed) {
	t.Helper()
	us, eu = gateway(t, "us"), gateway(t, "eu")
	pool := x509.NewCertPool()
	pool.AddCert(us.Certificate())
	pool.AddCert(eu.Certificate())
	found := &config.Config{Front: &config.Front{
		ServerName: "example.com", // the certificate of httptest has it
		Regions:    map[string]string{"us": us.URL, "eu": eu.URL},
		Near:       []string{"us", "eu"},
		Models:     map[string]*config.FrontModel{"european": {Regions: []string{"eu"}, Fallback: "elsewhere"}},
	}}
	guard, armor = &config.FrontGuard{Template: "template", TimeoutMS: 1000}, &fixed{}
	hold := holding.New(holding.Limits{Bodies: 4, BodiesOfOne: 4, Bytes: 1 << 20, BytesOfOne: 1 << 20})
	front = httptest.NewServer(New(&Router{
		Config: func() *config.Config {
			found.Front.Guard = guard
			if guard.Template == "" {
				found.Front.Guard = nil
			}
			return found
		},
		Hold: hold, Armor: armor,
		Limits:      holding.Settings{MaxBodyBytes: 1000, BodyTime: time.Minute},
		Authorities: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}))
	t.Cleanup(front.Close)
	return front, us, eu, guard, armor
}

func ask(t *testing.T, front *httptest.Server, body string, headers ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, front.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "models.example.com"
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

func wants(t *testing.T, front *httptest.Server, body, want string) {
	t.Helper()
	if status, text := ask(t, front, body); status != http.StatusOK || text != want {
		t.Fatalf("%s: got %d %s, want %s", body, status, text, want)
	}
}

func TestTheModelInTheBodySelectsTheRegion(t *testing.T) {
	front, _, eu := setUp(t)
	wants(t, front, `{"model":"european"}`, "eu")
	wants(t, front, `{"model":"everywhere"}`, "us")
	wants(t, front, `{"no":"model"}`, "us")
	wants(t, front, `{"model":"everywhere","Model":"european"}`, "us")
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	_ = parts.WriteField("model", "european")
	_ = parts.Close()
	if _, text := ask(t, front, form.String(), "Content-Type", parts.FormDataContentType()); text != "eu" {
		t.Fatal(text)
	}
	if eu.host != "models.example.com" {
		t.Fatal(eu.host)
	}
}

func TestACredentialPassesAndOnlyTheAddressesOfTheLoadBalancerDo(t *testing.T) {
	front, us, _ := setUp(t)
	ask(t, front, `{}`, "Authorization", "Bearer key", "X-Forwarded-For", "1.1.1.1,203.0.113.9, 34.1.1.1")
	if us.headers.Get("Authorization") != "Bearer key" || us.headers.Get("X-Forwarded-For") != "203.0.113.9,34.1.1.1" {
		t.Fatal(us.headers)
	}
}

func TestTheNextRegionAnswersForALostOne(t *testing.T) {
	front, us, eu := setUp(t)
	us.Close()
	wants(t, front, `{"model":"everywhere"}`, "eu")
	if eu.asked != 1 {
		t.Fatal(eu.asked)
	}
}

func TestTheFallbackAnswersInAnotherRegionIfNoRegionServesTheModel(t *testing.T) {
	front, us, eu := setUp(t)
	eu.Close()
	wants(t, front, `{"model":"european","n":1}`, "us")
	if us.body["model"] != "elsewhere" || us.body["n"] != 1.0 {
		t.Fatal(us.body)
	}
}

func TestARegionWithoutReplicasIsPassedOver(t *testing.T) {
	front, us, eu := setUp(t)
	us.status = http.StatusServiceUnavailable
	wants(t, front, `{"model":"everywhere"}`, "eu")
	eu.status = http.StatusServiceUnavailable
	if status, text := ask(t, front, `{"model":"everywhere"}`); status != http.StatusServiceUnavailable || text != "eu" {
		t.Fatal(status, text)
	}
}

func TestAnEnginesErrorIsTheAnswerAndThatOfALostClusterIsNot(t *testing.T) {
	front, us, eu := setUp(t)
	us.status = http.StatusInternalServerError
	if status, text := ask(t, front, `{"model":"everywhere"}`); status != http.StatusInternalServerError || text != "us" {
		t.Fatal(status, text)
	}
	us.isSick = true
	wants(t, front, `{"model":"everywhere"}`, "eu")
	asked := us.asked
	wants(t, front, `{"model":"everywhere"}`, "eu")
	if us.asked != asked || eu.asked != 2 {
		t.Fatal("a region that does not answer must be asked last")
	}
}

// fixed is a Model Armor that blocks a word, or gives no verdict.
type fixed struct {
	err  error
	seen []string
}

func (f *fixed) Blocks(_ context.Context, template, prompt string) (bool, error) {
	f.seen = append(f.seen, template+" "+prompt)
	return strings.Contains(prompt, "forbidden"), f.err
}

func TestABlockedPromptReachesNoRegion(t *testing.T) {
	front, us, _, settings, armor := guarded(t)
	status, text := ask(t, front, `{"model":"m","messages":[{"role":"user","content":"forbidden"}]}`)
	if status != http.StatusBadRequest || !strings.Contains(text, `"content_filter"`) || us.asked != 0 {
		t.Fatal(status, text)
	}
	clean := `{"model":"m","messages":[{"role":"user","content":"hello"},{"role":"user","content":"you"}]}`
	wants(t, front, clean, "us")
	if armor.seen[1] != "template hello\nyou" {
		t.Fatal(armor.seen)
	}
	if status, _ := ask(t, front, `{"model":"m","messages":[],"vllm_xargs":{"a":1}}`); status != http.StatusBadRequest {
		t.Fatal("what a guardrail cannot read must be refused, got", status)
	}
	armor.err = errors.New("away")
	if status, _ := ask(t, front, clean); status != http.StatusServiceUnavailable {
		t.Fatal(status)
	}
	settings.FailOpen = true
	wants(t, front, clean, "us")
}

func TestNoRegionIs503InOpenAIsFormat(t *testing.T) {
	front, us, eu := setUp(t)
	us.Close()
	eu.Close()
	status, text := ask(t, front, `{"model":"european"}`)
	if status != http.StatusServiceUnavailable || !strings.Contains(text, `"service_unavailable"`) {
		t.Fatal(status, text)
	}
}

func TestALargeBodyIsRefused(t *testing.T) {
	front, _, _ := setUp(t)
	if status, _ := ask(t, front, `{"model":"`+strings.Repeat("x", 2000)+`"}`); status != http.StatusRequestEntityTooLarge {
		t.Fatal(status)
	}
}
