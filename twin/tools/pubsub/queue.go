package main

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	pb "cloud.google.com/go/pubsub/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	usualDeadline  = 10 * time.Second
	usualRetention = 7 * 24 * time.Hour
	shortestWait   = 10 * time.Second // default of a retry policy
	longestWait    = 600 * time.Second
)

// entry is an unacknowledged message of one subscription.
type entry struct {
	message  *pb.PubsubMessage
	number   int64 // position in the order of publication
	attempts int32 // started deliveries
	ackID    string
	deadline time.Time // end of the lease; zero: not leased
	notUntil time.Time // pause after a failed delivery
	holder   *stream
}

func (e *entry) isLeased() bool { return e.ackID != "" }

// queue has the messages that a subscription must deliver, in order of publication.
type queue struct {
	settings *pb.Subscription
	entries  []*entry
	byAckID  map[string]*entry
	streams  []*stream
	next     int // stream that gets the next message
	acked    int64
}

func newQueue(settings *pb.Subscription) *queue {
	return &queue{settings: settings, byAckID: map[string]*entry{}}
}

func (q *queue) add(message *pb.PubsubMessage, number int64) {
	q.entries = append(q.entries, &entry{message: message, number: number})
}

func (q *queue) deadline() time.Duration {
	if q.settings.AckDeadlineSeconds == 0 {
		return usualDeadline
	}
	return time.Duration(q.settings.AckDeadlineSeconds) * time.Second
}

// available returns the messages that can be delivered now. With ordering, it returns only the first
// message of each key.
func (q *queue) available(now time.Time) []*entry {
	var found []*entry
	busy := map[string]bool{}
	for _, each := range q.entries {
		key := each.message.OrderingKey
		ordered := q.settings.EnableMessageOrdering && key != ""
		if ordered && busy[key] {
			continue
		}
		if ordered {
			busy[key] = true
		}
		if !each.isLeased() && !now.Before(each.notUntil) {
			found = append(found, each)
		}
	}
	return found
}

// lease leases an entry and returns the message for its receiver.
func (q *queue) lease(each *entry, to *stream, sequence int64, now time.Time, lasts time.Duration) *pb.ReceivedMessage {
	each.attempts++
	each.ackID = each.message.MessageId + "." + strconv.FormatInt(sequence, 10)
	each.deadline = now.Add(lasts)
	each.holder = to
	q.byAckID[each.ackID] = each
	if to != nil {
		to.held++
		to.heldBytes += proto.Size(each.message)
	}
	received := &pb.ReceivedMessage{AckId: each.ackID, Message: each.message}
	if q.settings.DeadLetterPolicy != nil {
		received.DeliveryAttempt = each.attempts
	}
	return received
}

func (q *queue) release(each *entry) {
	delete(q.byAckID, each.ackID)
	if each.holder != nil {
		each.holder.held--
		each.holder.heldBytes -= proto.Size(each.message)
	}
	each.ackID, each.holder, each.deadline = "", nil, time.Time{}
}

// acknowledge removes a message. An ID whose lease has ended has no effect.
func (q *queue) acknowledge(ackID string) {
	each, found := q.byAckID[ackID]
	if !found {
		return
	}
	q.release(each)
	q.drop(each)
	q.acked++
}

func (q *queue) drop(gone *entry) {
	at := sort.Search(len(q.entries), func(i int) bool { return q.entries[i].number >= gone.number })
	if at < len(q.entries) && q.entries[at] == gone {
		q.entries = append(q.entries[:at], q.entries[at+1:]...)
	}
}

// extend changes the end of a lease. 0 seconds end it: the message was not processed.
func (q *queue) extend(ackID string, seconds int32, now time.Time) {
	each, found := q.byAckID[ackID]
	if !found {
		return
	}
	if seconds == 0 {
		q.fail(each, now)
		return
	}
	each.deadline = now.Add(time.Duration(seconds) * time.Second)
}

func (q *queue) fail(each *entry, now time.Time) {
	q.release(each)
	each.notUntil = now.Add(q.backoff(each.attempts))
}

func (q *queue) backoff(attempts int32) time.Duration {
	policy := q.settings.RetryPolicy
	if policy == nil {
		return 0
	}
	wait, most := shortestWait, longestWait
	if policy.MinimumBackoff != nil {
		wait = policy.MinimumBackoff.AsDuration()
	}
	if policy.MaximumBackoff != nil {
		most = policy.MaximumBackoff.AsDuration()
	}
	for range attempts - 1 {
		if wait *= 2; wait >= most {
			return most
		}
	}
	return min(wait, most)
}

// expire ends leases that were not extended, and removes messages after their retention period.
func (q *queue) expire(now time.Time) {
	retention := usualRetention
	if q.settings.MessageRetentionDuration != nil {
		retention = q.settings.MessageRetentionDuration.AsDuration()
	}
	var gone []*entry
	for _, each := range q.entries {
		if each.isLeased() && now.After(each.deadline) {
			q.fail(each, now)
		}
		if now.Sub(each.message.PublishTime.AsTime()) > retention {
			gone = append(gone, each)
		}
	}
	for _, each := range gone {
		if each.isLeased() {
			q.release(each)
		}
		q.drop(each)
	}
}

// exhausted returns the messages that have reached the attempts of the dead-letter policy.
func (q *queue) exhausted() []*entry {
	policy := q.settings.DeadLetterPolicy
	if policy == nil {
		return nil
	}
	most := policy.MaxDeliveryAttempts
	if most == 0 {
		most = 5
	}
	var found []*entry
	for _, each := range q.entries {
		if !each.isLeased() && each.attempts >= most {
			found = append(found, each)
		}
	}
	return found
}

// deadLetter returns a message in the form for the dead-letter topic.
func (q *queue) deadLetter(each *entry) *pb.PubsubMessage {
	copied := proto.Clone(each.message).(*pb.PubsubMessage)
	if copied.Attributes == nil {
		copied.Attributes = map[string]string{}
	}
	parts := strings.Split(q.settings.Name, "/")
	source := "CloudPubSubDeadLetterSource"
	copied.Attributes[source+"DeliveryCount"] = fmt.Sprint(each.attempts)
	copied.Attributes[source+"Subscription"] = parts[3]
	copied.Attributes[source+"SubscriptionProject"] = parts[1]
	copied.Attributes[source+"TopicPublishTime"] = each.message.PublishTime.AsTime().Format(time.RFC3339Nano)
	return copied
}

func (q *queue) oldest(now time.Time) time.Duration {
	if len(q.entries) == 0 {
		return 0
	}
	return now.Sub(q.entries[0].message.PublishTime.AsTime())
}

func stamped(message *pb.PubsubMessage, number int64, now time.Time) *pb.PubsubMessage {
	message.MessageId = strconv.FormatInt(firstID+number, 10)
	message.PublishTime = timestamppb.New(now)
	return message
}

const firstID = 10_000_000_000_000_000
