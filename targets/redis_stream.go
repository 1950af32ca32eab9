package targets

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
)

// RedisStream adds messages to a stream of Redis, or of a server that speaks its protocol.
type RedisStream struct {
	URL       string `json:"url" maxLength:"2048" example:"rediss://redis.example:6379/0" doc:"The server, with the scheme redis or rediss (TLS), and the number of the database as its path; without one: 0. It must not contain a user or a password."`
	Stream    string `json:"stream" maxLength:"255" example:"orders:{key}" doc:"The key of the stream. {key} stands for the value at key_path."`
	MaxLength int    `json:"max_length,omitempty" minimum:"0" doc:"The number of entries to which the stream is trimmed, approximately (MAXLEN ~). 0 keeps all."`
	Username  string `json:"username,omitempty" maxLength:"255" doc:"User name, for servers with access control lists."`
	Password  string `json:"password,omitempty" secret:"url" maxLength:"4096" doc:"Password."`
	CA        string `json:"ca,omitempty" maxLength:"65536" doc:"Certificates in PEM that replace the system's authorities."`
	MessageSettings
}

var redisDatabase = regexp.MustCompile(`^[0-9]{1,5}$`)

// Check implements Settings.
func (s *RedisStream) Check() (f eventhook.Faults) {
	checkServer(&f, "url", s.URL, "rediss://redis.example:6379/0", "redis", "rediss")
	if n := s.database(); len(f) == 0 && n != "" && !redisDatabase.MatchString(n) {
		f.Add("url", "must have the number of a database as its path, or none")
	}
	if s.Stream == "" || !isText(s.Stream) || len(s.Stream) > maxPlace {
		f.Add("stream", "must be 1 to %d bytes of text", maxPlace)
	}
	checkKeyed(&f, "stream", s.Stream, s.KeyPath)
	if s.MaxLength < 0 {
		f.Add("max_length", "%d, must not be negative", s.MaxLength)
	}
	if s.Username != "" && s.Password == "" {
		f.Add("password", "is required by username")
	}
	checkCA(&f, s.CA)
	return append(f, s.MessageSettings.Check()...)
}

// Compile implements Settings.
func (s *RedisStream) Compile(d Deps) (Effector, error) {
	return compileBroker(d, "redis_stream", s, s.MessageSettings)
}

// Server implements Broker.
func (s *RedisStream) Server() string { return hostsOf(s.URL) }

// redisPorts are the default ports of the schemes.
var redisPorts = map[string]string{"redis": "6379", "rediss": "6379"}

// Address returns the host and the port of the server.
func (s *RedisStream) Address() string { return addressOf(s.URL, redisPorts) }

// UsesTLS reports whether connections use TLS.
func (s *RedisStream) UsesTLS() bool { return parsed(s.URL).Scheme == "rediss" }

// Database returns the number of the database.
func (s *RedisStream) Database() int {
	n, _ := strconv.Atoi(s.database()) // "" is 0
	return n
}

func (s *RedisStream) database() string { return strings.TrimPrefix(parsed(s.URL).Path, "/") }

// Place implements Broker.
func (s *RedisStream) Place() string { return s.Stream }

// StreamOf returns the stream of a message with a key.
func (s *RedisStream) StreamOf(key string) string { return withKey(s.Stream, key) }

func (s *RedisStream) connection() any { return []string{s.URL, s.Username, s.Password, s.CA} }

var _ Broker = (*RedisStream)(nil)
