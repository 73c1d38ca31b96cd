package identity

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/MicahParks/jwkset"
	"golang.org/x/sync/singleflight"
)

const (
	refreshEvery = 10 * time.Minute
	jwksTimeout  = 5 * time.Second

	// unknownKeyEvery is how often tokens with unknown keys cause a read.
	unknownKeyEvery = 10 * time.Second
	// failedReadEvery is the same after a read that failed.
	failedReadEvery = time.Second
)

// unknownKeyWait limits how long a token waits for a read of the keys. The load balancer waits for one
// second. Tests on busy machines wait longer.
var unknownKeyWait = 800 * time.Millisecond

// errUnread means that the key of a token is unknown, and that the issuer's keys cannot be read.
var errUnread = errors.New("the keys of the issuer cannot be read")

// issuerKeys are the public keys of an issuer. They are read regularly, and when a token names an unknown
// key. All tokens that do so at the same time wait for one read.
type issuerKeys struct {
	jwkset.Storage

	fetch func() error
	reads singleflight.Group

	// only for the one read at a time
	askedAt time.Time
	err     error
}

// newIssuerKeys reads the keys for the first time, and follows them until the context ends.
func newIssuerKeys(ctx context.Context, uri string) *issuerKeys {
	k := &issuerKeys{Storage: jwkset.NewMemoryStorage()}
	k.fetch = func() error {
		_, err := jwkset.NewStorageFromHTTP(uri, jwkset.HTTPClientStorageOptions{
			Ctx: ctx, HTTPTimeout: jwksTimeout, Storage: k.Storage,
		})
		if err != nil && ctx.Err() == nil {
			slog.Error("keys of an issuer not read, the last ones stay valid", "jwks_uri", uri, "error", err.Error())
		}
		return err
	}
	<-k.reads.DoChan("", k.read)
	go func() {
		ticker := time.NewTicker(refreshEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				k.reads.DoChan("", k.read)
			}
		}
	}()
	return k
}

// KeyRead returns a key by its ID. If it is unknown, it reads the issuer's keys again, or waits for the
// read that another token has started.
func (k *issuerKeys) KeyRead(ctx context.Context, id string) (jwkset.JWK, error) {
	found, err := k.Storage.KeyRead(ctx, id)
	if !errors.Is(err, jwkset.ErrKeyNotFound) {
		return found, err
	}
	limit := time.NewTimer(unknownKeyWait)
	defer limit.Stop()
	select {
	case done := <-k.reads.DoChan("", k.readAgain):
		if done.Err != nil {
			return jwkset.JWK{}, errUnread
		}
		return k.Storage.KeyRead(ctx, id)
	case <-limit.C:
		return jwkset.JWK{}, errUnread
	}
}

// readAgain reads the keys for a token, unless that was done a moment ago.
func (k *issuerKeys) readAgain() (any, error) {
	pause := unknownKeyEvery
	if k.err != nil {
		pause = failedReadEvery
	}
	if time.Since(k.askedAt) < pause {
		return nil, k.err
	}
	_, err := k.read()
	k.askedAt = time.Now()
	return nil, err
}

func (k *issuerKeys) read() (any, error) {
	k.err = k.fetch()
	return nil, k.err
}
