package relay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"gke-inference/gateway/relay/internal/openai"
)

// idleTimer cancels a call of a target that sends nothing for some time.
type idleTimer struct {
	after   time.Duration
	cancel  context.CancelFunc
	timer   *time.Timer
	isFired atomic.Bool
}

// watchIdle returns a context that ends when a target has sent nothing for some time.
func watchIdle(ctx context.Context, after time.Duration) (context.Context, *idleTimer) {
	ctx, cancel := context.WithCancel(ctx)
	made := &idleTimer{after: after, cancel: cancel}
	made.timer = time.AfterFunc(after, func() {
		made.isFired.Store(true)
		cancel()
	})
	return ctx, made
}

func (t *idleTimer) start() { t.timer.Reset(t.after) }

// pause stops the time until the next start: nobody waits for the target while a client reads slowly.
func (t *idleTimer) pause() { t.timer.Stop() }

func (t *idleTimer) stop() {
	t.timer.Stop()
	t.cancel()
}

// err returns what an error of the call is: a target that sent nothing in time, or what it was.
func (t *idleTimer) err(err error) error {
	if err != nil && t.isFired.Load() {
		return openai.ErrStalled
	}
	return err
}

// idleBody is a stream with a limit of the time between its bytes. The first piece is read before the response of the
// target counts, since another target can still answer then.
type idleBody struct {
	io.ReadCloser
	timer *idleTimer
	first []byte
	err   error
	// stalled counts a stream that has begun and then stalls.
	stalled func()
}

// readFirst reads the first piece.
func (b *idleBody) readFirst() error {
	piece := make([]byte, 4<<10)
	n, err := b.ReadCloser.Read(piece)
	b.first, b.err = piece[:n], b.timer.err(err)
	b.timer.pause()
	if n > 0 {
		return nil
	}
	if b.err == io.EOF {
		return nil
	}
	return b.err
}

// Read passes bytes.
func (b *idleBody) Read(into []byte) (int, error) {
	if len(b.first) > 0 {
		n := copy(into, b.first)
		b.first = b.first[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	b.timer.start()
	n, err := b.ReadCloser.Read(into)
	b.timer.pause()
	if err = b.timer.err(err); errors.Is(err, openai.ErrStalled) {
		b.stalled()
	}
	return n, err
}

// Close ends the call.
func (b *idleBody) Close() error {
	b.timer.stop()
	return b.ReadCloser.Close()
}

// tryStream calls a target for a stream with a limit of the time between bytes, from the call on. Without a byte in
// time, the error is openai.ErrStalled.
func (a *Attempts) tryStream(r *http.Request, made *call, try func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	after := time.Duration(made.backend.IdleSeconds * float64(time.Second))
	if after == 0 || !made.request.Stream {
		return try(r)
	}
	ctx, timer := watchIdle(r.Context(), after)
	answer, err := try(r.WithContext(ctx))
	if err != nil {
		err = timer.err(err)
		timer.stop()
		return answer, err
	}
	answer.Request = r // without the context of the call
	body := &idleBody{ReadCloser: answer.Body, timer: timer, stalled: a.Metrics.Stalled.WithLabelValues(made.name).Inc}
	answer.Body = body
	if answer.StatusCode != http.StatusOK {
		return answer, nil
	}
	if err := body.readFirst(); err != nil {
		body.Close()
		return nil, err
	}
	return answer, nil
}
