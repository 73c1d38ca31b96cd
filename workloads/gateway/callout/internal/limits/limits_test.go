package limits

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"gke-inference/gateway/callout/internal/config"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) {
	StoreTimeout = 500 * time.Millisecond
	os.Exit(m.Run())
}

// cloud is a store with a clock of its own, and replicas that count in it.
type cloud struct {
	t        *testing.T
	server   *miniredis.Miniredis
	replicas []*Limiter
	errors   atomic.Int64
	now      time.Time
}

func newCloud(t *testing.T, replicas int) *cloud {
	c := &cloud{t: t, server: miniredis.RunT(t), now: start}
	for range replicas {
		made := New(func() { c.errors.Add(1) })
		made.clock = func() time.Time { return c.now }
		found := &config.Config{Replicas: int64(replicas), Store: &config.Store{Address: c.server.Addr()}}
		if err := made.Use(found); err != nil {
			t.Fatal(err)
		}
		c.replicas = append(c.replicas, made)
	}
	c.server.SetTime(c.now)
	return c
}

func (c *cloud) pass(d time.Duration) {
	c.now = c.now.Add(d)
	c.server.SetTime(c.now)
	c.server.FastForward(d)
}

func (c *cloud) admit(replica int, b Budget, tokens int64) (Decision, *Reservation) {
	return c.replicas[replica].Admit(context.Background(), "team", b, Cost{tokens, tokens * 1000}, c.now)
}

func TestThreeReplicasShareOneLimitOfRequests(t *testing.T) {
	c := newCloud(t, 3)
	budget := Budget{RequestsPerMinute: 60}
	var allowed atomic.Int64
	var wait sync.WaitGroup
	for replica := range 3 {
		wait.Go(func() {
			for range 50 {
				if decision, _ := c.admit(replica, budget, 1); decision.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	if allowed.Load() != 60 || c.errors.Load() != 0 {
		t.Errorf("%d of 150 requests passed with %d errors, want 60", allowed.Load(), c.errors.Load())
	}
}

func TestNoWindowOfAMinutePassesMoreThanItsLimit(t *testing.T) {
	c := newCloud(t, 1)
	budget := Budget{RequestsPerMinute: 10}
	var passed []time.Time
	for range 3000 {
		if decision, _ := c.admit(0, budget, 1); decision.Allowed {
			passed = append(passed, c.now)
		}
		c.pass(100 * time.Millisecond)
	}
	for at := range passed {
		if at >= 10 && passed[at].Sub(passed[at-10]) < time.Minute {
			t.Fatalf("11 requests within %s", passed[at].Sub(passed[at-10]))
		}
	}
	if len(passed) < 48 || len(passed) > 50 { // 10 in each of nearly five minutes
		t.Errorf("%d requests passed in 300 s", len(passed))
	}
}

func TestARefusedRequestIsToldWhenThereIsRoom(t *testing.T) {
	c := newCloud(t, 1)
	budget := Budget{TokensPerMinute: 100}
	c.admit(0, budget, 60)
	c.pass(10 * time.Second)
	c.admit(0, budget, 40)
	decision, reservation := c.admit(0, budget, 50)
	if decision.Allowed || decision.Reason != Tokens || decision.UsedTokens != 100 {
		t.Fatalf("got %+v, %+v", decision, reservation)
	}
	if decision.Retry != 51*time.Second {
		t.Errorf("got %s, want the 60 tokens' end", decision.Retry)
	}
	c.pass(decision.Retry)
	if decision, _ := c.admit(0, budget, 50); !decision.Allowed {
		t.Errorf("got %+v after the wait", decision)
	}
}

func TestAnEstimateIsCorrectedByWhatWasUsed(t *testing.T) {
	c := newCloud(t, 2)
	budget := Budget{TokensPerMinute: 1000, TokensPerMonth: 10_000, NanoUSDPerMonth: 1 << 40}
	_, small := c.admit(0, budget, 900)
	if decision, _ := c.admit(1, budget, 900); decision.Allowed {
		t.Fatal("an estimate must count at once")
	}
	c.replicas[0].Settle(context.Background(), small, Cost{100, 7})
	decision, large := c.admit(1, budget, 100)
	if !decision.Allowed || decision.UsedTokens != 200 {
		t.Fatalf("got %+v", decision)
	}
	spent := c.replicas[1].Settle(context.Background(), large, Cost{700, 9})
	if spent != (Cost{800, 16}) {
		t.Errorf("got %+v", spent)
	}
	if decision, _ := c.admit(0, budget, 300); decision.Allowed {
		t.Error("more than the estimate must count as well")
	}
}

func TestTheBudgetOfAMonthEndsWithIt(t *testing.T) {
	for name, one := range map[string]struct {
		budget Budget
		want   Reason
	}{
		"tokens":  {Budget{TokensPerMonth: 250}, MonthTokens},
		"dollars": {Budget{NanoUSDPerMonth: 250_000}, MonthUSD},
	} {
		c := newCloud(t, 3)
		passed := 0
		for replica := range 9 {
			decision, held := c.admit(replica%3, one.budget, 100)
			if decision.Allowed {
				passed++
				c.replicas[replica%3].Settle(context.Background(), held, held.cost)
			} else if decision.Reason != one.want {
				t.Errorf("%s: got %+v", name, decision)
			}
		}
		if passed != 3 {
			t.Errorf("%s: %d requests of 100 passed, want those until 250 are spent", name, passed)
		}
		c.pass(NextMonth(c.now))
		if decision, _ := c.admit(0, one.budget, 100); !decision.Allowed {
			t.Errorf("%s: got %+v in the next month", name, decision)
		}
	}
}

func TestAReplicaSpendsItsShareWhileTheStoreIsAway(t *testing.T) {
	c := newCloud(t, 3)
	budget := Budget{RequestsPerMinute: 30, TokensPerMonth: 10_000}
	for range 4 {
		c.admit(0, budget, 100)
	}
	c.server.SetError("LOADING")
	passed := 0
	var held []*Reservation
	for range 20 {
		if decision, reservation := c.admit(0, budget, 100); decision.Allowed {
			passed++
			held = append(held, reservation)
		}
	}
	if passed != 6 { // a third of 30, of which 4 are spent
		t.Errorf("%d requests passed alone, want 6", passed)
	}
	if c.errors.Load() != failuresMax {
		t.Errorf("%d errors, want %d before the store is left alone", c.errors.Load(), failuresMax)
	}
	for _, reservation := range held {
		c.replicas[0].Settle(context.Background(), reservation, Cost{50, 0})
	}
	c.server.SetError("")
	c.pass(retryAfter + StoreTimeout)
	c.pass(20 * time.Second) // the first four are still in flight
	c.replicas[0].Catch(context.Background())
	c.pass(60 * time.Second)
	c.replicas[0].Catch(context.Background())
	decision, _ := c.admit(0, budget, 100)
	if want := int64(4*100 + 6*50 + 100); decision.MonthTokens != want {
		t.Errorf("the store has %d tokens of the month, want %d", decision.MonthTokens, want)
	}
}

func TestAStoreThatHangsAddsLittle(t *testing.T) {
	c := newCloud(t, 1)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	found := &config.Config{Replicas: 1, Store: &config.Store{Address: silent.Addr().String()}}
	if err := c.replicas[0].Use(found); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 100 {
		if decision, _ := c.admit(0, Budget{RequestsPerMinute: 1000}, 1); !decision.Allowed {
			t.Fatalf("got %+v", decision)
		}
	}
	// asking it each time would take 100 times its time-out
	if spent := time.Since(began); spent > 10*StoreTimeout {
		t.Errorf("100 requests took %s", spent)
	}
}

func TestASmallLimitLeavesEachReplicaOne(t *testing.T) {
	l := New(func() {})
	if err := l.Use(&config.Config{Replicas: 5}); err != nil {
		t.Fatal(err)
	}
	decision, _ := l.Admit(context.Background(), "t", Budget{RequestsPerMinute: 2}, Cost{}, start)
	again, _ := l.Admit(context.Background(), "t", Budget{RequestsPerMinute: 2}, Cost{}, start)
	if !decision.Allowed || again.Allowed || again.Retry != 61*time.Second {
		t.Errorf("got %+v, then %+v", decision, again)
	}
}

func TestASettlementOfLastMonthLeavesThisOne(t *testing.T) {
	l := New(func() {})
	budget := Budget{TokensPerMonth: 1000}
	_, held := l.Admit(context.Background(), "t", budget, Cost{Tokens: 500}, start)
	next := start.Add(NextMonth(start))
	l.Admit(context.Background(), "t", budget, Cost{Tokens: 10}, next)
	if spent := l.Settle(context.Background(), held, Cost{Tokens: 900}); spent.Tokens != 10 {
		t.Errorf("got %+v", spent)
	}
}

func TestGuessesOfAnAddressAreCountedOverReplicas(t *testing.T) {
	c := newCloud(t, 3)
	refused := 0
	for n := range 30 {
		if c.replicas[n%3].Guess(context.Background(), "192.0.2.7", c.now) {
			refused++
		}
	}
	if refused != 30-GuessesPerMinute {
		t.Errorf("%d of 30 guesses refused", refused)
	}
	if c.replicas[0].Guess(context.Background(), "192.0.2.8", c.now) {
		t.Error("another address must not be refused")
	}
	c.pass(2 * time.Minute)
	if c.replicas[0].Guess(context.Background(), "192.0.2.7", c.now) {
		t.Error("after a minute the address starts again")
	}
}

func TestTheMemoryOfGuessesIsBounded(t *testing.T) {
	var g guesses
	for n := range maxAddresses + 100 {
		g.add(fmt.Sprint(n), start)
	}
	if len(g.current) != maxAddresses || g.add("0", start) != 2 {
		t.Errorf("%d addresses", len(g.current))
	}
}

func TestAStoreThatIsBackIsToldOfTheLastMinute(t *testing.T) {
	c := newCloud(t, 3)
	budget := Budget{RequestsPerMinute: 30, TokensPerMinute: 3000}
	c.server.SetError("LOADING")
	for replica := range 3 {
		for range 20 {
			c.admit(replica, budget, 10)
		}
	}
	c.server.SetError("")
	c.pass(retryAfter + StoreTimeout)
	passed := 0
	var last Decision
	for n := range 30 {
		decision, _ := c.admit(n%3, budget, 10)
		if decision.Allowed {
			passed++
		}
		last = decision
	}
	// each replica tells its ten with its first request, so the first two see fewer
	if passed > 2 || last.UsedRequests < 30 || last.UsedTokens < 300 {
		t.Errorf("%d requests passed after 30 were admitted alone: %+v", passed, last)
	}
}

func TestABudgetIsSpentOnceItIsUsedOrReservedWhicheverReplicaIsAsked(t *testing.T) {
	c := newCloud(t, 2)
	budget := Budget{NanoUSDPerMonth: 100_000}
	isSpent := func(replica int) bool {
		return c.replicas[replica].IsSpent(context.Background(), "team", budget.NanoUSDPerMonth, c.now)
	}
	if isSpent(0) || isSpent(1) {
		t.Error("nothing is used")
	}
	_, held := c.admit(0, budget, 100)
	if !isSpent(0) || !isSpent(1) {
		t.Error("a request in flight has reserved all of it")
	}
	c.replicas[0].Settle(context.Background(), held, Cost{60, 60_000})
	if isSpent(0) || isSpent(1) {
		t.Error("40 percent are left")
	}
	beyond := Budget{NanoUSDPerMonth: 200_000}
	decision, _ := c.admit(1, beyond, 90)
	if !decision.Allowed || !isSpent(0) {
		t.Error("the same ledger has a higher limit for other requests")
	}
	c.server.Close()
	if !c.replicas[1].IsSpent(context.Background(), "team", 50_000, c.now) {
		t.Error("without its store, a replica knows what it was told last")
	}
}

func TestAReplicaWithoutAStoreKnowsWhetherItsShareIsSpent(t *testing.T) {
	alone := New(func() {})
	if err := alone.Use(&config.Config{Replicas: 2}); err != nil {
		t.Fatal(err)
	}
	budget := Budget{NanoUSDPerMonth: 100_000}
	alone.Admit(context.Background(), "team", budget, Cost{10, 49_000}, start)
	if alone.IsSpent(context.Background(), "team", budget.NanoUSDPerMonth, start) {
		t.Error("its share is 50,000")
	}
	alone.Admit(context.Background(), "team", budget, Cost{10, 1_000}, start)
	if !alone.IsSpent(context.Background(), "team", budget.NanoUSDPerMonth, start) {
		t.Error("its share is used")
	}
}
