package consumers

import (
	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// RedisStream consumes a stream of Redis as a consumer of a group.
type RedisStream struct {
	targets.RedisServer
	Stream  string `json:"stream" maxLength:"255" example:"orders" doc:"The key of the stream. It must exist."`
	Group   string `json:"group" maxLength:"255" example:"eventhook" doc:"The consumer group, which keeps what was consumed. The gateway creates it if it does not exist."`
	StartAt string `json:"start_at,omitempty" enum:"oldest,newest" doc:"Where a group begins that the gateway creates. The default is oldest."`
}

// Check implements targets.Checked.
func (s *RedisStream) Check() eventhook.Faults {
	f := s.RedisServer.Check()
	checkPlace(&f, "stream", s.Stream)
	checkPlace(&f, "group", s.Group)
	checkStart(&f, s.StartAt)
	return f
}

// Place implements Settings.
func (s *RedisStream) Place() string { return "stream " + s.Stream + ", group " + s.Group }
