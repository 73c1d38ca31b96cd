package fallback

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"gke-inference/gateway/internal/web"
	"gke-inference/gateway/relay/internal/config"
	"gke-inference/gateway/relay/internal/openai"
)

// memory is the stored count of a cluster. A write based on an old version is a conflict.
type memory struct {
	version int
	data    map[string]string
	before  func()
}

func (m *memory) readMap(context.Context, string, string) (*configMap, error) {
	found := &configMap{Data: m.data}
	found.Metadata.ResourceVersion = strconv.Itoa(m.version)
	if m.before != nil {
		before := m.before
		m.before = nil
		before() // another replica writes between the read and the write
	}
	return found, nil
}

func (m *memory) writeMap(_ context.Context, _, _, version string, data map[string]string) error {
	if version != strconv.Itoa(m.version) {
		return &web.StatusError{Status: http.StatusConflict}
	}
	m.version++
	m.data = data
	return nil
}

var settings = &config.Fallback{
	Model: "llama", AfterQueue: 8, MonthlyUSD: 1, InputUSD: 100_000, OutputUSD: 200_000,
	Refused: []string{"llama-batch"},
	Metrics: config.MetricNames{
		Queue: "vllm:num_requests_waiting", KVCache: "vllm:kv_cache_usage_perc", CacheInfo: "vllm:cache_config_info",
	},
}

func november() time.Time { return time.Date(2026, 11, 30, 23, 59, 0, 0, time.UTC) }

func budgetOf(count Count) *Budget {
	made := NewBudget(count)
	made.now = november
	made.save(context.Background(), settings)
	return made
}

// spend uses the tokens of a request: an input token costs 10 cents, an output token 20.
func spend(t *testing.T, b *Budget, input, output int64) {
	t.Helper()
	spent, has := b.Reserve(settings, openai.Usage{})
	if !has {
		t.Fatal("no room")
	}
	spent(openai.Usage{Input: input, Output: output})
}

func TestWhatWasSpentOutlivesTheProgram(t *testing.T) {
	count := &memory{}
	one := budgetOf(count)
	spend(t, one, 2, 1)
	one.save(context.Background(), settings)
	if again, known := budgetOf(count).SpentUSD(); !known || again != 0.4 {
		t.Fatal(again, known)
	}
}

func TestReplicasThatSaveAtTheSameTimeLoseNothing(t *testing.T) {
	count := &memory{}
	one, two := budgetOf(count), budgetOf(count)
	spend(t, one, 1, 0)
	spend(t, two, 0, 1)
	count.before = func() { two.save(context.Background(), settings) }
	one.save(context.Background(), settings)
	if spent, _ := budgetOf(count).SpentUSD(); spent != 0.3 {
		t.Fatal(spent)
	}
}

func TestABudgetWhoseCountIsNotKnownLetsNothingPass(t *testing.T) {
	made := NewBudget(&memory{data: map[string]string{monthKey: "2026-11", spentKey: "much"}})
	made.now = november
	made.save(context.Background(), settings)
	if _, has := made.Reserve(settings, openai.Usage{}); has || made.IsOpen(settings) {
		t.Fatal("it is open")
	}
}

func TestABudgetIsSpentOnceAndBeginsAgainWithTheMonth(t *testing.T) {
	made := budgetOf(&memory{})
	spend(t, made, 4, 3)
	if made.IsOpen(settings) {
		t.Fatal("open after 1 dollar of 1")
	}
	made.now = func() time.Time { return november().Add(time.Hour) }
	if !made.IsOpen(settings) {
		t.Fatal("closed in a new month")
	}
	made.save(context.Background(), settings)
	if spent, _ := made.SpentUSD(); spent != 0 {
		t.Fatal(spent)
	}
}

func TestRequestsAtTheSameTimeDoNotSpendMoreThanTheBudget(t *testing.T) {
	made := budgetOf(&memory{})
	spent, has := made.Reserve(settings, openai.Usage{Input: 6})
	if !has {
		t.Fatal("no room for the first")
	}
	if _, has := made.Reserve(settings, openai.Usage{Input: 6}); has {
		t.Fatal("room for 1.20 dollars of 1")
	}
	spent(openai.Usage{Input: 1})
	if _, has := made.Reserve(settings, openai.Usage{Input: 6}); !has {
		t.Fatal("what a request did not use stays reserved")
	}
}

func TestReplicasTogetherReserveNoMoreThanTheBudget(t *testing.T) {
	shared := *settings
	shared.Replicas = 2
	count := &memory{}
	one, two := budgetOf(count), budgetOf(count)
	reserve := func(b *Budget, tokens int64) (func(openai.Usage), bool) {
		return b.Reserve(&shared, openai.Usage{Input: tokens})
	}
	spent, has := reserve(one, 5)
	if _, hasOther := reserve(two, 5); !has || !hasOther {
		t.Fatal("each has half a dollar")
	}
	for number, b := range []*Budget{one, two} {
		if _, has := reserve(b, 1); has {
			t.Errorf("replica %d reserves more than its half", number)
		}
	}
	spent(openai.Usage{Input: 1})
	one.save(context.Background(), &shared)
	two.save(context.Background(), &shared)
	if _, has := reserve(one, 5); has {
		t.Error("half of the 90 cents that are left is less than 50")
	}
	if _, has := reserve(one, 4); !has {
		t.Error("40 cents fit in half of 90")
	}
}

func gateOf(queues *Queues, budget *Budget) *Gate {
	engines := &Engines{}
	engines.queues.Store(queues)
	return &Gate{
		Settings: func() *config.Fallback { return settings }, Engines: engines, Budget: budget,
		Running: func() int64 { return 0 },
	}
}

func TestTheGateOpensWhenEveryEngineHasALongQueueOrNoneAnswers(t *testing.T) {
	for _, one := range []struct {
		queues Queues
		isOpen bool
		queue  int
		cache  int
	}{
		{Queues{Engines: 2, Shortest: 0, Longest: 0}, false, 1, 1},
		{Queues{Engines: 2, Shortest: 0, Longest: 30}, false, 30, 1},
		{Queues{Engines: 2, Shortest: 7, Longest: 7}, false, 8, 1},
		{Queues{Engines: 2, Shortest: 8, Longest: 9}, true, 0, 0},
		{Queues{Engines: 0}, true, 0, 0},
	} {
		gate := gateOf(&one.queues, budgetOf(&memory{}))
		queue, cache, _ := gate.shown()
		if gate.IsOpen() != one.isOpen || queue != one.queue || cache != one.cache {
			t.Errorf("%+v: open %v, queue %d, cache %d", one.queues, gate.IsOpen(), queue, cache)
		}
	}
}

func TestABackendThatFailsIsNotAskedForAWhileWhereEnginesAnswer(t *testing.T) {
	queued := gateOf(&Queues{Engines: 1, Shortest: 9, Longest: 9}, budgetOf(&memory{}))
	alone := gateOf(&Queues{}, budgetOf(&memory{}))
	for _, status := range []int{502, 429, 200, 504, 400, 499, 503} {
		queued.Answered(status)
		alone.Answered(status)
	}
	if !queued.IsOpen() {
		t.Fatal("closed after two failures in a row")
	}
	queued.Answered(502)
	alone.Answered(502)
	if queued.IsOpen() || !alone.IsOpen() {
		t.Fatal(queued.IsOpen(), alone.IsOpen())
	}
	queued.coolUntil.Store(0)
	queued.Answered(200)
	if !queued.IsOpen() {
		t.Fatal("closed after it cooled down")
	}
}

func TestAGateWithoutMoneyIsNotReadyAndTheWorstReplica(t *testing.T) {
	budget := budgetOf(&memory{})
	gate := gateOf(&Queues{}, budget)
	if !gate.IsReady() {
		t.Fatal("not ready with money")
	}
	spend(t, budget, 10, 0)
	if queue, cache, _ := gate.shown(); gate.IsReady() || queue != 1 || cache != 1 {
		t.Fatal(gate.IsReady(), queue, cache)
	}
	if _, refused := gate.Admit(http.Header{}, openai.Usage{}); refused != nil {
		t.Fatal("a request that uses nothing is refused", refused)
	}
	if _, refused := gate.Admit(http.Header{}, openai.Usage{Input: 1}); refused == nil || refused.Status != 503 {
		t.Fatal(refused)
	}
}

func TestRequestsOfBatchAreNotWorthMoney(t *testing.T) {
	gate := gateOf(&Queues{}, budgetOf(&memory{}))
	headers := http.Header{}
	headers.Set("x-gateway-inference-objective", "llama-batch")
	if _, refused := gate.Admit(headers, openai.Usage{}); refused == nil || refused.Status != 429 {
		t.Fatal(refused)
	}
}

func TestAnEngineThatIsSlowOnceHasNotGone(t *testing.T) {
	answers := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !answers {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		w.Write([]byte("vllm:num_requests_waiting 4\n"))
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	wanted := &config.Fallback{Port: port, Metrics: settings.Metrics}
	engines := NewEngines(nil)
	look := func() int { return engines.look(context.Background(), wanted, []string{at.Hostname()}).Engines }
	first := look()
	answers = false
	slow := look()
	for _, page := range engines.pages {
		page.at = page.at.Add(-pageAge)
	}
	if gone := look(); first != 1 || slow != 1 || gone != 0 {
		t.Fatal(first, slow, gone)
	}
}

func TestAPickerReadsWhatAnEngineWouldShow(t *testing.T) {
	gate := gateOf(&Queues{Engines: 1, Shortest: 2, Longest: 2, CacheInfo: `block_size="16"`}, budgetOf(&memory{}))
	answer := httptest.NewRecorder()
	gate.ServeMetrics(answer, nil)
	found, err := readPage(strings.NewReader(answer.Body.String()), settings.Metrics)
	if err != nil || found.queue != 3 || found.cacheInfo != `block_size="16"` {
		t.Fatal(found, err)
	}
}

func TestAnEnginesQueueIsTheSumOverItsLines(t *testing.T) {
	text := "# TYPE x gauge\nvllm:num_requests_waiting{engine=\"0\"} 3.0\nvllm:num_requests_waiting{engine=\"1\"} 4 1700000\nother 9\n"
	found, err := readPage(strings.NewReader(text), settings.Metrics)
	if err != nil || found.queue != 7 {
		t.Fatal(found, err)
	}
	if _, err := readPage(strings.NewReader("other 9\n"), settings.Metrics); err == nil {
		t.Fatal("a page without the metric counts as an engine")
	}
}
