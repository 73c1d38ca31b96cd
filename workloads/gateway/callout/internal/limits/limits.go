// Package limits counts the requests, tokens and dollars of teams across all replicas.
//
// Replicas count together in Valkey, with one script per request. While it is unavailable, each replica
// enforces its share of a limit alone, and then reports the usage in this time to the store.
package limits

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gke-inference/gateway/callout/internal/config"
)

// Reason is the limit that a request exceeds.
type Reason int

// The limits, in the order of admit.lua.
const (
	None Reason = iota
	Requests
	Tokens
	MonthTokens
	MonthUSD
)

// Budget has the limits of a team; 0 means none.
type Budget struct {
	RequestsPerMinute int64
	TokensPerMinute   int64
	TokensPerMonth    int64
	NanoUSDPerMonth   int64
}

// BudgetOf returns the limits of a team.
func BudgetOf(team *config.Team) Budget {
	return Budget{team.RequestsPerMinute, team.TokensPerMinute, team.TokensPerMonth, team.MonthlyNanoUSD()}
}

func (b Budget) isNone() bool   { return b == Budget{} }
func (b Budget) hasMonth() bool { return b.TokensPerMonth > 0 || b.NanoUSDPerMonth > 0 }

// Cost is the estimated or actual cost of a request.
type Cost struct {
	Tokens  int64
	NanoUSD int64
}

// Decision is whether a request is admitted, with the usage of its team.
type Decision struct {
	Allowed bool
	Reason  Reason
	// Retry is the time until the request fits the limit; 0 for a monthly limit.
	Retry time.Duration
	// UsedRequests and UsedTokens are for the last minute, including this request.
	UsedRequests int64
	UsedTokens   int64
	// MonthTokens and MonthNanoUSD are for the month so far.
	MonthTokens  int64
	MonthNanoUSD int64

	isLocal bool
	second  int64
}

func (d *Decision) refuse(reason Reason, retry time.Duration) {
	d.Allowed, d.Reason, d.Retry = false, reason, retry
}

// Reservation is the estimate of an admitted request, to be settled once.
type Reservation struct {
	team   string
	month  string
	budget Budget
	cost   Cost
	second int64
	local  int64
	shared bool
}

// Limiter admits and settles requests.
type Limiter struct {
	onError func()

	mu       sync.Mutex
	replicas int64
	wanted   config.Store
	store    *store
	accounts map[string]*account
	guesses  guesses
}

// New returns a limiter that counts alone until Use sets a store.
func New(onError func()) *Limiter {
	return &Limiter{onError: onError, replicas: 1, accounts: map[string]*account{}}
}

// Use applies the store and the number of replicas of a configuration.
func (l *Limiter) Use(c *config.Config) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replicas = c.Replicas
	var wanted config.Store
	if c.Store != nil {
		wanted = *c.Store
	}
	if wanted == l.wanted {
		return nil
	}
	var made *store
	if c.Store != nil {
		var err error
		if made, err = openStore(wanted, l.onError); err != nil {
			return err
		}
	}
	if l.store != nil {
		l.store.close()
	}
	l.wanted, l.store = wanted, made
	return nil
}

func monthOf(now time.Time) string { return now.UTC().Format("200601") }

// NextMonth returns the time until the month ends.
func NextMonth(now time.Time) time.Duration {
	now = now.UTC()
	return time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC).Sub(now)
}

// keys are in one slot, so that a script can use them together in a cluster.
func keysOf(team, month string) (requests, tokens, spent string) {
	prefix := "callout:{" + team + "}:"
	return prefix + "window:requests", prefix + "window:tokens", prefix + "month:" + month
}

// Admit counts a request with its estimated cost, or refuses it and counts nothing. Settle needs the
// reservation of an admitted request.
func (l *Limiter) Admit(ctx context.Context, team string, b Budget, cost Cost, now time.Time) (Decision, *Reservation) {
	if b.isNone() {
		return Decision{Allowed: true}, nil
	}
	held := &Reservation{team: team, month: monthOf(now), budget: b, cost: cost, local: now.Unix()}
	l.mu.Lock()
	account := l.account(team, held.month)
	store, replicas := l.store, l.replicas
	if store == nil {
		defer l.mu.Unlock()
		return account.admit(now, b, cost, replicas), held
	}
	// taken here, so that only one of two concurrent requests reports to the store
	telling := account.untold
	account.untold = untold{}
	l.mu.Unlock()

	decision, err := askStore(ctx, store, held, &telling)

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		account.untold.addAll(telling, held.local)
		return account.admit(now, b, cost, replicas), held
	}
	account.sharedTokens, account.sharedNano = decision.MonthTokens, decision.MonthNanoUSD
	if decision.Allowed {
		held.shared, held.second = true, decision.second
		account.count(held.local, cost.Tokens)
	}
	return decision, held
}

func (l *Limiter) account(team, month string) *account {
	found := l.accounts[team]
	if found == nil {
		found = &account{}
		l.accounts[team] = found
	}
	found.begin(month)
	return found
}

func askStore(ctx context.Context, s *store, held *Reservation, telling *untold) (Decision, error) {
	requests, tokens, month := keysOf(held.team, held.month)
	b := held.budget
	answer, err := s.run(ctx, admitScript, []string{requests, tokens, month},
		b.RequestsPerMinute, b.TokensPerMinute, b.TokensPerMonth, b.NanoUSDPerMonth,
		held.cost.Tokens, held.cost.NanoUSD, telling.tokens, telling.nano,
		telling.requestsWindow.sum(held.local), telling.tokensWindow.sum(held.local))
	if err != nil {
		return Decision{}, err
	}
	found, err := answer.Int64Slice()
	if err != nil || len(found) != 7 {
		return Decision{}, fmt.Errorf("the reply of the store has another shape: %w", err)
	}
	return Decision{
		Allowed: found[0] == 0, Reason: Reason(found[0]), Retry: time.Duration(found[1]) * time.Millisecond,
		UsedRequests: found[2], UsedTokens: found[3], MonthTokens: found[4], MonthNanoUSD: found[5], second: found[6],
	}, nil
}

// Settle replaces the estimate of a request with its actual cost, and returns the team's usage this
// month.
func (l *Limiter) Settle(ctx context.Context, held *Reservation, used Cost) (spent Cost) {
	if held == nil {
		return Cost{}
	}
	delta := Cost{used.Tokens - held.cost.Tokens, used.NanoUSD - held.cost.NanoUSD}
	l.mu.Lock()
	account := l.account(held.team, held.month)
	account.tokens.add(held.local, delta.Tokens)
	store, isCurrent := l.store, account.month == held.month
	l.mu.Unlock()

	var shared []int64
	var err error = errAway
	if store != nil && held.shared {
		_, tokens, month := keysOf(held.team, held.month)
		shared, err = settleStore(ctx, store, []string{tokens, month}, held, delta)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		account.untold.tokensWindow.add(held.local, delta.Tokens)
	}
	switch {
	case !isCurrent: // the month has ended since
	case err != nil:
		account.untold.tokens += delta.Tokens
		account.untold.nano += delta.NanoUSD
	case held.budget.hasMonth():
		account.sharedTokens, account.sharedNano = shared[0], shared[1]
	}
	return Cost{account.sharedTokens + account.untold.tokens, account.sharedNano + account.untold.nano}
}

func settleStore(ctx context.Context, s *store, keys []string, held *Reservation, delta Cost) ([]int64, error) {
	answer, err := s.run(ctx, settleScript, keys, held.second, delta.Tokens, delta.NanoUSD,
		flag(held.budget.TokensPerMinute > 0), flag(held.budget.hasMonth()))
	if err != nil {
		return nil, err
	}
	found, err := answer.Int64Slice()
	if err != nil || len(found) != 2 {
		return nil, fmt.Errorf("the reply of the store has another shape: %w", err)
	}
	return found, nil
}

func flag(value bool) int {
	if value {
		return 1
	}
	return 0
}
