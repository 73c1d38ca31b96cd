package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// The part of vector search that Memorystore for Valkey documents and that a cache needs: indexes of
// hashes with tags and vectors, and the nearest neighbors of a vector among those with a tag
// (docs.cloud.google.com/memorystore/docs/valkey/ftcreate and /ftsearch). Everything else is rejected.
// Neighbors are exact here; an HNSW index finds them approximately.
const (
	maxAttributes = 10
	maxDimension  = 32768
	numberBytes   = 4
)

// index has the arguments of FT.CREATE.
type index struct {
	prefixes []string
	tags     map[string]bool
	vectors  map[string]vectorField
}

type vectorField struct {
	dimension int
	metric    string
}

// search implements FT.CREATE, FT.DROPINDEX, FT._LIST and FT.SEARCH for a server's hashes.
type search struct {
	data    *miniredis.Miniredis
	mu      sync.Mutex
	indexes map[string]*index
}

func addSearch(data *miniredis.Miniredis) error {
	s := &search{data: data, indexes: map[string]*index{}}
	commands := map[string]func(*server.Peer, []string) error{
		"FT.CREATE": s.create, "FT.DROPINDEX": s.drop, "FT._LIST": s.list, "FT.SEARCH": s.search,
	}
	for name, run := range commands {
		err := data.Server().Register(name, func(peer *server.Peer, _ string, args []string) {
			if err := run(peer, args); err != nil {
				peer.WriteError(err.Error())
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// words reads the arguments of a command one after the other.
type words struct{ left []string }

func (w *words) next() (string, error) {
	if len(w.left) == 0 {
		return "", fmt.Errorf("ERR wrong number of arguments")
	}
	word := w.left[0]
	w.left = w.left[1:]
	return word, nil
}

func (w *words) expect(wanted string) error {
	if got, err := w.next(); err != nil || !strings.EqualFold(got, wanted) {
		return fmt.Errorf("ERR Expected `%s`, got `%s`", wanted, got)
	}
	return nil
}

func (w *words) count(least, most int) (int, error) {
	word, err := w.next()
	if err != nil {
		return 0, err
	}
	number, err := strconv.Atoi(word)
	if err != nil || number < least || number > most {
		return 0, fmt.Errorf("ERR must be a number from %d to %d, got `%s`", least, most, word)
	}
	return number, nil
}

func (w *words) some(least, most int) ([]string, error) {
	number, err := w.count(least, most)
	if err != nil {
		return nil, err
	}
	found := make([]string, 0, number)
	for range number {
		word, err := w.next()
		if err != nil {
			return nil, err
		}
		found = append(found, word)
	}
	return found, nil
}

func (s *search) create(peer *server.Peer, args []string) error {
	w := &words{args}
	name, err := w.next()
	if err != nil {
		return err
	}
	made := &index{tags: map[string]bool{}, vectors: map[string]vectorField{}}
	for _, wanted := range []string{"ON", "HASH", "PREFIX"} {
		if err := w.expect(wanted); err != nil {
			return err
		}
	}
	if made.prefixes, err = w.some(1, 16); err != nil {
		return err
	}
	if err := w.expect("SCHEMA"); err != nil {
		return err
	}
	for len(w.left) > 0 {
		if err := made.attribute(w); err != nil {
			return err
		}
	}
	switch {
	case len(made.vectors) == 0:
		return fmt.Errorf("ERR At least one vector attribute must be in the schema")
	case len(made.vectors)+len(made.tags) > maxAttributes:
		return fmt.Errorf("ERR The maximum number of attributes cannot exceed %d", maxAttributes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, has := s.indexes[name]; has {
		return fmt.Errorf("ERR Index %s in database 0 already exists.", name) //nolint:revive // the wording of valkey-search
	}
	s.indexes[name] = made
	peer.WriteOK()
	return nil
}

func (i *index) attribute(w *words) error {
	name, err := w.next()
	if err != nil {
		return err
	}
	kind, err := w.next()
	if err != nil {
		return err
	}
	switch strings.ToUpper(kind) {
	case "TAG":
		i.tags[name] = true
		return nil
	case "VECTOR":
		field, err := vector(w)
		i.vectors[name] = field
		return err
	default:
		return fmt.Errorf("ERR Unknown or unsupported field type `%s`", kind)
	}
}

func vector(w *words) (vectorField, error) {
	algorithm, err := w.next()
	if err != nil {
		return vectorField{}, err
	}
	if !slices.Contains([]string{"HNSW", "FLAT"}, strings.ToUpper(algorithm)) {
		return vectorField{}, fmt.Errorf("ERR Unknown algorithm `%s`", algorithm)
	}
	settings, err := w.some(6, 16)
	if err != nil {
		return vectorField{}, err
	}
	found := vectorField{}
	for at := 0; at+1 < len(settings); at += 2 {
		value := strings.ToUpper(settings[at+1])
		switch strings.ToUpper(settings[at]) {
		case "TYPE":
			if value != "FLOAT32" {
				return found, fmt.Errorf("ERR TYPE must be FLOAT32, got `%s`", value)
			}
		case "DIM":
			if found.dimension, err = (&words{[]string{value}}).count(1, maxDimension); err != nil {
				return found, err
			}
		case "DISTANCE_METRIC":
			if !slices.Contains([]string{"COSINE", "IP", "L2"}, value) {
				return found, fmt.Errorf("ERR Unknown distance metric `%s`", value)
			}
			found.metric = value
		case "M", "EF_CONSTRUCTION", "EF_RUNTIME", "INITIAL_CAP":
		default:
			return found, fmt.Errorf("ERR Unknown argument `%s`", settings[at])
		}
	}
	if found.dimension == 0 || found.metric == "" {
		return found, fmt.Errorf("ERR Missing DIM or DISTANCE_METRIC")
	}
	return found, nil
}

func (s *search) drop(peer *server.Peer, args []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(args) != 1 || s.indexes[args[0]] == nil {
		return notFound(args)
	}
	delete(s.indexes, args[0])
	peer.WriteOK()
	return nil
}

func (s *search) list(peer *server.Peer, _ []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.indexes))
	for name := range s.indexes {
		names = append(names, name)
	}
	slices.Sort(names)
	peer.WriteStrings(names)
	return nil
}

func notFound(args []string) error {
	return fmt.Errorf("ERR Index with name '%s' not found in database 0", strings.Join(args[:min(1, len(args))], ""))
}

// query is the query of FT.SEARCH: `(@TAG:{VALUE})=>[KNN N @VECTOR $PARAM AS NAME]`, or `*` for any
// tag.
var query = regexp.MustCompile(
	`^\(?(?:\*|@(\w+):\{([^}|,*]+)\})\)?=>\[KNN (\d+) @(\w+) \$(\w+)(?: AS (\w+))?\]$`)

type asked struct {
	tag, value    string
	most          int
	vector        string
	distance      string
	near          []float32
	fields        []string
	withoutFields bool
}

func parse(text string, w *words) (asked, error) {
	parts := query.FindStringSubmatch(text)
	if parts == nil {
		return asked{}, fmt.Errorf("ERR Invalid query string syntax")
	}
	found := asked{tag: parts[1], value: strings.TrimSpace(parts[2]), vector: parts[4], distance: parts[6]}
	if found.distance == "" {
		found.distance = "__" + found.vector + "_score"
	}
	found.most, _ = strconv.Atoi(parts[3])
	parameters := map[string]string{}
	for len(w.left) > 0 {
		word, _ := w.next()
		switch strings.ToUpper(word) {
		case "NOCONTENT":
			found.withoutFields = true
		case "PARAMS":
			pairs, err := w.some(2, 64)
			if err != nil {
				return found, err
			}
			for at := 0; at+1 < len(pairs); at += 2 {
				parameters[pairs[at]] = pairs[at+1]
			}
		case "RETURN":
			fields, err := w.some(0, 64)
			if err != nil {
				return found, err
			}
			found.fields = fields
		case "LIMIT":
			first, err := w.count(0, 0)
			if err != nil {
				return found, err
			}
			most, err := w.count(0, 1<<20)
			if err != nil {
				return found, err
			}
			found.most = min(found.most, first+most)
		case "DIALECT":
			if _, err := w.count(2, 2); err != nil {
				return found, fmt.Errorf("ERR DIALECT requires a value of 2")
			}
		default:
			return found, fmt.Errorf("ERR Unknown argument `%s`", word)
		}
	}
	blob, has := parameters[parts[5]]
	if !has {
		return found, fmt.Errorf("ERR Query vector parameter `%s` not found", parts[5])
	}
	found.near = numbers(blob)
	return found, nil
}

func numbers(blob string) []float32 {
	made := make([]float32, 0, len(blob)/numberBytes)
	for at := 0; at+numberBytes <= len(blob); at += numberBytes {
		made = append(made, math.Float32frombits(binary.LittleEndian.Uint32([]byte(blob[at:at+numberBytes]))))
	}
	return made
}

type neighbour struct {
	key      string
	distance float64
}

func (s *search) search(peer *server.Peer, args []string) error {
	w := &words{args}
	name, err := w.next()
	if err != nil {
		return err
	}
	text, err := w.next()
	if err != nil {
		return err
	}
	s.mu.Lock()
	chosen := s.indexes[name]
	s.mu.Unlock()
	if chosen == nil {
		return notFound([]string{name})
	}
	wanted, err := parse(text, w)
	if err != nil {
		return err
	}
	field, isVector := chosen.vectors[wanted.vector]
	switch {
	case !isVector:
		return fmt.Errorf("ERR `%s` is not a vector of the index", wanted.vector)
	case wanted.tag != "" && !chosen.tags[wanted.tag]:
		return fmt.Errorf("ERR `%s` is not indexed as a tag field", wanted.tag)
	case len(wanted.near) != field.dimension:
		return fmt.Errorf("ERR query vector blob size (%d) does not match index's expected size (%d).",
			len(wanted.near)*numberBytes, field.dimension*numberBytes) //nolint:revive // the wording of valkey-search
	}
	s.write(peer, wanted, s.nearest(chosen, field, wanted))
	return nil
}

func (s *search) nearest(chosen *index, field vectorField, wanted asked) []neighbour {
	var found []neighbour
	for _, key := range s.data.Keys() {
		isOurs := slices.ContainsFunc(chosen.prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
		if !isOurs || s.data.Type(key) != "hash" {
			continue
		}
		if wanted.tag != "" && !slices.Contains(strings.Split(s.data.HGet(key, wanted.tag), ","), wanted.value) {
			continue
		}
		vector := numbers(s.data.HGet(key, wanted.vector))
		if len(vector) == field.dimension {
			found = append(found, neighbour{key, distance(field.metric, vector, wanted.near)})
		}
	}
	slices.SortFunc(found, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.key, b.key))
	})
	return found[:min(len(found), wanted.most)]
}

// distance is 1 - cosine, 1 - inner product, or the square of the Euclidean distance.
func distance(metric string, a, b []float32) float64 {
	var product, squareA, squareB, apart float64
	for at := range a {
		x, y := float64(a[at]), float64(b[at])
		product += x * y
		squareA += x * x
		squareB += y * y
		apart += (x - y) * (x - y)
	}
	switch metric {
	case "COSINE":
		return 1 - product/math.Max(math.Sqrt(squareA*squareB), math.SmallestNonzeroFloat64)
	case "IP":
		return 1 - product
	default:
		return apart
	}
}

func (s *search) write(peer *server.Peer, wanted asked, found []neighbour) {
	length := 1 + len(found)
	if !wanted.withoutFields {
		length += len(found)
	}
	peer.WriteLen(length)
	peer.WriteInt(len(found))
	for _, one := range found {
		peer.WriteBulk(one.key)
		if !wanted.withoutFields {
			peer.WriteStrings(s.fields(one, wanted))
		}
	}
}

func (s *search) fields(one neighbour, wanted asked) []string {
	score := strconv.FormatFloat(one.distance, 'g', -1, 64)
	names := wanted.fields
	if names == nil {
		names, _ = s.data.HKeys(one.key)
		names = append([]string{wanted.distance}, names...)
	}
	made := make([]string, 0, 2*len(names))
	for _, name := range names {
		value := score
		if name != wanted.distance {
			value = s.data.HGet(one.key, name)
		}
		made = append(made, name, value)
	}
	return made
}
