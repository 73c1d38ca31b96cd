package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	pb "cloud.google.com/go/pubsub/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const waiting = 1000 // messages in transit to a stream

// stream is one StreamingPull of a subscriber, with the messages that it holds.
type stream struct {
	out       chan *pb.ReceivedMessage
	lasts     time.Duration
	most      int64 // concurrent messages; 0: unlimited
	mostBytes int64
	held      int64
	heldBytes int
}

func (s *stream) takes(message *pb.PubsubMessage) bool {
	if len(s.out) == cap(s.out) || (s.most > 0 && s.held >= s.most) {
		return false
	}
	bytes := int64(s.heldBytes + proto.Size(message))
	return s.mostBytes <= 0 || s.held == 0 || bytes <= s.mostBytes
}

// deliver gives each available message to the next stream with capacity.
func (q *queue) deliver(now time.Time, sequence *int64) {
	if len(q.streams) == 0 {
		return
	}
	for _, each := range q.available(now) {
		given := false
		for range q.streams {
			to := q.streams[q.next%len(q.streams)]
			q.next++
			if to.takes(each.message) {
				*sequence++
				to.out <- q.lease(each, to, *sequence, now, to.lasts)
				given = true
				break
			}
		}
		if !given {
			return
		}
	}
}

func (s *server) StreamingPull(connection pb.Subscriber_StreamingPullServer) error {
	first, err := connection.Recv()
	if err != nil {
		return err
	}
	if seconds := first.StreamAckDeadlineSeconds; seconds < 10 || seconds > 600 {
		return invalid("stream_ack_deadline_seconds", "10 to 600", fmt.Sprint(seconds))
	}
	s.mu.Lock()
	from, err := s.find(first.Subscription)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	own := &stream{
		out:       make(chan *pb.ReceivedMessage, waiting),
		lasts:     time.Duration(first.StreamAckDeadlineSeconds) * time.Second,
		most:      first.MaxOutstandingMessages,
		mostBytes: first.MaxOutstandingBytes,
	}
	from.streams = append(from.streams, own)
	properties := &pb.StreamingPullResponse_SubscriptionProperties{
		MessageOrderingEnabled: from.settings.EnableMessageOrdering,
	}
	s.mu.Unlock()
	defer s.forget(from, own)
	ended := make(chan error, 1)
	go func() { ended <- s.listen(connection, from, own) }()
	for {
		select {
		case err := <-ended:
			return err
		case message := <-own.out:
			answer := &pb.StreamingPullResponse{
				ReceivedMessages:       []*pb.ReceivedMessage{message},
				SubscriptionProperties: properties,
			}
			if err := connection.Send(answer); err != nil {
				return err
			}
		}
	}
}

// forget removes a stream. Its messages stay leased until their deadline.
func (s *server) forget(from *queue, gone *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, each := range from.streams {
		if each == gone {
			from.streams = append(from.streams[:at], from.streams[at+1:]...)
			return
		}
	}
}

func (s *server) listen(connection pb.Subscriber_StreamingPullServer, from *queue, own *stream) error {
	for {
		asked, err := connection.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(asked.ModifyDeadlineSeconds) != len(asked.ModifyDeadlineAckIds) {
			return status.Error(codes.InvalidArgument, "modify_deadline_seconds: must be one of each id")
		}
		s.mu.Lock()
		if seconds := asked.StreamAckDeadlineSeconds; seconds >= 10 && seconds <= 600 {
			own.lasts = time.Duration(seconds) * time.Second
		}
		for _, ackID := range asked.AckIds {
			from.acknowledge(ackID)
		}
		for at, ackID := range asked.ModifyDeadlineAckIds {
			from.extend(ackID, asked.ModifyDeadlineSeconds[at], time.Now())
		}
		s.mu.Unlock()
	}
}
