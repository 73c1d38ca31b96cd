package credential

import (
	"context"
	"errors"
	"testing"
	"time"
)

// source returns values one after the other, and fails when there are no more.
type source struct {
	values []string
	asked  chan struct{}
	soft   time.Duration
	hard   time.Duration
}

func (s *source) read(context.Context) (value, error) {
	defer func() { s.asked <- struct{}{} }()
	if len(s.values) == 0 {
		return value{}, errors.New("the source is unavailable")
	}
	text := s.values[0]
	s.values = s.values[1:]
	return value{text, time.Now().Add(s.soft), time.Now().Add(s.hard)}, nil
}

func newSource(soft, hard time.Duration, values ...string) *source {
	return &source{values: values, asked: make(chan struct{}, 100), soft: soft, hard: hard}
}

// use returns the value of an entry, as if a second had passed since the last attempt.
func use(t *testing.T, e *entry, s *source) string {
	t.Helper()
	e.mu.Lock()
	e.tried = time.Time{}
	e.mu.Unlock()
	found, err := e.get(context.Background(), s.read)
	if err != nil {
		return err.Error()
	}
	return found
}

func TestAValueIsReadOnceWhileItIsFresh(t *testing.T) {
	e, s := &entry{}, newSource(time.Hour, time.Hour, "a", "b")
	if first, second := use(t, e, s), use(t, e, s); first != "a" || second != "a" || len(s.asked) != 1 {
		t.Fatal(first, second, len(s.asked))
	}
}

func TestNoRequestWaitsForARenewal(t *testing.T) {
	e, s := &entry{}, newSource(0, time.Hour, "a", "b")
	if first, second := use(t, e, s), use(t, e, s); first != "a" || second != "a" {
		t.Fatal(first, second)
	}
	<-s.asked
	<-s.asked
	for limit := time.Now().Add(5 * time.Second); use(t, e, s) != "b"; {
		if time.Now().After(limit) {
			t.Fatal("the new value is never used")
		}
	}
}

func TestAValueWhoseSourceIsAwayStays(t *testing.T) {
	e, s := &entry{}, newSource(0, 0, "a")
	if first, second := use(t, e, s), use(t, e, s); first != "a" || second != "a" {
		t.Fatal(first, second)
	}
}

func TestAValueThatWasRefusedIsReadBeforeItsNextUse(t *testing.T) {
	e, s := &entry{}, newSource(time.Hour, time.Hour, "a", "b")
	use(t, e, s)
	e.refuse()
	if next := use(t, e, s); next != "b" {
		t.Fatal(next)
	}
}

func TestASourceThatFailsIsNotAskedForEachRequest(t *testing.T) {
	e, s := &entry{}, newSource(0, 0)
	for range 5 {
		if _, err := e.get(context.Background(), s.read); err == nil {
			t.Fatal("a value without a source")
		}
	}
	if len(s.asked) != 1 {
		t.Fatal(len(s.asked))
	}
}
