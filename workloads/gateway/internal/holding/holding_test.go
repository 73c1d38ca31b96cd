package holding

import (
	"bytes"
	"flag"
	"strings"
	"testing"
)

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

func TestCopiesOfLargeBodiesCountAndThoseOfSmallOnesDoNot(t *testing.T) {
	hold := New(limits)
	large := hold.Begin("a")
	if !large.Add(make([]byte, 3*BlockBytes)) || !large.Copy(2) || !large.Copy(1) || !large.Copy(3) || large.Copy(4) {
		t.Fatal("a client must have room for 4 blocks")
	}
	if _, bytes := hold.Held(); bytes != 4*BlockBytes {
		t.Fatal(bytes)
	}
	small := hold.Begin("a")
	if !small.Add(make([]byte, 2*BlockBytes)) || !small.Copy(9) {
		t.Fatal("a small body must always have room")
	}
	large.End()
	small.End()
	if bodies, bytes := hold.Held(); bodies != 0 || bytes != 0 {
		t.Fatal(bodies, bytes)
	}
}

func TestABodyInOnePieceHasWhatArrived(t *testing.T) {
	for _, size := range []int{0, 5, BlockBytes, 2*BlockBytes + 7} {
		want := bytes.Repeat([]byte("abcde"), size/5+1)[:size]
		body := New(limits).Begin("a")
		for at := 0; at < size; at += 1000 {
			if !body.Add(want[at:min(size, at+1000)]) {
				t.Fatal("must have room")
			}
		}
		if !bytes.Equal(body.Whole(), want) || !bytes.Equal(body.Whole(), want) {
			t.Fatal(size)
		}
	}
}

func TestALimitBelowOneBodyIsRefusedByItsFlag(t *testing.T) {
	for flags, want := range map[string]string{
		"":                              "",
		"--max-bodies=0":                "--max-bodies: must be at least 1, got 0",
		"--max-held-bytes=9":            "--max-held-bytes: must be at least 8388608, got 9",
		"--max-held-bytes-per-client=9": "--max-held-bytes-per-client: must be at least 8388608, got 9",
		"--max-body-bytes=0":            "--max-body-bytes: must be at least 1, got 0",
		"--max-bodies-per-client=0":     "--max-bodies-per-client: must be at least 1, got 0",
		"--body-time=0s":                "--body-time: must be more than 0, got 0s",
	} {
		var settings Settings
		set := flag.NewFlagSet("", flag.ContinueOnError)
		settings.Flags(set)
		if err := set.Parse(strings.Fields(flags)); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := settings.Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q", flags, got)
		}
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
