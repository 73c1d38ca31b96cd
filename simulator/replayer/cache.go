package main

// The KV cache of one engine: simulator.engine.kv_cache.KvCache, with the same results.
//
// Only blocks that several requests can find have an identity: those of a group of requests. All
// others are counted. A freed request leaves a run of its own full blocks in the list of free
// blocks; nobody can find them again, unless it was preempted and comes back.

const none = int32(-1)

// block is a block of a group's context.
type block struct {
	// held counts the sequences that hold the block; -1: it is not in the cache.
	held int32
	// entry is its place in the list of free blocks.
	entry int32
}

// group has the blocks of a context that requests share.
type group struct {
	key     int64
	blocks  []block
	present int32
	users   int32
}

// entry is a block of a group, or a run of blocks of one request, in the list of free blocks,
// least recently freed first.
type entry struct {
	before, after int32
	group         int32 // none: a run
	owner         int32 // request that can come back for a run; none: nobody can
	low, high     int32 // index of a group's block; first and last+1 block of a run
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
		of.key, of.present, of.users, of.blocks = key, 0, 0, of.blocks[:0]
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
	if of.users == 0 && of.present == 0 {
		delete(c.byKey, of.key)
		of.blocks = of.blocks[:0]
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
		if e.group != none {
			of := e.group
			c.groups[of].blocks[e.low].held = -1
			c.groups[of].present--
			c.detach(number)
			c.forget(of)
			count--
			continue
		}
		taken := min(count, e.high-e.low)
		e.high -= taken
		count -= taken
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

// publish names the block of a group that a request holds, unless another block has that name.
func (c *cache) publish(number, index int32) bool {
	of := &c.groups[number]
	for int32(len(of.blocks)) <= index {
		of.blocks = append(of.blocks, block{held: -1})
	}
	if of.blocks[index].held >= 0 {
		return false
	}
	of.blocks[index].held = 1
	of.present++
	return true
}

// cached returns how many of a group's first blocks are in the cache, and how many of them are
// free.
func (c *cache) cached(number, most int32) (int32, int32) {
	blocks := c.groups[number].blocks
	if int32(len(blocks)) < most {
		most = int32(len(blocks))
	}
	idle := int32(0)
	for index := range most {
		held := blocks[index].held
		if held < 0 {
			return index, idle
		}
		if held == 0 {
			idle++
		}
	}
	return most, idle
}

// hold takes the first cached blocks of a group.
func (c *cache) hold(number, count int32) {
	blocks := c.groups[number].blocks
	for index := range count {
		b := &blocks[index]
		if b.held == 0 {
			c.detach(b.entry)
			c.free--
		}
		b.held++
	}
}

// letGo frees a block of a group.
func (c *cache) letGo(number, index int32) {
	b := &c.groups[number].blocks[index]
	b.held--
	if b.held == 0 {
		b.entry = c.append(number, none, index, index+1)
		c.free++
	}
}

func (c *cache) usage() float64 {
	if c.total == 0 {
		return 0
	}
	return 1 - float64(c.free)/float64(c.total)
}
