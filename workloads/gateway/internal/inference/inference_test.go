package inference

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

func field(number protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

func read(body []byte, size int) (name, fault string) {
	var r Reader
	for len(body) > 0 {
		n := min(size, len(body))
		if err := r.Write(body[:n]); err != nil {
			return r.name, err.Message
		}
		body = body[n:]
	}
	if err := r.End(); err != nil {
		return r.name, err.Message
	}
	return r.name, ""
}

func TestTheModelIsReadInPiecesOfAnySizeAndTensorsAreSkipped(t *testing.T) {
	number := protowire.AppendVarint(protowire.AppendTag(nil, 90, protowire.VarintType), 1<<40)
	fixed := protowire.AppendFixed64(protowire.AppendTag(nil, 91, protowire.Fixed64Type), 7)
	message := bytes.Join([][]byte{number, fixed, field(1, "fraud"), field(3, "id"), field(7, strings.Repeat("\x0a", 70_000))}, nil)
	for _, size := range []int{1, 2, 7, 4096, 1 << 20} {
		if name, fault := read(framed(message), size); name != "fraud" || fault != "" {
			t.Errorf("pieces of %d bytes: got %q %q", size, name, fault)
		}
	}
}

func TestMessagesThatNameNoModelOrSeveralAreRefused(t *testing.T) {
	for _, one := range []struct {
		name, body string
		fault      string
	}{
		{"no name", string(framed(field(3, "id"))), "must name a model"},
		{"an empty name", string(framed(field(1, ""))), "must name a model"},
		{"two names", string(framed(append(field(1, "a"), field(1, "b")...))), "must name one model"},
		{"a long name", string(framed(field(1, strings.Repeat("a", 129)))), "at most 128 bytes"},
		{"a late name", string(framed(append(field(7, strings.Repeat("a", 5000)), field(1, "a")...))), "in the first 4096 bytes"},
		{"two messages", string(append(framed(field(1, "a")), 0)), "one message"},
		{"half a message", string(framed(field(1, "abc"))[:8]), "not complete"},
		{"nothing", "", "not complete"},
		{"a field beyond the message", string(framed(append(field(1, "a"), 0x3a, 9, 9))), "no protobuf message"},
		{"a group", string(framed([]byte{0x0b})), "no protobuf message"},
		{"a name beyond the message", string(framed([]byte{0x0a, 3, 'a'})), "no protobuf message"},
		{"compressed", "\x01\x00\x00\x00\x00", "must not be compressed"},
		{"a large message", "\x00\x04\x00\x00\x01", "at most 67108864 bytes"},
	} {
		for _, size := range []int{1, 1 << 20} {
			if _, fault := read([]byte(one.body), size); !strings.Contains(fault, one.fault) {
				t.Errorf("%s: got %q", one.name, fault)
			}
		}
	}
}
