package limits

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"
)

const (
	// lease is how long a reservation lasts in the store unless it is renewed: the tokens that a replica
	// had reserved when it died are free again after this time.
	lease = 30 * time.Second
	// markTime is how long the store knows that a request is settled, for a replica that repeats the call.
	markTime = 2 * time.Minute
	// followEvery is the interval at which a replica settles what the store missed and renews its reservations.
	followEvery = time.Second
	renewAfter  = lease / 3
)

// known is the ledger of a team's month as the store last reported it.
type known struct {
	generation, changes int64
	tokens, nano        int64
}

func (k *known) see(other known) {
	if k.isBefore(other) {
		*k = other
	}
}

// settlement is what a request used and the store does not know yet.
type settlement struct {
	held *Reservation
	used Cost
	// counted is what it added to the tokens and dollars that only this replica knows of.
	counted Cost
	// isSent is whether the store may have settled it already: a call with another amount would then be lost.
	isSent bool
}

func newPrefix() string {
	var random [6]byte
	if _, err := rand.Read(random[:]); err != nil {
		panic(err) // the system has no randomness
	}
	return hex.EncodeToString(random[:])
}

// member is the reservation in the store.
func (r *Reservation) member() string {
	return r.id + ":" + strconv.FormatInt(r.cost.Tokens, 10) + ":" + strconv.FormatInt(r.cost.NanoUSD, 10)
}

// reserves reports whether the request has an entry among the reservations of a month.
func (r *Reservation) reserves() bool { return r.budget.hasMonth() && r.cost != Cost{} }

// keys of a month are in the slot of its team.
func monthKeys(team, month string) (ledger, held string) {
	prefix := "callout:{" + team + "}:"
	return prefix + "month:" + month, prefix + "held:" + month
}

// Follow keeps the store up to date until ctx ends: it settles requests that the store missed, renews the
// reservations of long answers, and keeps a copy of the ledgers.
func (l *Limiter) Follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.Catch(ctx)
		}
	}
}

// Catch does once what Follow does.
func (l *Limiter) Catch(ctx context.Context) {
	l.catching.Lock()
	defer l.catching.Unlock()
	l.mu.Lock()
	store, now := l.store, l.clock()
	var renewed []*Reservation
	for held := range l.inFlight {
		if now.Sub(held.renewed) >= renewAfter {
			held.renewed = now
			renewed = append(renewed, held)
		}
	}
	if store == nil {
		l.pending = nil // without a store, months are those of the replica
	}
	l.mu.Unlock()
	if store == nil {
		return
	}
	// before the settlements, which can be many after an outage
	for _, held := range renewed {
		_, key := monthKeys(held.team, held.month)
		if _, err := store.run(ctx, renewScript, []string{key}, held.member(), int(lease.Seconds())); err != nil {
			return
		}
	}
	if !l.settlePending(ctx, store) {
		return
	}
	if err := l.replicate(ctx, store, l.clock()); err != nil && !errors.Is(err, errAway) {
		slog.Error("ledgers not copied", "error", err.Error())
	}
}

// settlePending settles what the store missed, and reports whether nothing is left of it.
func (l *Limiter) settlePending(ctx context.Context, s *store) bool {
	l.mu.Lock()
	pending := l.pending
	l.pending = nil
	l.mu.Unlock()
	for at := range pending {
		err := l.settleAgain(ctx, s, pending[at])
		if err == nil {
			continue
		}
		pending[at].isSent = pending[at].isSent || !errors.Is(err, errPaused)
		l.mu.Lock()
		added := l.pending
		l.pending = pending[at:]
		for _, one := range added {
			l.postpone(one)
		}
		l.mu.Unlock()
		return false
	}
	return true
}

// postpone keeps a settlement for Catch. Requests that the store has never heard of count as one, so that an
// outage takes memory for each team and not for each request.
func (l *Limiter) postpone(one settlement) {
	if !one.isSent && !one.held.shared {
		for at := range l.pending {
			same := &l.pending[at]
			if !same.isSent && !same.held.shared && same.held.team == one.held.team && same.held.month == one.held.month {
				same.used.add(one.used)
				same.counted.add(one.counted)
				return
			}
		}
	}
	l.pending = append(l.pending, one)
}

func (l *Limiter) settleAgain(ctx context.Context, s *store, one settlement) error {
	l.mu.Lock()
	account := l.account(one.held.team, one.held.month)
	seen := account.seen(one.held.month)
	l.mu.Unlock()
	answer, err := settleStore(ctx, s, one.held, one.used, 0, seen)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	account = l.account(one.held.team, one.held.month)
	l.copies.changed[one.held.team] = struct{}{}
	if account.month == one.held.month {
		account.alone.add(Cost{-one.counted.Tokens, -one.counted.NanoUSD})
		account.report(answer.spent, answer.known)
	}
	return nil
}

func (c *Cost) add(o Cost) { c.Tokens, c.NanoUSD = c.Tokens+o.Tokens, c.NanoUSD+o.NanoUSD }

// seen returns the ledger that the store last reported of a month; nothing of another month.
func (a *account) seen(month string) known {
	if a.month != month {
		return known{}
	}
	return a.known
}

func (a *account) report(spent Cost, found known) {
	a.shared = spent
	a.known.see(found)
}

// settled is the reply of the store.
type settled struct {
	spent Cost
	known known
}

func settleStore(ctx context.Context, s *store, held *Reservation, used Cost, change int64, seen known) (settled, error) {
	ledger, reservations := monthKeys(held.team, held.month)
	prefix := "callout:{" + held.team + "}:"
	answer, err := s.run(ctx, settleScript,
		[]string{prefix + "window:tokens", ledger, reservations, prefix + "settled:" + held.id},
		held.second, used.Tokens, used.NanoUSD, flag(held.budget.TokensPerMinute > 0), flag(held.budget.hasMonth()),
		change, held.member(), int(markTime.Seconds()), seen.generation, seen.changes, seen.tokens, seen.nano)
	if err != nil {
		return settled{}, err
	}
	found, err := answer.Int64Slice()
	if err != nil || len(found) != 6 {
		return settled{}, fmt.Errorf("the reply of the store has another shape: %w", err)
	}
	return settled{Cost{found[0], found[1]}, known{found[2], found[3], found[4], found[5]}}, nil
}
