package fallback

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gke-inference/gateway/relay/internal/config"
)

const (
	listInterval = time.Second
	lookInterval = 200 * time.Millisecond
	lookTimeout  = time.Second
	largestPage  = 8 << 20
	// pageAge is how long the last metrics of a ready engine are used, so that one slow response does
	// not remove it.
	pageAge = 3 * time.Second
)

// Queues summarizes the waiting requests at the engines of a pool.
type Queues struct {
	// Engines is how many engines responded. If none did, the shortest and longest queues are 0.
	Engines           int
	Shortest, Longest int
	// Hosts are their addresses with the port, sorted.
	Hosts []string
	// CacheInfo has the labels of an engine's cache, which pickers use for tuning. Empty means unknown.
	CacheInfo string
}

// Engines watches the engines of a pool.
type Engines struct {
	kube      *Kube
	client    *http.Client
	addresses atomic.Pointer[[]string]
	queues    atomic.Pointer[Queues]
	isFailing bool
	pages     map[string]*page
}

// NewEngines returns a watcher of engines.
func NewEngines(kube *Kube) *Engines {
	return &Engines{kube: kube, client: &http.Client{Timeout: lookTimeout}}
}

// Hosts returns the engines that respond, and none before the first observation.
func (e *Engines) Hosts() []string {
	if queues := e.Queues(); queues != nil {
		return queues.Hosts
	}
	return nil
}

// Queues returns the newest observation, or nil if there is none.
func (e *Engines) Queues() *Queues { return e.queues.Load() }

// Follow reads the engines' metrics until the context ends.
func (e *Engines) Follow(ctx context.Context, settings func() *config.Fallback) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	listed := time.Time{}
	for {
		wanted := settings()
		if wanted != nil && time.Since(listed) >= listInterval {
			listed = time.Now()
			e.list(ctx, wanted)
		}
		if known := e.addresses.Load(); wanted != nil && known != nil {
			e.queues.Store(e.look(ctx, wanted, *known))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// list keeps the last list if the API server is unavailable.
func (e *Engines) list(ctx context.Context, wanted *config.Fallback) {
	found, err := e.kube.readyPods(ctx, wanted.Namespace, wanted.Selector)
	if err == nil {
		e.addresses.Store(&found)
	}
	if isFailing := err != nil; isFailing != e.isFailing && ctx.Err() == nil {
		e.isFailing = isFailing
		if isFailing {
			slog.Error("engines not listed", "error", err.Error())
		} else {
			slog.Info("engines listed again")
		}
	}
}

// look reads the queue of every engine. An engine that has not responded for a while is not counted.
func (e *Engines) look(ctx context.Context, wanted *config.Fallback, addresses []string) *Queues {
	now := time.Now()
	pages := make([]*page, len(addresses))
	var all sync.WaitGroup
	for at, address := range addresses {
		all.Go(func() {
			host := net.JoinHostPort(address, strconv.Itoa(wanted.Port))
			if found, err := e.page(ctx, "http://"+host+"/metrics", wanted.Metrics); err == nil {
				found.at = now
				pages[at] = found
			}
		})
	}
	all.Wait()
	known := make(map[string]*page, len(addresses))
	for at, address := range addresses {
		if last := e.pages[address]; pages[at] == nil && last != nil && now.Sub(last.at) < pageAge {
			pages[at] = last
		}
		if pages[at] != nil {
			known[address] = pages[at]
		}
	}
	e.pages = known
	made := &Queues{}
	if last := e.queues.Load(); last != nil {
		made.CacheInfo = last.CacheInfo
	}
	for at, found := range pages {
		if found == nil {
			continue
		}
		made.Hosts = append(made.Hosts, net.JoinHostPort(addresses[at], strconv.Itoa(wanted.Port)))
		if made.Engines == 0 || found.queue < made.Shortest {
			made.Shortest = found.queue
		}
		made.Longest = max(made.Longest, found.queue)
		made.Engines++
		if found.cacheInfo != "" {
			made.CacheInfo = found.cacheInfo
		}
	}
	return made
}

type page struct {
	queue     int
	cacheInfo string
	at        time.Time
}

func (e *Engines) page(ctx context.Context, url string, names config.MetricNames) (*page, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := e.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", answer.StatusCode)
	}
	return readPage(io.LimitReader(answer.Body, largestPage), names)
}

// readPage reads the two relevant metrics from an engine's metrics page. Several engines of one
// replica, as with vLLM's data parallelism, share its queue.
func readPage(content io.Reader, names config.MetricNames) (*page, error) {
	found, has := &page{}, false
	lines := bufio.NewScanner(content)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, labels, value, is := sample(lines.Text())
		switch {
		case !is:
		case name == names.Queue:
			found.queue += int(value)
			has = true
		case name == names.CacheInfo && labels != "":
			found.cacheInfo = labels
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if !has {
		return nil, errors.New("no " + names.Queue)
	}
	return found, nil
}

// sample reads a line of the Prometheus text format.
func sample(line string) (name, labels string, value float64, is bool) {
	if line == "" || line[0] == '#' {
		return "", "", 0, false
	}
	rest := line
	if open := strings.IndexByte(line, '{'); open >= 0 {
		end := strings.LastIndexByte(line, '}')
		if end < open {
			return "", "", 0, false
		}
		name, labels, rest = line[:open], line[open+1:end], line[end+1:]
	} else {
		name, rest, _ = strings.Cut(line, " ")
	}
	words := strings.Fields(rest)
	if len(words) == 0 {
		return "", "", 0, false
	}
	value, err := strconv.ParseFloat(words[0], 64)
	return name, labels, value, err == nil
}
