// Package holding limits the bodies that the program holds until they are complete.
package holding

import "sync"

// BlockBytes is the unit in which bodies take memory.
const BlockBytes = 32 << 10

// freeBlocks of each body are not counted against the bytes of its client, so that bodies that fill the
// bytes never keep out a small one.
const freeBlocks = 2

// Limits are the limits of all bodies, and of those from one client address.
type Limits struct {
	Bodies, BodiesOfOne int
	Bytes, BytesOfOne   int
}

// MemoryBytes returns the most that bodies take.
func (l Limits) MemoryBytes() int { return l.Bodies*freeBlocks*BlockBytes + l.Bytes }

// Hold admits bodies within its limits.
type Hold struct {
	limits Limits

	mutex   sync.Mutex
	bodies  int
	blocks  int
	clients map[string]*client
}

type client struct{ bodies, blocks int }

// New returns an empty hold.
func New(limits Limits) *Hold { return &Hold{limits: limits, clients: map[string]*client{}} }

// Held returns the number of bodies and their bytes.
func (h *Hold) Held() (bodies, bytes int) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.bodies, h.blocks * BlockBytes
}

// Body is the part of a request's body that has arrived.
type Body struct {
	hold    *Hold
	address string
	blocks  [][]byte
	counted int
	size    int
}

// Begin admits a body from a client address, or returns nil if there are too many.
func (h *Hold) Begin(address string) *Body {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	from := h.clients[address]
	if h.bodies >= h.limits.Bodies || from != nil && from.bodies >= h.limits.BodiesOfOne {
		return nil
	}
	if from == nil {
		from = &client{}
		h.clients[address] = from
	}
	h.bodies++
	from.bodies++
	return &Body{hold: h, address: address}
}

// Size returns the number of bytes that arrived.
func (b *Body) Size() int { return b.size }

// Add appends a piece. It returns false, and takes nothing more, if there is no room.
func (b *Body) Add(piece []byte) bool {
	b.size += len(piece)
	for len(piece) > 0 {
		last := len(b.blocks) - 1
		if last < 0 || len(b.blocks[last]) == BlockBytes {
			if !b.room() {
				return false
			}
			b.blocks = append(b.blocks, make([]byte, 0, BlockBytes))
			last++
		}
		n := min(len(piece), BlockBytes-len(b.blocks[last]))
		b.blocks[last] = append(b.blocks[last], piece[:n]...)
		piece = piece[n:]
	}
	return true
}

func (b *Body) room() bool {
	if len(b.blocks) < freeBlocks {
		return true
	}
	h := b.hold
	h.mutex.Lock()
	defer h.mutex.Unlock()
	from := h.clients[b.address]
	if (h.blocks+1)*BlockBytes > h.limits.Bytes || (from.blocks+1)*BlockBytes > h.limits.BytesOfOne {
		return false
	}
	h.blocks++
	from.blocks++
	b.counted++
	return true
}

// Pieces calls send with each piece in order, and releases it. isLast is set for the last one; an empty
// body has none.
func (b *Body) Pieces(send func(piece []byte, isLast bool) error) error {
	for i, block := range b.blocks {
		b.blocks[i] = nil
		if err := send(block, i == len(b.blocks)-1); err != nil {
			return err
		}
	}
	return nil
}

// End releases the body. It can be called more than once.
func (b *Body) End() {
	if b == nil || b.hold == nil {
		return
	}
	h := b.hold
	b.hold, b.blocks = nil, nil
	h.mutex.Lock()
	defer h.mutex.Unlock()
	from := h.clients[b.address]
	h.bodies--
	h.blocks -= b.counted
	from.bodies--
	from.blocks -= b.counted
	if from.bodies == 0 {
		delete(h.clients, b.address)
	}
}
