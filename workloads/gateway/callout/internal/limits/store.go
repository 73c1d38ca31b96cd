package limits

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"gke-inference/gateway/callout/internal/config"
)

// StoreTimeout limits the delay of a request by an unavailable store. It is set before the first
// limiter is made. Tests on busy machines use a longer timeout.
var StoreTimeout = 50 * time.Millisecond

const (
	// retryAfter is how long the store is not called after several consecutive failures.
	retryAfter  = time.Second
	failuresMax = 3
	poolSize    = 64
)

var (
	//go:embed window.lua
	windowSource string
	//go:embed admit.lua
	admitSource string
	//go:embed ledger.lua
	ledgerSource string
	//go:embed renew.lua
	renewSource string
	//go:embed sync.lua
	syncSource string
	//go:embed settle.lua
	settleSource string
	//go:embed guess.lua
	guessSource string

	admitScript  = redis.NewScript(windowSource + ledgerSource + admitSource)
	settleScript = redis.NewScript(windowSource + ledgerSource + settleSource)
	syncScript   = redis.NewScript(windowSource + ledgerSource + syncSource)
	renewScript  = redis.NewScript(renewSource)
	guessScript  = redis.NewScript(windowSource + guessSource)
)

var (
	errAway = errors.New("the store is unavailable")
	// errPaused is the error of calls that were not made, during the pause after failures.
	errPaused = fmt.Errorf("%w: it is not called", errAway)
)

// store is the Valkey that replicas count in together. After three consecutive failures, it is not
// called for a second.
type store struct {
	client    *redis.Client
	awayUntil atomic.Int64
	failures  atomic.Int64
	failing   atomic.Bool
	onError   func()
	clock     func() time.Time
}

func openStore(wanted config.Store, onError func(), clock func() time.Time) (*store, error) {
	logging.Disable() // errors are counted, and logged once per outage
	options := &redis.Options{
		Addr:                  wanted.Address,
		DialTimeout:           StoreTimeout,
		DialerRetries:         1,
		ReadTimeout:           StoreTimeout,
		WriteTimeout:          StoreTimeout,
		PoolTimeout:           StoreTimeout,
		PoolSize:              poolSize,
		MinIdleConns:          2,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1, // a script whose reply was lost must not run twice
		DisableIdentity:       true,
		// supported only by Redis Enterprise; Valkey returns an error
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	settings, err := wanted.TLSConfig("store")
	if err != nil {
		return nil, err
	}
	options.TLSConfig = settings
	return &store{client: redis.NewClient(options), onError: onError, clock: clock}, nil
}

// run runs a script, or returns errPaused immediately during the pause after failures.
func (s *store) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (*redis.Cmd, error) {
	var answer *redis.Cmd
	err := s.attempt(ctx, func(ctx context.Context) error {
		answer = script.Run(ctx, s.client, keys, args...)
		return answer.Err()
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// attempt calls the store, or returns errPaused immediately during the pause after failures.
func (s *store) attempt(ctx context.Context, call func(context.Context) error) error {
	until := s.awayUntil.Load()
	now := s.clock().UnixNano()
	if until > now {
		return errPaused
	}
	if until > 0 && !s.awayUntil.CompareAndSwap(until, now+int64(StoreTimeout)) {
		return errPaused // another request checks whether it is available again
	}
	// a client that disconnects is not a failure of the store
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StoreTimeout)
	defer cancel()
	if err := call(ctx); err != nil {
		s.onError()
		if s.failures.Add(1) < failuresMax {
			return errAway
		}
		s.awayUntil.Store(s.clock().Add(retryAfter).UnixNano())
		if !s.failing.Swap(true) {
			slog.Error("store unavailable, each replica enforces its share alone", "error", err.Error())
		}
		return errAway
	}
	s.failures.Store(0)
	if until > 0 {
		s.awayUntil.CompareAndSwap(now+int64(StoreTimeout), 0)
		if s.failing.Swap(false) {
			slog.Info("store available again")
		}
	}
	return nil
}

func (s *store) close() {
	var closer io.Closer = s.client
	if err := closer.Close(); err != nil {
		slog.Error("store not closed", "error", err.Error())
	}
}
