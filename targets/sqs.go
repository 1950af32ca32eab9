package targets

import (
	"net/url"
	"strings"

	"github.com/eventhook/eventhook"
)

// SQS sends messages to a queue of Amazon SQS.
type SQS struct {
	QueueURL        string `json:"queue_url" maxLength:"2048" example:"https://sqs.eu-west-1.amazonaws.com/123456789012/orders.fifo" doc:"The URL of the queue. The name of a FIFO queue ends in .fifo: its message group is the key, or default without one, and its deduplication id is the id of the delivery."`
	Region          string `json:"region" maxLength:"64" example:"eu-west-1" doc:"The region of the queue."`
	AccessKeyID     string `json:"access_key_id" maxLength:"255" doc:"Access key id of an identity that may call sqs:SendMessage."`
	SecretAccessKey string `json:"secret_access_key" secret:"queue_url" maxLength:"4096" doc:"Secret access key."`
	SessionToken    string `json:"session_token,omitempty" secret:"queue_url" maxLength:"8192" doc:"Session token of temporary credentials. When they expire, messages fail and are retried."`
	MessageSettings
}

// Check implements Settings.
func (s *SQS) Check() (f eventhook.Faults) {
	if wrong := checkURL(s.QueueURL); wrong != "" {
		f.Add("queue_url", "%s", wrong)
	}
	for _, m := range []struct{ name, value string }{{"region", s.Region}, {"access_key_id", s.AccessKeyID}, {"secret_access_key", s.SecretAccessKey}} {
		if m.value == "" || !isText(m.value) {
			f.Add(m.name, "is required")
		}
	}
	return append(f, s.MessageSettings.Check()...)
}

// Compile implements Settings.
func (s *SQS) Compile(d Deps) (Effector, error) { return compileBroker(d, "sqs", s, s.MessageSettings) }

// Server implements Broker.
func (s *SQS) Server() string { return hostsOf(s.QueueURL) }

// Place implements Broker.
func (s *SQS) Place() string { return s.QueueURL }

// IsFIFO reports whether the queue keeps the order of message groups.
func (s *SQS) IsFIFO() bool { return strings.HasSuffix(s.QueueURL, ".fifo") }

// Endpoint returns the scheme and the host of the queue.
func (s *SQS) Endpoint() string {
	u, err := url.Parse(s.QueueURL)
	if err != nil {
		return "" // Check reports it
	}
	return u.Scheme + "://" + u.Host
}

func (s *SQS) connection() any {
	return []string{s.Endpoint(), s.Region, s.AccessKeyID, s.SecretAccessKey, s.SessionToken}
}

var _ Broker = (*SQS)(nil)
