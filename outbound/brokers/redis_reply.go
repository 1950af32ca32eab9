package brokers

import (
	"bytes"
	"cmp"
	"net"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
)

// redisReplies describe the errors of Redis by their first words.
var redisReplies = map[string]*Error{
	"NOAUTH":      {eventhook.ErrorAuth, "the server requires a password"},
	"WRONGPASS":   {eventhook.ErrorAuth, "the server does not accept the credentials"},
	"NOPERM":      {eventhook.ErrorAuth, "the credentials may not add to the stream (XADD)"},
	"DENIED":      {eventhook.ErrorAuth, "the server is in protected mode: it takes only connections of its machine"},
	"WRONGTYPE":   {eventhook.ErrorRefused, "the key of the stream holds another type of value"},
	"OOM":         {eventhook.ErrorRefused, "the server has no memory left (maxmemory)"},
	"READONLY":    {eventhook.ErrorRefused, "the server is a replica, which takes no messages"},
	"MISCONF":     {eventhook.ErrorRefused, "the server takes no messages, because it cannot store its data on disk"},
	"NOREPLICAS":  {eventhook.ErrorRefused, "the server has too few replicas (min-replicas-to-write)"},
	"LOADING":     {eventhook.ErrorRefused, "the server is loading its data"},
	"BUSY":        {eventhook.ErrorRefused, "the server is busy with a script"},
	"MASTERDOWN":  {eventhook.ErrorRefused, "the server is a replica without its master"},
	"CLUSTERDOWN": {eventhook.ErrorRefused, "the cluster is down"},
	"MOVED":       {eventhook.ErrorRefused, "the stream is on another node of a cluster; name that node in url"},
	"ASK":         {eventhook.ErrorRefused, "the stream moves to another node of a cluster"},
}

// knownRedisFailure describes an error of a server, nil if the error is another one.
func knownRedisFailure(err error) *Error {
	switch {
	case !isReply(err):
		return nil
	case strings.Contains(err.Error(), "max number of clients"):
		return Errorf(eventhook.ErrorRefused, "the server has too many connections (maxclients)")
	}
	code, _, _ := strings.Cut(err.Error(), " ")
	return redisReplies[code]
}

// redisFailure describes the errors of a server. It returns other errors unchanged.
func redisFailure(err error) error {
	if known := knownRedisFailure(err); known != nil {
		return known
	}
	switch {
	case !isReply(err):
		return err
	case strings.HasPrefix(err.Error(), "ERR unknown command"): // which repeats the message
		return Errorf(eventhook.ErrorRefused, "the server has no streams (XADD)")
	}
	return Errorf(eventhook.ErrorRefused, "the server answered %s", eventhook.SanitizeLabel(err.Error()))
}

var (
	errClosed     = &Error{eventhook.ErrorClosed, "the connection was closed"}
	errManyFields = &Error{eventhook.ErrorRefused, "an entry of the stream has more than 100 fields; remove the entry"}
	errNoRedis    = &Error{eventhook.ErrorClosed, "the server does not speak the protocol of Redis"}
	errUnexpected = &Error{eventhook.ErrorClosed, "the server sends replies that belong to no message"}
)

// redisTypes are the first characters of replies.
const redisTypes = "+-:$*"

// maxReply is the maximum length of a line, or a string, of a reply to a publisher in bytes.
const maxReply = 1 << 10

// smallReplies is a connection to Redis that fails when a reply announces a large string, or a list that is
// not expected: redigo allocates the announced memory at once.
type smallReplies struct {
	net.Conn
	max   int    // of a string, in bytes; 0 means maxReply
	lists int    // elements of lists that the server may send; each list needs one more
	line  []byte // the read part of the current line
	skip  int    // bytes of the current string that were not read
}

func (s *smallReplies) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		if skipped := min(s.skip, len(rest)); skipped > 0 {
			s.skip -= skipped
			rest = rest[skipped:]
			continue
		}
		line, next, isWhole := bytes.Cut(rest, []byte("\n"))
		s.line = append(s.line, line...)
		switch {
		case len(s.line) > 0 && !strings.ContainsRune(redisTypes, rune(s.line[0])):
			return 0, errNoRedis
		case len(s.line) > maxReply:
			return 0, errUnexpected
		}
		if isWhole {
			if err := s.endLine(); err != nil {
				return 0, err
			}
		}
		rest = next
	}
	return n, err
}

// endLine returns an error if the current line cannot begin or be a reply, and starts another line.
func (s *smallReplies) endLine() error {
	line := bytes.TrimSuffix(s.line, []byte("\r"))
	s.line = s.line[:0]
	if len(line) == 0 {
		return errNoRedis
	}
	if line[0] != '$' && line[0] != '*' {
		return nil
	}
	length, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		return errUnexpected
	}
	if line[0] == '*' {
		s.lists -= max(length, 0) + 1
		switch {
		case s.lists >= 0:
			return nil
		case s.max > 0:
			return errManyFields
		}
		return errUnexpected
	}
	if length >= 0 {
		s.skip = length + len("\r\n")
	}
	switch {
	case length <= cmp.Or(s.max, maxReply):
		return nil
	case s.max > 0:
		return errTooLarge
	}
	return errUnexpected
}
