package targets

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"

	"github.com/eventhook/eventhook"
)

// NATS publishes messages to a subject of NATS, by default through JetStream.
type NATS struct {
	URL         string `json:"url" maxLength:"2048" example:"tls://nats.example:4222" doc:"The servers: one URL, or several separated by commas, with the scheme nats or tls. It must not contain a user or a password."`
	Subject     string `json:"subject" maxLength:"255" example:"orders.{key}" doc:"The subject. {key} stands for the value at key_path; spaces, dots and wildcards in it become _, and so does a missing value."`
	Delivery    string `json:"delivery,omitempty" enum:"jetstream,core" doc:"jetstream, the default: a stream must store the message and acknowledge it. core: the server must have received it; nobody may have subscribed to it."`
	Username    string `json:"username,omitempty" maxLength:"255" doc:"User name. It needs password."`
	Password    string `json:"password,omitempty" secret:"url" maxLength:"4096" doc:"Password of username."`
	Token       string `json:"token,omitempty" secret:"url" maxLength:"4096" doc:"Token, instead of username."`
	Credentials string `json:"credentials,omitempty" secret:"url" maxLength:"16384" doc:"The content of a .creds file, with a user JWT and its seed, instead of username."`
	CA          string `json:"ca,omitempty" maxLength:"65536" doc:"Certificates in PEM that replace the system's authorities."`
	MessageSettings
}

// natsSubject has tokens without white space and wildcards.
var natsSubject = regexp.MustCompile(`^[^\s.*>]+(\.[^\s.*>]+)*$`)

// Check implements Settings.
func (s *NATS) Check() (f eventhook.Faults) {
	checkServers(&f, "url", s.URL, "tls://nats.example:4222", "nats", "tls")
	if !natsSubject.MatchString(s.Subject) || strings.HasPrefix(s.Subject, "$") || len(s.Subject) > maxPlace {
		f.Add("subject", "must be a subject without wildcards, such as orders.created or orders.{key}")
	}
	checkKeyed(&f, "subject", s.Subject, s.KeyPath)
	checkOneOf(&f, "delivery", s.Delivery, "jetstream", "core")
	checkLogin(&f, s.Username, s.Password)
	if methods := countSet(s.Username, s.Token, s.Credentials); methods > 1 {
		f.Add("", "username, token and credentials exclude each other: set one of them")
	}
	checkCA(&f, s.CA)
	return append(f, s.MessageSettings.Check()...)
}

// Compile implements Settings.
func (s *NATS) Compile(d Deps) (Effector, error) {
	return compileBroker(d, "nats", s, s.MessageSettings)
}

// Server implements Broker.
func (s *NATS) Server() string { return hostsOf(s.URL) }

// Place implements Broker.
func (s *NATS) Place() string { return s.Subject }

func (s *NATS) connection() any {
	return []string{s.URL, s.Username, s.Password, s.Token, s.Credentials, s.CA}
}

// SubjectOf returns the subject of a message with a key.
func (s *NATS) SubjectOf(key string) string {
	return withKey(s.Subject, cmp.Or(strings.Map(func(c rune) rune {
		if c <= ' ' || c == 0x7f || strings.ContainsRune(".*>", c) {
			return '_'
		}
		return c
	}, key), "_"))
}

var _ Broker = (*NATS)(nil)

// hostsOf returns the hosts of a list of URLs, with their ports.
func hostsOf(urls string) string {
	var hosts []string
	for text := range strings.SplitSeq(urls, ",") {
		if u, err := url.Parse(strings.TrimSpace(text)); err == nil {
			hosts = append(hosts, u.Host)
		}
	}
	return strings.Join(hosts, ", ")
}
