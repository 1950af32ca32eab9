package targets

import "github.com/eventhook/eventhook"

// RedisStream adds messages to a stream of Redis, or of a server that speaks its protocol.
type RedisStream struct {
	RedisServer
	Stream    string `json:"stream" maxLength:"255" example:"orders:{key}" doc:"The key of the stream. {key} stands for the value at key_path."`
	MaxLength int    `json:"max_length,omitempty" minimum:"0" doc:"The number of entries to which the stream is trimmed, approximately (MAXLEN ~). 0 keeps all."`
	MessageSettings
}

// Check implements Settings.
func (s *RedisStream) Check() eventhook.Faults {
	f := s.RedisServer.Check()
	if s.Stream == "" || !isText(s.Stream) || len(s.Stream) > maxPlace {
		f.Add("stream", "must be 1 to %d bytes of text", maxPlace)
	}
	checkKeyed(&f, "stream", s.Stream, s.KeyPath)
	if s.MaxLength < 0 {
		f.Add("max_length", "%d, must not be negative", s.MaxLength)
	}
	return append(f, s.MessageSettings.Check()...)
}

// Compile implements Settings.
func (s *RedisStream) Compile(d Deps) (Effector, error) {
	return compileBroker(d, "redis_stream", s, s.MessageSettings)
}

// Place implements Broker.
func (s *RedisStream) Place() string { return s.Stream }

// StreamOf returns the stream of a message with a key.
func (s *RedisStream) StreamOf(key string) string { return withKey(s.Stream, key) }

var _ Broker = (*RedisStream)(nil)
