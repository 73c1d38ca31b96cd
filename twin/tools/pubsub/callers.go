package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	pb "cloud.google.com/go/pubsub/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gke-inference/gke-inference/twin/tools/owncallers"
)

const (
	consume   = "pubsub.subscriptions.consume"
	freshFor  = time.Second // how long a permission counts after it was looked up
	checkTime = 10 * time.Second
)

// caller is an identity with an address of its own, because client libraries send no token to an
// emulator. The twin answers which permissions it has.
type caller struct {
	check string // URL of the twin's answers about this identity
	mu    sync.Mutex
	known map[string]time.Time
}

// callers has the listeners by address.
type callers struct {
	mu   sync.Mutex
	open map[string]*caller
}

// readCaller opens the address of a caller: a JSON object with "address" and "check".
func (s *server) readCaller(answer http.ResponseWriter, asked *http.Request) {
	var given struct{ Address, Check string }
	if err := json.NewDecoder(http.MaxBytesReader(answer, asked.Body, 1<<16)).Decode(&given); err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	s.callers.mu.Lock()
	defer s.callers.mu.Unlock()
	if _, found := s.callers.open[given.Address]; found {
		answer.WriteHeader(http.StatusNoContent)
		return
	}
	listener, err := owncallers.Listen(given.Address)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusConflict)
		return
	}
	made := &caller{check: given.Check, known: map[string]time.Time{}}
	s.callers.open[given.Address] = made
	api := s.api(grpc.UnaryInterceptor(made.unary), grpc.StreamInterceptor(made.stream))
	go func() { _ = api.Serve(listener) }() // until the program ends
	answer.WriteHeader(http.StatusNoContent)
}

// api returns a gRPC server of Pub/Sub.
func (s *server) api(options ...grpc.ServerOption) *grpc.Server {
	made := grpc.NewServer(append(options, grpc.MaxRecvMsgSize(largestRequest+1<<20))...)
	pb.RegisterPublisherServer(made, s)
	pb.RegisterSubscriberServer(made, s)
	pb.RegisterSchemaServiceServer(made, s.GServer)
	return made
}

func (c *caller) unary(ctx context.Context, asked any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := c.allows(ctx, asked); err != nil {
		return nil, err
	}
	return handle(ctx, asked)
}

func (c *caller) stream(served any, connection grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return handle(served, &checkedStream{ServerStream: connection, caller: c})
}

// checkedStream checks the permission with each message of a client, which also extends leases.
type checkedStream struct {
	grpc.ServerStream
	caller *caller
	first  *pb.StreamingPullRequest
}

func (s *checkedStream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	asked, is := message.(*pb.StreamingPullRequest)
	if !is {
		return status.Error(codes.Unimplemented, "the twin knows no permission for this stream")
	}
	if s.first == nil { // only the first names the subscription
		s.first = asked
	}
	return s.caller.allows(s.Context(), s.first)
}

// allows returns an error if the caller has no permission for a request.
func (c *caller) allows(ctx context.Context, asked any) error {
	permission, resource := needed(asked)
	if permission == "" {
		return status.Errorf(codes.Unimplemented, "the twin knows no permission for %T", asked)
	}
	key := permission + " " + resource
	c.mu.Lock()
	since, found := c.known[key]
	c.mu.Unlock()
	if found && time.Since(since) < freshFor {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	query := url.Values{"permission": {permission}, "resource": {resource}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.check+"?"+query.Encode(), nil)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	_ = response.Body.Close()
	switch response.StatusCode {
	case http.StatusNoContent:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.known[key] = time.Now()
		return nil
	case http.StatusForbidden:
		return status.Error(codes.PermissionDenied, "User not authorized to perform this action.")
	default:
		return status.Error(codes.Unavailable, fmt.Sprint("the twin's check of permissions answers ", response.Status))
	}
}

// needed returns the permission for a request, and its resource; nothing for an unknown request.
func needed(asked any) (string, string) {
	switch asked := asked.(type) {
	case *pb.PublishRequest:
		return "pubsub.topics.publish", asked.Topic
	case *pb.GetTopicRequest:
		return "pubsub.topics.get", asked.Topic
	case *pb.GetSubscriptionRequest:
		return "pubsub.subscriptions.get", asked.Subscription
	case *pb.PullRequest:
		return consume, asked.Subscription
	case *pb.StreamingPullRequest:
		return consume, asked.Subscription
	case *pb.AcknowledgeRequest:
		return consume, asked.Subscription
	case *pb.ModifyAckDeadlineRequest:
		return consume, asked.Subscription
	}
	return "", ""
}
