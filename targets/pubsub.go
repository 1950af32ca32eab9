package targets

import (
	"cmp"
	"regexp"

	"github.com/eventhook/eventhook"
)

// PubSub publishes messages to a topic of Google Cloud Pub/Sub.
type PubSub struct {
	Project     string `json:"project" maxLength:"63" example:"my-project" doc:"Id of the project."`
	Topic       string `json:"topic" maxLength:"255" example:"orders" doc:"Id of the topic. It must exist."`
	Endpoint    string `json:"endpoint,omitempty" maxLength:"255" example:"europe-west1-pubsub.googleapis.com:443" doc:"Host and port of a regional endpoint. The default is pubsub.googleapis.com:443. The key of a message is its ordering key."`
	Credentials string `json:"credentials" secret:"endpoint" maxLength:"16384" doc:"The JSON key of a service account that may publish to the topic."`
	MessageSettings
}

var (
	pubsubProject = regexp.MustCompile(`^[a-z0-9.:-]{1,63}$`)
	pubsubTopic   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._~+%-]{2,254}$`)
)

// Check implements Settings.
func (s *PubSub) Check() (f eventhook.Faults) {
	if !pubsubProject.MatchString(s.Project) {
		f.Add("project", "must be the id of a project, such as my-project")
	}
	if !pubsubTopic.MatchString(s.Topic) {
		f.Add("topic", "must be the id of a topic: a letter, followed by 2 to 254 letters, digits or -._~+%%")
	}
	if s.Endpoint != "" {
		checkAddress(&f, "endpoint", s.Endpoint, "europe-west1-pubsub.googleapis.com:443")
	}
	if s.Credentials == "" {
		f.Add("credentials", "is required: the JSON key of a service account")
	}
	return append(f, s.MessageSettings.Check()...)
}

// Compile implements Settings.
func (s *PubSub) Compile(d Deps) (Effector, error) {
	return compileBroker(d, "pubsub", s, s.MessageSettings)
}

// Server implements Broker.
func (s *PubSub) Server() string { return cmp.Or(s.Endpoint, "pubsub.googleapis.com:443") }

// Place implements Broker.
func (s *PubSub) Place() string { return "projects/" + s.Project + "/topics/" + s.Topic }

func (s *PubSub) connection() any { return []string{s.Server(), s.Project, s.Credentials} }

var _ Broker = (*PubSub)(nil)
