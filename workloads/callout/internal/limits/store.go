package limits

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"gke-inference/callout/internal/config"
)

// storeTimeout bounds what a store that is away adds to a request; tests on busy machines have a longer one.
var storeTimeout = 50 * time.Millisecond

const (
	// retryAfter is how long a store that failed several times in a row is not asked again.
	retryAfter  = time.Second
	failuresMax = 3
	poolSize    = 64
)

var (
	//go:embed window.lua
	windowSource string
	//go:embed admit.lua
	admitSource string
	//go:embed settle.lua
	settleSource string
	//go:embed guess.lua
	guessSource string

	admitScript  = redis.NewScript(windowSource + admitSource)
	settleScript = redis.NewScript(windowSource + settleSource)
	guessScript  = redis.NewScript(windowSource + guessSource)
)

var errAway = errors.New("the store is away")

// store is the Valkey that replicas count in together. After three failures
// in a row it is left alone for a second.
type store struct {
	client    *redis.Client
	awayUntil atomic.Int64
	failures  atomic.Int64
	failing   atomic.Bool
	onError   func()
}

func openStore(wanted config.Store, onError func()) (*store, error) {
	logging.Disable() // its errors are counted, and logged once an outage
	options := &redis.Options{
		Addr:                  wanted.Address,
		DialTimeout:           storeTimeout,
		DialerRetries:         1,
		ReadTimeout:           storeTimeout,
		WriteTimeout:          storeTimeout,
		PoolTimeout:           storeTimeout,
		PoolSize:              poolSize,
		MinIdleConns:          2,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1, // a script that ran and whose answer was lost must not run twice
		DisableIdentity:       true,
		// Redis Enterprise's; Valkey answers it with an error
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	settings, err := wanted.TLSConfig("store")
	if err != nil {
		return nil, err
	}
	options.TLSConfig = settings
	return &store{client: redis.NewClient(options), onError: onError}, nil
}

// run runs a script, or returns errAway at once while the store is left alone.
func (s *store) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (*redis.Cmd, error) {
	until := s.awayUntil.Load()
	now := time.Now().UnixNano()
	if until > now {
		return nil, errAway
	}
	if until > 0 && !s.awayUntil.CompareAndSwap(until, now+int64(storeTimeout)) {
		return nil, errAway // another request tries whether it is back
	}
	// a client that hangs up says nothing about the store
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	answer := script.Run(ctx, s.client, keys, args...)
	if err := answer.Err(); err != nil {
		s.onError()
		if s.failures.Add(1) < failuresMax {
			return nil, errAway
		}
		s.awayUntil.Store(time.Now().Add(retryAfter).UnixNano())
		if !s.failing.Swap(true) {
			slog.Error("store away, each replica spends its share alone", "error", err.Error())
		}
		return nil, errAway
	}
	s.failures.Store(0)
	if until > 0 {
		s.awayUntil.CompareAndSwap(now+int64(storeTimeout), 0)
		if s.failing.Swap(false) {
			slog.Info("store answers again")
		}
	}
	return answer, nil
}

func (s *store) close() {
	var closer io.Closer = s.client
	if err := closer.Close(); err != nil {
		slog.Error("store not closed", "error", err.Error())
	}
}
