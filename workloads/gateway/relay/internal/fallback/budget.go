package fallback

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"gke-inference/gateway/internal/web"
	"gke-inference/gateway/relay/internal/config"
	"gke-inference/gateway/relay/internal/openai"
)

const (
	nanoPerUSD    = 1e9
	tokensOfPrice = 1e6
	saveInterval  = time.Second
	monthKey      = "month"
	spentKey      = "spent_nano_usd"
	month         = "2006-01"
)

// Count stores what all replicas of a fallback spent in a month.
type Count interface {
	readMap(ctx context.Context, namespace, name string) (*configMap, error)
	writeMap(ctx context.Context, namespace, name, version string, data map[string]string) error
}

// Budget is what a fallback may spend in a calendar month (UTC). The amount is stored in a ConfigMap of
// the cluster, so it outlives the program. If a replica fails, what it has not saved yet is lost.
type Budget struct {
	count Count
	now   func() time.Time

	mu       sync.Mutex
	isRead   bool
	month    string
	saved    int64
	pending  int64
	reserved int64
	failing  bool
}

// NewBudget returns a budget whose amount has not been read yet.
func NewBudget(count Count) *Budget { return &Budget{count: count, now: time.Now} }

// Cost returns the cost of tokens, in billionths of a dollar.
func Cost(settings *config.Fallback, used openai.Usage) int64 {
	usd := (float64(used.Input)*settings.InputUSD + float64(used.Output)*settings.OutputUSD) / tokensOfPrice
	return int64(math.Ceil(usd * nanoPerUSD))
}

func limit(settings *config.Fallback) int64 { return int64(settings.MonthlyUSD * nanoPerUSD) }

// IsOpen reports whether the amount is known and some budget is left.
func (b *Budget) IsOpen(settings *config.Fallback) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.isRead && b.spent() < limit(settings)
}

// SpentUSD returns the amount spent this month, and false if it is not known.
func (b *Budget) SpentUSD() (float64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return float64(b.spent()) / nanoPerUSD, b.isRead
}

// spent is 0 if the month is over, before the stored amount is reset.
func (b *Budget) spent() int64 {
	if b.month != b.now().UTC().Format(month) {
		return 0
	}
	return b.saved + b.pending
}

// unsaved is the part of spent that other replicas do not know.
func (b *Budget) unsaved() int64 { return min(b.pending, b.spent()) }

// Reserve admits a request that fits this replica's share of what is left of the budget: replicas do not
// see each other's open requests, so each of them may have its part only, and together they spend no more
// than the budget, but for what they spent since their last save. The returned function counts the actual
// usage.
func (b *Budget) Reserve(settings *config.Fallback, guess openai.Usage) (func(openai.Usage), bool) {
	wanted := Cost(settings, guess)
	b.mu.Lock()
	defer b.mu.Unlock()
	replicas := max(1, settings.Replicas)
	left := limit(settings) - (b.spent() - b.unsaved())
	if !b.isRead || (b.unsaved()+b.reserved+wanted)*replicas > left {
		return nil, false
	}
	b.reserved += wanted
	return func(used openai.Usage) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.reserved -= wanted
		b.turn()
		b.pending += Cost(settings, used)
	}, true
}

// turn starts a new month.
func (b *Budget) turn() {
	if now := b.now().UTC().Format(month); b.month != now {
		b.month, b.saved, b.pending = now, 0, 0
	}
}

// Follow saves the amount until the context ends, and once more after it.
func (b *Budget) Follow(ctx context.Context, settings func() *config.Fallback) {
	ticker := time.NewTicker(saveInterval)
	defer ticker.Stop()
	for {
		b.save(ctx, settings())
		select {
		case <-ctx.Done():
			last, done := context.WithTimeout(context.WithoutCancel(ctx), apiTimeout)
			defer done()
			b.save(last, settings())
			return
		case <-ticker.C:
		}
	}
}

func (b *Budget) save(ctx context.Context, settings *config.Fallback) {
	if settings == nil {
		return
	}
	var err error
	for range 5 { // other replicas save as well
		if err = b.saveOnce(ctx, settings); !web.Is(err, http.StatusConflict) {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if isFailing := err != nil; isFailing != b.failing && ctx.Err() == nil {
		b.failing = isFailing
		if isFailing {
			slog.Error("amount of the budget not saved", "error", err.Error())
		} else {
			slog.Info("amount of the budget saved again")
		}
	}
}

func (b *Budget) saveOnce(ctx context.Context, settings *config.Fallback) error {
	found, err := b.count.readMap(ctx, settings.Namespace, settings.Count)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.turn()
	now, adding := b.month, b.pending
	b.mu.Unlock()
	stored := int64(0)
	if found.Data[monthKey] == now {
		if stored, err = strconv.ParseInt(found.Data[spentKey], 10, 64); err != nil || stored < 0 {
			return errors.New(spentKey + ": must be a whole number of 0 or more")
		}
	}
	if adding != 0 || found.Data[monthKey] != now {
		stored += adding
		data := map[string]string{monthKey: now, spentKey: strconv.FormatInt(stored, 10)}
		err := b.count.writeMap(ctx, settings.Namespace, settings.Count, found.Metadata.ResourceVersion, data)
		if err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.month == now {
		b.saved, b.pending, b.isRead = stored, b.pending-adding, true
	}
	return nil
}
