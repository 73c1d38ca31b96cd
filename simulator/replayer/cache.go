package main

import "slices"

// The KV cache of one engine: simulator.engine.kv_cache.KvCache, with the same results.
//
// Only blocks that several requests can find have an identity: those of a group of requests. All
// others are counted. A freed request leaves a run of its own full blocks in the list of free
// blocks; nobody can find them again, unless it was preempted and comes back.

const none = int32(-1)

// segment has consecutive blocks of a group's context that as many sequences hold.
type segment struct {
	low, high int32 // first and last+1 block
	held      int32
	entry     int32 // its place in the list of free blocks, if nobody holds it
}

// group has the blocks in the cache of a context that requests share, in ascending order.
type group struct {
	key      int64
	segments []segment
	users    int32
}

// entry has consecutive blocks of a group, or of one request, in the list of free blocks, least
// recently freed first. Of its blocks, the last was freed first.
type entry struct {
	before, after int32
	group         int32 // none: of one request
	owner         int32 // request that can come back for its blocks; none: nobody can
	low, high     int32 // first and last+1 block
}

type cache struct {
	size          int32
	total         int32
	free          int32
	fresh         int32 // never used
	unnamed       int32 // freed without a name: used again first
	first, last   int32
	entries       []entry
	spare         []int32
	groups        []group
	spareGroups   []int32
	byKey         map[int64]int32
	queries, hits int64
}

func newCache(kind *Kind) cache {
	return cache{
		size: kind.BlockSize, total: kind.Blocks, free: kind.Blocks, fresh: kind.Blocks,
		first: none, last: none, byKey: map[int64]int32{},
	}
}

// use returns the group with a key for one more request.
func (c *cache) use(key int64) int32 {
	number, known := c.byKey[key]
	if !known {
		if last := len(c.spareGroups) - 1; last >= 0 {
			number, c.spareGroups = c.spareGroups[last], c.spareGroups[:last]
		} else {
			number = int32(len(c.groups))
			c.groups = append(c.groups, group{})
		}
		of := &c.groups[number]
		of.key, of.users, of.segments = key, 0, of.segments[:0]
		c.byKey[key] = number
	}
	c.groups[number].users++
	return number
}

func (c *cache) leave(number int32) {
	c.groups[number].users--
	c.forget(number)
}

// forget removes a group that has neither requests nor blocks.
func (c *cache) forget(number int32) {
	of := &c.groups[number]
	if of.users == 0 && len(of.segments) == 0 {
		delete(c.byKey, of.key)
		c.spareGroups = append(c.spareGroups, number)
	}
}

func (c *cache) append(group, owner, low, high int32) int32 {
	var number int32
	if last := len(c.spare) - 1; last >= 0 {
		number, c.spare = c.spare[last], c.spare[:last]
	} else {
		number = int32(len(c.entries))
		c.entries = append(c.entries, entry{})
	}
	c.entries[number] = entry{c.last, none, group, owner, low, high}
	if c.last == none {
		c.first = number
	} else {
		c.entries[c.last].after = number
	}
	c.last = number
	return number
}

func (c *cache) detach(number int32) {
	e := &c.entries[number]
	if e.before == none {
		c.first = e.after
	} else {
		c.entries[e.before].after = e.after
	}
	if e.after == none {
		c.last = e.before
	} else {
		c.entries[e.after].before = e.before
	}
	c.spare = append(c.spare, number)
}

// take holds blocks without a name, which must be free.
func (c *cache) take(count int32, requests []request) {
	c.free -= count
	if count <= c.fresh {
		c.fresh -= count
		return
	}
	count -= c.fresh
	c.fresh = 0
	if count <= c.unnamed {
		c.unnamed -= count
		return
	}
	count -= c.unnamed
	c.unnamed = 0
	for count > 0 {
		number := c.first
		e := &c.entries[number]
		taken := min(count, e.high-e.low)
		e.high -= taken
		count -= taken
		if e.group != none {
			c.shrink(e.group, e.low, e.high)
		}
		if e.high == e.low {
			if e.owner != none {
				requests[e.owner].dropRun(number)
			}
			c.detach(number)
		}
	}
}

// freeRun appends blocks of one request to the list of free blocks.
func (c *cache) freeRun(owner, low, high int32) int32 {
	c.free += high - low
	if owner == none && c.last != none {
		if e := &c.entries[c.last]; e.group == none && e.owner == none {
			e.high += high - low
			return c.last
		}
	}
	return c.append(none, owner, low, high)
}

// shrink takes the last blocks of a group's segment out of the cache.
func (c *cache) shrink(number, low, high int32) {
	of := &c.groups[number]
	at := of.find(low)
	of.segments[at].high = high
	if high == low {
		of.segments = slices.Delete(of.segments, at, at+1)
		c.forget(number)
	}
}

// find returns the position of the first segment that ends after a block.
func (g *group) find(index int32) int {
	at := 0
	for at < len(g.segments) && g.segments[at].high <= index {
		at++
	}
	return at
}

// publish names blocks of a group that a request holds, and appends those to duplicates whose name
// another block has.
func (c *cache) publish(number, low, high, offset int32, duplicates []int32) []int32 {
	of := &c.groups[number]
	for low < high {
		at := of.find(low)
		end := high
		if at < len(of.segments) {
			if next := &of.segments[at]; next.low <= low {
				for ; low < min(next.high, high); low++ {
					duplicates = append(duplicates, low+offset)
				}
				continue
			} else {
				end = min(high, next.low)
			}
		}
		if at > 0 && of.segments[at-1].high == low && of.segments[at-1].held == 1 {
			of.segments[at-1].high = end
		} else {
			of.segments = slices.Insert(of.segments, at, segment{low, end, 1, none})
		}
		low = end
	}
	return duplicates
}

// cached returns how many of a group's first blocks are in the cache, and how many of them are
// free.
func (c *cache) cached(number, most int32) (int32, int32) {
	found, idle := int32(0), int32(0)
	for _, each := range c.groups[number].segments {
		if each.low > found || found >= most {
			break
		}
		high := min(each.high, most)
		if each.held == 0 {
			idle += high - each.low
		}
		found = high
	}
	return found, idle
}

// hold takes the first cached blocks of a group.
func (c *cache) hold(number, count int32) {
	of := &c.groups[number]
	for at := 0; at < len(of.segments) && of.segments[at].low < count; at++ {
		s := &of.segments[at]
		if s.high > count {
			// the rest keeps the place in the list of free blocks
			rest := segment{count, s.high, s.held, s.entry}
			if s.held == 0 {
				c.entries[s.entry].low = count
				c.free -= count - s.low
			}
			s.high, s.held, s.entry = count, s.held+1, none
			of.segments = slices.Insert(of.segments, at+1, rest)
			break
		}
		if s.held == 0 {
			c.detach(s.entry)
			c.free -= s.high - s.low
			s.entry = none
		}
		s.held++
	}
	of.join()
}

// join makes one segment of neighbors that as many sequences hold.
func (g *group) join() {
	if len(g.segments) < 2 {
		return
	}
	kept := g.segments[:1]
	for _, each := range g.segments[1:] {
		last := &kept[len(kept)-1]
		if each.held > 0 && each.held == last.held && each.low == last.high {
			last.high = each.high
		} else {
			kept = append(kept, each)
		}
	}
	g.segments = kept
}

// letGo frees blocks of a group, the last one first.
func (c *cache) letGo(number, low, high int32) {
	of := &c.groups[number]
	for at := len(of.segments) - 1; at >= 0; at-- {
		s := &of.segments[at]
		if s.low >= high {
			continue
		}
		if s.high <= low {
			break
		}
		if s.high > high {
			rest := *s
			rest.low, s.high = high, high
			of.segments = slices.Insert(of.segments, at+1, rest)
			s = &of.segments[at]
		}
		if s.low < low {
			rest := *s
			rest.low, s.high = low, low
			at++
			of.segments = slices.Insert(of.segments, at, rest)
			s = &of.segments[at]
		}
		s.held--
		if s.held == 0 {
			c.free += s.high - s.low
			s.entry = c.append(number, none, s.low, s.high)
		}
	}
	of.join()
}

func (c *cache) usage() float64 {
	if c.total == 0 {
		return 0
	}
	return 1 - float64(c.free)/float64(c.total)
}
