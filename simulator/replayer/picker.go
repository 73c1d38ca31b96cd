package main

import (
	"math"
	"slices"
	"sort"
)

// pickerSettings is simulator.engine.compiled.PickerSettings.
type pickerSettings struct {
	Scorers     []string  `json:"scorers"`
	Weights     []float64 `json:"weights"`
	IsWeighted  bool      `json:"is_weighted"`
	IsTuned     bool      `json:"is_tuned"`
	BlockSize   int32     `json:"block_size"`
	MostBlocks  int32     `json:"most_blocks"`
	MostEntries int32     `json:"most_entries"`
	Seed        uint32    `json:"seed"`
	QueueLimit  float64   `json:"queue_limit"`  // of a filter; 0: none
	UsageLimit  float64   `json:"usage_limit"`  // of the same filter
	LookSeconds float64   `json:"look_seconds"` // between looks; 0: lookSeconds
}

// picker chooses members as simulator.replays.modelled_picker.ModelledPicker does. What it knows of
// a member is a list of blocks, least recently used first. Consecutive blocks are one entry.
type picker struct {
	set      pickerSettings
	random   *random
	names    map[name]*known
	lists    map[int64]*recent
	position []int32 // of members in their pool, by number; none: in no pool
	total    []float64
	isKept   []bool // by the filter
	matched  []int32
	best     []int
}

// name is that of a group or a question; block sizes are part of a block's name.
type name struct {
	key  int64
	size int32
}

// known has the blocks of a group or a question, by member.
type known struct {
	name name
	by   []holding
}

type holding struct {
	member int64
	spans  []*span
}

// span is an entry of a member's list: consecutive blocks of a name, or blocks that only one
// request has, which nobody looks up again.
type span struct {
	before, after *span
	of            *known
	low, high     int32
}

type recent struct {
	first, last *span
	blocks      int32
}

func newPicker(set pickerSettings) *picker {
	return &picker{
		set: set, random: newRandom(set.Seed), names: map[name]*known{},
		lists: map[int64]*recent{},
	}
}

// place records the members of the pool.
func (p *picker) place(members []member) {
	for number := range p.position {
		p.position[number] = none
	}
	for index := range members {
		for int64(len(p.position)) <= members[index].number {
			p.position = append(p.position, none)
		}
		p.position[members[index].number] = int32(index)
	}
	p.total = make([]float64, len(members))
	p.isKept = make([]bool, len(members))
	p.matched = make([]int32, len(members))
}

// pick returns the position of a member: ModelledPicker.pick.
func (p *picker) pick(a *arrival, members []member) int {
	size := p.set.BlockSize
	if p.set.IsTuned {
		size = members[0].engine.cache.size
	}
	whole := min(a.prompt/size, p.set.MostBlocks)
	shared := int32(0)
	if a.prefix >= 0 {
		shared = min(a.prefixTokens/size, whole)
	}
	clear(p.total)
	p.filter(members)
	for at, kind := range p.set.Scorers {
		weight := p.set.Weights[at]
		switch kind {
		case "queue-scorer":
			p.scoreCounts(members, weight, func(s *seen) int32 { return s.waiting })
		case "running-requests-size-scorer":
			p.scoreCounts(members, weight, func(s *seen) int32 { return s.running })
		case "kv-cache-utilization-scorer":
			for index := range members {
				p.total[index] += float64(weight * (1 - members[index].seen.usage))
			}
		case "lora-affinity-scorer":
			for index := range members {
				p.total[index] += float64(weight * members[index].seen.scoreAdapter(a.adapter))
			}
		case "prefix-cache-scorer":
			if whole > 0 {
				p.match(a, size, shared, whole)
				for index, count := range p.matched {
					p.total[index] += float64(weight * (float64(count) / float64(whole)))
				}
			}
		}
	}
	chosen := p.choose()
	m := &members[chosen]
	most := p.set.MostEntries
	if p.set.IsTuned && m.engine.cache.total > 0 {
		most = m.engine.cache.total
	}
	p.add(a, size, shared, whole, m.number, most)
	return chosen
}

// filter keeps the members that have room; all where none has: utilization-detector.
func (p *picker) filter(members []member) {
	isAny := false
	for index := range members {
		s := &members[index].seen
		p.isKept[index] = p.set.QueueLimit == 0 ||
			(float64(s.waiting) < p.set.QueueLimit && s.usage < p.set.UsageLimit)
		isAny = isAny || p.isKept[index]
	}
	if !isAny {
		for index := range members {
			p.isKept[index] = true
		}
	}
}

// scoreCounts gives the weight to the least of the kept members, and nothing to the most.
func (p *picker) scoreCounts(members []member, weight float64, count func(*seen) int32) {
	least, most := int32(math.MaxInt32), int32(math.MinInt32)
	for index := range members {
		if p.isKept[index] {
			found := count(&members[index].seen)
			least, most = min(least, found), max(most, found)
		}
	}
	for index := range members {
		score := 1.0
		if least != most {
			score = float64(most-count(&members[index].seen)) / float64(most-least)
		}
		p.total[index] += float64(weight * score)
	}
}

func (s *seen) scoreAdapter(adapter int32) float64 {
	switch {
	case slices.Contains(s.adapters, adapter):
		return 1
	case len(s.adapters)+len(s.waitingAdapters) < s.mostAdapters:
		return 0.8
	case slices.Contains(s.waitingAdapters, adapter):
		return 0.6
	}
	return 0
}

func (p *picker) choose() int {
	for index := range p.total {
		if !p.isKept[index] {
			p.total[index] = math.Inf(-1)
		}
	}
	if p.set.IsWeighted && slices.ContainsFunc(p.total, func(score float64) bool { return score > 0 }) {
		sums := make([]float64, len(p.total))
		sum := 0.0
		for index, score := range p.total {
			sum += max(0, score)
			sums[index] = sum
		}
		wanted := p.random.real() * sum
		// random.choices bisects all but the last
		return sort.Search(len(sums)-1, func(index int) bool { return wanted < sums[index] })
	}
	best := slices.Max(p.total)
	p.best = p.best[:0]
	for index, score := range p.total {
		if score == best {
			p.best = append(p.best, index)
		}
	}
	return p.best[p.random.below(uint32(len(p.best)))]
}

// match counts the first blocks of a prompt that each member is believed to hold, up to the first
// that none holds: PrefixIndex.scores.
func (p *picker) match(a *arrival, size, shared, whole int32) {
	clear(p.matched)
	if shared > 0 && p.matchOf(p.names[name{a.prefix, size}], 0, shared) < shared {
		return
	}
	if a.question >= 0 {
		p.matchOf(p.names[name{a.question, size}], shared, whole)
	}
}

func (p *picker) matchOf(of *known, low, high int32) int32 {
	if of == nil {
		return low
	}
	end := low // of the blocks that some member holds
	for isLonger := true; isLonger && end < high; {
		isLonger = false
		for _, each := range of.by {
			if p.position[each.member] == none {
				continue
			}
			for _, one := range each.spans {
				if one.low <= end && end < one.high {
					end, isLonger = one.high, true
				}
			}
		}
	}
	end = min(end, high)
	for _, each := range of.by {
		if index := p.position[each.member]; index != none {
			for _, one := range each.spans {
				p.matched[index] += max(0, min(one.high, end)-max(one.low, low))
			}
		}
	}
	return end
}

// add records that a prompt went to a member: PrefixIndex.add.
func (p *picker) add(a *arrival, size, shared, whole int32, member int64, most int32) {
	list := p.lists[member]
	if list == nil {
		list = &recent{}
		p.lists[member] = list
	}
	if shared > 0 {
		p.addOf(list, name{a.prefix, size}, 0, shared, member)
	}
	if shared < whole {
		if a.question >= 0 {
			p.addOf(list, name{a.question, size}, shared, whole, member)
		} else if last := list.last; last != nil && last.of == nil {
			last.high += whole - shared
			list.blocks += whole - shared
		} else {
			list.append(&span{low: 0, high: whole - shared})
		}
	}
	for list.blocks > most {
		first := list.first
		taken := min(list.blocks-most, first.high-first.low)
		first.low += taken
		list.blocks -= taken
		if first.low == first.high {
			list.remove(first)
			if first.of != nil {
				p.forget(first, member)
			}
		}
	}
}

// addOf moves blocks of a name to the end of a member's list.
func (p *picker) addOf(list *recent, of name, low, high int32, member int64) {
	found := p.names[of]
	if found == nil {
		found = &known{name: of}
		p.names[of] = found
	}
	at := slices.IndexFunc(found.by, func(each holding) bool { return each.member == member })
	if at < 0 {
		at = len(found.by)
		found.by = append(found.by, holding{member: member})
	}
	mine := &found.by[at]
	if len(mine.spans) == 1 && mine.spans[0].low == low && mine.spans[0].high == high {
		list.remove(mine.spans[0])
		list.blocks -= high - low
		list.append(mine.spans[0])
		return
	}
	kept := mine.spans[:0:0]
	for _, one := range mine.spans {
		switch {
		case one.high <= low || one.low >= high:
			kept = append(kept, one)
			continue
		case one.low >= low && one.high <= high:
			list.remove(one)
			list.blocks -= one.high - one.low
			continue
		}
		if one.low < low && one.high > high { // the rest stays behind the first part
			rest := &span{of: found, low: high, high: one.high}
			list.insertAfter(one, rest)
			kept = append(kept, rest)
			list.blocks -= high - low
			one.high = low
		} else if one.low < low {
			list.blocks -= one.high - low
			one.high = low
		} else {
			list.blocks -= high - one.low
			one.low = high
		}
		kept = append(kept, one)
	}
	added := &span{of: found, low: low, high: high}
	list.append(added)
	mine.spans = append(kept, added)
}

// forget removes an empty entry from the blocks of its name.
func (p *picker) forget(gone *span, member int64) {
	of := gone.of
	at := slices.IndexFunc(of.by, func(each holding) bool { return each.member == member })
	mine := &of.by[at]
	mine.spans = slices.DeleteFunc(mine.spans, func(each *span) bool { return each == gone })
	if len(mine.spans) == 0 {
		of.by = slices.Delete(of.by, at, at+1)
	}
	if len(of.by) == 0 {
		delete(p.names, of.name)
	}
}

// drop forgets a member that is gone for good.
func (p *picker) drop(member int64) {
	list := p.lists[member]
	if list == nil {
		return
	}
	for one := list.first; one != nil; one = one.after {
		if one.of != nil {
			p.forget(one, member)
		}
	}
	delete(p.lists, member)
}

func (l *recent) append(added *span) {
	l.blocks += added.high - added.low
	added.before, added.after = l.last, nil
	if l.last == nil {
		l.first = added
	} else {
		l.last.after = added
	}
	l.last = added
}

func (l *recent) insertAfter(place, added *span) {
	added.before, added.after = place, place.after
	if place.after == nil {
		l.last = added
	} else {
		place.after.before = added
	}
	place.after = added
}

func (l *recent) remove(gone *span) {
	if gone.before == nil {
		l.first = gone.after
	} else {
		gone.before.after = gone.after
	}
	if gone.after == nil {
		l.last = gone.before
	} else {
		gone.after.before = gone.before
	}
}
