package brokers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// sqsStored is a message in the queue. It is hidden after it was received, until a request makes it visible
// again: the fake has no visibility timeout.
type sqsStored struct {
	sqsMessage
	id       string
	isHidden bool
}

func (s *sqsServer) store(m sqsMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	s.stored = append(s.stored, &sqsStored{sqsMessage: m, id: fmt.Sprintf("m-%p-%d", s, s.count)})
	s.arriveLocked()
}

func (s *sqsServer) arriveLocked() {
	close(s.arrived)
	s.arrived = make(chan struct{})
}

// redrive removes the messages that are hidden.
func (s *sqsServer) redrive(testing.TB) (removed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.stored)
	s.stored = slices.DeleteFunc(s.stored, func(m *sqsStored) bool { return m.isHidden })
	return before - len(s.stored)
}

// expire makes all messages visible, as the visibility timeout does.
func (s *sqsServer) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.stored {
		m.isHidden = false
	}
	s.arriveLocked()
}

// sqsRequest has the members of the requests of consumers.
type sqsRequest struct {
	MaxNumberOfMessages, WaitTimeSeconds, VisibilityTimeout int
	MessageAttributeNames, MessageSystemAttributeNames      []string
	ReceiptHandle                                           string
	Entries                                                 []struct {
		ID            string `json:"Id"`
		ReceiptHandle string
	}
}

// consume answers the requests of consumers. The receipt handle of a message is its id.
func (s *sqsServer) consume(w http.ResponseWriter, r *http.Request, operation string, body []byte) {
	var q sqsRequest
	_ = json.Unmarshal(body, &q)
	switch operation {
	case "AmazonSQS.ReceiveMessage":
		_ = json.NewEncoder(w).Encode(map[string]any{"Messages": s.receive(r, q)})
	case "AmazonSQS.DeleteMessageBatch":
		s.mu.Lock()
		defer s.mu.Unlock()
		var done []map[string]string
		for _, e := range q.Entries {
			s.stored = slices.DeleteFunc(s.stored, func(m *sqsStored) bool { return m.id == e.ReceiptHandle })
			done = append(done, map[string]string{"Id": e.ID})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"Successful": done, "Failed": []string{}})
	case "AmazonSQS.ChangeMessageVisibility":
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, m := range s.stored {
			m.isHidden = m.isHidden && (m.id != q.ReceiptHandle || q.VisibilityTimeout > 0)
		}
		s.arriveLocked()
		_, _ = w.Write([]byte("{}"))
	}
}

// receive waits for messages, within the time of a long poll.
func (s *sqsServer) receive(r *http.Request, q sqsRequest) []map[string]any {
	end := time.After(time.Duration(q.WaitTimeSeconds) * time.Second)
	for {
		list, arrived := s.take(q)
		if len(list) > 0 {
			return list
		}
		select {
		case <-arrived:
		case <-end:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}

func (s *sqsServer) take(q sqsRequest) (list []map[string]any, arrived <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.stored {
		if m.isHidden || len(list) == q.MaxNumberOfMessages {
			continue
		}
		m.isHidden = true
		one := map[string]any{"MessageId": m.id, "ReceiptHandle": m.id, "Body": m.MessageBody, "MD5OfBody": md5Of(m.MessageBody)}
		if slices.Contains(q.MessageAttributeNames, "All") {
			one["MessageAttributes"] = m.MessageAttributes
		}
		if slices.Contains(q.MessageSystemAttributeNames, "MessageGroupId") {
			one["Attributes"] = map[string]string{"MessageGroupId": m.MessageGroupID}
		}
		list = append(list, one)
	}
	return list, s.arrived
}
