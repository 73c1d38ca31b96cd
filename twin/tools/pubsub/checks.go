package main

import (
	"fmt"

	pb "cloud.google.com/go/pubsub/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Limits of docs.cloud.google.com/pubsub/quotas (resource limits).
const (
	mostMessages   = 1000
	mostAttributes = 100
	longestKey     = 256
	longestValue   = 1024
	longestOrder   = 1024
)

func invalid(field, rule, got string) error {
	return status.Errorf(codes.InvalidArgument, "%s: must be %s, got %s", field, rule, got)
}

func checkSubscription(asked *pb.Subscription) error {
	if asked == nil {
		return invalid("subscription", "given", "none")
	}
	if asked.EnableExactlyOnceDelivery || asked.Filter != "" || len(asked.MessageTransforms) > 0 {
		return status.Error(codes.Unimplemented, "the twin has no exactly-once delivery, filters or transforms")
	}
	if seconds := asked.AckDeadlineSeconds; seconds != 0 && (seconds < 10 || seconds > 600) {
		return invalid("ack_deadline_seconds", "10 to 600", fmt.Sprint(seconds))
	}
	if policy := asked.DeadLetterPolicy; policy != nil && policy.MaxDeliveryAttempts != 0 {
		if policy.MaxDeliveryAttempts < 5 || policy.MaxDeliveryAttempts > 100 {
			return invalid("max_delivery_attempts", "5 to 100", fmt.Sprint(policy.MaxDeliveryAttempts))
		}
	}
	if policy := asked.RetryPolicy; policy != nil {
		least, most := policy.MinimumBackoff.AsDuration(), policy.MaximumBackoff.AsDuration()
		if least < 0 || least > longestWait || most < 0 || most > longestWait {
			return invalid("retry_policy", "0 to 600 seconds", fmt.Sprint(least, " to ", most))
		}
	}
	return nil
}

func checkExtension(seconds int32) error {
	if seconds < 0 || seconds > 600 {
		return invalid("ack_deadline_seconds", "0 to 600", fmt.Sprint(seconds))
	}
	return nil
}

func checkPublish(asked *pb.PublishRequest) error {
	if count := len(asked.Messages); count == 0 || count > mostMessages {
		return invalid("messages", "1 to 1000 messages", fmt.Sprint(count))
	}
	if total := size(asked.Messages); total > largestRequest {
		return invalid("messages", "at most 10 MB", fmt.Sprint(total))
	}
	for _, message := range asked.Messages {
		if len(message.Data) == 0 && len(message.Attributes) == 0 {
			return invalid("message", "data or attributes", "neither")
		}
		if len(message.OrderingKey) > longestOrder {
			return invalid("ordering_key", "at most 1024 bytes", fmt.Sprint(len(message.OrderingKey)))
		}
		if len(message.Attributes) > mostAttributes {
			return invalid("attributes", "at most 100", fmt.Sprint(len(message.Attributes)))
		}
		for key, value := range message.Attributes {
			if len(key) == 0 || len(key) > longestKey || len(value) > longestValue {
				return invalid("attributes", "keys of 1 to 256 and values of at most 1024 bytes", key)
			}
		}
	}
	return nil
}
