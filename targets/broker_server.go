package targets

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
)

// The types in this file say how to reach a broker, and with which credentials. The settings of targets, and of the
// sources that consume messages, embed them.

// NATSServer is a server of NATS, or a cluster.
type NATSServer struct {
	URL         string `json:"url" maxLength:"2048" example:"tls://nats.example:4222" doc:"The servers: one URL, or several separated by commas, with the scheme nats or tls. It must not contain a user or a password."`
	Username    string `json:"username,omitempty" maxLength:"255" doc:"User name. It needs password."`
	Password    string `json:"password,omitempty" secret:"url" maxLength:"4096" doc:"Password of username."`
	Token       string `json:"token,omitempty" secret:"url" maxLength:"4096" doc:"Token, instead of username."`
	Credentials string `json:"credentials,omitempty" secret:"url" maxLength:"16384" doc:"The content of a .creds file, with a user JWT and its seed, instead of username."`
	CA          string `json:"ca,omitempty" maxLength:"65536" doc:"Certificates in PEM that replace the system's authorities."`
}

// Check reports every fault by its member.
func (s *NATSServer) Check() (f eventhook.Faults) {
	checkServers(&f, "url", s.URL, "tls://nats.example:4222", "nats", "tls")
	if len(f) == 0 && slices.ContainsFunc(s.Servers(), func(one string) bool { return parsed(one).Scheme != parsed(s.Servers()[0]).Scheme }) {
		f.Add("url", "must have the scheme tls for all servers, or nats for all")
	}
	checkLogin(&f, s.Username, s.Password)
	if methods := countSet(s.Username, s.Token, s.Credentials); methods > 1 {
		f.Add("", "username, token and credentials exclude each other: set one of them")
	}
	checkCA(&f, s.CA)
	return f
}

// Server names the server for users. It has no credentials.
func (s *NATSServer) Server() string { return hostsOf(s.URL) }

// Servers returns the URLs of the servers.
func (s *NATSServer) Servers() []string { return splitList(s.URL) }

// UsesTLS reports whether connections use TLS, also if the server does not require it.
func (s *NATSServer) UsesTLS() bool {
	return slices.ContainsFunc(s.Servers(), func(one string) bool { return parsed(one).Scheme == "tls" })
}

func (s *NATSServer) connection() any {
	return []string{s.URL, s.Username, s.Password, s.Token, s.Credentials, s.CA}
}

// KafkaCluster is a cluster of Kafka, or of brokers that speak its protocol.
type KafkaCluster struct {
	Brokers   string `json:"brokers" maxLength:"2048" example:"broker-1.example:9092,broker-2.example:9092" doc:"Host and port of one or more brokers, separated by commas."`
	TLS       *bool  `json:"tls,omitempty" doc:"Whether to connect with TLS. The default is true."`
	Mechanism string `json:"mechanism,omitempty" enum:"plain,scram-sha-256,scram-sha-512" doc:"The SASL mechanism. The default is plain if username is set."`
	Username  string `json:"username,omitempty" maxLength:"255" doc:"User name. It needs password."`
	Password  string `json:"password,omitempty" secret:"brokers" maxLength:"4096" doc:"Password of username."`
	CA        string `json:"ca,omitempty" maxLength:"65536" doc:"Certificates in PEM that replace the system's authorities."`
}

// Check reports every fault by its member.
func (s *KafkaCluster) Check() (f eventhook.Faults) {
	checkAddresses(&f, "brokers", s.Brokers, "broker.example:9092")
	checkOneOf(&f, "mechanism", s.Mechanism, saslMechanisms...)
	checkLogin(&f, s.Username, s.Password)
	if s.Mechanism != "" && s.Username == "" {
		f.Add("username", "is required by mechanism")
	}
	checkCA(&f, s.CA)
	return f
}

// Server names the server for users. It has no credentials.
func (s *KafkaCluster) Server() string { return s.Brokers }

// Addresses returns the host and the port of each broker.
func (s *KafkaCluster) Addresses() []string { return splitList(s.Brokers) }

// UsesTLS reports whether connections use TLS.
func (s *KafkaCluster) UsesTLS() bool { return s.TLS == nil || *s.TLS }

func (s *KafkaCluster) connection() any {
	return []any{s.Brokers, s.UsesTLS(), s.Mechanism, s.Username, s.Password, s.CA}
}

// AMQPServer is a virtual host of RabbitMQ, or of another server for AMQP 0-9-1.
type AMQPServer struct {
	URL      string `json:"url" maxLength:"2048" example:"amqps://rabbit.example/production" doc:"The server, with the scheme amqp or amqps and the virtual host as its path; without one: /. It must not contain a user or a password."`
	Username string `json:"username,omitempty" maxLength:"255" doc:"User name. It needs password. Without it: guest."`
	Password string `json:"password,omitempty" secret:"url" maxLength:"4096" doc:"Password of username."`
	CA       string `json:"ca,omitempty" maxLength:"65536" doc:"Certificates in PEM that replace the system's authorities."`
}

// Check reports every fault by its member.
func (s *AMQPServer) Check() (f eventhook.Faults) {
	checkServer(&f, "url", s.URL, "amqps://rabbit.example/production", "amqp", "amqps")
	if host := s.VirtualHost(); len(f) == 0 && (!isText(host) || len(host) > maxPlace) {
		f.Add("url", "must have a virtual host of at most %d bytes of text", maxPlace)
	}
	checkLogin(&f, s.Username, s.Password)
	checkCA(&f, s.CA)
	return f
}

// Server names the server for users. It has no credentials.
func (s *AMQPServer) Server() string { return hostsOf(s.URL) }

// Address returns the host and the port of the server.
func (s *AMQPServer) Address() string { return addressOf(s.URL) }

// UsesTLS reports whether connections use TLS.
func (s *AMQPServer) UsesTLS() bool { return parsed(s.URL).Scheme == "amqps" }

// VirtualHost returns the virtual host: the path of the URL without its first slash.
func (s *AMQPServer) VirtualHost() string {
	return cmp.Or(strings.TrimPrefix(parsed(s.URL).Path, "/"), "/")
}

func (s *AMQPServer) connection() any { return []string{s.URL, s.Username, s.Password, s.CA} }

// RedisServer is a database of Redis, or of a server that speaks its protocol.
type RedisServer struct {
	URL      string `json:"url" maxLength:"2048" example:"rediss://redis.example:6379/0" doc:"The server, with the scheme redis or rediss (TLS), and the number of the database as its path; without one: 0. It must not contain a user or a password."`
	Username string `json:"username,omitempty" maxLength:"255" doc:"User name, for servers with access control lists."`
	Password string `json:"password,omitempty" secret:"url" maxLength:"4096" doc:"Password."`
	CA       string `json:"ca,omitempty" maxLength:"65536" doc:"Certificates in PEM that replace the system's authorities."`
}

var redisDatabase = regexp.MustCompile(`^[0-9]{1,5}$`)

// Check reports every fault by its member.
func (s *RedisServer) Check() (f eventhook.Faults) {
	checkServer(&f, "url", s.URL, "rediss://redis.example:6379/0", "redis", "rediss")
	if n := s.database(); len(f) == 0 && n != "" && !redisDatabase.MatchString(n) {
		f.Add("url", "must have the number of a database as its path, or none")
	}
	if s.Username != "" && s.Password == "" {
		f.Add("password", "is required by username")
	}
	checkCA(&f, s.CA)
	return f
}

// Server names the server for users. It has no credentials.
func (s *RedisServer) Server() string { return hostsOf(s.URL) }

// Address returns the host and the port of the server.
func (s *RedisServer) Address() string { return addressOf(s.URL) }

// UsesTLS reports whether connections use TLS.
func (s *RedisServer) UsesTLS() bool { return parsed(s.URL).Scheme == "rediss" }

// Database returns the number of the database.
func (s *RedisServer) Database() int {
	n, _ := strconv.Atoi(s.database()) // "" is 0
	return n
}

func (s *RedisServer) database() string { return strings.TrimPrefix(parsed(s.URL).Path, "/") }

func (s *RedisServer) connection() any { return []string{s.URL, s.Username, s.Password, s.CA} }

// SQSQueue is a queue of Amazon SQS.
type SQSQueue struct {
	QueueURL        string `json:"queue_url" maxLength:"2048" example:"https://sqs.eu-west-1.amazonaws.com/123456789012/orders" doc:"The URL of the queue. The name of a FIFO queue ends in .fifo."`
	Region          string `json:"region" maxLength:"64" example:"eu-west-1" doc:"The region of the queue."`
	AccessKeyID     string `json:"access_key_id" maxLength:"255" doc:"Access key id of an identity that may use the queue."`
	SecretAccessKey string `json:"secret_access_key" secret:"queue_url" maxLength:"4096" doc:"Secret access key."`
	SessionToken    string `json:"session_token,omitempty" secret:"queue_url" maxLength:"8192" doc:"Session token of temporary credentials. When they expire, requests fail until they are replaced."`
}

// Check reports every fault by its member.
func (s *SQSQueue) Check() (f eventhook.Faults) {
	if wrong := checkURL(s.QueueURL); wrong != "" {
		f.Add("queue_url", "%s", wrong)
	}
	for _, m := range []struct{ name, value string }{{"region", s.Region}, {"access_key_id", s.AccessKeyID}, {"secret_access_key", s.SecretAccessKey}} {
		if m.value == "" || !isText(m.value) {
			f.Add(m.name, "is required")
		}
	}
	return f
}

// Server names the server for users. It has no credentials.
func (s *SQSQueue) Server() string { return hostsOf(s.QueueURL) }

// Place names the queue.
func (s *SQSQueue) Place() string { return s.QueueURL }

// IsFIFO reports whether the queue keeps the order of message groups.
func (s *SQSQueue) IsFIFO() bool { return strings.HasSuffix(s.QueueURL, ".fifo") }

// Endpoint returns the scheme and the host of the queue.
func (s *SQSQueue) Endpoint() string {
	u, err := url.Parse(s.QueueURL)
	if err != nil {
		return "" // Check reports it
	}
	return u.Scheme + "://" + u.Host
}

func (s *SQSQueue) connection() any {
	return []string{s.Endpoint(), s.Region, s.AccessKeyID, s.SecretAccessKey, s.SessionToken}
}

// hostsOf returns the hosts of a list of URLs, with their ports.
func hostsOf(urls string) string {
	var hosts []string
	for _, text := range splitList(urls) {
		if u, err := url.Parse(text); err == nil {
			hosts = append(hosts, u.Host)
		}
	}
	return strings.Join(hosts, ", ")
}

// splitList returns the elements of a list that is separated by commas, without spaces around them.
func splitList(list string) []string {
	elements := strings.Split(list, ",")
	for i, one := range elements {
		elements[i] = strings.TrimSpace(one)
	}
	return elements
}
