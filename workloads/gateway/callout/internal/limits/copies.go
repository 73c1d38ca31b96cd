package limits

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// generationKey has the name of whoever found the store without memory first.
	generationKey = "callout:generation"
	changedKey    = "callout:changed:"
	// skew is how far the clocks of replicas may be apart.
	skew = 5 * time.Second
	// batch is how many ledgers a call reads.
	batch = 500
)

// copies are the ledgers of all teams, as each replica keeps them for a store that loses its memory.
type copies struct {
	// generation is that of the store; empty before it was read.
	generation string
	// changed are the teams whose ledgers this replica has changed since it last said so.
	changed map[string]struct{}
	// readUntil is when the replica last read the changes of others, in its own time.
	readUntil time.Time
}

// replicate tells other replicas which ledgers this one has changed, and reads those that they have changed. A
// store that has lost its memory gets all of them.
func (l *Limiter) replicate(ctx context.Context, s *store, now time.Time) error {
	l.mu.Lock()
	month, mine, changed := monthOf(now), l.copies, l.copies.changed
	l.copies.changed = map[string]struct{}{}
	l.mu.Unlock()
	if month != monthOf(mine.readUntil) {
		mine.readUntil = time.Time{}
	}
	generation, others, err := exchange(ctx, s, l.prefix, month, mine.readUntil, changed, now)
	isLost := err == nil && mine.generation != "" && generation != mine.generation
	var own []string
	if isLost {
		own = l.teams(month)
	}
	if err == nil {
		err = l.readLedgers(ctx, s, month, append(own, others...))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if isLost { // the store has forgotten that their ledgers ever changed
		for _, team := range own {
			l.copies.changed[team] = struct{}{}
		}
	}
	if err != nil {
		for team := range changed {
			l.copies.changed[team] = struct{}{}
		}
		return err
	}
	l.copies.generation, l.copies.readUntil = generation, now
	return nil
}

// exchange returns the generation of the store, and the teams whose ledgers have changed since a time.
func exchange(
	ctx context.Context, s *store, name, month string, since time.Time, changed map[string]struct{}, now time.Time,
) (generation string, teams []string, err error) {
	key, from := changedKey+month, "-inf"
	if !since.IsZero() {
		from = strconv.FormatInt(since.Add(-skew).Unix(), 10)
	}
	members := make([]redis.Z, 0, len(changed))
	for team := range changed {
		members = append(members, redis.Z{Score: float64(now.Unix()), Member: team})
	}
	err = s.attempt(ctx, func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		pipe.SetNX(ctx, generationKey, name+"-"+strconv.FormatInt(now.UnixNano(), 36), 0)
		found := pipe.Get(ctx, generationKey)
		if len(members) > 0 {
			pipe.ZAdd(ctx, key, members...)
			pipe.Expire(ctx, key, 70*24*time.Hour)
		}
		list := pipe.ZRangeByScore(ctx, key, &redis.ZRangeBy{Min: from, Max: "+inf"})
		_, err := pipe.Exec(ctx)
		generation, teams = found.Val(), list.Val()
		return err
	})
	return generation, teams, err
}

// teams returns the teams of which this replica knows a ledger.
func (l *Limiter) teams(month string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for team, account := range l.accounts {
		if account.seen(month).generation > 0 {
			found = append(found, team)
		}
	}
	return found
}

func (l *Limiter) readLedgers(ctx context.Context, s *store, month string, teams []string) error {
	for len(teams) > 0 {
		part := teams[:min(batch, len(teams))]
		teams = teams[len(part):]
		ledgers := make([]*redis.SliceCmd, len(part))
		err := s.attempt(ctx, func(ctx context.Context) error {
			pipe := s.client.Pipeline()
			for at, team := range part {
				key, _ := monthKeys(team, month)
				ledgers[at] = pipe.HMGet(ctx, key, "g", "q", "t", "n", "bg", "bq")
			}
			_, err := pipe.Exec(ctx)
			return err
		})
		if err != nil {
			return err
		}
		for at, team := range part {
			if err := l.compare(ctx, s, team, month, numbers(ledgers[at].Val())); err != nil {
				return err
			}
		}
	}
	return nil
}

func numbers(values []any) (found [6]int64) {
	for at, value := range values {
		if text, is := value.(string); is && at < len(found) {
			found[at], _ = strconv.ParseInt(text, 10, 64)
		}
	}
	return found
}

// compare takes the ledger of the store, or gives it that of this replica if the store does not have it.
func (l *Limiter) compare(ctx context.Context, s *store, team, month string, read [6]int64) error {
	theirs, base := known{read[0], read[1], read[2], read[3]}, known{generation: read[4], changes: read[5]}
	l.mu.Lock()
	account := l.account(team, month)
	own := account.seen(month)
	has := own.generation == 0 || own.generation == theirs.generation || !base.isBefore(own)
	if has && account.month == month {
		account.known.see(theirs)
	}
	l.mu.Unlock()
	if has {
		return nil
	}
	ledger, held := monthKeys(team, month)
	answer, err := s.run(ctx, syncScript, []string{ledger, held}, own.generation, own.changes, own.tokens, own.nano)
	if err != nil {
		return err
	}
	found, err := answer.Int64Slice()
	if err != nil || len(found) != 4 {
		return fmt.Errorf("the reply of the store has another shape: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if account.month == month {
		account.known.see(known{found[0], found[1], found[2], found[3]})
	}
	return nil
}

func (k *known) isBefore(other known) bool {
	return k.generation < other.generation || k.generation == other.generation && k.changes < other.changes
}
