// Program replayer computes the engines of simulator.engine.stepped: it reads settings as one line
// of JSON, then commands, from its standard input, and writes answers to its standard output. All
// numbers are little-endian. simulator/engine/compiled.py is the other end.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

type settings struct {
	Kinds       []*Kind        `json:"kinds"`
	Route       string         `json:"route"`
	Picker      pickerSettings `json:"picker"`
	Seed        uint32         `json:"seed"`         // of random routes
	HasAdapters bool           `json:"has_adapters"` // requests have a column of adapters
}

type arrival struct {
	number, prefix, question     int64
	seconds                      float64
	pool                         int64
	prompt, output, prefixTokens int32
	adapter                      int32 // LoRA adapter; none: the base model
}

type replica struct {
	engine     *engine
	isDraining bool
}

type program struct {
	in       *bufio.Reader
	out      *bufio.Writer
	set      settings
	replicas map[int64]*replica
	order    []int64 // numbers of the replicas, ascending
	added    int64
	pools    map[int64]*pool
	ended    []row
	by       []int64 // replica of each row
	steps    int64   // counters of removed replicas
	queries  int64
	hits     int64
}

func main() {
	p := &program{
		in: bufio.NewReaderSize(os.Stdin, 1<<20), out: bufio.NewWriterSize(os.Stdout, 1<<20),
		replicas: map[int64]*replica{}, pools: map[int64]*pool{},
	}
	if err := p.run(); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintf(os.Stderr, "replayer: %v\n", err)
		os.Exit(1)
	}
}

func (p *program) run() error {
	line, err := p.in.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &p.set); err != nil {
		return err
	}
	for _, kind := range p.set.Kinds {
		kind.prepare()
	}
	for {
		command, err := p.in.ReadByte()
		if err != nil {
			return err
		}
		if err := p.obey(command); err != nil {
			return err
		}
		if err := p.out.Flush(); err != nil {
			return err
		}
	}
}

func (p *program) obey(command byte) error {
	switch command {
	case 'a':
		kind, err := p.whole()
		if err == nil {
			p.replicas[p.added] = &replica{engine: newEngine(p.set.Kinds[kind])}
			p.order = append(p.order, p.added)
			p.added++
		}
		return err
	case 's':
		return p.serve()
	case 'd', 'k':
		return p.leave(command == 'k')
	case 'x':
		return p.cancel()
	case 'r':
		return p.advance()
	case 'f':
		return p.finished()
	case 'l':
		return p.load()
	case 'c':
		return p.counters()
	case 'e':
		return p.end()
	}
	return fmt.Errorf("command must be one of acdefklrsx, got %q", command)
}

func (p *program) whole() (int64, error) {
	var bytes [8]byte
	_, err := io.ReadFull(p.in, bytes[:])
	return int64(binary.LittleEndian.Uint64(bytes[:])), err
}

func (p *program) real() (float64, error) {
	found, err := p.whole()
	return math.Float64frombits(uint64(found)), err
}

// column reads an array. Both ends run on one machine, whose order of bytes it has.
func column[T int32 | int64 | float64](in io.Reader, count int64, err *error) []T {
	found := make([]T, count)
	if *err == nil && count > 0 {
		size := int(count) * int(unsafe.Sizeof(found[0]))
		_, *err = io.ReadFull(in, unsafe.Slice((*byte)(unsafe.Pointer(&found[0])), size))
	}
	return found
}

func write[T int32 | int64 | float64](out io.Writer, values []T) error {
	if len(values) == 0 {
		return nil
	}
	size := len(values) * int(unsafe.Sizeof(values[0]))
	_, err := out.Write(unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), size))
	return err
}

func (p *program) pool(number int64) *pool {
	if p.pools[number] == nil {
		p.pools[number] = newPool(&p.set)
	}
	return p.pools[number]
}

func (p *program) serve() error {
	number, err := p.whole()
	if err != nil {
		return err
	}
	count, err := p.whole()
	if err != nil {
		return err
	}
	numbers := column[int64](p.in, count, &err)
	if err != nil {
		return err
	}
	members := make([]member, count)
	for index, each := range numbers {
		members[index] = member{number: each, engine: p.replicas[each].engine}
	}
	p.pool(number).serve(members)
	return nil
}

// leave takes a replica out of its pools: it drains, or is removed at once.
func (p *program) leave(isKilled bool) error {
	number, err := p.whole()
	if err != nil {
		return err
	}
	now, err := p.real()
	if err != nil {
		return err
	}
	for _, each := range p.pools {
		each.remove(number)
	}
	one := p.replicas[number]
	var lost []int64
	if one != nil {
		one.engine.advance(now)
		one.isDraining = true
		if isKilled {
			lost = one.engine.numbers()
		}
		p.collect(number, one)
		if isKilled || one.engine.unfinished() == 0 {
			p.drop(number, one)
		}
	}
	if !isKilled {
		return nil
	}
	return errors.Join(write(p.out, []int64{int64(len(lost))}), write(p.out, lost))
}

// cancel removes requests wherever they are.
func (p *program) cancel() error {
	count, err := p.whole()
	if err != nil {
		return err
	}
	now, err := p.real()
	if err != nil {
		return err
	}
	left := map[int64]bool{}
	for _, number := range column[int64](p.in, count, &err) {
		left[number] = true
	}
	if err != nil {
		return err
	}
	for _, number := range slices.Clone(p.order) {
		one := p.replicas[number]
		if one.engine.cancel(left, now) == 0 {
			continue
		}
		p.collect(number, one)
		if one.isDraining && one.engine.unfinished() == 0 {
			p.drop(number, one)
		}
		for _, each := range p.pools {
			each.changed(number)
		}
	}
	return nil
}

func (p *program) drop(number int64, one *replica) {
	p.steps += one.engine.steps
	p.queries += one.engine.cache.queries
	p.hits += one.engine.cache.hits
	delete(p.replicas, number)
	at, _ := slices.BinarySearch(p.order, number)
	p.order = slices.Delete(p.order, at, at+1)
}

func (p *program) collect(number int64, one *replica) {
	p.ended = append(p.ended, one.engine.ended...)
	for range one.engine.ended {
		p.by = append(p.by, number)
	}
	one.engine.ended = one.engine.ended[:0]
}

// advance sends requests to their pools and computes all engines up to a time; pools run beside
// each other.
func (p *program) advance() error {
	count, err := p.whole()
	if err != nil {
		return err
	}
	until, err := p.real()
	if err != nil {
		return err
	}
	number := column[int64](p.in, count, &err)
	seconds := column[float64](p.in, count, &err)
	prefix := column[int64](p.in, count, &err)
	question := column[int64](p.in, count, &err)
	of := column[int32](p.in, count, &err)
	prompt := column[int32](p.in, count, &err)
	output := column[int32](p.in, count, &err)
	prefixTokens := column[int32](p.in, count, &err)
	var adapters []int32
	if p.set.HasAdapters {
		adapters = column[int32](p.in, count, &err)
	}
	if err != nil {
		return err
	}
	byPool := map[int32][]int32{}
	for index, each := range of {
		byPool[each] = append(byPool[each], int32(index))
	}
	var jobs []func()
	for each, chosen := range byPool {
		to := p.pool(int64(each))
		jobs = append(jobs, func() {
			for _, n := range chosen {
				adapter := none
				if adapters != nil {
					adapter = adapters[n]
				}
				to.send(p.set.Route, &arrival{
					number[n], prefix[n], question[n], seconds[n], int64(each),
					prompt[n], output[n], prefixTokens[n], adapter,
				})
			}
		})
	}
	together(jobs)
	jobs = jobs[:0]
	const share = 16
	for start := 0; start < len(p.order); start += share {
		some := p.order[start:min(start+share, len(p.order))]
		jobs = append(jobs, func() {
			for _, each := range some {
				p.replicas[each].engine.advance(until)
			}
		})
	}
	together(jobs)
	for _, each := range slices.Clone(p.order) {
		one := p.replicas[each]
		p.collect(each, one)
		if one.isDraining && one.engine.unfinished() == 0 {
			p.drop(each, one)
		}
	}
	return nil
}

// together runs functions on all processors.
func together(jobs []func()) {
	workers := min(runtime.GOMAXPROCS(0), len(jobs))
	if workers <= 1 {
		for _, job := range jobs {
			job()
		}
		return
	}
	queue := make(chan func(), len(jobs))
	for _, job := range jobs {
		queue <- job
	}
	close(queue)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for job := range queue {
				job()
			}
		})
	}
	group.Wait()
}

func (p *program) finished() error {
	count := len(p.ended)
	whole := [3][]int32{}
	numbers, first, last := make([]int64, count), make([]float64, count), make([]float64, count)
	for index := range whole {
		whole[index] = make([]int32, count)
	}
	for index, each := range p.ended {
		numbers[index], first[index], last[index] = each.number, each.first, each.last
		whole[0][index], whole[1][index], whole[2][index] = each.generated, each.cached, each.preemptions
	}
	err := errors.Join(
		write(p.out, []int64{int64(count)}), write(p.out, numbers), write(p.out, p.by),
		write(p.out, first), write(p.out, last),
		write(p.out, whole[0]), write(p.out, whole[1]), write(p.out, whole[2]),
	)
	p.ended, p.by = p.ended[:0], p.by[:0]
	return err
}

func (p *program) load() error {
	count := len(p.order)
	running, waiting, tokens := make([]int64, count), make([]int64, count), make([]int64, count)
	usage := make([]float64, count)
	for index, each := range p.order {
		e := p.replicas[each].engine
		running[index], waiting[index] = int64(e.running()), int64(e.waiting)
		tokens[index], usage[index] = e.waitTokens, e.cache.usage()
	}
	return errors.Join(
		write(p.out, []int64{int64(count)}), write(p.out, p.order), write(p.out, running),
		write(p.out, waiting), write(p.out, usage), write(p.out, tokens),
	)
}

// end writes the time of the last step of all replicas.
func (p *program) end() error {
	last := 0.0
	for _, each := range p.replicas {
		last = max(last, each.engine.now)
	}
	return write(p.out, []float64{last})
}

func (p *program) counters() error {
	found := []int64{p.steps, p.queries, p.hits}
	for _, each := range p.order {
		e := p.replicas[each].engine
		found[0] += e.steps
		found[1] += e.cache.queries
		found[2] += e.cache.hits
	}
	return write(p.out, found)
}
