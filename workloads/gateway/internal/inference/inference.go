// Package inference reads which model a gRPC call of the Open Inference Protocol names.
//
// The model is field 1 of the messages (grpc_service.proto of triton-inference-server/common), so a call has
// no path or header with it. A message is read field by field as it passes, and its tensors are skipped.
package inference

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"

	"gke-inference/gateway/internal/apierror"
)

const (
	// MaxMessageBytes limits a message, as Triton limits an input over HTTP (src/http_server.h,
	// HTTP_DEFAULT_MAX_INPUT_SIZE). Over gRPC, Triton itself has no limit.
	MaxMessageBytes = 64 << 20
	// maxNameBytes is the longest name that a stack can give to a model.
	maxNameBytes = 128
	// maxBefore limits what may come before the name. Serializers write the fields in their order.
	maxBefore = 4 << 10
	// prefixBytes are the compressed flag and the length (gRPC over HTTP2, Length-Prefixed-Message).
	prefixBytes = 5
	nameField   = 1
)

// Reader reads the one message of a call, in pieces.
type Reader struct {
	// head is the beginning of the prefix or of a field.
	head []byte
	// skip is the number of bytes of a field that are still to come.
	skip int
	// left is the number of bytes of the message that are still to come.
	left, size int
	hasPrefix  bool
	name       string
	isNamed    bool
}

// Name returns the model, and whether it is known.
func (r *Reader) Name() (name string, isKnown bool) { return r.name, r.isNamed }

// Write takes the next piece. It returns an error for a message that must not pass.
func (r *Reader) Write(piece []byte) *apierror.Error {
	for len(piece) > 0 {
		if r.skip > 0 {
			n := min(r.skip, len(piece))
			r.skip, r.left, piece = r.skip-n, r.left-n, piece[n:]
			continue
		}
		if r.hasPrefix && r.left == 0 {
			return invalid("The call must have one message.")
		}
		r.head, piece = append(r.head, piece[0]), piece[1:]
		if !r.hasPrefix {
			if fault := r.readPrefix(); fault != nil {
				return fault
			}
			continue
		}
		r.left--
		if fault := r.readField(); fault != nil {
			return fault
		}
		if !r.isNamed && r.size-r.left+r.skip > maxBefore {
			return invalid("The name of the model must be in the first %d bytes of the message.", maxBefore)
		}
	}
	return nil
}

// End returns an error if the call ended before its message was complete or named a model.
func (r *Reader) End() *apierror.Error {
	switch {
	case !r.hasPrefix || r.left > 0:
		return invalid("The message is not complete.")
	case !r.isNamed:
		return invalid("The message must name a model.")
	}
	return nil
}

func (r *Reader) readPrefix() *apierror.Error {
	if len(r.head) < prefixBytes {
		return nil
	}
	if r.head[0] != 0 {
		return apierror.Invalid(http.StatusUnsupportedMediaType, "compressed_message", "", "Messages must not be compressed.").
			With("grpc-accept-encoding", "identity")
	}
	size := binary.BigEndian.Uint32(r.head[1:])
	if size > MaxMessageBytes {
		return apierror.TooLarge(MaxMessageBytes)
	}
	r.left, r.size, r.hasPrefix, r.head = int(size), int(size), true, r.head[:0]
	return nil
}

// readField reads the beginning of a field once it is complete, and the whole name.
func (r *Reader) readField() *apierror.Error {
	number, kind, n := protowire.ConsumeTag(r.head)
	if n < 0 {
		return r.more(n)
	}
	rest := r.head[n:]
	switch kind {
	case protowire.VarintType:
		if _, n = protowire.ConsumeVarint(rest); n < 0 {
			return r.more(n)
		}
	case protowire.Fixed32Type:
		r.skip = 4
	case protowire.Fixed64Type:
		r.skip = 8
	case protowire.BytesType:
		size, n := protowire.ConsumeVarint(rest)
		if n < 0 {
			return r.more(n)
		}
		if number == nameField {
			return r.readName(rest[n:], size)
		}
		if size > uint64(r.left) {
			return invalid("The message is no protobuf message.")
		}
		r.skip = int(size)
	default: // groups, which proto3 does not have
		return invalid("The message is no protobuf message.")
	}
	if r.skip > r.left {
		return invalid("The message is no protobuf message.")
	}
	r.head = r.head[:0]
	return nil
}

// readName takes the name. Of several, a server would take the last.
func (r *Reader) readName(found []byte, size uint64) *apierror.Error {
	if r.isNamed {
		return invalid("The message must name one model.")
	}
	if size > maxNameBytes {
		return invalid("The name of the model must have at most %d bytes.", maxNameBytes)
	}
	if uint64(len(found)) < size {
		return r.more(protowireTruncated)
	}
	r.name, r.isNamed, r.head = string(found), size > 0, r.head[:0]
	return nil
}

// protowireTruncated is protowire's result for a value whose end is missing.
var protowireTruncated = func() int { _, n := protowire.ConsumeVarint(nil); return n }()

// more waits for the rest of a value, or refuses what can be none.
func (r *Reader) more(result int) *apierror.Error {
	if errors.Is(protowire.ParseError(result), io.ErrUnexpectedEOF) && r.left > 0 {
		return nil
	}
	return invalid("The message is no protobuf message.")
}

func invalid(format string, args ...any) *apierror.Error {
	return apierror.Invalid(http.StatusBadRequest, "invalid_message", "model_name", format, args...)
}
