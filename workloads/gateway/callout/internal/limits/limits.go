// Package limits counts the requests, tokens and dollars of teams across all replicas.
//
// Replicas count together in Valkey, with one script per request. While it is unavailable, each replica
// enforces its share of a limit alone, and then reports the usage in this time to the store. The ledger of a
// month survives a store that loses its memory, and each request is in it once (ledger.lua).
package limits

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
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
	// HeldTokens and HeldUSD are budgets that the requests in flight can use up.
	HeldTokens
	HeldUSD
	// Share is the part of a budget that a replica enforces alone while the store is away.
	Share
)

// Budget has the limits of a team; 0 means none.
type Budget struct {
	RequestsPerMinute int64
	TokensPerMinute   int64
	TokensPerMonth    int64
	NanoUSDPerMonth   int64
}

// BudgetOf returns the limits of a team's requests to a model.
func BudgetOf(team *config.Team, model string) Budget {
	return Budget{team.RequestsPerMinute, team.TokensPerMinute, team.TokensPerMonth, team.NanoUSDFor(model)}
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
	// MonthTokens and MonthNanoUSD are for the month so far, with what requests in flight have reserved.
	MonthTokens  int64
	MonthNanoUSD int64

	isLocal bool
	second  int64
	known   known
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
	id     string
	// renewed is when the store last heard of the reservation.
	renewed time.Time
}

// Limiter admits and settles requests.
type Limiter struct {
	onError func()
	clock   func() time.Time
	prefix  string
	number  atomic.Int64
	// catching is held by the one call of Catch that is under way.
	catching sync.Mutex

	mu       sync.Mutex
	pending  []settlement
	inFlight map[*Reservation]struct{}
	copies   copies
	replicas int64
	wanted   config.Store
	store    *store
	accounts map[string]*account
	guesses  guesses
}

// New returns a limiter that counts alone until Use sets a store.
func New(onError func()) *Limiter {
	return &Limiter{
		onError: onError, clock: time.Now, prefix: newPrefix(), replicas: 1,
		accounts: map[string]*account{}, inFlight: map[*Reservation]struct{}{},
		copies: copies{changed: map[string]struct{}{}},
	}
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
		if made, err = openStore(wanted, l.onError, l.clock); err != nil {
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

// Admit counts a request with its estimated cost, or refuses it and counts nothing. Settle needs the
// reservation of an admitted request.
func (l *Limiter) Admit(ctx context.Context, team string, b Budget, cost Cost, now time.Time) (Decision, *Reservation) {
	if b.isNone() {
		return Decision{Allowed: true}, nil
	}
	held := &Reservation{
		team: team, month: monthOf(now), budget: b, cost: cost, local: now.Unix(), renewed: now,
		id: l.prefix + "-" + strconv.FormatInt(l.number.Add(1), 10),
	}
	l.mu.Lock()
	account := l.account(team, held.month)
	store, replicas := l.store, l.replicas
	if store == nil {
		defer l.mu.Unlock()
		return account.admit(now, b, cost, replicas, false), held
	}
	// taken here, so that only one of two concurrent requests reports to the store
	telling := account.untold
	account.untold = untold{}
	alone, seen := account.alone, account.known
	l.mu.Unlock()

	decision, err := askStore(ctx, store, held, &telling, alone, seen)

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		account.untold.addAll(telling, held.local)
		return account.admit(now, b, cost, replicas, true), held
	}
	if account.month == held.month {
		account.report(Cost{decision.MonthTokens, decision.MonthNanoUSD}, decision.known)
	}
	decision.MonthTokens += account.alone.Tokens
	decision.MonthNanoUSD += account.alone.NanoUSD
	if decision.Allowed {
		held.shared, held.second = true, decision.second
		account.count(held.local, cost.Tokens)
		if held.reserves() {
			l.inFlight[held] = struct{}{}
		}
	}
	return decision, held
}

// IsSpent reports whether a team's dollars of the month are used, or reserved by requests in flight. It counts
// nothing. While the store is away, the team's budget is the share of the replica, as in Admit.
func (l *Limiter) IsSpent(ctx context.Context, team string, nanoUSD int64, now time.Time) bool {
	held := &Reservation{team: team, month: monthOf(now), budget: Budget{NanoUSDPerMonth: nanoUSD}, local: now.Unix()}
	l.mu.Lock()
	account := l.account(team, held.month)
	store, replicas, alone, seen := l.store, l.replicas, account.alone, account.known
	l.mu.Unlock()
	if store != nil {
		if decision, err := askStore(ctx, store, held, &untold{}, alone, seen); err == nil {
			return !decision.Allowed
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return account.known.nano >= nanoUSD || isSpent(nanoUSD, account.shared.NanoUSD, account.alone.NanoUSD, replicas)
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

func askStore(ctx context.Context, s *store, held *Reservation, telling *untold, alone Cost, seen known) (Decision, error) {
	ledger, reservations := monthKeys(held.team, held.month)
	prefix := "callout:{" + held.team + "}:" // one slot, so that a script can use the keys together in a cluster
	b := held.budget
	answer, err := s.run(ctx, admitScript, []string{prefix + "window:requests", prefix + "window:tokens", ledger, reservations},
		b.RequestsPerMinute, b.TokensPerMinute, b.TokensPerMonth, b.NanoUSDPerMonth,
		held.cost.Tokens, held.cost.NanoUSD, alone.Tokens, alone.NanoUSD,
		telling.requestsWindow.sum(held.local), telling.tokensWindow.sum(held.local),
		held.member(), int(lease.Seconds()), seen.generation, seen.changes, seen.tokens, seen.nano)
	if err != nil {
		return Decision{}, err
	}
	found, err := answer.Int64Slice()
	if err != nil || len(found) != 11 {
		return Decision{}, fmt.Errorf("the reply of the store has another shape: %w", err)
	}
	return Decision{
		Allowed: found[0] == 0, Reason: Reason(found[0]), Retry: time.Duration(found[1]) * time.Millisecond,
		UsedRequests: found[2], UsedTokens: found[3], MonthTokens: found[4], MonthNanoUSD: found[5], second: found[6],
		known: known{found[7], found[8], found[9], found[10]},
	}, nil
}

// Settle replaces the estimate of a request with its actual cost, and returns the team's usage this
// month. If the store does not answer, Catch settles the request later.
func (l *Limiter) Settle(ctx context.Context, held *Reservation, used Cost) (spent Cost) {
	if held == nil {
		return Cost{}
	}
	change := used.Tokens - held.cost.Tokens
	counted := Cost{change, used.NanoUSD - held.cost.NanoUSD}
	l.mu.Lock()
	delete(l.inFlight, held)
	account := l.account(held.team, held.month)
	account.tokens.add(held.local, change)
	store, seen := l.store, account.seen(held.month)
	l.mu.Unlock()

	var answer settled
	var err error = errPaused
	if store != nil && (held.shared || held.budget.hasMonth()) {
		change := change
		if !held.shared {
			change = 0 // the store does not know of the estimate
		}
		answer, err = settleStore(ctx, store, held, used, change, seen)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	isCurrent := account.month == held.month
	switch {
	case err != nil:
		account.untold.tokensWindow.add(held.local, change)
		if isCurrent {
			account.alone.add(counted)
		}
		if store != nil && held.budget.hasMonth() {
			if !held.shared {
				counted = used // its estimate is among what only this replica knows of
			}
			l.postpone(settlement{held, used, counted, !errors.Is(err, errPaused)})
		}
	case isCurrent && held.budget.hasMonth():
		l.copies.changed[held.team] = struct{}{}
		account.report(answer.spent, answer.known)
		if !held.shared {
			account.untold.tokensWindow.add(held.local, change)
			account.alone.add(Cost{-held.cost.Tokens, -held.cost.NanoUSD})
		}
	case !held.shared:
		account.untold.tokensWindow.add(held.local, change)
	}
	return Cost{account.shared.Tokens + account.alone.Tokens, account.shared.NanoUSD + account.alone.NanoUSD}
}

func flag(value bool) int {
	if value {
		return 1
	}
	return 0
}
