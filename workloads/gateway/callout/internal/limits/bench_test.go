package limits

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"gke-inference/gateway/callout/internal/config"
)

// BenchmarkAdmitAndSettle measures a request's calls of the store, after a minute of requests.
func BenchmarkAdmitAndSettle(b *testing.B) {
	server := miniredis.RunT(b)
	limiter := New(func() { b.Fatal("the store failed") })
	if err := limiter.Use(&config.Config{Replicas: 1, Store: &config.Store{Address: server.Addr()}}); err != nil {
		b.Fatal(err)
	}
	StoreTimeout = time.Minute
	budget := Budget{1 << 40, 1 << 40, 1 << 40, 1 << 50}
	ask := func(now time.Time) {
		server.SetTime(now)
		_, held := limiter.Admit(context.Background(), "t", budget, Cost{200, 1}, now)
		limiter.Settle(context.Background(), held, Cost{150, 1})
	}
	start := time.Now()
	for second := range 61 {
		ask(start.Add(time.Duration(second) * time.Second))
	}
	last := start.Add(60 * time.Second)
	b.ReportAllocs()
	for b.Loop() {
		ask(last)
	}
}
