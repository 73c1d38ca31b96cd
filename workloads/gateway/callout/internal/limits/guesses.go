package limits

import (
	"context"
	"time"
)

const (
	// GuessesPerMinute is how many invalid credentials one address may send.
	GuessesPerMinute = 20
	maxAddresses     = 20_000
)

// guesses counts the invalid credentials of addresses at this replica, for this minute and the last.
type guesses struct {
	minute  int64
	current map[string]int64
	last    map[string]int64
}

func (g *guesses) add(address string, now time.Time) int64 {
	minute := now.Unix() / 60
	if minute != g.minute || g.current == nil {
		g.last = g.current
		if minute != g.minute+1 {
			g.last = nil
		}
		g.minute, g.current = minute, map[string]int64{}
	}
	if len(g.current) < maxAddresses || g.current[address] > 0 {
		g.current[address]++
	}
	return g.current[address] + g.last[address]
}

// Guess counts an invalid credential and reports whether its address has sent too many. Valid
// credentials from the address still pass, because several clients can share an address.
func (l *Limiter) Guess(ctx context.Context, address string, now time.Time) (tooMany bool) {
	l.mu.Lock()
	local := l.guesses.add(address, now)
	store := l.store
	l.mu.Unlock()
	if local > GuessesPerMinute || store == nil {
		return local > GuessesPerMinute
	}
	answer, err := store.run(ctx, guessScript, []string{"callout:window:guesses:" + address}, GuessesPerMinute)
	if err != nil {
		return false
	}
	sum, err := answer.Int64()
	return err == nil && sum > GuessesPerMinute
}
