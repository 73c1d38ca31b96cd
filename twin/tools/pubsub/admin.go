package main

import (
	"context"
	"io"
	"net/http"
	"strings"

	pb "cloud.google.com/go/pubsub/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// Fields of a subscription that can be updated.
var changeable = []string{
	"ack_deadline_seconds", "dead_letter_policy", "message_retention_duration", "retain_acked_messages", "retry_policy",
}

var statusOf = map[codes.Code]int{
	codes.InvalidArgument: 400, codes.FailedPrecondition: 400, codes.NotFound: 404, codes.AlreadyExists: 409,
	codes.Unimplemented: 501,
}

// admin is the API for the twin's provider: PUT and DELETE of a topic or subscription by name. PUT
// creates or updates.
func (s *server) admin(mux *http.ServeMux) {
	mux.HandleFunc("PUT /v1/projects/{project}/topics/{topic}", func(answer http.ResponseWriter, asked *http.Request) {
		_, err := s.GServer.CreateTopic(asked.Context(), &pb.Topic{Name: asked.URL.Path[len("/v1/"):]})
		reply(answer, err, codes.AlreadyExists)
	})
	mux.HandleFunc("DELETE /v1/projects/{project}/topics/{topic}", func(answer http.ResponseWriter, asked *http.Request) {
		_, err := s.GServer.DeleteTopic(asked.Context(), &pb.DeleteTopicRequest{Topic: asked.URL.Path[len("/v1/"):]})
		reply(answer, err, codes.NotFound)
	})
	path := "/v1/projects/{project}/subscriptions/{subscription}"
	mux.HandleFunc("PUT "+path, func(answer http.ResponseWriter, asked *http.Request) {
		wanted := &pb.Subscription{}
		body, err := io.ReadAll(http.MaxBytesReader(answer, asked.Body, 1<<20))
		if err == nil {
			err = protojson.Unmarshal(body, wanted)
		}
		if err != nil {
			reply(answer, status.Error(codes.InvalidArgument, err.Error()), codes.OK)
			return
		}
		wanted.Name = asked.URL.Path[len("/v1/"):]
		reply(answer, s.keep(asked.Context(), wanted), codes.OK)
	})
	mux.HandleFunc("DELETE "+path, func(answer http.ResponseWriter, asked *http.Request) {
		_, err := s.DeleteSubscription(asked.Context(), &pb.DeleteSubscriptionRequest{Subscription: asked.URL.Path[len("/v1/"):]})
		reply(answer, err, codes.NotFound)
	})
}

// rest is the part of Pub/Sub's REST API that transfers messages: publish, pull, acknowledge and
// modifyAckDeadline.
func (s *server) rest(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/projects/{project}/{kind}/{name}", func(answer http.ResponseWriter, asked *http.Request) {
		resource, verb, _ := strings.Cut(asked.URL.Path[len("/v1/"):], ":")
		body, err := io.ReadAll(http.MaxBytesReader(answer, asked.Body, 2*largestRequest))
		if err != nil {
			reply(answer, status.Error(codes.InvalidArgument, err.Error()), codes.OK)
			return
		}
		var found proto.Message
		switch verb {
		case "publish":
			wanted := &pb.PublishRequest{}
			if err = protojson.Unmarshal(body, wanted); err == nil {
				wanted.Topic = resource
				found, err = s.Publish(asked.Context(), wanted)
			}
		case "pull":
			wanted := &pb.PullRequest{}
			if err = protojson.Unmarshal(body, wanted); err == nil {
				wanted.Subscription = resource
				found, err = s.Pull(asked.Context(), wanted)
			}
		case "acknowledge":
			wanted := &pb.AcknowledgeRequest{}
			if err = protojson.Unmarshal(body, wanted); err == nil {
				wanted.Subscription = resource
				found, err = s.Acknowledge(asked.Context(), wanted)
			}
		case "modifyAckDeadline":
			wanted := &pb.ModifyAckDeadlineRequest{}
			if err = protojson.Unmarshal(body, wanted); err == nil {
				wanted.Subscription = resource
				found, err = s.ModifyAckDeadline(asked.Context(), wanted)
			}
		default:
			err = status.Errorf(codes.Unimplemented, "the twin has no %q here", verb)
		}
		if err != nil {
			reply(answer, err, codes.OK)
			return
		}
		text, _ := protojson.Marshal(found)
		answer.Header().Set("Content-Type", "application/json")
		_, _ = answer.Write(text)
	})
}

// keep creates or updates a subscription.
func (s *server) keep(ctx context.Context, wanted *pb.Subscription) error {
	_, err := s.CreateSubscription(ctx, wanted)
	if status.Code(err) != codes.AlreadyExists {
		return err
	}
	mask := &fieldmaskpb.FieldMask{Paths: changeable}
	_, err = s.UpdateSubscription(ctx, &pb.UpdateSubscriptionRequest{Subscription: wanted, UpdateMask: mask})
	return err
}

func reply(answer http.ResponseWriter, err error, fine codes.Code) {
	code := status.Code(err)
	if err == nil || code == fine {
		answer.WriteHeader(http.StatusNoContent)
		return
	}
	number, known := statusOf[code]
	if !known {
		number = http.StatusInternalServerError
	}
	http.Error(answer, status.Convert(err).Message(), number)
}
