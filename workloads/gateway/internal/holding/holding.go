// Package holding limits the bodies that a program holds: how many, how large, how long, and how much
// memory they take together and for each client. A client can control none of these.
package holding

import (
	"net/http"
	"sync"
	"time"

	"gke-inference/gateway/internal/apierror"
)

// BlockBytes is the unit in which bodies take memory.
const BlockBytes = 32 << 10

// freeBlocks of each body are not counted against the bytes of its client, so that bodies that fill the
// bytes never keep out a small one.
const freeBlocks = 2

// Limits are the limits of all bodies, and of those from one client.
type Limits struct {
	Bodies, BodiesOfOne int
	Bytes, BytesOfOne   int
}

// Hold admits bodies within its limits.
type Hold struct {
	limits Limits

	joining sync.Mutex

	mutex   sync.Mutex
	bodies  int
	blocks  int
	clients map[string]*client
}

type client struct{ bodies, blocks int }

// New returns an empty hold.
func New(limits Limits) *Hold { return &Hold{limits: limits, clients: map[string]*client{}} }

// Held returns the number of bodies, and the bytes that count.
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
	copies  int
	counted int
	size    int
}

// Begin admits a body from a client, or returns nil if there are too many.
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

// Add appends a piece. It returns false, and takes nothing of it, if there is no room.
func (b *Body) Add(piece []byte) bool {
	blocks := (b.size + len(piece) + BlockBytes - 1) / BlockBytes
	if more := max(0, blocks-freeBlocks) - max(0, len(b.blocks)-freeBlocks); more > 0 && !b.room(more) {
		return false
	}
	b.size += len(piece)
	for len(piece) > 0 {
		last := len(b.blocks) - 1
		if last < 0 || len(b.blocks[last]) == BlockBytes {
			b.blocks = append(b.blocks, make([]byte, 0, BlockBytes))
			last++
		}
		n := min(len(piece), BlockBytes-len(b.blocks[last]))
		b.blocks[last] = append(b.blocks[last], piece[:n]...)
		piece = piece[n:]
	}
	return true
}

// Copy makes room for a number of copies of the body at a time, and reports whether there is some. Copies of
// the first 64 KiB do not count, like the body itself.
func (b *Body) Copy(copies int) bool {
	large := max(0, (b.size+BlockBytes-1)/BlockBytes-freeBlocks)
	more := (copies - b.copies) * large
	if more > 0 && !b.room(more) {
		return false
	}
	b.copies = max(b.copies, copies)
	return true
}

func (b *Body) room(blocks int) bool {
	h := b.hold
	h.mutex.Lock()
	defer h.mutex.Unlock()
	from := h.clients[b.address]
	if (h.blocks+blocks)*BlockBytes > h.limits.Bytes || (from.blocks+blocks)*BlockBytes > h.limits.BytesOfOne {
		return false
	}
	h.blocks += blocks
	from.blocks += blocks
	b.counted += blocks
	return true
}

// Whole returns the body in one piece, after its last Add. It counts until End. Only one body at a time is
// in memory twice.
func (b *Body) Whole() []byte {
	if len(b.blocks) == 1 {
		return b.blocks[0]
	}
	b.hold.joining.Lock()
	defer b.hold.joining.Unlock()
	whole := make([]byte, 0, b.size)
	for i, block := range b.blocks {
		whole = append(whole, block...)
		b.blocks[i] = nil
	}
	b.blocks = [][]byte{whole}
	return whole
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

// TooManyCode is the code of TooMany.
const TooManyCode = "too_many_bodies"

// TooMany refuses a body for which there is no room, before it is read.
func TooMany(message string) *apierror.Error {
	fault := &apierror.Error{
		Status: http.StatusTooManyRequests, Type: "requests", Code: TooManyCode, Message: message,
	}
	return fault.With("retry-after", "1")
}

// Messages of TooMany, by what there is too much of.
const (
	ManyBodies = "Too many requests are being sent."
	ManyBytes  = "Too many large requests are being sent."
)

// Late refuses a body that does not arrive in time.
func Late(limit time.Duration) *apierror.Error {
	return apierror.Invalid(http.StatusRequestTimeout, "request_timeout", "", "The body must arrive within %s.", limit)
}
