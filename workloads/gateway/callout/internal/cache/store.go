package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/openai"
)

const (
	bytesPerNumber = 4
	poolSize       = 64
	connectTime    = time.Second
)

// Fields of an entry. An entry is a hash.
const (
	scopeField      = "scope"
	vectorField     = "vector"
	answerField     = "answer"
	promptField     = "prompt_tokens"
	completionField = "completion_tokens"
	writtenField    = "written"
	distanceField   = "distance"
)

// store is a Valkey with vector search. There is one index for each embedding model and vector length:
// a new model gets a new index, and the entries of the old one expire.
type store struct {
	client *redis.Client
	made   sync.Map
}

func open(wanted config.Store) (*store, error) {
	logging.Disable() // failures are logged once per outage
	options := &redis.Options{
		Addr: wanted.Address, DialTimeout: connectTime, PoolSize: poolSize, MinIdleConns: 1,
		ContextTimeoutEnabled: true, MaxRetries: -1, DisableIdentity: true,
		Protocol: 2, // this version returns FT.SEARCH results as lists
		// supported only by Redis Enterprise; Valkey returns an error
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	settings, err := wanted.TLSConfig("cache.store")
	if err != nil {
		return nil, err
	}
	options.TLSConfig = settings
	return &store{client: redis.NewClient(options)}, nil
}

func (s *store) close() { _ = s.client.Close() }

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9.-]`)

func indexOf(model string, size int) string {
	return fmt.Sprintf("answers:%s:%d", notInNames.ReplaceAllString(model, "_"), size)
}

// nearest returns the entry in the place's scope whose question is closest to the place's question.
func (s *store) nearest(ctx context.Context, model string, place *Place) (Entry, bool, error) {
	index := indexOf(model, len(place.vector))
	if err := s.ensure(ctx, index, len(place.vector)); err != nil {
		return Entry{}, false, err
	}
	query := fmt.Sprintf("(@%s:{%s})=>[KNN 1 @%s $asked AS %s]", scopeField, place.scope, vectorField, distanceField)
	answer, err := s.client.Do(ctx, "FT.SEARCH", index, query, "PARAMS", 2, "asked", packed(place.vector),
		"RETURN", 6, scopeField, answerField, promptField, completionField, writtenField, distanceField,
		"LIMIT", 0, 1, "DIALECT", 2).Slice()
	if err != nil {
		if isUnknownIndex(err) {
			s.made.Delete(index) // the index is gone: the next question creates it
		}
		return Entry{}, false, err
	}
	fields, found := firstDocument(answer)
	if !found {
		return Entry{}, false, nil
	}
	if fields[scopeField] != place.scope {
		return Entry{}, false, errors.New("the store returned an entry of another scope")
	}
	return entryOf(fields)
}

func entryOf(fields map[string]string) (Entry, bool, error) {
	distance, err := strconv.ParseFloat(fields[distanceField], 64)
	if err != nil {
		return Entry{}, false, err
	}
	written, err := strconv.ParseInt(fields[writtenField], 10, 64)
	if err != nil {
		return Entry{}, false, err
	}
	prompt, _ := strconv.ParseInt(fields[promptField], 10, 64)
	completion, _ := strconv.ParseInt(fields[completionField], 10, 64)
	return Entry{
		Answer:     fields[answerField],
		Usage:      openai.Usage{Prompt: prompt, Completion: completion},
		Written:    time.Unix(written, 0),
		Similarity: 1 - distance, // COSINE is a distance
	}, true, nil
}

func (s *store) put(ctx context.Context, model string, place *Place, entry Entry, ttl time.Duration) error {
	index := indexOf(model, len(place.vector))
	key := index + ":" + place.scope + ":" + place.question // the same question overwrites its response
	_, err := s.client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.HSet(ctx, key, scopeField, place.scope, vectorField, packed(place.vector), answerField, entry.Answer,
			promptField, entry.Usage.Prompt, completionField, entry.Usage.Completion,
			writtenField, entry.Written.Unix())
		pipe.Expire(ctx, key, ttl)
		return nil
	})
	return err
}

// ensure creates an index, once. It is not an error if the index exists.
func (s *store) ensure(ctx context.Context, index string, size int) error {
	if _, has := s.made.Load(index); has {
		return nil
	}
	err := s.client.Do(ctx, "FT.CREATE", index, "ON", "HASH", "PREFIX", 1, index+":", "SCHEMA",
		scopeField, "TAG", vectorField, "VECTOR", "HNSW", 6,
		"TYPE", "FLOAT32", "DIM", size, "DISTANCE_METRIC", "COSINE").Err()
	if err != nil && !strings.Contains(err.Error(), "already exists") {
		return err
	}
	s.made.Store(index, true)
	return nil
}

// isUnknownIndex reports whether an error means that the index does not exist: `Index with name '…' not
// found` from valkey-search, `no such index` from RediSearch.
func isUnknownIndex(err error) bool {
	words := strings.ToLower(err.Error())
	return strings.Contains(words, "not found") || strings.Contains(words, "no such index")
}

// firstDocument reads an FT.SEARCH reply: the count, then the key and fields of each document.
func firstDocument(reply []any) (map[string]string, bool) {
	if len(reply) < 3 {
		return nil, false
	}
	list, isList := reply[2].([]any)
	if !isList {
		return nil, false
	}
	fields := map[string]string{}
	for at := 0; at+1 < len(list); at += 2 {
		fields[fmt.Sprint(list[at])] = fmt.Sprint(list[at+1])
	}
	return fields, true
}

// packed returns a vector in the format of the store: 4-byte floats, little-endian.
func packed(vector []float32) []byte {
	made := make([]byte, 0, len(vector)*bytesPerNumber)
	for _, value := range vector {
		made = binary.LittleEndian.AppendUint32(made, math.Float32bits(value))
	}
	return made
}
