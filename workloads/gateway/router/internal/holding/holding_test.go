package holding

import "testing"

var limits = Limits{Bodies: 8, BodiesOfOne: 6, Bytes: 8 * BlockBytes, BytesOfOne: 4 * BlockBytes}

func TestBodiesAreLimitedForOneClientAndInAll(t *testing.T) {
	hold := New(limits)
	var bodies []*Body
	for range 6 {
		bodies = append(bodies, hold.Begin("a"))
	}
	if bodies[5] == nil || hold.Begin("a") != nil {
		t.Fatal("a client must have 6 bodies")
	}
	if hold.Begin("b") == nil || hold.Begin("c") == nil || hold.Begin("d") != nil {
		t.Fatal("all clients must have 8 bodies")
	}
	bodies[0].End()
	bodies[0].End()
	if hold.Begin("d") == nil {
		t.Fatal("a body that ended must leave its place")
	}
}

func TestBytesAreLimitedForOneClientAndInAllButASmallBodyAlwaysFits(t *testing.T) {
	hold := New(limits)
	piece := make([]byte, BlockBytes)
	fill := func(address string, blocks int) *Body {
		body := hold.Begin(address)
		for range blocks {
			if !body.Add(piece) {
				t.Fatal(address, "must have room")
			}
		}
		return body
	}
	first := fill("a", 2+4)
	if first.Add([]byte("x")) {
		t.Fatal("a client must have 4 blocks")
	}
	fill("b", 2+4)
	third := fill("c", 2)
	if third.Add([]byte("x")) {
		t.Fatal("all clients must have 8 blocks")
	}
	fill("a", 2)
	if _, bytes := hold.Held(); bytes != 8*BlockBytes {
		t.Fatal(bytes)
	}
	first.End()
	if _, bytes := hold.Held(); bytes != 4*BlockBytes {
		t.Fatal(bytes)
	}
}

func TestABodyIsSentAsItArrived(t *testing.T) {
	body := New(limits).Begin("a")
	want := ""
	for i := range 3 * BlockBytes / 5 {
		piece := string([]byte{byte(i), byte(i >> 8), 'a', 'b', 'c'})
		want += piece
		if !body.Add([]byte(piece)) {
			t.Fatal("must have room")
		}
	}
	got, ends := "", 0
	if err := body.Pieces(func(piece []byte, isLast bool) error {
		got += string(piece)
		if isLast {
			ends++
		}
		return nil
	}); err != nil || got != want || ends != 1 || body.Size() != len(want) {
		t.Fatal(err, len(got), len(want), ends)
	}
}
