package brokers

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventhook/eventhook"
)

// describe returns the error of a message, and decides whether the connection takes further messages.
func (c *kafkaConnection) describe(ctx context.Context, r *kgo.Record, err error) error {
	if r.Partition == noPartition {
		c.client.ForceMetadataRefresh() // the topic may have got more partitions
		return Errorf(eventhook.ErrorRefused, "the topic has no partition with the number at partition_path")
	}
	if _, isAnswer := errors.AsType[*kerr.Error](err); !isAnswer || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		c.retired.Store(true)
	}
	if ctx.Err() != nil {
		err = c.trouble(err)
	}
	return kafkaFailure(err)
}

// trouble returns why a broker cannot be reached now, or otherwise if all can be reached.
func (c *kafkaConnection) trouble(otherwise error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range c.troubles {
		return err
	}
	return otherwise
}

func isLoginError(err error) bool {
	return errors.Is(err, kerr.SaslAuthenticationFailed) || errors.Is(err, kerr.UnsupportedSaslMechanism) ||
		errors.Is(err, kerr.IllegalSaslState)
}

// kafkaFailure describes the errors of brokers.
func kafkaFailure(err error) error {
	answer, isAnswer := errors.AsType[*kerr.Error](err)
	_, isDropped := errors.AsType[*kgo.ErrFirstReadEOF](err)
	switch {
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return Errorf(eventhook.ErrorAuth, "the broker does not offer the mechanism")
	case isLoginError(err):
		return Errorf(eventhook.ErrorAuth, "the broker does not accept the credentials, or they have expired")
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return Errorf(eventhook.ErrorAuth, "the credentials may not write to the topic")
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return Errorf(eventhook.ErrorAuth, "the credentials may not write: Kafka before 3.0 needs the permission IDEMPOTENT_WRITE")
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return Errorf(eventhook.ErrorRefused, "the topic does not exist, or the credentials may not see it")
	case errors.Is(err, kerr.MessageTooLarge):
		return Errorf(eventhook.ErrorRefused, "the message is larger than the topic accepts")
	case isAnswer:
		return Errorf(eventhook.ErrorRefused, "Kafka answered %s: %s", answer.Message, answer.Description)
	case isDropped:
		return Errorf(eventhook.ErrorClosed, "the broker closed the connection at once: check tls and username")
	}
	return err
}
