package identity

import (
	"crypto/ecdsa"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"gke-inference/gateway/callout/internal/config"
)

const concurrent = 50

// rotating is an issuer that publishes a second key, and answers when the test lets it.
type rotating struct {
	*httptest.Server
	published atomic.Pointer[signer]
	answering sync.RWMutex
	isAway    atomic.Bool
	reads     atomic.Int32
}

func newRotating(t *testing.T) (*rotating, *config.Config) {
	r := &rotating{}
	r.published.Store(newSigner(t))
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.reads.Add(1)
		r.answering.RLock()
		defer r.answering.RUnlock()
		if r.isAway.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(r.published.Load().document)
	}))
	t.Cleanup(r.Server.Close)
	return r, &config.Config{JWT: []config.JWT{{Issuer: "https://i", Audiences: []string{"us"}, JWKSURI: r.URL,
		Header: "authorization", Claim: "team", Teams: map[string]string{"r": "research"}}}}
}

func tokenOf(t *testing.T, id string, key *ecdsa.PrivateKey) map[string][]string {
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": "https://i", "aud": "us", "exp": now.Add(time.Hour).Unix(), "team": "r"})
	token.Header["kid"] = id
	signed, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]string{"authorization": {"Bearer " + signed}}
}

// verdicts verifies a token many times at once, and counts the verdicts. It calls meanwhile while the
// verifications wait.
func verdicts(v *Verifier, c *config.Config, headers map[string][]string, meanwhile func()) map[Verdict]int {
	found := make(chan Verdict, concurrent)
	var started sync.WaitGroup
	for range concurrent {
		started.Add(1)
		go func() {
			started.Done()
			_, verdict := v.Verify(c, headers, now)
			found <- verdict
		}()
	}
	started.Wait()
	meanwhile()
	counts := map[Verdict]int{}
	for range concurrent {
		counts[<-found]++
	}
	return counts
}

func waitLonger(t *testing.T, wait time.Duration) {
	before := unknownKeyWait
	unknownKeyWait = wait
	t.Cleanup(func() { unknownKeyWait = before })
}

func TestConcurrentTokensOfANewKeyWaitForOneRead(t *testing.T) {
	waitLonger(t, time.Minute)
	r, c := newRotating(t)
	v := verifierOf(t, c)
	second := newSignerOf(t, "k2")
	r.published.Store(second)
	r.answering.Lock()
	counts := verdicts(v, c, tokenOf(t, "k2", second.key), func() {
		for r.reads.Load() < 2 {
			time.Sleep(time.Millisecond)
		}
		r.answering.Unlock()
	})
	if counts[Valid] != concurrent {
		t.Errorf("got %v", counts)
	}
	if read := r.reads.Load(); read != 2 {
		t.Errorf("the keys were read %d times, want at the start and once more", read)
	}
}

func TestATokenDoesNotWaitForAnIssuerThatDoesNotAnswer(t *testing.T) {
	waitLonger(t, 10*time.Millisecond)
	r, c := newRotating(t)
	v := verifierOf(t, c)
	first := r.published.Load().key
	r.answering.Lock()
	counts := verdicts(v, c, tokenOf(t, "k2", first), func() {})
	if _, verdict := v.Verify(c, tokenOf(t, "k1", first), now); verdict != Valid {
		t.Errorf("a known key: got %v", verdict)
	}
	r.answering.Unlock()
	if counts[Unknown] != concurrent {
		t.Errorf("got %v", counts)
	}
}

func TestAnUnknownKeyIsNotRefusedWhileTheKeysCannotBeRead(t *testing.T) {
	waitLonger(t, time.Minute)
	r, c := newRotating(t)
	v := verifierOf(t, c)
	r.isAway.Store(true)
	headers := tokenOf(t, "k2", r.published.Load().key)
	for range 3 {
		if _, verdict := v.Verify(c, headers, now); verdict != Unknown {
			t.Errorf("got %v", verdict)
		}
	}
	if read := r.reads.Load(); read > 3 {
		t.Errorf("an issuer that is away was asked %d times", read)
	}
}

func TestAKeyThatTheIssuerDoesNotPublishIsNotAWrongSignature(t *testing.T) {
	waitLonger(t, time.Minute)
	r, c := newRotating(t)
	v := verifierOf(t, c)
	stranger := newSigner(t).key
	for range 3 {
		if _, verdict := v.Verify(c, tokenOf(t, "k2", stranger), now); verdict != Unpublished {
			t.Errorf("an unknown key: got %v", verdict)
		}
		if _, verdict := v.Verify(c, tokenOf(t, "k1", stranger), now); verdict != Invalid {
			t.Errorf("a known key: got %v", verdict)
		}
	}
	if read := r.reads.Load(); read != 2 {
		t.Errorf("the keys were read %d times, want at the start and once more", read)
	}
}
