package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
	"sync"
	"time"

	pb "cloud.google.com/go/pubsub/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/pstest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// server is the API. pstest stores the definitions; the server delivers the messages.
type server struct {
	*pstest.GServer
	callers  callers
	mu       sync.Mutex
	queues   map[string]*queue
	number   int64
	sequence int64
	grants   map[string]bool // RESOURCE ROLE of Pub/Sub's service agent
}

func newServer(kept *pstest.GServer) *server {
	return &server{
		GServer: kept,
		callers: callers{open: map[string]*caller{}},
		queues:  map[string]*queue{},
		grants:  map[string]bool{},
	}
}

func (s *server) CreateSubscription(ctx context.Context, asked *pb.Subscription) (*pb.Subscription, error) {
	if err := checkSubscription(asked); err != nil {
		return nil, err
	}
	if asked.AckDeadlineSeconds == 0 {
		asked.AckDeadlineSeconds = int32(usualDeadline.Seconds()) // pstest rejects it, Pub/Sub does not
	}
	made, err := s.GServer.CreateSubscription(ctx, asked)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[made.Name] = newQueue(cloned(made))
	return made, nil
}

func (s *server) UpdateSubscription(ctx context.Context, asked *pb.UpdateSubscriptionRequest) (*pb.Subscription, error) {
	if err := checkSubscription(asked.Subscription); err != nil {
		return nil, err
	}
	made, err := s.GServer.UpdateSubscription(ctx, asked)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.queues[made.Name]; found != nil {
		found.settings = cloned(made)
	}
	return made, nil
}

func (s *server) DeleteSubscription(ctx context.Context, asked *pb.DeleteSubscriptionRequest) (*emptypb.Empty, error) {
	answer, err := s.GServer.DeleteSubscription(ctx, asked)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.queues, asked.Subscription)
	}
	return answer, err
}

func (s *server) Publish(ctx context.Context, asked *pb.PublishRequest) (*pb.PublishResponse, error) {
	if err := checkPublish(asked); err != nil {
		return nil, err
	}
	if _, err := s.GServer.GetTopic(ctx, &pb.GetTopicRequest{Topic: asked.Topic}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(asked.Messages))
	for _, message := range asked.Messages {
		ids = append(ids, s.put(asked.Topic, message))
	}
	return &pb.PublishResponse{MessageIds: ids}, nil
}

// put adds a message to each subscription of a topic.
func (s *server) put(topic string, message *pb.PubsubMessage) string {
	s.number++
	stamped(message, s.number, time.Now())
	for _, each := range s.queues {
		if each.settings.Topic == topic {
			each.add(message, s.number)
		}
	}
	return message.MessageId
}

func (s *server) find(name string) (*queue, error) {
	found, known := s.queues[name]
	if !known {
		return nil, status.Errorf(codes.NotFound, "Resource not found (resource=%s).", last(name))
	}
	return found, nil
}

func last(name string) string { return name[strings.LastIndex(name, "/")+1:] }

func (s *server) Acknowledge(_ context.Context, asked *pb.AcknowledgeRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.find(asked.Subscription)
	if err != nil {
		return nil, err
	}
	for _, ackID := range asked.AckIds {
		found.acknowledge(ackID)
	}
	return &emptypb.Empty{}, nil
}

func (s *server) ModifyAckDeadline(_ context.Context, asked *pb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	if err := checkExtension(asked.AckDeadlineSeconds); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.find(asked.Subscription)
	if err != nil {
		return nil, err
	}
	for _, ackID := range asked.AckIds {
		found.extend(ackID, asked.AckDeadlineSeconds, time.Now())
	}
	return &emptypb.Empty{}, nil
}

func (s *server) Pull(ctx context.Context, asked *pb.PullRequest) (*pb.PullResponse, error) {
	if asked.MaxMessages <= 0 {
		return nil, invalid("max_messages", "greater than 0", fmt.Sprint(asked.MaxMessages))
	}
	for limit := time.Now().Add(time.Second); ; {
		s.mu.Lock()
		found, err := s.find(asked.Subscription)
		var received []*pb.ReceivedMessage
		if err == nil {
			now := time.Now()
			for _, each := range found.available(now) {
				if len(received) < int(asked.MaxMessages) {
					s.sequence++
					received = append(received, found.lease(each, nil, s.sequence, now, found.deadline()))
				}
			}
		}
		s.mu.Unlock()
		if err != nil || len(received) > 0 || time.Now().After(limit) {
			return &pb.PullResponse{ReceivedMessages: received}, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *server) Seek(context.Context, *pb.SeekRequest) (*pb.SeekResponse, error) {
	return nil, status.Error(codes.Unimplemented, "the twin does not seek in a subscription")
}

// watch ends leases and delivers messages until the program ends.
func (s *server) watch(every time.Duration) {
	for range time.Tick(every) {
		s.mu.Lock()
		for _, each := range s.queues {
			now := time.Now()
			each.expire(now)
			s.bury(each)
			each.deliver(now, &s.sequence)
		}
		s.mu.Unlock()
	}
}

// bury forwards messages that failed too often. Pub/Sub's service agent needs permission to publish to
// the dead-letter topic and to acknowledge here; otherwise, messages stay and are delivered again.
func (s *server) bury(from *queue) {
	for _, each := range from.exhausted() {
		topic := from.settings.DeadLetterPolicy.DeadLetterTopic
		if !s.grants[topic+" roles/pubsub.publisher"] || !s.grants[from.settings.Name+" roles/pubsub.subscriber"] {
			continue
		}
		if _, err := s.GServer.GetTopic(context.Background(), &pb.GetTopicRequest{Topic: topic}); err != nil {
			continue
		}
		letter := from.deadLetter(each)
		from.drop(each)
		s.put(topic, letter)
	}
}

// readGrants reads the permissions of Pub/Sub's service agent: a JSON list of "RESOURCE ROLE".
func (s *server) readGrants(answer http.ResponseWriter, asked *http.Request) {
	var given []string
	body, err := io.ReadAll(http.MaxBytesReader(answer, asked.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(body, &given)
	}
	if err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants = map[string]bool{}
	for _, each := range given {
		s.grants[each] = true
	}
}

func (s *server) writeMetrics(answer http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.queues))
	for name := range s.queues {
		names = append(names, name)
	}
	sort.Strings(names)
	now := time.Now()
	answer.Header().Set("Content-Type", "text/plain; version=0.0.4")
	families := []struct {
		name  string
		value func(*queue) float64
	}{
		{"subscription_num_undelivered_messages", func(q *queue) float64 { return float64(len(q.entries)) }},
		{"subscription_oldest_unacked_message_age", func(q *queue) float64 { return q.oldest(now).Seconds() }},
		{"subscription_acked_messages", func(q *queue) float64 { return float64(q.acked) }},
	}
	for _, family := range families {
		full := "pubsub_googleapis_com:" + family.name
		fmt.Fprintf(answer, "# TYPE %s gauge\n", full)
		for _, name := range names {
			parts := strings.Split(name, "/")
			value := family.value(s.queues[name])
			fmt.Fprintf(answer, "%s{project_id=%q,subscription_id=%q} %g\n", full, parts[1], parts[3], value)
		}
	}
}

func size(messages []*pb.PubsubMessage) int {
	total := 0
	for _, each := range messages {
		total += proto.Size(each)
	}
	return total
}

// cloned returns a copy of a subscription, because pstest changes its own under a different lock.
func cloned(subscription *pb.Subscription) *pb.Subscription {
	return proto.Clone(subscription).(*pb.Subscription)
}
